#define _GNU_SOURCE /* pthread_atfork in a strict C11 build */
#include "state.h"

#include "../common/journal.h"
#include "../common/locks.h"
#include "../common/report.h"

#include <stdatomic.h>
#include <stdlib.h>

struct vgpu_handles hip_handles;

VGPU_DEFINE_LOCK(VGPU_LOCK_LIBRARY);

static _Atomic uint64_t calls;
static __thread hipError_t last_call;  /* for hipExtGetLastError */
static __thread hipError_t last_error; /* for hipGetLastError */

hipError_t hip_result(hipError_t error)
{
    last_call = error;
    if (error != hipSuccess) {
        last_error = error;
    }
    return error;
}

void hip_lock(void)
{
    take_lock();
}

void hip_unlock(void)
{
    drop_lock();
}

hipError_t hip_enter(void)
{
    atomic_fetch_add(&calls, 1);
    if (!vgpu_journal_ready()) {
        return hipErrorNotInitialized;
    }
    take_lock();
    return hipSuccess;
}

hipError_t hip_leave(hipError_t error)
{
    drop_lock();
    return hip_result(error);
}

hipError_t hip_publish(void **handle, enum handle_kind kind, void *object)
{
    const uint64_t value = object == NULL ? 0 : vgpu_handle_new(&hip_handles, (uint8_t)kind, object);

    if (value == 0) {
        free(object);
        return hipErrorOutOfMemory;
    }
    *handle = (void *)(uintptr_t)value;
    return hipSuccess;
}

const struct vgpu_settings *hip_settings(void)
{
    return vgpu_settings();
}

VGPU_EXPORT hipError_t hipGetLastError(void)
{
    const hipError_t error = last_error;

    atomic_fetch_add(&calls, 1);
    last_error = hipSuccess;
    return error;
}

VGPU_EXPORT hipError_t hipPeekAtLastError(void)
{
    atomic_fetch_add(&calls, 1);
    return last_error;
}

VGPU_EXPORT hipError_t hipExtGetLastError(void)
{
    const hipError_t error = last_call;

    atomic_fetch_add(&calls, 1);
    last_call = hipSuccess;
    return error;
}

VGPU_EXPORT uint64_t kdbforge_vgpu_calls(void)
{
    return atomic_load(&calls);
}

VGPU_EXPORT const char *kdbforge_vgpu_version(void)
{
    return KDBFORGE_VGPU_VERSION;
}

VGPU_EXPORT void kdbforge_vgpu_mark(const char *text)
{
    struct vgpu_entry entry;

    if (text != NULL && vgpu_journal_ready()) {
        vgpu_entry_begin(&entry, VGPU_ENTRY_MARK);
        vgpu_entry_text(&entry, text);
        vgpu_entry_commit(&entry);
    }
}

hipError_t hip_unsupported(struct vgpu_unsupported *function)
{
    atomic_fetch_add(&calls, 1);
    vgpu_unsupported_call(function);
    return hip_result(hipErrorNotSupported);
}
