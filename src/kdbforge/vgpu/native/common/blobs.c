#include "blobs.h"

#include "journal.h"

#include <stdlib.h>
#include <string.h>

struct blob {
    uint64_t hash;
    uint64_t number;
    size_t size;
    char *bytes;
    struct blob *next;
};

enum { BUCKETS = 1024 };

static struct blob *blobs[BUCKETS];
static uint64_t blob_count;

/* FNV-1a over words of 8 bytes; only spreads the blobs over the buckets, bytes are compared. */
static uint64_t hash_bytes(const char *bytes, size_t size)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325) ^ size;

    while (size > 0) {
        uint64_t word = 0;
        const size_t step = size < sizeof word ? size : sizeof word;

        memcpy(&word, bytes, step);
        hash = (hash ^ word) * UINT64_C(0x100000001B3);
        hash ^= hash >> 29;
        bytes += step;
        size -= step;
    }
    return hash;
}

void vgpu_blobs_forget(void)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        while (blobs[i] != NULL) {
            struct blob *const next = blobs[i]->next;

            free(blobs[i]->bytes);
            free(blobs[i]);
            blobs[i] = next;
        }
    }
    blob_count = 0;
}

static bool write_blob(const char *bytes, size_t size, uint64_t number)
{
    struct vgpu_entry entry;

    vgpu_entry_begin(&entry, VGPU_ENTRY_BLOB);
    vgpu_entry_number(&entry, number);
    vgpu_entry_bytes(&entry, bytes, size);
    return vgpu_entry_commit(&entry);
}

bool vgpu_blob_number(const char *bytes, size_t size, uint64_t *number)
{
    const uint64_t hash = hash_bytes(bytes, size);
    struct blob **const bucket = &blobs[hash % BUCKETS];
    struct blob *blob = NULL;

    for (blob = *bucket; blob != NULL; blob = blob->next) {
        if (blob->hash == hash && blob->size == size && (size == 0 || memcmp(blob->bytes, bytes, size) == 0)) {
            *number = blob->number;
            return true;
        }
    }
    blob = calloc(1, sizeof *blob);
    if (blob == NULL) {
        return false;
    }
    *blob = (struct blob){hash, blob_count, size, malloc(size == 0 ? 1 : size), *bucket};
    if (blob->bytes == NULL || !write_blob(bytes, size, blob->number)) {
        free(blob->bytes);
        free(blob);
        return false;
    }
    if (size > 0) {
        memcpy(blob->bytes, bytes, size);
    }
    *bucket = blob;
    *number = blob_count++;
    return true;
}
