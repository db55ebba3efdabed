/* The ROCm release whose SONAME this library has; the only thing that differs between the libraries. */
#include "state.h"

const int hip_major_version = KDBFORGE_HIP_MAJOR;
