#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void vgpu_report(const char *format, ...)
{
    char line[1024] = "kdbforge vgpu: error: ";
    const size_t start = strlen(line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line + start, sizeof line - start - 1, format, arguments);
    va_end(arguments);
    strcat(line, "\n"); /* vsnprintf was told to leave room for it */
    if (write(STDERR_FILENO, line, strlen(line)) < 0) {
        return; /* a closed stderr must not change what the caller gets */
    }
}
