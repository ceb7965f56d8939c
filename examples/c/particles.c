/* Particles in the cells of a ring; half of them are a crowd that moves around the ring.  pylb
 * says when to rebalance and where each cell goes.  The program has an exchange of its own, which
 * sends every particle to the owner of its cell; rebalancing gives cells to other owners.
 *
 *     mpicc -O2 particles.c $(pkg-config --cflags --libs pylb_mpi) -o particles
 *     mpiexec -n 4 ./particles              # the times of the cells are measured
 *     mpiexec -n 4 ./particles --virtual    # the times are computed: the same decisions each time
 */
#include <math.h>
#include <mpi.h>
#include <pylb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 192, PARTICLES = 12000, STEPS = 200 };
static const double PAIR = 5e-9, LB_STEP = 2e-3; /* seconds, with --virtual */

typedef struct particle {
    double x, v; /* 0 <= x < 1 */
} particle;

static int rank, n_ranks;
static bool virtual_time;
static int owner[CELLS]; /* rank that owns each cell; the same on all ranks */

static particle *mine; /* particles of this rank, in order of cell */
static int n_mine;
static int64_t cell[CELLS]; /* cells of this rank */
static int n_cells;
static int start[CELLS + 1]; /* particles in cell[i]: mine[start[i]] ... mine[start[i + 1] - 1] */

