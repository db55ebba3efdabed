/* Calls of functions that the virtual GPU does not have: named at the first one, counted to the end. */
#ifndef KDBFORGE_VGPU_UNSUPPORTED_H
#define KDBFORGE_VGPU_UNSUPPORTED_H

#include <stdint.h>
#include <sys/types.h>

struct vgpu_unsupported {
    const char *name;
    uint64_t calls;
    pid_t owner; /* the process that counted: a forked child begins anew */
    struct vgpu_unsupported *next;
};

void vgpu_unsupported_call(struct vgpu_unsupported *function);

#endif
