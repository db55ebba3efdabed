/* Ask the kernel whether memory can be read, without touching it: for images whose size the caller does not tell. */
#ifndef KDBFORGE_VGPU_PROBE_H
#define KDBFORGE_VGPU_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct probe {
    int ends[2]; /* a pipe */
};

bool probe_open(struct probe *probe); /* errno says why not */
void probe_close(struct probe *probe);

/* Can all of [base + offset, base + offset + length) be read? */
bool probe_range(const struct probe *probe, const void *base, uint64_t offset, uint64_t length);

/* How many bytes can be read at base: all of most, or those up to the end of a page. */
size_t probe_prefix(const void *base, size_t most);

#endif
