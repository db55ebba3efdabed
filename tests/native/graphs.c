/* Graphs, recorded streams, and functions of the host that a stream runs. */
#include "check.h"

#include <pthread.h>

struct host_node {
    void (*function)(void *);
    void *data;
};

int hipGraphCreate(handle *graph, unsigned flags);
int hipGraphDestroy(handle graph);
int hipGraphClone(handle *clone, handle graph);
int hipGraphAddEmptyNode(handle *node, handle graph, const handle *dependencies, size_t count);
int hipGraphAddHostNode(handle *node, handle graph, const handle *dependencies, size_t count,
                        const struct host_node *parameters);
int hipGraphDestroyNode(handle node);
int hipGraphNodeGetType(handle node, int *type);
int hipGraphGetNodes(handle graph, handle *nodes, size_t *count);
int hipGraphGetRootNodes(handle graph, handle *nodes, size_t *count);
int hipGraphInstantiate(handle *exec, handle graph, handle *node, char *log, size_t size);
int hipGraphLaunch(handle exec, handle stream);
int hipGraphExecUpdate(handle exec, handle graph, handle *node, int *result);
int hipGraphExecDestroy(handle exec);
int hipStreamBeginCapture(handle stream, int mode);
int hipStreamBeginCaptureToGraph(handle stream, handle graph, const handle *dependencies, const void *data,
                                 size_t count, int mode);
int hipStreamEndCapture(handle stream, handle *graph);
int hipStreamIsCapturing(handle stream, int *status);
int hipLaunchHostFunc(handle stream, void (*function)(void *), void *data);
int hipStreamAddCallback(handle stream, void (*callback)(handle, int, void *), void *data, unsigned flags);
int hipStreamCreateWithPriority(handle *stream, unsigned flags, int priority);
int hipStreamGetPriority(handle stream, int *priority);
int hipMemsetAsync(void *target, int value, size_t size, handle stream);

static void count(void *data)
{
    int device = -1;

    CHECK_IS(SUCCESS, hipGetDevice(&device)); /* it may call HIP */
    ++*(int *)data;
}

static void called(handle stream, int status, void *data)
{
    CHECK_IS(SUCCESS, status);
    CHECK_IS(SUCCESS, hipStreamSynchronize(stream));
    ++*(int *)data;
}

static void check_host_functions(void)
{
    handle stream = NULL;
    int calls = 0, priority = 9;

    CHECK_IS(SUCCESS, hipStreamCreateWithPriority(&stream, 0, -7));
    CHECK_IS(SUCCESS, hipStreamGetPriority(stream, &priority));
    CHECK_IS(-1, priority);
    CHECK_IS(SUCCESS, hipLaunchHostFunc(stream, count, &calls));
    CHECK_IS(SUCCESS, hipStreamAddCallback(stream, called, &calls, 0));
    CHECK_IS(2, calls);
    CHECK_IS(INVALID_VALUE, hipLaunchHostFunc(stream, NULL, NULL));
    CHECK_IS(INVALID_HANDLE, hipLaunchHostFunc((handle)0x77, count, &calls));
    CHECK_IS(INVALID_VALUE, hipStreamAddCallback(stream, called, &calls, 1));
    CHECK_IS(2, calls);
    CHECK_IS(SUCCESS, hipStreamDestroy(stream));
}

