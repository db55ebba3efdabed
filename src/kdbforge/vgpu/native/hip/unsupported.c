/* The entry points that nobody wrote by hand, made from the list of symbols.
 * They are declared without parameters: a caller's arguments stay in its registers and on its stack. */
#include "state.h"

#include "../common/report.h"

#include <stdatomic.h>

hipError_t hip_unsupported(atomic_flag *told, const char *name);

#define DEFINE_implemented(name)
#define DEFINE_noop(name)                  \
    VGPU_EXPORT hipError_t name(void);     \
    VGPU_EXPORT hipError_t name(void)      \
    {                                      \
        HIP_CALL(hipSuccess);              \
    }
#define DEFINE_unsupported(name)                         \
    VGPU_EXPORT hipError_t name(void);                   \
    VGPU_EXPORT hipError_t name(void)                    \
    {                                                    \
        static atomic_flag told = ATOMIC_FLAG_INIT;      \
        return hip_unsupported(&told, #name);            \
    }
#define DEFINE_unsupported_null(name)                    \
    VGPU_EXPORT void *name(void);                        \
    VGPU_EXPORT void *name(void)                         \
    {                                                    \
        static atomic_flag told = ATOMIC_FLAG_INIT;      \
        hip_unsupported(&told, #name);                   \
        return NULL;                                     \
    }

#define VGPU_NODE(node, parent)
#define VGPU_SYMBOL(name, node, disposition) DEFINE_##disposition(name)
#include "symbols.def"
