/* Entry points: graphs and the recording of streams. */
#include "state.h"

#include "../common/report.h"

#include <stdlib.h>

enum { CAPTURE_NONE = 0, CAPTURE_ACTIVE = 1 };

static __thread int capture_mode; /* hipStreamCaptureModeGlobal */

VGPU_EXPORT hipError_t hipGraphCreate(hipGraph_t *graph, unsigned flags)
{
    HIP_CALL(flags != 0 ? hipErrorInvalidValue : graph_create(graph));
}

VGPU_EXPORT hipError_t hipGraphDestroy(hipGraph_t graph)
{
    HIP_CALL(graph_destroy(graph));
}

VGPU_EXPORT hipError_t hipGraphClone(hipGraph_t *clone, hipGraph_t graph)
{
    HIP_CALL(graph_clone(clone, graph));
}

#define ADD_NODE(name, type)                                                                              \
    VGPU_EXPORT hipError_t name(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies, \
                                size_t count, const void *parameters)                                     \
    {                                                                                                     \
        (void)dependencies;                                                                               \
        HIP_CALL(parameters == NULL ? hipErrorInvalidValue : graph_add(node, graph, type, count, NULL));   \
    }
ADD_NODE(hipGraphAddKernelNode, hipGraphNodeTypeKernel)
ADD_NODE(hipGraphAddMemcpyNode, hipGraphNodeTypeMemcpy)
ADD_NODE(hipGraphAddMemsetNode, hipGraphNodeTypeMemset)
ADD_NODE(hipGraphAddEventRecordNode, hipGraphNodeTypeEventRecord)
ADD_NODE(hipGraphAddEventWaitNode, hipGraphNodeTypeWaitEvent)

VGPU_EXPORT hipError_t hipGraphAddHostNode(hipGraphNode_t *node, hipGraph_t graph,
                                           const hipGraphNode_t *dependencies, size_t count,
                                           const struct host_function *parameters)
{
    (void)dependencies;
    HIP_CALL(graph_add(node, graph, hipGraphNodeTypeHost, count, parameters));
}

VGPU_EXPORT hipError_t hipGraphAddEmptyNode(hipGraphNode_t *node, hipGraph_t graph,
                                            const hipGraphNode_t *dependencies, size_t count)
{
    (void)dependencies;
    HIP_CALL(graph_add(node, graph, hipGraphNodeTypeEmpty, count, NULL));
}

VGPU_EXPORT hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t *node, hipGraph_t graph,
                                               const hipGraphNode_t *dependencies, size_t count, void *target,
                                               const void *source, size_t size, int kind)
{
    (void)dependencies, (void)size, (void)kind;
    HIP_CALL(target == NULL || source == NULL ? hipErrorInvalidValue
                                              : graph_add(node, graph, hipGraphNodeTypeMemcpy, count, NULL));
}

/* Nodes are kept in the order in which they were added, which every dependency agrees with. */
VGPU_EXPORT hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t *from,
                                               const hipGraphNode_t *to, size_t count)
{
    size_t nodes = 0;

    (void)from, (void)to, (void)count;
    HIP_CALL(graph_nodes(graph, NULL, &nodes, false));
}

VGPU_EXPORT hipError_t hipGraphDestroyNode(hipGraphNode_t node)
{
    HIP_CALL(graph_remove(node));
}

VGPU_EXPORT hipError_t hipGraphNodeGetType(hipGraphNode_t node, int *type)
{
    HIP_CALL(graph_node_type(node, type));
}

VGPU_EXPORT hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count)
{
    HIP_CALL(graph_nodes(graph, nodes, count, false));
}

VGPU_EXPORT hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count)
{
    HIP_CALL(graph_nodes(graph, nodes, count, true));
}

VGPU_EXPORT hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *error_node,
                                           char *log, size_t size)
{
    if (error_node != NULL) {
        *error_node = NULL;
    }
    if (log != NULL && size > 0) {
        *log = '\0';
    }
    HIP_CALL(graph_instantiate(exec, graph));
}

VGPU_EXPORT hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *exec, hipGraph_t graph,
                                                    unsigned long long flags)
{
    (void)flags;
    HIP_CALL(graph_instantiate(exec, graph));
}

VGPU_EXPORT hipError_t hipGraphExecDestroy(hipGraphExec_t exec)
{
    HIP_CALL(graph_exec_destroy(exec));
}

VGPU_EXPORT hipError_t hipGraphExecUpdate(hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t *error_node,
                                          int *result)
{
    if (error_node != NULL) {
        *error_node = NULL;
    }
    if (result != NULL) {
        *result = 0; /* hipGraphExecUpdateSuccess */
    }
    HIP_CALL(graph_exec_update(exec, graph));
}

VGPU_EXPORT hipError_t hipGraphUpload(hipGraphExec_t exec, hipStream_t stream)
{
    struct host_function *functions = NULL;
    size_t count = 0;
    const hipError_t entered = hip_enter();
    hipError_t error = entered;

    if (entered != hipSuccess) {
        return hip_result(entered);
    }
    error = stream_check(stream);
    error = error != hipSuccess ? error : graph_exec_functions(exec, &functions, &count);
    free(functions);
    return hip_leave(error);
}

