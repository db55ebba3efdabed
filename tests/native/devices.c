/* Two devices: a gfx90a with 104 CUs, and a gfx1030 with 40 and 1 MiB; the current one is a thread's own. */
#include "check.h"

#include <pthread.h>

int hipStreamGetDevice(handle stream, int *device);
int hipDeviceCanAccessPeer(int *can, int device, int peer);
int hipDeviceEnablePeerAccess(int peer, unsigned flags);
int hipDeviceDisablePeerAccess(int peer);
int hipDeviceComputeCapability(int *major, int *minor, int device);

static void *other_thread(void *unused)
{
    int device = -1;

    CHECK_IS(SUCCESS, hipGetDevice(&device));
    CHECK_IS(0, device);
    return unused;
}

static void check_current(void)
{
    handle stream = NULL;
    pthread_t thread;
    int device = -1;

    CHECK_IS(INVALID_DEVICE, hipSetDevice(2));
    CHECK_IS(SUCCESS, hipSetDevice(1));
    CHECK_IS(SUCCESS, hipGetDevice(&device));
    CHECK_IS(1, device);
    CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_IS(SUCCESS, hipStreamCreate(&stream));
    CHECK_IS(SUCCESS, hipSetDevice(0));
    CHECK_IS(SUCCESS, hipStreamGetDevice(stream, &device));
    CHECK_IS(1, device);
    CHECK_IS(SUCCESS, hipStreamGetDevice(NULL, &device));
    CHECK_IS(0, device);
    CHECK_IS(SUCCESS, hipStreamDestroy(stream));
}

static void check_reports(void)
{
    int value = 0, major = 0, minor = 0;
    char name[16];

    CHECK_IS(SUCCESS, hipGetDeviceCount(&value));
    CHECK_IS(2, value);
    CHECK_IS(SUCCESS, hipDeviceGetAttribute(&value, 63, 1));
    CHECK_IS(40, value);
    CHECK_IS(SUCCESS, hipDeviceGetAttribute(&value, 57, 1)); /* 32 waves of 32 */
    CHECK_IS(1024, value);
    CHECK_IS(SUCCESS, hipDeviceGetAttribute(&value, 57, 0));
    CHECK_IS(2048, value);
    CHECK_IS(SUCCESS, hipDeviceGetName(name, sizeof name, 1));
    CHECK(strcmp(name, "Two") == 0);
    CHECK_IS(SUCCESS, hipDeviceComputeCapability(&major, &minor, 1));
    CHECK_IS(10, major);
    CHECK_IS(3, minor);
    CHECK_IS(SUCCESS, hipDeviceComputeCapability(&major, &minor, 0));
    CHECK_IS(9, major);
    CHECK_IS(0, minor);
}

static void check_memory(void)
{
    void *large = NULL, *small = NULL;
    size_t unused = 0, total = 0;

    CHECK_IS(SUCCESS, hipMalloc(&large, 2 << 20));
    CHECK_IS(SUCCESS, hipSetDevice(1));
    CHECK_IS(OUT_OF_MEMORY, hipMalloc(&small, 2 << 20));
    CHECK_IS(SUCCESS, hipMalloc(&small, 1 << 19));
    CHECK_IS(SUCCESS, hipMemGetInfo(&unused, &total));
    CHECK_IS(1 << 20, total);
    CHECK_IS(1 << 19, unused);
    CHECK_IS(SUCCESS, hipFree(large)); /* of the other device */
    CHECK_IS(SUCCESS, hipFree(small));
    CHECK_IS(SUCCESS, hipMemGetInfo(&unused, NULL));
    CHECK_IS(1 << 20, unused);
    CHECK_IS(SUCCESS, hipSetDevice(0));
}

static void check_peers(void)
{
    int can = -1;

    CHECK_IS(SUCCESS, hipDeviceCanAccessPeer(&can, 0, 1));
    CHECK_IS(1, can);
    CHECK_IS(SUCCESS, hipDeviceCanAccessPeer(&can, 1, 1));
    CHECK_IS(0, can);
    CHECK_IS(INVALID_DEVICE, hipDeviceCanAccessPeer(&can, 0, 2));
    CHECK_IS(705, hipDeviceDisablePeerAccess(1));
    CHECK_IS(SUCCESS, hipDeviceEnablePeerAccess(1, 0));
    CHECK_IS(704, hipDeviceEnablePeerAccess(1, 0));
    CHECK_IS(INVALID_DEVICE, hipDeviceEnablePeerAccess(0, 0));
    CHECK_IS(SUCCESS, hipDeviceDisablePeerAccess(1));
}

int main(void)
{
    check_current();
    check_reports();
    check_memory();
    check_peers();
    return 0;
}
