/* A rocBLAS without kernels: what libMIOpen calls (6.4 and 7.2). rocBLAS brings its own code objects, which are
 * never in a kernel database, so a GEMM is nothing but a launch that is skipped. Facts: rocblas-types.h. */
#define _GNU_SOURCE /* pthread_atfork in a strict C11 build */
#include "../common/handles.h"
#include "../common/locks.h"
#include "../common/report.h"
#include "../common/settings.h"
#include "../common/unsupported.h"

#include <stdlib.h>

typedef int rocblas_status;
enum {
    rocblas_status_success = 0,
    rocblas_status_invalid_handle = 1,
    rocblas_status_not_implemented = 2,
    rocblas_status_invalid_pointer = 3,
    rocblas_status_memory_error = 5,
    rocblas_status_internal_error = 6,
    rocblas_status_invalid_value = 11,
};
enum { rocblas_atomics_not_allowed = 0, rocblas_atomics_allowed = 1 };

struct context {
    void *stream;
    int atomics_mode;
};

enum { HANDLE_CONTEXT = 97 };

VGPU_DEFINE_LOCK(VGPU_LOCK_LIBRARY);

static struct vgpu_handles contexts;

typedef void *rocblas_handle;

static struct context *find(rocblas_handle handle)
{
    return vgpu_handle_get(&contexts, HANDLE_CONTEXT, (uint64_t)(uintptr_t)handle);
}

static rocblas_status create(rocblas_handle *handle)
{
    struct context *context = NULL;
    uint64_t value = 0;

    if (handle == NULL) {
        return rocblas_status_invalid_handle;
    }
    context = calloc(1, sizeof *context);
    if (context != NULL) {
        context->atomics_mode = rocblas_atomics_allowed;
        value = vgpu_handle_new(&contexts, HANDLE_CONTEXT, context);
    }
    if (value == 0) {
        free(context);
        return rocblas_status_memory_error;
    }
    *handle = (rocblas_handle)(uintptr_t)value;
    return rocblas_status_success;
}

static rocblas_status destroy(rocblas_handle handle)
{
    struct context *const context = find(handle);

    if (context == NULL) {
        return rocblas_status_invalid_handle;
    }
    vgpu_handle_free(&contexts, (uint64_t)(uintptr_t)handle);
    free(context);
    return rocblas_status_success;
}

static rocblas_status set_stream(rocblas_handle handle, void *stream)
{
    struct context *const context = find(handle);

    if (context == NULL) {
        return rocblas_status_invalid_handle;
    }
    context->stream = stream;
    return rocblas_status_success;
}

static rocblas_status get_stream(rocblas_handle handle, void **stream)
{
    const struct context *const context = find(handle);

    if (context == NULL || stream == NULL) {
        return context == NULL ? rocblas_status_invalid_handle : rocblas_status_invalid_pointer;
    }
    *stream = context->stream;
    return rocblas_status_success;
}

static rocblas_status set_atomics(rocblas_handle handle, int mode)
{
    struct context *const context = find(handle);

    if (context == NULL) {
        return rocblas_status_invalid_handle;
    }
    if (mode != rocblas_atomics_not_allowed && mode != rocblas_atomics_allowed) {
        return rocblas_status_invalid_value;
    }
    context->atomics_mode = mode;
    return rocblas_status_success;
}

static rocblas_status get_atomics(rocblas_handle handle, int *mode)
{
    const struct context *const context = find(handle);

    if (context == NULL || mode == NULL) {
        return context == NULL ? rocblas_status_invalid_handle : rocblas_status_invalid_pointer;
    }
    *mode = context->atomics_mode;
    return rocblas_status_success;
}

static rocblas_status launch(rocblas_handle handle)
{
    return find(handle) == NULL ? rocblas_status_invalid_handle : rocblas_status_success;
}

#define ROCBLAS_CALL(expression)                      \
    do {                                              \
        rocblas_status status = 0;                    \
        if (vgpu_settings() == NULL) {                \
            return rocblas_status_internal_error;     \
        }                                             \
        take_lock();                                  \
        status = (expression);                        \
        drop_lock();                                  \
        return status;                                \
    } while (0)

VGPU_EXPORT rocblas_status rocblas_create_handle(rocblas_handle *handle)
{
    ROCBLAS_CALL(create(handle));
}

VGPU_EXPORT rocblas_status rocblas_destroy_handle(rocblas_handle handle)
{
    ROCBLAS_CALL(destroy(handle));
}

VGPU_EXPORT rocblas_status rocblas_set_stream(rocblas_handle handle, void *stream)
{
    ROCBLAS_CALL(set_stream(handle, stream));
}

VGPU_EXPORT rocblas_status rocblas_get_stream(rocblas_handle handle, void **stream)
{
    ROCBLAS_CALL(get_stream(handle, stream));
}

VGPU_EXPORT rocblas_status rocblas_set_atomics_mode(rocblas_handle handle, int mode)
{
    ROCBLAS_CALL(set_atomics(handle, mode));
}

VGPU_EXPORT rocblas_status rocblas_get_atomics_mode(rocblas_handle handle, int *mode)
{
    ROCBLAS_CALL(get_atomics(handle, mode));
}

/* The kernels: only the handle matters, the other arguments stay where the caller put them. */
#define GEMM(name)                                       \
    VGPU_EXPORT rocblas_status name(rocblas_handle handle); \
    VGPU_EXPORT rocblas_status name(rocblas_handle handle)  \
    {                                                    \
        ROCBLAS_CALL(launch(handle));                    \
    }
GEMM(rocblas_gemm_ex)
GEMM(rocblas_gemm_strided_batched_ex)
GEMM(rocblas_gemm_ex3)
GEMM(rocblas_gemm_strided_batched_ex3)
GEMM(rocblas_sgemv)

/* Choosing among its kernels, as MIGraphX does when it tunes: there are none. */
#define UNSUPPORTED(name)                                                 \
    VGPU_EXPORT rocblas_status name(void);                                \
    VGPU_EXPORT rocblas_status name(void)                                 \
    {                                                                     \
        static struct vgpu_unsupported function = {#name, 0, 0, NULL};    \
        vgpu_unsupported_call(&function);                                 \
        return rocblas_status_not_implemented;                            \
    }
UNSUPPORTED(rocblas_gemm_ex_get_solutions)
UNSUPPORTED(rocblas_gemm_strided_batched_ex_get_solutions)
