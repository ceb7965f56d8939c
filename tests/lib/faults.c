/* Programs with a mistake: one rank calls, answers or passes something else than the others.  Each
 * rank prints the error that it gets.
 *   faults CASE [LAG [RECORD]] */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Move one item of each cell; the last rank says that it receives one item less from itself, or
 * its offsets fall. */
static int with_offsets(pylb_plan *plan, int rank, int n, const double *from, double *to,
                        const char *what)
{
    int n_ranks;
    int64_t offset[5], new_offset[33];
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    for (int i = 0; i <= n; i++) {
        offset[i] = i;
    }
    const int code = say(rank, pylb_plan_offsets(plan, offset, new_offset));
    if (code == PYLB_OK && rank == n_ranks - 1) {
        offset[2] = strcmp(what, "falling") == 0 ? 0 : 2;
        new_offset[pylb_plan_n(plan)] -= strcmp(what, "offsets") == 0;
    }
    return code != PYLB_OK ? code
                           : say(rank, pylb_plan_migrate_sized(plan, from, offset, sizeof *from,
                                                               to, new_offset));
}

/* Rank 1 has no array, and the last rank closes its advisor instead: both migrations fail. */
static int after_leaving(pylb_plan *plan, int rank, const double *from, double *to)
{
    int n_ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    if (rank == n_ranks - 1) {
        printf("rank %d: - leaves\n", rank);
        return PYLB_ERR_STATE;
    }
    say(rank, pylb_plan_migrate(plan, rank == 1 ? NULL : from, sizeof *from, to));
    return say(rank, pylb_plan_migrate(plan, from, sizeof *from, to));
}

/* Rank 1 has no array, or far too many bytes. */
static int without_array(pylb_plan *plan, int rank, const double *from, double *to,
                         const char *what)
{
    const int huge = strcmp(what, "huge") == 0;
    return say(rank, pylb_plan_migrate(plan, rank == 1 && !huge ? NULL : from,
                                       rank == 1 && huge ? (size_t)-1 : sizeof *from, to));
}

/* A migration begins, and on some ranks, or later, something is wrong. */
static int on_its_way(pylb_plan *plan, int rank, const double *from, double *to, const char *what)
{
    int n_ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    const int none = strcmp(what, "begin null") == 0 && rank == 1;
    int code = say(rank, pylb_plan_migrate_begin(plan, none ? NULL : from, sizeof *from, to));
    if (code == PYLB_OK && strcmp(what, "left moving") == 0 && rank == n_ranks - 1) {
        return PYLB_ERR_STATE;
    }
    if (code == PYLB_OK && strcmp(what, "not ended") != 0) {
        code = say(rank, pylb_plan_migrate_end(plan));
    }
    return code == PYLB_OK && strcmp(what, "end twice") == 0
               ? say(rank, pylb_plan_migrate_end(plan))
               : code;
}

static int begins(const char *what)
{
    return strcmp(what, "begin null") == 0 || strcmp(what, "left moving") == 0 ||
           strcmp(what, "not ended") == 0 || strcmp(what, "end twice") == 0;
}

static int has_offsets(const char *what)
{
    return strcmp(what, "offsets") == 0 || strcmp(what, "falling") == 0;
}

static int moves(const char *what)
{
    return has_offsets(what) || begins(what) || strcmp(what, "array") == 0 ||
           strcmp(what, "huge") == 0 || strcmp(what, "left") == 0;
}

/* Cells that migrate with wrong arguments. */
static int with_plan(pylb_advisor *lb, int rank, const char *what)
{
    enum { CELLS = 4 };
    int64_t key[CELLS];
    static double load[CELLS], to[8 * CELLS]; /* may be on their way when this returns */
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
    return code != PYLB_OK || plan == NULL ? code
           : strcmp(what, "left") == 0     ? after_leaving(plan, rank, load, to)
           : begins(what)                  ? on_its_way(plan, rank, load, to, what)
           : has_offsets(what)             ? with_offsets(plan, rank, CELLS, load, to, what)
                                           : without_array(plan, rank, load, to, what);
}

