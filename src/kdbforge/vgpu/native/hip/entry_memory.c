/* Entry points: memory. A copy or a fill is done when the call returns, on whatever stream it was queued, unless
 * the stream is being captured: then it is noted in the graph, and never done. */
#include "state.h"

#include "../common/report.h"

static hipError_t copy_on(void *target, const void *source, size_t size, int kind, hipStream_t stream)
{
    const hipError_t error = stream_check(stream);
    bool recorded = false;

    if (error != hipSuccess || graph_record(stream, hipGraphNodeTypeMemcpy, NULL, &recorded) != hipSuccess ||
        recorded) {
        return error;
    }
    return memory_copy(target, source, size, kind);
}

static hipError_t fill_on(void *target, unsigned value, size_t width, size_t count, hipStream_t stream)
{
    const hipError_t error = stream_check(stream);
    bool recorded = false;

    if (error != hipSuccess || graph_record(stream, hipGraphNodeTypeMemset, NULL, &recorded) != hipSuccess ||
        recorded) {
        return error;
    }
    return memory_fill(target, value, width, count);
}

VGPU_EXPORT hipError_t hipMalloc(void **pointer, size_t size)
{
    HIP_CALL(memory_allocate(pointer, size));
}

VGPU_EXPORT hipError_t hipFree(void *pointer)
{
    HIP_CALL(memory_free(pointer));
}

VGPU_EXPORT hipError_t hipHostMalloc(void **pointer, size_t size, unsigned flags)
{
    HIP_CALL(memory_allocate_host(pointer, size, flags));
}

VGPU_EXPORT hipError_t hipHostAlloc(void **pointer, size_t size, unsigned flags)
{
    HIP_CALL(memory_allocate_host(pointer, size, flags));
}

VGPU_EXPORT hipError_t hipMallocHost(void **pointer, size_t size)
{
    HIP_CALL(memory_allocate_host(pointer, size, 0));
}

VGPU_EXPORT hipError_t hipMemAllocHost(void **pointer, size_t size)
{
    HIP_CALL(memory_allocate_host(pointer, size, 0));
}

VGPU_EXPORT hipError_t hipHostFree(void *pointer)
{
    HIP_CALL(memory_free_host(pointer));
}

VGPU_EXPORT hipError_t hipFreeHost(void *pointer)
{
    HIP_CALL(memory_free_host(pointer));
}

VGPU_EXPORT hipError_t hipHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    HIP_CALL(memory_host_device_pointer(device, host, flags));
}

VGPU_EXPORT hipError_t hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    HIP_CALL(memory_info(free_bytes, total));
}

VGPU_EXPORT hipError_t hipMemPtrGetInfo(void *pointer, size_t *size)
{
    HIP_CALL(memory_range(NULL, size, pointer));
}

VGPU_EXPORT hipError_t hipMemGetAddressRange(void **base, size_t *size, void *pointer)
{
    HIP_CALL(memory_range(base, size, pointer));
}

VGPU_EXPORT hipError_t hipMemcpy(void *target, const void *source, size_t size, int kind)
{
    HIP_CALL(memory_copy(target, source, size, kind));
}

VGPU_EXPORT hipError_t hipMemcpyAsync(void *target, const void *source, size_t size, int kind,
                                      hipStream_t stream)
{
    HIP_CALL(copy_on(target, source, size, kind, stream));
}

VGPU_EXPORT hipError_t hipMemcpyWithStream(void *target, const void *source, size_t size, int kind,
                                           hipStream_t stream)
{
    HIP_CALL(copy_on(target, source, size, kind, stream));
}

VGPU_EXPORT hipError_t hipMemcpyHtoD(void *target, const void *source, size_t size)
{
    HIP_CALL(memory_copy(target, source, size, hipMemcpyHostToDevice));
}

VGPU_EXPORT hipError_t hipMemcpyHtoDAsync(void *target, const void *source, size_t size, hipStream_t stream)
{
    HIP_CALL(copy_on(target, source, size, hipMemcpyHostToDevice, stream));
}

VGPU_EXPORT hipError_t hipMemcpyDtoH(void *target, void *source, size_t size)
{
    HIP_CALL(memory_copy(target, source, size, hipMemcpyDeviceToHost));
}

VGPU_EXPORT hipError_t hipMemcpyDtoHAsync(void *target, void *source, size_t size, hipStream_t stream)
{
    HIP_CALL(copy_on(target, source, size, hipMemcpyDeviceToHost, stream));
}

VGPU_EXPORT hipError_t hipMemcpyDtoD(void *target, void *source, size_t size)
{
    HIP_CALL(memory_copy(target, source, size, hipMemcpyDeviceToDevice));
}

VGPU_EXPORT hipError_t hipMemcpyDtoDAsync(void *target, void *source, size_t size, hipStream_t stream)
{
    HIP_CALL(copy_on(target, source, size, hipMemcpyDeviceToDevice, stream));
}

VGPU_EXPORT hipError_t hipMemset(void *target, int value, size_t size)
{
    HIP_CALL(memory_fill(target, (unsigned)value, 1, size));
}

VGPU_EXPORT hipError_t hipMemsetAsync(void *target, int value, size_t size, hipStream_t stream)
{
    HIP_CALL(fill_on(target, (unsigned)value, 1, size, stream));
}

VGPU_EXPORT hipError_t hipMemsetD8(void *target, unsigned char value, size_t count)
{
    HIP_CALL(memory_fill(target, value, 1, count));
}

VGPU_EXPORT hipError_t hipMemsetD8Async(void *target, unsigned char value, size_t count, hipStream_t stream)
{
    HIP_CALL(fill_on(target, value, 1, count, stream));
}

VGPU_EXPORT hipError_t hipMemsetD16(void *target, unsigned short value, size_t count)
{
    HIP_CALL(memory_fill(target, value, 2, count));
}

VGPU_EXPORT hipError_t hipMemsetD16Async(void *target, unsigned short value, size_t count, hipStream_t stream)
{
    HIP_CALL(fill_on(target, value, 2, count, stream));
}

VGPU_EXPORT hipError_t hipMemsetD32(void *target, int value, size_t count)
{
    HIP_CALL(memory_fill(target, (unsigned)value, 4, count));
}

VGPU_EXPORT hipError_t hipMemsetD32Async(void *target, int value, size_t count, hipStream_t stream)
{
    HIP_CALL(fill_on(target, (unsigned)value, 4, count, stream));
}

/* Nothing is ever pending: the per-thread variants are the same. */
#define PER_THREAD(name) VGPU_EXPORT extern __typeof__(name) name##_spt __attribute__((alias(#name)))
PER_THREAD(hipMemcpy);
PER_THREAD(hipMemcpyAsync);
PER_THREAD(hipMemset);
PER_THREAD(hipMemsetAsync);
