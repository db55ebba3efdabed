#define _GNU_SOURCE /* pthread_atfork in a strict C11 build */
#include "settings.h"

#include "locks.h"
#include "report.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

VGPU_DEFINE_LOCK(VGPU_LOCK_SETTINGS);

static const char *const compile_names[] = {"capture", "pass", "forbid", NULL};
static const char *const launch_names[] = {"skip", NULL};
static const char *const memory_names[] = {"reserve", "backed", NULL};

enum field_type { FIELD_TARGET, FIELD_TEXT, FIELD_NUMBER };

/* The keys of a profile file, each wanted once for every device. Numbers that HIP hands out as an int must fit one. */
static const struct field {
    const char *key;
    enum field_type type;
    size_t offset;
    size_t size;
    uint64_t least;
    uint64_t most;
} fields[] = {
#define TEXT(kind, name) \
    {#name, kind, offsetof(struct vgpu_profile, name), sizeof(((struct vgpu_profile *)0)->name), 0, 0}
#define NUMBER(name, least, most) \
    {#name, FIELD_NUMBER, offsetof(struct vgpu_profile, name), sizeof(uint64_t), least, most}
    TEXT(FIELD_TARGET, gcn_arch_name),
    TEXT(FIELD_TEXT, product_name),
    NUMBER(num_cu, 1, INT32_MAX),
    NUMBER(wave_size, 1, INT32_MAX),
    NUMBER(lds_bytes, 1, INT32_MAX),
    NUMBER(memory_bytes, 1, INT64_MAX),
    NUMBER(max_grid_dim_x, 1, INT32_MAX),
    NUMBER(cooperative_launch, 0, 1),
    NUMBER(clock_khz, 1, INT32_MAX),
    NUMBER(memory_clock_khz, 1, INT32_MAX),
#undef TEXT
#undef NUMBER
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

const char *vgpu_compile_mode_name(enum vgpu_compile_mode mode)
{
    return compile_names[mode];
}

/* Digits only: strtoull would take signs and blanks, and its symbol depends on the glibc of the build. */
static bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
    uint64_t value = 0;

    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        const uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *number = value;
    return value >= least && value <= most;
}

/* A target ID (LLVM AMDGPU usage guide): gfx, 3 to 5 hex digits, then :sramecc and :xnack with + or -. */
static bool is_target_id(const char *text)
{
    size_t digits = 0;
    bool seen[2] = {false, false};

    if (strncmp(text, "gfx", 3) != 0) {
        return false;
    }
    text += 3;
    digits = strspn(text, "0123456789abcdef");
    if (digits < 3 || digits > 5) {
        return false;
    }
    for (text += digits; *text != '\0'; text++) {
        static const char *const names[2] = {":sramecc", ":xnack"};
        const int which = strncmp(text, names[0], strlen(names[0])) == 0 ? 0 : 1;

        if (strncmp(text, names[which], strlen(names[which])) != 0 || seen[which]) {
            return false;
        }
        seen[which] = true;
        text += strlen(names[which]);
        if (*text != '+' && *text != '-') {
            return false;
        }
    }
    return true;
}

static bool set_field(struct vgpu_profile *profile, const struct field *field, const char *value)
{
    char *const place = (char *)profile + field->offset;

    if (field->type == FIELD_NUMBER) {
        return parse_number(value, field->least, field->most, (uint64_t *)(void *)place);
    }
    if (*value == '\0' || strlen(value) >= field->size) {
        return false;
    }
    strcpy(place, value);
    return field->type == FIELD_TEXT || is_target_id(value);
}

static bool read_line(const char *path, char *line, struct vgpu_profile *profile, bool *seen)
{
    char *const equals = strchr(line, '=');

    if (equals == NULL) {
        vgpu_report("KDBFORGE_VGPU_PROFILE=%s: line `%s` is not key=value", path, line);
        return false;
    }
    *equals = '\0';
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (strcmp(line, fields[i].key) != 0) {
            continue;
        }
        if (seen[i]) {
            vgpu_report("KDBFORGE_VGPU_PROFILE=%s: key `%s` stands twice", path, line);
            return false;
        }
        seen[i] = true;
        if (!set_field(profile, &fields[i], equals + 1)) {
            vgpu_report("KDBFORGE_VGPU_PROFILE=%s: bad value `%s` of `%s`", path, equals + 1, line);
            return false;
        }
        return true;
    }
    vgpu_report("KDBFORGE_VGPU_PROFILE=%s: unknown key `%s`", path, line);
    return false;
}

/* A device is complete: is every key there? */
static bool end_device(const char *path, const bool *seen)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (!seen[i]) {
            vgpu_report("KDBFORGE_VGPU_PROFILE=%s: key `%s` is missing", path, fields[i].key);
            return false;
        }
    }
    return true;
}

