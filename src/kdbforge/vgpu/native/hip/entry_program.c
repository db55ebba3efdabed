/* Entry points: what the compiler puts into a HIP program, launches of its kernels, copies of its variables. */
#include "state.h"

#include "../common/report.h"

#include <string.h>

/* The wrapper that the compiler makes (clang, CGCUDANV.cpp): "HIPF", version 1. */
struct fat_wrapper {
    uint32_t magic;
    uint32_t version;
    const void *image;
    void *unused;
};
static const uint32_t fat_magic = 0x48495046U;

VGPU_EXPORT void **__hipRegisterFatBinary(const struct fat_wrapper *wrapper);
VGPU_EXPORT void **__hipRegisterFatBinary(const struct fat_wrapper *wrapper)
{
    void **binary = NULL;

    if (wrapper == NULL || wrapper->magic != fat_magic || wrapper->version != 1) {
        vgpu_report("a fat binary is none: its magic number or version is wrong");
        return NULL;
    }
    hip_lock();
    binary = (void **)program_add(wrapper->image);
    hip_unlock();
    return binary;
}

VGPU_EXPORT void __hipUnregisterFatBinary(void **binary);
VGPU_EXPORT void __hipUnregisterFatBinary(void **binary)
{
    hip_lock();
    program_remove((struct fat_binary *)binary);
    hip_unlock();
}

VGPU_EXPORT void __hipRegisterFunction(void **binary, const void *host, char *device_function,
                                       const char *device_name, unsigned limit, void *tid, void *bid,
                                       struct dim3 *block, struct dim3 *grid, int *size);
VGPU_EXPORT void __hipRegisterFunction(void **binary, const void *host, char *device_function,
                                       const char *device_name, unsigned limit, void *tid, void *bid,
                                       struct dim3 *block, struct dim3 *grid, int *size)
{
    (void)device_function, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)size;
    if (binary != NULL) {
        hip_lock();
        program_add_symbol((struct fat_binary *)binary, host, device_name, 0);
        hip_unlock();
    }
}

VGPU_EXPORT void __hipRegisterVar(void **binary, void *host, char *host_name, char *device_name, int external,
                                  size_t size, int constant, int global);
VGPU_EXPORT void __hipRegisterVar(void **binary, void *host, char *host_name, char *device_name, int external,
                                  size_t size, int constant, int global)
{
    (void)host_name, (void)external, (void)constant, (void)global;
    if (binary != NULL && size > 0) {
        hip_lock();
        program_add_symbol((struct fat_binary *)binary, host, device_name, size);
        hip_unlock();
    }
}

VGPU_EXPORT void __hipRegisterManagedVar(void *binary, void **pointer, void *initial, const char *name,
                                         size_t size, unsigned alignment);
VGPU_EXPORT void __hipRegisterManagedVar(void *binary, void **pointer, void *initial, const char *name,
                                         size_t size, unsigned alignment)
{
    (void)alignment; /* pages are aligned enough */
    if (binary != NULL && size > 0) {
        hip_lock();
        program_add_managed(binary, pointer, initial, name, size);
        hip_unlock();
    }
}

/* kernel<<<grid, block, shared, stream>>>: pushed before the stub is called, which pops it and launches. */
struct configuration {
    struct dim3 grid, block;
    size_t shared;
    hipStream_t stream;
};
enum { PUSHED_MOST = 64 };
static __thread struct configuration pushed[PUSHED_MOST];
static __thread int pushed_count;

static hipError_t push(const struct configuration *configuration)
{
    if (pushed_count == PUSHED_MOST) {
        return hipErrorInvalidConfiguration;
    }
    pushed[pushed_count++] = *configuration;
    return hipSuccess;
}

static hipError_t pop(struct configuration *configuration)
{
    if (pushed_count == 0) {
        return hipErrorMissingConfiguration;
    }
    *configuration = pushed[--pushed_count];
    return hipSuccess;
}

VGPU_EXPORT hipError_t __hipPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                                  hipStream_t stream)
{
    const struct configuration configuration = {grid, block, shared, stream};

    HIP_CALL(push(&configuration));
}

VGPU_EXPORT hipError_t hipConfigureCall(struct dim3 grid, struct dim3 block, size_t shared, hipStream_t stream)
{
    const struct configuration configuration = {grid, block, shared, stream};

    HIP_CALL(push(&configuration));
}

static hipError_t pop_into(struct dim3 *grid, struct dim3 *block, size_t *shared, hipStream_t *stream)
{
    struct configuration configuration;
    const hipError_t error =
        grid == NULL || block == NULL || shared == NULL || stream == NULL ? hipErrorInvalidValue
                                                                         : pop(&configuration);

    if (error == hipSuccess) {
        *grid = configuration.grid;
        *block = configuration.block;
        *shared = configuration.shared;
        *stream = configuration.stream;
    }
    return error;
}

VGPU_EXPORT hipError_t __hipPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared,
                                                 hipStream_t *stream)
{
    HIP_CALL(pop_into(grid, block, shared, stream));
}

static hipError_t launch_host(const void *host, struct dim3 grid, struct dim3 block, hipStream_t stream,
                              hipEvent_t start, hipEvent_t stop, bool cooperative)
{
    struct launch launch = {
        NULL, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, stream, start, stop, cooperative};
    const hipError_t error = program_function(&launch.function, host);

    return error != hipSuccess ? error : launch_kernel(&launch);
}

