/* A HIP program as the compiler would make it: its kernel, compiled for each device by HIPRTC, is in a fat binary
 * that is registered, and launched by the address of its stub. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                              \
    do {                                                                         \
        const int error_ = (call);                                               \
        if (error_ != 0) {                                                       \
            fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #call, error_); \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

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
int hipGetDeviceCount(int *count);
int hipSetDevice(int device);
int hipGetDevicePropertiesR0600(char *properties, int device);
int hipLaunchKernel(const void *host, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                    void *stream);
int hipMalloc(void **pointer, size_t size);
int hipMemcpy(void *target, const void *source, size_t size, int kind);
int hipDeviceSynchronize(void);
int hipFree(void *pointer);
int hiprtcCreateProgram(void **program, const char *source, const char *name, int count, const char **headers,
                        const char **names);
int hiprtcCompileProgram(void *program, int count, const char **options);
int hiprtcGetCodeSize(void *program, size_t *size);
int hiprtcGetCode(void *program, char *code);

static const char source[] = "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }";
static char stub;

struct image {
    char name[128];
    char *code;
    size_t size;
};

static void compile(struct image *image, const char *arch)
{
    char option[128];
    const char *options[] = {option};
    void *program = NULL;

    snprintf(option, sizeof option, "--offload-arch=%s", arch);
    snprintf(image->name, sizeof image->name, "hipv4-amdgcn-amd-amdhsa--%s", arch);
    CHECK(hiprtcCreateProgram(&program, source, "twice.hip", 0, NULL, NULL));
    CHECK(hiprtcCompileProgram(program, 1, options));
    CHECK(hiprtcGetCodeSize(program, &image->size));
    image->code = malloc(image->size);
    CHECK(hiprtcGetCode(program, image->code));
}

static char *put_number(char *place, uint64_t number)
{
    memcpy(place, &number, sizeof number);
    return place + sizeof number;
}

/* As clang-offload-bundler writes it. */
static char *bundle(const struct image *images, int count)
{
    char *const bytes = calloc(1, 1 << 20);
    char *at = bytes;
    uint64_t offset = 1 << 14;

    strcpy(at, "__CLANG_OFFLOAD_BUNDLE__");
    at = put_number(at + strlen(at), (uint64_t)count);
    for (int i = 0; i < count; i++) {
        at = put_number(at, offset);
        at = put_number(at, images[i].size);
        at = put_number(at, strlen(images[i].name));
        strcpy(at, images[i].name);
        at += strlen(at);
        memcpy(bytes + offset, images[i].code, images[i].size);
        offset += images[i].size;
    }
    return bytes;
}

static void use(int device)
{
    float values[64] = {1}, back[64] = {0};
    void *memory = NULL, *arguments[] = {&memory};

    CHECK(hipSetDevice(device));
    CHECK(hipMalloc(&memory, sizeof values));
    CHECK(hipMemcpy(memory, values, sizeof values, 1));
    CHECK(hipLaunchKernel(&stub, (struct dim3){1, 1, 1}, (struct dim3){64, 1, 1}, arguments, 0, NULL));
    CHECK(hipDeviceSynchronize());
    CHECK(hipMemcpy(back, memory, sizeof back, 2));
    CHECK(hipFree(memory));
    printf("device %d: %g\n", device, back[0]);
}

int main(void)
{
    static char properties[1472];
    struct image images[8];
    int count = 0;

    CHECK(hipGetDeviceCount(&count));
    for (int i = 0; i < count; i++) {
        CHECK(hipGetDevicePropertiesR0600(properties, i));
        printf("%s\n", properties + 1160);
        compile(&images[i], properties + 1160);
    }
    const struct fat_wrapper wrapper = {0x48495046, 1, bundle(images, count), NULL};
    void **const binary = __hipRegisterFatBinary(&wrapper);
    __hipRegisterFunction(binary, &stub, "twice", "twice", 0, NULL, NULL, NULL, NULL, NULL);
    for (int i = 0; i < count; i++) {
        use(i);
    }
    __hipUnregisterFatBinary(binary);
    return 0;
}
