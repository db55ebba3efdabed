/* Entry points: streams and events. */
#include "state.h"

#include "../common/report.h"

static hipError_t stream_device(hipStream_t stream, int *device)
{
    if (device == NULL) {
        return hipErrorInvalidValue;
    }
    *device = 0;
    return stream_check(stream);
}

VGPU_EXPORT hipError_t hipStreamCreate(hipStream_t *stream)
{
    HIP_CALL(stream_create(stream, 0));
}

VGPU_EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
    HIP_CALL(stream_create(stream, flags));
}

/* The priority is only a hint, clamped by real devices too. */
VGPU_EXPORT hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority)
{
    (void)priority;
    HIP_CALL(stream_create(stream, flags));
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
