/* Data objects, data sets and action infos. One lock guards them: `comgr_enter` takes it and `comgr_leave` drops it. */
#ifndef KDBFORGE_VGPU_COMGR_STATE_H
#define KDBFORGE_VGPU_COMGR_STATE_H

#include "comgr_abi.h"

#include "../common/handles.h"
#include "../common/marker.h"
#include "../common/settings.h"

enum handle_kind { HANDLE_DATA = 65, HANDLE_SET, HANDLE_INFO };

struct data {
    uint64_t handle;
    enum data_kind kind;
    uint64_t owners; /* references that callers hold */
    uint64_t sets;   /* references that data sets hold */
    char *bytes;
    size_t size;
    char *name;       /* NULL: not named */
    bool name_is_set; /* by the caller, not by the action that made the data */
    bool captured;    /* its bytes are a marker, and stand for the output of an action */
    struct vgpu_marker origin;
};

struct data_set {
    struct data **data;
    size_t count;
    size_t capacity;
};

struct string_list {
    char **items;
    size_t count;
};

struct action_info {
    char *isa_name;
    char *working_directory;
    int language;
    bool logging;
    bool device_lib_linking;
    bool options_are_set;
    struct string_list options;
};

/* Take the lock; an error (and no lock) if the environment is unusable or the compile mode is `pass`. */
amd_comgr_status_t comgr_enter(void);
amd_comgr_status_t comgr_leave(amd_comgr_status_t status);
const struct vgpu_settings *comgr_settings(void);
extern struct vgpu_handles comgr_handles;

#define COMGR_CALL(expression)                               \
    do {                                                     \
        const amd_comgr_status_t entered = comgr_enter();    \
        if (entered != AMD_COMGR_STATUS_SUCCESS) {           \
            return entered;                                  \
        }                                                    \
        return comgr_leave(expression);                      \
    } while (0)

/* data.c: objects */
bool data_kind_is_valid(int kind);
struct data *data_find(amd_comgr_data_t data);
/* A new object that only sets may hold; NULL when out of memory. */
struct data *data_new(enum data_kind kind);
/* Free the object if nobody refers to it any more. */
void data_free_unused(struct data *data);
amd_comgr_status_t data_assign(struct data *data, const char *bytes, size_t size);
bool data_rename(struct data *data, const char *name);
/* Copy text or bytes out as all getters do: the size alone, or as much as the buffer takes. */
amd_comgr_status_t copy_out(const char *bytes, size_t length, size_t *size, char *buffer);
/* Copy a string in; false when out of memory. NULL counts as "". */
bool copy_text(char **place, const char *text);

/* sets.c */
struct data_set *set_find(amd_comgr_data_set_t set);
bool set_append(struct data_set *set, struct data *data);
void set_clear(struct data_set *set, enum data_kind kind); /* DATA_UNDEF: all kinds */

/* info.c */
struct action_info *info_find(amd_comgr_action_info_t info);

/* actions_v2.c, actions_v3.c: what each action makes of what. One of them is in each library. */
enum action_form {
    ACTION_EACH, /* one output for each input of the kind, in order */
    ACTION_LINK, /* one output for all of them */
    ACTION_COPY, /* hands all its inputs on; nothing is compiled */
};

struct action_rule {
    int kind;
    enum action_form form;
    enum data_kind input;
    enum data_kind output;
    const char *suffix;   /* of the output's name */
    const char *link_name; /* stem of a linked output's name; NULL: that of the first input */
    bool needs_language;
};

extern const struct action_rule comgr_actions[];
extern const size_t comgr_action_count;
extern const int comgr_last_language;
extern const size_t comgr_interface_major;
extern const size_t comgr_interface_minor;

/* capture.c, forbid.c: what do_action is in the two modes that this library serves. */
struct action {
    int kind;
    const struct action_rule *rule;
    const struct action_info *info;
    const struct data_set *input;
    struct data_set *result;
};
amd_comgr_status_t capture_action(const struct action *action);
amd_comgr_status_t forbid_action(const struct action *action);

#endif
