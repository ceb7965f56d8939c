/* A circle moves through a mesh of p4est.  Quadrants in it are refined, and each of them has much
 * more to do.  p4est cuts the mesh into parts of equal weight; pylb says when.
 *
 *     mpicc -O2 circle_p4est.c $(pkg-config --cflags --libs pylb_mpi) -lp4est -lsc -lm -o circle \
 *         -Wl,-rpath,$HOME/pylb/lib           # where `make install PREFIX=$HOME/pylb` has put it
 *     mpiexec -n 4 ./circle                   # without LB steps, with pylb
 *     mpiexec -n 4 ./circle 1 3               # and with fixed intervals, each 3 times, in turn
 *     mpiexec -n 4 ./circle 1 1 --virtual     # the times are computed
 *
 * The first number says how often the circle goes round its orbit; default: 0.5. */
#include <math.h>
#include <mpi.h>
#include <p4est_extended.h>
#include <pylb_p4est.h>
#include <sc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVEL = 5, SIDE = 8, STEPS = 200 }; /* 4^LEVEL quadrants outside of the circle */

/* What a quadrant has: values at its points. */
typedef struct cell {
    double value[SIDE * SIDE];
} cell_t;

static const double SMALL_STEP = 2.5e-7, LB_STEP = 2.5e-4; /* seconds, with --virtual */

static double centre[2], turns;
static int virtual_time;
static double work[STEPS]; /* small steps of this rank in each step */
static int64_t lb_steps;
static pylb_advisor *lb;
static p4est_gloidx_t shipped; /* by the last LB step */

