/* Allocations of the library fail on the last rank:  LD_PRELOAD=no_malloc.so no_memory RECORD STEP
 *
 * A session opens, uses and closes an advisor.  In the first one, no allocation fails; in the next
 * one, allocation 0 fails, then STEP, and so on, until a session ends before its allocation fails.
 * A call must return PYLB_ERR_NOMEM.  Closing frees all but the handle (24 bytes), which stays, so
 * that the library can recognise and refuse it later. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "pylb.h"

enum { STEPS = 7, CELLS = 12 };

static int rank, n_ranks;

static int move(pylb_advisor *lb, pylb_plan *plan, const double *from)
{
    int64_t send[8], receive[8], n = pylb_plan_n(plan);
    double *to = malloc((size_t)(n + 1) * sizeof *to);
    int ret = pylb_rebalance_begin(lb);
    ret = ret == PYLB_OK ? pylb_plan_counts(plan, send, receive) : ret;
    ret = ret == PYLB_OK ? pylb_plan_migrate_begin(plan, from, sizeof *from, to) : ret;
    ret = ret == PYLB_OK ? pylb_plan_migrate_end(plan) : ret;
    free(to);
    const int end = pylb_rebalance_end(lb);
    return ret == PYLB_OK ? end : ret;
}

static int steps(pylb_advisor *lb)
{
    double load[CELLS], coords[3 * CELLS];
    int64_t key[CELLS], bytes[CELLS];
    pylb_cells cells;
    pylb_cells_init(&cells);
    cells.n = CELLS;
    cells.load = load;
    cells.key = key;
    cells.nbytes = bytes;
    cells.coords = coords;
    for (int i = 0; i < CELLS; i++) {
        key[i] = CELLS * rank + i;
        load[i] = 1e-3 * (1 + i % 5) * (1 + rank);
        bytes[i] = 8;
        coords[3 * i] = coords[3 * i + 1] = coords[3 * i + 2] = i + 0.5 * rank;
    }
    int ret = PYLB_OK;
    for (int k = 0; ret == PYLB_OK && k < STEPS; k++) {
        pylb_plan *plan = NULL;
        ret = pylb_advise_cells(lb, &cells, &plan);
        if (ret != PYLB_OK && plan != NULL) {
            printf("session: a call has failed, but set the plan on rank %d\n", rank);
        }
        ret = ret == PYLB_OK && plan != NULL ? move(lb, plan, load) : ret;
    }
    return ret;
}

static int set(pylb_advisor *lb, const char *name, const char *value, int code)
{
    return code == PYLB_OK ? pylb_advisor_set(lb, name, value) : code;
}

static int advised(const char *strategy, const char *lag, const char *record)
{
    pylb_advisor *lb = NULL;
    int ret = pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb);
    ret = set(lb, "strategy", strategy, ret);
    ret = set(lb, "every", "2", ret);
    ret = set(lb, "lag", lag, ret);
    ret = set(lb, "record", record, ret);
    if (lb != NULL && ret == PYLB_OK) {
        ret = steps(lb);
    }
    const int end = pylb_advisor_close(&lb);
    return ret == PYLB_OK ? end : ret;
}

static int alone(void)
{
    int rebalance;
    double load[CELLS], time[4] = {4.0, 3.0, 2.0, 1.0};
    int32_t at[CELLS] = {0}, out[CELLS];
    pylb_snapshot in;
    pylb_metrics metrics;
    pylb_trigger *trigger = NULL;
    pylb_snapshot_init(&in);
    in.n_objects = CELLS;
    in.n_ranks = 4;
    in.load = load;
    in.rank = at;
    for (int i = 0; i < CELLS; i++) {
        load[i] = 1.0 + i;
    }
    int ret = pylb_place(&in, "RefineLB", NULL, 0, out);
    ret = ret == PYLB_OK ? pylb_rank_times(&in, out, time) : ret;
    ret = ret == PYLB_OK ? pylb_metrics_of(time, 4, &metrics) : ret;
    ret = ret == PYLB_OK ? pylb_trigger_create("menon", NULL, &trigger) : ret;
    for (int k = 0; ret == PYLB_OK && k < 20; k++) {
        ret = pylb_trigger_observe(trigger, k, 1.0 + k, 1.0, &rebalance);
    }
    const int end = trigger == NULL ? PYLB_OK : pylb_trigger_close(&trigger);
    return ret == PYLB_OK ? end : ret;
}

static int session(int kind, const char *record)
{
    switch (kind) {
    case 0:
        return advised("GreedyLB", "0", record);
    case 1:
        return advised("auto", "0", record);
    case 2:
        return advised("HSFCLB", "0", record);
    case 3:
        return advised("RefineLB", "2", record);
    case 4: /* all records of the steps are merged while the advisor is closed */
        return advised("RefineLB", "8", record);
    default:
        return alone();
    }
}

int main(int argc, char **argv)
{
    void (*fail_at)(int64_t);
    int (*failed)(void);
    int64_t (*live)(void);
    *(void **)&fail_at = dlsym(NULL, "no_malloc_at");
    *(void **)&failed = dlsym(NULL, "no_malloc_failed");
    *(void **)&live = dlsym(NULL, "no_malloc_live");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    const int step = argc > 2 ? atoi(argv[2]) : 1;
    for (int kind = 0; kind < 6; kind++) {
        int before = session(kind, argv[1]), n = 0, fails = before == PYLB_OK;
        const int64_t blocks = live();
        for (int64_t at = 0; fails; at += step, n++) {
            fail_at(rank == n_ranks - 1 ? at : -1);
            const int code = session(kind, argv[1]);
            fails = rank == n_ranks - 1 ? failed() : 0;
            fail_at(-1);
            if (fails != (code == PYLB_ERR_NOMEM) && rank == n_ranks - 1) {
                printf("session %d, allocation %lld: code %d %s\n", kind, (long long)at, code,
                       pylb_error());
            }
            MPI_Bcast(&fails, 1, MPI_INT, n_ranks - 1, MPI_COMM_WORLD);
        }
        const int after = session(kind, argv[1]);
        const int64_t lost = live() - blocks - n - 1; /* at most one handle of each session */
        printf("session %d: codes %d %d, %d failed, %lld lost\n", kind, before, after, n,
               (long long)(lost > 0 ? lost : 0));
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
