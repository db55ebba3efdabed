/* The capturing comgr: objects first, then a chain of actions whose journal the Python side reads. */
#include "check.h"

static object new_data(int kind, const char *name, const char *bytes)
{
    object data = {0};

    CHECK_IS(COMGR_SUCCESS, amd_comgr_create_data(kind, &data));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_set_data(data, strlen(bytes), bytes));
    if (name != NULL) {
        CHECK_IS(COMGR_SUCCESS, amd_comgr_set_data_name(data, name));
    }
    return data;
}

static object new_set(void)
{
    object set = {0};

    CHECK_IS(COMGR_SUCCESS, amd_comgr_create_data_set(&set));
    return set;
}

static void add(object set, int kind, const char *name, const char *bytes)
{
    const object data = new_data(kind, name, bytes);

    CHECK_IS(COMGR_SUCCESS, amd_comgr_data_set_add(set, data));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_release_data(data));
}

static size_t count(object set, int kind)
{
    size_t number = 99;

    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_data_count(set, kind, &number));
    return number;
}

static void check_data(void)
{
    const object none = {0}, foreign = {0x123456789};
    object data = {0};
    size_t size = 0;
    int kind = -1;
    char buffer[16] = "";

    CHECK_IS(COMGR_INVALID, amd_comgr_create_data(0, &data));
    CHECK_IS(COMGR_INVALID, amd_comgr_create_data(0xA, &data));
    CHECK_IS(COMGR_INVALID, amd_comgr_create_data(0x16, &data));
    CHECK_IS(COMGR_INVALID, amd_comgr_create_data(KIND_BC, NULL));
    data = new_data(KIND_SOURCE, NULL, "hello");
    CHECK_IS(COMGR_SUCCESS, amd_comgr_get_data_kind(data, &kind));
    CHECK_IS(KIND_SOURCE, kind);
    CHECK_IS(COMGR_SUCCESS, amd_comgr_get_data(data, &size, NULL));
    CHECK_IS(5, size);
    size = 3;
    CHECK_IS(COMGR_SUCCESS, amd_comgr_get_data(data, &size, buffer));
    CHECK(strcmp(buffer, "hel") == 0);
    CHECK_IS(COMGR_INVALID, amd_comgr_get_data(data, NULL, buffer));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_set_data_name(data, "name"));
    size = sizeof buffer;
    CHECK_IS(COMGR_SUCCESS, amd_comgr_get_data_name(data, &size, buffer));
    CHECK(size == 5 && strcmp(buffer, "name") == 0);
    CHECK_IS(COMGR_INVALID, amd_comgr_set_data(data, 4, NULL));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_set_data(data, 0, NULL));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_get_data(data, &size, NULL));
    CHECK_IS(0, size);
    CHECK_IS(COMGR_INVALID, amd_comgr_set_data_from_file_slice(data, -1, 0, 4));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_release_data(data));
    CHECK_IS(COMGR_INVALID, amd_comgr_release_data(data));
    CHECK_IS(COMGR_INVALID, amd_comgr_get_data(data, &size, NULL));
    CHECK_IS(COMGR_INVALID, amd_comgr_set_data_name(data, "x"));
    CHECK_IS(COMGR_INVALID, amd_comgr_release_data(none));
    CHECK_IS(COMGR_INVALID, amd_comgr_release_data(foreign));
}

