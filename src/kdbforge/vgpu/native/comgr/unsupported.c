/* The entry points that nobody wrote by hand, made from the list of symbols. */
#include "state.h"

#include "../common/report.h"
#include "../common/unsupported.h"

#define DEFINE_implemented(name)
#define DEFINE_unsupported(name)                              \
    VGPU_EXPORT amd_comgr_status_t name(void);                \
    VGPU_EXPORT amd_comgr_status_t name(void)                 \
    {                                                         \
        static struct vgpu_unsupported function = {#name, 0, 0, NULL}; \
        vgpu_unsupported_call(&function);                     \
        return AMD_COMGR_STATUS_ERROR;                        \
    }

#define VGPU_NODE(node, parent)
#define VGPU_SYMBOL(name, node, disposition) DEFINE_##disposition(name)
#include "symbols.def"
