/* Cells whose load drifts.  The program passes computed seconds, none is measured, so every run
 * makes the same decisions.
 *   drift STEPS LAG cells|learn_speeds|keyless|ignored|seconds|partial [word=value ...]
 * cells: pylb places the cells; learn_speeds: it does, and odd ranks take 2.5 times as long for
 * the same work; keyless: the same, but the cells have no keys; ignored: the program says that it
 * carries out the plans, but it does not; seconds: pylb only says when to rebalance; partial: the
 * same, but an LB step removes only half of the imbalance.  Prints the receipts.  If PYLB_RECORD is set, the run is recorded. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { CELLS = 16 }; /* on each rank, at first */

static double load_of(int64_t key, int step, int total)
{
    const double at = (double)key / total - (double)step / 60.0;
    return 1e-3 * (1.0 + ((at - (double)(int)at) < -0.7 ? 6.0 : 0.0));
}

/* The program owns its cells. */
typedef struct cells {
    int64_t n, *key;
    double *load;
} cells_t;

static void migrate(pylb_plan *plan, cells_t *c)
{
    const int64_t n = pylb_plan_n(plan);
    int64_t *key = malloc((size_t)(n + 1) * sizeof *key);
    must(pylb_plan_migrate(plan, c->key, sizeof *key, key));
    free(c->key);
    c->key = key;
    c->n = n;
    c->load = realloc(c->load, (size_t)(n + 1) * sizeof *c->load);
}

static void with_cells(pylb_advisor *lb, cells_t *c, int step, int total, const char *kind,
                       double slower)
{
    static pylb_plan *earlier = NULL;
    pylb_cells told;
    pylb_plan *plan;
    pylb_cells_init(&told);
    for (int64_t i = 0; i < c->n; i++) {
        c->load[i] = slower * load_of(c->key[i], step, total);
    }
    told.n = c->n;
    told.key = strcmp(kind, "keyless") == 0 ? NULL : c->key;
    told.load = c->load;
    must(pylb_advise_cells(lb, &told, &plan));
    if (plan != NULL) {
        if (strcmp(kind, "ignored") != 0) {
            migrate(plan, c);
        }
        must(pylb_rebalanced(lb, 2e-3));
        earlier = plan;
    } else if (pylb_plan_n(earlier) != 0 || pylb_plan_rank(earlier) != NULL ||
               pylb_plan_migrations(earlier) != 0) {
        fprintf(stderr, "a plan of an earlier step has cells\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void when_only(pylb_advisor *lb, int rank, int step, int partial, int *since)
{
    int rebalance;
    must(pylb_work(lb, 1e-3 * (1.0 + (rank == 0 ? 0.1 * *since : 0.0) + 1e-3 * (step % 7))));
    must(pylb_advise(lb, &rebalance));
    ++*since;
    if (rebalance) {
        must(pylb_rebalanced(lb, 2e-3));
        *since = partial ? *since / 2 : 0;
    }
}

static void print_receipts(pylb_advisor *lb)
{
    int64_t n;
    pylb_receipt r;
    must(pylb_advisor_counts(lb, &n, NULL));
    for (int64_t i = 0; i < n; i++) {
        must(pylb_advisor_receipt(lb, i, &r));
        printf("%lld %d %s %.17g %.17g %.17g %.17g %.17g %lld %s\n", (long long)r.iteration,
               (int)r.rebalanced, r.strategy[0] ? r.strategy : "-", r.max, r.before, r.predicted,
               r.cost, r.gain, (long long)r.migrations, r.reason);
    }
}

int main(int argc, char **argv)
{
    int rank, size, since = 0;
    pylb_advisor *lb;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int steps = argc > 1 ? atoi(argv[1]) : 100;
    const char *kind = argc > 3 ? argv[3] : "seconds";
    const int partial = strcmp(kind, "partial") == 0;
    const int cells = strcmp(kind, "seconds") != 0 && !partial;
    const int learn_speeds = strcmp(kind, "learn_speeds") == 0 || strcmp(kind, "keyless") == 0;
    const double slower = learn_speeds && rank % 2 == 1 ? 2.5 : 1.0;
    must(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
    must(pylb_advisor_set(lb, "clock", "none"));
    must(pylb_advisor_set(lb, "lag", argc > 2 ? argv[2] : "0"));
    must(pylb_advisor_set(lb, "steps", argc > 1 ? argv[1] : "100"));
    for (int i = 4; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        *value = '\0';
        must(pylb_advisor_set(lb, argv[i], value + 1));
    }
    cells_t c = {CELLS, malloc(CELLS * sizeof(int64_t)), malloc(CELLS * sizeof(double))};
    for (int i = 0; i < CELLS; i++) {
        c.key[i] = (int64_t)rank * CELLS + i;
    }
    for (int step = 0; step < steps; step++) {
        if (cells) {
            with_cells(lb, &c, step, size * CELLS, kind, slower);
        } else {
            when_only(lb, rank, step, partial, &since);
        }
    }
    if (rank == 0) {
        print_receipts(lb);
    }
    must(pylb_advisor_close(&lb));
    free(c.key);
    free(c.load);
    MPI_Finalize();
    return 0;
}
