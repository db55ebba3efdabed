/* Entry points: peers, contexts, and the settings of a device that change nothing here. */
#include "state.h"

#include "../common/report.h"

#include <stdio.h>
#include <string.h>

/* Which other devices each device was given access to; a bit each. */
static unsigned peers[VGPU_DEVICES_MOST];

static hipError_t can_access(int *can, int device, int peer)
{
    if (can == NULL) {
        return hipErrorInvalidValue;
    }
    if (device_check(device) != hipSuccess || device_check(peer) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    *can = device != peer; /* their memory is in one process */
    return hipSuccess;
}

static hipError_t set_access(int peer, bool enable)
{
    unsigned *const mask = &peers[device_current()];

    if (device_check(peer) != hipSuccess || peer == device_current()) {
        return hipErrorInvalidDevice;
    }
    if (((*mask >> peer & 1U) != 0) == enable) {
        return enable ? hipErrorPeerAccessAlreadyEnabled : hipErrorPeerAccessNotEnabled;
    }
    *mask ^= 1U << peer;
    return hipSuccess;
}

VGPU_EXPORT hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    HIP_CALL(can_access(can, device, peer));
}

VGPU_EXPORT hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    HIP_CALL(flags != 0 ? hipErrorInvalidValue : set_access(peer, true));
}

VGPU_EXPORT hipError_t hipDeviceDisablePeerAccess(int peer)
{
    HIP_CALL(set_access(peer, false));
}

static hipError_t compute_capability(int *major, int *minor, int device)
{
    if (major == NULL || minor == NULL) {
        return hipErrorInvalidValue;
    }
    return device_check(device) != hipSuccess ? hipErrorInvalidDevice : device_version(major, minor, device);
}

VGPU_EXPORT hipError_t hipDeviceComputeCapability(int *major, int *minor, int device)
{
    HIP_CALL(compute_capability(major, minor, device));
}

