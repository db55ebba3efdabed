#include "marker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char prefix[] = "kdbforge-capture:";

size_t vgpu_marker_write(const struct vgpu_marker *marker, char text[VGPU_MARKER_MOST])
{
    return (size_t)snprintf(text, VGPU_MARKER_MOST, "%s%s:%" PRIu64 ":%" PRIu64 ":%" PRIu64 "\n", prefix,
                            marker->nonce, marker->action, marker->kind, marker->index);
}

struct cursor {
    const char *bytes;
    size_t limit;
    size_t at;
};

static bool take(struct cursor *cursor, char wanted)
{
    if (cursor->at >= cursor->limit || cursor->bytes[cursor->at] != wanted) {
        return false;
    }
    cursor->at++;
    return true;
}

/* Up to 19 digits, which always fit; no leading zero, so that a marker has one spelling. */
static bool take_number(struct cursor *cursor, uint64_t *number)
{
    const size_t start = cursor->at;

    *number = 0;
    while (cursor->at < cursor->limit && cursor->at - start < 19 && cursor->bytes[cursor->at] >= '0' &&
           cursor->bytes[cursor->at] <= '9') {
        *number = *number * 10 + (uint64_t)(cursor->bytes[cursor->at++] - '0');
    }
    return cursor->at > start && (cursor->bytes[start] != '0' || cursor->at == start + 1);
}

static bool take_nonce(struct cursor *cursor, char *nonce)
{
    for (size_t i = 0; i < VGPU_NONCE_LENGTH; i++) {
        if (cursor->at >= cursor->limit || cursor->bytes[cursor->at] == '\0' ||
            strchr("0123456789abcdef", cursor->bytes[cursor->at]) == NULL) {
            return false;
        }
        nonce[i] = cursor->bytes[cursor->at++];
    }
    nonce[VGPU_NONCE_LENGTH] = '\0';
    return true;
}

size_t vgpu_marker_read(const char *bytes, size_t limit, struct vgpu_marker *marker)
{
    struct cursor cursor = {bytes, limit, 0};

    for (size_t i = 0; i < sizeof prefix - 1; i++) {
        if (!take(&cursor, prefix[i])) {
            return 0;
        }
    }
    if (!take_nonce(&cursor, marker->nonce) || !take(&cursor, ':') ||
        !take_number(&cursor, &marker->action) || !take(&cursor, ':') ||
        !take_number(&cursor, &marker->kind) || !take(&cursor, ':') ||
        !take_number(&cursor, &marker->index) || !take(&cursor, '\n')) {
        return 0;
    }
    return cursor.at;
}
