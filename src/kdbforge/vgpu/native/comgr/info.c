/* Action infos: how an action is to be done. */
#include "state.h"

#include "../common/report.h"

#include <stdlib.h>
#include <string.h>

struct action_info *info_find(amd_comgr_action_info_t info)
{
    return vgpu_handle_get(&comgr_handles, HANDLE_INFO, info.handle);
}

static void clear_list(struct string_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i]);
    }
    free(list->items);
    *list = (struct string_list){NULL, 0};
}

static bool copy_list(struct string_list *list, const char *const *texts, size_t count)
{
    struct string_list copy = {NULL, 0};

    if (count > 0) {
        copy.items = calloc(count, sizeof(char *));
        if (copy.items == NULL) {
            return false;
        }
    }
    for (; copy.count < count; copy.count++) {
        if (!copy_text(&copy.items[copy.count], texts[copy.count])) {
            clear_list(&copy);
            return false;
        }
    }
    clear_list(list);
    *list = copy;
    return true;
}

static void free_info(struct action_info *info)
{
    free(info->isa_name);
    free(info->working_directory);
    clear_list(&info->options);
    free(info);
}

static amd_comgr_status_t create(amd_comgr_action_info_t *handle)
{
    struct action_info *info = NULL;

    if (handle == NULL) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    handle->handle = 0;
    info = calloc(1, sizeof *info);
    if (info == NULL) {
        return AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    if (copy_text(&info->isa_name, "") && copy_text(&info->working_directory, "")) {
        handle->handle = vgpu_handle_new(&comgr_handles, HANDLE_INFO, info);
    }
    if (handle->handle == 0) {
        free_info(info);
        return AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t destroy(amd_comgr_action_info_t handle)
{
    struct action_info *const info = info_find(handle);

    if (info == NULL) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    vgpu_handle_free(&comgr_handles, handle.handle);
    free_info(info);
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t set_text(char **place, const char *text)
{
    return copy_text(place, text) ? AMD_COMGR_STATUS_SUCCESS : AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
}

/* Only the form is checked: which GPUs there are is the compiler's to know. */
static bool is_isa_name(const char *name)
{
    static const char prefix[] = "amdgcn-amd-amdhsa--gfx";

    return name == NULL || *name == '\0' ||
           (strncmp(name, prefix, sizeof prefix - 1) == 0 && name[sizeof prefix - 1] != '\0');
}

static amd_comgr_status_t set_isa(struct action_info *info, const char *name)
{
    if (info == NULL || !is_isa_name(name)) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    return set_text(&info->isa_name, name);
}

static amd_comgr_status_t get_isa(const struct action_info *info, size_t *size, char *name)
{
    return info == NULL ? AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT
                        : copy_out(info->isa_name, strlen(info->isa_name) + 1, size, name);
}

static amd_comgr_status_t set_language(struct action_info *info, int language)
{
    if (info == NULL || language < AMD_COMGR_LANGUAGE_NONE || language > comgr_last_language) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    info->language = language;
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t get_language(const struct action_info *info, int *language)
{
    if (info == NULL || language == NULL) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *language = info->language;
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t set_options(struct action_info *info, const char *const *options, size_t count)
{
    if (info == NULL || (options == NULL && count > 0)) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < count; i++) {
        if (options[i] == NULL) {
            return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
        }
    }
    if (!copy_list(&info->options, options, count)) {
        return AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    info->options_are_set = true;
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t count_options(const struct action_info *info, size_t *count)
{
    if (info == NULL || count == NULL) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *count = info->options.count;
    return info->options_are_set ? AMD_COMGR_STATUS_SUCCESS : AMD_COMGR_STATUS_ERROR;
}

static amd_comgr_status_t get_option(const struct action_info *info, size_t index, size_t *size, char *option)
{
    if (info == NULL || size == NULL) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (!info->options_are_set) {
        return AMD_COMGR_STATUS_ERROR;
    }
    if (index >= info->options.count) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    return copy_out(info->options.items[index], strlen(info->options.items[index]) + 1, size, option);
}

static amd_comgr_status_t set_flag(struct action_info *info, bool *flag, bool value)
{
    if (info == NULL) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *flag = value;
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t set_logging(struct action_info *info, bool logging)
{
    return set_flag(info, info == NULL ? NULL : &info->logging, logging);
}

static amd_comgr_status_t set_linking(struct action_info *info, bool linking)
{
    return set_flag(info, info == NULL ? NULL : &info->device_lib_linking, linking);
}

static amd_comgr_status_t get_logging(const struct action_info *info, bool *logging)
{
    if (info == NULL || logging == NULL) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *logging = info->logging;
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t set_directory(struct action_info *info, const char *path)
{
    return info == NULL ? AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT : set_text(&info->working_directory, path);
}

static amd_comgr_status_t get_directory(const struct action_info *info, size_t *size, char *path)
{
    return info == NULL ? AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT
                        : copy_out(info->working_directory, strlen(info->working_directory) + 1, size, path);
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_create_action_info(amd_comgr_action_info_t *info)
{
    COMGR_CALL(create(info));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_destroy_action_info(amd_comgr_action_info_t info)
{
    COMGR_CALL(destroy(info));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_info_set_isa_name(amd_comgr_action_info_t info,
                                                                  const char *name)
{
    COMGR_CALL(set_isa(info_find(info), name));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_info_get_isa_name(amd_comgr_action_info_t info, size_t *size,
                                                                  char *name)
{
    COMGR_CALL(get_isa(info_find(info), size, name));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_info_set_language(amd_comgr_action_info_t info, int language)
{
    COMGR_CALL(set_language(info_find(info), language));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_info_get_language(amd_comgr_action_info_t info, int *language)
{
    COMGR_CALL(get_language(info_find(info), language));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_info_set_option_list(amd_comgr_action_info_t info,
                                                                     const char *const *options, size_t count)
{
    COMGR_CALL(set_options(info_find(info), options, count));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_info_get_option_list_count(amd_comgr_action_info_t info,
                                                                           size_t *count)
{
    COMGR_CALL(count_options(info_find(info), count));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_info_get_option_list_item(amd_comgr_action_info_t info,
                                                                          size_t index, size_t *size,
                                                                          char *option)
{
    COMGR_CALL(get_option(info_find(info), index, size, option));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_info_set_device_lib_linking(amd_comgr_action_info_t info,
                                                                            bool linking)
{
    COMGR_CALL(set_linking(info_find(info), linking));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_info_set_working_directory_path(amd_comgr_action_info_t info,
                                                                                const char *path)
{
    COMGR_CALL(set_directory(info_find(info), path));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_info_get_working_directory_path(amd_comgr_action_info_t info,
                                                                                size_t *size, char *path)
{
    COMGR_CALL(get_directory(info_find(info), size, path));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_info_set_logging(amd_comgr_action_info_t info, bool logging)
{
    COMGR_CALL(set_logging(info_find(info), logging));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_action_info_get_logging(amd_comgr_action_info_t info, bool *logging)
{
    COMGR_CALL(get_logging(info_find(info), logging));
}
