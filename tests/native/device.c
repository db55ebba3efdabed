/* Devices, attributes, errors, handles of streams and events. */
#include "check.h"

static void check_devices(void)
{
    int number = -1;

    CHECK_IS(SUCCESS, hipInit(0));
    CHECK_IS(INVALID_VALUE, hipInit(1));
    CHECK_IS(SUCCESS, hipGetDeviceCount(&number));
    CHECK_IS(1, number);
    CHECK_IS(SUCCESS, hipGetDevice(&number));
    CHECK_IS(0, number);
    CHECK_IS(INVALID_VALUE, hipGetDevice(NULL));
    CHECK_IS(SUCCESS, hipSetDevice(0));
    CHECK_IS(INVALID_DEVICE, hipSetDevice(1));
    CHECK_IS(INVALID_DEVICE, hipSetDevice(-1));
    CHECK_IS(INVALID_DEVICE, hipDeviceGet(&number, 7));
    CHECK_IS(SUCCESS, hipRuntimeGetVersion(&number));
    CHECK_IS(70000000, number);
}

static void check_attributes(void)
{
    int value = -1;

    CHECK_IS(SUCCESS, hipDeviceGetAttribute(&value, 63, 0));
    CHECK_IS(104, value);
    CHECK_IS(SUCCESS, hipDeviceGetAttribute(&value, 74, 0));
    CHECK_IS(65536, value);
    CHECK_IS(SUCCESS, hipDeviceGetAttribute(&value, 29, 0));
    CHECK_IS(2147483647, value);
    CHECK_IS(SUCCESS, hipDeviceGetAttribute(&value, 10, 0));
    CHECK_IS(1, value);
    CHECK_IS(SUCCESS, hipDeviceGetAttribute(&value, 87, 0));
    CHECK_IS(64, value);
    CHECK_IS(SUCCESS, hipDeviceGetAttribute(&value, 5, 0));
    CHECK_IS(1700000, value);
    CHECK_IS(SUCCESS, hipDeviceGetAttribute(&value, 60, 0));
    CHECK_IS(1600000, value);
    value = -1;
    CHECK_IS(INVALID_VALUE, hipDeviceGetAttribute(&value, 4711, 0));
    CHECK_IS(-1, value);
    CHECK_IS(INVALID_VALUE, hipDeviceGetAttribute(NULL, 63, 0));
    CHECK_IS(INVALID_DEVICE, hipDeviceGetAttribute(&value, 63, 1));
}

static int int_at(const char *bytes, size_t offset)
{
    int value = 0;

    memcpy(&value, bytes + offset, sizeof value);
    return value;
}

static uint64_t long_at(const char *bytes, size_t offset)
{
    uint64_t value = 0;

    memcpy(&value, bytes + offset, sizeof value);
    return value;
}

static void check_properties(void)
{
    char *const bytes = malloc(1472); /* exactly: the sanitizer sees any byte written behind it */
    char *const old = malloc(792);
    char name[8];
    size_t total = 0;

    memset(bytes, 0x5A, 1472);
    CHECK_IS(INVALID_DEVICE, hipGetDevicePropertiesR0600(bytes, 1));
    CHECK_IS(0x5A, bytes[0]);
    CHECK_IS(SUCCESS, hipGetDevicePropertiesR0600(bytes, 0));
    CHECK(strcmp(bytes, "Test GPU") == 0);
    CHECK_IS(68702699520, long_at(bytes, 288));
    CHECK_IS(65536, long_at(bytes, 296));
    CHECK_IS(64, int_at(bytes, 308));
    CHECK_IS(104, int_at(bytes, 388));
    CHECK(strcmp(bytes + 1160, "gfx90a:sramecc+:xnack-") == 0);
    CHECK_IS(0, bytes[1471]);
    CHECK_IS(SUCCESS, hipGetDeviceProperties(old, 0));
    CHECK(strcmp(old + 396, "gfx90a:sramecc+:xnack-") == 0);
    CHECK_IS(104, int_at(old, 336));
    CHECK_IS(INVALID_VALUE, hipGetDevicePropertiesR0600(NULL, 0));
    CHECK_IS(SUCCESS, hipDeviceGetName(name, sizeof name, 0));
    CHECK(strcmp(name, "Test GP") == 0);
    CHECK_IS(INVALID_DEVICE, hipDeviceGetName(name, sizeof name, 1));
    CHECK_IS(SUCCESS, hipDeviceTotalMem(&total, 0));
    CHECK_IS(68702699520, total);
    CHECK_IS(INVALID_DEVICE, hipDeviceTotalMem(&total, 3));
    free(bytes);
    free(old);
}

static void check_errors(void)
{
    CHECK(strcmp(hipGetErrorName(101), "hipErrorInvalidDevice") == 0);
    CHECK(strcmp(hipGetErrorName(0), "hipSuccess") == 0);
    CHECK(hipGetErrorString(12345) != NULL);
    hipGetLastError();
    CHECK_IS(SUCCESS, hipGetLastError());
    CHECK_IS(INVALID_DEVICE, hipSetDevice(9));
    CHECK_IS(SUCCESS, hipSetDevice(0));
    CHECK_IS(SUCCESS, hipExtGetLastError()); /* the last call, not the last error */
    CHECK_IS(INVALID_DEVICE, hipPeekAtLastError());
    CHECK_IS(INVALID_DEVICE, hipGetLastError());
    CHECK_IS(SUCCESS, hipGetLastError());
}

