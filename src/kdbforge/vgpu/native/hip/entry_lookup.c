/* Entry points that hand out others by name. */
#include "state.h"

#include "lookup.h"

#include "../common/report.h"

enum { NAME_FOUND = 0, NAME_NOT_FOUND = 1 }; /* HIP_GET_PROC_ADDRESS_* */

static hipError_t look_up(const char *name, void **function, int version, int *found)
{
    if (name == NULL || function == NULL) {
        return hipErrorInvalidValue;
    }
    *function = lookup_entry(name, version);
    if (found != NULL) {
        *found = *function == NULL ? NAME_NOT_FOUND : NAME_FOUND;
    }
    return *function == NULL ? hipErrorNotFound : hipSuccess;
}

VGPU_EXPORT hipError_t hipGetProcAddress(const char *name, void **function, int version, uint64_t flags,
                                         int *found)
{
    (void)flags;
    HIP_CALL(look_up(name, function, version, found));
}

VGPU_EXPORT hipError_t hipGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                              int *found)
{
    (void)flags;
    HIP_CALL(look_up(name, function, 600, found));
}

/* Nothing is ever pending: the per-thread variants are the same. */
#define PER_THREAD(name) VGPU_EXPORT extern __typeof__(name) name##_spt __attribute__((alias(#name)))
PER_THREAD(hipGetDriverEntryPoint);
