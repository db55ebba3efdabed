/* Entry points: rows and boxes of memory. Arrays and textures do not exist here, so only pitched memory does. */
#include "state.h"

#include "../common/report.h"

struct pitched {
    void *pointer;
    size_t pitch;
    size_t width; /* of the whole, in bytes */
    size_t height;
};

struct extent {
    size_t width, height, depth;
};

/* hipMemcpy3DParms (hip/driver_types.h) */
struct copy_3d {
    void *source_array;
    size_t source_position[3];
    struct pitched source;
    void *target_array;
    size_t target_position[3];
    struct pitched target;
    struct extent extent;
    int kind;
};
_Static_assert(offsetof(struct copy_3d, extent) == 128, "hipMemcpy3DParms.extent");
_Static_assert(sizeof(struct copy_3d) == 160, "hipMemcpy3DParms");

/* hip_Memcpy2D (hip/driver_types.h) */
struct copy_2d_end {
    size_t x, y;
    int type;
    void *host, *device, *array;
    size_t pitch;
};
struct copy_2d {
    struct copy_2d_end source, target;
    size_t width, height;
};
_Static_assert(sizeof(struct copy_2d) == 128, "hip_Memcpy2D");

enum { PITCH = 256 }; /* what rows are aligned to */

static hipError_t copy_rows(char *target, size_t target_pitch, const char *source, size_t source_pitch,
                            size_t width, size_t height, int kind)
{
    hipError_t error = hipSuccess;

    if (width == 0 || height == 0) {
        return hipSuccess;
    }
    if (target_pitch < width || source_pitch < width) {
        return hipErrorInvalidPitchValue;
    }
    for (size_t row = 0; error == hipSuccess && row < height; row++) {
        error = memory_copy(target + row * target_pitch, source + row * source_pitch, width, kind);
    }
    return error;
}

static hipError_t fill_rows(char *target, size_t pitch, unsigned value, size_t element, size_t width,
                            size_t height)
{
    hipError_t error = hipSuccess;

    if (width == 0 || height == 0) {
        return hipSuccess;
    }
    if (width > SIZE_MAX / element || pitch < width * element) {
        return hipErrorInvalidPitchValue;
    }
    for (size_t row = 0; error == hipSuccess && row < height; row++) {
        error = memory_fill(target + row * pitch, value, element, width);
    }
    return error;
}

static hipError_t copy_box(const struct copy_3d *copy)
{
    hipError_t error = hipSuccess;

    if (copy == NULL || copy->source_array != NULL || copy->target_array != NULL) {
        return hipErrorInvalidValue;
    }
    const struct pitched *const from = &copy->source, *const to = &copy->target;
    for (size_t z = 0; error == hipSuccess && z < copy->extent.depth; z++) {
        const size_t source_row = (copy->source_position[2] + z) * from->height + copy->source_position[1];
        const size_t target_row = (copy->target_position[2] + z) * to->height + copy->target_position[1];

        error = copy_rows((char *)to->pointer + target_row * to->pitch + copy->target_position[0], to->pitch,
                          (const char *)from->pointer + source_row * from->pitch + copy->source_position[0],
                          from->pitch, copy->extent.width, copy->extent.height, copy->kind);
    }
    return error;
}

static hipError_t fill_box(const struct pitched *target, int value, const struct extent *extent)
{
    hipError_t error = hipSuccess;

    for (size_t z = 0; error == hipSuccess && z < extent->depth; z++) {
        error = fill_rows((char *)target->pointer + z * target->height * target->pitch, target->pitch,
                          (unsigned)value, 1, extent->width, extent->height);
    }
    return error;
}

static char *end_of(const struct copy_2d_end *end)
{
    char *const base = end->type == 1 /* hipMemoryTypeHost */ ? end->host : end->device;

    return base == NULL ? NULL : base + end->y * end->pitch + end->x;
}

static hipError_t copy_described(const struct copy_2d *copy)
{
    if (copy == NULL || copy->source.array != NULL || copy->target.array != NULL) {
        return hipErrorInvalidValue;
    }
    return copy_rows(end_of(&copy->target), copy->target.pitch, end_of(&copy->source), copy->source.pitch,
                     copy->width, copy->height, hipMemcpyDefault);
}

/* May it be done now? Not if the stream is wrong, or being captured. */
static bool may_run(hipStream_t stream, int type, hipError_t *error)
{
    bool recorded = false;

    *error = stream_check(stream);
    if (*error == hipSuccess) {
        *error = graph_record(stream, type, NULL, &recorded);
    }
    return *error == hipSuccess && !recorded;
}

/* An entry point around an expression that a stream may put off. */
#define CALL_ON(stream, type, expression)                                  \
    do {                                                                   \
        const hipError_t entered = hip_enter();                            \
        hipError_t error = entered;                                        \
        if (entered != hipSuccess) {                                       \
            return hip_result(entered);                                    \
        }                                                                  \
        if (may_run(stream, type, &error)) {                               \
            error = (expression);                                          \
        }                                                                  \
        return hip_leave(error);                                           \
    } while (0)

VGPU_EXPORT hipError_t hipMemcpy2D(void *target, size_t target_pitch, const void *source, size_t source_pitch,
                                   size_t width, size_t height, int kind)
{
    HIP_CALL(copy_rows(target, target_pitch, source, source_pitch, width, height, kind));
}

VGPU_EXPORT hipError_t hipMemcpy2DAsync(void *target, size_t target_pitch, const void *source,
                                        size_t source_pitch, size_t width, size_t height, int kind,
                                        hipStream_t stream)
{
    CALL_ON(stream, hipGraphNodeTypeMemcpy,
            copy_rows(target, target_pitch, source, source_pitch, width, height, kind));
}

