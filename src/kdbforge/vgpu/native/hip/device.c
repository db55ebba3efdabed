/* What the one device reports, all of it from the profile. */
#include "state.h"

#include "../common/report.h"

#include <stdio.h>
#include <string.h>

hipError_t device_check(int device)
{
    return device == 0 ? hipSuccess : hipErrorInvalidDevice;
}

/* An unknown attribute is an error that is printed: a made-up value would change what the caller compiles. */
hipError_t device_attribute(int *value, int attribute, int device)
{
    const struct vgpu_profile *const profile = &hip_settings()->profile;
    uint64_t number = 0;

    if (value == NULL) {
        return hipErrorInvalidValue;
    }
    if (device_check(device) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    switch (attribute) {
    case hipDeviceAttributeClockRate: number = profile->clock_khz; break;
    case hipDeviceAttributeCooperativeLaunch: number = profile->cooperative_launch; break;
    case hipDeviceAttributeMaxGridDimX: number = profile->max_grid_dim_x; break;
    case hipDeviceAttributeMemoryClockRate: number = profile->memory_clock_khz; break;
    case hipDeviceAttributeMultiprocessorCount: number = profile->num_cu; break;
    case hipDeviceAttributeMaxSharedMemoryPerBlock: number = profile->lds_bytes; break;
    case hipDeviceAttributeWarpSize: number = profile->wave_size; break;
    default:
        vgpu_report("hipDeviceGetAttribute: attribute %d is not known to the virtual GPU", attribute);
        return hipErrorInvalidValue;
    }
    *value = (int)number; /* the settings hold no number that does not fit */
    return hipSuccess;
}

#define FILL(properties, profile)                                            \
    do {                                                                     \
        memset((properties), 0, sizeof *(properties));                       \
        strcpy((properties)->name, (profile)->product_name);                 \
        strcpy((properties)->gcnArchName, (profile)->gcn_arch_name);         \
        (properties)->totalGlobalMem = (profile)->memory_bytes;              \
        (properties)->sharedMemPerBlock = (profile)->lds_bytes;              \
        (properties)->warpSize = (int32_t)(profile)->wave_size;              \
        (properties)->maxGridSize[0] = (int32_t)(profile)->max_grid_dim_x;   \
        (properties)->clockRate = (int32_t)(profile)->clock_khz;             \
        (properties)->memoryClockRate = (int32_t)(profile)->memory_clock_khz; \
        (properties)->multiProcessorCount = (int32_t)(profile)->num_cu;      \
        (properties)->cooperativeLaunch = (int32_t)(profile)->cooperative_launch; \
    } while (0)

hipError_t device_properties_r0600(struct hipDeviceProp_tR0600 *properties, int device)
{
    if (properties == NULL) {
        return hipErrorInvalidValue;
    }
    if (device_check(device) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    FILL(properties, &hip_settings()->profile);
    return hipSuccess;
}

hipError_t device_properties_r0000(struct hipDeviceProp_tR0000 *properties, int device)
{
    if (properties == NULL) {
        return hipErrorInvalidValue;
    }
    if (device_check(device) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    FILL(properties, &hip_settings()->profile);
    return hipSuccess;
}

hipError_t device_name(char *name, int length, int device)
{
    if (name == NULL || length <= 0) {
        return hipErrorInvalidValue;
    }
    if (device_check(device) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    snprintf(name, (size_t)length, "%s", hip_settings()->profile.product_name);
    return hipSuccess;
}

hipError_t device_total_memory(size_t *bytes, int device)
{
    if (bytes == NULL) {
        return hipErrorInvalidValue;
    }
    if (device_check(device) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    *bytes = hip_settings()->profile.memory_bytes;
    return hipSuccess;
}
