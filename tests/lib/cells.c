/* Cells with more than a load, from C:
 *   cells phases [WORD ...]   several loads a cell: half of the cells are heavy in the first
 * phase, half in the second; by their sums, all ranks are equal.  With words: a mistake: in step
 * 1, the last rank has as many loads a cell as there are words cells shared [WORD]       two cells
 * share 40 bytes, and a rank may hold 100; with a word: a mistake: two cells give different bytes
 * of what they share
 */
#include <mpi.h>
#include <pylb.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

enum { MOST = 64 };

static pylb_advisor *lb;
static int rank, size, wrong; /* wrong: number of words after the case */

static int phases(void)
{
    pylb_plan *plan;
    pylb_receipt receipt;
    int64_t key[MOST], moved[MOST], n = 8;
    double load[2 * MOST];
    int code = check(pylb_advisor_set(lb, "every", "2"));
    for (int64_t i = 0; i < n; i++) {
        key[i] = size * i + rank;
    }
    for (int step = 0; step < 6 && code == PYLB_OK; step++) {
        pylb_cells cells;
        pylb_cells_init(&cells);
        cells.n_components = wrong > 0 && step == 1 && rank == size - 1 ? wrong : 2;
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
    if (code == PYLB_OK && check(pylb_advisor_receipt(lb, 0, &receipt)) == PYLB_OK) {
        printf("max %g, mean %g, %g -> %g\n", receipt.max, receipt.mean, receipt.before,
               receipt.predicted);
    }
    return code;
}

static int shared(void)
{
    enum { EACH = 4 };
    pylb_plan *plan = NULL;
    pylb_cells cells;
    int64_t key[EACH], moved[MOST], memory[EACH], with[3 * EACH], held = 0;
    double load[EACH];
    for (int64_t i = 0; i < EACH; i++) {
        key[i] = EACH * rank + i;
        load[i] = rank == 0 ? 4.0 : 1.0;
        memory[i] = 5;
        with[3 * i] = key[i] / 2;
        with[3 * i + 1] = 40 + (wrong > 0 && key[i] == 5);
        with[3 * i + 2] = rank;
    }
    pylb_cells_init(&cells);
    cells.n = EACH;
    cells.load = load;
    cells.key = key;
    cells.memory = memory;
    cells.shared = with;
    int code = check(pylb_advisor_set(lb, "strategy", "GreedyLB"));
    code = code != PYLB_OK ? code : check(pylb_advisor_set(lb, "memory_limit", "100"));
    code = code != PYLB_OK ? code : check(pylb_advisor_set(lb, "every", "1"));
    code = code != PYLB_OK ? code : check(pylb_advise_cells(lb, &cells, &plan));
    if (code == PYLB_OK && check(pylb_plan_migrate(plan, key, sizeof *key, moved)) == PYLB_OK) {
        int has[EACH] = {0};
        for (int64_t i = 0; i < pylb_plan_n(plan); i++) {
            held += 5 + (has[moved[i] / 2]++ == 0 ? 40 : 0);
        }
        printf("%d cells move, %s\n", (int)pylb_plan_migrations(plan),
               held <= 100 ? "within the limit" : "too many bytes");
    }
    return code;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    wrong = argc - 2;
    must(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
    must(pylb_advisor_set(lb, "clock", "none"));
    printf("code %d\n", strcmp(argv[1], "phases") == 0 ? phases() : shared());
    check(pylb_advisor_close(&lb));
    MPI_Finalize();
    return 0;
}
