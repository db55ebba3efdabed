/* What the environment asks of the virtual GPUs: the device profiles and the modes.
 * Read once per process; there are no defaults. */
#ifndef KDBFORGE_VGPU_SETTINGS_H
#define KDBFORGE_VGPU_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

enum vgpu_compile_mode { VGPU_COMPILE_CAPTURE, VGPU_COMPILE_PASS, VGPU_COMPILE_FORBID };
enum vgpu_launch_mode { VGPU_LAUNCH_SKIP };
enum vgpu_memory_mode { VGPU_MEMORY_RESERVE, VGPU_MEMORY_BACKED };

struct vgpu_profile {
    char gcn_arch_name[64];
    char product_name[128];
    uint64_t num_cu;
    uint64_t wave_size;
    uint64_t lds_bytes;
    uint64_t memory_bytes;
    uint64_t max_grid_dim_x;
    uint64_t cooperative_launch;
    uint64_t clock_khz;
    uint64_t memory_clock_khz;
};

enum { VGPU_DEVICES_MOST = 16 };

struct vgpu_settings {
    struct vgpu_profile profiles[VGPU_DEVICES_MOST]; /* by device number */
    int device_count;
    enum vgpu_compile_mode compile;
    enum vgpu_launch_mode launch;
    enum vgpu_memory_mode memory;
    char journal[4096];
};

/* NULL if the environment is missing or wrong; the reason was printed the first time. */
const struct vgpu_settings *vgpu_settings(void);

/* The name of a compile mode, as it stands in the environment. */
const char *vgpu_compile_mode_name(enum vgpu_compile_mode mode);

#endif
