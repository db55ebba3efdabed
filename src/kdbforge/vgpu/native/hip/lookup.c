/* Every entry point by its name; the table is made from the list of symbols, without their types. */
#include "lookup.h"

#include <stddef.h>
#include <string.h>

#define VGPU_NODE(node, parent)
#define VGPU_SYMBOL(name, node, disposition) void name(void);
#include "symbols.def"
#undef VGPU_SYMBOL

static const struct named {
    const char *name;
    void (*function)(void);
} table[] = {
#define VGPU_SYMBOL(name, node, disposition) {#name, name},
#include "symbols.def"
};

/* Headers since ROCm 6 rename these calls, whose structure grew then. */
static const char *since_six(const char *name, int version)
{
    static const char *const renamed[][2] = {
        {"hipGetDeviceProperties", "hipGetDevicePropertiesR0600"},
        {"hipChooseDevice", "hipChooseDeviceR0600"},
    };

    for (size_t i = 0; version >= 600 && i < sizeof renamed / sizeof renamed[0]; i++) {
        if (strcmp(name, renamed[i][0]) == 0) {
            return renamed[i][1];
        }
    }
    return name;
}

void *lookup_entry(const char *name, int version)
{
    void *function = NULL;

    name = since_six(name, version);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].name, name) == 0) {
            memcpy(&function, &table[i].function, sizeof function);
        }
    }
    return function;
}
