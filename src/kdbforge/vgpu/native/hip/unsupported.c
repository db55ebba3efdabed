/* The entry points that nobody wrote by hand, made from the list of symbols.
 * They are declared without parameters: a caller's arguments stay in its registers and on its stack. */
#include "state.h"

#include "../common/report.h"
#include "../common/unsupported.h"

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
        static struct vgpu_unsupported function = {#name, 0, 0, NULL}; \
        return hip_unsupported(&function);               \
    }
#define DEFINE_unsupported_null(name)                    \
    VGPU_EXPORT void *name(void);                        \
    VGPU_EXPORT void *name(void)                         \
    {                                                    \
        static struct vgpu_unsupported function = {#name, 0, 0, NULL}; \
        hip_unsupported(&function);                      \
        return NULL;                                     \
    }

#define VGPU_NODE(node, parent)
#define VGPU_SYMBOL(name, node, disposition) DEFINE_##disposition(name)
#include "symbols.def"
