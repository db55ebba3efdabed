/* Entry points: how many workgroups fit on a compute unit. It is bounded by work-items and LDS only: what registers
 * a kernel takes is not looked at, so the answer is the best case. */
#include "state.h"

#include "../common/report.h"

#include <string.h>

enum { MOST_WORK_ITEMS = 1024 };

static hipError_t blocks_of(int *blocks, int size, size_t shared)
{
    const struct vgpu_profile *const profile = device_profile(device_current());
    const int wave = (int)profile->wave_size;
    int fit = 0;

    if (blocks == NULL || size <= 0 || size > MOST_WORK_ITEMS) {
        return hipErrorInvalidValue;
    }
    fit = device_most_resident(device_current()) / ((size + wave - 1) / wave * wave);
    if (shared > 0 && profile->lds_bytes / shared < (size_t)fit) {
        fit = (int)(profile->lds_bytes / shared);
    }
    *blocks = fit;
    return hipSuccess;
}

static hipError_t best_size(int *grid, int *size, size_t shared, int limit)
{
    int blocks = 0;
    hipError_t error = hipSuccess;

    if (grid == NULL || size == NULL || limit < 0) {
        return hipErrorInvalidValue;
    }
    *size = limit == 0 || limit > MOST_WORK_ITEMS ? MOST_WORK_ITEMS : limit;
    error = blocks_of(&blocks, *size, shared);
    *grid = blocks * (int)device_profile(device_current())->num_cu;
    return error;
}

static hipError_t check_host(const void *host)
{
    hipFunction_t function = NULL;

    return program_function(&function, host);
}

static hipError_t first(hipError_t one, hipError_t other)
{
    return one != hipSuccess ? one : other;
}

#define OF_FUNCTION(function) function_facts(function, NULL, NULL)

VGPU_EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int size,
                                                                    size_t shared)
{
    HIP_CALL(first(check_host(host), blocks_of(blocks, size, shared)));
}

VGPU_EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host,
                                                                             int size, size_t shared,
                                                                             unsigned flags)
{
    (void)flags;
    HIP_CALL(first(check_host(host), blocks_of(blocks, size, shared)));
}

VGPU_EXPORT hipError_t hipOccupancyMaxPotentialBlockSize(int *grid, int *size, const void *host, size_t shared,
                                                         int limit)
{
    HIP_CALL(first(check_host(host), best_size(grid, size, shared, limit)));
}

VGPU_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, hipFunction_t function,
                                                                          int size, size_t shared)
{
    HIP_CALL(first(OF_FUNCTION(function), blocks_of(blocks, size, shared)));
}

VGPU_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                                   hipFunction_t function,
                                                                                   int size, size_t shared,
                                                                                   unsigned flags)
{
    (void)flags;
    HIP_CALL(first(OF_FUNCTION(function), blocks_of(blocks, size, shared)));
}

VGPU_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSize(int *grid, int *size, hipFunction_t function,
                                                               size_t shared, int limit)
{
    HIP_CALL(first(OF_FUNCTION(function), best_size(grid, size, shared, limit)));
}

VGPU_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *size,
                                                                        hipFunction_t function, size_t shared,
                                                                        int limit, unsigned flags)
{
    (void)flags;
    HIP_CALL(first(OF_FUNCTION(function), best_size(grid, size, shared, limit)));
}

/* hipFuncAttributes; what stands in a kernel's metadata (registers, LDS, scratch) is not looked at and 0. */
struct function_attributes {
    int binary_version, cache_mode;
    size_t constant_bytes, local_bytes;
    int most_dynamic_shared, most_work_items, registers, carve_out, ptx_version;
    size_t shared_bytes;
};
_Static_assert(sizeof(struct function_attributes) == 56, "hipFuncAttributes");

static hipError_t attributes_of(struct function_attributes *attributes, const void *host)
{
    const hipError_t error = attributes == NULL ? hipErrorInvalidValue : check_host(host);
    int major = 0, minor = 0;

    if (error == hipSuccess) {
        device_version(&major, &minor, device_current());
        memset(attributes, 0, sizeof *attributes);
        attributes->binary_version = attributes->ptx_version = major * 10 + minor;
        attributes->most_work_items = MOST_WORK_ITEMS;
        attributes->most_dynamic_shared = (int)device_profile(device_current())->lds_bytes;
    }
    return error;
}

VGPU_EXPORT hipError_t hipFuncGetAttributes(struct function_attributes *attributes, const void *host)
{
    HIP_CALL(attributes_of(attributes, host));
}
