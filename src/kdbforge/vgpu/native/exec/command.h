/* The command line with which libMIOpen runs its compiler, read strictly: whatever is not of the known form is
 * refused, since its meaning could not be repeated elsewhere.
 *
 *   cd FOLDER; PROGRAM ARGUMENT... SOURCE -o FOLDER/SOURCE.o      (process.cpp, hip_build_utils.cpp, hipoc_program.cpp)
 *
 * FOLDER is a temporary folder with SOURCE and what it includes; PROGRAM is an absolute path of clang or clang++. */
#ifndef KDBFORGE_VGPU_EXEC_COMMAND_H
#define KDBFORGE_VGPU_EXEC_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

struct command {
    char *text; /* what all others point into */
    const char *folder;
    const char *program;    /* without its folder */
    const char **arguments; /* without SOURCE and -o, and without `-isystem /usr/include` */
    size_t argument_count;
    const char *source;
    const char *output; /* within the folder */
};

/* False with a reason if the text is of another form. */
bool command_read(struct command *command, const char *text, char *reason, size_t reason_size);
void command_free(struct command *command);

#endif
