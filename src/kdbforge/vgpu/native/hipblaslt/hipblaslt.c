/* A hipBLASLt without kernels: what MIGraphX calls (7.1). It brings its own code objects, which are never in a
 * kernel database, so a product of matrices is nothing but a launch that is skipped. Facts: hipblaslt.h. */
#define _GNU_SOURCE /* pthread_atfork in a strict C11 build */
#include "../common/handles.h"
#include "../common/locks.h"
#include "../common/report.h"
#include "../common/settings.h"
#include "../common/unsupported.h"

#include <string.h>

typedef int status_t; /* hipblasStatus_t */
enum {
    STATUS_SUCCESS = 0,
    STATUS_NOT_INITIALIZED = 1,
    STATUS_ALLOC_FAILED = 2,
    STATUS_INVALID_VALUE = 3,
    STATUS_NOT_SUPPORTED = 7,
};

enum kind { KIND_HANDLE = 98, KIND_DESCRIPTION, KIND_LAYOUT, KIND_PREFERENCE };

VGPU_DEFINE_LOCK(VGPU_LOCK_LIBRARY);

static struct vgpu_handles objects;

/* What the objects hold changes nothing, so there is nothing behind them. */
static char nothing;

static status_t create(void **object, enum kind kind)
{
    uint64_t value = 0;

    if (object == NULL) {
        return STATUS_INVALID_VALUE;
    }
    value = vgpu_handle_new(&objects, (uint8_t)kind, &nothing);
    *object = (void *)(uintptr_t)value;
    return value == 0 ? STATUS_ALLOC_FAILED : STATUS_SUCCESS;
}

static status_t check(const void *object, enum kind kind)
{
    return vgpu_handle_get(&objects, (uint8_t)kind, (uint64_t)(uintptr_t)object) == NULL ? STATUS_INVALID_VALUE
                                                                                       : STATUS_SUCCESS;
}

static status_t destroy(const void *object, enum kind kind)
{
    const status_t status = check(object, kind);

    if (status == STATUS_SUCCESS) {
        vgpu_handle_free(&objects, (uint64_t)(uintptr_t)object);
    }
    return status;
}

#define HIPBLASLT_CALL(expression)                    \
    do {                                              \
        status_t status = STATUS_NOT_INITIALIZED;     \
        if (vgpu_settings() == NULL) {                \
            return status;                            \
        }                                             \
        take_lock();                                  \
        status = (expression);                        \
        drop_lock();                                  \
        return status;                                \
    } while (0)

/* The arguments of a description that is made, or of an attribute, stay where the caller put them. */
#define OBJECT(prefix, kind)                                    \
    VGPU_EXPORT status_t prefix##Create(void **object);         \
    VGPU_EXPORT status_t prefix##Create(void **object)          \
    {                                                           \
        HIPBLASLT_CALL(create(object, kind));                   \
    }                                                           \
    VGPU_EXPORT status_t prefix##Destroy(const void *object);   \
    VGPU_EXPORT status_t prefix##Destroy(const void *object)    \
    {                                                           \
        HIPBLASLT_CALL(destroy(object, kind));                  \
    }
#define ATTRIBUTES(prefix, kind)                                    \
    VGPU_EXPORT status_t prefix##SetAttribute(const void *object);  \
    VGPU_EXPORT status_t prefix##SetAttribute(const void *object)   \
    {                                                               \
        HIPBLASLT_CALL(check(object, kind));                        \
    }
OBJECT(hipblasLt, KIND_HANDLE)
OBJECT(hipblasLtMatmulDesc, KIND_DESCRIPTION)
OBJECT(hipblasLtMatrixLayout, KIND_LAYOUT)
OBJECT(hipblasLtMatmulPreference, KIND_PREFERENCE)
ATTRIBUTES(hipblasLtMatmulDesc, KIND_DESCRIPTION)
ATTRIBUTES(hipblasLtMatrixLayout, KIND_LAYOUT)
ATTRIBUTES(hipblasLtMatmulPreference, KIND_PREFERENCE)

/* hipblasLtMatmulHeuristicResult_t */
struct heuristic {
    unsigned char algorithm[16];
    size_t most_workspace;
    size_t workspace;
    status_t state;
    float waves;
    int reserved[4];
};
_Static_assert(sizeof(struct heuristic) == 56, "hipblasLtMatmulHeuristicResult_t");

/* One algorithm, which needs no workspace. */
static status_t heuristic(const void *handle, int wanted, struct heuristic *results, int *found)
{
    const status_t status = check(handle, KIND_HANDLE);

    if (status != STATUS_SUCCESS || wanted < 1 || results == NULL || found == NULL) {
        return STATUS_INVALID_VALUE;
    }
    memset(results, 0, sizeof *results);
    results->waves = 1.0F;
    *found = 1;
    return STATUS_SUCCESS;
}

VGPU_EXPORT status_t hipblasLtMatmulAlgoGetHeuristic(const void *handle, const void *description, const void *a,
                                                     const void *b, const void *c, const void *d,
                                                     const void *preference, int wanted,
                                                     struct heuristic *results, int *found);
VGPU_EXPORT status_t hipblasLtMatmulAlgoGetHeuristic(const void *handle, const void *description, const void *a,
                                                     const void *b, const void *c, const void *d,
                                                     const void *preference, int wanted,
                                                     struct heuristic *results, int *found)
{
    (void)description, (void)a, (void)b, (void)c, (void)d, (void)preference;
    HIPBLASLT_CALL(heuristic(handle, wanted, results, found));
}

/* Only the handle matters. */
VGPU_EXPORT status_t hipblasLtMatmul(const void *handle);
VGPU_EXPORT status_t hipblasLtMatmul(const void *handle)
{
    HIPBLASLT_CALL(check(handle, KIND_HANDLE));
}

/* Choosing among its kernels: there are none. */
#define UNSUPPORTED(name)                                                 \
    VGPU_EXPORT status_t name(void);                                      \
    VGPU_EXPORT status_t name(void)                                       \
    {                                                                     \
        static struct vgpu_unsupported function = {#name, 0, 0, NULL};    \
        vgpu_unsupported_call(&function);                                 \
        return STATUS_NOT_SUPPORTED;                                      \
    }
/* clang-format off */
UNSUPPORTED(_ZN13hipblaslt_ext11getAllAlgosEPvNS_8GemmTypeE18hipblasOperation_tS2_11hipDataTypeS3_S3_S3_20hipblasComputeType_tRSt6vectorI33_hipblasLtMatmulHeuristicResult_tSaIS6_EE)
UNSUPPORTED(_ZN13hipblaslt_ext16getIndexFromAlgoER22_hipblasLtMatmulAlgo_t)
UNSUPPORTED(_ZN13hipblaslt_ext17getAlgosFromIndexEPvRSt6vectorIiSaIiEERS1_I33_hipblasLtMatmulHeuristicResult_tSaIS5_EE)
UNSUPPORTED(_ZN13hipblaslt_ext21matmulIsAlgoSupportedEPvP27hipblasLtMatmulDescOpaque_tPKvP29hipblasLtMatrixLayoutOpaque_tS6_S4_S6_S6_R22_hipblasLtMatmulAlgo_tRm)
/* clang-format on */
