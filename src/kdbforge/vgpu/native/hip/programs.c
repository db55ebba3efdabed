/* What a program brings along: fat binaries, and the host's names for their kernels and variables. They are
 * registered before main(), and loaded for a device when something of them is used there. */
#define _GNU_SOURCE /* strdup */
#include "state.h"

#include "../common/report.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096 };

struct fat_binary {
    const void *image;
    hipModule_t modules[VGPU_DEVICES_MOST];
    struct fat_binary *next;
};

struct symbol {
    const void *host; /* the kernel's stub, or the variable's shadow */
    struct fat_binary *binary;
    char *name;
    size_t size;                               /* of a variable; 0: a kernel */
    void *memory[VGPU_DEVICES_MOST];           /* of a variable */
    hipFunction_t functions[VGPU_DEVICES_MOST]; /* of a kernel */
    struct symbol *next;
};

static struct fat_binary *binaries;
static struct symbol *symbols[BUCKETS];

struct fat_binary *program_add(const void *image)
{
    struct fat_binary *const binary = calloc(1, sizeof *binary);

    if (binary != NULL) {
        binary->image = image;
        binary->next = binaries;
        binaries = binary;
    }
    return binary;
}

static struct symbol **bucket(const void *host)
{
    return &symbols[((uintptr_t)host >> 3) % BUCKETS];
}

static struct symbol *find(const void *host)
{
    for (struct symbol *symbol = *bucket(host); symbol != NULL; symbol = symbol->next) {
        if (symbol->host == host) {
            return symbol;
        }
    }
    return NULL;
}

static struct symbol *add(struct fat_binary *binary, const void *host, const char *name, size_t size)
{
    struct symbol *const symbol = calloc(1, sizeof *symbol);

    if (symbol == NULL || (symbol->name = strdup(name)) == NULL) {
        free(symbol);
        return NULL;
    }
    symbol->host = host;
    symbol->binary = binary;
    symbol->size = size;
    symbol->next = *bucket(host);
    *bucket(host) = symbol;
    return symbol;
}

void program_add_symbol(struct fat_binary *binary, const void *host, const char *name, size_t size)
{
    if (find(host) == NULL && add(binary, host, name, size) == NULL) {
        vgpu_report("out of memory for the program's symbol `%s`", name);
    }
}

void program_add_managed(struct fat_binary *binary, void **pointer, const void *initial, const char *name,
                         size_t size)
{
    struct symbol *symbol = NULL;

    if (memory_allocate_managed(pointer, size, hipMemAttachGlobal) != hipSuccess ||
        (symbol = add(binary, pointer, name, size)) == NULL) {
        vgpu_report("out of memory for the managed variable `%s`", name);
        return;
    }
    memcpy(*pointer, initial, size);
    for (int i = 0; i < VGPU_DEVICES_MOST; i++) {
        symbol->memory[i] = *pointer;
    }
}

static void free_symbols(const struct fat_binary *binary)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct symbol **place = &symbols[i]; *place != NULL;) {
            struct symbol *const symbol = *place;

            if (symbol->binary != binary) {
                place = &symbol->next;
                continue;
            }
            for (int device = 0; device < VGPU_DEVICES_MOST; device++) {
                if (symbol->memory[device] != NULL && (device == 0 || symbol->memory[device] != symbol->memory[0])) {
                    memory_free(symbol->memory[device]);
                }
            }
            *place = symbol->next;
            free(symbol->name);
            free(symbol);
        }
    }
}

void program_remove(struct fat_binary *binary)
{
    for (struct fat_binary **place = &binaries; *place != NULL; place = &(*place)->next) {
        if (*place == binary) {
            free_symbols(binary);
            for (int i = 0; i < VGPU_DEVICES_MOST; i++) {
                if (binary->modules[i] != NULL) {
                    module_unload(binary->modules[i]);
                }
            }
            *place = binary->next;
            free(binary);
            return;
        }
    }
}

static hipError_t load(struct fat_binary *binary, hipModule_t *module)
{
    hipModule_t *const known = &binary->modules[device_current()];
    hipError_t error = hipSuccess;

    if (*known == NULL) {
        error = module_load(known, binary->image);
    }
    *module = *known;
    return error;
}

hipError_t program_function(hipFunction_t *function, const void *host)
{
    struct symbol *const symbol = find(host);
    hipFunction_t *known = NULL;
    hipModule_t module = NULL;
    hipError_t error = hipSuccess;

    if (symbol == NULL || symbol->size > 0) {
        return hipErrorInvalidDeviceFunction;
    }
    known = &symbol->functions[device_current()];
    if (*known == NULL) {
        error = load(symbol->binary, &module);
        error = error != hipSuccess ? error : module_function(known, module, symbol->name);
    }
    *function = *known;
    return error;
}

const char *program_name(const void *host)
{
    const struct symbol *const symbol = find(host);

    return symbol == NULL ? NULL : symbol->name;
}

/* Its memory begins as zeros: what the code object holds for it is only of use to kernels. */
hipError_t program_variable(void **pointer, size_t *size, const void *host)
{
    struct symbol *const symbol = find(host);
    void **memory = NULL;
    hipModule_t module = NULL;
    hipError_t error = hipSuccess;

    if (symbol == NULL || symbol->size == 0) {
        return hipErrorInvalidSymbol;
    }
    memory = &symbol->memory[device_current()];
    if (*memory == NULL) {
        error = load(symbol->binary, &module); /* a device without code for it has no such variable */
        error = error != hipSuccess ? error : memory_allocate(memory, symbol->size);
    }
    if (error == hipSuccess && pointer != NULL) {
        *pointer = *memory;
    }
    if (error == hipSuccess && size != NULL) {
        *size = symbol->size;
    }
    return error;
}
