/* Launches: what is checked for all of them, and what each launch mode does then. */
#include "state.h"

/* Nothing runs: callers only want to know that it would have been accepted. */
static hipError_t skip(const struct launch *launch)
{
    (void)launch;
    return hipSuccess;
}

static hipError_t (*const launch_modes[])(const struct launch *launch) = {
    [VGPU_LAUNCH_SKIP] = skip,
};

static hipError_t check(const struct launch *launch)
{
    if (vgpu_handle_get(&hip_handles, HANDLE_FUNCTION, (uintptr_t)launch->function) == NULL ||
        stream_check(launch->stream) != hipSuccess ||
        (launch->start != NULL && event_check(launch->start) != hipSuccess) ||
        (launch->stop != NULL && event_check(launch->stop) != hipSuccess)) {
        return hipErrorInvalidHandle;
    }
    for (int i = 0; i < 3; i++) {
        if (launch->grid[i] == 0 || launch->block[i] == 0) {
            return hipErrorInvalidConfiguration;
        }
    }
    if (launch->cooperative && device_profile(device_current())->cooperative_launch == 0) {
        return hipErrorNotSupported;
    }
    return hipSuccess;
}

hipError_t launch_kernel(const struct launch *launch)
{
    hipError_t error = check(launch);
    bool recorded = false;

    if (error != hipSuccess) {
        return error;
    }
    error = graph_record(launch->stream, hipGraphNodeTypeKernel, NULL, &recorded);
    if (error != hipSuccess || recorded) {
        return error;
    }
    if (launch->start != NULL) {
        event_record(launch->start, launch->stream);
    }
    error = launch_modes[hip_settings()->launch](launch);
    stream_count_launch(launch->stream);
    if (error == hipSuccess && launch->stop != NULL) {
        event_record(launch->stop, launch->stream);
    }
    return error;
}
