/* Entry points: streams and events. */
#include "state.h"

#include "../common/report.h"

VGPU_EXPORT hipError_t hipStreamCreate(hipStream_t *stream)
{
    HIP_CALL(stream_create(stream, 0, 0));
}

VGPU_EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
    HIP_CALL(stream_create(stream, flags, 0));
}

VGPU_EXPORT hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority)
{
    HIP_CALL(stream_create(stream, flags, priority));
}

VGPU_EXPORT hipError_t hipStreamDestroy(hipStream_t stream)
{
    HIP_CALL(stream_destroy(stream));
}

VGPU_EXPORT hipError_t hipStreamSynchronize(hipStream_t stream)
{
    HIP_CALL(stream_check(stream));
}

VGPU_EXPORT hipError_t hipStreamQuery(hipStream_t stream)
{
    HIP_CALL(stream_check(stream));
}

VGPU_EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    HIP_CALL(stream_wait_event(stream, event, flags));
}

VGPU_EXPORT hipError_t hipStreamGetFlags(hipStream_t stream, unsigned *flags)
{
    HIP_CALL(stream_flags(stream, flags));
}

VGPU_EXPORT hipError_t hipStreamGetDevice(hipStream_t stream, int *device)
{
    HIP_CALL(stream_device(stream, device));
}

VGPU_EXPORT hipError_t hipEventCreate(hipEvent_t *event)
{
    HIP_CALL(event_create(event, 0));
}

VGPU_EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
    HIP_CALL(event_create(event, flags));
}

VGPU_EXPORT hipError_t hipEventDestroy(hipEvent_t event)
{
    HIP_CALL(event_destroy(event));
}

VGPU_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    HIP_CALL(event_record(event, stream));
}

VGPU_EXPORT hipError_t hipEventSynchronize(hipEvent_t event)
{
    HIP_CALL(event_check(event));
}

VGPU_EXPORT hipError_t hipEventQuery(hipEvent_t event)
{
    HIP_CALL(event_check(event));
}

VGPU_EXPORT hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t stop)
{
    HIP_CALL(event_elapsed(milliseconds, start, stop));
}

VGPU_EXPORT hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned flags)
{
    HIP_CALL(flags > 1 ? hipErrorInvalidValue : event_record(event, stream)); /* 1: hipEventRecordExternal */
}

VGPU_EXPORT hipError_t hipStreamGetPriority(hipStream_t stream, int *priority)
{
    HIP_CALL(stream_priority(stream, priority));
}

static hipError_t priority_range(int *least, int *greatest)
{
    if (least != NULL) {
        *least = STREAM_LOW;
    }
    if (greatest != NULL) {
        *greatest = STREAM_HIGH;
    }
    return hipSuccess;
}

VGPU_EXPORT hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    HIP_CALL(priority_range(least, greatest));
}

/* The mask chooses among compute units; none of them runs anything. */
VGPU_EXPORT hipError_t hipExtStreamCreateWithCUMask(hipStream_t *stream, uint32_t size, const uint32_t *mask)
{
    HIP_CALL(size == 0 || mask == NULL ? hipErrorInvalidValue : stream_create(stream, 0, 0));
}

static hipError_t stream_id(hipStream_t stream, unsigned long long *id)
{
    const hipError_t error = id == NULL ? hipErrorInvalidValue : stream_check(stream);

    if (error == hipSuccess) {
        *id = (unsigned long long)(uintptr_t)stream;
    }
    return error;
}

VGPU_EXPORT hipError_t hipStreamGetId(hipStream_t stream, unsigned long long *id)
{
    HIP_CALL(stream_id(stream, id));
}

VGPU_EXPORT int hipGetStreamDeviceId(hipStream_t stream)
{
    int device = -1;

    return hipStreamGetDevice(stream, &device) == hipSuccess ? device : -1;
}

/* Everything before it is done, so a function of the host runs now; it may call HIP, so the lock is not held. */
static hipError_t host_function(hipStream_t stream, void (*function)(void *), void *data)
{
    const struct host_function node = {function, data};
    const hipError_t entered = hip_enter();
    bool recorded = false;
    hipError_t error = hipSuccess;

    if (entered != hipSuccess) {
        return hip_result(entered);
    }
    error = function == NULL ? hipErrorInvalidValue : stream_check(stream);
    if (error == hipSuccess) {
        error = graph_record(stream, hipGraphNodeTypeHost, &node, &recorded);
    }
    error = hip_leave(error);
    if (error == hipSuccess && !recorded) {
        function(data);
    }
    return error;
}

VGPU_EXPORT hipError_t hipLaunchHostFunc(hipStream_t stream, void (*function)(void *), void *data)
{
    return host_function(stream, function, data);
}

VGPU_EXPORT hipError_t hipStreamAddCallback(hipStream_t stream,
                                            void (*callback)(hipStream_t, hipError_t, void *), void *data,
                                            unsigned flags)
{
    const hipError_t entered = hip_enter();
    hipError_t error = hipSuccess;

    if (entered != hipSuccess) {
        return hip_result(entered);
    }
    error = callback == NULL || flags != 0 ? hipErrorInvalidValue : stream_check(stream);
    if (error == hipSuccess && stream_capture(stream) != NULL) {
        error = hipErrorStreamCaptureUnsupported;
    }
    error = hip_leave(error);
    if (error == hipSuccess) {
        callback(stream, hipSuccess, data);
    }
    return error;
}

/* Nothing is ever pending: the per-thread variants are the same. */
#define PER_THREAD(name) VGPU_EXPORT extern __typeof__(name) name##_spt __attribute__((alias(#name)))
PER_THREAD(hipEventRecord);
PER_THREAD(hipLaunchHostFunc);
PER_THREAD(hipStreamAddCallback);
PER_THREAD(hipStreamGetFlags);
PER_THREAD(hipStreamGetPriority);
PER_THREAD(hipStreamQuery);
PER_THREAD(hipStreamSynchronize);
PER_THREAD(hipStreamWaitEvent);
