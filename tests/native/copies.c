/* Rows and boxes, managed and registered memory, pools, and what is known of a pointer: argv[1] is the mode. */
#include "check.h"

struct pitched {
    void *pointer;
    size_t pitch, width, height;
};
struct extent {
    size_t width, height, depth;
};
struct box_copy {
    void *source_array;
    size_t source_position[3];
    struct pitched source;
    void *target_array;
    size_t target_position[3];
    struct pitched target;
    struct extent extent;
    int kind;
};
struct attributes {
    int type, device;
    void *device_pointer, *host_pointer;
    int managed;
    unsigned flags;
};
struct pool_properties {
    int allocation, handles, location_type, location;
    char rest[72];
};

int hipMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height);
int hipMalloc3D(struct pitched *place, struct extent extent);
int hipMemcpy2D(void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width,
                size_t height, int kind);
int hipMemcpy3D(const struct box_copy *copy);
int hipMemset2D(void *target, size_t pitch, int value, size_t width, size_t height);
int hipMemset3D(struct pitched target, int value, struct extent extent);
int hipMallocManaged(void **pointer, size_t size, unsigned flags);
int hipHostRegister(void *pointer, size_t size, unsigned flags);
int hipHostUnregister(void *pointer);
int hipHostGetFlags(unsigned *flags, void *pointer);
int hipPointerGetAttributes(struct attributes *attributes, const void *pointer);
int hipPointerGetAttribute(void *data, int attribute, void *pointer);
int hipMallocAsync(void **pointer, size_t size, handle stream);
int hipMallocFromPoolAsync(void **pointer, size_t size, handle pool, handle stream);
int hipFreeAsync(void *pointer, handle stream);
int hipDeviceGetDefaultMemPool(handle *pool, int device);
int hipDeviceGetMemPool(handle *pool, int device);
int hipDeviceSetMemPool(int device, handle pool);
int hipMemPoolCreate(handle *pool, const struct pool_properties *properties);
int hipMemPoolDestroy(handle pool);
int hipMemPoolGetAttribute(handle pool, int attribute, void *value);
int hipMemPoolSetAttribute(handle pool, int attribute, void *value);

static void check_rows(bool backed)
{
    unsigned char from[30], to[30];
    void *rows = NULL;
    size_t pitch = 0;

    for (int i = 0; i < 30; i++) {
        from[i] = (unsigned char)i;
    }
    memset(to, 99, sizeof to);
    CHECK_IS(SUCCESS, hipMallocPitch(&rows, &pitch, 10, 3));
    CHECK_IS(256, pitch);
    CHECK_IS(SUCCESS, hipMemcpy2D(rows, pitch, from, 10, 10, 3, HOST_TO_DEVICE));
    CHECK_IS(SUCCESS, hipMemset2D((char *)rows + pitch, pitch, 7, 2, 1));
    CHECK_IS(SUCCESS, hipMemcpy2D(to, 10, rows, pitch, 10, 3, DEVICE_TO_HOST));
    CHECK_IS(backed ? 7 : 0, to[11]);
    CHECK_IS(backed ? 12 : 0, to[12]);
    CHECK_IS(backed ? 29 : 0, to[29]);
    CHECK_IS(12, hipMemcpy2D(rows, 5, from, 10, 10, 3, HOST_TO_DEVICE)); /* rows would overlap */
    CHECK_IS(INVALID_VALUE, hipMemcpy2D(rows, pitch, from, 10, 10, 4, HOST_TO_DEVICE));
    CHECK_IS(INVALID_VALUE, hipMemset2D(rows, pitch, 0, 10, 9));
    CHECK_IS(SUCCESS, hipFree(rows));
    CHECK_IS(OUT_OF_MEMORY, hipMallocPitch(&rows, &pitch, 1000, SIZE_MAX / 500));
}

static void check_boxes(bool backed)
{
    unsigned char from[24], to[24];
    const struct extent whole = {4, 3, 2}, part = {2, 2, 1};
    struct pitched place = {0};
    struct box_copy copy = {0};

    memset(from, 1, sizeof from);
    memset(to, 9, sizeof to);
    CHECK_IS(SUCCESS, hipMalloc3D(&place, whole));
    CHECK_IS(SUCCESS, hipMemset3D(place, 3, whole));
    copy.source = (struct pitched){from, 4, 4, 3};
    copy.target = place;
    copy.target_position[0] = 1; /* bytes */
    copy.target_position[1] = 1;
    copy.target_position[2] = 1;
    copy.extent = part;
    copy.kind = HOST_TO_DEVICE;
    CHECK_IS(SUCCESS, hipMemcpy3D(&copy));
    copy = (struct box_copy){.source = place, .target = {to, 4, 4, 3}, .extent = whole, .kind = DEVICE_TO_HOST};
    CHECK_IS(SUCCESS, hipMemcpy3D(&copy));
    CHECK_IS(backed ? 3 : 0, to[0]);
    CHECK_IS(backed ? 1 : 0, to[12 + 4 + 1]);
    CHECK_IS(backed ? 3 : 0, to[12 + 4]);
    copy.source_array = to;
    CHECK_IS(INVALID_VALUE, hipMemcpy3D(&copy));
    CHECK_IS(INVALID_VALUE, hipMemcpy3D(NULL));
    CHECK_IS(SUCCESS, hipFree(place.pointer));
}

