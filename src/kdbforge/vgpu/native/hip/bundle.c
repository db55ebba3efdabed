#include "bundle.h"

#include "code_object.h"
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* clang-offload-bundler, uncompressed, little endian:
 *   24 bytes magic | u64 number of entries | entries
 *   entry = u64 offset | u64 size | u64 length of ID | ID, such as "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-" */
static const char magic[] = "__CLANG_OFFLOAD_BUNDLE__";
static const char compressed_magic[] = "CCOB";
enum { MAGIC_SIZE = sizeof magic - 1, ENTRIES_MOST = 4096, ID_MOST = 256 };

struct bundle {
    const unsigned char *image;
    uint64_t size;
    struct probe probe; /* for an image of unknown size */
    char *reason;
    size_t reason_size;
};

bool bundle_is(const void *image, size_t size)
{
    return (size >= MAGIC_SIZE && memcmp(image, magic, MAGIC_SIZE) == 0) ||
           (size >= sizeof compressed_magic - 1 &&
            memcmp(image, compressed_magic, sizeof compressed_magic - 1) == 0);
}

__attribute__((format(printf, 2, 3))) static bool refuse(const struct bundle *bundle, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(bundle->reason, bundle->reason_size, format, arguments);
    va_end(arguments);
    return false;
}

static const unsigned char *view(const struct bundle *bundle, uint64_t offset, uint64_t length)
{
    if (bundle->size == CODE_OBJECT_UNSIZED) {
        return probe_range(&bundle->probe, bundle->image, offset, length) ? bundle->image + offset : NULL;
    }
    return offset <= bundle->size && length <= bundle->size - offset ? bundle->image + offset : NULL;
}

static bool number_at(const struct bundle *bundle, uint64_t *offset, uint64_t *number)
{
    const unsigned char *const bytes = view(bundle, *offset, 8);

    if (bytes == NULL) {
        return refuse(bundle, "an offload bundle is cut off");
    }
    *number = 0;
    for (int i = 7; i >= 0; i--) {
        *number = *number << 8 | bytes[i];
    }
    *offset += 8;
    return true;
}

/* The target ID behind "hip-" or "hipv4-", a triple and "--"; NULL for the host's entry and others. */
static const char *target_of(const char *id)
{
    const char *const dashes = strncmp(id, "hip", 3) == 0 ? strstr(id, "--") : NULL;

    return dashes == NULL ? NULL : dashes + 2;
}

struct entry {
    uint64_t offset, size;
    char id[ID_MOST];
};

static bool read_entry(const struct bundle *bundle, uint64_t *at, struct entry *entry)
{
    const unsigned char *id = NULL;
    uint64_t length = 0;

    if (!number_at(bundle, at, &entry->offset) || !number_at(bundle, at, &entry->size) ||
        !number_at(bundle, at, &length)) {
        return false;
    }
    id = length < ID_MOST ? view(bundle, *at, length) : NULL;
    if (id == NULL) {
        return refuse(bundle, "the name of an offload bundle's entry is damaged");
    }
    memcpy(entry->id, id, length);
    entry->id[length] = '\0';
    *at += length;
    return true;
}

/* The fitting entry with the longest name, which says most about the device. */
static bool choose(const struct bundle *bundle, const char *device, struct entry *best)
{
    uint64_t at = MAGIC_SIZE, count = 0;
    struct entry entry;

    best->id[0] = '\0';
    if (!number_at(bundle, &at, &count)) {
        return false;
    }
    if (count > ENTRIES_MOST) {
        return refuse(bundle, "an offload bundle with %llu entries", (unsigned long long)count);
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!read_entry(bundle, &at, &entry)) {
            return false;
        }
        const char *const target = target_of(entry.id);
        if (target != NULL && entry.size > 0 && code_object_target_fits(target, device) &&
            strlen(entry.id) > strlen(best->id)) {
            *best = entry;
        }
    }
    return true;
}

static bool pick(const struct bundle *bundle, const char *device, const void **object, uint64_t *size)
{
    const unsigned char *bytes = NULL;
    struct entry best;

    if (view(bundle, 0, sizeof compressed_magic - 1) != NULL &&
        memcmp(bundle->image, compressed_magic, sizeof compressed_magic - 1) == 0) {
        return refuse(bundle, "a compressed offload bundle; build with --no-offload-compress");
    }
    if (!choose(bundle, device, &best)) {
        return false;
    }
    if (best.id[0] == '\0') {
        *object = NULL;
        return refuse(bundle, "no code in it fits a device that reports `%s`", device);
    }
    bytes = view(bundle, best.offset, best.size);
    if (bytes == NULL) {
        return refuse(bundle, "the code for `%.64s` lies outside its bundle", best.id);
    }
    *object = bytes;
    *size = best.size;
    return true;
}

bool bundle_pick(const void *image, uint64_t image_size, const char *device, const void **object, uint64_t *size,
                 char *reason, size_t reason_size)
{
    struct bundle bundle = {image, image_size, {{-1, -1}}, reason, reason_size};
    bool good = false;

    if (image_size == CODE_OBJECT_UNSIZED && !probe_open(&bundle.probe)) {
        return refuse(&bundle, "no pipe to probe it with");
    }
    good = pick(&bundle, device, object, size);
    if (image_size == CODE_OBJECT_UNSIZED) {
        probe_close(&bundle.probe);
    }
    return good;
}
