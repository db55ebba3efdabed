/* Fuzzes what reads the profile file of the virtual GPU. */
#define _GNU_SOURCE
#include "vgpu/native/common/settings.c"

#include "fuzz.h"

void vgpu_report(const char *format, ...)
{
    (void)format;
}

static void check(const struct vgpu_profile *profile)
{
    CHECK(strlen(profile->gcn_arch_name) < sizeof profile->gcn_arch_name);
    CHECK(strlen(profile->product_name) < sizeof profile->product_name);
    CHECK(is_target_id(profile->gcn_arch_name));
    CHECK(profile->num_cu >= 1 && profile->num_cu <= INT32_MAX);
    CHECK(profile->memory_bytes >= 1 && profile->memory_bytes <= INT64_MAX);
    CHECK(profile->cooperative_launch <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct vgpu_settings settings;
    FILE *file = NULL;

    if (size == 0) {
        return 0; /* fmemopen cannot */
    }
    file = fmemopen((void *)(uintptr_t)data, size, "r");
    CHECK(file != NULL);
    memset(&settings, 'x', sizeof settings);
    if (read_lines("profile", file, &settings)) {
        CHECK(settings.device_count >= 1 && settings.device_count <= VGPU_DEVICES_MOST);
        for (int device = 0; device < settings.device_count; device++) {
            check(&settings.profiles[device]);
        }
    }
    fclose(file);
    return 0;
}
