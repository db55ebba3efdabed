/* The files in a folder, whole, sorted by name. */
#ifndef KDBFORGE_VGPU_EXEC_FOLDER_H
#define KDBFORGE_VGPU_EXEC_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

struct file {
    char *name;
    char *bytes;
    size_t size;
};

struct folder {
    struct file *files;
    size_t count;
};

/* False, with errno, if something cannot be read, is no plain file, or is unreasonably large. */
bool folder_read(struct folder *folder, const char *path);
void folder_free(struct folder *folder);

#endif
