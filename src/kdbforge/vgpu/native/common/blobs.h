/* Files that captured compilations read, each written to the journal once in a process image. */
#ifndef KDBFORGE_VGPU_BLOBS_H
#define KDBFORGE_VGPU_BLOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number under which the journal has these bytes, written there now if they are new; false on failure.
 * The caller holds a lock around both functions. */
bool vgpu_blob_number(const char *bytes, size_t size, uint64_t *number);

/* Start anew: what follows in the journal is another process image's. */
void vgpu_blobs_forget(void);

#endif
