/* Memory pools. What is freed goes back to the system at once, so a pool is a set of settings and a count. */
#include "state.h"

#include <stdlib.h>

/* hipMemPoolAttr (hip/hip_runtime_api.h) */
enum { REUSE_FIRST = 1, REUSE_LAST = 3, RELEASE_THRESHOLD = 4, RESERVED_NOW, RESERVED_HIGH, USED_NOW, USED_HIGH };

struct pool {
    int device;
    int reuse[REUSE_LAST + 1];
    uint64_t release_threshold;
};

static hipMemPool_t default_pools[VGPU_DEVICES_MOST], current_pools[VGPU_DEVICES_MOST];

static struct pool *find(hipMemPool_t pool)
{
    return vgpu_handle_get(&hip_handles, HANDLE_POOL, (uintptr_t)pool);
}

static hipError_t make(hipMemPool_t *handle, int device)
{
    struct pool *const pool = calloc(1, sizeof *pool);

    if (pool != NULL) {
        pool->device = device;
        for (int i = REUSE_FIRST; i <= REUSE_LAST; i++) {
            pool->reuse[i] = 1;
        }
    }
    return hip_publish(handle, HANDLE_POOL, pool);
}

hipError_t pool_create(hipMemPool_t *handle, int device)
{
    if (handle == NULL || device_check(device) != hipSuccess) {
        return hipErrorInvalidValue;
    }
    return make(handle, device);
}

hipError_t pool_destroy(hipMemPool_t handle)
{
    struct pool *const pool = find(handle);

    if (pool == NULL || default_pools[pool->device] == handle) {
        return hipErrorInvalidValue;
    }
    if (current_pools[pool->device] == handle) {
        current_pools[pool->device] = NULL;
    }
    vgpu_handle_free(&hip_handles, (uintptr_t)handle);
    free(pool);
    return hipSuccess;
}

hipError_t pool_default(hipMemPool_t *handle, int device)
{
    hipError_t error = hipSuccess;

    if (handle == NULL || device_check(device) != hipSuccess) {
        return hipErrorInvalidValue;
    }
    if (default_pools[device] == NULL) {
        error = make(&default_pools[device], device);
    }
    *handle = default_pools[device];
    return error;
}

hipError_t pool_current(hipMemPool_t *handle, int device)
{
    if (handle == NULL || device_check(device) != hipSuccess) {
        return hipErrorInvalidValue;
    }
    if (current_pools[device] == NULL) {
        return pool_default(handle, device);
    }
    *handle = current_pools[device];
    return hipSuccess;
}

hipError_t pool_set_current(hipMemPool_t handle, int device)
{
    const struct pool *const pool = find(handle);

    if (device_check(device) != hipSuccess || pool == NULL || pool->device != device) {
        return hipErrorInvalidValue;
    }
    current_pools[device] = handle;
    return hipSuccess;
}

hipError_t pool_check(hipMemPool_t handle)
{
    return find(handle) == NULL ? hipErrorInvalidValue : hipSuccess;
}

hipError_t pool_get(hipMemPool_t handle, int attribute, void *value)
{
    const struct pool *const pool = find(handle);
    size_t unused = 0, total = 0;

    if (pool == NULL || value == NULL || attribute < REUSE_FIRST || attribute > USED_HIGH) {
        return hipErrorInvalidValue;
    }
    if (attribute <= REUSE_LAST) {
        *(int *)value = pool->reuse[attribute];
    } else if (attribute == RELEASE_THRESHOLD) {
        *(uint64_t *)value = pool->release_threshold;
    } else {
        memory_info(&unused, &total); /* all that the device has given out: its pools are not told apart */
        *(uint64_t *)value = total - unused;
    }
    return hipSuccess;
}

hipError_t pool_set(hipMemPool_t handle, int attribute, const void *value)
{
    struct pool *const pool = find(handle);

    if (pool == NULL || value == NULL || attribute < REUSE_FIRST || attribute > USED_HIGH) {
        return hipErrorInvalidValue;
    }
    if (attribute <= REUSE_LAST) {
        pool->reuse[attribute] = *(const int *)value;
    } else if (attribute == RELEASE_THRESHOLD) {
        pool->release_threshold = *(const uint64_t *)value;
    } else if (attribute == RESERVED_NOW || attribute == USED_NOW || *(const uint64_t *)value != 0) {
        return hipErrorInvalidValue; /* only the highest values can be set, and only back to 0 */
    }
    return hipSuccess;
}
