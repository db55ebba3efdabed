#define _GNU_SOURCE /* pipe2, syscall */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const uintptr_t page_mask = 4095; /* pages are never smaller */

bool probe_open(struct probe *probe)
{
    return pipe2(probe->ends, O_CLOEXEC) == 0;
}

void probe_close(struct probe *probe)
{
    close(probe->ends[0]);
    close(probe->ends[1]);
}

/* write() from a byte that cannot be read fails with EFAULT. It is called past libc, where a sanitizer would take
 * the question for an access. */
static bool byte_is_readable(const struct probe *probe, uintptr_t address)
{
    char sink;
    long moved = 0;

    do {
        moved = syscall(SYS_write, probe->ends[1], address, 1L);
    } while (moved < 0 && errno == EINTR);
    if (moved != 1) {
        return false;
    }
    do {
        moved = read(probe->ends[0], &sink, 1);
    } while (moved < 0 && errno == EINTR);
    return moved == 1;
}

bool probe_range(const struct probe *probe, const void *base, uint64_t offset, uint64_t length)
{
    const uintptr_t start = (uintptr_t)base;
    uintptr_t address = 0, last = 0;

    if (length == 0) {
        return true;
    }
    if (offset > UINTPTR_MAX - start || length - 1 > UINTPTR_MAX - start - offset) {
        return false;
    }
    address = start + offset;
    last = address + (length - 1);
    while (byte_is_readable(probe, address)) {
        if ((address | page_mask) >= last) {
            return true;
        }
        address = (address | page_mask) + 1;
    }
    return false;
}

size_t probe_prefix(const void *base, size_t most)
{
    const size_t to_page_end = page_mask + 1 - ((uintptr_t)base & page_mask);
    const size_t first = most < to_page_end ? most : to_page_end;
    struct probe probe;
    size_t readable = 0;

    if (!probe_open(&probe)) {
        return 0;
    }
    if (probe_range(&probe, base, 0, most)) {
        readable = most;
    } else if (probe_range(&probe, base, 0, first)) {
        readable = first;
    }
    probe_close(&probe);
    return readable;
}
