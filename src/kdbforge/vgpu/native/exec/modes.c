#define _GNU_SOURCE /* pthread_atfork in a strict C11 build */
#include "modes.h"

#include "folder.h"

#include "../common/blobs.h"
#include "../common/journal.h"
#include "../common/marker.h"
#include "../common/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* Kinds of inputs, as in amd_comgr.h. */
enum { KIND_SOURCE = 1, KIND_INCLUDE = 2 };

static uint64_t command_count;
static char nonce[VGPU_NONCE_LENGTH + 1];

/* A forked child is a new image to readers of the journal: it starts with no blobs and no commands. */
static void renew(void)
{
    char now[VGPU_NONCE_LENGTH + 1];

    vgpu_journal_nonce(now);
    if (strcmp(now, nonce) != 0) {
        memcpy(nonce, now, sizeof now);
        vgpu_blobs_forget();
        command_count = 0;
    }
}

static bool add_files(struct vgpu_entry *entry, const struct command *command, const struct folder *folder)
{
    bool has_source = false;

    vgpu_entry_number(entry, folder->count);
    for (size_t i = 0; i < folder->count; i++) {
        const struct file *const file = &folder->files[i];
        const bool source = strcmp(file->name, command->source) == 0;
        char reference[32];
        uint64_t blob = 0;

        if (!vgpu_blob_number(file->bytes, file->size, &blob)) {
            return false;
        }
        snprintf(reference, sizeof reference, "blob:%" PRIu64, blob);
        vgpu_entry_number(entry, source ? KIND_SOURCE : KIND_INCLUDE);
        vgpu_entry_text(entry, file->name);
        vgpu_entry_text(entry, reference);
        has_source |= source;
    }
    if (!has_source) {
        vgpu_report("the folder `%s` has no `%s`", command->folder, command->source);
    }
    return has_source;
}

static bool journal_command(const struct command *command, const struct folder *folder)
{
    struct vgpu_entry entry;

    vgpu_entry_begin(&entry, VGPU_ENTRY_COMMAND);
    vgpu_entry_number(&entry, command_count);
    vgpu_entry_text(&entry, command->program);
    vgpu_entry_number(&entry, command->argument_count);
    for (size_t i = 0; i < command->argument_count; i++) {
        vgpu_entry_text(&entry, command->arguments[i]);
    }
    if (!add_files(&entry, command, folder)) {
        vgpu_entry_discard(&entry);
        return false;
    }
    return vgpu_entry_commit(&entry);
}

static bool write_marker(const struct command *command)
{
    struct vgpu_marker marker = {"", command_count, 0, 0};
    char text[VGPU_MARKER_MOST], path[4096];
    size_t length = 0;
    int descriptor = -1;
    bool good = false;

    memcpy(marker.nonce, nonce, sizeof nonce);
    length = vgpu_marker_write(&marker, text);
    if ((size_t)snprintf(path, sizeof path, "%s/%s", command->folder, command->output) < sizeof path) {
        descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (descriptor >= 0) {
        good = write(descriptor, text, length) == (ssize_t)length;
        good = close(descriptor) == 0 && good;
    }
    if (!good) {
        vgpu_report("`%s` cannot be written: %s", path, strerror(errno));
    }
    return good;
}

bool capture_command(const struct command *command)
{
    struct folder folder;
    bool good = false;

    renew();
    if (!folder_read(&folder, command->folder)) {
        vgpu_report("the temporary folder `%s` cannot be read: %s", command->folder, strerror(errno));
        return false;
    }
    good = journal_command(command, &folder) && write_marker(command);
    folder_free(&folder);
    command_count++;
    return good;
}

static const char *target_of(const struct command *command)
{
    static const char *const options[] = {"--cuda-gpu-arch=", "--offload-arch=", "-mcpu="};

    for (size_t i = 0; i < command->argument_count; i++) {
        for (size_t j = 0; j < sizeof options / sizeof options[0]; j++) {
            if (strncmp(command->arguments[i], options[j], strlen(options[j])) == 0) {
                return command->arguments[i] + strlen(options[j]);
            }
        }
    }
    return "";
}

void forbid_command(const struct command *command)
{
    struct vgpu_entry entry;

    vgpu_entry_begin(&entry, VGPU_ENTRY_FORBIDDEN);
    vgpu_entry_number(&entry, 0);
    vgpu_entry_number(&entry, 0);
    vgpu_entry_text(&entry, target_of(command));
    vgpu_entry_text(&entry, command->source);
    vgpu_entry_number(&entry, command->argument_count);
    for (size_t i = 0; i < command->argument_count; i++) {
        vgpu_entry_text(&entry, command->arguments[i]);
    }
    vgpu_entry_commit(&entry);
}

/* Without what the dynamic loader would put into the compiler: the virtual GPU is not for it. */
static char **own_environment(void)
{
    size_t count = 0, kept = 0;
    char **copy = NULL;

    while (environ[count] != NULL) {
        count++;
    }
    copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy != NULL && i < count; i++) {
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0) {
            copy[kept++] = environ[i];
        }
    }
    return copy;
}

static pid_t spawn(const char *program, const struct command *command)
{
    const char **const words = calloc(command->argument_count + 5, sizeof *words);
    char **const environment = own_environment();
    pid_t process = -1;
    int error = ENOMEM;

    if (words != NULL && environment != NULL) {
        words[0] = program;
        words[1] = command->folder;
        words[2] = command->source;
        words[3] = command->program;
        for (size_t i = 0; i < command->argument_count; i++) {
            words[4 + i] = command->arguments[i];
        }
        error = posix_spawn(&process, program, NULL, NULL, (char *const *)words, environment);
    }
    if (error != 0) {
        vgpu_report("KDBFORGE_VGPU_COMPILER=%s: %s", program, strerror(error));
        process = -1;
    }
    free(words);
    free(environment);
    return process;
}

pid_t start_command(const struct command *command)
{
    const char *const program = getenv("KDBFORGE_VGPU_COMPILER");

    if (program == NULL || *program == '\0') {
        vgpu_report("KDBFORGE_VGPU_COMPILER is %s", program == NULL ? "not set" : "empty");
        return -1;
    }
    return spawn(program, command);
}
