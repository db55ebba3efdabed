/* Entry points: managed and registered memory, and what is known of a pointer. */
#include "state.h"

#include "../common/report.h"

#include <string.h>

/* hipMemoryType (hip/driver_types.h) */
enum { TYPE_UNREGISTERED = 0, TYPE_HOST = 1, TYPE_DEVICE = 2, TYPE_MANAGED = 3 };

static const int invalid_device = -2;

/* hipPointerAttribute_t, since ROCm 6 */
struct attributes {
    int type;
    int device;
    void *device_pointer;
    void *host_pointer;
    int managed;
    unsigned flags;
};

static int type_of(enum memory_kind kind)
{
    return kind == MEMORY_DEVICE ? TYPE_DEVICE : kind == MEMORY_MANAGED ? TYPE_MANAGED : TYPE_HOST;
}

/* A pointer that HIP did not hand out is no error (hip_memory.cpp, ihipPointerGetAttributes). */
static hipError_t get_attributes(struct attributes *attributes, const void *pointer)
{
    struct memory_facts facts;

    if (attributes == NULL || pointer == NULL) {
        return hipErrorInvalidValue;
    }
    memset(attributes, 0, sizeof *attributes);
    if (memory_examine(pointer, &facts) != hipSuccess) {
        attributes->type = TYPE_UNREGISTERED;
        attributes->device = invalid_device;
        return hipSuccess;
    }
    attributes->type = type_of(facts.kind);
    attributes->device = facts.device;
    attributes->device_pointer = (void *)(uintptr_t)pointer;
    attributes->host_pointer = facts.kind == MEMORY_DEVICE ? NULL : (void *)(uintptr_t)pointer;
    attributes->managed = facts.kind == MEMORY_MANAGED;
    attributes->flags = facts.flags;
    return hipSuccess;
}

VGPU_EXPORT hipError_t hipPointerGetAttributes(struct attributes *attributes, const void *pointer)
{
    HIP_CALL(get_attributes(attributes, pointer));
}

/* hipPointer_attribute (hip/hip_runtime_api.h) */
enum {
    ATTRIBUTE_MEMORY_TYPE = 2,
    ATTRIBUTE_DEVICE_POINTER = 3,
    ATTRIBUTE_HOST_POINTER = 4,
    ATTRIBUTE_IS_MANAGED = 8,
    ATTRIBUTE_DEVICE_ORDINAL = 9,
    ATTRIBUTE_RANGE_START = 11,
    ATTRIBUTE_RANGE_SIZE = 12,
};

static hipError_t get_attribute(void *data, int attribute, void *pointer)
{
    struct memory_facts facts;

    if (data == NULL || memory_examine(pointer, &facts) != hipSuccess) {
        return hipErrorInvalidValue;
    }
    switch (attribute) {
    case ATTRIBUTE_MEMORY_TYPE: *(int *)data = type_of(facts.kind); break;
    case ATTRIBUTE_DEVICE_POINTER: *(void **)data = pointer; break;
    case ATTRIBUTE_HOST_POINTER:
        if (facts.kind == MEMORY_DEVICE) {
            return hipErrorInvalidValue;
        }
        *(void **)data = pointer;
        break;
    case ATTRIBUTE_IS_MANAGED: *(bool *)data = facts.kind == MEMORY_MANAGED; break;
    case ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = facts.device; break;
    case ATTRIBUTE_RANGE_START: *(void **)data = facts.base; break;
    case ATTRIBUTE_RANGE_SIZE: *(size_t *)data = facts.size; break;
    default:
        vgpu_report("hipPointerGetAttribute: attribute %d is not known to the virtual GPU", attribute);
        return hipErrorInvalidValue;
    }
    return hipSuccess;
}

VGPU_EXPORT hipError_t hipPointerGetAttribute(void *data, int attribute, void *pointer)
{
    HIP_CALL(get_attribute(data, attribute, pointer));
}

VGPU_EXPORT hipError_t hipMallocManaged(void **pointer, size_t size, unsigned flags)
{
    HIP_CALL(memory_allocate_managed(pointer, size, flags));
}

VGPU_EXPORT hipError_t hipHostRegister(void *pointer, size_t size, unsigned flags)
{
    HIP_CALL(memory_register(pointer, size, flags));
}

VGPU_EXPORT hipError_t hipHostUnregister(void *pointer)
{
    HIP_CALL(memory_unregister(pointer));
}

static hipError_t host_flags(unsigned *flags, const void *pointer)
{
    struct memory_facts facts;

    if (flags == NULL || memory_examine(pointer, &facts) != hipSuccess || facts.kind == MEMORY_DEVICE) {
        return hipErrorInvalidValue;
    }
    *flags = facts.flags;
    return hipSuccess;
}

VGPU_EXPORT hipError_t hipHostGetFlags(unsigned *flags, void *pointer)
{
    HIP_CALL(host_flags(flags, pointer));
}

/* The flags choose a kind of memory (fine-grained, signals ...) that makes no difference here. */
VGPU_EXPORT hipError_t hipExtMallocWithFlags(void **pointer, size_t size, unsigned flags)
{
    (void)flags;
    HIP_CALL(memory_allocate(pointer, size));
}

VGPU_EXPORT hipError_t hipExtHostAlloc(void **pointer, size_t size, unsigned flags)
{
    HIP_CALL(memory_allocate_host(pointer, size, flags));
}

/* Advice on managed memory: the range must be HIP's, and then there is nothing to do. */
static hipError_t advise(const void *pointer, size_t count)
{
    struct memory_facts facts;

    if (memory_examine(pointer, &facts) != hipSuccess ||
        count > facts.size - ((uintptr_t)pointer - (uintptr_t)facts.base)) {
        return hipErrorInvalidValue;
    }
    return hipSuccess;
}

VGPU_EXPORT hipError_t hipMemAdvise(const void *pointer, size_t count, int advice, int device)
{
    (void)advice, (void)device;
    HIP_CALL(advise(pointer, count));
}

VGPU_EXPORT hipError_t hipMemPrefetchAsync(const void *pointer, size_t count, int device, hipStream_t stream)
{
    (void)device;
    HIP_CALL(stream_check(stream) != hipSuccess ? hipErrorInvalidHandle : advise(pointer, count));
}

VGPU_EXPORT hipError_t hipStreamAttachMemAsync(hipStream_t stream, void *pointer, size_t length, unsigned flags)
{
    (void)length, (void)flags;
    HIP_CALL(stream_check(stream) != hipSuccess ? hipErrorInvalidHandle : advise(pointer, 0));
}
