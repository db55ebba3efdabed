/* Mode `capture`: write an action with all its inputs to the journal, and hand out markers as its outputs. */
#include "state.h"

#include "../common/blobs.h"
#include "../common/journal.h"
#include "../common/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t action_count;
static char nonce[VGPU_NONCE_LENGTH + 1];

/* A forked child is a new image to readers of the journal: it starts with no blobs and no actions. */
static void renew(void)
{
    char now[VGPU_NONCE_LENGTH + 1];

    vgpu_journal_nonce(now);
    if (strcmp(now, nonce) == 0) {
        return;
    }
    memcpy(nonce, now, sizeof now);
    vgpu_blobs_forget();
    action_count = 0;
}

enum { REFERENCE_MOST = 80 };

static amd_comgr_status_t describe(const struct data *data, char text[REFERENCE_MOST])
{
    uint64_t blob = 0;

    if (data->captured) {
        const struct vgpu_marker *const from = &data->origin;

        if (strcmp(from->nonce, nonce) != 0 || from->action >= action_count) {
            vgpu_report("amd_comgr_do_action: input `%s` is the output of an action that this process did not"
                        " capture (marker of %s, action %" PRIu64 ")",
                        data->name == NULL ? "" : data->name, from->nonce, from->action);
            return AMD_COMGR_STATUS_ERROR;
        }
        snprintf(text, REFERENCE_MOST, "action:%" PRIu64 ":%" PRIu64 ":%" PRIu64, from->action, from->kind,
                 from->index);
        return AMD_COMGR_STATUS_SUCCESS;
    }
    if (!vgpu_blob_number(data->bytes, data->size, &blob)) {
        return AMD_COMGR_STATUS_ERROR;
    }
    snprintf(text, REFERENCE_MOST, "blob:%" PRIu64, blob);
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t add_inputs(struct vgpu_entry *entry, const struct data_set *input)
{
    vgpu_entry_number(entry, input->count);
    for (size_t i = 0; i < input->count; i++) {
        const struct data *const data = input->data[i];
        char reference[REFERENCE_MOST];
        const amd_comgr_status_t status = describe(data, reference);

        if (status != AMD_COMGR_STATUS_SUCCESS) {
            return status;
        }
        vgpu_entry_number(entry, data->kind);
        vgpu_entry_text(entry, data->captured && !data->name_is_set ? "" : data->name);
        vgpu_entry_text(entry, reference);
    }
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t write_action(const struct action *action)
{
    const struct action_info *const info = action->info;
    struct vgpu_entry entry;
    amd_comgr_status_t status = AMD_COMGR_STATUS_SUCCESS;

    vgpu_entry_begin(&entry, VGPU_ENTRY_ACTION);
    vgpu_entry_number(&entry, action_count);
    vgpu_entry_number(&entry, (uint64_t)action->kind);
    vgpu_entry_number(&entry, (uint64_t)info->language);
    vgpu_entry_text(&entry, info->isa_name);
    vgpu_entry_text(&entry, info->working_directory);
    vgpu_entry_number(&entry, info->logging);
    vgpu_entry_number(&entry, info->device_lib_linking);
    vgpu_entry_number(&entry, info->options.count);
    for (size_t i = 0; i < info->options.count; i++) {
        vgpu_entry_text(&entry, info->options.items[i]);
    }
    status = add_inputs(&entry, action->input);
    if (status != AMD_COMGR_STATUS_SUCCESS) {
        vgpu_entry_discard(&entry);
        return status;
    }
    return vgpu_entry_commit(&entry) ? AMD_COMGR_STATUS_SUCCESS : AMD_COMGR_STATUS_ERROR;
}

/* "conv.cl" becomes "conv.bc", as the library names its outputs. */
static bool name_output(struct data *output, const struct action_rule *rule, const char *input)
{
    const char *const stem = rule->link_name != NULL ? rule->link_name : input;
    const char *const slash = strrchr(stem, '/');
    const char *const dot = strrchr(slash == NULL ? stem : slash, '.');
    const size_t length = dot == NULL ? strlen(stem) : (size_t)(dot - stem);
    char *const name = malloc(length + strlen(rule->suffix) + 1);
    bool good = false;

    if (name != NULL) {
        memcpy(name, stem, length);
        strcpy(name + length, rule->suffix);
        good = data_rename(output, name);
    }
    free(name);
    return good;
}

static amd_comgr_status_t add_output(const struct action *action, const char *input_name, uint64_t index)
{
    struct vgpu_marker marker = {"", action_count, action->rule->output, index};
    struct data *const output = data_new(action->rule->output);
    char text[VGPU_MARKER_MOST];

    if (output == NULL) {
        return AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    memcpy(marker.nonce, nonce, sizeof nonce);
    if (!name_output(output, action->rule, input_name) ||
        data_assign(output, text, vgpu_marker_write(&marker, text)) != AMD_COMGR_STATUS_SUCCESS ||
        !set_append(action->result, output)) {
        data_free_unused(output);
        return AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    return AMD_COMGR_STATUS_SUCCESS;
}

static amd_comgr_status_t add_outputs(const struct action *action)
{
    amd_comgr_status_t status = AMD_COMGR_STATUS_SUCCESS;
    uint64_t index = 0;

    for (size_t i = 0; i < action->input->count && status == AMD_COMGR_STATUS_SUCCESS; i++) {
        const struct data *const data = action->input->data[i];

        if (data->kind == action->rule->input && (action->rule->form == ACTION_EACH || index == 0)) {
            status = add_output(action, data->name, index++);
        }
    }
    if (index == 0 && action->rule->form == ACTION_LINK && status == AMD_COMGR_STATUS_SUCCESS) {
        return AMD_COMGR_STATUS_ERROR; /* linking nothing fails in the library too */
    }
    return status;
}

amd_comgr_status_t capture_action(const struct action *action)
{
    amd_comgr_status_t status = AMD_COMGR_STATUS_SUCCESS;

    renew();
    status = write_action(action);
    if (status == AMD_COMGR_STATUS_SUCCESS) {
        status = add_outputs(action);
        action_count++;
    }
    return status;
}