static int run(const char *what, pylb_advisor *lb, int rank)
{
    if (strcmp(what, "closes") == 0 && rank == 1) {
        return PYLB_OK;
    }
    for (int i = 0; i < STEPS; i++) {
        int code;
        if ((strcmp(what, "leaves") == 0 || strcmp(what, "own leaves") == 0) && rank == 1 &&
            i == 5) {
            return PYLB_OK;
        }
        if (strcmp(what, "mixed") == 0) {
            code = rank == 1 ? with_keys(lb, rank, 1, 1.0) : advise(lb, rank, 1.0);
        } else if (strcmp(what, "nan") == 0) {
            code = with_keys(lb, rank, rank, rank == 1 && i == 4 ? -1.0 : 1.0);
        } else if (strcmp(what, "asked cells") == 0) {
            code = with_keys(lb, rank, rank, 1.0 + rank);
        } else if (moves(what)) {
            code = with_plan(lb, rank, what);
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

/* In each step, one rank after the other has an invalid argument or state; each failure is an
 * error on all ranks and changes nothing, so the step can be repeated. */
static void repeat(pylb_advisor *lb, int rank, int n_ranks, int with_cells)
{
    const double work = 1.0 + rank, bad = strtod("nan", NULL);
    const int64_t key = rank;
    pylb_cells cells;
    pylb_plan *plan;
    int rebalance, failed = 0, code;
    pylb_cells_init(&cells);
    cells.n = 1;
    cells.key = &key;
    for (int i = 0; i < STEPS; i++) {
        code = pylb_work(lb, work);
        for (int r = 0; r < n_ranks && i % 3 == 0; r++) {
            cells.load = rank == r ? &bad : &work;
            const int opened = rank == r && !with_cells && pylb_start(lb) == PYLB_OK;
            code = with_cells ? pylb_advise_cells(lb, &cells, &plan) : pylb_advise(lb, &rebalance);
            failed += code != PYLB_OK;
            code = opened ? pylb_stop(lb) : PYLB_OK;
        }
        cells.load = &work;
        code = code != PYLB_OK ? code
               : with_cells    ? pylb_advise_cells(lb, &cells, &plan)
                               : pylb_advise(lb, &rebalance);
        if (say(rank, code)) {
            return;
        }
    }
    printf("rank %d: %d calls failed\n", rank, failed);
}

/* Rank 1 is late, or ends a step of another advisor than the others. */
static void wait_in(const char *what, pylb_advisor *lb, int rank)
{
    pylb_advisor *other = NULL;
    if (strcmp(what, "late create") != 0 || rank != 1) {
        say(rank, pylb_advisor_create_mpi(MPI_COMM_WORLD, &other));
    }
    if (strncmp(what, "late", 4) == 0 && rank == 1) {
        sleep(600);
    }
    advise(strcmp(what, "other") == 0 && rank == 1 ? other : lb, rank, 1.0);
}

/* Two advisors.  Rank 1 ends without closing them, between a step of one and a step of the other.
 */
static void two(pylb_advisor *lb, int rank)
{
    pylb_advisor *other = NULL;
    say(rank, pylb_advisor_create_mpi(MPI_COMM_WORLD, &other));
    for (int i = 0; i < STEPS; i++) {
        if (advise(lb, rank, 1.0) || (rank == 1 && i == 5) || advise(other, rank, 1.0)) {
            return;
        }
    }
}

/* Rank 1 closes its advisors in another order than rank 0. */
static void close_in_order(pylb_advisor *lb, int rank)
{
    pylb_advisor *other = NULL;
    say(rank, pylb_advisor_create_mpi(MPI_COMM_WORLD, &other));
    advise(lb, rank, 1.0);
    advise(other, rank, 1.0);
    say(rank, pylb_advisor_close(rank == 0 ? &lb : &other));
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
    if (strcmp(what, "twice") == 0 || moves(what)) {
        say(rank, pylb_advisor_set(lb, "every", "1"));
    }
    int odd = rank == 1 ? (strcmp(what, "failing") == 0 ? 7 : 1) : 0;
    if (strcmp(what, "asked") == 0 || strcmp(what, "asked cells") == 0 ||
        strcmp(what, "own leaves") == 0 || strcmp(what, "failing") == 0) {
        odd = strcmp(what, "own leaves") == 0 ? 0 : odd;
        say(rank, pylb_trigger_register("odd", odd_trigger, &odd));
        say(rank, pylb_advisor_set(lb, "trigger", "odd"));
    }
    if (strncmp(what, "repeat", 6) == 0) {
        say(rank, pylb_advisor_set(lb, "clock", "none"));
    }
    if (argc > 3) {
        say(rank, pylb_advisor_set(lb, "record", argv[3]));
    }
    if (strcmp(what, "two") == 0) {
        two(lb, rank);
    } else if (strncmp(what, "repeat", 6) == 0) {
        int n_ranks;
        MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
        repeat(lb, rank, n_ranks, strcmp(what, "repeat cells") == 0);
    } else if (strncmp(what, "late ", 5) == 0 || strcmp(what, "other") == 0) {
        wait_in(what, lb, rank);
    } else if (strcmp(what, "order") == 0) {
        close_in_order(lb, rank);
    } else {
        run(what, lb, rank);
    }
    if (strcmp(what, "open end") != 0 && (strcmp(what, "recorded") != 0 || rank == 1) &&
        strcmp(what, "two") != 0) {
        say(rank, pylb_advisor_close(&lb));
    }
    const int comm = MPI_Comm_c2f(MPI_COMM_WORLD);
    MPI_Finalize();
    if (strcmp(what, "late") == 0) {
        say(rank, pylb_advisor_create_fortran(comm, &lb));
    }
    printf("rank %d ends\n", rank);
    return 0;
}
