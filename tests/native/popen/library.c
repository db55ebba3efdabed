/* Stands for libMIOpen: popen is called from a library of that name. */
#include <stdio.h>

FILE *miopen_popen(const char *command, const char *type)
{
    return popen(command, type);
}

int miopen_pclose(FILE *stream)
{
    return pclose(stream);
}
