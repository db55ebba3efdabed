/* Entry points: modules and launches. */
#include "state.h"

#include "../common/report.h"

#include <string.h>

VGPU_EXPORT hipError_t hipModuleLoad(hipModule_t *module, const char *path)
{
    HIP_CALL(module_load_file(module, path));
}

VGPU_EXPORT hipError_t hipModuleLoadData(hipModule_t *module, const void *image)
{
    HIP_CALL(module_load(module, image));
}

/* The options are for a compiler at run time, and a code object is compiled. */
VGPU_EXPORT hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image, unsigned count, void *options,
                                           void **values)
{
    (void)count, (void)options, (void)values;
    HIP_CALL(module_load(module, image));
}

VGPU_EXPORT hipError_t hipModuleLoadFatBinary(hipModule_t *module, const void *image)
{
    HIP_CALL(module_load(module, image));
}

VGPU_EXPORT hipError_t hipModuleGetFunctionCount(unsigned *count, hipModule_t module)
{
    HIP_CALL(count == NULL ? hipErrorInvalidValue : module_functions(module, NULL, 0, count));
}

VGPU_EXPORT hipError_t hipModuleUnload(hipModule_t module)
{
    HIP_CALL(module_unload(module));
}

VGPU_EXPORT hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name)
{
    HIP_CALL(module_function(function, module, name));
}

VGPU_EXPORT const char *hipKernelNameRef(hipFunction_t function)
{
    const char *name = NULL;

    hip_lock();
    function_facts(function, &name, NULL);
    hip_unlock();
    return name;
}

/* What arguments the kernel gets does not matter to a mode that runs nothing. */
VGPU_EXPORT hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y,
                                             unsigned grid_z, unsigned block_x, unsigned block_y,
                                             unsigned block_z, unsigned shared_bytes, hipStream_t stream,
                                             void **arguments, void **extra)
{
    const struct launch launch = {
        function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, stream, NULL, NULL, false};

    (void)shared_bytes, (void)arguments, (void)extra;
    HIP_CALL(launch_kernel(&launch));
}

VGPU_EXPORT hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned grid_x,
                                                        unsigned grid_y, unsigned grid_z, unsigned block_x,
                                                        unsigned block_y, unsigned block_z,
                                                        unsigned shared_bytes, hipStream_t stream,
                                                        void **arguments)
{
    const struct launch launch = {
        function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, stream, NULL, NULL, true};

    (void)shared_bytes, (void)arguments;
    HIP_CALL(launch_kernel(&launch));
}

/* HIP_LAUNCH_CONFIG begins with both sizes, the shared bytes and the stream. */
struct driver_launch {
    unsigned grid[3], block[3], shared;
    hipStream_t stream;
};

static hipError_t launch_described(const struct driver_launch *config, hipFunction_t function)
{
    if (config == NULL) {
        return hipErrorInvalidValue;
    }
    const unsigned *const grid = config->grid, *const block = config->block;
    const struct launch launch = {
        function, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, config->stream, NULL, NULL, false};

    return launch_kernel(&launch);
}

VGPU_EXPORT hipError_t hipDrvLaunchKernelEx(const struct driver_launch *config, hipFunction_t function,
                                            void **arguments, void **extra)
{
    (void)arguments, (void)extra;
    HIP_CALL(launch_described(config, function));
}

/* Its first three sizes count work-items, not workgroups (hip/hip_ext.h). */
VGPU_EXPORT hipError_t hipExtModuleLaunchKernel(hipFunction_t function, uint32_t global_x, uint32_t global_y,
                                                uint32_t global_z, uint32_t local_x, uint32_t local_y,
                                                uint32_t local_z, size_t shared_bytes, hipStream_t stream,
                                                void **arguments, void **extra, hipEvent_t start,
                                                hipEvent_t stop, uint32_t flags)
{
    const struct launch launch = {
        function, {global_x, global_y, global_z}, {local_x, local_y, local_z}, stream, start, stop, false};

    (void)shared_bytes, (void)arguments, (void)extra, (void)flags;
    HIP_CALL(launch_kernel(&launch));
}

/* The same function under its C++ name, as programs built before ROCm 5 import it. */
#define CXX_NAME                                                                                           \
    _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j
VGPU_EXPORT extern __typeof__(hipExtModuleLaunchKernel) CXX_NAME
    __attribute__((alias("hipExtModuleLaunchKernel")));

/* Compiler helpers that ROCm's library happens to export: IEEE half to float and back. */
VGPU_EXPORT float __gnu_h2f_ieee(unsigned short half);
VGPU_EXPORT float __gnu_h2f_ieee(unsigned short half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000U) << 16;
    uint32_t exponent = (half >> 10) & 0x1FU;
    uint32_t mantissa = half & 0x3FFU;
    uint32_t bits = 0;
    float value = 0;

    if (exponent == 0x1F) {
        bits = sign | 0x7F800000U | mantissa << 13;
    } else if (exponent == 0 && mantissa == 0) {
        bits = sign;
    } else {
        if (exponent == 0) { /* subnormal: shift the leading one into place */
            for (exponent = 1; (mantissa & 0x400U) == 0; exponent--) {
                mantissa <<= 1;
            }
        }
        bits = sign | (exponent + 112) << 23 | (mantissa & 0x3FFU) << 13;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

VGPU_EXPORT unsigned short __gnu_f2h_ieee(float value);
VGPU_EXPORT unsigned short __gnu_f2h_ieee(float value)
{
    uint32_t bits = 0, mantissa = 0, result = 0, rest = 0;
    unsigned sign = 0, shift = 13;
    int exponent = 0;

    memcpy(&bits, &value, sizeof bits);
    sign = (bits >> 16) & 0x8000U;
    exponent = (int)((bits >> 23) & 0xFFU) - 127;
    mantissa = bits & 0x7FFFFFU;
    if (exponent == 128) { /* infinity stays, a NaN stays one */
        return (unsigned short)(sign | 0x7C00U | (mantissa != 0 ? 0x200U | mantissa >> 13 : 0));
    }
    if (exponent > 15) {
        return (unsigned short)(sign | 0x7C00U);
    }
    if (exponent < -25) {
        return (unsigned short)sign;
    }
    if (exponent < -14) { /* subnormal half */
        mantissa |= 0x800000U;
        shift += (unsigned)(-14 - exponent);
    } else {
        result = (uint32_t)(exponent + 15) << 10;
    }
    result += mantissa >> shift;
    rest = mantissa & ((1U << shift) - 1);
    if (rest > 1U << (shift - 1) || (rest == 1U << (shift - 1) && (result & 1U) != 0)) {
        result++; /* to nearest, ties to even; a carry into the exponent is right */
    }
    return (unsigned short)(sign | result);
}
