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

static int rank, n_ranks;
static const char *what = ""; /* the CASE */

static int is(const char *word)
{
    return strcmp(what, word) == 0;
}

/* A trigger that answers differently on rank 1, or fails there, in one iteration. */
static int odd_trigger(const pylb_cycle *cycle, void *user)
{
    return cycle->n == 3 ? *(const int *)user : 0;
}

static int say(int code)
{
    if (code != PYLB_OK) {
        printf("rank %d: %d %s\n", rank, code, pylb_error());
        fflush(stdout);
    }
    return code;
}

static int advise(pylb_advisor *lb, double seconds)
{
    int rebalance;
    return say(pylb_work(lb, seconds)) || say(pylb_advise(lb, &rebalance));
}

static int with_keys(pylb_advisor *lb, int64_t key, double load)
{
    pylb_cells cells;
    pylb_plan *plan;
    pylb_cells_init(&cells);
    cells.n = 1;
    cells.key = &key;
    cells.load = &load;
    return say(pylb_advise_cells(lb, &cells, &plan));
}

/* Move one item of each cell; the last rank says that it receives one item less from itself, or
 * its offsets fall. */
static int with_offsets(pylb_plan *plan, int n, const double *from, double *to)
{
    int64_t offset[5], new_offset[33];
    for (int i = 0; i <= n; i++) {
        offset[i] = i;
    }
    const int code = say(pylb_plan_offsets(plan, offset, new_offset));
    if (code == PYLB_OK && rank == n_ranks - 1) {
        offset[2] = is("falling") ? 0 : 2;
        new_offset[pylb_plan_n(plan)] -= is("offsets");
    }
    return code != PYLB_OK
               ? code
               : say(pylb_plan_migrate_sized(plan, from, offset, sizeof *from, to, new_offset));
}

/* Rank 1 has no array, and the last rank closes its advisor instead: both migrations fail. */
static int after_leaving(pylb_plan *plan, const double *from, double *to)
{
    if (rank == n_ranks - 1) {
        printf("rank %d: - leaves\n", rank);
        return PYLB_ERR_STATE;
    }
    say(pylb_plan_migrate(plan, rank == 1 ? NULL : from, sizeof *from, to));
    return say(pylb_plan_migrate(plan, from, sizeof *from, to));
}

/* Rank 1 has no array, or far too many bytes. */
static int without_array(pylb_plan *plan, const double *from, double *to)
{
    const int huge = is("huge");
    return say(pylb_plan_migrate(plan, rank == 1 && !huge ? NULL : from,
                                 rank == 1 && huge ? (size_t)-1 : sizeof *from, to));
}

/* A migration begins, and on some ranks, or later, something is wrong. */
static int on_its_way(pylb_plan *plan, const double *from, double *to)
{
    const int none = is("begin null") && rank == 1;
    int code = say(pylb_plan_migrate_begin(plan, none ? NULL : from, sizeof *from, to));
    if (code == PYLB_OK && is("left moving") && rank == n_ranks - 1) {
        return PYLB_ERR_STATE;
    }
    if (code == PYLB_OK && !is("not ended")) {
        code = say(pylb_plan_migrate_end(plan));
    }
    return code == PYLB_OK && is("end twice") ? say(pylb_plan_migrate_end(plan)) : code;
}

static int begins(void)
{
    return is("begin null") || is("left moving") || is("not ended") || is("end twice");
}

static int has_offsets(void)
{
    return is("offsets") || is("falling");
}

static int moves(void)
{
    return has_offsets() || begins() || is("array") || is("huge") || is("left");
}

/* Cells that migrate with wrong arguments. */
static int with_plan(pylb_advisor *lb)
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
    const int code = say(pylb_advise_cells(lb, &cells, &plan));
    return code != PYLB_OK || plan == NULL ? code
           : is("left")                    ? after_leaving(plan, load, to)
           : begins()                      ? on_its_way(plan, load, to)
           : has_offsets()                 ? with_offsets(plan, CELLS, load, to)
                                           : without_array(plan, load, to);
}

