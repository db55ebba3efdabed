/* do_action up to the point where the modes part, and the calls that need no state. */
#include "state.h"

#include "../common/journal.h"
#include "../common/report.h"

static const struct action_rule *find_rule(int kind)
{
    for (size_t i = 0; i < comgr_action_count; i++) {
        if (comgr_actions[i].kind == kind) {
            return &comgr_actions[i];
        }
    }
    return NULL;
}

/* The library puts a log object there whenever logging is on, with nothing in it if there is nothing to say. */
static amd_comgr_status_t add_log(struct data_set *result)
{
    struct data *const log = data_new(DATA_LOG);

    if (log == NULL) {
        return AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    if (!data_rename(log, "comgr.log") || data_assign(log, NULL, 0) != AMD_COMGR_STATUS_SUCCESS ||
        !set_append(result, log)) {
        data_free_unused(log);
        return AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t hand_on(const struct action *action)
{
    for (size_t i = 0; i < action->input->count; i++) {
        if (!set_append(action->result, action->input->data[i])) {
            return AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
        }
    }
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t dispatch(const struct action *action)
{
    if (action->rule == NULL) {
        vgpu_report("amd_comgr_do_action: action kind 0x%x is not supported", (unsigned)action->kind);
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (action->rule->form == ACTION_COPY) {
        return hand_on(action);
    }
    if (action->rule->needs_language && action->info->language == AMD_COMGR_LANGUAGE_NONE) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    return comgr_settings()->compile == VGPU_COMPILE_CAPTURE ? capture_action(action) : forbid_action(action);
}

static amd_comgr_status_t do_action(const struct action *action)
{
    amd_comgr_status_t status = AMD_COMGR_STATUS_SUCCESS;

    if (action->info == NULL || action->input == NULL || action->result == NULL ||
        action->input == action->result) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    set_clear(action->result, DATA_UNDEF);
    if (action->info->logging) {
        status = add_log(action->result);
    }
    return status == AMD_COMGR_STATUS_SUCCESS ? dispatch(action) : status;
}

static amd_comgr_status_t find_and_do(int kind, amd_comgr_action_info_t info, amd_comgr_data_set_t input,
                                      amd_comgr_data_set_t result)
{
    const struct action action = {kind, find_rule(kind), info_find(info), set_find(input), set_find(result)};

    return do_action(&action);
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_do_action(int kind, amd_comgr_action_info_t info,
                                                   amd_comgr_data_set_t input, amd_comgr_data_set_t result)
{
    COMGR_CALL(find_and_do(kind, info, input, result));
}

VGPU_EXPORT amd_comgr_status_t amd_comgr_status_string(amd_comgr_status_t status, const char **text)
{
    static const char *const names[] = {"SUCCESS", "ERROR", "INVALID_ARGUMENT", "OUT_OF_RESOURCES"};

    if (text == NULL || status < 0 || (size_t)status >= sizeof names / sizeof names[0]) {
        return AMD_COMGR_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *text = names[status];
    return AMD_COMGR_STATUS_SUCCESS;
}

VGPU_EXPORT void amd_comgr_get_version(size_t *major, size_t *minor)
{
    if (major != NULL) {
        *major = comgr_interface_major;
    }
    if (minor != NULL) {
        *minor = comgr_interface_minor;
    }
}