VGPU_EXPORT hipError_t hipMemcpy3D(const struct copy_3d *copy)
{
    HIP_CALL(copy_box(copy));
}

VGPU_EXPORT hipError_t hipMemcpy3DAsync(const struct copy_3d *copy, hipStream_t stream)
{
    CALL_ON(stream, hipGraphNodeTypeMemcpy, copy_box(copy));
}

VGPU_EXPORT hipError_t hipMemcpyParam2D(const struct copy_2d *copy)
{
    HIP_CALL(copy_described(copy));
}

VGPU_EXPORT hipError_t hipDrvMemcpy2DUnaligned(const struct copy_2d *copy)
{
    HIP_CALL(copy_described(copy));
}

VGPU_EXPORT hipError_t hipMemcpyParam2DAsync(const struct copy_2d *copy, hipStream_t stream)
{
    CALL_ON(stream, hipGraphNodeTypeMemcpy, copy_described(copy));
}

static hipError_t copy_peer(void *target, int target_device, const void *source, int source_device, size_t size)
{
    if (device_check(target_device) != hipSuccess || device_check(source_device) != hipSuccess) {
        return hipErrorInvalidDevice;
    }
    return memory_copy(target, source, size, hipMemcpyDeviceToDevice);
}

VGPU_EXPORT hipError_t hipMemcpyPeer(void *target, int target_device, const void *source, int source_device,
                                     size_t size)
{
    HIP_CALL(copy_peer(target, target_device, source, source_device, size));
}

VGPU_EXPORT hipError_t hipMemcpyPeerAsync(void *target, int target_device, const void *source,
                                          int source_device, size_t size, hipStream_t stream)
{
    CALL_ON(stream, hipGraphNodeTypeMemcpy,
            copy_peer(target, target_device, source, source_device, size));
}

VGPU_EXPORT hipError_t hipMemset2D(void *target, size_t pitch, int value, size_t width, size_t height)
{
    HIP_CALL(fill_rows(target, pitch, (unsigned)value, 1, width, height));
}

VGPU_EXPORT hipError_t hipMemset2DAsync(void *target, size_t pitch, int value, size_t width, size_t height,
                                        hipStream_t stream)
{
    CALL_ON(stream, hipGraphNodeTypeMemset, fill_rows(target, pitch, (unsigned)value, 1, width, height));
}

VGPU_EXPORT hipError_t hipMemset3D(struct pitched target, int value, struct extent extent)
{
    HIP_CALL(fill_box(&target, value, &extent));
}

VGPU_EXPORT hipError_t hipMemset3DAsync(struct pitched target, int value, struct extent extent,
                                        hipStream_t stream)
{
    CALL_ON(stream, hipGraphNodeTypeMemset, fill_box(&target, value, &extent));
}

#define FILL_ROWS(name, type, element)                                                                     \
    VGPU_EXPORT hipError_t name(void *target, size_t pitch, type value, size_t width, size_t height)       \
    {                                                                                                      \
        HIP_CALL(fill_rows(target, pitch, value, element, width, height));                                 \
    }                                                                                                      \
    VGPU_EXPORT hipError_t name##Async(void *target, size_t pitch, type value, size_t width, size_t height, \
                                       hipStream_t stream)                                                 \
    {                                                                                                      \
        CALL_ON(stream, hipGraphNodeTypeMemset, fill_rows(target, pitch, value, element, width, height));  \
    }
FILL_ROWS(hipMemsetD2D8, unsigned char, 1)
FILL_ROWS(hipMemsetD2D16, unsigned short, 2)
FILL_ROWS(hipMemsetD2D32, unsigned, 4)

static hipError_t allocate_rows(void **pointer, size_t *pitch, size_t width, size_t height)
{
    if (pointer == NULL || pitch == NULL || width > SIZE_MAX - PITCH) {
        return hipErrorInvalidValue;
    }
    *pitch = (width + PITCH - 1) / PITCH * PITCH;
    if (height != 0 && *pitch > SIZE_MAX / height) {
        return hipErrorOutOfMemory;
    }
    return memory_allocate(pointer, *pitch * height);
}

static hipError_t allocate_box(struct pitched *place, const struct extent *extent)
{
    if (place == NULL || (extent->depth != 0 && extent->height > SIZE_MAX / extent->depth)) {
        return hipErrorInvalidValue;
    }
    place->width = extent->width;
    place->height = extent->height;
    return allocate_rows(&place->pointer, &place->pitch, extent->width, extent->height * extent->depth);
}

VGPU_EXPORT hipError_t hipMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    HIP_CALL(allocate_rows(pointer, pitch, width, height));
}

VGPU_EXPORT hipError_t hipMemAllocPitch(void **pointer, size_t *pitch, size_t width, size_t height,
                                        unsigned element)
{
    HIP_CALL(element != 4 && element != 8 && element != 16 ? hipErrorInvalidValue
                                                          : allocate_rows(pointer, pitch, width, height));
}

VGPU_EXPORT hipError_t hipMalloc3D(struct pitched *place, struct extent extent)
{
    HIP_CALL(allocate_box(place, &extent));
}

/* Nothing is ever pending: the per-thread variants are the same. */
#define PER_THREAD(name) VGPU_EXPORT extern __typeof__(name) name##_spt __attribute__((alias(#name)))
PER_THREAD(hipMemcpy2D);
PER_THREAD(hipMemcpy2DAsync);
PER_THREAD(hipMemcpy3D);
PER_THREAD(hipMemcpy3DAsync);
PER_THREAD(hipMemset2D);
PER_THREAD(hipMemset2DAsync);
PER_THREAD(hipMemset3D);
PER_THREAD(hipMemset3DAsync);
