/* Entry points: libraries, which are modules of no device in particular, and their kernels. Here a kernel is a
 * function of the device that was current when the library was loaded. */
#include "state.h"

#include "../common/report.h"

VGPU_EXPORT hipError_t hipLibraryLoadData(hipModule_t *library, const void *code, void *options, void **values,
                                          unsigned count, void *library_options, void **library_values,
                                          unsigned library_count)
{
    (void)options, (void)values, (void)count, (void)library_options, (void)library_values, (void)library_count;
    HIP_CALL(module_load(library, code));
}

VGPU_EXPORT hipError_t hipLibraryLoadFromFile(hipModule_t *library, const char *path, void *options,
                                              void **values, unsigned count, void *library_options,
                                              void **library_values, unsigned library_count)
{
    (void)options, (void)values, (void)count, (void)library_options, (void)library_values, (void)library_count;
    HIP_CALL(module_load_file(library, path));
}

VGPU_EXPORT hipError_t hipLibraryUnload(hipModule_t library)
{
    HIP_CALL(module_unload(library));
}

VGPU_EXPORT hipError_t hipLibraryGetKernel(hipFunction_t *kernel, hipModule_t library, const char *name)
{
    HIP_CALL(module_function(kernel, library, name));
}

VGPU_EXPORT hipError_t hipLibraryGetKernelCount(unsigned *count, hipModule_t library)
{
    HIP_CALL(count == NULL ? hipErrorInvalidValue : module_functions(library, NULL, 0, count));
}

VGPU_EXPORT hipError_t hipLibraryEnumerateKernels(hipFunction_t *kernels, unsigned most, hipModule_t library)
{
    unsigned count = 0;

    HIP_CALL(kernels == NULL ? hipErrorInvalidValue : module_functions(library, kernels, most, &count));
}

VGPU_EXPORT hipError_t hipKernelGetName(const char **name, hipFunction_t kernel)
{
    HIP_CALL(name == NULL ? hipErrorInvalidValue : function_facts(kernel, name, NULL));
}

VGPU_EXPORT hipError_t hipKernelGetLibrary(hipModule_t *library, hipFunction_t kernel)
{
    HIP_CALL(library == NULL ? hipErrorInvalidValue : function_facts(kernel, NULL, library));
}
