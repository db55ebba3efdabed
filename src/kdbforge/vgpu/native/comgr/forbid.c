/* Mode `forbid`: nothing may be compiled; whoever tries is written down, and fails. */
#include "state.h"

#include "../common/journal.h"
#include "../common/report.h"

static _Atomic uint64_t forbidden;

static const char *first_source(const struct data_set *input)
{
    for (size_t i = 0; i < input->count; i++) {
        if (input->data[i]->kind == DATA_SOURCE && input->data[i]->name != NULL) {
            return input->data[i]->name;
        }
    }
    return "";
}

amd_comgr_status_t forbid_action(const struct action *action)
{
    const struct action_info *const info = action->info;
    struct vgpu_entry entry;

    forbidden++;
    vgpu_entry_begin(&entry, VGPU_ENTRY_FORBIDDEN);
    vgpu_entry_number(&entry, (uint64_t)action->kind);
    vgpu_entry_number(&entry, (uint64_t)info->language);
    vgpu_entry_text(&entry, info->isa_name);
    vgpu_entry_text(&entry, first_source(action->input));
    vgpu_entry_number(&entry, info->options.count);
    for (size_t i = 0; i < info->options.count; i++) {
        vgpu_entry_text(&entry, info->options.items[i]);
    }
    vgpu_entry_commit(&entry);
    return AMD_COMGR_STATUS_ERROR;
}

/* How many actions were forbidden so far. */
VGPU_EXPORT uint64_t kdbforge_vgpu_forbidden(void);
VGPU_EXPORT uint64_t kdbforge_vgpu_forbidden(void)
{
    return forbidden;
}
