/* Runs commands by popen: each argument is one, by the library or, behind "own", by this program. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

FILE *miopen_popen(const char *command, const char *type);
int miopen_pclose(FILE *stream);

static void run(const char *command, const char *type)
{
    FILE *const stream = miopen_popen(command, type);

    if (stream == NULL) {
        printf("none %s\n", strerror(errno));
    } else {
        printf("%d\n", miopen_pclose(stream));
    }
    fflush(stdout);
}

static void *run_many(void *command)
{
    for (int i = 0; i < 20; i++) {
        FILE *const stream = miopen_popen(command, "w");

        if (stream == NULL || miopen_pclose(stream) != 256) {
            return command;
        }
    }
    return NULL;
}

static int threads(char *command)
{
    pthread_t all[4];
    int failed = 0;

    for (int i = 0; i < 4; i++) {
        pthread_create(&all[i], NULL, run_many, command);
    }
    for (int i = 0; i < 4; i++) {
        void *result = NULL;

        pthread_join(all[i], &result);
        failed += result != NULL;
    }
    return failed;
}

int main(int argc, char **argv)
{
    const char *const how = argc > 1 ? argv[1] : "";

    if (strcmp(how, "threads") == 0) {
        return threads(argv[2]);
    }
    for (int i = 2; i < argc; i++) {
        if (strcmp(how, "own") == 0) {
            FILE *const stream = popen(argv[i], "w");

            printf("%d\n", pclose(stream));
        } else {
            run(argv[i], how);
        }
    }
    return 0;
}