static int run(pylb_advisor *lb)
{
    if (is("closes") && rank == 1) {
        return PYLB_OK;
    }
    for (int i = 0; i < STEPS; i++) {
        int code;
        if ((is("leaves") || is("own leaves")) && rank == 1 && i == 5) {
            return PYLB_OK;
        }
        if (is("mixed")) {
            code = rank == 1 ? with_keys(lb, 1, 1.0) : advise(lb, 1.0);
        } else if (is("nan")) {
            code = with_keys(lb, rank, rank == 1 && i == 4 ? -1.0 : 1.0);
        } else if (is("asked cells")) {
            code = with_keys(lb, rank, 1.0 + rank);
        } else if (moves()) {
            code = with_plan(lb);
        } else if (is("twice")) {
            code = with_keys(lb, 7, 1.0 + rank);
        } else if (is("open") && rank == 1 && i == 3) {
            code = say(pylb_start(lb)) || advise(lb, 1.0);
        } else {
            code = advise(lb, 1.0);
        }
        if (code != PYLB_OK) {
            return code;
        }
    }
    return PYLB_OK;
}

/* In each step, one rank after the other has an invalid argument or state; each failure is an
 * error on all ranks and changes nothing, so the step can be repeated. */
static void repeat(pylb_advisor *lb, int with_cells)
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
        if (say(code)) {
            return;
        }
    }
    printf("rank %d: %d calls failed\n", rank, failed);
}

/* Rank 1 is late, or ends a step of another advisor than the others. */
static void wait_in(pylb_advisor *lb)
{
    pylb_advisor *other = NULL;
    if (!is("late create") || rank != 1) {
        say(pylb_advisor_create_mpi(MPI_COMM_WORLD, &other));
    }
    if (strncmp(what, "late", 4) == 0 && rank == 1) {
        sleep(600);
    }
    advise(is("other") && rank == 1 ? other : lb, 1.0);
}

/* Two advisors.  Rank 1 ends without closing them, between a step of one and a step of the other.
 */
static void two(pylb_advisor *lb)
{
    pylb_advisor *other = NULL;
    say(pylb_advisor_create_mpi(MPI_COMM_WORLD, &other));
    for (int i = 0; i < STEPS; i++) {
        if (advise(lb, 1.0) || (rank == 1 && i == 5) || advise(other, 1.0)) {
            return;
        }
    }
}

/* Rank 1 closes its advisors in another order than rank 0. */
static void close_in_order(pylb_advisor *lb)
{
    pylb_advisor *other = NULL;
    say(pylb_advisor_create_mpi(MPI_COMM_WORLD, &other));
    advise(lb, 1.0);
    advise(other, 1.0);
    say(pylb_advisor_close(rank == 0 ? &lb : &other));
}

int main(int argc, char **argv)
{
    pylb_advisor *lb = NULL;
    what = argc > 1 ? argv[1] : what;
    if (is("early")) {
        say(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    say(pylb_advisor_create_mpi(MPI_COMM_NULL, &lb));
    say(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
    say(pylb_advisor_set(lb, "lag", argc > 2 ? argv[2] : "0"));
    if (is("words") && rank == 1) {
        say(pylb_advisor_set(lb, "trigger", "menon"));
    }
    if (is("lags") && rank == 1) {
        say(pylb_advisor_set(lb, "lag", "5"));
    }
    if (is("twice") || moves()) {
        say(pylb_advisor_set(lb, "every", "1"));
    }
    int odd = rank == 1 ? (is("failing") ? 7 : 1) : 0;
    if (is("asked") || is("asked cells") || is("own leaves") || is("failing")) {
        odd = is("own leaves") ? 0 : odd;
        say(pylb_trigger_register("odd", odd_trigger, &odd));
        say(pylb_advisor_set(lb, "trigger", "odd"));
    }
    if (strncmp(what, "repeat", 6) == 0) {
        say(pylb_advisor_set(lb, "clock", "none"));
    }
    if (argc > 3) {
        say(pylb_advisor_set(lb, "record", argv[3]));
    }
    if (is("two")) {
        two(lb);
    } else if (strncmp(what, "repeat", 6) == 0) {
        repeat(lb, is("repeat cells"));
    } else if (strncmp(what, "late ", 5) == 0 || is("other")) {
        wait_in(lb);
    } else if (is("order")) {
        close_in_order(lb);
    } else {
        run(lb);
    }
    if (!is("open end") && (!is("recorded") || rank == 1) && !is("two")) {
        say(pylb_advisor_close(&lb));
    }
    const int comm = MPI_Comm_c2f(MPI_COMM_WORLD);
    MPI_Finalize();
    if (is("late")) {
        say(pylb_advisor_create_fortran(comm, &lb));
    }
    printf("rank %d ends\n", rank);
    return 0;
}
