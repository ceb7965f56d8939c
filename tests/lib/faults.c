/* Programs with a mistake: one rank calls, answers or passes something else than the others.  Each
 * rank prints the error that it gets.
 *   faults CASE */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pylb.h"

enum { STEPS = 10 };

/* A trigger that answers differently on rank 1, or fails there, in one iteration. */
static int odd_trigger(const pylb_cycle *cycle, void *user)
{
    return cycle->n == 3 ? *(const int *)user : 0;
}

static int say(int rank, int code)
{
    if (code != PYLB_OK) {
        printf("rank %d: %d %s\n", rank, code, pylb_error());
        fflush(stdout);
    }
    return code;
}

static int advise(pylb_advisor *lb, int rank, double seconds)
{
    int rebalance;
    return say(rank, pylb_work(lb, seconds)) || say(rank, pylb_advise(lb, &rebalance));
}

static int with_keys(pylb_advisor *lb, int rank, int64_t key, double load)
{
    pylb_cells cells;
    pylb_plan *plan;
    pylb_cells_init(&cells);
    cells.n = 1;
    cells.key = &key;
    cells.load = &load;
    return say(rank, pylb_advise_cells(lb, &cells, &plan));
}

/* Cells that migrate; rank 1 has no array for them. */
static int without_array(pylb_advisor *lb, int rank)
{
    enum { CELLS = 4 };
    int64_t key[CELLS];
    double load[CELLS], to[8 * CELLS];
    pylb_cells cells;
    pylb_plan *plan = NULL;
    pylb_cells_init(&cells);
    cells.n = CELLS;
    cells.key = key;
    cells.load = load;
    for (int i = 0; i < CELLS; i++) {
        key[i] = CELLS * rank + i;
        load[i] = rank == 1 ? 5.0 : 1.0;
    }
    const int code = say(rank, pylb_advise_cells(lb, &cells, &plan));
    return code != PYLB_OK || plan == NULL
               ? code
               : say(rank, pylb_plan_migrate(plan, rank == 1 ? NULL : load, sizeof *load, to));
}

static int run(const char *what, pylb_advisor *lb, int rank)
{
    if (strcmp(what, "closes") == 0 && rank == 1) {
        return PYLB_OK;
    }
    for (int i = 0; i < STEPS; i++) {
        int code;
        if (strcmp(what, "leaves") == 0 && rank == 1 && i == 5) {
            return PYLB_OK;
        }
        if (strcmp(what, "mixed") == 0) {
            code = rank == 1 ? with_keys(lb, rank, 1, 1.0) : advise(lb, rank, 1.0);
        } else if (strcmp(what, "nan") == 0) {
            code = with_keys(lb, rank, rank, rank == 1 && i == 4 ? -1.0 : 1.0);
        } else if (strcmp(what, "asked cells") == 0) {
            code = with_keys(lb, rank, rank, 1.0 + rank);
        } else if (strcmp(what, "array") == 0) {
            code = without_array(lb, rank);
        } else if (strcmp(what, "twice") == 0) {
            code = with_keys(lb, rank, 7, 1.0 + rank);
        } else if (strcmp(what, "open") == 0 && rank == 1 && i == 3) {
            code = say(rank, pylb_start(lb)) || advise(lb, rank, 1.0);
        } else {
            code = advise(lb, rank, 1.0);
        }
        if (code != PYLB_OK) {
            return code;
        }
    }
    return PYLB_OK;
}

int main(int argc, char **argv)
{
    pylb_advisor *lb = NULL;
    int rank;
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "early") == 0) {
        say(0, pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    say(rank, pylb_advisor_create_mpi(MPI_COMM_NULL, &lb));
    say(rank, pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
    say(rank, pylb_advisor_set(lb, "lag", argc > 2 ? argv[2] : "0"));
    if (strcmp(what, "words") == 0 && rank == 1) {
        say(rank, pylb_advisor_set(lb, "trigger", "menon"));
    }
    if (strcmp(what, "lags") == 0 && rank == 1) {
        say(rank, pylb_advisor_set(lb, "lag", "5"));
    }
    if (strcmp(what, "twice") == 0 || strcmp(what, "array") == 0) {
        say(rank, pylb_advisor_set(lb, "every", "1"));
    }
    int odd = rank == 1 ? (strcmp(what, "failing") == 0 ? 7 : 1) : 0;
    if (strcmp(what, "asked") == 0 || strcmp(what, "asked cells") == 0 ||
        strcmp(what, "failing") == 0) {
        say(rank, pylb_trigger_register("odd", odd_trigger, &odd));
        say(rank, pylb_advisor_set(lb, "trigger", "odd"));
    }
    run(what, lb, rank);
    if (strcmp(what, "open end") != 0) {
        say(rank, pylb_advisor_close(&lb));
    }
    MPI_Finalize();
    printf("rank %d ends\n", rank);
    return 0;
}
