/* Entry points by name. */
#ifndef KDBFORGE_VGPU_LOOKUP_H
#define KDBFORGE_VGPU_LOOKUP_H

/* NULL if there is none of that name, as a header of that version (600: ROCm 6) means it. */
void *lookup_entry(const char *name, int version);

#endif
