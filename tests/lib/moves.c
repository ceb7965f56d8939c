/* Arrays of cells that move while the program computes:
 *   moves [OPTION VALUE ...]
 * Each rank prints how many plans it carried out, and how many LB steps pylb counts.  The arrays
 * that come must be those of pylb_plan_migrate, with what cells that stay have become meanwhile.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { STEPS = 14, CELLS = 12 };

static int rank, failures;

static void *get(int64_t n, size_t bytes)
{
    void *out = calloc((size_t)n + 1, bytes);
    if (out == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return out;
}

/* The cells of a rank: key, a value, and key % 4 parts of each cell. */
typedef struct cells {
    int64_t n, *key, *offset;
    double *value;
    int32_t *part;
} cells_t;

static cells_t new_cells(int64_t n)
{
    return (cells_t){n, get(n, sizeof(int64_t)), get(n + 1, sizeof(int64_t)),
                     get(n, sizeof(double)), NULL};
}

static void free_cells(cells_t *c)
{
    free(c->key);
    free(c->offset);
    free(c->value);
    free(c->part);
}

/* Begin to move all arrays; `to` gets them when the migration ends. */
static void begin(pylb_plan *plan, const cells_t *c, cells_t *to)
{
    int64_t *copy = get(c->n + 1, sizeof *copy);
    memcpy(copy, c->offset, (size_t)(c->n + 1) * sizeof *copy);
    *to = new_cells(pylb_plan_n(plan));
    must(pylb_plan_migrate_begin(plan, c->value, sizeof *c->value, to->value));
    must(pylb_plan_offsets(plan, copy, to->offset)); /* waits, while the values are on their way */
    to->part = get(to->offset[to->n], sizeof *to->part);
    must(
        pylb_plan_migrate_sized_begin(plan, c->part, copy, sizeof *c->part, to->part, to->offset));
    free(copy); /* offsets are no longer needed */
    must(pylb_plan_migrate_begin(plan, c->key, sizeof *c->key, to->key));
}

/* What the program computes meanwhile: cells that stay change. */
static void compute(const cells_t *c, const int32_t *to)
{
    for (int64_t i = 0; i < c->n; i++) {
        if (to == NULL || to[i] == rank) {
            c->value[i] += 0.5;
            for (int64_t k = c->offset[i]; k < c->offset[i + 1]; k++) {
                c->part[k]++;
            }
        }
    }
}

/* End the migration, and compare with what pylb_plan_migrate moves. */
static void end(pylb_plan *plan, cells_t *c, cells_t *to)
{
    cells_t same = new_cells(to->n);
    same.part = get(to->offset[to->n], sizeof *same.part);
    must(pylb_plan_migrate(plan, c->value, sizeof *c->value, same.value));
    must(
        pylb_plan_migrate_sized(plan, c->part, c->offset, sizeof *c->part, same.part, to->offset));
    must(pylb_plan_migrate_end(plan));
    failures += memcmp(same.value, to->value, (size_t)to->n * sizeof *to->value) != 0;
    failures += memcmp(same.part, to->part, (size_t)to->offset[to->n] * sizeof *to->part) != 0;
    for (int64_t i = 0; i < to->n; i++) {
        failures += to->offset[i + 1] - to->offset[i] != to->key[i] % 4;
    }
    free_cells(&same);
    free_cells(c);
    *c = *to;
}

int main(int argc, char **argv)
{
    pylb_advisor *lb;
    pylb_cells given;
    pylb_plan *moving = NULL;
    int n_ranks, ahead = 0, plans = 0, moved = 0, hidden = 0;
    int64_t lb_steps, sums[2] = {0, 0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    must(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
    must(pylb_advisor_set(lb, "every", "3"));
    must(pylb_advisor_set(lb, "clock", "none"));
    for (int i = 1; i + 1 < argc; i += 2) {
        must(pylb_advisor_set(lb, argv[i], argv[i + 1]));
        ahead = ahead || strcmp(argv[i], "ahead") == 0;
    }
    cells_t c = new_cells(CELLS), to;
    c.part = get(4 * CELLS, sizeof *c.part);
    for (int i = 0; i < CELLS; i++) {
        c.key[i] = CELLS * rank + i;
        c.value[i] = (double)c.key[i];
        c.offset[i + 1] = c.offset[i] + c.key[i] % 4;
    }
    for (int step = 0; step < STEPS; step++) {
        double *load = get(c.n, sizeof *load);
        for (int64_t i = 0; i < c.n; i++) {
            load[i] = 1e-3 * (double)(1 + (c.key[i] + 5 * step) % (CELLS * n_ranks));
        }
        if (moving != NULL) { /* with "ahead": what leaves was computed first */
            begin(moving, &c, &to);
        }
        compute(&c, moving == NULL ? NULL : pylb_plan_rank(moving));
        pylb_plan *plan;
        pylb_cells_init(&given);
        given.n = c.n;
        given.load = load;
        given.key = c.key;
        must(pylb_advise_cells(lb, &given, &plan));
        failures += moving != NULL && plan != NULL;
        if (plan != NULL && !ahead) {
            begin(plan, &c, &to);
            compute(&c, pylb_plan_rank(plan));
            moving = plan;
            plan = NULL;
        }
        if (moving != NULL) {
            end(moving, &c, &to);
            must(pylb_rebalanced(lb, 1e-4));
            plans++;
        }
        moving = plan;
        free(load);
    }
    must(pylb_advisor_counts(lb, NULL, &lb_steps));
    for (int64_t i = 0; i < lb_steps; i++) { /* with "every", there are no other decisions */
        pylb_receipt receipt;
        must(pylb_advisor_receipt(lb, i, &receipt));
        moved += receipt.migrations > 0;
        hidden += receipt.seconds_hidden > 0.0 && receipt.seconds_migration > 0.0;
    }
    int64_t mine[2] = {c.n, 0};
    for (int64_t i = 0; i < c.n; i++) {
        mine[1] += c.key[i];
    }
    MPI_Allreduce(mine, sums, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    const int64_t n = (int64_t)CELLS * n_ranks;
    failures += sums[0] != n || sums[1] != n * (n - 1) / 2;
    printf("rank %d: %d plans, %d LB steps, %d moved, %d hidden, %d failures\n", rank, plans,
           (int)lb_steps, moved, hidden, failures);
    free_cells(&c);
    must(pylb_advisor_close(&lb));
    MPI_Finalize();
    return 0;
}
