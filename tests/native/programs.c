/* What the compiler puts into a HIP program, by hand: `use FILE` with a bundle whose code fits, or
 * `error FILE`, which prints what a launch of its kernel gives. */
#include "check.h"

struct dim3 {
    uint32_t x, y, z;
};
struct fat_wrapper {
    uint32_t magic, version;
    const void *image;
    void *unused;
};

void **__hipRegisterFatBinary(const struct fat_wrapper *wrapper);
void __hipUnregisterFatBinary(void **binary);
void __hipRegisterFunction(void **binary, const void *host, const char *device, const char *name, unsigned limit,
                           void *tid, void *bid, void *block, void *grid, int *size);
void __hipRegisterVar(void **binary, void *host, const char *host_name, const char *name, int external,
                      size_t size, int constant, int global);
void __hipRegisterManagedVar(void *binary, void **pointer, void *initial, const char *name, size_t size,
                             unsigned alignment);
int __hipPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, handle stream);
int __hipPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, handle *stream);
int hipLaunchKernel(const void *host, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                    handle stream);
int hipExtLaunchKernel(const void *host, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                       handle stream, handle start, handle stop, int flags);
int hipGetFuncBySymbol(handle *function, const void *host);
const char *hipKernelNameRef(handle function);
int hipGetSymbolAddress(void **pointer, const void *symbol);
int hipGetSymbolSize(size_t *size, const void *symbol);
int hipMemcpyToSymbol(const void *symbol, const void *source, size_t size, size_t offset, int kind);
int hipMemcpyFromSymbol(void *target, const void *symbol, size_t size, size_t offset, int kind);
int hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int size, size_t shared);
int hipOccupancyMaxPotentialBlockSize(int *grid, int *size, const void *host, size_t shared, int limit);
int hipGetProcAddress(const char *name, void **function, int version, uint64_t flags, int *found);
int hipLibraryLoadFromFile(handle *library, const char *path, void *, void **, unsigned, void *, void **, unsigned);
int hipLibraryGetKernelCount(unsigned *count, handle library);
int hipLibraryEnumerateKernels(handle *kernels, unsigned most, handle library);
int hipKernelGetName(const char **name, handle kernel);
int hipLibraryUnload(handle library);
int hipCtxGetCurrent(handle *context);
int hipCtxPushCurrent(handle context);
int hipCtxPopCurrent(handle *context);

static const struct dim3 one = {1, 1, 1};
static char stub, other_stub, variable, *managed;

static void *read_all(const char *path)
{
    FILE *const file = fopen(path, "rb");
    char *const bytes = malloc(1 << 20);

    CHECK(file != NULL && bytes != NULL);
    memset(bytes, 0, 1 << 20);
    CHECK(fread(bytes, 1, 1 << 20, file) > 0);
    fclose(file);
    return bytes;
}

static void check_launches(void)
{
    struct dim3 grid = {0}, block = {0};
    size_t shared = 0;
    handle stream = (handle)9, function = NULL, start = NULL, stop = NULL;
    float time = -1;

    CHECK_IS(SUCCESS, hipEventCreate(&start));
    CHECK_IS(SUCCESS, hipEventCreate(&stop));
    CHECK_IS(52, __hipPopCallConfiguration(&grid, &block, &shared, &stream));
    CHECK_IS(SUCCESS, __hipPushCallConfiguration((struct dim3){2, 3, 4}, (struct dim3){64, 1, 1}, 8, NULL));
    CHECK_IS(SUCCESS, __hipPopCallConfiguration(&grid, &block, &shared, &stream));
    CHECK(grid.y == 3 && block.x == 64 && shared == 8 && stream == NULL);
    CHECK_IS(SUCCESS, hipLaunchKernel(&stub, grid, block, NULL, shared, stream));
    CHECK_IS(SUCCESS, hipExtLaunchKernel(&stub, grid, block, NULL, 0, NULL, start, stop, 0));
    CHECK_IS(SUCCESS, hipEventElapsedTime(&time, start, stop));
    CHECK(time > 0);
    CHECK_IS(98, hipLaunchKernel(&grid, grid, block, NULL, 0, NULL));
    CHECK_IS(NOT_FOUND, hipLaunchKernel(&other_stub, grid, block, NULL, 0, NULL)); /* not in the code */
    CHECK_IS(INVALID_CONFIGURATION, hipLaunchKernel(&stub, (struct dim3){0, 1, 1}, block, NULL, 0, NULL));
    CHECK_IS(SUCCESS, hipGetFuncBySymbol(&function, &stub));
    CHECK(strcmp(hipKernelNameRef(function), "kernel_one") == 0);
    CHECK_IS(SUCCESS, hipEventDestroy(start));
    CHECK_IS(SUCCESS, hipEventDestroy(stop));
}