static void check_sets(void)
{
    const object set = new_set(), named = new_data(KIND_SOURCE, "a", "1");
    const object unnamed = new_data(KIND_INCLUDE, NULL, "2");
    object got = {0};
    size_t size = 0;

    CHECK_IS(COMGR_INVALID, amd_comgr_data_set_add(set, unnamed));
    CHECK_IS(COMGR_INVALID, amd_comgr_data_set_add(set, set));
    CHECK_IS(COMGR_INVALID, amd_comgr_data_set_add(named, named));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_data_set_add(set, named));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_data_set_add(set, named));
    CHECK_IS(1, count(set, KIND_SOURCE));
    CHECK_IS(COMGR_INVALID, amd_comgr_action_data_count(set, 0, &size));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_release_data(named));
    CHECK_IS(COMGR_INVALID, amd_comgr_release_data(named)); /* what is left belongs to the set */
    CHECK_IS(COMGR_SUCCESS, amd_comgr_get_data(named, &size, NULL));
    CHECK_IS(COMGR_INVALID, amd_comgr_action_data_get_data(set, KIND_SOURCE, 1, &got));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_data_get_data(set, KIND_SOURCE, 0, &got));
    CHECK(got.handle == named.handle);
    CHECK_IS(COMGR_SUCCESS, amd_comgr_data_set_remove(set, KIND_BC));
    CHECK_IS(1, count(set, KIND_SOURCE));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_destroy_data_set(set));
    CHECK_IS(COMGR_INVALID, amd_comgr_destroy_data_set(set));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_get_data(got, &size, NULL)); /* we still hold it */
    CHECK_IS(COMGR_SUCCESS, amd_comgr_release_data(got));
    CHECK_IS(COMGR_INVALID, amd_comgr_get_data(got, &size, NULL));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_release_data(unnamed));
}

static object new_info(int language)
{
    static const char *options[] = {"-O3", "-DNAME=a b", ""};
    object info = {0};

    CHECK_IS(COMGR_SUCCESS, amd_comgr_create_action_info(&info));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_info_set_isa_name(info, "amdgcn-amd-amdhsa--gfx90a"));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_info_set_language(info, language));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_info_set_option_list(info, options, 3));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_info_set_logging(info, true));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_info_set_device_lib_linking(info, true));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_info_set_working_directory_path(info, "/some/where"));
    return info;
}

static void check_infos(void)
{
    static const char *hole[] = {"-a", NULL};
    const object info = new_info(3);
    object bare = {0};
    size_t size = 0;
    char buffer[64] = "";

    CHECK_IS(COMGR_INVALID, amd_comgr_action_info_set_isa_name(info, "gfx90a"));
    CHECK_IS(COMGR_INVALID, amd_comgr_action_info_set_language(info, 9));
    CHECK_IS(COMGR_INVALID, amd_comgr_action_info_set_option_list(info, NULL, 1));
    CHECK_IS(COMGR_INVALID, amd_comgr_action_info_set_option_list(info, hole, 2));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_info_get_option_list_count(info, &size));
    CHECK_IS(3, size);
    size = sizeof buffer;
    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_info_get_option_list_item(info, 1, &size, buffer));
    CHECK(strcmp(buffer, "-DNAME=a b") == 0);
    CHECK_IS(COMGR_INVALID, amd_comgr_action_info_get_option_list_item(info, 3, &size, buffer));
    size = sizeof buffer;
    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_info_get_isa_name(info, &size, buffer));
    CHECK(strcmp(buffer, "amdgcn-amd-amdhsa--gfx90a") == 0);
    CHECK_IS(COMGR_SUCCESS, amd_comgr_create_action_info(&bare));
    CHECK_IS(COMGR_ERROR, amd_comgr_action_info_get_option_list_count(bare, &size));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_destroy_action_info(bare));
    CHECK_IS(COMGR_INVALID, amd_comgr_destroy_action_info(bare));
    CHECK_IS(COMGR_INVALID, amd_comgr_action_info_set_logging(bare, true));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_destroy_action_info(info));
}

