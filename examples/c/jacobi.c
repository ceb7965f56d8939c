/* A heated plate whose rows are divided among the ranks; rows near a front that moves take longer.
 * The program shifts its rows itself: pylb says when.
 *
 *     mpicc -O2 jacobi.c $(pkg-config --cflags --libs pylb_mpi) -o jacobi
 *     mpiexec -n 4 ./jacobi              # the times of the rows are measured
 *     mpiexec -n 4 ./jacobi --virtual    # the times are computed: the same decisions each time
 */
#include <mpi.h>
#include <pylb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 240, COLUMNS = 200, STEPS = 300 };
static const double SWEEP = 1e-6, LB_STEP = 5e-4; /* seconds, with --virtual */

static int rank, n_ranks;
static bool virtual_time;
static int *first; /* rank r has the rows first[r] ... first[r + 1] - 1 */

/* Temperature of the rows of this rank, between a row of each neighbour (or of the border), and
 * the seconds of each row.  Row i of the plate is at i - first[rank] + 1. */
static double (*plate)[COLUMNS], (*next)[COLUMNS], seconds[ROWS + 2];

static void check(int code)
{
    if (code != PYLB_OK) {
        fprintf(stderr, "pylb: %s\n", pylb_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int n_mine(void)
{
    return first[rank + 1] - first[rank];
}

/* A row of the border above or below the plate: cold, except at its left end, which is hot. */
static void set_border(double *row)
{
    memset(row, 0, COLUMNS * sizeof *row);
    row[0] = 1.0;
}

static void exchange_halos(void)
{
    const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    const int down = rank + 1 < n_ranks ? rank + 1 : MPI_PROC_NULL, n = n_mine();
    MPI_Sendrecv(plate[1], COLUMNS, MPI_DOUBLE, up, 0, plate[n + 1], COLUMNS, MPI_DOUBLE, down, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(plate[n], COLUMNS, MPI_DOUBLE, down, 0, plate[0], COLUMNS, MPI_DOUBLE, up, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (up == MPI_PROC_NULL) {
        set_border(plate[0]);
    }
    if (down == MPI_PROC_NULL) {
        set_border(plate[n + 1]);
    }
}

/* Rows near the front are swept 20 times, e.g. for a reaction there. */
static int sweeps(int row, int step)
{
    const int front = step * (ROWS / 2) / STEPS + ROWS / 8;
    return abs(row - front) < ROWS / 12 ? 20 : 1;
}

static double compute(int step)
{
    double sum = 0.0;
    for (int k = 1; k <= n_mine(); k++) {
        const double before = MPI_Wtime();
        const int n = sweeps(first[rank] + k - 1, step);
        memcpy(next[k], plate[k], sizeof *next);
        for (int sweep = 0; sweep < n; sweep++) {
            for (int j = 1; j < COLUMNS - 1; j++) {
                next[k][j] =
                    0.25 * (plate[k - 1][j] + plate[k + 1][j] + next[k][j - 1] + next[k][j + 1]);
            }
        }
        seconds[k] = virtual_time ? SWEEP * n : MPI_Wtime() - before;
        sum += seconds[k];
    }
    double(*old)[COLUMNS] = plate;
    plate = next;
    next = old;
    return sum;
}

/* Cut the rows so that all ranks have the same seconds, and send them where they belong. */
static void shift_rows(void)
{
    int *cut = (int *)calloc(5 * (size_t)n_ranks + 1, sizeof(int));
    int *to = cut + n_ranks + 1, *to_at = to + n_ranks, *from = to_at + n_ranks;
    int *from_at = from + n_ranks, r = 0;
    double all[ROWS], sum = 0.0, done = 0.0;
    for (int i = 0; i < n_ranks; i++) {
        from[i] = first[i + 1] - first[i];
    }
    MPI_Allgatherv(seconds + 1, n_mine(), MPI_DOUBLE, all, from, first, MPI_DOUBLE,
                   MPI_COMM_WORLD);
    for (int i = 0; i < ROWS; i++) {
        sum += all[i];
    }
    for (int i = 0; i < ROWS; i++) { /* row i belongs to the rank in whose part its middle is */
        while (r + 1 < n_ranks && done + 0.5 * all[i] >= sum * (r + 1) / n_ranks) {
            cut[++r] = i;
        }
        done += all[i];
    }
    while (r < n_ranks) {
        cut[++r] = ROWS;
    }
    for (int i = 0; i < n_ranks; i++) { /* rows in the old range of one rank, the new of another */
        const int a = first[rank] > cut[i] ? first[rank] : cut[i];
        const int b = first[rank + 1] < cut[i + 1] ? first[rank + 1] : cut[i + 1];
        const int c = cut[rank] > first[i] ? cut[rank] : first[i];
        const int d = cut[rank + 1] < first[i + 1] ? cut[rank + 1] : first[i + 1];
        to[i] = b > a ? (b - a) * COLUMNS : 0;
        to_at[i] = b > a ? (a - first[rank]) * COLUMNS : 0;
        from[i] = d > c ? (d - c) * COLUMNS : 0;
        from_at[i] = d > c ? (c - cut[rank]) * COLUMNS : 0;
    }
    MPI_Alltoallv(plate[1], to, to_at, MPI_DOUBLE, next[1], from, from_at, MPI_DOUBLE,
                  MPI_COMM_WORLD);
    memcpy(first, cut, (size_t)(n_ranks + 1) * sizeof *first);
    double(*old)[COLUMNS] = plate;
    plate = next;
    next = old;
    free(cut);
}

static void begin(void)
{
    for (int r = 0; r <= n_ranks; r++) {
        first[r] = ROWS * r / n_ranks;
    }
    for (int i = 0; i < ROWS + 2; i++) {
        set_border(plate[i]);
    }
}

/* Print the results of a run, on rank 0. */
static void show(const char *name, const double *work, double wall, pylb_advisor *lb)
{
    double max[STEPS], sum[STEPS], longest = 0.0, mean = 0.0, heat = 0.0, all = 0.0;
    int64_t n = 0, lb_steps = 0;
    for (int k = 1; k <= n_mine(); k++) {
        for (int j = 0; j < COLUMNS; j++) {
            heat += plate[k][j];
        }
    }
    MPI_Reduce(work, max, STEPS, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(work, sum, STEPS, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&heat, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    check(pylb_advisor_counts(lb, &n, &lb_steps));
    for (int i = 0; rank == 0 && i < STEPS; i++) {
        longest += max[i];
        mean += sum[i] / n_ranks;
    }
    if (rank == 0) {
        printf("%-14s %8.3f %9.4f %9lld %12.6g\n", name, longest / mean,
               virtual_time ? longest + LB_STEP * (double)lb_steps : wall, (long long)lb_steps,
               all);
    }
    for (int64_t i = 0; rank == 0 && virtual_time && i < n; i++) {
        pylb_receipt r;
        check(pylb_advisor_receipt(lb, i, &r));
        if (r.rebalanced) {
            printf("after step %lld: max/mean %.17g -> %.17g\n", (long long)r.iteration, r.before,
                   r.predicted);
        }
    }
}

static void run(const char *name, const char *mode)
{
    double work[STEPS];
    pylb_advisor *lb = NULL;
    check(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
    check(pylb_advisor_set(lb, "mode", mode));
    check(virtual_time ? pylb_advisor_set(lb, "clock", "none") : PYLB_OK);
    begin();
    const double began = MPI_Wtime();
    for (int step = 0; step < STEPS; step++) {
        int rebalance;
        exchange_halos();
        work[step] = compute(step);
        check(pylb_work(lb, work[step]));
        check(pylb_advise(lb, &rebalance));
        if (rebalance) {
            check(pylb_rebalance_begin(lb));
            shift_rows();
            check(pylb_rebalance_end(lb));
            check(virtual_time ? pylb_rebalanced(lb, LB_STEP) : PYLB_OK);
        }
    }
    show(name, work, MPI_Wtime() - began, lb);
    check(pylb_advisor_close(&lb));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    virtual_time = argc > 1 && strcmp(argv[1], "--virtual") == 0;
    first = (int *)calloc((size_t)n_ranks + 1, sizeof *first);
    plate = (double(*)[COLUMNS])calloc(ROWS + 2, sizeof *plate);
    next = (double(*)[COLUMNS])calloc(ROWS + 2, sizeof *next);
    if (first == NULL || plate == NULL || next == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0) {
        printf("%2d ranks       max/mean   seconds  LB steps         heat\n", n_ranks);
    }
    run("without pylb", "off");
    run("with pylb", "on");
    free(next);
    free(plate);
    free(first);
    MPI_Finalize();
    return 0;
}
