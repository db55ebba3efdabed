/* Device and pinned host memory. Device memory is address space only or real, as the memory mode says. */
#include "state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MAP_ANONYMOUS /* strict C11 hides them; the values are the kernel's */
#define MAP_ANONYMOUS 0x20
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0x4000
#endif

struct allocation {
    uintptr_t base;
    size_t size;
    enum memory_kind kind;
    int device;     /* that was current then */
    unsigned flags; /* as the caller gave them */
};

/* Sorted by base, so that a pointer into the middle of an allocation is found. */
static struct allocation *allocations;
static size_t allocation_count, allocation_capacity;
static uint64_t bytes_used[VGPU_DEVICES_MOST]; /* of each device */

/* Per-mode behaviour of device memory. */
struct memory_mode {
    int protection;
    int flags;
    bool readable; /* copies and fills reach the bytes */
};

static const struct memory_mode memory_modes[] = {
    [VGPU_MEMORY_RESERVE] = {PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, false},
    [VGPU_MEMORY_BACKED] = {PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, true},
};

static const struct memory_mode host_memory = {PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, true};

static const struct memory_mode *device_mode(void)
{
    return &memory_modes[hip_settings()->memory];
}

/* Index of the first allocation whose base is above the address. */
static size_t upper_bound(uintptr_t address)
{
    size_t low = 0, high = allocation_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (allocations[middle].base <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The allocation that holds all of [pointer, pointer + size), or NULL. */
static const struct allocation *find(const void *pointer, size_t size)
{
    const uintptr_t address = (uintptr_t)pointer;
    const size_t above = upper_bound(address);
    const struct allocation *found = NULL;

    if (above == 0) {
        return NULL;
    }
    found = &allocations[above - 1];
    if (address - found->base >= found->size || size > found->size - (address - found->base)) {
        return NULL;
    }
    return found;
}

/* Does the range touch any allocation at all? */
static bool touches(const void *pointer, size_t size)
{
    const uintptr_t address = (uintptr_t)pointer;
    const size_t above = upper_bound(address);

    return find(pointer, 0) != NULL ||
           (above < allocation_count && size > allocations[above].base - address);
}

/* Room for one more in the list. */
static bool reserve_place(void)
{
    if (allocation_count == allocation_capacity) {
        const size_t capacity = allocation_capacity == 0 ? 64 : allocation_capacity * 2;
        struct allocation *const more = realloc(allocations, capacity * sizeof *more);

        if (more == NULL) {
            return false;
        }
        allocations = more;
        allocation_capacity = capacity;
    }
    return true;
}

/* Needs a reserved place. */
static void insert(const struct allocation *allocation)
{
    const size_t index = upper_bound(allocation->base);
    struct allocation *const place = &allocations[index];

    memmove(place + 1, place, (allocation_count - index) * sizeof *place);
    *place = *allocation;
    allocation_count++;
}

static hipError_t add(void **pointer, size_t size, const struct memory_mode *mode, enum memory_kind kind,
                      unsigned flags)
{
    void *base = NULL;

    if (!reserve_place()) {
        return hipErrorOutOfMemory;
    }
    base = mmap(NULL, size, mode->protection, mode->flags, -1, 0);
    if (base == MAP_FAILED) {
        return hipErrorOutOfMemory;
    }
    insert(&(struct allocation){(uintptr_t)base, size, kind, device_current(), flags});
    *pointer = base;
    return hipSuccess;
}

hipError_t memory_allocate(void **pointer, size_t size)
{
    uint64_t *const used = &bytes_used[device_current()];
    const uint64_t total = device_profile(device_current())->memory_bytes;
    hipError_t error = hipSuccess;

    if (pointer == NULL) {
        return hipErrorInvalidValue;
    }
    *pointer = NULL;
    if (size == 0) {
        return hipSuccess;
    }
    if (size > total - *used) {
        return hipErrorOutOfMemory;
    }
    error = add(pointer, size, device_mode(), MEMORY_DEVICE, 0);
    if (error == hipSuccess) {
        *used += size;
    }
    return error;
}

hipError_t memory_allocate_host(void **pointer, size_t size, unsigned flags)
{
    if (pointer == NULL || (flags & ~hipHostMallocKnownFlags) != 0) {
        return hipErrorInvalidValue;
    }
    *pointer = NULL;
    return size == 0 ? hipSuccess : add(pointer, size, &host_memory, MEMORY_PINNED, flags);
}

hipError_t memory_allocate_managed(void **pointer, size_t size, unsigned flags)
{
    if (pointer == NULL || size == 0 || (flags != hipMemAttachGlobal && flags != hipMemAttachHost)) {
        return hipErrorInvalidValue;
    }
    *pointer = NULL;
    return add(pointer, size, &host_memory, MEMORY_MANAGED, flags);
}

hipError_t memory_register(void *pointer, size_t size, unsigned flags)
{
    if (pointer == NULL || size == 0 || (flags & ~hipHostRegisterKnownFlags) != 0 ||
        size > UINTPTR_MAX - (uintptr_t)pointer) {
        return hipErrorInvalidValue;
    }
    if (touches(pointer, size)) {
        return hipErrorHostMemoryAlreadyRegistered;
    }
    if (!reserve_place()) {
        return hipErrorOutOfMemory;
    }
    insert(&(struct allocation){(uintptr_t)pointer, size, MEMORY_REGISTERED, device_current(), flags});
    return hipSuccess;
}

static void forget(const struct allocation *allocation)
{
    allocation_count--;
    memmove(&allocations[allocation - allocations], allocation + 1,
            (allocation_count - (size_t)(allocation - allocations)) * sizeof *allocation);
}

hipError_t memory_unregister(void *pointer)
{
    const struct allocation *const found = find(pointer, 0);

    if (found == NULL || found->base != (uintptr_t)pointer || found->kind != MEMORY_REGISTERED) {
        return hipErrorHostMemoryNotRegistered;
    }
    forget(found);
    return hipSuccess;
}

static hipError_t release(void *pointer, unsigned kinds)
{
    const struct allocation *const found = find(pointer, 0);

    if (found == NULL || found->base != (uintptr_t)pointer || (1U << found->kind & kinds) == 0) {
        return hipErrorInvalidValue;
    }
    if (munmap(pointer, found->size) != 0) {
        return hipErrorOperatingSystem;
    }
    if (found->kind == MEMORY_DEVICE) {
        bytes_used[found->device] -= found->size;
    }
    forget(found);
    return hipSuccess;
}

hipError_t memory_free(void *pointer)
{
    return pointer == NULL ? hipSuccess : release(pointer, 1U << MEMORY_DEVICE | 1U << MEMORY_MANAGED);
}

hipError_t memory_free_host(void *pointer)
{
    return pointer == NULL ? hipSuccess : release(pointer, 1U << MEMORY_PINNED);
}

hipError_t memory_info(size_t *free_bytes, size_t *total)
{
    const uint64_t memory = device_profile(device_current())->memory_bytes;

    if (free_bytes == NULL && total == NULL) {
        return hipErrorInvalidValue;
    }
    if (free_bytes != NULL) {
        *free_bytes = memory - bytes_used[device_current()];
    }
    if (total != NULL) {
        *total = memory;
    }
    return hipSuccess;
}

hipError_t memory_range(void **base, size_t *size, const void *pointer)
{
    const struct allocation *const found = find(pointer, 0);

    if (found == NULL || (base == NULL && size == NULL)) {
        return hipErrorInvalidValue;
    }
    if (base != NULL) {
        *base = (void *)found->base;
    }
    if (size != NULL) {
        *size = found->size;
    }
    return hipSuccess;
}

hipError_t memory_examine(const void *pointer, struct memory_facts *facts)
{
    const struct allocation *const found = find(pointer, 0);

    if (found == NULL) {
        return hipErrorInvalidValue;
    }
    *facts = (struct memory_facts){found->kind, found->device, found->flags, (void *)found->base, found->size};
    return hipSuccess;
}

hipError_t memory_host_device_pointer(void **device, const void *host, unsigned flags)
{
    const struct allocation *const found = find(host, 0);

    if (device == NULL || flags != 0 || found == NULL || found->kind == MEMORY_DEVICE) {
        return hipErrorInvalidValue;
    }
    *device = (void *)(uintptr_t)host;
    return hipSuccess;
}

/* One end of a copy. Memory that HIP did not hand out is the host's; a range that begins or ends
 * inside an allocation but is not wholly in it is an error. */
struct end {
    bool valid;
    bool device;
    bool accessible;
};

static struct end examine(const void *pointer, size_t size, bool must_be_known)
{
    const struct allocation *const found = find(pointer, size);
    struct end end = {pointer != NULL, false, true};

    if (found != NULL) {
        end.device = found->kind == MEMORY_DEVICE;
        end.accessible = !end.device || device_mode()->readable;
    } else if (must_be_known || touches(pointer, size)) {
        end.valid = false;
    }
    return end;
}

hipError_t memory_copy(void *target, const void *source, size_t size, int kind)
{
    const bool to_device = kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice ||
                           kind == hipMemcpyDeviceToDeviceNoCU;
    const bool from_device = kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice ||
                             kind == hipMemcpyDeviceToDeviceNoCU;
    struct end to, from;

    if (!to_device && !from_device && kind != hipMemcpyHostToHost && kind != hipMemcpyDefault) {
        return hipErrorInvalidMemcpyDirection;
    }
    if (size == 0) {
        return hipSuccess;
    }
    to = examine(target, size, to_device);
    from = examine(source, size, from_device);
    if (!to.valid || !from.valid || (kind == hipMemcpyHostToHost && (to.device || from.device))) {
        return hipErrorInvalidValue;
    }
    if (to.accessible && from.accessible) {
        memmove(target, source, size);
    } else if (to.accessible) {
        memset(target, 0, size); /* there are no bytes to read: be deterministic */
    }
    return hipSuccess;
}

hipError_t memory_fill(void *target, unsigned value, size_t width, size_t count)
{
    struct end to;

    if (count == 0) {
        return hipSuccess;
    }
    if (count > SIZE_MAX / width) {
        return hipErrorInvalidValue;
    }
    to = examine(target, count * width, true);
    if (!to.valid || (uintptr_t)target % width != 0) {
        return hipErrorInvalidValue;
    }
    if (to.accessible) {
        for (size_t i = 0; i < count * width; i++) {
            ((unsigned char *)target)[i] = (unsigned char)(value >> (8 * (i % width)));
        }
    }
    return hipSuccess;
}