static void *get(size_t n, size_t bytes)
{
    void *out = calloc(n ? n : 1, bytes);
    if (out == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return out;
}

static void check(int code)
{
    if (code != PYLB_OK) {
        fprintf(stderr, "pylb: %s\n", pylb_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int cell_of(const particle *p)
{
    return (int)(p->x * CELLS);
}

/* Store p[n], the particles of this rank, sorted by cell, and list the cells of this rank. */
static void sort(particle *p, int n)
{
    int at[CELLS + 1] = {0}, fill[CELLS];
    for (int i = 0; i < n; i++) {
        at[cell_of(&p[i]) + 1]++;
    }
    n_cells = 0;
    for (int c = 0; c < CELLS; c++) {
        at[c + 1] += at[c];
        fill[c] = at[c];
        if (owner[c] == rank) {
            cell[n_cells] = c;
            start[n_cells++] = at[c];
        }
    }
    start[n_cells] = n_mine = n;
    free(mine);
    mine = (particle *)get((size_t)n, sizeof *mine);
    for (int i = 0; i < n; i++) {
        mine[fill[cell_of(&p[i])]++] = p[i];
    }
}

/* Send every particle to the owner of its cell. */
static void exchange(void)
{
    int *to = (int *)get((size_t)n_ranks * 5, sizeof(int)); /* in doubles: 2 for each particle */
    int *from = to + n_ranks, *to_at = from + n_ranks, *from_at = to_at + n_ranks;
    int *fill = from_at + n_ranks, n = 0;
    particle *out = (particle *)get((size_t)n_mine, sizeof *out);
    for (int i = 0; i < n_mine; i++) {
        to[owner[cell_of(&mine[i])]] += 2;
    }
    MPI_Alltoall(to, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < n_ranks; r++) {
        to_at[r] = r > 0 ? to_at[r - 1] + to[r - 1] : 0;
        from_at[r] = n;
        n += from[r];
    }
    for (int i = 0; i < n_mine; i++) {
        const int r = owner[cell_of(&mine[i])];
        out[to_at[r] / 2 + fill[r]++] = mine[i];
    }
    particle *in = (particle *)get((size_t)n / 2, sizeof *in);
    MPI_Alltoallv(out, to, to_at, MPI_DOUBLE, in, from, from_at, MPI_DOUBLE, MPI_COMM_WORLD);
    sort(in, n / 2);
    free(in);
    free(out);
    free(to);
}

/* Give the cells of this rank to other owners. */
static void give(const int32_t *to)
{
    int next[CELLS];
    memset(next, -1, sizeof next);
    for (int c = 0; c < n_cells; c++) {
        next[cell[c]] = to[c];
    }
    MPI_Allreduce(next, owner, CELLS, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    exchange();
}

/* Half of the particles stand still, half are a crowd that moves. */
static void begin(void)
{
    for (int c = 0; c < CELLS; c++) {
        owner[c] = (int)((long)c * n_ranks / CELLS);
    }
    particle *all = (particle *)get(PARTICLES, sizeof *all);
    int n = 0;
    for (int i = 0; i < PARTICLES; i++) {
        const bool crowd = i % 2 == 0;
        particle p = {(i + 0.5) / (crowd ? 4 * PARTICLES : PARTICLES), crowd ? 0.002 : 0.0};
        if (owner[cell_of(&p)] == rank) {
            all[n++] = p;
        }
    }
    sort(all, n);
    free(all);
}

/* Return the potential energy of all pairs in the cells of this rank; load[i]: the seconds that
 * cell[i] took. */
static double compute(double *load)
{
    double energy = 0.0;
    for (int c = 0; c < n_cells; c++) {
        const double before = MPI_Wtime();
        const int n = start[c + 1] - start[c];
        for (int i = start[c]; i < start[c + 1]; i++) {
            for (int j = start[c]; j < i; j++) {
                const double d = (mine[i].x - mine[j].x) * CELLS;
                energy += 1.0 / sqrt(d * d + 0.01);
            }
        }
        load[c] = virtual_time ? PAIR * (n * (n - 1.0) / 2) : MPI_Wtime() - before;
    }
    return energy;
}

static void move(void)
{
    for (int i = 0; i < n_mine; i++) {
        mine[i].x += mine[i].v;
        mine[i].x -= mine[i].x >= 1.0 ? 1.0 : 0.0;
    }
}

/* Print the results of a run, on rank 0. */
static void show(const char *name, const double *work, double energy, double wall,
                 pylb_advisor *lb)
{
    double max[STEPS], sum[STEPS], longest = 0.0, mean = 0.0, whole = 0.0;
    int64_t n = 0, lb_steps = 0;
    MPI_Reduce(work, max, STEPS, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(work, sum, STEPS, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&energy, &whole, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    check(pylb_advisor_counts(lb, &n, &lb_steps));
    for (int i = 0; rank == 0 && i < STEPS; i++) {
        longest += max[i];
        mean += sum[i] / n_ranks;
    }
    const double seconds = virtual_time ? longest + LB_STEP * (double)lb_steps : wall;
    if (rank == 0) {
        printf("%-14s %8.3f %9.4f %9lld %12.6g\n", name, longest / mean, seconds,
               (long long)lb_steps, whole / STEPS);
    }
    for (int64_t i = 0; rank == 0 && virtual_time && i < n; i++) {
        pylb_receipt r;
        check(pylb_advisor_receipt(lb, i, &r));
        if (r.rebalanced) {
            printf("after step %lld: %s, %lld cells, max/mean %.17g -> %.17g\n",
                   (long long)r.iteration, r.strategy, (long long)r.migrations, r.before,
                   r.predicted);
        }
    }
}

static void run(const char *name, const char *mode)
{
    double load[CELLS], work[STEPS], energy = 0.0;
    int64_t bytes[CELLS];
    pylb_advisor *lb = NULL;
    check(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
    check(pylb_advisor_set(lb, "mode", mode));
    check(virtual_time ? pylb_advisor_set(lb, "clock", "none") : PYLB_OK);
    begin();
    const double began = MPI_Wtime();
    for (int step = 0; step < STEPS; step++) {
        energy += compute(load);
        move();
        exchange();
        work[step] = 0.0;
        for (int c = 0; c < n_cells; c++) {
            work[step] += load[c];
            bytes[c] = (start[c + 1] - start[c]) * (int64_t)sizeof(particle);
        }
        pylb_plan *plan;
        pylb_cells cells;
        pylb_cells_init(&cells);
        cells.n = n_cells;
        cells.load = load;
        cells.key = cell;
        cells.nbytes = bytes;
        check(pylb_advise_cells(lb, &cells, &plan));
        if (plan != NULL) {
            check(pylb_rebalance_begin(lb));
            give(pylb_plan_rank(plan));
            check(pylb_rebalance_end(lb));
            check(virtual_time ? pylb_rebalanced(lb, LB_STEP) : PYLB_OK);
        }
    }
    show(name, work, energy, MPI_Wtime() - began, lb);
    check(pylb_advisor_close(&lb));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    virtual_time = argc > 1 && strcmp(argv[1], "--virtual") == 0;
    if (rank == 0) {
        printf("%2d ranks       max/mean   seconds  LB steps       energy\n", n_ranks);
    }
    run("without pylb", "off");
    run("with pylb", "on");
    free(mine);
    MPI_Finalize();
    return 0;
}