static void check_variables(void)
{
    void *pointer = NULL, *again = NULL;
    size_t size = 0;
    int from = 0x01020304, to = 9;

    CHECK_IS(SUCCESS, hipGetSymbolSize(&size, &variable));
    CHECK_IS(8, size);
    CHECK_IS(SUCCESS, hipGetSymbolAddress(&pointer, &variable));
    CHECK_IS(SUCCESS, hipGetSymbolAddress(&again, &variable));
    CHECK(pointer != NULL && pointer == again);
    CHECK_IS(13, hipGetSymbolAddress(&pointer, &stub));
    CHECK_IS(13, hipGetSymbolAddress(&pointer, &size));
    CHECK_IS(SUCCESS, hipMemcpyToSymbol(&variable, &from, 4, 4, HOST_TO_DEVICE));
    CHECK_IS(SUCCESS, hipMemcpyFromSymbol(&to, &variable, 4, 4, DEVICE_TO_HOST));
    CHECK_IS(from, to);
    CHECK_IS(INVALID_VALUE, hipMemcpyToSymbol(&variable, &from, 4, 5, HOST_TO_DEVICE));
    CHECK_IS(INVALID_VALUE, hipMemcpyToSymbol(&variable, &from, 4, SIZE_MAX, HOST_TO_DEVICE));
    CHECK(strcmp(managed, "managed") == 0);
}

static void check_occupancy(void)
{
    int blocks = 0, grid = 0, size = 0;

    CHECK_IS(SUCCESS, hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &stub, 250, 0));
    CHECK_IS(8, blocks); /* 32 waves of 64 on a gfx90a */
    CHECK_IS(SUCCESS, hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &stub, 64, 32768));
    CHECK_IS(2, blocks);
    CHECK_IS(INVALID_VALUE, hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &stub, 0, 0));
    CHECK_IS(98, hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &grid, 64, 0));
    CHECK_IS(SUCCESS, hipOccupancyMaxPotentialBlockSize(&grid, &size, &stub, 0, 0));
    CHECK_IS(1024, size);
    CHECK_IS(208, grid);
}

static void check_lookup(void)
{
    int (*get_device)(int *) = NULL;
    void *old = NULL, *new = NULL, *none = &old;
    int found = -1, device = -1;

    CHECK_IS(SUCCESS, hipGetProcAddress("hipGetDevice", (void **)&get_device, 700, 0, &found));
    CHECK_IS(0, found);
    CHECK_IS(SUCCESS, get_device(&device));
    CHECK_IS(0, device);
    CHECK_IS(SUCCESS, hipGetProcAddress("hipGetDeviceProperties", &old, 500, 0, NULL));
    CHECK_IS(SUCCESS, hipGetProcAddress("hipGetDeviceProperties", &new, 600, 0, NULL));
    CHECK(old != new);
    CHECK_IS(NOT_FOUND, hipGetProcAddress("hipNoSuchThing", &none, 600, 0, &found));
    CHECK(found == 1 && none == NULL);
}

static void check_library(const char *path)
{
    handle library = NULL, kernels[2] = {NULL, NULL};
    unsigned count = 0;
    const char *name = NULL;

    CHECK_IS(SUCCESS, hipLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    CHECK_IS(SUCCESS, hipLibraryGetKernelCount(&count, library));
    CHECK_IS(1, count);
    CHECK_IS(SUCCESS, hipLibraryEnumerateKernels(kernels, 2, library));
    CHECK(kernels[0] != NULL && kernels[1] == NULL);
    CHECK_IS(SUCCESS, hipKernelGetName(&name, kernels[0]));
    CHECK(strcmp(name, "kernel_one") == 0);
    CHECK_IS(SUCCESS, hipLibraryUnload(library));
    CHECK_IS(INVALID_HANDLE, hipKernelGetName(&name, kernels[0]));
}

static void check_contexts(void)
{
    handle context = NULL, popped = NULL;

    CHECK_IS(201, hipCtxPopCurrent(&popped));
    CHECK_IS(SUCCESS, hipCtxGetCurrent(&context));
    CHECK_IS(SUCCESS, hipCtxPushCurrent(context));
    CHECK_IS(201, hipCtxPushCurrent((handle)7));
    CHECK_IS(SUCCESS, hipCtxPopCurrent(&popped));
    CHECK(popped == context);
}

int main(int argc, char **argv)
{
    CHECK_IS(3, argc);
    struct fat_wrapper wrapper = {0x48495046, 1, read_all(argv[2]), NULL}, wrong = {0x1234, 1, NULL, NULL};
    void **const binary = __hipRegisterFatBinary(&wrapper);
    char initial[8] = "managed";

    CHECK(binary != NULL);
    __hipRegisterFunction(binary, &stub, "kernel_one", "kernel_one", 0, NULL, NULL, NULL, NULL, NULL);
    if (strcmp(argv[1], "error") == 0) {
        printf("%d\n", hipLaunchKernel(&stub, one, one, NULL, 0, NULL));
    } else {
        CHECK(__hipRegisterFatBinary(&wrong) == NULL);
        __hipRegisterFunction(binary, &other_stub, "none", "none", 0, NULL, NULL, NULL, NULL, NULL);
        __hipRegisterVar(binary, &variable, "variable", "variable", 0, 8, 0, 0);
        __hipRegisterManagedVar(binary, (void **)&managed, initial, "managed", sizeof initial, 8);
        check_launches();
        check_variables();
        check_occupancy();
        check_lookup();
        check_library(argv[2]);
        check_contexts();
    }
    __hipUnregisterFatBinary(binary);
    CHECK_IS(98, hipLaunchKernel(&stub, one, one, NULL, 0, NULL));
    free((void *)wrapper.image);
    return 0;
}
