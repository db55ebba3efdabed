/* The state of the virtual GPUs. Everything here but what a thread has for itself (its errors, current device
 * and pushed launches) is guarded by one lock, which `hip_enter` takes and `hip_leave` drops: entry points call the other functions in between. */
#ifndef KDBFORGE_VGPU_HIP_STATE_H
#define KDBFORGE_VGPU_HIP_STATE_H

#include "hip_abi.h"

#include "../common/handles.h"
#include "../common/settings.h"
#include "../common/unsupported.h"

enum handle_kind {
    HANDLE_STREAM = 1,
    HANDLE_EVENT,
    HANDLE_MODULE,
    HANDLE_FUNCTION,
    HANDLE_GRAPH,
    HANDLE_NODE,
    HANDLE_EXEC,
    HANDLE_POOL,
    HANDLE_CONTEXT,
};

/* entry.c: the frame of every call */

/* Count the call and take the lock; an error (and no lock) if the environment is unusable. */
hipError_t hip_enter(void);
/* Drop the lock and remember the result for hipGetLastError. */
hipError_t hip_leave(hipError_t error);
/* The lock alone, for what programs do before main() and may never use: no environment is needed. */
void hip_lock(void);
void hip_unlock(void);
/* An entry point that nobody wrote. */
hipError_t hip_unsupported(struct vgpu_unsupported *function);
/* Remember a result without holding the lock. */
hipError_t hip_result(hipError_t error);
/* The settings, once hip_enter succeeded. */
const struct vgpu_settings *hip_settings(void);
/* All live handles. */
extern struct vgpu_handles hip_handles;

/* Give the object a handle; it is freed if there is none to be had. */
hipError_t hip_publish(void **handle, enum handle_kind kind, void *object);

/* A whole entry point around one expression of type hipError_t. */
#define HIP_CALL(expression)                       \
    do {                                           \
        const hipError_t entered = hip_enter();    \
        if (entered != hipSuccess) {               \
            return hip_result(entered);            \
        }                                          \
        return hip_leave(expression);              \
    } while (0)

/* Entry points that others are made of. */
hipError_t hipGetDevice(int *device);

/* major_version.c */
extern const int hip_major_version;

/* device.c: devices are numbered from 0; each thread has a current one */
hipError_t device_check(int device);
int device_current(void);
hipError_t device_set(int device);
const struct vgpu_profile *device_profile(int device);
hipError_t device_attribute(int *value, int attribute, int device);
hipError_t device_properties_r0600(struct hipDeviceProp_tR0600 *properties, int device);
hipError_t device_properties_r0000(struct hipDeviceProp_tR0000 *properties, int device);
hipError_t device_name(char *name, int length, int device);
hipError_t device_total_memory(size_t *bytes, int device);
hipError_t device_version(int *major, int *minor, int device);
/* Work-items that a compute unit holds at most. */
int device_most_resident(int device);

/* memory.c */
enum memory_kind { MEMORY_DEVICE, MEMORY_PINNED, MEMORY_MANAGED, MEMORY_REGISTERED };
struct memory_facts {
    enum memory_kind kind;
    int device;
    unsigned flags;
    void *base;
    size_t size;
};
/* What is known of the allocation that holds the pointer. */
hipError_t memory_examine(const void *pointer, struct memory_facts *facts);
hipError_t memory_allocate_managed(void **pointer, size_t size, unsigned flags);
/* The caller's own memory, as pinned from now on. */
hipError_t memory_register(void *pointer, size_t size, unsigned flags);
hipError_t memory_unregister(void *pointer);
hipError_t memory_allocate(void **pointer, size_t size);
hipError_t memory_allocate_host(void **pointer, size_t size, unsigned flags);
hipError_t memory_free(void *pointer);
hipError_t memory_free_host(void *pointer);
hipError_t memory_info(size_t *free_bytes, size_t *total);
hipError_t memory_range(void **base, size_t *size, const void *pointer);
hipError_t memory_host_device_pointer(void **device, const void *host, unsigned flags);
hipError_t memory_copy(void *target, const void *source, size_t size, int kind);
/* Fill count elements of width 1, 2 or 4 bytes. */
hipError_t memory_fill(void *target, unsigned value, size_t width, size_t count);

