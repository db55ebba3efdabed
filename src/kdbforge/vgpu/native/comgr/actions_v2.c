/* Actions of comgr interface 2 (amd_comgr_action_kind_t of ROCm 5 and 6). Its COMPILE_SOURCE_TO_FATBIN,
 * disassemblers and UNBUNDLE are refused. */
#include "state.h"

const struct action_rule comgr_actions[] = {
    {0x0, ACTION_EACH, DATA_SOURCE, DATA_SOURCE, ".i", NULL, true},       /* SOURCE_TO_PREPROCESSOR */
    {0x1, ACTION_COPY, DATA_UNDEF, DATA_UNDEF, NULL, NULL, false},        /* ADD_PRECOMPILED_HEADERS */
    {0x2, ACTION_EACH, DATA_SOURCE, DATA_BC, ".bc", NULL, true},          /* COMPILE_SOURCE_TO_BC */
    {0x4, ACTION_LINK, DATA_BC, DATA_BC, ".bc", "linked", false},         /* LINK_BC_TO_BC */
    {0x5, ACTION_EACH, DATA_BC, DATA_BC, ".bc", NULL, false},             /* OPTIMIZE_BC_TO_BC */
    {0x6, ACTION_EACH, DATA_BC, DATA_RELOCATABLE, ".o", NULL, false},     /* CODEGEN_BC_TO_RELOCATABLE */
    {0x7, ACTION_EACH, DATA_BC, DATA_SOURCE, ".s", NULL, false},          /* CODEGEN_BC_TO_ASSEMBLY */
    {0x8, ACTION_LINK, DATA_RELOCATABLE, DATA_RELOCATABLE, ".o", NULL, false}, /* LINK_RELOCATABLE_TO_RELOCATABLE */
    {0x9, ACTION_LINK, DATA_RELOCATABLE, DATA_EXECUTABLE, ".so", NULL, false}, /* LINK_RELOCATABLE_TO_EXECUTABLE */
    {0xA, ACTION_EACH, DATA_SOURCE, DATA_RELOCATABLE, ".o", NULL, false}, /* ASSEMBLE_SOURCE_TO_RELOCATABLE */
    {0xF, ACTION_EACH, DATA_SOURCE, DATA_BC, ".bc", NULL, true},          /* COMPILE_SOURCE_WITH_DEVICE_LIBS_TO_BC */
    {0x10, ACTION_EACH, DATA_SOURCE, DATA_RELOCATABLE, ".o", NULL, true}, /* COMPILE_SOURCE_TO_RELOCATABLE */
};
const size_t comgr_action_count = sizeof comgr_actions / sizeof comgr_actions[0];
const int comgr_last_language = 5; /* LLVM_IR; 4 is HIP here */
const size_t comgr_interface_major = 2;
const size_t comgr_interface_minor = 8;
