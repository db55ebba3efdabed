/* Entry points: memory in the order of a stream, and its pools. */
#include "state.h"

#include "../common/report.h"

/* The beginning of hipMemPoolProps: allocation type, handle type, location. */
struct properties {
    int allocation;
    int handles;
    int location_type;
    int location;
};

static hipError_t create(hipMemPool_t *pool, const struct properties *properties)
{
    if (properties == NULL || properties->location_type != 1 /* hipMemLocationTypeDevice */) {
        return hipErrorInvalidValue;
    }
    /* Pools that other processes open are not there, as the device's attribute says. */
    return properties->handles != 0 ? hipErrorNotSupported : pool_create(pool, properties->location);
}

static hipError_t allocate(void **pointer, size_t size, hipMemPool_t pool, bool named, hipStream_t stream)
{
    if (stream_check(stream) != hipSuccess) {
        return hipErrorInvalidHandle;
    }
    return named && pool_check(pool) != hipSuccess ? hipErrorInvalidValue : memory_allocate(pointer, size);
}

VGPU_EXPORT hipError_t hipMallocAsync(void **pointer, size_t size, hipStream_t stream)
{
    HIP_CALL(allocate(pointer, size, NULL, false, stream));
}

VGPU_EXPORT hipError_t hipMallocFromPoolAsync(void **pointer, size_t size, hipMemPool_t pool,
                                              hipStream_t stream)
{
    HIP_CALL(allocate(pointer, size, pool, true, stream));
}

VGPU_EXPORT hipError_t hipFreeAsync(void *pointer, hipStream_t stream)
{
    HIP_CALL(stream_check(stream) != hipSuccess ? hipErrorInvalidHandle : memory_free(pointer));
}

VGPU_EXPORT hipError_t hipMemPoolCreate(hipMemPool_t *pool, const struct properties *properties)
{
    HIP_CALL(create(pool, properties));
}

VGPU_EXPORT hipError_t hipMemPoolDestroy(hipMemPool_t pool)
{
    HIP_CALL(pool_destroy(pool));
}

VGPU_EXPORT hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device)
{
    HIP_CALL(pool_default(pool, device));
}

VGPU_EXPORT hipError_t hipDeviceGetMemPool(hipMemPool_t *pool, int device)
{
    HIP_CALL(pool_current(pool, device));
}

VGPU_EXPORT hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool)
{
    HIP_CALL(pool_set_current(pool, device));
}

VGPU_EXPORT hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, int attribute, void *value)
{
    HIP_CALL(pool_get(pool, attribute, value));
}

VGPU_EXPORT hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, int attribute, void *value)
{
    HIP_CALL(pool_set(pool, attribute, value));
}

VGPU_EXPORT hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t least)
{
    (void)least;
    HIP_CALL(pool_check(pool));
}

/* Every device reaches all memory anyway. */
VGPU_EXPORT hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const void *list, size_t count)
{
    HIP_CALL(list == NULL && count > 0 ? hipErrorInvalidValue : pool_check(pool));
}

static hipError_t get_access(int *flags, hipMemPool_t pool, const void *location)
{
    if (flags == NULL || location == NULL) {
        return hipErrorInvalidValue;
    }
    *flags = 3; /* hipMemAccessFlagsProtReadWrite */
    return pool_check(pool);
}

VGPU_EXPORT hipError_t hipMemPoolGetAccess(int *flags, hipMemPool_t pool, const void *location)
{
    HIP_CALL(get_access(flags, pool, location));
}
