/* Streams and events. Nothing is ever pending, so waiting and asking always succeed at once. */
#include "state.h"

#include <stdlib.h>

struct stream {
    unsigned flags;
    int priority;
    int device;
    uint64_t launches;
    hipGraph_t capture; /* the graph that is recorded, or NULL */
    bool owns_capture;  /* nobody else has it yet */
};

struct event {
    unsigned flags;
    bool recorded;
    uint64_t launches; /* of its stream, when it was recorded */
};

/* Of each device: the null stream, hipStreamLegacy and hipStreamPerThread. They need no creation and cannot be
 * destroyed. */
static struct stream default_streams[VGPU_DEVICES_MOST];

static const float launch_milliseconds = 0.01F;

static struct stream *find_stream(hipStream_t stream)
{
    const uintptr_t handle = (uintptr_t)stream;

    if (handle == 0 || handle == hipStreamLegacy || handle == hipStreamPerThread) {
        struct stream *const found = &default_streams[device_current()];

        found->device = device_current();
        return found;
    }
    return vgpu_handle_get(&hip_handles, HANDLE_STREAM, handle);
}

static struct event *find_event(hipEvent_t event)
{
    return vgpu_handle_get(&hip_handles, HANDLE_EVENT, (uintptr_t)event);
}

hipError_t stream_create(hipStream_t *stream, unsigned flags, int priority)
{
    struct stream *object = NULL;

    if (stream == NULL || (flags & ~(unsigned)hipStreamNonBlocking) != 0) {
        return hipErrorInvalidValue;
    }
    object = calloc(1, sizeof *object);
    if (object != NULL) {
        object->flags = flags;
        object->device = device_current();
        /* Clamped, as by real devices: they have high, normal and low. */
        object->priority = priority < STREAM_HIGH ? STREAM_HIGH : priority > STREAM_LOW ? STREAM_LOW : priority;
    }
    return hip_publish(stream, HANDLE_STREAM, object);
}

hipError_t stream_destroy(hipStream_t stream)
{
    struct stream *const object = find_stream(stream);

    if (object == NULL || vgpu_handle_get(&hip_handles, HANDLE_STREAM, (uintptr_t)stream) == NULL) {
        return hipErrorInvalidHandle;
    }
    if (object->capture != NULL && object->owns_capture) {
        graph_destroy(object->capture);
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

hipError_t stream_priority(hipStream_t stream, int *priority)
{
    const struct stream *const object = find_stream(stream);

    if (priority == NULL) {
        return hipErrorInvalidValue;
    }
    if (object == NULL) {
        return hipErrorInvalidHandle;
    }
    *priority = object->priority;
    return hipSuccess;
}

hipError_t stream_device(hipStream_t stream, int *device)
{
    const struct stream *const object = find_stream(stream);

    if (device == NULL) {
        return hipErrorInvalidValue;
    }
    if (object == NULL) {
        return hipErrorInvalidHandle;
    }
    *device = object->device;
    return hipSuccess;
}

hipGraph_t stream_capture(hipStream_t stream)
{
    const struct stream *const object = find_stream(stream);

    return object == NULL ? NULL : object->capture;
}

hipError_t stream_set_capture(hipStream_t stream, hipGraph_t graph, bool owned)
{
    struct stream *const object = find_stream(stream);

    if (object == NULL) {
        return hipErrorInvalidHandle;
    }
    object->capture = graph;
    object->owns_capture = owned;
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
    return hip_publish(event, HANDLE_EVENT, object);
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