/* Domain 0, and the bus that the attributes tell. */
static hipError_t pci_name(char *name, int length, int device)
{
    if (name == NULL || length <= 0) {
        return hipErrorInvalidValue;
    }
    if (device_check(device) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    snprintf(name, (size_t)length, "0000:%02x:00.0", (unsigned char)(device + 1));
    return hipSuccess;
}

static hipError_t by_pci_name(int *device, const char *name)
{
    char known[16];

    if (device == NULL || name == NULL) {
        return hipErrorInvalidValue;
    }
    for (int i = 0; i < hip_settings()->device_count; i++) {
        pci_name(known, sizeof known, i);
        if (strcmp(name, known) == 0) {
            *device = i;
            return hipSuccess;
        }
    }
    return hipErrorInvalidValue;
}

VGPU_EXPORT hipError_t hipDeviceGetPCIBusId(char *name, int length, int device)
{
    HIP_CALL(pci_name(name, length, device));
}

VGPU_EXPORT hipError_t hipDeviceGetByPCIBusId(int *device, const char *name)
{
    HIP_CALL(by_pci_name(device, name));
}

static hipError_t uuid(char bytes[16], int device)
{
    char text[17];

    if (bytes == NULL) {
        return hipErrorInvalidValue;
    }
    if (device_check(device) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    snprintf(text, sizeof text, "virtual-gpu-%04d", device);
    memcpy(bytes, text, 16);
    return hipSuccess;
}

VGPU_EXPORT hipError_t hipDeviceGetUuid(char *bytes, int device)
{
    HIP_CALL(uuid(bytes, device));
}

static unsigned device_flags[VGPU_DEVICES_MOST];

static hipError_t set_flags(unsigned flags, int device)
{
    if (device_check(device) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    if ((flags & ~0x1FU) != 0) { /* hipDeviceSchedule*, hipDeviceMapHost, hipDeviceLmemResizeToMax */
        return hipErrorInvalidValue;
    }
    device_flags[device] = flags;
    return hipSuccess;
}

static hipError_t get_flags(unsigned *flags, int *active, int device)
{
    if (device_check(device) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    if (flags == NULL) {
        return hipErrorInvalidValue;
    }
    *flags = device_flags[device];
    if (active != NULL) {
        *active = 1;
    }
    return hipSuccess;
}

VGPU_EXPORT hipError_t hipSetDeviceFlags(unsigned flags)
{
    HIP_CALL(set_flags(flags, device_current()));
}

VGPU_EXPORT hipError_t hipGetDeviceFlags(unsigned *flags)
{
    HIP_CALL(get_flags(flags, NULL, device_current()));
}

VGPU_EXPORT hipError_t hipDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    HIP_CALL(get_flags(flags, active, device));
}

VGPU_EXPORT hipError_t hipDevicePrimaryCtxSetFlags(int device, unsigned flags)
{
    HIP_CALL(set_flags(flags, device));
}

/* hipLimit_t: stack, printf buffer and heap of kernels; none of them runs. */
enum { LIMITS = 3 };
static size_t limits[LIMITS];

static hipError_t limit(int which, size_t *get, const size_t *set)
{
    if (which < 0 || which >= LIMITS || (get == NULL && set == NULL)) {
        return hipErrorInvalidValue;
    }
    if (set != NULL) {
        limits[which] = *set;
    } else {
        *get = limits[which];
    }
    return hipSuccess;
}

VGPU_EXPORT hipError_t hipDeviceSetLimit(int which, size_t value)
{
    HIP_CALL(limit(which, NULL, &value));
}

VGPU_EXPORT hipError_t hipDeviceGetLimit(size_t *value, int which)
{
    HIP_CALL(limit(which, value, NULL));
}

/* A context is its device's only one; its handle tells the device. */
static hipCtx_t context_of(int device)
{
    return (hipCtx_t)((uintptr_t)HANDLE_CONTEXT << 56 | (uintptr_t)(unsigned)(device + 1));
}

static hipError_t device_of(hipCtx_t context, int *device)
{
    for (int i = 0; i < hip_settings()->device_count; i++) {
        if (context == context_of(i)) {
            *device = i;
            return hipSuccess;
        }
    }
    return hipErrorInvalidContext;
}

static hipError_t get_context(hipCtx_t *context, int device)
{
    if (context == NULL) {
        return hipErrorInvalidValue;
    }
    if (device_check(device) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    *context = context_of(device);
    return hipSuccess;
}

static hipError_t set_context(hipCtx_t context)
{
    int device = 0;
    const hipError_t error = device_of(context, &device);

    return error != hipSuccess ? error : device_set(device);
}

static hipError_t check_context(hipCtx_t context)
{
    int device = 0;

    return device_of(context, &device);
}

VGPU_EXPORT hipError_t hipDevicePrimaryCtxRetain(hipCtx_t *context, int device)
{
    HIP_CALL(get_context(context, device));
}

VGPU_EXPORT hipError_t hipDevicePrimaryCtxRelease(int device)
{
    HIP_CALL(device_check(device));
}

VGPU_EXPORT hipError_t hipCtxGetCurrent(hipCtx_t *context)
{
    HIP_CALL(get_context(context, device_current()));
}

VGPU_EXPORT hipError_t hipCtxSetCurrent(hipCtx_t context)
{
    HIP_CALL(set_context(context));
}

VGPU_EXPORT hipError_t hipCtxGetDevice(int *device)
{
    return hipGetDevice(device);
}

VGPU_EXPORT hipError_t hipCtxSynchronize(void)
{
    HIP_CALL(hipSuccess);
}

enum { DEPTH = 32 };
static __thread int pushed[DEPTH];
static __thread int depth;

static hipError_t push(hipCtx_t context)
{
    const int old = device_current();
    hipError_t error = hipErrorInvalidContext;

    if (depth < DEPTH) {
        error = set_context(context);
    }
    if (error == hipSuccess) {
        pushed[depth++] = old;
    }
    return error;
}

static hipError_t pop(hipCtx_t *context)
{
    if (depth == 0) {
        return hipErrorInvalidContext;
    }
    if (context != NULL) {
        *context = context_of(device_current());
    }
    return device_set(pushed[--depth]);
}

VGPU_EXPORT hipError_t hipCtxPushCurrent(hipCtx_t context)
{
    HIP_CALL(push(context));
}

VGPU_EXPORT hipError_t hipCtxPopCurrent(hipCtx_t *context)
{
    HIP_CALL(pop(context));
}

static hipError_t create_context(hipCtx_t *context, int device)
{
    const hipError_t error = get_context(context, device);

    return error != hipSuccess ? error : push(*context);
}

VGPU_EXPORT hipError_t hipCtxCreate(hipCtx_t *context, unsigned flags, int device)
{
    (void)flags;
    HIP_CALL(create_context(context, device));
}

static hipError_t destroy_context(hipCtx_t context)
{
    const hipError_t error = check_context(context);

    return error == hipSuccess && depth > 0 && context == context_of(device_current()) ? pop(NULL) : error;
}

VGPU_EXPORT hipError_t hipCtxDestroy(hipCtx_t context)
{
    HIP_CALL(destroy_context(context));
}
