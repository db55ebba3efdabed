/* Opaque handles: a stale, foreign or made-up one is told from a live one without touching memory. */
#ifndef KDBFORGE_VGPU_HANDLES_H
#define KDBFORGE_VGPU_HANDLES_H

#include <stddef.h>
#include <stdint.h>

/* A table starts zeroed; its owner holds a lock around every call. */
struct vgpu_handles {
    struct vgpu_slot *slots;
    uint32_t count;
    uint32_t free_head; /* slot number + 1; 0 = none */
};

/* kind is 1 to 127. 0 = out of memory; no handle has a value below 2^56. */
uint64_t vgpu_handle_new(struct vgpu_handles *table, uint8_t kind, void *object);

/* The object, or NULL if this is no live handle of that kind. */
void *vgpu_handle_get(const struct vgpu_handles *table, uint8_t kind, uint64_t handle);

/* Forget a live handle; the object stays the caller's. */
void vgpu_handle_free(struct vgpu_handles *table, uint64_t handle);

#endif
