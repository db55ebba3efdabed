/* Fuzzes what reads the images that a program loads: capture markers and code objects. */
#define _GNU_SOURCE
#include "vgpu/native/common/marker.h"
#include "vgpu/native/hip/code_object.h"
#include "vgpu/native/hip/probe.h"

#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, ROOM = 1 << 20 };

/* Memory whose last byte stands before a page that cannot be read. */
static unsigned char *room_end(void)
{
    static unsigned char *end;

    if (end == NULL) {
        unsigned char *const room = mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);

        CHECK(room != MAP_FAILED && mprotect(room + ROOM, PAGE, PROT_NONE) == 0);
        end = room + ROOM;
    }
    return end;
}

static bool check_object(const void *image, uint64_t size, struct code_object *object)
{
    char reason[160];

    memset(reason, 'x', sizeof reason);
    if (!code_object_read(object, image, size, reason, sizeof reason)) {
        CHECK(memchr(reason, '\0', sizeof reason) != NULL);
        CHECK(object->kernels == NULL && object->kernel_count == 0);
        return false;
    }
    CHECK(strlen(object->target) < sizeof object->target);
    CHECK(code_object_target_fits(object->target, object->target));
    for (size_t i = 0; i < object->kernel_count; i++) {
        CHECK(i == 0 || strcmp(object->kernels[i - 1], object->kernels[i]) <= 0);
        CHECK(code_object_has_kernel(object, object->kernels[i]));
    }
    CHECK(!code_object_has_kernel(object, "no such kernel"));
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vgpu_marker marker;
    struct code_object sized, unsized;

    const size_t length = vgpu_marker_read((const char *)data, size, &marker);
    if (length > 0) {
        char text[VGPU_MARKER_MOST];

        CHECK(length <= size && vgpu_marker_write(&marker, text) == length);
        CHECK(memcmp(text, data, length) == 0); /* a marker has one spelling */
    }
    const bool good = check_object(data, size, &sized);
    CHECK(!good || sized.length <= size);
    if (size > 0 && size <= ROOM) { /* told no size, it must find the end by itself */
        unsigned char *const image = room_end() - size;

        memcpy(image, data, size);
        CHECK(check_object(image, CODE_OBJECT_UNSIZED, &unsized) == good);
        if (good) {
            CHECK(unsized.length == sized.length && unsized.kernel_count == sized.kernel_count);
            code_object_free(&unsized);
        }
        (void)probe_prefix(image, VGPU_MARKER_MOST);
    }
    if (good) {
        code_object_free(&sized);
    }
    return 0;
}