static void check_host_memory(void)
{
    struct attributes attributes;
    int *managed = NULL;
    static char own[100];
    unsigned flags = 0;
    size_t size = 0;

    CHECK_IS(INVALID_VALUE, hipMallocManaged((void **)&managed, 0, 1));
    CHECK_IS(INVALID_VALUE, hipMallocManaged((void **)&managed, 4, 9));
    CHECK_IS(SUCCESS, hipMallocManaged((void **)&managed, 400, 1));
    managed[99] = 5; /* the host may use it in both modes */
    CHECK_IS(SUCCESS, hipPointerGetAttributes(&attributes, managed + 7));
    CHECK_IS(3, attributes.type);
    CHECK_IS(1, attributes.managed);
    CHECK(attributes.host_pointer == managed + 7 && attributes.device_pointer == managed + 7);
    CHECK_IS(SUCCESS, hipPointerGetAttribute(&size, 12, managed));
    CHECK_IS(400, size);
    CHECK_IS(SUCCESS, hipFree(managed));
    CHECK_IS(SUCCESS, hipPointerGetAttributes(&attributes, own));
    CHECK_IS(0, attributes.type);
    CHECK_IS(-2, attributes.device);
    CHECK_IS(713, hipHostUnregister(own));
    CHECK_IS(SUCCESS, hipHostRegister(own, sizeof own, 2));
    CHECK_IS(712, hipHostRegister(own + 10, 1, 0));
    CHECK_IS(SUCCESS, hipPointerGetAttributes(&attributes, own + 99));
    CHECK_IS(1, attributes.type);
    CHECK_IS(SUCCESS, hipHostGetFlags(&flags, own));
    CHECK_IS(2, flags);
    CHECK_IS(INVALID_VALUE, hipHostFree(own)); /* it is not HIP's to free */
    CHECK_IS(SUCCESS, hipHostUnregister(own));
    own[99] = 1;
}

static void check_pools(void)
{
    const struct pool_properties here = {.allocation = 1, .location_type = 1}, nowhere = {.location_type = 1,
                                                                                          .location = 7};
    handle pool = NULL, found = NULL, usual = NULL;
    void *memory = NULL;
    uint64_t value = 4711;

    CHECK_IS(SUCCESS, hipDeviceGetDefaultMemPool(&usual, 0));
    CHECK_IS(SUCCESS, hipDeviceGetMemPool(&found, 0));
    CHECK(usual != NULL && usual == found);
    CHECK_IS(INVALID_VALUE, hipMemPoolDestroy(usual));
    CHECK_IS(INVALID_VALUE, hipMemPoolCreate(&pool, &nowhere));
    CHECK_IS(SUCCESS, hipMemPoolCreate(&pool, &here));
    CHECK_IS(SUCCESS, hipDeviceSetMemPool(0, pool));
    CHECK_IS(SUCCESS, hipDeviceGetMemPool(&found, 0));
    CHECK(found == pool);
    CHECK_IS(SUCCESS, hipMemPoolSetAttribute(pool, 4, &value));
    value = 0;
    CHECK_IS(SUCCESS, hipMemPoolGetAttribute(pool, 4, &value));
    CHECK_IS(4711, value);
    CHECK_IS(INVALID_VALUE, hipMemPoolGetAttribute(pool, 9, &value));
    CHECK_IS(SUCCESS, hipMallocAsync(&memory, 1000, NULL));
    CHECK_IS(SUCCESS, hipMemPoolGetAttribute(pool, 7, &value));
    CHECK_IS(1000, value);
    CHECK_IS(INVALID_HANDLE, hipFreeAsync(memory, (handle)0x55));
    CHECK_IS(SUCCESS, hipFreeAsync(memory, NULL));
    CHECK_IS(SUCCESS, hipMallocFromPoolAsync(&memory, 10, pool, NULL));
    CHECK_IS(SUCCESS, hipFree(memory));
    CHECK_IS(SUCCESS, hipMemPoolDestroy(pool));
    CHECK_IS(INVALID_VALUE, hipMallocFromPoolAsync(&memory, 10, pool, NULL));
    CHECK_IS(SUCCESS, hipDeviceGetMemPool(&found, 0));
    CHECK(found == usual);
}

int main(int argc, char **argv)
{
    CHECK_IS(2, argc);
    check_rows(strcmp(argv[1], "backed") == 0);
    check_boxes(strcmp(argv[1], "backed") == 0);
    check_host_memory();
    check_pools();
    return 0;
}
