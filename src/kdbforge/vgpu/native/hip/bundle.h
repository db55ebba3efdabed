/* Find the code object for a device in a clang offload bundle. The bytes are hostile. */
#ifndef KDBFORGE_VGPU_BUNDLE_H
#define KDBFORGE_VGPU_BUNDLE_H

#include <stdint.h>

enum bundle_answer {
    BUNDLE_NONE,    /* the image is no bundle */
    BUNDLE_FOUND,   /* image and size are those of the code object now */
    BUNDLE_DAMAGED, /* or of a kind that is not read: reason says which */
    BUNDLE_FOREIGN, /* nothing in it is for this device */
};

/* size may be CODE_OBJECT_UNSIZED: then memory is probed before it is read. */
enum bundle_answer bundle_find(const void **image, uint64_t *size, const char *device, const char **reason);

#endif