static void check(int code)
{
    if (code != PYLB_OK) {
        fprintf(stderr, "pylb: %s\n", pylb_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* ---- the mesh ------------------------------------------------------------------------------- */

/* Is the quadrant of level LEVEL that contains q, or is q, in the circle? */
static int in_circle(const p4est_quadrant_t *q)
{
    const p4est_qcoord_t side = P4EST_QUADRANT_LEN(LEVEL);
    const double x = ((double)(q->x / side) + 0.5) * side / P4EST_ROOT_LEN - centre[0];
    const double y = ((double)(q->y / side) + 0.5) * side / P4EST_ROOT_LEN - centre[1];
    return x * x + y * y < 0.15 * 0.15;
}

static int refines(p4est_t *p4est, p4est_topidx_t tree, p4est_quadrant_t *q)
{
    (void)p4est;
    (void)tree;
    return q->level == LEVEL && in_circle(q);
}

static int coarsens(p4est_t *p4est, p4est_topidx_t tree, p4est_quadrant_t *family[])
{
    (void)p4est;
    (void)tree;
    return family[0]->level > LEVEL && !in_circle(family[0]);
}

static void first_values(p4est_t *p4est, p4est_topidx_t tree, p4est_quadrant_t *q)
{
    cell_t *cell = q->p.user_data;
    (void)p4est;
    (void)tree;
    for (int k = 0; k < SIDE * SIDE; k++) {
        cell->value[k] = k % 7 + (double)q->x / P4EST_ROOT_LEN;
    }
}

/* Children begin with the values of their parent, a parent with the means of its children. */
static void replace(p4est_t *p4est, p4est_topidx_t tree, int n_old, p4est_quadrant_t *old[],
                    int n_new, p4est_quadrant_t *made[])
{
    (void)p4est;
    (void)tree;
    for (int i = 0; i < n_new; i++) {
        cell_t *cell = made[i]->p.user_data;
        memset(cell, 0, sizeof *cell);
        for (int k = 0; k < n_old; k++) {
            const cell_t *from = old[k]->p.user_data;
            for (int p = 0; p < SIDE * SIDE; p++) {
                cell->value[p] += from->value[p] / n_old;
            }
        }
    }
}

static void adapt(p4est_t *p4est, int step)
{
    const double angle = 2.0 * M_PI * turns * step / STEPS;
    centre[0] = 0.5 + 0.3 * cos(angle);
    centre[1] = 0.5 + 0.3 * sin(angle);
    p4est_coarsen_ext(p4est, 0, 0, coarsens, NULL, replace);
    p4est_refine_ext(p4est, 0, -1, refines, NULL, replace);
}

/* Small steps of a quadrant in a step of the program; for p4est, they are its weight. */
static int weight(p4est_t *p4est, p4est_topidx_t tree, p4est_quadrant_t *q)
{
    (void)p4est;
    (void)tree;
    return q->level > LEVEL ? 200 : 10;
}

static p4est_quadrant_t *quadrant(p4est_t *p4est, p4est_locidx_t i)
{
    return p4est_quadrant_array_index(&p4est_tree_array_index(p4est->trees, 0)->quadrants,
                                      (size_t)i);
}

/* With --virtual: tell pylb the work of this step, and the cost of an LB step in the last one. */
static void tell(int step)
{
    check(shipped > 0 ? pylb_rebalanced(lb, LB_STEP) : PYLB_OK);
    check(pylb_work(lb, SMALL_STEP * work[step]));
}

/* Diffusion in each quadrant of this rank; return the largest change of a value. */
static double compute(p4est_t *p4est, int step)
{
    const double heat = 0.1 * sin(0.1 * step);
    double most = 0.0;
    for (p4est_locidx_t i = 0; i < p4est->local_num_quadrants; i++) {
        p4est_quadrant_t *q = quadrant(p4est, i);
        double *u = ((cell_t *)q->p.user_data)->value, change = 0.0;
        work[step] += weight(p4est, 0, q);
        for (int k = virtual_time ? 0 : weight(p4est, 0, q); k > 0; k--) {
            for (int p = SIDE + 1; p < SIDE * (SIDE - 1) - 1; p++) {
                change = u[p - 1] + u[p + 1] + u[p - SIDE] + u[p + SIDE] - 4.0 * u[p];
                u[p] += 0.1 * change + heat;
            }
        }
        most = fmax(most, fabs(change));
    }
    if (virtual_time && lb != NULL) {
        tell(step);
    }
    return most;
}

/* Return the largest number of the ranks, e.g. for the length of the next step. */
static double largest(double here)
{
    double all;
    MPI_Allreduce(&here, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

/* ---- before and after ----------------------------------------------------------------------- */

/* Return the largest change; every: steps from one LB step to the next. */
static double by_interval(p4est_t *p4est, int every)
{
    double change = 0.0;
    for (int step = 0; step < STEPS; step++) {
        adapt(p4est, step);
        change = compute(p4est, step);
        change = largest(change);
        if (step % every == every - 1) {
            p4est_partition_ext(p4est, 1, weight);
            lb_steps++;
        }
    }
    return change;
}

static double by_pylb(p4est_t *p4est)
{
    double change = 0.0;
    check(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
    for (int step = 0; step < STEPS; step++) {
        adapt(p4est, step);
        check(pylb_start(lb));
        change = compute(p4est, step);
        check(pylb_stop(lb));
        change = largest(change);
        check(pylb_p4est_advise(lb, p4est, weight, &shipped));
    }
    check(pylb_advisor_counts(lb, NULL, &lb_steps));
    check(pylb_advisor_close(&lb));
    return change;
}

/* ---- the comparison ------------------------------------------------------------------------- */

enum { NEVER, PYLB, N_WAYS = 8 };
static const int INTERVAL[N_WAYS] = {STEPS + 1, 0, 2, 5, 10, 20, 40, 80};

typedef struct result {
    double seconds, max_over_mean, change;
    int64_t lb_steps;
} result_t;

/* Run one way, and keep the result with the shortest time. */
static void run(p4est_connectivity_t *square, int way, result_t *best)
{
    double max[STEPS], sum[STEPS], maxima = 0.0, means = 0.0;
    p4est_t *p4est =
        p4est_new_ext(MPI_COMM_WORLD, square, 0, LEVEL, 1, sizeof(cell_t), first_values, NULL);
    memset(work, 0, sizeof work);
    lb_steps = shipped = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    const double change = way == PYLB ? by_pylb(p4est) : by_interval(p4est, INTERVAL[way]);
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - begin;
    MPI_Allreduce(work, max, STEPS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(work, sum, STEPS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < STEPS; i++) {
        maxima += max[i];
        means += sum[i] / p4est->mpisize;
    }
    if (virtual_time) {
        seconds = SMALL_STEP * maxima + LB_STEP * (double)lb_steps;
    }
    if (best->seconds == 0.0 || seconds < best->seconds) {
        *best = (result_t){seconds, maxima / means, change, lb_steps};
    }
    p4est_destroy(p4est);
}

int main(int argc, char **argv)
{
    result_t result[N_WAYS] = {{0.0, 0.0, 0.0, 0}};
    MPI_Init(&argc, &argv);
    turns = argc > 1 ? atof(argv[1]) : 0.5;
    virtual_time = argc > 3 && strcmp(argv[3], "--virtual") == 0;
    if (virtual_time) {
        setenv("PYLB_CLOCK", "none", 1);
    }
    const int rounds = argc > 2 ? atoi(argv[2]) : 0, n_ways = rounds > 0 ? N_WAYS : PYLB + 1;
    sc_init(MPI_COMM_WORLD, 0, 0, NULL, SC_LP_ERROR);
    p4est_init(NULL, SC_LP_ERROR);
    p4est_connectivity_t *square = p4est_connectivity_new_unitsquare();
    for (int i = 0; i < n_ways * (rounds > 0 ? rounds : 1); i++) {
        run(square, i % n_ways, &result[i % n_ways]);
    }
    double best = result[NEVER].seconds;
    if (sc_is_root()) {
        printf("              max/mean   seconds  LB steps       change\n");
    }
    for (int way = 0; way < n_ways; way++) {
        const result_t *r = &result[way];
        char every[32];
        snprintf(every, sizeof every, "every %d", INTERVAL[way]);
        const char *name = way == NEVER ? "without pylb" : way == PYLB ? "with pylb" : every;
        best = way != PYLB && r->seconds < best ? r->seconds : best;
        if (sc_is_root()) {
            printf("%-14s %7.3f %9.4f %9d %12.9g\n", name, r->max_over_mean, r->seconds,
                   (int)r->lb_steps, r->change);
        }
    }
    if (sc_is_root() && rounds > 0) {
        printf("pylb / best interval: %.3f\n", result[PYLB].seconds / best);
    }
    p4est_connectivity_destroy(square);
    sc_finalize();
    MPI_Finalize();
    return 0;
}
