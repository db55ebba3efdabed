/* Graphs: nodes are kept in the order in which they were added. Nothing of them runs but host functions, for
 * which a program may wait. */
#include "state.h"

#include <stdlib.h>
#include <string.h>

struct node {
    struct graph *graph;
    uint64_t handle;
    int type;
    size_t dependencies;
    struct host_function function; /* of a host node */
};

struct graph {
    struct node **nodes;
    size_t count;
};

struct exec {
    struct host_function *functions;
    size_t count;
};

static struct graph *find(hipGraph_t graph)
{
    return vgpu_handle_get(&hip_handles, HANDLE_GRAPH, (uintptr_t)graph);
}

hipError_t graph_create(hipGraph_t *graph)
{
    if (graph == NULL) {
        return hipErrorInvalidValue;
    }
    return hip_publish(graph, HANDLE_GRAPH, calloc(1, sizeof(struct graph)));
}

hipError_t graph_destroy(hipGraph_t handle)
{
    struct graph *const graph = find(handle);

    if (graph == NULL) {
        return hipErrorInvalidValue;
    }
    for (size_t i = 0; i < graph->count; i++) {
        vgpu_handle_free(&hip_handles, graph->nodes[i]->handle);
        free(graph->nodes[i]);
    }
    vgpu_handle_free(&hip_handles, (uintptr_t)handle);
    free(graph->nodes);
    free(graph);
    return hipSuccess;
}

hipError_t graph_add(hipGraphNode_t *handle, hipGraph_t graph_handle, int type, size_t dependencies,
                     const struct host_function *function)
{
    struct graph *const graph = find(graph_handle);
    struct node **nodes = NULL;
    struct node *node = NULL;

    if (handle == NULL || graph == NULL || (type == hipGraphNodeTypeHost && function == NULL)) {
        return hipErrorInvalidValue;
    }
    nodes = realloc(graph->nodes, (graph->count + 1) * sizeof(struct node *));
    if (nodes == NULL) {
        return hipErrorOutOfMemory;
    }
    graph->nodes = nodes;
    node = calloc(1, sizeof *node);
    if (node != NULL) {
        node->graph = graph;
        node->type = type;
        node->dependencies = dependencies;
        node->function = function == NULL ? (struct host_function){NULL, NULL} : *function;
    }
    if (hip_publish(handle, HANDLE_NODE, node) != hipSuccess) {
        return hipErrorOutOfMemory;
    }
    node->handle = (uintptr_t)*handle;
    graph->nodes[graph->count++] = node;
    return hipSuccess;
}

hipError_t graph_clone(hipGraph_t *clone, hipGraph_t handle)
{
    const struct graph *const graph = find(handle);
    hipError_t error = graph == NULL ? hipErrorInvalidValue : graph_create(clone);

    for (size_t i = 0; error == hipSuccess && i < graph->count; i++) {
        const struct node *const node = graph->nodes[i];
        hipGraphNode_t copy = NULL;

        error = graph_add(&copy, *clone, node->type, node->dependencies, &node->function);
    }
    return error;
}

hipError_t graph_remove(hipGraphNode_t handle)
{
    struct node *const node = vgpu_handle_get(&hip_handles, HANDLE_NODE, (uintptr_t)handle);
    struct graph *graph = NULL;

    if (node == NULL) {
        return hipErrorInvalidValue;
    }
    graph = node->graph;
    for (size_t i = 0; i < graph->count; i++) {
        if (graph->nodes[i] == node) {
            graph->count--;
            memmove(&graph->nodes[i], &graph->nodes[i + 1], (graph->count - i) * sizeof *graph->nodes);
            break;
        }
    }
    vgpu_handle_free(&hip_handles, node->handle);
    free(node);
    return hipSuccess;
}

hipError_t graph_node_type(hipGraphNode_t handle, int *type)
{
    const struct node *const node = vgpu_handle_get(&hip_handles, HANDLE_NODE, (uintptr_t)handle);

    if (node == NULL || type == NULL) {
        return hipErrorInvalidValue;
    }
    *type = node->type;
    return hipSuccess;
}

hipError_t graph_nodes(hipGraph_t handle, hipGraphNode_t *nodes, size_t *count, bool roots)
{
    const struct graph *const graph = find(handle);
    size_t found = 0;

    if (graph == NULL || count == NULL) {
        return hipErrorInvalidValue;
    }
    for (size_t i = 0; i < graph->count; i++) {
        if (roots && graph->nodes[i]->dependencies > 0) {
            continue;
        }
        if (nodes != NULL && found < *count) {
            nodes[found] = (hipGraphNode_t)(uintptr_t)graph->nodes[i]->handle;
        }
        found++;
    }
    for (size_t i = found; nodes != NULL && i < *count; i++) {
        nodes[i] = NULL;
    }
    *count = found;
    return hipSuccess;
}

static hipError_t fill(struct exec *exec, const struct graph *graph)
{
    struct host_function *const functions = malloc((graph->count + 1) * sizeof *functions);

    if (functions == NULL) {
        return hipErrorOutOfMemory;
    }
    free(exec->functions);
    exec->functions = functions;
    exec->count = 0;
    for (size_t i = 0; i < graph->count; i++) {
        if (graph->nodes[i]->function.function != NULL) {
            functions[exec->count++] = graph->nodes[i]->function;
        }
    }
    return hipSuccess;
}

hipError_t graph_instantiate(hipGraphExec_t *handle, hipGraph_t graph_handle)
{
    const struct graph *const graph = find(graph_handle);
    struct exec *exec = NULL;

    if (handle == NULL || graph == NULL) {
        return hipErrorInvalidValue;
    }
    exec = calloc(1, sizeof *exec);
    if (exec == NULL || fill(exec, graph) != hipSuccess) {
        free(exec);
        return hipErrorOutOfMemory;
    }
    return hip_publish(handle, HANDLE_EXEC, exec);
}

static struct exec *find_exec(hipGraphExec_t exec)
{
    return vgpu_handle_get(&hip_handles, HANDLE_EXEC, (uintptr_t)exec);
}

hipError_t graph_exec_destroy(hipGraphExec_t handle)
{
    struct exec *const exec = find_exec(handle);

    if (exec == NULL) {
        return hipErrorInvalidValue;
    }
    vgpu_handle_free(&hip_handles, (uintptr_t)handle);
    free(exec->functions);
    free(exec);
    return hipSuccess;
}

hipError_t graph_exec_update(hipGraphExec_t handle, hipGraph_t graph_handle)
{
    struct exec *const exec = find_exec(handle);
    const struct graph *const graph = find(graph_handle);

    return exec == NULL || graph == NULL ? hipErrorInvalidValue : fill(exec, graph);
}

hipError_t graph_exec_functions(hipGraphExec_t handle, struct host_function **functions, size_t *count)
{
    const struct exec *const exec = find_exec(handle);

    if (exec == NULL) {
        return hipErrorInvalidValue;
    }
    *functions = malloc((exec->count + 1) * sizeof **functions);
    if (*functions == NULL) {
        return hipErrorOutOfMemory;
    }
    memcpy(*functions, exec->functions, exec->count * sizeof **functions);
    *count = exec->count;
    return hipSuccess;
}

hipError_t graph_record(hipStream_t stream, int type, const struct host_function *function, bool *recorded)
{
    const hipGraph_t graph = stream_capture(stream);
    const struct graph *const object = find(graph);
    hipGraphNode_t node = NULL;

    *recorded = object != NULL;
    return object == NULL ? hipSuccess : graph_add(&node, graph, type, object->count > 0, function);
}