/* Take the end of a line away; false if it has none, but at the end of the file, or a NUL byte. */
static bool end_line(const char *path, FILE *file, char *line)
{
    const size_t length = strcspn(line, "\n");

    if (line[length] == '\0' && !feof(file)) {
        vgpu_report("KDBFORGE_VGPU_PROFILE=%s: line too long, or with a NUL byte", path);
        return false;
    }
    line[length] = '\0';
    return true;
}

/* One device after the other, with an empty line between two. */
static bool read_lines(const char *path, FILE *file, struct vgpu_settings *settings)
{
    char line[512];
    bool seen[FIELD_COUNT] = {false};
    int device = 0;

    while (fgets(line, sizeof line, file) != NULL) {
        if (!end_line(path, file, line)) {
            return false;
        }
        if (*line == '\0') {
            if (!end_device(path, seen)) {
                return false;
            }
            if (++device == VGPU_DEVICES_MOST) {
                vgpu_report("KDBFORGE_VGPU_PROFILE=%s: more than %d devices", path, VGPU_DEVICES_MOST);
                return false;
            }
            memset(seen, 0, sizeof seen);
        } else if (!read_line(path, line, &settings->profiles[device], seen)) {
            return false;
        }
    }
    if (ferror(file)) {
        vgpu_report("KDBFORGE_VGPU_PROFILE=%s: cannot be read", path);
        return false;
    }
    settings->device_count = device + 1;
    return end_device(path, seen);
}

static const char *require(const char *name)
{
    const char *const value = getenv(name);

    if (value == NULL || *value == '\0') {
        vgpu_report("%s is %s", name, value == NULL ? "not set" : "empty");
        return NULL;
    }
    return value;
}

static bool choose(const char *name, const char *const *choices, int *choice)
{
    const char *const value = require(name);
    char allowed[128] = "";

    if (value == NULL) {
        return false;
    }
    for (int i = 0; choices[i] != NULL; i++) {
        if (strcmp(value, choices[i]) == 0) {
            *choice = i;
            return true;
        }
        snprintf(allowed + strlen(allowed), sizeof allowed - strlen(allowed), "%s`%s`", i == 0 ? "" : ", ",
                 choices[i]);
    }
    vgpu_report("%s=%s is not one of %s", name, value, allowed);
    return false;
}

static bool read_profiles(struct vgpu_settings *settings)
{
    const char *const path = require("KDBFORGE_VGPU_PROFILE");
    FILE *file = NULL;
    bool good = false;

    if (path == NULL) {
        return false;
    }
    file = fopen(path, "re");
    if (file == NULL) {
        vgpu_report("KDBFORGE_VGPU_PROFILE=%s: cannot be opened", path);
        return false;
    }
    good = read_lines(path, file, settings);
    fclose(file);
    return good;
}

static bool read_settings(struct vgpu_settings *settings)
{
    const char *const journal = require("KDBFORGE_VGPU_JOURNAL");
    int compile = 0, launch = 0, memory = 0;

    if (journal == NULL || !choose("KDBFORGE_VGPU_COMPILE", compile_names, &compile) ||
        !choose("KDBFORGE_VGPU_LAUNCH", launch_names, &launch) ||
        !choose("KDBFORGE_VGPU_MEMORY", memory_names, &memory)) {
        return false;
    }
    if (strlen(journal) >= sizeof settings->journal) {
        vgpu_report("KDBFORGE_VGPU_JOURNAL=%.64s...: path is too long", journal);
        return false;
    }
    strcpy(settings->journal, journal);
    settings->compile = (enum vgpu_compile_mode)compile;
    settings->launch = (enum vgpu_launch_mode)launch;
    settings->memory = (enum vgpu_memory_mode)memory;
    return read_profiles(settings);
}

const struct vgpu_settings *vgpu_settings(void)
{
    enum { UNREAD, GOOD, BAD };
    static struct vgpu_settings settings;
    static _Atomic int state = UNREAD;

    if (state == UNREAD) {
        take_lock();
        if (state == UNREAD) {
            state = read_settings(&settings) ? GOOD : BAD;
        }
        drop_lock();
    }
    return state == GOOD ? &settings : NULL;
}