/* A host function may call HIP, so the lock is not held then. */
VGPU_EXPORT hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream)
{
    struct host_function *functions = NULL;
    size_t count = 0;
    const hipError_t entered = hip_enter();
    hipError_t error = entered;

    if (entered != hipSuccess) {
        return hip_result(entered);
    }
    error = stream_check(stream);
    error = error != hipSuccess ? error : graph_exec_functions(exec, &functions, &count);
    if (error == hipSuccess) {
        stream_count_launch(stream);
    }
    error = hip_leave(error);
    for (size_t i = 0; error == hipSuccess && i < count; i++) {
        functions[i].function(functions[i].data);
    }
    free(functions);
    return error;
}

static hipError_t begin_capture(hipStream_t stream, hipGraph_t graph, int mode)
{
    const bool owned = graph == NULL;
    hipError_t error = stream_check(stream);

    if (error != hipSuccess) {
        return error;
    }
    if ((uintptr_t)stream <= hipStreamLegacy) {
        return hipErrorStreamCaptureUnsupported; /* the null stream cannot be captured */
    }
    if (mode < 0 || mode > 2) {
        return hipErrorInvalidValue;
    }
    if (stream_capture(stream) != NULL) {
        return hipErrorIllegalState;
    }
    error = owned ? graph_create(&graph) : hipSuccess;
    return error != hipSuccess ? error : stream_set_capture(stream, graph, owned);
}

static hipError_t end_capture(hipStream_t stream, hipGraph_t *graph)
{
    if (graph == NULL) {
        return hipErrorInvalidValue;
    }
    if (stream_check(stream) != hipSuccess) {
        return hipErrorInvalidHandle;
    }
    *graph = stream_capture(stream);
    return *graph == NULL ? hipErrorIllegalState : stream_set_capture(stream, NULL, false);
}

static hipError_t capture_info(hipStream_t stream, int *status, unsigned long long *id, hipGraph_t *graph)
{
    const hipError_t error = stream_check(stream);

    if (status == NULL) {
        return hipErrorInvalidValue;
    }
    if (error != hipSuccess) {
        return error;
    }
    *status = stream_capture(stream) == NULL ? CAPTURE_NONE : CAPTURE_ACTIVE;
    if (id != NULL) {
        *id = (unsigned long long)(uintptr_t)stream_capture(stream);
    }
    if (graph != NULL) {
        *graph = stream_capture(stream);
    }
    return hipSuccess;
}

VGPU_EXPORT hipError_t hipStreamBeginCapture(hipStream_t stream, int mode)
{
    HIP_CALL(begin_capture(stream, NULL, mode));
}

VGPU_EXPORT hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph,
                                                    const hipGraphNode_t *dependencies, const void *data,
                                                    size_t count, int mode)
{
    size_t nodes = 0;

    (void)dependencies, (void)data, (void)count;
    HIP_CALL(graph_nodes(graph, NULL, &nodes, false) != hipSuccess ? hipErrorInvalidValue
                                                                  : begin_capture(stream, graph, mode));
}

VGPU_EXPORT hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
    HIP_CALL(end_capture(stream, graph));
}

VGPU_EXPORT hipError_t hipStreamIsCapturing(hipStream_t stream, int *status)
{
    HIP_CALL(capture_info(stream, status, NULL, NULL));
}

VGPU_EXPORT hipError_t hipStreamGetCaptureInfo(hipStream_t stream, int *status, unsigned long long *id)
{
    HIP_CALL(capture_info(stream, status, id, NULL));
}

VGPU_EXPORT hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, int *status, unsigned long long *id,
                                                  hipGraph_t *graph, const hipGraphNode_t **dependencies,
                                                  size_t *count)
{
    if (dependencies != NULL) {
        *dependencies = NULL;
    }
    if (count != NULL) {
        *count = 0;
    }
    HIP_CALL(capture_info(stream, status, id, graph));
}

VGPU_EXPORT hipError_t hipThreadExchangeStreamCaptureMode(int *mode)
{
    const int old = capture_mode;

    if (mode == NULL || *mode < 0 || *mode > 2) {
        return hip_result(hipErrorInvalidValue);
    }
    capture_mode = *mode;
    *mode = old;
    HIP_CALL(hipSuccess);
}

/* Nothing is ever pending: the per-thread variants are the same. */
#define PER_THREAD(name) VGPU_EXPORT extern __typeof__(name) name##_spt __attribute__((alias(#name)))
PER_THREAD(hipGraphLaunch);
PER_THREAD(hipStreamBeginCapture);
PER_THREAD(hipStreamEndCapture);
PER_THREAD(hipStreamIsCapturing);
PER_THREAD(hipStreamGetCaptureInfo);
PER_THREAD(hipStreamGetCaptureInfo_v2);