/* Preprocessed headers, compiled, generated, linked: the way MIOpen builds an OpenCL kernel. */
static void check_chain(bool forbid)
{
    const object info = new_info(2), input = new_set(), headers = new_set(), bc = new_set();
    const object relocatable = new_set(), executable = new_set(), other = new_set();
    object data = {0}, copy = {0};
    size_t size = 200;
    char bytes[200] = "";

    add(input, KIND_SOURCE, "one.cl", "kernel void one() {}");
    add(input, KIND_SOURCE, "two.cl", "kernel void two() {}");
    add(input, KIND_INCLUDE, "inc.h", "#define A");
    CHECK_IS(COMGR_SUCCESS, amd_comgr_do_action(0x1, info, input, headers));
    CHECK_IS(2, count(headers, KIND_SOURCE));
    CHECK_IS(1, count(headers, KIND_INCLUDE));
    CHECK_IS(1, count(headers, KIND_LOG));
    if (forbid) {
        CHECK_IS(COMGR_ERROR, amd_comgr_do_action(0xC, info, headers, bc));
        CHECK_IS(0, count(bc, KIND_BC));
        CHECK_IS(1, kdbforge_vgpu_forbidden());
        return;
    }
    CHECK_IS(COMGR_SUCCESS, amd_comgr_do_action(0xC, info, headers, bc));
    CHECK_IS(2, count(bc, KIND_BC));
    CHECK_IS(1, count(bc, KIND_LOG));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_do_action(0x4, info, bc, relocatable));
    CHECK_IS(2, count(relocatable, KIND_RELOCATABLE));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_info_set_logging(info, false));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_do_action(0x7, info, relocatable, executable));
    CHECK_IS(1, count(executable, KIND_EXECUTABLE));
    CHECK_IS(0, count(executable, KIND_LOG));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_data_get_data(executable, KIND_EXECUTABLE, 0, &data));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_get_data_name(data, &size, bytes));
    CHECK(strcmp(bytes, "one.so") == 0);
    size = sizeof bytes;
    CHECK_IS(COMGR_SUCCESS, amd_comgr_get_data(data, &size, bytes));
    fwrite(bytes, 1, size, stdout);
    fflush(stdout);

    /* Bytes that are copied out and in again still stand for the action's output. */
    CHECK_IS(COMGR_SUCCESS, amd_comgr_create_data(KIND_RELOCATABLE, &copy));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_set_data(copy, size, bytes));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_set_data_name(copy, "copy.o"));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_data_set_add(other, copy));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_do_action(0x6, info, other, bc));
    CHECK_IS(0, count(bc, KIND_BC)); /* what was in the result set is gone */
    CHECK_IS(1, count(bc, KIND_RELOCATABLE));

    /* A marker of an action that this process did not do is refused. */
    memset(bytes + 17, 'a', 16);
    CHECK_IS(COMGR_SUCCESS, amd_comgr_set_data(copy, size, bytes));
    CHECK_IS(COMGR_ERROR, amd_comgr_do_action(0x6, info, other, bc));
    CHECK_IS(0, count(bc, KIND_RELOCATABLE));
}

static void check_refusals(void)
{
    const object info = new_info(0), set = new_set(), result = new_set(), none = {0};
    const char *text = NULL;
    size_t number = 0;

    add(set, KIND_SOURCE, "a.cl", "x");
    CHECK_IS(COMGR_INVALID, amd_comgr_do_action(0xC, info, set, result)); /* no language */
    CHECK_IS(COMGR_INVALID, amd_comgr_do_action(0x9, info, set, result));
    CHECK_IS(COMGR_INVALID, amd_comgr_do_action(0x13, info, set, result));
    CHECK_IS(COMGR_INVALID, amd_comgr_do_action(-1, info, set, result));
    CHECK_IS(COMGR_INVALID, amd_comgr_do_action(0x8, none, set, result));
    CHECK_IS(COMGR_INVALID, amd_comgr_do_action(0x8, info, none, result));
    CHECK_IS(COMGR_INVALID, amd_comgr_do_action(0x8, info, set, set));
    CHECK_IS(COMGR_INVALID, amd_comgr_do_action(0x8, set, set, result));
    CHECK_IS(COMGR_ERROR, amd_comgr_get_isa_count(&number));
    CHECK_IS(COMGR_ERROR, amd_comgr_get_isa_count(&number));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_status_string(2, &text));
    CHECK(strcmp(text, "INVALID_ARGUMENT") == 0);
    CHECK_IS(COMGR_INVALID, amd_comgr_status_string(4, &text));
    amd_comgr_get_version(&number, NULL);
    CHECK_IS(3, number);
}

int main(int argc, char **argv)
{
    check_data();
    check_sets();
    check_infos();
    check_chain(argc == 2 && strcmp(argv[1], "forbid") == 0);
    check_refusals();
    return 0;
}
