/* Modules and their functions. While compiles are captured, a module may be the marker of an action's output. */
#define _GNU_SOURCE /* strdup */
#include "state.h"

#include "bundle.h"
#include "code_object.h"
#include "probe.h"

#include "../common/journal.h"
#include "../common/marker.h"
#include "../common/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

struct function {
    struct module *module;
    char *name;
    uint64_t handle;
    struct function *next;
};

struct module {
    uint64_t handle;
    bool marker; /* stands for an object that is not compiled: any function name is accepted */
    struct code_object object;
    struct function *functions;
};

static hipError_t journal_marker(const void *image, size_t length)
{
    struct vgpu_entry entry;

    vgpu_entry_begin(&entry, VGPU_ENTRY_LOAD);
    vgpu_entry_text(&entry, "capture");
    vgpu_entry_bytes(&entry, image, length);
    return vgpu_entry_commit(&entry) ? hipSuccess : hipErrorOperatingSystem;
}

static hipError_t journal_object(const struct code_object *object)
{
    struct vgpu_entry entry;

    vgpu_entry_begin(&entry, VGPU_ENTRY_LOAD);
    vgpu_entry_text(&entry, "object");
    vgpu_entry_number(&entry, object->length);
    vgpu_entry_text(&entry, object->target);
    return vgpu_entry_commit(&entry) ? hipSuccess : hipErrorOperatingSystem;
}

static hipError_t read_object(struct module *module, const void *image, uint64_t size)
{
    const char *const device = device_profile(device_current())->gcn_arch_name;
    char reason[160];

    if (!code_object_read(&module->object, image, size, reason, sizeof reason)) {
        vgpu_report("module refused: %s", reason);
        return hipErrorInvalidImage;
    }
    if (!code_object_target_fits(module->object.target, device)) {
        vgpu_report("module refused: code for `%s` does not fit a device that reports `%s`",
                    module->object.target, device);
        code_object_free(&module->object);
        return hipErrorNoBinaryForGpu;
    }
    return journal_object(&module->object);
}

/* A code object, or a marker that stands for one. */
static hipError_t read_code(struct module *module, const void *image, uint64_t size)
{
    struct vgpu_marker marker;
    const size_t limit = size == CODE_OBJECT_UNSIZED ? probe_prefix(image, VGPU_MARKER_MOST) : (size_t)size;
    const size_t length = vgpu_marker_read(image, limit, &marker);

    if (length == 0) {
        return read_object(module, image, size);
    }
    if (hip_settings()->compile != VGPU_COMPILE_CAPTURE) {
        vgpu_report("module refused: it is a capture marker, and compile mode is `%s`",
                    vgpu_compile_mode_name(hip_settings()->compile));
        return hipErrorInvalidImage;
    }
    module->marker = true;
    return journal_marker(image, length);
}

/* The code for this device: what an offload bundle holds for it, or the image itself. */
static hipError_t read_image(struct module *module, const void *image, uint64_t size)
{
    const char *const device = device_profile(device_current())->gcn_arch_name;
    const char *damage = NULL;

    switch (bundle_find(&image, &size, device, &damage)) {
    case BUNDLE_DAMAGED:
        vgpu_report("module refused: %s", damage);
        return hipErrorInvalidImage;
    case BUNDLE_FOREIGN:
        vgpu_report("module refused: nothing in the offload bundle fits a device that reports `%s`", device);
        return hipErrorNoBinaryForGpu;
    case BUNDLE_FOUND:
    case BUNDLE_NONE:
        break;
    }
    return read_code(module, image, size);
}

static void free_module(struct module *module)
{
    while (module->functions != NULL) {
        struct function *const next = module->functions->next;

        vgpu_handle_free(&hip_handles, module->functions->handle);
        free(module->functions->name);
        free(module->functions);
        module->functions = next;
    }
    code_object_free(&module->object);
    free(module);
}

static hipError_t load(hipModule_t *handle, const void *image, uint64_t size)
{
    struct module *module = NULL;
    hipError_t error = hipSuccess;
    uint64_t value = 0;

    if (handle == NULL || image == NULL) {
        return hipErrorInvalidValue;
    }
    module = calloc(1, sizeof *module);
    if (module == NULL) {
        return hipErrorOutOfMemory;
    }
    error = read_image(module, image, size);
    if (error == hipSuccess) {
        value = vgpu_handle_new(&hip_handles, HANDLE_MODULE, module);
        error = value == 0 ? hipErrorOutOfMemory : hipSuccess;
    }
    if (error != hipSuccess) {
        free_module(module);
        return error;
    }
    module->handle = value;
    *handle = (hipModule_t)(uintptr_t)value;
    return hipSuccess;
}

hipError_t module_load(hipModule_t *module, const void *image)
{
    return load(module, image, CODE_OBJECT_UNSIZED);
}

