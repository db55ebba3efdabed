#include "handles.h"

#include <stdlib.h>

/* A handle is kind << 56 | generation << 32 | slot number + 1. */
struct vgpu_slot {
    void *object; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
    uint8_t kind;
};

static const uint32_t generation_mask = 0xFFFFFF;

static int add_slots(struct vgpu_handles *table)
{
    const uint32_t more = table->count < 64 ? 64 : table->count;
    struct vgpu_slot *slots = NULL;

    if (table->count > UINT32_MAX / 4) {
        return 0;
    }
    slots = realloc(table->slots, (size_t)(table->count + more) * sizeof *slots);
    if (slots == NULL) {
        return 0;
    }
    table->slots = slots;
    for (uint32_t i = table->count; i < table->count + more; i++) {
        slots[i] = (struct vgpu_slot){.next_free = i + 1 < table->count + more ? i + 2 : 0};
    }
    table->free_head = table->count + 1;
    table->count += more;
    return 1;
}

uint64_t vgpu_handle_new(struct vgpu_handles *table, uint8_t kind, void *object)
{
    struct vgpu_slot *slot = NULL;
    uint32_t number = 0;

    if (table->free_head == 0 && !add_slots(table)) {
        return 0;
    }
    number = table->free_head;
    slot = &table->slots[number - 1];
    table->free_head = slot->next_free;
    slot->object = object;
    slot->kind = kind;
    return (uint64_t)kind << 56 | (uint64_t)slot->generation << 32 | number;
}

void *vgpu_handle_get(const struct vgpu_handles *table, uint8_t kind, uint64_t handle)
{
    const uint32_t number = (uint32_t)handle;
    const struct vgpu_slot *slot = NULL;

    if (number == 0 || number > table->count || handle >> 56 != kind) {
        return NULL;
    }
    slot = &table->slots[number - 1];
    if (slot->kind != kind || slot->generation != ((handle >> 32) & generation_mask)) {
        return NULL;
    }
    return slot->object;
}

void vgpu_handle_free(struct vgpu_handles *table, uint64_t handle)
{
    const uint32_t number = (uint32_t)handle;
    struct vgpu_slot *const slot = &table->slots[number - 1];

    slot->object = NULL;
    slot->kind = 0;
    slot->generation = (slot->generation + 1) & generation_mask;
    slot->next_free = table->free_head;
    table->free_head = number;
}
