/* Read an AMDGPU code object (ELF) far enough to load it: target, length, kernels. The bytes are hostile. */
#ifndef KDBFORGE_VGPU_CODE_OBJECT_H
#define KDBFORGE_VGPU_CODE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CODE_OBJECT_TARGET_MOST = 64 };
#define CODE_OBJECT_UNSIZED UINT64_MAX

struct code_object {
    char target[CODE_OBJECT_TARGET_MOST]; /* target ID; a feature under "any" is not named */
    uint64_t length;                      /* where its last header, section or segment ends */
    char **kernels;                       /* names without ".kd", sorted */
    size_t kernel_count;
};

/* Read the code object at image. With CODE_OBJECT_UNSIZED the caller does not know where it ends: then each page
 * is probed before it is read. False with a reason (never longer than reason_size) if it is not acceptable. */
bool code_object_read(struct code_object *object, const void *image, uint64_t size, char *reason,
                      size_t reason_size);
void code_object_free(struct code_object *object);
bool code_object_has_kernel(const struct code_object *object, const char *name);

/* Does code for this target ID run on a device that reports that one? A feature that the device does not name
 * may have either setting, so only code for "any" fits it. */
bool code_object_target_fits(const char *target, const char *device);

#endif
