/* A rocRAND without kernels: what MIOpenDriver and miopen_gtest call. What a generator would write to the device
 * is not written, as with any launch that is skipped. Facts: rocrand/rocrand.h. */
#define _GNU_SOURCE /* pthread_atfork in a strict C11 build */
#include "../common/handles.h"
#include "../common/locks.h"
#include "../common/report.h"
#include "../common/settings.h"

#include <stdlib.h>

typedef int rocrand_status;
enum {
    ROCRAND_STATUS_SUCCESS = 0,
    ROCRAND_STATUS_NOT_CREATED = 101,
    ROCRAND_STATUS_ALLOCATION_FAILED = 102,
    ROCRAND_STATUS_TYPE_ERROR = 103,
    ROCRAND_STATUS_INTERNAL_ERROR = 107,
};
enum { FIRST_TYPE = 400, LAST_TYPE = 599 }; /* pseudo-random from 400, quasi-random from 500 */

enum { HANDLE_GENERATOR = 98 };

VGPU_DEFINE_LOCK(VGPU_LOCK_LIBRARY);

static struct vgpu_handles generators;

typedef void *rocrand_generator;

static rocrand_status create(rocrand_generator *generator, int type)
{
    static char object; /* a generator has no state that anybody could see */
    uint64_t value = 0;

    if (generator == NULL || type < FIRST_TYPE || type > LAST_TYPE) {
        return ROCRAND_STATUS_TYPE_ERROR;
    }
    value = vgpu_handle_new(&generators, HANDLE_GENERATOR, &object);
    if (value == 0) {
        return ROCRAND_STATUS_ALLOCATION_FAILED;
    }
    *generator = (rocrand_generator)(uintptr_t)value;
    return ROCRAND_STATUS_SUCCESS;
}

static rocrand_status check(rocrand_generator generator)
{
    return vgpu_handle_get(&generators, HANDLE_GENERATOR, (uint64_t)(uintptr_t)generator) == NULL
               ? ROCRAND_STATUS_NOT_CREATED
               : ROCRAND_STATUS_SUCCESS;
}

static rocrand_status destroy(rocrand_generator generator)
{
    const rocrand_status status = check(generator);

    if (status == ROCRAND_STATUS_SUCCESS) {
        vgpu_handle_free(&generators, (uint64_t)(uintptr_t)generator);
    }
    return status;
}

#define ROCRAND_CALL(expression)                      \
    do {                                              \
        rocrand_status status = 0;                    \
        if (vgpu_settings() == NULL) {                \
            return ROCRAND_STATUS_INTERNAL_ERROR;     \
        }                                             \
        take_lock();                                  \
        status = (expression);                        \
        drop_lock();                                  \
        return status;                                \
    } while (0)

VGPU_EXPORT rocrand_status rocrand_create_generator(rocrand_generator *generator, int type)
{
    ROCRAND_CALL(create(generator, type));
}

VGPU_EXPORT rocrand_status rocrand_destroy_generator(rocrand_generator generator)
{
    ROCRAND_CALL(destroy(generator));
}

/* Everything else only needs a live generator. */
#define GENERATOR(name)                                          \
    VGPU_EXPORT rocrand_status name(rocrand_generator generator); \
    VGPU_EXPORT rocrand_status name(rocrand_generator generator)  \
    {                                                            \
        ROCRAND_CALL(check(generator));                          \
    }
GENERATOR(rocrand_generate_uniform)
GENERATOR(rocrand_generate_uniform_double)
GENERATOR(rocrand_generate_uniform_half)
GENERATOR(rocrand_set_offset)
GENERATOR(rocrand_set_ordering)
GENERATOR(rocrand_set_seed)
