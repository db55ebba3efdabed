/* What the devices report: all of it from their profiles, or the same for every GPU that ROCm knows. */
#include "state.h"

#include "../common/report.h"

#include <stdio.h>
#include <string.h>

static __thread int current_device;

/* The same for all: hip_device.cpp and rocdevice.cpp of ROCm 6 and 7. */
enum {
    MOST_WORK_ITEMS = 1024, /* of a workgroup, in all and in each dimension */
    MOST_GRID_YZ = 65536,
};

hipError_t device_check(int device)
{
    return device >= 0 && device < hip_settings()->device_count ? hipSuccess : hipErrorInvalidDevice;
}

int device_current(void)
{
    return current_device;
}

hipError_t device_set(int device)
{
    const hipError_t error = device_check(device);

    if (error == hipSuccess) {
        current_device = device;
    }
    return error;
}

const struct vgpu_profile *device_profile(int device)
{
    return &hip_settings()->profiles[device];
}

static int digit(char text)
{
    return text <= '9' ? text - '0' : text - 'a' + 10;
}

/* gfx1030 is 10.3, gfx90a is 9.0: the last two characters are minor version and stepping. */
hipError_t device_version(int *major, int *minor, int device)
{
    const char *const arch = device_profile(device)->gcn_arch_name + strlen("gfx");
    const size_t length = strcspn(arch, ":");

    *major = 0;
    for (size_t i = 0; i + 2 < length; i++) {
        *major = *major * 10 + digit(arch[i]);
    }
    *minor = digit(arch[length - 2]);
    return hipSuccess;
}

/* 40 waves up to gfx908, 32 since gfx90a and in RDNA (max_waves_per_cu, as ROCR tells HIP). */
int device_most_resident(int device)
{
    static const char *const forty[] = {"gfx8", "gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909",
                                        "gfx90c"};
    const struct vgpu_profile *const profile = device_profile(device);

    for (size_t i = 0; i < sizeof forty / sizeof forty[0]; i++) {
        if (strncmp(profile->gcn_arch_name, forty[i], strlen(forty[i])) == 0) {
            return 40 * (int)profile->wave_size;
        }
    }
    return 32 * (int)profile->wave_size;
}

/* An unknown attribute is an error that is printed: a made-up value would change what the caller compiles. */
static hipError_t attribute_of(uint64_t *number, int attribute, int device)
{
    const struct vgpu_profile *const profile = device_profile(device);
    int major = 0, minor = 0;

    device_version(&major, &minor, device);
    switch (attribute) {
    case hipDeviceAttributeClockRate: *number = profile->clock_khz; break;
    case hipDeviceAttributeCooperativeLaunch: *number = profile->cooperative_launch; break;
    case hipDeviceAttributeMaxGridDimX: *number = profile->max_grid_dim_x; break;
    case hipDeviceAttributeMemoryClockRate: *number = profile->memory_clock_khz; break;
    case hipDeviceAttributeMultiprocessorCount:
    case hipDeviceAttributePhysicalMultiProcessorCount: *number = profile->num_cu; break;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
    case hipDeviceAttributeSharedMemPerBlockOptin:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor: *number = profile->lds_bytes; break;
    case hipDeviceAttributeWarpSize: *number = profile->wave_size; break;
    case hipDeviceAttributeComputeCapabilityMajor: *number = (uint64_t)major; break;
    case hipDeviceAttributeComputeCapabilityMinor: *number = (uint64_t)minor; break;
    case hipDeviceAttributeMaxBlockDimX:
    case hipDeviceAttributeMaxBlockDimY:
    case hipDeviceAttributeMaxBlockDimZ:
    case hipDeviceAttributeMaxThreadsPerBlock: *number = MOST_WORK_ITEMS; break;
    case hipDeviceAttributeMaxGridDimY:
    case hipDeviceAttributeMaxGridDimZ: *number = MOST_GRID_YZ; break;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor:
        *number = (uint64_t)device_most_resident(device);
        break;
    case hipDeviceAttributeMaxBlocksPerMultiProcessor:
        *number = (uint64_t)device_most_resident(device) / MOST_WORK_ITEMS;
        break;
    case hipDeviceAttributePciBusId: *number = (uint64_t)device + 1; break;
    case hipDeviceAttributeCanMapHostMemory:
    case hipDeviceAttributeConcurrentKernels:
    case hipDeviceAttributeHostRegisterSupported:
    case hipDeviceAttributeManagedMemory:
    case hipDeviceAttributeConcurrentManagedAccess:
    case hipDeviceAttributeMemoryPoolsSupported:
    case hipDeviceAttributeStreamPrioritiesSupported:
    case hipDeviceAttributeUnifiedAddressing: *number = 1; break;
    case hipDeviceAttributePciDeviceId: /* the number of the slot */
    case hipDeviceAttributePciDomainId:
    case hipDeviceAttributeComputeMode:
    case hipDeviceAttributeComputePreemptionSupported:
    case hipDeviceAttributeIntegrated:
    case hipDeviceAttributeIsMultiGpuBoard:
    case hipDeviceAttributeKernelExecTimeout:
    case hipDeviceAttributePageableMemoryAccess:
    case hipDeviceAttributeTccDriver:
    /* What the virtual GPU does not have is said not to be there. */
    case hipDeviceAttributeCanUseStreamWaitValue:
    case hipDeviceAttributeCooperativeMultiDeviceLaunch:
    case hipDeviceAttributeImageSupport:
    case hipDeviceAttributeMemoryPoolSupportedHandleTypes:
    case hipDeviceAttributeVirtualMemoryManagementSupported: *number = 0; break;
    default:
        vgpu_report("hipDeviceGetAttribute: attribute %d is not known to the virtual GPU", attribute);
        return hipErrorInvalidValue;
    }
    return hipSuccess;
}

