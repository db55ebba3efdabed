/* popen and pclose, by which a libMIOpen without COMGR runs its compiler. Calls of others go on to libc. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "command.h"
#include "modes.h"

#include "../common/journal.h"
#include "../common/locks.h"
#include "../common/report.h"
#include "../common/unsupported.h"
#include "../common/settings.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

VGPU_DEFINE_LOCK(VGPU_LOCK_LIBRARY);

/* A compilation between its popen and its pclose; the stream takes what libMIOpen might write. */
struct child {
    FILE *stream;
    pid_t process; /* -1: none was started */
    int status;    /* then: as waitpid tells it */
    struct child *next;
};

static struct child *children; /* under the lock */

static const int status_failed = 1 << 8; /* what waitpid tells of exit(1) */

/* glibc's popen under its other name, which the dynamic linker need not be asked for: the version that dlsym has
 * in a new glibc is missing in an old one. */
FILE *_IO_popen(const char *command, const char *type);

struct caller {
    uintptr_t address;
    bool is_miopen;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct caller *const caller = argument;
    const char *const slash = strrchr(info->dlpi_name, '/');

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *const segment = &info->dlpi_phdr[i];

        if (segment->p_type == PT_LOAD && caller->address - info->dlpi_addr - segment->p_vaddr < segment->p_memsz) {
            caller->is_miopen = strncmp(slash == NULL ? info->dlpi_name : slash + 1, "libMIOpen", 9) == 0;
            return 1;
        }
    }
    return 0;
}

static bool called_by_miopen(const void *address)
{
    struct caller caller = {(uintptr_t)address, false};

    dl_iterate_phdr(look_at, &caller);
    return caller.is_miopen;
}

static bool carry_out(const struct command *command, struct child *child)
{
    child->process = -1;
    switch (vgpu_settings()->compile) {
    case VGPU_COMPILE_CAPTURE:
        take_lock();
        child->status = capture_command(command) ? 0 : status_failed;
        drop_lock();
        return true;
    case VGPU_COMPILE_FORBID:
        take_lock();
        forbid_command(command);
        drop_lock();
        child->status = status_failed;
        return true;
    case VGPU_COMPILE_PASS:
        child->process = start_command(command);
        return child->process >= 0;
    }
    return false;
}

static FILE *open_child(const struct command *command)
{
    struct child *const child = calloc(1, sizeof *child);
    FILE *const stream = fopen("/dev/null", "we");

    if (child == NULL || stream == NULL || !carry_out(command, child)) {
        if (stream != NULL) {
            fclose(stream);
        }
        free(child);
        errno = ECHILD;
        return NULL;
    }
    take_lock();
    child->stream = stream;
    child->next = children;
    children = child;
    drop_lock();
    return stream;
}

static FILE *compile(const char *text, const char *type)
{
    static struct vgpu_unsupported function = {"popen", 0, 0, NULL};
    struct command command;
    char reason[256] = "it is read from, not written to";
    FILE *stream = NULL;

    errno = ENOTSUP;
    if (!vgpu_journal_ready()) {
        return NULL;
    }
    if (strcmp(type, "w") != 0 || !command_read(&command, text, reason, sizeof reason)) {
        vgpu_report("libMIOpen runs a command of unknown form: %s: `%s`", reason, text);
        vgpu_unsupported_call(&function);
        return NULL;
    }
    stream = open_child(&command);
    command_free(&command);
    return stream;
}

VGPU_EXPORT FILE *popen(const char *command, const char *type)
{
    if (command != NULL && type != NULL && called_by_miopen(__builtin_return_address(0))) {
        return compile(command, type);
    }
    return _IO_popen(command, type);
}

/* Take a child of ours out of the list; NULL if the stream is none's. */
static struct child *take_child(const FILE *stream)
{
    struct child *found = NULL;

    take_lock();
    for (struct child **place = &children; *place != NULL; place = &(*place)->next) {
        if ((*place)->stream == stream) {
            found = *place;
            *place = found->next;
            break;
        }
    }
    drop_lock();
    return found;
}

VGPU_EXPORT int pclose(FILE *stream)
{
    struct child *const child = take_child(stream);
    int status = 0;

    if (child == NULL) {
        return fclose(stream); /* which is all that glibc's pclose does */
    }
    fclose(stream);
    status = child->status;
    if (child->process >= 0) {
        while (waitpid(child->process, &status, 0) < 0 && errno == EINTR) {
        }
    }
    free(child);
    return status;
}
