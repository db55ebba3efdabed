#define _GNU_SOURCE /* strdup, strtok_r in a strict C11 build */
#include "command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Characters that no shell gives a meaning to, so that its words are what stands between the blanks. */
static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-+=./:,@%";

struct reader {
    struct command *command;
    const char **words;
    size_t count;
    char *reason;
    size_t reason_size;
};

static bool refuse(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(struct reader *reader, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reader->reason, reader->reason_size, format, arguments);
    va_end(arguments);
    return false;
}

/* Cut off `cd FOLDER; `; what is left of the text, or NULL. */
static char *read_folder(struct reader *reader)
{
    char *const text = reader->command->text;
    char *end = NULL;

    if (strncmp(text, "cd /", 4) != 0 || (end = strstr(text, "; ")) == NULL) {
        refuse(reader, "it does not begin with `cd` and a temporary folder");
        return NULL;
    }
    *end = '\0';
    reader->command->folder = text + 3;
    if (strspn(text + 3, plain) != strlen(text + 3) || strchr(text + 3, ' ') != NULL) {
        refuse(reader, "the folder `%s` has a character that a shell gives a meaning to", text + 3);
        return NULL;
    }
    return end + 2;
}

static bool split(struct reader *reader, char *text)
{
    const size_t good = strspn(text, plain);
    char *rest = NULL;

    if (text[good] != '\0') {
        return refuse(reader, "it has the character `%c`, which a shell gives a meaning to", text[good]);
    }
    reader->words = calloc(strlen(text) / 2 + 2, sizeof *reader->words);
    if (reader->words == NULL) {
        return refuse(reader, "out of memory");
    }
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        reader->words[reader->count++] = word;
    }
    return true;
}

/* clang, clang++, clang-21, clang++-21 in any folder: which of them is there is not ours to say. */
static bool read_program(struct reader *reader)
{
    const char *const path = reader->count > 0 ? reader->words[0] : "";
    const char *const slash = strrchr(path, '/');
    const char *rest = slash == NULL ? "" : slash + 1;

    reader->command->program = rest;
    if (*path == '/' && strncmp(rest, "clang", 5) == 0) {
        rest += 5;
        rest += strncmp(rest, "++", 2) == 0 ? 2 : 0;
        if (*rest == '\0' || (*rest == '-' && rest[1] != '\0' && rest[1 + strspn(rest + 1, "0123456789")] == '\0')) {
            return true;
        }
    }
    return refuse(reader, "`%s` is no path of clang or clang++", path);
}

/* The last three words: SOURCE -o FOLDER/SOURCE.o */
static bool read_ends(struct reader *reader)
{
    struct command *const command = reader->command;
    const size_t folder = strlen(command->folder);
    const char *output = NULL;

    if (reader->count < 4 || strcmp(reader->words[reader->count - 2], "-o") != 0) {
        return refuse(reader, "it does not end with a source, -o and an output");
    }
    command->source = reader->words[reader->count - 3];
    output = reader->words[reader->count - 1];
    if (*command->source == '-' || strchr(command->source, '/') != NULL) {
        return refuse(reader, "`%s` is no source in the temporary folder", command->source);
    }
    if (strncmp(output, command->folder, folder) != 0 || output[folder] != '/' ||
        strncmp(output + folder + 1, command->source, strlen(command->source)) != 0 ||
        strcmp(output + folder + 1 + strlen(command->source), ".o") != 0) {
        return refuse(reader, "the output `%s` is not that of `%s`", output, command->source);
    }
    command->output = output + folder + 1;
    return true;
}

/* Everything between. A path would be an input that is not in the temporary folder. */
static bool read_arguments(struct reader *reader)
{
    struct command *const command = reader->command;

    command->arguments = reader->words + 1;
    for (size_t i = 1; i < reader->count - 3; i++) {
        const char *const word = reader->words[i];

        /* Where the compiler looks by itself, last; told to look there first, it does not find the C++ library. */
        if (strcmp(word, "-isystem") == 0 && strcmp(reader->words[i + 1], "/usr/include") == 0) {
            i++;
            continue;
        }
        if (strchr(word, '/') != NULL || *word == '@' || strcmp(word, "-o") == 0) {
            return refuse(reader, "the argument `%s` names a file", word);
        }
        command->arguments[command->argument_count++] = word;
    }
    return true;
}

bool command_read(struct command *command, const char *text, char *reason, size_t reason_size)
{
    struct reader reader = {command, NULL, 0, reason, reason_size};
    char *rest = NULL;

    memset(command, 0, sizeof *command);
    command->text = strdup(text);
    if (command->text == NULL) {
        return refuse(&reader, "out of memory");
    }
    rest = read_folder(&reader);
    if (rest == NULL || !split(&reader, rest) || !read_program(&reader) || !read_ends(&reader) ||
        !read_arguments(&reader)) {
        free(reader.words);
        free(command->text);
        return false;
    }
    return true;
}

void command_free(struct command *command)
{
    free(command->arguments - 1);
    free(command->text);
}
