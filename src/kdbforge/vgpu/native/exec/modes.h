/* What becomes of a compilation in each mode. The caller holds the library's lock around the first two. */
#ifndef KDBFORGE_VGPU_EXEC_MODES_H
#define KDBFORGE_VGPU_EXEC_MODES_H

#include "command.h"

#include <stdbool.h>
#include <sys/types.h>

/* Write the compilation with all its files to the journal, and a marker in place of its output. */
bool capture_command(const struct command *command);

/* Write down that it was refused. */
void forbid_command(const struct command *command);

/* Start KDBFORGE_VGPU_COMPILER FOLDER SOURCE PROGRAM ARGUMENT...: the process, or -1. */
pid_t start_command(const struct command *command);

#endif
