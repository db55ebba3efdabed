/* Clang's offload bundles: one code object per target, as fat binaries and `--genco` files hold them. */
#ifndef KDBFORGE_VGPU_BUNDLE_H
#define KDBFORGE_VGPU_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does a bundle begin at image, of which `size` bytes can be read at least? */
bool bundle_is(const void *image, size_t size);

/* Find the code object for a device that reports this target ID. The image's size may be CODE_OBJECT_UNSIZED.
 * False with a reason (never longer than reason_size): if there is none, *object is NULL; if the bundle is damaged,
 * it is what it was. */
bool bundle_pick(const void *image, uint64_t image_size, const char *device, const void **object, uint64_t *size,
                 char *reason, size_t reason_size);

#endif