hipError_t device_attribute(int *value, int attribute, int device)
{
    uint64_t number = 0;
    hipError_t error = hipSuccess;

    if (value == NULL) {
        return hipErrorInvalidValue;
    }
    if (device_check(device) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    error = attribute_of(&number, attribute, device);
    if (error == hipSuccess) {
        *value = (int)number; /* the settings hold no number that does not fit */
    }
    return error;
}

#define FILL(properties, device)                                             \
    do {                                                                     \
        const struct vgpu_profile *const profile = device_profile(device);   \
        memset((properties), 0, sizeof *(properties));                       \
        strcpy((properties)->name, profile->product_name);                   \
        strcpy((properties)->gcnArchName, profile->gcn_arch_name);           \
        (properties)->totalGlobalMem = profile->memory_bytes;                \
        (properties)->sharedMemPerBlock = profile->lds_bytes;                \
        (properties)->warpSize = (int32_t)profile->wave_size;                \
        (properties)->maxThreadsPerBlock = MOST_WORK_ITEMS;                  \
        for (int i = 0; i < 3; i++) {                                        \
            (properties)->maxThreadsDim[i] = MOST_WORK_ITEMS;                \
            (properties)->maxGridSize[i] = MOST_GRID_YZ;                     \
        }                                                                    \
        (properties)->maxGridSize[0] = (int32_t)profile->max_grid_dim_x;     \
        (properties)->clockRate = (int32_t)profile->clock_khz;               \
        (properties)->memoryClockRate = (int32_t)profile->memory_clock_khz;  \
        (properties)->multiProcessorCount = (int32_t)profile->num_cu;        \
        (properties)->maxThreadsPerMultiProcessor = device_most_resident(device); \
        (properties)->cooperativeLaunch = (int32_t)profile->cooperative_launch; \
        (properties)->pciBusID = (device) + 1;                               \
        (properties)->concurrentKernels = 1;                                 \
        (properties)->canMapHostMemory = 1;                                  \
        (properties)->managedMemory = 1;                                     \
        device_version(&(properties)->major, &(properties)->minor, device);  \
    } while (0)

hipError_t device_properties_r0600(struct hipDeviceProp_tR0600 *properties, int device)
{
    if (properties == NULL) {
        return hipErrorInvalidValue;
    }
    if (device_check(device) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    FILL(properties, device);
    properties->memoryPoolsSupported = 1;
    properties->unifiedAddressing = 1;
    properties->streamPrioritiesSupported = 1;
    properties->hostRegisterSupported = 1;
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
    FILL(properties, device);
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
    snprintf(name, (size_t)length, "%s", device_profile(device)->product_name);
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
    *bytes = device_profile(device)->memory_bytes;
    return hipSuccess;
}
