/* Several loads a cell, from C: half of the cells are heavy in the first phase, half in the
 * second; by their sums, all ranks are equal. */
#include <mpi.h>
#include <pylb.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

enum { EACH = 8, STEPS = 6, MOST = 64 };

int main(int argc, char **argv)
{
    pylb_advisor *lb;
    pylb_plan *plan;
    pylb_receipt receipt;
    int64_t key[MOST], moved[MOST], n = EACH;
    double load[2 * MOST];
    int rank, size, code = PYLB_OK;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int64_t i = 0; i < n; i++) {
        key[i] = size * i + rank;
    }
    if (check(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb)) != PYLB_OK ||
        check(pylb_advisor_set(lb, "clock", "none")) != PYLB_OK ||
        check(pylb_advisor_set(lb, "every", "2")) != PYLB_OK) {
        return 1;
    }
    for (int step = 0; step < STEPS && code == PYLB_OK; step++) {
        pylb_cells cells;
        pylb_cells_init(&cells);
        cells.n_components = argc > 1 && step == 1 && rank == size - 1 ? argc - 1 : 2;
        for (int64_t i = 0; i < n; i++) {
            const int late = key[i] % size * 2 / size;
            load[2 * i] = late ? 1.0 : 3.0;
            load[2 * i + 1] = late ? 3.0 : 1.0;
        }
        cells.n = n;
        cells.load = load;
        cells.key = key;
        code = check(pylb_advise_cells(lb, &cells, &plan));
        if (code == PYLB_OK && plan != NULL) {
            code = check(pylb_plan_migrate(plan, key, sizeof *key, moved));
            n = pylb_plan_n(plan);
            memcpy(key, moved, (size_t)n * sizeof *key);
        }
    }
    printf("code %d", code);
    if (code == PYLB_OK && check(pylb_advisor_receipt(lb, 0, &receipt)) == PYLB_OK) {
        printf(", max %g, mean %g, %g -> %g", receipt.max, receipt.mean, receipt.before,
               receipt.predicted);
    }
    printf("\n");
    check(pylb_advisor_close(&lb));
    MPI_Finalize();
    return 0;
}
