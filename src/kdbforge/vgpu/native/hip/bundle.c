#include "bundle.h"

#include "code_object.h"
#include "probe.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* LLVM, "Clang Offload Bundler": the magic, a count, then for each entry offset, size, length of its ID, and the
 * ID (hipv4-amdgcn-amd-amdhsa--gfx1030); numbers are u64, little endian. */
static const char magic[] = "__CLANG_OFFLOAD_BUNDLE__";
static const char compressed_magic[] = "CCOB";
enum { MAGIC = sizeof magic - 1, MOST_ENTRIES = 256, MOST_ID = 256 };
static const uint64_t largest_bundle = UINT64_C(1) << 30;

struct reader {
    const unsigned char *image;
    uint64_t size;
    struct probe probe; /* both only for images of unknown size: */
    uint64_t readable;  /* how many bytes are known to be readable */
};

/* An image of unknown size goes on as far as its memory does without a gap. */
static bool reaches(struct reader *reader, uint64_t end)
{
    if (end > reader->readable) {
        if (!probe_range(&reader->probe, reader->image, reader->readable, end - reader->readable)) {
            return false;
        }
        reader->readable = end;
    }
    return true;
}

static const unsigned char *view(struct reader *reader, uint64_t offset, uint64_t length)
{
    if (offset > largest_bundle || length > largest_bundle) {
        return NULL;
    }
    if (reader->size != CODE_OBJECT_UNSIZED ? offset + length > reader->size : !reaches(reader, offset + length)) {
        return NULL;
    }
    return reader->image + offset;
}

static bool read_number(struct reader *reader, uint64_t offset, uint64_t *number)
{
    const unsigned char *const bytes = view(reader, offset, 8);

    *number = 0;
    for (int i = 7; bytes != NULL && i >= 0; i--) {
        *number = *number << 8 | bytes[i];
    }
    return bytes != NULL;
}

/* The target ID that ends an entry's ID. */
static bool is_for(const char *id, const char *device)
{
    const char *const target = strstr(id, "-gfx");

    return strstr(id, "amdgcn") != NULL && target != NULL && code_object_target_fits(target + 1, device);
}

static enum bundle_answer find(struct reader *reader, const char *device, uint64_t *offset, uint64_t *size)
{
    uint64_t count = 0, at = MAGIC + 8;

    if (!read_number(reader, MAGIC, &count) || count > MOST_ENTRIES) {
        return BUNDLE_DAMAGED;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length = 0;
        const unsigned char *text = NULL;
        char id[MOST_ID + 1];

        if (!read_number(reader, at, offset) || !read_number(reader, at + 8, size) ||
            !read_number(reader, at + 16, &length) || length > MOST_ID ||
            (text = view(reader, at + 24, length)) == NULL) {
            return BUNDLE_DAMAGED;
        }
        memcpy(id, text, length);
        id[length] = '\0';
        at += 24 + length;
        if (is_for(id, device)) {
            return BUNDLE_FOUND;
        }
    }
    return BUNDLE_FOREIGN;
}

static enum bundle_answer open_bundle(struct reader *reader, const char *device, const void **image, uint64_t *size,
                                      const char **reason)
{
    uint64_t offset = 0, length = 0;
    enum bundle_answer answer = BUNDLE_NONE;
    const unsigned char *start = view(reader, 0, sizeof compressed_magic - 1);

    if (start != NULL && memcmp(start, compressed_magic, sizeof compressed_magic - 1) == 0) {
        *reason = "a compressed offload bundle, which is not read";
        return BUNDLE_DAMAGED;
    }
    start = view(reader, 0, MAGIC);
    if (start == NULL || memcmp(start, magic, MAGIC) != 0) {
        return BUNDLE_NONE;
    }
    answer = find(reader, device, &offset, &length);
    if (answer == BUNDLE_FOUND && view(reader, offset, length) == NULL) {
        answer = BUNDLE_DAMAGED;
    }
    if (answer == BUNDLE_FOUND) {
        *image = reader->image + offset;
        *size = length;
    }
    *reason = "the offload bundle is cut off or damaged";
    return answer;
}

enum bundle_answer bundle_find(const void **image, uint64_t *size, const char *device, const char **reason)
{
    struct reader reader = {*image, *size, {{-1, -1}}, 0};
    enum bundle_answer answer = BUNDLE_DAMAGED;

    *reason = "no pipe to probe it with";
    if (*size == CODE_OBJECT_UNSIZED && !probe_open(&reader.probe)) {
        return answer;
    }
    answer = open_bundle(&reader, device, image, size, reason);
    if (reader.size == CODE_OBJECT_UNSIZED) {
        probe_close(&reader.probe);
    }
    return answer;
}
