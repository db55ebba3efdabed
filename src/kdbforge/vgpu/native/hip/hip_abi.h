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
    hipErrorInvalidPitchValue = 12,
    hipErrorInvalidSymbol = 13,
    hipErrorInvalidMemcpyDirection = 21,
    hipErrorMissingConfiguration = 52,
    hipErrorInvalidDeviceFunction = 98,
    hipErrorInvalidDevice = 101,
    hipErrorInvalidImage = 200,
    hipErrorInvalidContext = 201,
    hipErrorNoBinaryForGpu = 209,
    hipErrorFileNotFound = 301,
    hipErrorOperatingSystem = 304,
    hipErrorInvalidHandle = 400,
    hipErrorIllegalState = 401,
    hipErrorNotFound = 500,
    hipErrorPeerAccessAlreadyEnabled = 704,
    hipErrorPeerAccessNotEnabled = 705,
    hipErrorHostMemoryAlreadyRegistered = 712,
    hipErrorHostMemoryNotRegistered = 713,
    hipErrorNotSupported = 801,
    hipErrorStreamCaptureUnsupported = 900,
};

enum hipMemcpyKind {
    hipMemcpyHostToHost = 0,
    hipMemcpyHostToDevice = 1,
    hipMemcpyDeviceToHost = 2,
    hipMemcpyDeviceToDevice = 3,
    hipMemcpyDefault = 4,
    hipMemcpyDeviceToDeviceNoCU = 1024,
};

/* Those device attributes that are answered. */
enum {
    hipDeviceAttributeCanMapHostMemory = 3,
    hipDeviceAttributeClockRate = 5,
    hipDeviceAttributeComputeMode = 6,
    hipDeviceAttributeComputePreemptionSupported = 7,
    hipDeviceAttributeConcurrentKernels = 8,
    hipDeviceAttributeConcurrentManagedAccess = 9,
    hipDeviceAttributeCooperativeLaunch = 10,
    hipDeviceAttributeCooperativeMultiDeviceLaunch = 11,
    hipDeviceAttributeIntegrated = 16,
    hipDeviceAttributeIsMultiGpuBoard = 17,
    hipDeviceAttributeKernelExecTimeout = 18,
    hipDeviceAttributeComputeCapabilityMajor = 23,
    hipDeviceAttributeManagedMemory = 24,
    hipDeviceAttributeMaxBlocksPerMultiProcessor = 25,
    hipDeviceAttributeMaxBlockDimX = 26,
    hipDeviceAttributeMaxBlockDimY = 27,
    hipDeviceAttributeMaxBlockDimZ = 28,
    hipDeviceAttributeMaxGridDimX = 29,
    hipDeviceAttributeMaxGridDimY = 30,
    hipDeviceAttributeMaxGridDimZ = 31,
    hipDeviceAttributeMaxThreadsPerBlock = 56,
    hipDeviceAttributeMaxThreadsPerMultiProcessor = 57,
    hipDeviceAttributeMemoryClockRate = 60,
    hipDeviceAttributeComputeCapabilityMinor = 61,
    hipDeviceAttributeMultiprocessorCount = 63,
    hipDeviceAttributePageableMemoryAccess = 65,
    hipDeviceAttributePciBusId = 67,
    hipDeviceAttributePciDeviceId = 68,
    hipDeviceAttributePciDomainId = 69,
    hipDeviceAttributeMaxSharedMemoryPerBlock = 74,
    hipDeviceAttributeSharedMemPerBlockOptin = 75,
    hipDeviceAttributeStreamPrioritiesSupported = 78,
    hipDeviceAttributeTccDriver = 80,
    hipDeviceAttributeUnifiedAddressing = 85,
    hipDeviceAttributeWarpSize = 87,
    hipDeviceAttributeMemoryPoolsSupported = 88,
    hipDeviceAttributeVirtualMemoryManagementSupported = 89,
    hipDeviceAttributeHostRegisterSupported = 90,
    hipDeviceAttributeMemoryPoolSupportedHandleTypes = 91,
    hipDeviceAttributeMaxSharedMemoryPerMultiprocessor = 10002,
    hipDeviceAttributeCanUseStreamWaitValue = 10013,
    hipDeviceAttributeImageSupport = 10014,
    hipDeviceAttributePhysicalMultiProcessorCount = 10015,
};

