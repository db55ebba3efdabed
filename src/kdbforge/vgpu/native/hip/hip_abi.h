/* The parts of HIP's binary interface that the virtual GPU serves: constants and struct layouts.
 * Facts from hip/hip_runtime_api.h, hip/hip_ext.h and hip/hip_deprecated.h of ROCm 7.2.4. */
#ifndef KDBFORGE_VGPU_HIP_ABI_H
#define KDBFORGE_VGPU_HIP_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int hipError_t;

enum {
    hipSuccess = 0,
    hipErrorInvalidValue = 1,
    hipErrorOutOfMemory = 2,
    hipErrorNotInitialized = 3,
    hipErrorInvalidConfiguration = 9,
    hipErrorInvalidMemcpyDirection = 21,
    hipErrorInvalidDevice = 101,
    hipErrorInvalidImage = 200,
    hipErrorNoBinaryForGpu = 209,
    hipErrorFileNotFound = 301,
    hipErrorOperatingSystem = 304,
    hipErrorInvalidHandle = 400,
    hipErrorNotFound = 500,
    hipErrorNotSupported = 801,
};

enum hipMemcpyKind {
    hipMemcpyHostToHost = 0,
    hipMemcpyHostToDevice = 1,
    hipMemcpyDeviceToHost = 2,
    hipMemcpyDeviceToDevice = 3,
    hipMemcpyDefault = 4,
    hipMemcpyDeviceToDeviceNoCU = 1024,
};

/* Those device attributes that a profile answers. */
enum {
    hipDeviceAttributeClockRate = 5,
    hipDeviceAttributeCooperativeLaunch = 10,
    hipDeviceAttributeMaxGridDimX = 29,
    hipDeviceAttributeMemoryClockRate = 60,
    hipDeviceAttributeMultiprocessorCount = 63,
    hipDeviceAttributeMaxSharedMemoryPerBlock = 74,
    hipDeviceAttributeTotalGlobalMem = 84,
    hipDeviceAttributeWarpSize = 87,
};

enum { hipStreamNonBlocking = 1 };
enum { hipEventDisableTiming = 0x2 };
static const unsigned hipEventKnownFlags = 0xE0000007U;
static const unsigned hipHostMallocKnownFlags = 0xF0000007U;

/* Opaque handles are numbers here (handles.h). The first two streams need no creation. */
typedef void *hipStream_t;
typedef void *hipEvent_t;
typedef void *hipModule_t;
typedef void *hipFunction_t;
#define hipStreamLegacy ((uintptr_t)1)
#define hipStreamPerThread ((uintptr_t)2)

/* hipDeviceProp_tR0600, since ROCm 6; members that nobody can fill from a profile are unnamed gaps. */
struct hipDeviceProp_tR0600 {
    char name[256];
    char gap0[32];
    uint64_t totalGlobalMem;
    uint64_t sharedMemPerBlock;
    int32_t regsPerBlock;
    int32_t warpSize;
    char gap1[24];
    int32_t maxGridSize[3];
    int32_t clockRate;
    char gap2[36];
    int32_t multiProcessorCount;
    char gap3[216];
    int32_t memoryClockRate;
    char gap4[76];
    int32_t cooperativeLaunch;
    char gap5[468];
    char gcnArchName[256];
    char gap6[56];
};

/* hipDeviceProp_tR0000, up to ROCm 5. */
struct hipDeviceProp_tR0000 {
    char name[256];
    uint64_t totalGlobalMem;
    uint64_t sharedMemPerBlock;
    int32_t regsPerBlock;
    int32_t warpSize;
    char gap0[16];
    int32_t maxGridSize[3];
    int32_t clockRate;
    int32_t memoryClockRate;
    char gap1[20];
    int32_t multiProcessorCount;
    char gap2[56];
    char gcnArchName[256];
    char gap3[4];
    int32_t cooperativeLaunch;
    char gap4[132];
};

#define VGPU_AT(type, member, offset) \
    _Static_assert(offsetof(struct type, member) == (offset), #type "." #member)
VGPU_AT(hipDeviceProp_tR0600, totalGlobalMem, 288);
VGPU_AT(hipDeviceProp_tR0600, warpSize, 308);
VGPU_AT(hipDeviceProp_tR0600, maxGridSize, 336);
VGPU_AT(hipDeviceProp_tR0600, clockRate, 348);
VGPU_AT(hipDeviceProp_tR0600, multiProcessorCount, 388);
VGPU_AT(hipDeviceProp_tR0600, memoryClockRate, 608);
VGPU_AT(hipDeviceProp_tR0600, cooperativeLaunch, 688);
VGPU_AT(hipDeviceProp_tR0600, gcnArchName, 1160);
_Static_assert(sizeof(struct hipDeviceProp_tR0600) == 1472, "hipDeviceProp_tR0600");
VGPU_AT(hipDeviceProp_tR0000, totalGlobalMem, 256);
VGPU_AT(hipDeviceProp_tR0000, warpSize, 276);
VGPU_AT(hipDeviceProp_tR0000, maxGridSize, 296);
VGPU_AT(hipDeviceProp_tR0000, clockRate, 308);
VGPU_AT(hipDeviceProp_tR0000, memoryClockRate, 312);
VGPU_AT(hipDeviceProp_tR0000, multiProcessorCount, 336);
VGPU_AT(hipDeviceProp_tR0000, gcnArchName, 396);
VGPU_AT(hipDeviceProp_tR0000, cooperativeLaunch, 656);
_Static_assert(sizeof(struct hipDeviceProp_tR0000) == 792, "hipDeviceProp_tR0000");
#undef VGPU_AT

#endif
