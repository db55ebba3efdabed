/* Locks that survive a fork: a child must not find one taken by a thread that it does not have. */
#ifndef KDBFORGE_VGPU_LOCKS_H
#define KDBFORGE_VGPU_LOCKS_H

#include "report.h"

#include <pthread.h>

/* The levels at which locks nest: who holds one may take those of a lower level, never of a higher one.
 * They are priorities of constructors, since handlers of a fork run last registered first. */
#define VGPU_LOCK_SETTINGS 101
#define VGPU_LOCK_JOURNAL 102
#define VGPU_LOCK_LIBRARY 103

/* Define the one lock of a file, with take_lock() and drop_lock(). */
#define VGPU_DEFINE_LOCK(level)                                              \
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;                 \
    static void take_lock(void)                                              \
    {                                                                        \
        pthread_mutex_lock(&lock);                                           \
    }                                                                        \
    static void drop_lock(void)                                              \
    {                                                                        \
        pthread_mutex_unlock(&lock);                                         \
    }                                                                        \
    __attribute__((constructor(level))) static void survive_fork(void)       \
    {                                                                        \
        if (pthread_atfork(take_lock, drop_lock, drop_lock) != 0) {          \
            vgpu_report("pthread_atfork failed: a forked child may hang");   \
        }                                                                    \
    }                                                                        \
    struct vgpu_lock_needs_a_semicolon

#endif
