/* Entry points: devices, versions, errors. */
#include "state.h"

#include "../common/report.h"

#include <string.h>

/* ROCm's encoding: major * 10^7 + minor * 10^5 + patch. Only the major number is the library's to tell. */
static hipError_t version(int *value)
{
    if (value == NULL) {
        return hipErrorInvalidValue;
    }
    *value = hip_major_version * 10000000;
    return hipSuccess;
}

static hipError_t put_int(int *place, int value)
{
    if (place == NULL) {
        return hipErrorInvalidValue;
    }
    *place = value;
    return hipSuccess;
}

VGPU_EXPORT hipError_t hipInit(unsigned flags)
{
    HIP_CALL(flags == 0 ? hipSuccess : hipErrorInvalidValue);
}

VGPU_EXPORT hipError_t hipDriverGetVersion(int *value)
{
    HIP_CALL(version(value));
}

VGPU_EXPORT hipError_t hipRuntimeGetVersion(int *value)
{
    HIP_CALL(version(value));
}

VGPU_EXPORT hipError_t hipGetDeviceCount(int *count)
{
    HIP_CALL(put_int(count, hip_settings()->device_count));
}

VGPU_EXPORT hipError_t hipGetDevice(int *device)
{
    HIP_CALL(put_int(device, device_current()));
}

VGPU_EXPORT hipError_t hipSetDevice(int device)
{
    HIP_CALL(device_set(device));
}

VGPU_EXPORT hipError_t hipDeviceGet(int *device, int ordinal)
{
    HIP_CALL(device_check(ordinal) != hipSuccess ? hipErrorInvalidDevice : put_int(device, ordinal));
}

VGPU_EXPORT hipError_t hipDeviceGetName(char *name, int length, int device)
{
    HIP_CALL(device_name(name, length, device));
}

VGPU_EXPORT hipError_t hipDeviceTotalMem(size_t *bytes, int device)
{
    HIP_CALL(device_total_memory(bytes, device));
}

VGPU_EXPORT hipError_t hipDeviceGetAttribute(int *value, int attribute, int device)
{
    HIP_CALL(device_attribute(value, attribute, device));
}

VGPU_EXPORT hipError_t hipGetDevicePropertiesR0600(struct hipDeviceProp_tR0600 *properties, int device)
{
    HIP_CALL(device_properties_r0600(properties, device));
}

VGPU_EXPORT hipError_t hipGetDevicePropertiesR0000(struct hipDeviceProp_tR0000 *properties, int device)
{
    HIP_CALL(device_properties_r0000(properties, device));
}

/* Headers since ROCm 6 rename the call to R0600; who asks for this symbol was compiled against the old struct. */
VGPU_EXPORT hipError_t hipGetDeviceProperties(struct hipDeviceProp_tR0000 *properties, int device)
{
    HIP_CALL(device_properties_r0000(properties, device));
}

VGPU_EXPORT hipError_t hipDeviceSynchronize(void)
{
    HIP_CALL(hipSuccess);
}

static const struct error_name {
    hipError_t error;
    const char *name;
    const char *text;
} error_names[] = {
#include "error_names.inc"
};

static const struct error_name *find_error(hipError_t error)
{
    for (size_t i = 0; i < sizeof error_names / sizeof error_names[0]; i++) {
        if (error_names[i].error == error) {
            return &error_names[i];
        }
    }
    return NULL;
}

VGPU_EXPORT const char *hipGetErrorName(hipError_t error)
{
    const struct error_name *const found = find_error(error);

    return found == NULL ? "hipErrorUnknown" : found->name;
}

VGPU_EXPORT const char *hipGetErrorString(hipError_t error)
{
    const struct error_name *const found = find_error(error);

    return found == NULL ? "unknown error" : found->text;
}

static hipError_t put_text(const char **place, const struct error_name *found, bool name)
{
    if (place == NULL || found == NULL) {
        return hipErrorInvalidValue;
    }
    *place = name ? found->name : found->text;
    return hipSuccess;
}

VGPU_EXPORT hipError_t hipDrvGetErrorName(hipError_t error, const char **name)
{
    return hip_result(put_text(name, find_error(error), true));
}

VGPU_EXPORT hipError_t hipDrvGetErrorString(hipError_t error, const char **text)
{
    return hip_result(put_text(text, find_error(error), false));
}
