#define _GNU_SOURCE /* openat, strdup in a strict C11 build */
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* libMIOpen writes some 170 files of up to 200 KB. */
enum { MOST_FILES = 4096, MOST_BYTES = 64 << 20 };

/* Read to the end; a folder or a device ends in an error here. */
static bool fill(struct file *file, int descriptor)
{
    size_t room = 0;

    for (;;) {
        ssize_t more = 0;

        if (file->size == room) {
            char *const bytes = room < MOST_BYTES ? realloc(file->bytes, room = room * 2 + 65536) : NULL;

            if (bytes == NULL) {
                errno = EFBIG;
                return false;
            }
            file->bytes = bytes;
        }
        more = read(descriptor, file->bytes + file->size, room - file->size);
        if (more == 0) {
            return true;
        }
        if (more < 0 && errno != EINTR) {
            return false;
        }
        file->size += more > 0 ? (size_t)more : 0;
    }
}

static bool add(struct folder *folder, int parent, const char *name)
{
    struct file *const files = folder->count < MOST_FILES
                                   ? realloc(folder->files, (folder->count + 1) * sizeof *folder->files)
                                   : NULL;
    struct file *file = NULL;
    int descriptor = -1, reason = 0;
    bool good = false;

    if (files == NULL) {
        errno = ENOMEM;
        return false;
    }
    folder->files = files;
    file = &files[folder->count++];
    *file = (struct file){strdup(name), NULL, 0};
    descriptor = openat(parent, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) {
        return false;
    }
    good = fill(file, descriptor) && file->name != NULL;
    reason = errno;
    close(descriptor);
    errno = reason;
    return good;
}

static int compare(const void *left, const void *right)
{
    return strcmp(((const struct file *)left)->name, ((const struct file *)right)->name);
}

bool folder_read(struct folder *folder, const char *path)
{
    DIR *const directory = opendir(path);
    bool good = directory != NULL;

    memset(folder, 0, sizeof *folder);
    while (good) {
        const struct dirent *const entry = readdir(directory);

        if (entry == NULL) {
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            good = add(folder, dirfd(directory), entry->d_name);
        }
    }
    if (directory != NULL) {
        const int reason = errno;

        closedir(directory);
        errno = reason;
    }
    if (good && folder->count > 0) {
        qsort(folder->files, folder->count, sizeof *folder->files, compare);
    }
    if (!good) {
        folder_free(folder);
    }
    return good;
}

void folder_free(struct folder *folder)
{
    const int reason = errno;

    for (size_t i = 0; i < folder->count; i++) {
        free(folder->files[i].name);
        free(folder->files[i].bytes);
    }
    free(folder->files);
    memset(folder, 0, sizeof *folder);
    errno = reason;
}
