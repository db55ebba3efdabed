/* The hipBLASLt that multiplies nothing. */
#include "check.h"

int hipblasLtCreate(handle *object);
int hipblasLtDestroy(handle object);
int hipblasLtMatrixLayoutCreate(handle *object, int type, uint64_t rows, uint64_t columns, int64_t leading);
int hipblasLtMatrixLayoutDestroy(handle object);
int hipblasLtMatrixLayoutSetAttribute(handle object, int attribute, const void *value, size_t size);
int hipblasLtMatmulAlgoGetHeuristic(handle blas, handle description, handle a, handle b, handle c, handle d,
                                    handle preference, int wanted, void *results, int *found);
int hipblasLtMatmul(handle blas);

int main(void)
{
    handle blas = NULL, layout = NULL;
    char result[56];
    int found = 0;

    memset(result, 7, sizeof result);
    CHECK_IS(3, hipblasLtCreate(NULL));
    CHECK_IS(SUCCESS, hipblasLtCreate(&blas));
    CHECK_IS(SUCCESS, hipblasLtMatrixLayoutCreate(&layout, 0, 4, 4, 4));
    CHECK_IS(SUCCESS, hipblasLtMatrixLayoutSetAttribute(layout, 0, &found, sizeof found));
    CHECK_IS(3, hipblasLtMatrixLayoutSetAttribute(blas, 0, &found, sizeof found)); /* of another kind */
    CHECK_IS(SUCCESS,
             hipblasLtMatmulAlgoGetHeuristic(blas, layout, layout, layout, layout, layout, NULL, 1, result, &found));
    CHECK_IS(1, found);
    CHECK_IS(0, result[24]); /* no workspace */
    CHECK_IS(3, hipblasLtMatmulAlgoGetHeuristic(blas, NULL, NULL, NULL, NULL, NULL, NULL, 0, result, &found));
    CHECK_IS(SUCCESS, hipblasLtMatmul(blas));
    CHECK_IS(SUCCESS, hipblasLtMatrixLayoutDestroy(layout));
    CHECK_IS(3, hipblasLtMatrixLayoutDestroy(layout));
    CHECK_IS(SUCCESS, hipblasLtDestroy(blas));
    CHECK_IS(3, hipblasLtMatmul(blas));
    return 0;
}
