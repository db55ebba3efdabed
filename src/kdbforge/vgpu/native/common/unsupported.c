#define _GNU_SOURCE /* pthread_atfork in a strict C11 build */
#include "unsupported.h"

#include "journal.h"
#include "locks.h"

#include <unistd.h>

VGPU_DEFINE_LOCK(VGPU_LOCK_LIBRARY);

static struct vgpu_unsupported *called;

void vgpu_unsupported_call(struct vgpu_unsupported *function)
{
    bool first = false;

    take_lock();
    if (function->owner == 0) {
        function->next = called;
        called = function;
    }
    if (function->owner != getpid()) {
        function->owner = getpid();
        function->calls = 0;
    }
    first = function->calls++ == 0;
    drop_lock();
    if (first) {
        vgpu_journal_unsupported(function->name, 0);
    }
}

/* A process that ends well tells how often each was called. */
__attribute__((destructor)) static void tell_calls(void)
{
    for (const struct vgpu_unsupported *function = called; function != NULL; function = function->next) {
        if (function->owner == getpid()) {
            vgpu_journal_unsupported(function->name, function->calls);
        }
    }
}