static void check_streams(void)
{
    handle stream = NULL, other = NULL, event = NULL;

    CHECK_IS(INVALID_VALUE, hipStreamCreate(NULL));
    CHECK_IS(INVALID_VALUE, hipStreamCreateWithFlags(&stream, 2));
    CHECK_IS(SUCCESS, hipStreamCreateWithFlags(&stream, 1));
    CHECK_IS(SUCCESS, hipEventCreate(&event));
    CHECK(stream != NULL && stream != event);
    CHECK_IS(SUCCESS, hipStreamSynchronize(stream));
    CHECK_IS(SUCCESS, hipStreamSynchronize(NULL));
    CHECK_IS(INVALID_HANDLE, hipStreamSynchronize(event)); /* a live handle of another kind */
    CHECK_IS(INVALID_HANDLE, hipStreamSynchronize((handle)0x1234));
    CHECK_IS(INVALID_HANDLE, hipStreamSynchronize((handle)UINTPTR_MAX));
    CHECK_IS(SUCCESS, hipStreamWaitEvent(stream, event, 0));
    CHECK_IS(INVALID_HANDLE, hipStreamWaitEvent(stream, stream, 0));
    CHECK_IS(INVALID_HANDLE, hipStreamDestroy(NULL));
    CHECK_IS(SUCCESS, hipStreamDestroy(stream));
    CHECK_IS(INVALID_HANDLE, hipStreamDestroy(stream));
    CHECK_IS(SUCCESS, hipStreamCreate(&other)); /* the slot is used again, the handle is not */
    CHECK(other != stream);
    CHECK_IS(INVALID_HANDLE, hipStreamSynchronize(stream));
    CHECK_IS(SUCCESS, hipStreamDestroy(other));
    CHECK_IS(SUCCESS, hipEventDestroy(event));
}

static void check_events(void)
{
    handle start = NULL, stop = NULL, untimed = NULL;
    float time = -1;

    CHECK_IS(INVALID_VALUE, hipEventCreateWithFlags(&start, 0x100));
    CHECK_IS(SUCCESS, hipEventCreate(&start));
    CHECK_IS(SUCCESS, hipEventCreate(&stop));
    CHECK_IS(SUCCESS, hipEventCreateWithFlags(&untimed, 2));
    CHECK_IS(INVALID_HANDLE, hipEventElapsedTime(&time, start, stop)); /* never recorded */
    CHECK_IS(SUCCESS, hipEventRecord(start, NULL));
    CHECK_IS(SUCCESS, hipEventRecord(stop, NULL));
    CHECK_IS(SUCCESS, hipEventRecord(untimed, NULL));
    CHECK_IS(SUCCESS, hipEventSynchronize(stop));
    CHECK_IS(SUCCESS, hipEventElapsedTime(&time, start, stop));
    CHECK(time > 0 && time < 1);
    CHECK_IS(SUCCESS, hipEventElapsedTime(&time, stop, start));
    CHECK(time > 0);
    CHECK_IS(INVALID_HANDLE, hipEventElapsedTime(&time, start, untimed));
    CHECK_IS(INVALID_VALUE, hipEventElapsedTime(NULL, start, stop));
    CHECK_IS(INVALID_HANDLE, hipEventRecord(NULL, NULL));
    CHECK_IS(SUCCESS, hipEventDestroy(start));
    CHECK_IS(INVALID_HANDLE, hipEventDestroy(start));
    CHECK_IS(INVALID_HANDLE, hipEventElapsedTime(&time, start, stop));
    CHECK_IS(SUCCESS, hipEventDestroy(stop));
    CHECK_IS(SUCCESS, hipEventDestroy(untimed));
}

static void check_unsupported(void)
{
    unsigned flags = 0;
    const uint64_t before = kdbforge_vgpu_calls();

    CHECK_IS(NOT_SUPPORTED, hipTexRefGetFlags(&flags, NULL));
    CHECK_IS(NOT_SUPPORTED, hipTexRefGetFlags(&flags, NULL));
    CHECK_IS(NOT_SUPPORTED, hipGetLastError());
    CHECK(hipApiName(1) == NULL);
    CHECK_IS(SUCCESS, hipProfilerStart());
    CHECK_IS(before + 5, kdbforge_vgpu_calls());
    CHECK(kdbforge_vgpu_version()[0] != '\0');
    kdbforge_vgpu_mark("a mark");
    kdbforge_vgpu_mark(NULL);
}

static void check_halves(void)
{
    for (unsigned half = 0; half <= 0xFFFF; half++) {
        const bool nan = (half & 0x7C00U) == 0x7C00U && (half & 0x3FFU) != 0;
        const float value = __gnu_h2f_ieee((unsigned short)half);

        CHECK(nan ? value != value : __gnu_f2h_ieee(value) == half);
    }
    CHECK_IS(0x3C00, __gnu_f2h_ieee(1.0F));
    CHECK_IS(0x7C00, __gnu_f2h_ieee(65520.0F)); /* rounds to infinity */
    CHECK_IS(0x7BFF, __gnu_f2h_ieee(65519.0F));
    CHECK_IS(0x0001, __gnu_f2h_ieee(0x1.8p-25F)); /* rounds up to the least half */
    CHECK_IS(0x0000, __gnu_f2h_ieee(0x1.0p-25F)); /* a tie goes to even */
}

int main(void)
{
    check_devices();
    check_attributes();
    check_properties();
    check_errors();
    check_streams();
    check_events();
    check_unsupported();
    check_halves();
    return 0;
}