static void check_built(void)
{
    handle graph = NULL, clone = NULL, first = NULL, second = NULL, exec = NULL, nodes[3];
    int calls = 0, type = -1;
    const struct host_node parameters = {count, &calls};
    size_t number = 3;

    CHECK_IS(INVALID_VALUE, hipGraphCreate(&graph, 1));
    CHECK_IS(SUCCESS, hipGraphCreate(&graph, 0));
    CHECK_IS(SUCCESS, hipGraphAddEmptyNode(&first, graph, NULL, 0));
    CHECK_IS(SUCCESS, hipGraphAddHostNode(&second, graph, &first, 1, &parameters));
    CHECK_IS(INVALID_VALUE, hipGraphAddHostNode(&second, graph, NULL, 0, NULL));
    CHECK_IS(SUCCESS, hipGraphNodeGetType(second, &type));
    CHECK_IS(3, type);
    CHECK_IS(SUCCESS, hipGraphGetNodes(graph, nodes, &number));
    CHECK_IS(2, number);
    CHECK(nodes[0] == first && nodes[1] == second && nodes[2] == NULL);
    CHECK_IS(SUCCESS, hipGraphGetRootNodes(graph, NULL, &number));
    CHECK_IS(1, number);
    CHECK_IS(SUCCESS, hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    CHECK_IS(SUCCESS, hipGraphClone(&clone, graph));
    CHECK_IS(SUCCESS, hipGraphDestroyNode(second));
    CHECK_IS(INVALID_VALUE, hipGraphDestroyNode(second));
    CHECK_IS(SUCCESS, hipGraphLaunch(exec, NULL));
    CHECK_IS(1, calls); /* the exec keeps what the graph had */
    CHECK_IS(SUCCESS, hipGraphExecUpdate(exec, graph, NULL, NULL));
    CHECK_IS(SUCCESS, hipGraphLaunch(exec, NULL));
    CHECK_IS(1, calls);
    CHECK_IS(SUCCESS, hipGraphExecUpdate(exec, clone, NULL, NULL));
    CHECK_IS(SUCCESS, hipGraphLaunch(exec, NULL));
    CHECK_IS(2, calls);
    CHECK_IS(SUCCESS, hipGraphDestroy(graph));
    CHECK_IS(INVALID_VALUE, hipGraphDestroy(graph));
    CHECK_IS(INVALID_VALUE, hipGraphNodeGetType(first, &type));
    CHECK_IS(SUCCESS, hipGraphDestroy(clone));
    CHECK_IS(SUCCESS, hipGraphExecDestroy(exec));
    CHECK_IS(INVALID_VALUE, hipGraphLaunch(exec, NULL));
}

static void check_recorded(void)
{
    handle stream = NULL, graph = NULL, exec = NULL;
    int calls = 0, status = -1;
    unsigned char *pinned = NULL;
    size_t number = 0;

    CHECK_IS(SUCCESS, hipHostMalloc((void **)&pinned, 16, 0));
    pinned[0] = 1;
    CHECK_IS(SUCCESS, hipStreamCreate(&stream));
    CHECK_IS(401, hipStreamEndCapture(stream, &graph));
    CHECK_IS(900, hipStreamBeginCapture(NULL, 0));
    CHECK_IS(SUCCESS, hipStreamBeginCapture(stream, 0));
    CHECK_IS(401, hipStreamBeginCapture(stream, 0));
    CHECK_IS(SUCCESS, hipStreamIsCapturing(stream, &status));
    CHECK_IS(1, status);
    CHECK_IS(SUCCESS, hipLaunchHostFunc(stream, count, &calls));
    CHECK_IS(SUCCESS, hipMemsetAsync(pinned, 5, 16, stream));
    CHECK_IS(900, hipStreamAddCallback(stream, called, &calls, 0));
    CHECK_IS(0, calls);
    CHECK_IS(1, pinned[0]); /* noted, not done */
    CHECK_IS(SUCCESS, hipStreamEndCapture(stream, &graph));
    CHECK_IS(SUCCESS, hipStreamIsCapturing(stream, &status));
    CHECK_IS(0, status);
    CHECK_IS(SUCCESS, hipGraphGetNodes(graph, NULL, &number));
    CHECK_IS(2, number);
    CHECK_IS(SUCCESS, hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    CHECK_IS(SUCCESS, hipGraphLaunch(exec, stream));
    CHECK_IS(SUCCESS, hipGraphLaunch(exec, stream));
    CHECK_IS(2, calls);
    CHECK_IS(SUCCESS, hipGraphExecDestroy(exec));
    CHECK_IS(SUCCESS, hipGraphDestroy(graph));
    CHECK_IS(SUCCESS, hipStreamBeginCapture(stream, 2));
    CHECK_IS(SUCCESS, hipStreamDestroy(stream)); /* takes its graph with it */
    CHECK_IS(SUCCESS, hipGraphCreate(&graph, 0));
    CHECK_IS(SUCCESS, hipStreamCreate(&stream));
    CHECK_IS(SUCCESS, hipStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, 0));
    CHECK_IS(SUCCESS, hipStreamDestroy(stream));
    CHECK_IS(SUCCESS, hipGraphDestroy(graph)); /* the caller's own is left */
    CHECK_IS(SUCCESS, hipHostFree(pinned));
}

int main(void)
{
    check_host_functions();
    check_built();
    check_recorded();
    return 0;
}
