/* Actions of comgr interface 3 (amd_comgr_action_kind_t). Absent ones are refused: unbundling and SPIR-V look
 * into their inputs, and the disassemblers are gone. Names of outputs as observed on ROCm 7.2.4. */
#include "state.h"

const struct action_rule comgr_actions[] = {
    {0x0, ACTION_EACH, DATA_SOURCE, DATA_SOURCE, ".i", NULL, true},       /* SOURCE_TO_PREPROCESSOR */
    {0x1, ACTION_COPY, DATA_UNDEF, DATA_UNDEF, NULL, NULL, false},        /* ADD_PRECOMPILED_HEADERS */
    {0x2, ACTION_EACH, DATA_SOURCE, DATA_BC, ".bc", NULL, true},          /* COMPILE_SOURCE_TO_BC */
    {0x3, ACTION_LINK, DATA_BC, DATA_BC, ".bc", "linked", false},         /* LINK_BC_TO_BC */
    {0x4, ACTION_EACH, DATA_BC, DATA_RELOCATABLE, ".o", NULL, false},     /* CODEGEN_BC_TO_RELOCATABLE */
    {0x5, ACTION_EACH, DATA_BC, DATA_SOURCE, ".s", NULL, false},          /* CODEGEN_BC_TO_ASSEMBLY */
    {0x6, ACTION_LINK, DATA_RELOCATABLE, DATA_RELOCATABLE, ".o", NULL, false}, /* LINK_RELOCATABLE_TO_RELOCATABLE */
    {0x7, ACTION_LINK, DATA_RELOCATABLE, DATA_EXECUTABLE, ".so", NULL, false}, /* LINK_RELOCATABLE_TO_EXECUTABLE */
    {0x8, ACTION_EACH, DATA_SOURCE, DATA_RELOCATABLE, ".o", NULL, false}, /* ASSEMBLE_SOURCE_TO_RELOCATABLE */
    {0xC, ACTION_EACH, DATA_SOURCE, DATA_BC, ".bc", NULL, true},          /* COMPILE_SOURCE_WITH_DEVICE_LIBS_TO_BC */
    {0xD, ACTION_EACH, DATA_SOURCE, DATA_RELOCATABLE, ".o", NULL, true},  /* COMPILE_SOURCE_TO_RELOCATABLE */
    {0xE, ACTION_LINK, DATA_SOURCE, DATA_EXECUTABLE, ".so", NULL, true},  /* COMPILE_SOURCE_TO_EXECUTABLE */
};
const size_t comgr_action_count = sizeof comgr_actions / sizeof comgr_actions[0];
const int comgr_last_language = 4; /* LLVM_IR */
const size_t comgr_interface_major = 3;
const size_t comgr_interface_minor = 0;
