/* The entry points that nobody wrote by hand, made from the list of symbols. */
#include "state.h"

#include "../common/journal.h"
#include "../common/report.h"

#include <stdatomic.h>

#define DEFINE_implemented(name)
#define DEFINE_unsupported(name)                              \
    VGPU_EXPORT amd_comgr_status_t name(void);                \
    VGPU_EXPORT amd_comgr_status_t name(void)                 \
    {                                                         \
        static atomic_flag told = ATOMIC_FLAG_INIT;           \
        if (!atomic_flag_test_and_set(&told)) {               \
            vgpu_journal_unsupported(#name);                  \
        }                                                     \
        return AMD_COMGR_STATUS_ERROR;                        \
    }

#define VGPU_NODE(node, parent)
#define VGPU_SYMBOL(name, node, disposition) DEFINE_##disposition(name)
#include "symbols.def"