/* Read the whole file; NULL on any trouble. */
static unsigned char *read_file(int descriptor, size_t *size)
{
    const off_t end = lseek(descriptor, 0, SEEK_END);
    unsigned char *bytes = NULL;

    if (end < 0 || lseek(descriptor, 0, SEEK_SET) != 0) {
        return NULL;
    }
    bytes = malloc((size_t)end + 1);
    for (*size = 0; bytes != NULL && *size < (size_t)end;) {
        const ssize_t more = read(descriptor, bytes + *size, (size_t)end - *size);

        if (more < 0 && errno == EINTR) {
            continue;
        }
        if (more <= 0) {
            free(bytes);
            return NULL;
        }
        *size += (size_t)more;
    }
    return bytes;
}

hipError_t module_load_file(hipModule_t *module, const char *path)
{
    unsigned char *bytes = NULL;
    size_t size = 0;
    int descriptor = -1;
    hipError_t error = hipErrorFileNotFound;

    if (module == NULL || path == NULL) {
        return hipErrorInvalidValue;
    }
    descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) {
        bytes = read_file(descriptor, &size);
        close(descriptor);
    }
    if (bytes == NULL) {
        vgpu_report("module file `%s` cannot be read", path);
    } else {
        error = load(module, bytes, size);
    }
    free(bytes);
    return error;
}

hipError_t module_unload(hipModule_t handle)
{
    struct module *const module = vgpu_handle_get(&hip_handles, HANDLE_MODULE, (uintptr_t)handle);

    if (module == NULL) {
        return hipErrorInvalidHandle;
    }
    vgpu_handle_free(&hip_handles, (uintptr_t)handle);
    free_module(module);
    return hipSuccess;
}

/* A new function of the module, already in its list; NULL when out of memory. */
static struct function *add_function(struct module *module, const char *name)
{
    struct function *const function = calloc(1, sizeof *function);

    if (function == NULL) {
        return NULL;
    }
    function->name = strdup(name);
    function->handle = function->name == NULL ? 0 : vgpu_handle_new(&hip_handles, HANDLE_FUNCTION, function);
    if (function->handle == 0) {
        free(function->name);
        free(function);
        return NULL;
    }
    function->module = module;
    function->next = module->functions;
    module->functions = function;
    return function;
}

hipError_t module_function(hipFunction_t *handle, hipModule_t module_handle, const char *name)
{
    struct module *const module = vgpu_handle_get(&hip_handles, HANDLE_MODULE, (uintptr_t)module_handle);
    struct function *function = NULL;

    if (handle == NULL || name == NULL || *name == '\0') {
        return hipErrorInvalidValue;
    }
    if (module == NULL) {
        return hipErrorInvalidHandle;
    }
    if (!module->marker && !code_object_has_kernel(&module->object, name)) {
        vgpu_report("a module for `%s` has no kernel `%s`", module->object.target, name);
        return hipErrorNotFound;
    }
    for (function = module->functions; function != NULL; function = function->next) {
        if (strcmp(function->name, name) == 0) {
            break;
        }
    }
    if (function == NULL) {
        function = add_function(module, name);
    }
    if (function == NULL) {
        return hipErrorOutOfMemory;
    }
    *handle = (hipFunction_t)(uintptr_t)function->handle;
    return hipSuccess;
}

/* A symbol table may name a kernel twice, once more than the dynamic one; names are sorted. */
static bool is_again(const struct code_object *object, size_t i)
{
    return i > 0 && strcmp(object->kernels[i], object->kernels[i - 1]) == 0;
}

hipError_t module_functions(hipModule_t handle, hipFunction_t *functions, unsigned most, unsigned *count)
{
    const struct module *const module = vgpu_handle_get(&hip_handles, HANDLE_MODULE, (uintptr_t)handle);
    hipError_t error = hipSuccess;

    if (module == NULL) {
        return hipErrorInvalidHandle;
    }
    if (module->marker) {
        return hipErrorNotSupported; /* nobody knows yet what will be in it */
    }
    *count = 0;
    for (size_t i = 0; error == hipSuccess && i < module->object.kernel_count; i++) {
        if (is_again(&module->object, i)) {
            continue;
        }
        if (functions != NULL && *count < most) {
            error = module_function(&functions[*count], handle, module->object.kernels[i]);
        }
        ++*count;
    }
    return error;
}

hipError_t function_facts(hipFunction_t handle, const char **name, hipModule_t *module)
{
    const struct function *const function =
        vgpu_handle_get(&hip_handles, HANDLE_FUNCTION, (uintptr_t)handle);

    if (function == NULL) {
        return hipErrorInvalidHandle;
    }
    if (name != NULL) {
        *name = function->name;
    }
    if (module != NULL) {
        *module = (hipModule_t)(uintptr_t)function->module->handle;
    }
    return hipSuccess;
}
