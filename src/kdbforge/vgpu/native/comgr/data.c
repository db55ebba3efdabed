/* Data objects, and the frame of every call. */
#define _GNU_SOURCE /* pthread_atfork, pread, strdup in a strict C11 build */
#include "state.h"

#include "../common/journal.h"
#include "../common/locks.h"
#include "../common/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

struct vgpu_handles comgr_handles;

VGPU_DEFINE_LOCK(VGPU_LOCK_LIBRARY);

const struct vgpu_settings *comgr_settings(void)
{
    return vgpu_settings();
}

amd_comgr_status_t comgr_enter(void)
{
    if (!vgpu_journal_ready()) {
        return AMD_COMGR_STATUS_ERROR;
    }
    take_lock();
    if (comgr_settings()->compile == VGPU_COMPILE_PASS) {
        static bool told;

        if (!told) {
            vgpu_report("the capturing libamd_comgr was loaded with KDBFORGE_VGPU_COMPILE=pass");
        }
        told = true;
        drop_lock();
        return AMD_COMGR_STATUS_ERROR;
    }
    return AMD_COMGR_STATUS_SUCCESS;
}

amd_comgr_status_t comgr_leave(amd_comgr_status_t status)
{
    drop_lock();
    return status;
}

bool data_kind_is_valid(int kind)
{
    return (kind > DATA_UNDEF && kind <= DATA_BYTES) || (kind >= DATA_FATBIN && kind <= DATA_LAST);
}

struct data *data_find(amd_comgr_data_t data)
{
    return vgpu_handle_get(&comgr_handles, HANDLE_DATA, data.handle);
}

struct data *data_new(enum data_kind kind)
{
    struct data *const data = calloc(1, sizeof *data);

    if (data != NULL) {
        data->kind = kind;
        data->handle = vgpu_handle_new(&comgr_handles, HANDLE_DATA, data);
        if (data->handle == 0) {
            free(data);
            return NULL;
        }
    }
    return data;
}

void data_free_unused(struct data *data)
{
    if (data->owners == 0 && data->sets == 0) {
        vgpu_handle_free(&comgr_handles, data->handle);
        free(data->bytes);
        free(data->name);
        free(data);
    }
}

/* Bytes that are a marker and nothing else are treated as the output that the marker names:
 * callers copy outputs out of one object and into another. */
static void recognise_marker(struct data *data)
{
    data->captured = comgr_settings()->compile == VGPU_COMPILE_CAPTURE && data->size > 0 &&
                     vgpu_marker_read(data->bytes, data->size, &data->origin) == data->size;
}

/* Take over bytes from malloc. */
static amd_comgr_status_t adopt(struct data *data, char *bytes, size_t size)
{
    free(data->bytes);
    data->bytes = bytes;
    data->size = size;
    recognise_marker(data);
    return AMD_COMGR_STATUS_SUCCESS;
}

amd_comgr_status_t data_assign(struct data *data, const char *bytes, size_t size)
{
    char *const copy = malloc(size == 0 ? 1 : size);

    if (copy == NULL) {
        return AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    return adopt(data, copy, size);
}

bool copy_text(char **place, const char *text)
{
    char *const copy = strdup(text == NULL ? "" : text);

    if (copy == NULL) {
        return false;
    }
    free(*place);
    *place = copy;
    return true;
}

bool data_rename(struct data *data, const char *name)
{
    return copy_text(&data->name, name);
}

amd_comgr_status_t copy_out(const char *bytes, size_t length, size_t *size, char *buffer)
{
    if (size == NULL) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (buffer == NULL) {
        *size = length;
        return AMD_COMGR_STATUS_SUCCESS;
    }
    if (*size > length) {
        *size = length;
    }
    if (*size > 0) {
        memcpy(buffer, bytes, *size);
    }
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t create(int kind, amd_comgr_data_t *handle)
{
    struct data *data = NULL;

    if (handle == NULL || !data_kind_is_valid(kind)) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    data = data_new((enum data_kind)kind);
    if (data == NULL) {
        return AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    data->owners = 1;
    handle->handle = data->handle;
    return AMD_COMGR_STATUS_SUCCESS;
}

/* A caller can give up only what it holds: what sets hold stays alive. */
static amd_comgr_status_t release(struct data *data)
{
    if (data == NULL || data->owners == 0) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    data->owners--;
    data_free_unused(data);
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t set_bytes(struct data *data, size_t size, const char *bytes)
{
    if (data == NULL || (bytes == NULL && size > 0)) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    return data_assign(data, bytes, size);
}

static amd_comgr_status_t set_slice(struct data *data, int descriptor, uint64_t offset, uint64_t size)
{
    char *bytes = NULL;
    size_t got = 0;

    if (data == NULL || offset > INT64_MAX || size > INT64_MAX - offset) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    bytes = malloc(size == 0 ? 1 : (size_t)size);
    if (bytes == NULL) {
        return AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    while (got < size) {
        const ssize_t more = pread(descriptor, bytes + got, (size_t)size - got, (off_t)(offset + got));

        if (more < 0 && errno == EINTR) {
            continue;
        }
        if (more <= 0) {
            free(bytes);
            return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
        }
        got += (size_t)more;
    }
    return adopt(data, bytes, got);
}

static amd_comgr_status_t set_name(struct data *data, const char *name)
{
    if (data == NULL) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (!data_rename(data, name)) {
        return AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    data->name_is_set = true;
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t get_kind(const struct data *data, int *kind)
{
    if (kind != NULL && data == NULL) {
        *kind = DATA_UNDEF;
    }
    if (data == NULL || kind == NULL) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *kind = (int)data->kind;
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t get_bytes(const struct data *data, size_t *size, char *bytes)
{
    return data == NULL ? AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT
                        : copy_out(data->bytes, data->size, size, bytes);
}

static amd_comgr_status_t get_name(const struct data *data, size_t *size, char *name)
{
    const char *text = NULL;

    if (data == NULL) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    text = data->name == NULL ? "" : data->name;
    return copy_out(text, strlen(text) + 1, size, name);
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_create_data(int kind, amd_comgr_data_t *data)
{
    COMGR_CALL(create(kind, data));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_release_data(amd_comgr_data_t data)
{
    COMGR_CALL(release(data_find(data)));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_get_data_kind(amd_comgr_data_t data, int *kind)
{
    COMGR_CALL(get_kind(data_find(data), kind));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_set_data(amd_comgr_data_t data, size_t size, const char *bytes)
{
    COMGR_CALL(set_bytes(data_find(data), size, bytes));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_set_data_from_file_slice(amd_comgr_data_t data, int descriptor,
                                                                  uint64_t offset, uint64_t size)
{
    COMGR_CALL(set_slice(data_find(data), descriptor, offset, size));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_set_data_name(amd_comgr_data_t data, const char *name)
{
    COMGR_CALL(set_name(data_find(data), name));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_get_data(amd_comgr_data_t data, size_t *size, char *bytes)
{
    COMGR_CALL(get_bytes(data_find(data), size, bytes));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_get_data_name(amd_comgr_data_t data, size_t *size, char *name)
{
    COMGR_CALL(get_name(data_find(data), size, name));
}
