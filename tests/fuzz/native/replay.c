/* Runs a target on files, and on changes of each that a fixed seed gives: replay COUNT FILE... */
#include "fuzz.h"

#include <string.h>

/* xorshift64: the same numbers everywhere. */
static uint64_t state = 88172645463325252u;

static size_t below(size_t limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state % limit);
}

/* A copy without a spare byte, so that the sanitizers see what is read behind it. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *const copy = malloc(size == 0 ? 1 : size);

    CHECK(copy != NULL);
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void change(uint8_t *data, size_t *size)
{
    static const uint64_t numbers[] = {0, 1, 0x7F, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, UINT64_MAX, 1ull << 63, 4096};
    /* Most of what leads elsewhere is in headers, at the start and behind the sections. */
    const size_t at = below(3) == 0 ? below(*size < 512 ? *size : 512) : below(*size);
    const size_t left = *size - at;

    switch (below(5)) {
    case 0: data[at] ^= (uint8_t)(1u << below(8)); break;
    case 1: data[at] = (uint8_t)below(256); break;
    case 2: memcpy(data + at, &numbers[below(9)], left < 8 ? left : 8); break;
    case 3: memmove(data + at, data + below(*size - left + 1), left < 64 ? left : 64); break;
    default: *size -= below(left); break;
    }
}

int main(int argc, char **argv)
{
    const long count = argc > 2 ? atol(argv[1]) : 0;
    long runs = 0;

    for (int i = 2; i < argc; i++) {
        enum { MOST = 1 << 20 };
        static uint8_t file[MOST], changed[MOST];
        FILE *const stream = fopen(argv[i], "rb");

        CHECK(stream != NULL);
        const size_t size = fread(file, 1, MOST, stream);
        fclose(stream);
        run(file, size);
        for (long n = 0; n < count && size > 0; n++, runs++) {
            size_t length = size;

            memcpy(changed, file, size);
            for (size_t changes = 1 + below(3); changes > 0 && length > 0; changes--) {
                change(changed, &length);
            }
            run(changed, length);
        }
    }
    printf("%d files, %ld changes\n", argc - 2, runs);
    return 0;
}
