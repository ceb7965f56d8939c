/* Cells that share data, from C: two of them share 40 bytes, and a rank may hold 100. */
#include <mpi.h>
#include <pylb.h>
#include <stdio.h>

#include "check.h"

enum { EACH = 4, MOST = 64 };

int main(int argc, char **argv)
{
    pylb_advisor *lb;
    pylb_plan *plan = NULL;
    pylb_cells cells;
    int64_t key[EACH], moved[MOST], memory[EACH], shared[3 * EACH], held = 0;
    double load[EACH];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int64_t i = 0; i < EACH; i++) {
        key[i] = EACH * rank + i;
        load[i] = rank == 0 ? 4.0 : 1.0;
        memory[i] = 5;
        shared[3 * i] = key[i] / 2;
        shared[3 * i + 1] = 40 + (argc > 1 && key[i] == 5); /* with an argument: a mistake */
        shared[3 * i + 2] = rank;
    }
    if (check(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb)) != PYLB_OK ||
        check(pylb_advisor_set(lb, "clock", "none")) != PYLB_OK ||
        check(pylb_advisor_set(lb, "strategy", "GreedyLB")) != PYLB_OK ||
        check(pylb_advisor_set(lb, "memory_limit", "100")) != PYLB_OK ||
        check(pylb_advisor_set(lb, "every", "1")) != PYLB_OK) {
        return 1;
    }
    pylb_cells_init(&cells);
    cells.n = EACH;
    cells.load = load;
    cells.key = key;
    cells.memory = memory;
    cells.shared = shared;
    const int code = check(pylb_advise_cells(lb, &cells, &plan));
    printf("code %d", code);
    if (code == PYLB_OK && check(pylb_plan_migrate(plan, key, sizeof *key, moved)) == PYLB_OK) {
        int has[EACH] = {0};
        for (int64_t i = 0; i < pylb_plan_n(plan); i++) {
            held += 5 + (has[moved[i] / 2]++ == 0 ? 40 : 0);
        }
        printf(", %d cells move, %s", (int)pylb_plan_migrations(plan),
               held <= 100 ? "within the limit" : "too many bytes");
    }
    printf("\n");
    check(pylb_advisor_close(&lb));
    MPI_Finalize();
    return 0;
}
