/* Memory in both modes: argv[1] is `reserve` or `backed`; the device has 64 MiB. */
#include "check.h"

enum { MIB = 1 << 20 };

static void check_bookkeeping(void)
{
    void *first = NULL, *second = NULL, *empty = (void *)1;
    size_t unused = 0, total = 0, size = 0;

    CHECK_IS(SUCCESS, hipMalloc(&empty, 0));
    CHECK(empty == NULL);
    CHECK_IS(SUCCESS, hipFree(NULL));
    CHECK_IS(INVALID_VALUE, hipMalloc(NULL, 1));
    CHECK_IS(SUCCESS, hipMalloc(&first, 40 * MIB));
    CHECK_IS(SUCCESS, hipMemGetInfo(&unused, &total));
    CHECK_IS(64 * MIB, total);
    CHECK_IS(24 * MIB, unused);
    CHECK_IS(OUT_OF_MEMORY, hipMalloc(&second, 24 * MIB + 1));
    CHECK(second == NULL);
    CHECK_IS(OUT_OF_MEMORY, hipMalloc(&second, SIZE_MAX));
    CHECK_IS(SUCCESS, hipMalloc(&second, 24 * MIB));
    CHECK_IS(SUCCESS, hipMemPtrGetInfo(first, &size));
    CHECK_IS(40 * MIB, size);
    CHECK_IS(SUCCESS, hipMemPtrGetInfo((char *)second + 5, &size));
    CHECK_IS(24 * MIB, size);
    CHECK_IS(INVALID_VALUE, hipMemPtrGetInfo(&size, &size));
    CHECK_IS(INVALID_VALUE, hipMemPtrGetInfo(NULL, &size));
    CHECK_IS(INVALID_VALUE, hipFree((char *)first + 1));
    CHECK_IS(INVALID_VALUE, hipHostFree(first));
    CHECK_IS(INVALID_VALUE, hipFree(&size));
    CHECK_IS(SUCCESS, hipFree(first));
    CHECK_IS(INVALID_VALUE, hipFree(first));
    CHECK_IS(INVALID_VALUE, hipMemset(first, 0, 1)); /* use after free */
    CHECK_IS(SUCCESS, hipFree(second));
    CHECK_IS(SUCCESS, hipMemGetInfo(&unused, NULL));
    CHECK_IS(64 * MIB, unused);
    CHECK_IS(INVALID_VALUE, hipMemGetInfo(NULL, NULL));
}