enum { hipStreamNonBlocking = 1 };
enum { hipEventDisableTiming = 0x2 };
static const unsigned hipEventKnownFlags = 0xE0000007U;
static const unsigned hipHostMallocKnownFlags = 0xF0000007U;
static const unsigned hipHostRegisterKnownFlags = 0x8000001FU;
enum { hipMemAttachGlobal = 1, hipMemAttachHost = 2 };

enum {
    hipGraphNodeTypeKernel = 0,
    hipGraphNodeTypeMemcpy = 1,
    hipGraphNodeTypeMemset = 2,
    hipGraphNodeTypeHost = 3,
    hipGraphNodeTypeGraph = 4,
    hipGraphNodeTypeEmpty = 5,
    hipGraphNodeTypeWaitEvent = 6,
    hipGraphNodeTypeEventRecord = 7,
};

struct dim3 {
    uint32_t x, y, z;
};

/* Opaque handles are numbers here (handles.h). The first two streams need no creation. */
typedef void *hipStream_t;
typedef void *hipEvent_t;
typedef void *hipModule_t;
typedef void *hipFunction_t;
typedef void *hipGraph_t;
typedef void *hipGraphNode_t;
typedef void *hipGraphExec_t;
typedef void *hipMemPool_t;
typedef void *hipCtx_t;
#define hipStreamLegacy ((uintptr_t)1)
#define hipStreamPerThread ((uintptr_t)2)

/* hipDeviceProp_tR0600, since ROCm 6; members that nobody can fill are unnamed gaps. */
struct hipDeviceProp_tR0600 {
    char name[256];
    char gap0[32];
    uint64_t totalGlobalMem;
    uint64_t sharedMemPerBlock;
    int32_t regsPerBlock;
    int32_t warpSize;
    char gap1[8];
    int32_t maxThreadsPerBlock;
    int32_t maxThreadsDim[3];
    int32_t maxGridSize[3];
    int32_t clockRate;
    char gap2[8];
    int32_t major;
    int32_t minor;
    char gap3[20];
    int32_t multiProcessorCount;
    char gap4[8];
    int32_t canMapHostMemory;
    char gap5[172];
    int32_t concurrentKernels;
    char gap6[4];
    int32_t pciBusID;
    char gap7[16];
    int32_t unifiedAddressing;
    int32_t memoryClockRate;
    char gap8[12];
    int32_t maxThreadsPerMultiProcessor;
    int32_t streamPrioritiesSupported;
    char gap9[20];
    int32_t managedMemory;
    char gap10[32];
    int32_t cooperativeLaunch;
    char gap11[36];
    int32_t hostRegisterSupported;
    char gap12[12];
    int32_t memoryPoolsSupported;
    char gap13[412];
    char gcnArchName[256];
    char gap14[56];
};

/* hipDeviceProp_tR0000, up to ROCm 5. */
struct hipDeviceProp_tR0000 {
    char name[256];
    uint64_t totalGlobalMem;
    uint64_t sharedMemPerBlock;
    int32_t regsPerBlock;
    int32_t warpSize;
    int32_t maxThreadsPerBlock;
    int32_t maxThreadsDim[3];
    int32_t maxGridSize[3];
    int32_t clockRate;
    int32_t memoryClockRate;
    char gap0[12];
    int32_t major;
    int32_t minor;
    int32_t multiProcessorCount;
    char gap1[4];
    int32_t maxThreadsPerMultiProcessor;
    char gap2[12];
    int32_t concurrentKernels;
    char gap3[4];
    int32_t pciBusID;
    char gap4[16];
    int32_t canMapHostMemory;
    char gap5[4];
    char gcnArchName[256];
    char gap6[4];
    int32_t cooperativeLaunch;
    char gap7[112];
    int32_t managedMemory;
    char gap8[16];
};

