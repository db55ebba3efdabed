/* The parts of comgr's binary interface that the capturing library serves.
 * Facts from amd_comgr/amd_comgr.h, interface versions 2 and 3; they differ in languages and actions. */
#ifndef KDBFORGE_VGPU_COMGR_ABI_H
#define KDBFORGE_VGPU_COMGR_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int amd_comgr_status_t;

enum {
    AMD_COMGR_STATUS_SUCCESS = 0,
    AMD_COMGR_STATUS_ERROR = 1,
    AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT = 2,
    AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES = 3,
};

enum { AMD_COMGR_LANGUAGE_NONE = 0 };

enum data_kind {
    DATA_UNDEF = 0,
    DATA_SOURCE = 1,
    DATA_INCLUDE = 2,
    DATA_LOG = 5,
    DATA_BC = 6,
    DATA_RELOCATABLE = 7,
    DATA_EXECUTABLE = 8,
    DATA_BYTES = 9,
    DATA_FATBIN = 0x10, /* no kinds between */
    DATA_LAST = 0x15,   /* interface 3; 2 ends at 0x11 to 0x14, depending on the release */
};

/* All handles are structs of one number. */
typedef struct { uint64_t handle; } amd_comgr_data_t;
typedef struct { uint64_t handle; } amd_comgr_data_set_t;
typedef struct { uint64_t handle; } amd_comgr_action_info_t;

#endif