static void check_copies(bool backed)
{
    unsigned char from[1000], to[1000];
    void *memory = NULL, *other = NULL;

    memset(from, 7, sizeof from);
    memset(to, 9, sizeof to);
    CHECK_IS(SUCCESS, hipMalloc(&memory, sizeof from));
    CHECK_IS(SUCCESS, hipMalloc(&other, sizeof from));
    CHECK_IS(SUCCESS, hipMemcpy(to, memory, sizeof to, DEVICE_TO_HOST));
    CHECK_IS(0, to[0] | to[999]); /* new memory is zero in both modes */
    CHECK_IS(SUCCESS, hipMemcpy(memory, from, sizeof from, HOST_TO_DEVICE));
    CHECK_IS(SUCCESS, hipMemcpy(other, memory, sizeof from, DEVICE_TO_DEVICE));
    CHECK_IS(SUCCESS, hipMemset((char *)other + 500, 3, 500));
    memset(to, 9, sizeof to);
    CHECK_IS(SUCCESS, hipMemcpyWithStream(to, other, sizeof to, DEVICE_TO_HOST, NULL));
    CHECK_IS(backed ? 7 : 0, to[499]);
    CHECK_IS(backed ? 3 : 0, to[500]);
    CHECK_IS(SUCCESS, hipMemsetD32(other, 0x01020304, 250));
    CHECK_IS(SUCCESS, hipMemcpy(to, (char *)other + 996, 4, ANY_DIRECTION));
    CHECK_IS(backed ? 4 : 0, to[0]);
    CHECK_IS(backed ? 1 : 0, to[3]);
    CHECK_IS(SUCCESS, hipMemcpy(to, from, sizeof to, HOST_TO_HOST));
    CHECK_IS(7, to[999]);

    CHECK_IS(INVALID_VALUE, hipMemcpy(memory, from, 1001, HOST_TO_DEVICE));
    CHECK_IS(INVALID_VALUE, hipMemcpy((char *)memory + 999, from, 2, HOST_TO_DEVICE));
    CHECK_IS(INVALID_VALUE, hipMemcpy(to, (char *)memory + 1, SIZE_MAX, DEVICE_TO_HOST));
    CHECK_IS(INVALID_VALUE, hipMemcpy((char *)memory - 1, from, 2, ANY_DIRECTION));
    CHECK_IS(INVALID_VALUE, hipMemcpy(to, from, 4, DEVICE_TO_HOST));
    CHECK_IS(INVALID_VALUE, hipMemcpy(to, from, 4, HOST_TO_DEVICE));
    CHECK_IS(INVALID_VALUE, hipMemcpy(to, memory, 4, HOST_TO_HOST));
    CHECK_IS(INVALID_VALUE, hipMemcpy(NULL, from, 4, ANY_DIRECTION));
    CHECK_IS(INVALID_DIRECTION, hipMemcpy(memory, from, 4, 77));
    CHECK_IS(INVALID_HANDLE, hipMemcpyWithStream(to, memory, 4, DEVICE_TO_HOST, (handle)99));
    CHECK_IS(INVALID_VALUE, hipMemset(to, 0, 4));
    CHECK_IS(INVALID_VALUE, hipMemset(memory, 0, 1001));
    CHECK_IS(INVALID_VALUE, hipMemsetD32(memory, 0, SIZE_MAX / 2));
    CHECK_IS(INVALID_VALUE, hipMemsetD32((char *)memory + 1, 0, 1));
    CHECK_IS(SUCCESS, hipMemcpy(NULL, NULL, 0, ANY_DIRECTION));
    CHECK_IS(SUCCESS, hipFree(memory));
    CHECK_IS(SUCCESS, hipFree(other));
}

static void check_host_memory(void)
{
    void *host = NULL;
    size_t unused = 0;

    CHECK_IS(INVALID_VALUE, hipHostMalloc(&host, 16, 0x100));
    CHECK_IS(SUCCESS, hipHostMalloc(&host, 4 * MIB, 0x40000000));
    memset(host, 1, 4 * MIB); /* real in both modes */
    CHECK_IS(SUCCESS, hipMemset(host, 5, 10));
    CHECK_IS(5, ((char *)host)[9]);
    CHECK_IS(SUCCESS, hipMemGetInfo(&unused, NULL));
    CHECK_IS(64 * MIB, unused);
    CHECK_IS(INVALID_VALUE, hipFree(host));
    CHECK_IS(SUCCESS, hipHostFree(host));
    CHECK_IS(INVALID_VALUE, hipHostFree(host));
}

static void check_many(void)
{
    enum { COUNT = 300 };
    void *pointers[COUNT];
    size_t size = 0;

    for (int i = 0; i < COUNT; i++) {
        CHECK_IS(SUCCESS, hipMalloc(&pointers[i], (size_t)(i + 1) * 8));
    }
    for (int i = 0; i < COUNT; i += 2) {
        CHECK_IS(SUCCESS, hipFree(pointers[i]));
    }
    for (int i = 1; i < COUNT; i += 2) {
        CHECK_IS(SUCCESS, hipMemPtrGetInfo((char *)pointers[i] + (i + 1) * 8 - 1, &size));
        CHECK_IS((i + 1) * 8, size);
        CHECK_IS(SUCCESS, hipFree(pointers[i]));
    }
}

int main(int argc, char **argv)
{
    CHECK_IS(2, argc);
    check_bookkeeping();
    check_copies(strcmp(argv[1], "backed") == 0);
    check_host_memory();
    check_many();
    return 0;
}
