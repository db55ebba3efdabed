/* Print what one HIP call and one comgr call make of the environment. */
#include "check.h"

int main(void)
{
    object set = {0};
    int count = -1;
    const int hip = hipGetDeviceCount(&count);

    printf("%d %d", hip, amd_comgr_create_data_set(&set));
    return 0;
}