#define VGPU_AT(type, member, offset) \
    _Static_assert(offsetof(struct type, member) == (offset), #type "." #member)
VGPU_AT(hipDeviceProp_tR0600, totalGlobalMem, 288);
VGPU_AT(hipDeviceProp_tR0600, sharedMemPerBlock, 296);
VGPU_AT(hipDeviceProp_tR0600, regsPerBlock, 304);
VGPU_AT(hipDeviceProp_tR0600, warpSize, 308);
VGPU_AT(hipDeviceProp_tR0600, maxThreadsPerBlock, 320);
VGPU_AT(hipDeviceProp_tR0600, maxThreadsDim, 324);
VGPU_AT(hipDeviceProp_tR0600, maxGridSize, 336);
VGPU_AT(hipDeviceProp_tR0600, clockRate, 348);
VGPU_AT(hipDeviceProp_tR0600, major, 360);
VGPU_AT(hipDeviceProp_tR0600, minor, 364);
VGPU_AT(hipDeviceProp_tR0600, multiProcessorCount, 388);
VGPU_AT(hipDeviceProp_tR0600, canMapHostMemory, 400);
VGPU_AT(hipDeviceProp_tR0600, concurrentKernels, 576);
VGPU_AT(hipDeviceProp_tR0600, pciBusID, 584);
VGPU_AT(hipDeviceProp_tR0600, unifiedAddressing, 604);
VGPU_AT(hipDeviceProp_tR0600, memoryClockRate, 608);
VGPU_AT(hipDeviceProp_tR0600, maxThreadsPerMultiProcessor, 624);
VGPU_AT(hipDeviceProp_tR0600, streamPrioritiesSupported, 628);
VGPU_AT(hipDeviceProp_tR0600, managedMemory, 652);
VGPU_AT(hipDeviceProp_tR0600, cooperativeLaunch, 688);
VGPU_AT(hipDeviceProp_tR0600, hostRegisterSupported, 728);
VGPU_AT(hipDeviceProp_tR0600, memoryPoolsSupported, 744);
VGPU_AT(hipDeviceProp_tR0600, gcnArchName, 1160);
_Static_assert(sizeof(struct hipDeviceProp_tR0600) == 1472, "hipDeviceProp_tR0600");
VGPU_AT(hipDeviceProp_tR0000, totalGlobalMem, 256);
VGPU_AT(hipDeviceProp_tR0000, sharedMemPerBlock, 264);
VGPU_AT(hipDeviceProp_tR0000, regsPerBlock, 272);
VGPU_AT(hipDeviceProp_tR0000, warpSize, 276);
VGPU_AT(hipDeviceProp_tR0000, maxThreadsPerBlock, 280);
VGPU_AT(hipDeviceProp_tR0000, maxThreadsDim, 284);
VGPU_AT(hipDeviceProp_tR0000, maxGridSize, 296);
VGPU_AT(hipDeviceProp_tR0000, clockRate, 308);
VGPU_AT(hipDeviceProp_tR0000, memoryClockRate, 312);
VGPU_AT(hipDeviceProp_tR0000, major, 328);
VGPU_AT(hipDeviceProp_tR0000, minor, 332);
VGPU_AT(hipDeviceProp_tR0000, multiProcessorCount, 336);
VGPU_AT(hipDeviceProp_tR0000, maxThreadsPerMultiProcessor, 344);
VGPU_AT(hipDeviceProp_tR0000, concurrentKernels, 360);
VGPU_AT(hipDeviceProp_tR0000, pciBusID, 368);
VGPU_AT(hipDeviceProp_tR0000, canMapHostMemory, 388);
VGPU_AT(hipDeviceProp_tR0000, gcnArchName, 396);
VGPU_AT(hipDeviceProp_tR0000, cooperativeLaunch, 656);
VGPU_AT(hipDeviceProp_tR0000, managedMemory, 772);
_Static_assert(sizeof(struct hipDeviceProp_tR0000) == 792, "hipDeviceProp_tR0000");
#undef VGPU_AT

#endif
