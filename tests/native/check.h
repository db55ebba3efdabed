/* Checks for the native test programs, and the calls that they make. */
#ifndef KDBFORGE_TEST_CHECK_H
#define KDBFORGE_TEST_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

#define CHECK_IS(expected, expression)                                          \
    do {                                                                        \
        const long long value_ = (long long)(expression);                       \
        if (value_ != (long long)(expected)) {                                  \
            fprintf(stderr, "%s:%d: %s is %lld, not %s\n", __FILE__, __LINE__, #expression, value_, \
                    #expected);                                                 \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

/* hip/hip_runtime_api.h */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_CONFIGURATION = 9,
    INVALID_DIRECTION = 21,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    NO_BINARY_FOR_GPU = 209,
    FILE_NOT_FOUND = 301,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_SUPPORTED = 801,
};
enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, ANY_DIRECTION };

typedef void *handle;
int hipInit(unsigned flags);
int hipGetDeviceCount(int *count);
int hipGetDevice(int *device);
int hipSetDevice(int device);
int hipDeviceGet(int *device, int ordinal);
int hipDeviceGetName(char *name, int length, int device);
int hipDeviceTotalMem(size_t *bytes, int device);
int hipDeviceGetAttribute(int *value, int attribute, int device);
int hipGetDevicePropertiesR0600(void *properties, int device);
int hipGetDeviceProperties(void *properties, int device);
int hipRuntimeGetVersion(int *version);
const char *hipGetErrorName(int error);
const char *hipGetErrorString(int error);
int hipGetLastError(void);
int hipPeekAtLastError(void);
int hipExtGetLastError(void);
int hipMalloc(void **pointer, size_t size);
int hipFree(void *pointer);
int hipHostMalloc(void **pointer, size_t size, unsigned flags);
int hipHostFree(void *pointer);
int hipMemGetInfo(size_t *free_bytes, size_t *total);
int hipMemPtrGetInfo(void *pointer, size_t *size);
int hipMemcpy(void *target, const void *source, size_t size, int kind);
int hipMemcpyWithStream(void *target, const void *source, size_t size, int kind, handle stream);
int hipMemset(void *target, int value, size_t size);
int hipMemsetD32(void *target, int value, size_t count);
int hipStreamCreate(handle *stream);
int hipStreamCreateWithFlags(handle *stream, unsigned flags);
int hipStreamDestroy(handle stream);
int hipStreamSynchronize(handle stream);
int hipStreamWaitEvent(handle stream, handle event, unsigned flags);
int hipEventCreate(handle *event);
int hipEventCreateWithFlags(handle *event, unsigned flags);
int hipEventDestroy(handle event);
int hipEventRecord(handle event, handle stream);
int hipEventSynchronize(handle event);
int hipEventElapsedTime(float *milliseconds, handle start, handle stop);
int hipModuleLoad(handle *module, const char *path);
int hipModuleLoadData(handle *module, const void *image);
int hipModuleUnload(handle module);
int hipModuleGetFunction(handle *function, handle module, const char *name);
int hipModuleLaunchKernel(handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, handle stream, void **arguments, void **extra);
int hipModuleLaunchCooperativeKernel(handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                     unsigned by, unsigned bz, unsigned shared, handle stream,
                                     void **arguments);
int hipExtModuleLaunchKernel(handle function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t lx, uint32_t ly,
                             uint32_t lz, size_t shared, handle stream, void **arguments, void **extra,
                             handle start, handle stop, uint32_t flags);
int hipTexRefGetFlags(unsigned *flags, const void *texture);
const char *hipApiName(uint32_t id);
int hipProfilerStart(void);
float __gnu_h2f_ieee(unsigned short half);
unsigned short __gnu_f2h_ieee(float value);
void kdbforge_vgpu_mark(const char *text);
uint64_t kdbforge_vgpu_calls(void);
const char *kdbforge_vgpu_version(void);

/* amd_comgr/amd_comgr.h */
enum { COMGR_SUCCESS, COMGR_ERROR, COMGR_INVALID };
enum { KIND_SOURCE = 1, KIND_INCLUDE = 2, KIND_LOG = 5, KIND_BC = 6, KIND_RELOCATABLE = 7, KIND_EXECUTABLE = 8 };
typedef struct { uint64_t handle; } object;
int amd_comgr_create_data(int kind, object *data);
int amd_comgr_release_data(object data);
int amd_comgr_get_data_kind(object data, int *kind);
int amd_comgr_set_data(object data, size_t size, const char *bytes);
int amd_comgr_set_data_from_file_slice(object data, int descriptor, uint64_t offset, uint64_t size);
int amd_comgr_set_data_name(object data, const char *name);
int amd_comgr_get_data(object data, size_t *size, char *bytes);
int amd_comgr_get_data_name(object data, size_t *size, char *name);
int amd_comgr_create_data_set(object *set);
int amd_comgr_destroy_data_set(object set);
int amd_comgr_data_set_add(object set, object data);
int amd_comgr_data_set_remove(object set, int kind);
int amd_comgr_action_data_count(object set, int kind, size_t *count);
int amd_comgr_action_data_get_data(object set, int kind, size_t index, object *data);
int amd_comgr_create_action_info(object *info);
int amd_comgr_destroy_action_info(object info);
int amd_comgr_action_info_set_isa_name(object info, const char *name);
int amd_comgr_action_info_get_isa_name(object info, size_t *size, char *name);
int amd_comgr_action_info_set_language(object info, int language);
int amd_comgr_action_info_set_option_list(object info, const char **options, size_t count);
int amd_comgr_action_info_get_option_list_count(object info, size_t *count);
int amd_comgr_action_info_get_option_list_item(object info, size_t index, size_t *size, char *option);
int amd_comgr_action_info_set_logging(object info, bool logging);
int amd_comgr_action_info_set_device_lib_linking(object info, bool linking);
int amd_comgr_action_info_set_working_directory_path(object info, const char *path);
int amd_comgr_do_action(int kind, object info, object input, object result);
int amd_comgr_status_string(int status, const char **text);
void amd_comgr_get_version(size_t *major, size_t *minor);
int amd_comgr_get_isa_count(size_t *count);
uint64_t kdbforge_vgpu_forbidden(void);

#endif
