/* The state of the virtual GPU. Everything here but the two errors of a thread is guarded by one lock,
 * which `hip_enter` takes and `hip_leave` drops: entry points call the other functions in between. */
#ifndef KDBFORGE_VGPU_HIP_STATE_H
#define KDBFORGE_VGPU_HIP_STATE_H

#include "hip_abi.h"

#include "../common/handles.h"
#include "../common/settings.h"

enum handle_kind { HANDLE_STREAM = 1, HANDLE_EVENT, HANDLE_MODULE, HANDLE_FUNCTION };

/* entry.c: the frame of every call */

/* Count the call and take the lock; an error (and no lock) if the environment is unusable. */
hipError_t hip_enter(void);
/* Drop the lock and remember the result for hipGetLastError. */
hipError_t hip_leave(hipError_t error);
/* Remember a result without holding the lock. */
hipError_t hip_result(hipError_t error);
/* The settings, once hip_enter succeeded. */
const struct vgpu_settings *hip_settings(void);
/* All live handles. */
extern struct vgpu_handles hip_handles;

/* A whole entry point around one expression of type hipError_t. */
#define HIP_CALL(expression)                       \
    do {                                           \
        const hipError_t entered = hip_enter();    \
        if (entered != hipSuccess) {               \
            return hip_result(entered);            \
        }                                          \
        return hip_leave(expression);              \
    } while (0)

/* major_version.c */
extern const int hip_major_version;

/* device.c */
hipError_t device_check(int device);
hipError_t device_attribute(int *value, int attribute, int device);
hipError_t device_properties_r0600(struct hipDeviceProp_tR0600 *properties, int device);
hipError_t device_properties_r0000(struct hipDeviceProp_tR0000 *properties, int device);
hipError_t device_name(char *name, int length, int device);
hipError_t device_total_memory(size_t *bytes, int device);

/* memory.c */
hipError_t memory_allocate(void **pointer, size_t size);
hipError_t memory_allocate_host(void **pointer, size_t size, unsigned flags);
hipError_t memory_free(void *pointer);
hipError_t memory_free_host(void *pointer);
hipError_t memory_info(size_t *free_bytes, size_t *total);
hipError_t memory_range(void **base, size_t *size, const void *pointer);
hipError_t memory_host_device_pointer(void **device, const void *host, unsigned flags);
hipError_t memory_copy(void *target, const void *source, size_t size, int kind);
/* Fill count elements of width 1, 2 or 4 bytes. */
hipError_t memory_fill(void *target, unsigned value, size_t width, size_t count);

/* streams.c */
hipError_t stream_create(hipStream_t *stream, unsigned flags);
hipError_t stream_destroy(hipStream_t stream);
hipError_t stream_check(hipStream_t stream);
hipError_t stream_flags(hipStream_t stream, unsigned *flags);
hipError_t stream_wait_event(hipStream_t stream, hipEvent_t event, unsigned flags);
hipError_t event_create(hipEvent_t *event, unsigned flags);
hipError_t event_destroy(hipEvent_t event);
hipError_t event_check(hipEvent_t event);
hipError_t event_record(hipEvent_t event, hipStream_t stream);
hipError_t event_elapsed(float *milliseconds, hipEvent_t start, hipEvent_t stop);
/* Let one launch go by on the stream. */
void stream_count_launch(hipStream_t stream);

/* modules.c */
hipError_t module_load(hipModule_t *module, const void *image);
hipError_t module_load_file(hipModule_t *module, const char *path);
hipError_t module_unload(hipModule_t module);
hipError_t module_function(hipFunction_t *function, hipModule_t module, const char *name);

/* launch.c */
struct launch {
    hipFunction_t function;
    uint32_t grid[3];
    uint32_t block[3];
    hipStream_t stream;
    hipEvent_t start; /* or NULL */
    hipEvent_t stop;  /* or NULL */
    bool cooperative;
};
hipError_t launch_kernel(const struct launch *launch);

#endif