/* pools.c */
hipError_t pool_create(hipMemPool_t *pool, int device);
hipError_t pool_destroy(hipMemPool_t pool);
hipError_t pool_check(hipMemPool_t pool);
hipError_t pool_default(hipMemPool_t *pool, int device);
hipError_t pool_current(hipMemPool_t *pool, int device);
hipError_t pool_set_current(hipMemPool_t pool, int device);
hipError_t pool_get(hipMemPool_t pool, int attribute, void *value);
hipError_t pool_set(hipMemPool_t pool, int attribute, const void *value);

/* streams.c */
enum { STREAM_HIGH = -1, STREAM_LOW = 1 };
hipError_t stream_create(hipStream_t *stream, unsigned flags, int priority);
hipError_t stream_priority(hipStream_t stream, int *priority);
hipError_t stream_device(hipStream_t stream, int *device);
/* The graph that what is queued on the stream is recorded into, or NULL. */
hipGraph_t stream_capture(hipStream_t stream);
/* An owned graph goes with the stream. */
hipError_t stream_set_capture(hipStream_t stream, hipGraph_t graph, bool owned);
hipError_t stream_destroy(hipStream_t stream);
hipError_t stream_check(hipStream_t stream);
hipError_t stream_flags(hipStream_t stream, unsigned *flags);
hipError_t stream_wait_event(hipStream_t stream, hipEvent_t event, unsigned flags);
hipError_t event_create(hipEvent_t *event, unsigned flags);
hipError_t event_destroy(hipEvent_t event);
hipError_t event_check(hipEvent_t event);
hipError_t event_record(hipEvent_t event, hipStream_t stream);
hipError_t event_elapsed(float *milliseconds, hipEvent_t start, hipEvent_t stop);
/* Let one launch go by on the stream. */
void stream_count_launch(hipStream_t stream);

/* graphs.c: what is recorded is not run, but for host functions, when the graph is launched */
struct host_function {
    void (*function)(void *data);
    void *data;
};
hipError_t graph_create(hipGraph_t *graph);
hipError_t graph_destroy(hipGraph_t graph);
hipError_t graph_clone(hipGraph_t *clone, hipGraph_t graph);
/* Add a node behind as many others; the function is for host nodes. */
hipError_t graph_add(hipGraphNode_t *node, hipGraph_t graph, int type, size_t dependencies,
                     const struct host_function *function);
hipError_t graph_remove(hipGraphNode_t node);
hipError_t graph_node_type(hipGraphNode_t node, int *type);
/* The nodes, or only those without dependencies; without a place for them, only their number. */
hipError_t graph_nodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count, bool roots);
hipError_t graph_instantiate(hipGraphExec_t *exec, hipGraph_t graph);
hipError_t graph_exec_destroy(hipGraphExec_t exec);
hipError_t graph_exec_update(hipGraphExec_t exec, hipGraph_t graph);
/* A copy of the host functions of the graph, in order; free() it. */
hipError_t graph_exec_functions(hipGraphExec_t exec, struct host_function **functions, size_t *count);
/* If the stream is being captured, record a node and say so; else do nothing. */
hipError_t graph_record(hipStream_t stream, int type, const struct host_function *function, bool *recorded);

/* modules.c */
hipError_t module_load(hipModule_t *module, const void *image);
hipError_t module_load_file(hipModule_t *module, const char *path);
hipError_t module_unload(hipModule_t module);
hipError_t module_function(hipFunction_t *function, hipModule_t module, const char *name);
/* The kernels of a module, as many as there is room for, and how many there are. */
hipError_t module_functions(hipModule_t module, hipFunction_t *functions, unsigned most, unsigned *count);
/* The name and the module of a live function; either may be unwanted. */
hipError_t function_facts(hipFunction_t function, const char **name, hipModule_t *module);

/* programs.c */
struct fat_binary;
struct fat_binary *program_add(const void *image);
void program_remove(struct fat_binary *binary);
/* A kernel (size 0) or variable of a fat binary, under the host's address for it. */
void program_add_symbol(struct fat_binary *binary, const void *host, const char *name, size_t size);
void program_add_managed(struct fat_binary *binary, void **pointer, const void *initial, const char *name,
                         size_t size);
/* The kernel of a host's stub, or the memory of its variable, on the current device. */
hipError_t program_function(hipFunction_t *function, const void *host);
hipError_t program_variable(void **pointer, size_t *size, const void *host);
const char *program_name(const void *host);

/* launch.c */
struct launch {
    hipFunction_t function;
    uint32_t grid[3];
    uint32_t block[3];
    hipStream_t stream;
    hipEvent_t start; /* or NULL */
    hipEvent_t stop;  /* or NULL */
    bool cooperative;
};
hipError_t launch_kernel(const struct launch *launch);

#endif
