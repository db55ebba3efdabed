/* The bytes that stand for the output of a captured action:
 * "kdbforge-capture:<nonce>:<action id>:<data kind>:<index>\n". */
#ifndef KDBFORGE_VGPU_MARKER_H
#define KDBFORGE_VGPU_MARKER_H

#include "journal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vgpu_marker {
    char nonce[VGPU_NONCE_LENGTH + 1];
    uint64_t action;
    uint64_t kind;
    uint64_t index;
};

enum { VGPU_MARKER_MOST = 17 + VGPU_NONCE_LENGTH + 3 * 21 + 2 };

/* Write the marker with a NUL behind it; its length without. */
size_t vgpu_marker_write(const struct vgpu_marker *marker, char text[VGPU_MARKER_MOST]);

/* Read a marker at the start of bytes. Looks at no byte behind the first that does not fit, and at none
 * behind limit. The length of the marker, or 0 if it is none. */
size_t vgpu_marker_read(const char *bytes, size_t limit, struct vgpu_marker *marker);

#endif
