/* Forks and threads. */
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 200 };

static void compile(const char *text)
{
    object info = {0}, input = {0}, result = {0}, data = {0};

    CHECK_IS(COMGR_SUCCESS, amd_comgr_create_action_info(&info));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_action_info_set_language(info, 2));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_create_data_set(&input));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_create_data_set(&result));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_create_data(KIND_SOURCE, &data));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_set_data(data, strlen(text), text));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_set_data_name(data, "a.cl"));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_data_set_add(input, data));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_release_data(data));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_do_action(0x2, info, input, result));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_destroy_data_set(input));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_destroy_data_set(result));
    CHECK_IS(COMGR_SUCCESS, amd_comgr_destroy_action_info(info));
}

static void *work(void *argument)
{
    char text[32];

    for (int i = 0; i < ROUNDS; i++) {
        void *memory = NULL;
        handle stream = NULL;

        CHECK_IS(SUCCESS, hipMalloc(&memory, 4096));
        CHECK_IS(SUCCESS, hipStreamCreate(&stream));
        CHECK_IS(SUCCESS, hipMemset(memory, i, 4096));
        CHECK_IS(SUCCESS, hipStreamDestroy(stream));
        CHECK_IS(SUCCESS, hipFree(memory));
        snprintf(text, sizeof text, "source %d", i);
        compile(text);
        snprintf(text, sizeof text, "thread %d", *(int *)argument);
        kdbforge_vgpu_mark(text);
    }
    return NULL;
}

/* A child must be able to work although the parent's threads hold locks when it is made. */
static void fork_once(void)
{
    const pid_t child = fork();
    int status = -1;

    CHECK(child >= 0);
    if (child == 0) {
        int count = 0;

        alarm(30); /* a deadlock becomes a failure */
        CHECK_IS(SUCCESS, hipGetDeviceCount(&count));
        kdbforge_vgpu_mark("child");
        compile("source 0");
        _exit(0);
    }
    CHECK_IS(child, waitpid(child, &status, 0));
    CHECK_IS(0, status);
}

int main(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];

    compile("source 0");
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK_IS(0, pthread_create(&threads[i], NULL, work, &numbers[i]));
    }
    for (int i = 0; i < 10; i++) {
        fork_once();
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_IS(0, pthread_join(threads[i], NULL));
    }
    return 0;
}
