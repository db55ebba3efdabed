/* Modules. argv[1] names what to do, argv[2] is a file. */
#include "check.h"

#include <sys/mman.h>

static char *read_file(const char *path, size_t *size)
{
    FILE *const file = fopen(path, "rb");
    char *bytes = NULL;

    CHECK(file != NULL);
    CHECK_IS(0, fseek(file, 0, SEEK_END));
    *size = (size_t)ftell(file);
    rewind(file);
    bytes = malloc(*size + 1);
    CHECK_IS(*size, fread(bytes, 1, *size, file));
    bytes[*size] = '\0';
    fclose(file);
    return bytes;
}

static void use_module(handle module, bool any_function)
{
    handle function = NULL, again = NULL, start = NULL, stop = NULL;
    float time = -1;

    CHECK_IS(SUCCESS, hipModuleGetFunction(&function, module, "kernel_one"));
    CHECK_IS(SUCCESS, hipModuleGetFunction(&again, module, "kernel_one"));
    CHECK(function == again);
    CHECK_IS(any_function ? SUCCESS : NOT_FOUND, hipModuleGetFunction(&again, module, "no_such_kernel"));
    CHECK_IS(any_function ? SUCCESS : NOT_FOUND, hipModuleGetFunction(&again, module, "undefined"));
    CHECK_IS(any_function ? SUCCESS : NOT_FOUND, hipModuleGetFunction(&again, module, "not_an_object"));
    CHECK_IS(INVALID_VALUE, hipModuleGetFunction(&again, module, ""));
    CHECK_IS(INVALID_VALUE, hipModuleGetFunction(&again, module, NULL));
    CHECK_IS(INVALID_HANDLE, hipModuleGetFunction(&again, function, "kernel_one"));
    CHECK_IS(SUCCESS, hipEventCreate(&start));
    CHECK_IS(SUCCESS, hipEventCreate(&stop));
    CHECK_IS(SUCCESS, hipExtModuleLaunchKernel(function, 64, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL, start, stop, 0));
    CHECK_IS(SUCCESS, hipEventElapsedTime(&time, start, stop));
    CHECK(time > 0.009F && time < 0.011F);
    CHECK_IS(SUCCESS, hipEventRecord(start, NULL));
    for (int i = 0; i < 3; i++) {
        CHECK_IS(SUCCESS, hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
    }
    CHECK_IS(SUCCESS, hipEventRecord(stop, NULL));
    CHECK_IS(SUCCESS, hipEventElapsedTime(&time, start, stop));
    CHECK(time > 0.029F && time < 0.031F);
    CHECK_IS(SUCCESS, hipModuleLaunchCooperativeKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, NULL));
    CHECK_IS(INVALID_CONFIGURATION, hipModuleLaunchKernel(function, 0, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
    CHECK_IS(INVALID_CONFIGURATION, hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 0, 0, NULL, NULL, NULL));
    CHECK_IS(INVALID_HANDLE, hipModuleLaunchKernel(NULL, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
    CHECK_IS(INVALID_HANDLE, hipModuleLaunchKernel(module, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
    CHECK_IS(INVALID_HANDLE, hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, start, NULL, NULL));
    CHECK_IS(SUCCESS, hipModuleUnload(module));
    CHECK_IS(INVALID_HANDLE, hipModuleUnload(module));
    CHECK_IS(INVALID_HANDLE, hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
    CHECK_IS(INVALID_HANDLE, hipModuleGetFunction(&again, module, "kernel_one"));
    CHECK_IS(SUCCESS, hipEventDestroy(start));
    CHECK_IS(SUCCESS, hipEventDestroy(stop));
}

/* Memory of two pages and more whose last byte stands before a page that cannot be read. */
static char *guarded(size_t size, char **region, size_t *length)
{
    const size_t page = 4096;

    *length = (size + page - 1) / page * page + 2 * page;
    *region = mmap(NULL, *length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    CHECK(*region != MAP_FAILED);
    CHECK_IS(0, mprotect(*region + *length - page, page, PROT_NONE));
    return *region + *length - page - size;
}

/* Every shorter image is refused, without a byte behind it being read. */
static void truncate_image(const char *bytes, size_t size)
{
    for (size_t length = 0; length <= size; length++) {
        char *region = NULL;
        size_t region_length = 0;
        char *const image = guarded(length, &region, &region_length);
        handle module = NULL;
        int error = 0;

        memcpy(image, bytes, length);
        error = hipModuleLoadData(&module, image);
        CHECK_IS(length == size ? SUCCESS : INVALID_IMAGE, error);
        if (error == SUCCESS) {
            CHECK_IS(SUCCESS, hipModuleUnload(module));
        }
        munmap(region, region_length);
    }
}

/* Whatever one changed byte does, nothing outside is touched and no handle is left behind. */
static void flip_bytes(const char *bytes, size_t size)
{
    static const unsigned char masks[] = {0x01, 0x80, 0xFF};

    for (size_t at = 0; at < size; at++) {
        for (size_t i = 0; i < sizeof masks; i++) {
            char *region = NULL;
            size_t region_length = 0;
            char *const image = guarded(size, &region, &region_length);
            handle module = NULL;

            memcpy(image, bytes, size);
            image[at] ^= (char)masks[i];
            if (hipModuleLoadData(&module, image) == SUCCESS) {
                CHECK_IS(SUCCESS, hipModuleUnload(module));
            } else {
                CHECK(module == NULL);
            }
            munmap(region, region_length);
        }
    }
}

int main(int argc, char **argv)
{
    handle module = NULL;
    size_t size = 0;
    char *bytes = NULL;

    CHECK_IS(3, argc);
    if (strcmp(argv[1], "error") == 0) { /* print the error of a load from the file */
        printf("%d\n", hipModuleLoad(&module, argv[2]));
        CHECK(module == NULL || hipModuleUnload(module) == SUCCESS);
        return 0;
    }
    bytes = read_file(argv[2], &size);
    if (strcmp(argv[1], "truncate") == 0) {
        truncate_image(bytes, size);
    } else if (strcmp(argv[1], "flip") == 0) {
        flip_bytes(bytes, size);
    } else {
        CHECK_IS(INVALID_VALUE, hipModuleLoadData(NULL, bytes));
        CHECK_IS(INVALID_VALUE, hipModuleLoadData(&module, NULL));
        CHECK_IS(FILE_NOT_FOUND, hipModuleLoad(&module, "/no/such/file"));
        CHECK_IS(SUCCESS, hipModuleLoadData(&module, bytes));
        use_module(module, strcmp(argv[1], "marker") == 0);
        CHECK_IS(SUCCESS, hipModuleLoad(&module, argv[2]));
        CHECK_IS(SUCCESS, hipModuleUnload(module));
    }
    free(bytes);
    return 0;
}
