/* Data sets: ordered, each object once. */
#include "state.h"

#include "../common/report.h"

#include <stdlib.h>
#include <string.h>

struct data_set *set_find(amd_comgr_data_set_t set)
{
    return vgpu_handle_get(&comgr_handles, HANDLE_SET, set.handle);
}

bool set_append(struct data_set *set, struct data *data)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->data[i] == data) {
            return true;
        }
    }
    if (set->count == set->capacity) {
        const size_t capacity = set->capacity == 0 ? 8 : set->capacity * 2;
        struct data **const more = realloc(set->data, capacity * sizeof(struct data *));

        if (more == NULL) {
            return false;
        }
        set->data = more;
        set->capacity = capacity;
    }
    set->data[set->count++] = data;
    data->sets++;
    return true;
}

void set_clear(struct data_set *set, enum data_kind kind)
{
    size_t kept = 0;

    for (size_t i = 0; i < set->count; i++) {
        struct data *const data = set->data[i];

        if (kind != DATA_UNDEF && data->kind != kind) {
            set->data[kept++] = data;
            continue;
        }
        data->sets--;
        data_free_unused(data);
    }
    set->count = kept;
}

static amd_comgr_status_t create(amd_comgr_data_set_t *handle)
{
    struct data_set *set = NULL;

    if (handle == NULL) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    set = calloc(1, sizeof *set);
    handle->handle = set == NULL ? 0 : vgpu_handle_new(&comgr_handles, HANDLE_SET, set);
    if (handle->handle == 0) {
        free(set);
        return AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t destroy(amd_comgr_data_set_t handle)
{
    struct data_set *const set = set_find(handle);

    if (set == NULL) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    set_clear(set, DATA_UNDEF);
    vgpu_handle_free(&comgr_handles, handle.handle);
    free(set->data);
    free(set);
    return AMD_COMGR_STATUS_SUCCESS;
}

/* The header wants a name of includes only; the library refuses unnamed data of every kind (ROCm 7.2.4). */
static amd_comgr_status_t add(struct data_set *set, struct data *data)
{
    if (set == NULL || data == NULL || data->name == NULL || data->name[0] == '\0') {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    return set_append(set, data) ? AMD_COMGR_STATUS_SUCCESS : AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
}

static amd_comgr_status_t remove_kind(struct data_set *set, int kind)
{
    if (set == NULL || (kind != DATA_UNDEF && !data_kind_is_valid(kind))) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    set_clear(set, (enum data_kind)kind);
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t count_kind(const struct data_set *set, int kind, size_t *count)
{
    if (set == NULL || count == NULL || !data_kind_is_valid(kind)) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *count = 0;
    for (size_t i = 0; i < set->count; i++) {
        *count += set->data[i]->kind == (enum data_kind)kind;
    }
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t get(const struct data_set *set, int kind, size_t index, amd_comgr_data_t *handle)
{
    if (set == NULL || handle == NULL || !data_kind_is_valid(kind)) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < set->count; i++) {
        if (set->data[i]->kind == (enum data_kind)kind && index-- == 0) {
            set->data[i]->owners++;
            handle->handle = set->data[i]->handle;
            return AMD_COMGR_STATUS_SUCCESS;
        }
    }
    return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_create_data_set(amd_comgr_data_set_t *set)
{
    COMGR_CALL(create(set));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_destroy_data_set(amd_comgr_data_set_t set)
{
    COMGR_CALL(destroy(set));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_data_set_add(amd_comgr_data_set_t set, amd_comgr_data_t data)
{
    COMGR_CALL(add(set_find(set), data_find(data)));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_data_set_remove(amd_comgr_data_set_t set, int kind)
{
    COMGR_CALL(remove_kind(set_find(set), kind));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_data_count(amd_comgr_data_set_t set, int kind, size_t *count)
{
    COMGR_CALL(count_kind(set_find(set), kind, count));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_data_get_data(amd_comgr_data_set_t set, int kind,
                                                              size_t index, amd_comgr_data_t *data)
{
    COMGR_CALL(get(set_find(set), kind, index, data));
}
