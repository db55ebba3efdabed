/* Streams and events. Nothing is ever pending, so waiting and asking always succeed at once. */
#include "state.h"

#include <stdlib.h>

struct stream {
    unsigned flags;
    uint64_t launches;
};

struct event {
    unsigned flags;
    bool recorded;
    uint64_t launches; /* of its stream, when it was recorded */
};

/* The null stream, hipStreamLegacy and hipStreamPerThread; they need no creation and cannot be destroyed. */
static struct stream default_stream;

static const float launch_milliseconds = 0.01F;

static struct stream *find_stream(hipStream_t stream)
{
    const uintptr_t handle = (uintptr_t)stream;

    if (handle == 0 || handle == hipStreamLegacy || handle == hipStreamPerThread) {
        return &default_stream;
    }
    return vgpu_handle_get(&hip_handles, HANDLE_STREAM, handle);
}

static struct event *find_event(hipEvent_t event)
{
    return vgpu_handle_get(&hip_handles, HANDLE_EVENT, (uintptr_t)event);
}

/* Give the object a handle; it is freed if there is none to be had. */
static hipError_t publish(void **handle, enum handle_kind kind, void *object)
{
    const uint64_t value = object == NULL ? 0 : vgpu_handle_new(&hip_handles, (uint8_t)kind, object);

    if (value == 0) {
        free(object);
        return hipErrorOutOfMemory;
    }
    *handle = (void *)(uintptr_t)value;
    return hipSuccess;
}

hipError_t stream_create(hipStream_t *stream, unsigned flags)
{
    struct stream *object = NULL;

    if (stream == NULL || (flags & ~(unsigned)hipStreamNonBlocking) != 0) {
        return hipErrorInvalidValue;
    }
    object = calloc(1, sizeof *object);
    if (object != NULL) {
        object->flags = flags;
    }
    return publish(stream, HANDLE_STREAM, object);
}

hipError_t stream_destroy(hipStream_t stream)
{
    struct stream *const object = find_stream(stream);

    if (object == NULL || object == &default_stream) {
        return hipErrorInvalidHandle;
    }
    vgpu_handle_free(&hip_handles, (uintptr_t)stream);
    free(object);
    return hipSuccess;
}

hipError_t stream_check(hipStream_t stream)
{
    return find_stream(stream) == NULL ? hipErrorInvalidHandle : hipSuccess;
}

hipError_t stream_flags(hipStream_t stream, unsigned *flags)
{
    const struct stream *const object = find_stream(stream);

    if (flags == NULL) {
        return hipErrorInvalidValue;
    }
    if (object == NULL) {
        return hipErrorInvalidHandle;
    }
    *flags = object->flags;
    return hipSuccess;
}

void stream_count_launch(hipStream_t stream)
{
    struct stream *const object = find_stream(stream);

    if (object != NULL) {
        object->launches++;
    }
}

hipError_t stream_wait_event(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    if (find_stream(stream) == NULL || find_event(event) == NULL) {
        return hipErrorInvalidHandle;
    }
    return flags > 1 ? hipErrorInvalidValue : hipSuccess; /* 1: hipEventWaitExternal */
}

hipError_t event_create(hipEvent_t *event, unsigned flags)
{
    struct event *object = NULL;

    if (event == NULL || (flags & ~hipEventKnownFlags) != 0) {
        return hipErrorInvalidValue;
    }
    object = calloc(1, sizeof *object);
    if (object != NULL) {
        object->flags = flags;
    }
    return publish(event, HANDLE_EVENT, object);
}

hipError_t event_destroy(hipEvent_t event)
{
    struct event *const object = find_event(event);

    if (object == NULL) {
        return hipErrorInvalidHandle;
    }
    vgpu_handle_free(&hip_handles, (uintptr_t)event);
    free(object);
    return hipSuccess;
}

hipError_t event_check(hipEvent_t event)
{
    return find_event(event) == NULL ? hipErrorInvalidHandle : hipSuccess;
}

hipError_t event_record(hipEvent_t event, hipStream_t stream)
{
    struct event *const object = find_event(event);
    const struct stream *const on = find_stream(stream);

    if (object == NULL || on == NULL) {
        return hipErrorInvalidHandle;
    }
    object->recorded = true;
    object->launches = on->launches;
    return hipSuccess;
}

/* Every launch takes the same time, and what lies between two events takes at least as long as one:
 * callers divide by this and rank by it, so it must be positive, finite and the same in every run. */
hipError_t event_elapsed(float *milliseconds, hipEvent_t start, hipEvent_t stop)
{
    const struct event *const from = find_event(start);
    const struct event *const to = find_event(stop);
    uint64_t launches = 1;

    if (milliseconds == NULL) {
        return hipErrorInvalidValue;
    }
    if (from == NULL || to == NULL || !from->recorded || !to->recorded ||
        ((from->flags | to->flags) & hipEventDisableTiming) != 0) {
        return hipErrorInvalidHandle;
    }
    if (to->launches > from->launches) {
        launches = to->launches - from->launches;
    }
    *milliseconds = launch_milliseconds * (float)launches;
    return hipSuccess;
}