VGPU_EXPORT hipError_t hipLaunchKernel(const void *host, struct dim3 grid, struct dim3 block, void **arguments,
                                       size_t shared, hipStream_t stream)
{
    (void)arguments, (void)shared;
    HIP_CALL(launch_host(host, grid, block, stream, NULL, NULL, false));
}

VGPU_EXPORT hipError_t hipExtLaunchKernel(const void *host, struct dim3 grid, struct dim3 block,
                                          void **arguments, size_t shared, hipStream_t stream,
                                          hipEvent_t start, hipEvent_t stop, int flags)
{
    (void)arguments, (void)shared, (void)flags;
    HIP_CALL(launch_host(host, grid, block, stream, start, stop, false));
}

VGPU_EXPORT hipError_t hipLaunchCooperativeKernel(const void *host, struct dim3 grid, struct dim3 block,
                                                  void **arguments, unsigned shared, hipStream_t stream)
{
    (void)arguments, (void)shared;
    HIP_CALL(launch_host(host, grid, block, stream, NULL, NULL, true));
}

static hipError_t launch_popped(const void *host)
{
    struct configuration configuration;
    const hipError_t error = pop(&configuration);

    return error != hipSuccess ? error
                               : launch_host(host, configuration.grid, configuration.block,
                                             configuration.stream, NULL, NULL, false);
}

VGPU_EXPORT hipError_t hipLaunchByPtr(const void *host)
{
    HIP_CALL(launch_popped(host));
}

/* The beginning of hipLaunchConfig_t; its attributes (cooperative, cluster) are not looked at. */
struct launch_config {
    struct dim3 grid, block;
    size_t shared;
    hipStream_t stream;
};

VGPU_EXPORT hipError_t hipLaunchKernelExC(const struct launch_config *config, const void *host, void **arguments)
{
    (void)arguments;
    HIP_CALL(config == NULL ? hipErrorInvalidValue
                            : launch_host(host, config->grid, config->block, config->stream, NULL, NULL, false));
}

VGPU_EXPORT hipError_t hipGetFuncBySymbol(hipFunction_t *function, const void *host)
{
    HIP_CALL(function == NULL ? hipErrorInvalidValue : program_function(function, host));
}

VGPU_EXPORT const char *hipKernelNameRefByPtr(const void *host, hipStream_t stream)
{
    const char *name = NULL;

    (void)stream;
    hip_lock();
    name = program_name(host);
    hip_unlock();
    return name;
}

VGPU_EXPORT hipError_t hipGetSymbolAddress(void **pointer, const void *symbol)
{
    HIP_CALL(pointer == NULL ? hipErrorInvalidValue : program_variable(pointer, NULL, symbol));
}

VGPU_EXPORT hipError_t hipGetSymbolSize(size_t *size, const void *symbol)
{
    HIP_CALL(size == NULL ? hipErrorInvalidValue : program_variable(NULL, size, symbol));
}

/* A part of a variable, as device memory. */
static hipError_t part_of(char **pointer, const void *symbol, size_t size, size_t offset)
{
    void *memory = NULL;
    size_t whole = 0;
    const hipError_t error = program_variable(&memory, &whole, symbol);

    if (error != hipSuccess) {
        return error;
    }
    *pointer = (char *)memory + offset;
    return offset > whole || size > whole - offset ? hipErrorInvalidValue : hipSuccess;
}

static hipError_t to_symbol(const void *symbol, const void *source, size_t size, size_t offset, int kind)
{
    char *target = NULL;
    const hipError_t error = part_of(&target, symbol, size, offset);

    return error != hipSuccess ? error : memory_copy(target, source, size, kind);
}

static hipError_t from_symbol(void *target, const void *symbol, size_t size, size_t offset, int kind)
{
    char *source = NULL;
    const hipError_t error = part_of(&source, symbol, size, offset);

    return error != hipSuccess ? error : memory_copy(target, source, size, kind);
}

VGPU_EXPORT hipError_t hipMemcpyToSymbol(const void *symbol, const void *source, size_t size, size_t offset,
                                         int kind)
{
    HIP_CALL(to_symbol(symbol, source, size, offset, kind));
}

VGPU_EXPORT hipError_t hipMemcpyFromSymbol(void *target, const void *symbol, size_t size, size_t offset,
                                           int kind)
{
    HIP_CALL(from_symbol(target, symbol, size, offset, kind));
}

VGPU_EXPORT hipError_t hipMemcpyToSymbolAsync(const void *symbol, const void *source, size_t size,
                                              size_t offset, int kind, hipStream_t stream)
{
    HIP_CALL(stream_check(stream) != hipSuccess ? hipErrorInvalidHandle
                                               : to_symbol(symbol, source, size, offset, kind));
}

VGPU_EXPORT hipError_t hipMemcpyFromSymbolAsync(void *target, const void *symbol, size_t size, size_t offset,
                                                int kind, hipStream_t stream)
{
    HIP_CALL(stream_check(stream) != hipSuccess ? hipErrorInvalidHandle
                                               : from_symbol(target, symbol, size, offset, kind));
}

/* Nothing is ever pending: the per-thread variants are the same. */
#define PER_THREAD(name) VGPU_EXPORT extern __typeof__(name) name##_spt __attribute__((alias(#name)))
PER_THREAD(hipLaunchKernel);
PER_THREAD(hipLaunchCooperativeKernel);
PER_THREAD(hipMemcpyToSymbol);
PER_THREAD(hipMemcpyFromSymbol);
PER_THREAD(hipMemcpyToSymbolAsync);
PER_THREAD(hipMemcpyFromSymbolAsync);
