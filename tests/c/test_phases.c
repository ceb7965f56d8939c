/* Tests of csrc/replay, phases: random traces in memory of exactly their size, traces in parts
 * compared with the whole, exact sums, every allocation that fails, and the rounding of sums of
 * several phases at once. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plb.h"

#include "measure/measure.h"
#include "replay/internal.h"

enum { PHASES = 40, ENTITIES = 9, RANKS = 3, ARRAYS = 24 };

/* ---- traces in memory of exactly their size ---- */

typedef struct owned {
    plb_trace_t trace;
    void *array[ARRAYS];
    int n;
} owned_t;

static void *space(owned_t *o, int64_t n, size_t size)
{
    void *p = malloc((size_t)n * size + (n == 0));
    assert_non_null(p);
    assert_true(o->n < ARRAYS);
    return o->array[o->n++] = p;
}

static void owned_free(owned_t *o)
{
    for (int i = 0; i < o->n; i++) {
        free(o->array[i]);
    }
    *o = (owned_t){0};
}

static void *copy(owned_t *o, const void *from, int64_t begin, int64_t end, size_t size)
{
    if (from == NULL) {
        return NULL;
    }
    void *p = space(o, end - begin, size);
    memcpy(p, (const char *)from + (size_t)begin * size, (size_t)(end - begin) * size);
    return p;
}

static int64_t *rebased(owned_t *o, const int64_t *ptr, int64_t begin, int64_t end)
{
    int64_t *p = copy(o, ptr, begin, end + 1, sizeof *p);
    for (int64_t i = end - begin; i >= 0; i--) {
        p[i] -= p[0];
    }
    return p;
}

/* Return the phases begin ... end - 1, with all entities of the trace. */
static owned_t part_of(const plb_trace_t *t, int64_t begin, int64_t end)
{
    owned_t o = {0};
    const int64_t a = t->task_ptr[begin], b = t->task_ptr[end];
    const int64_t c = t->edge_ptr[begin], d = t->edge_ptr[end];
#define TASKS(x) copy(&o, t->x, a, b, sizeof *t->x)
#define EDGES(x) copy(&o, t->x, c, d, sizeof *t->x)
    o.trace = (plb_trace_t){
        .n_phases = end - begin,
        .n_entities = t->n_entities,
        .n_ranks = t->n_ranks,
        .entity_key = copy(&o, t->entity_key, 0, t->n_entities, sizeof *t->entity_key),
        .entity_migratable = copy(&o, t->entity_migratable, 0, t->n_entities, 1),
        .task_ptr = rebased(&o, t->task_ptr, begin, end),
        .task_entity = TASKS(task_entity),
        .task_rank = TASKS(task_rank),
        .task_home = TASKS(task_home),
        .task_load = TASKS(task_load),
        .task_bytes = TASKS(task_bytes),
        .task_memory = TASKS(task_memory),
        .edge_ptr = rebased(&o, t->edge_ptr, begin, end),
        .edge_src = EDGES(edge_src),
        .edge_dst = EDGES(edge_dst),
        .edge_bytes = EDGES(edge_bytes),
        .edge_messages = EDGES(edge_messages),
        .speed = copy(&o, t->speed, 0, t->n_ranks, sizeof *t->speed),
        .background = copy(&o, t->background, 0, t->n_ranks, sizeof *t->background),
        .figures = copy(&o, t->figures, PLB_N_TRACE_FIGURES * begin, PLB_N_TRACE_FIGURES * end,
                        sizeof *t->figures),
        .measured = copy(&o, t->measured, 0, t->n_ranks, sizeof *t->measured),
    };
#undef TASKS
#undef EDGES
    return o;
}

static double *reals(owned_t *o, int64_t n, double least, plb_rng_t *rng)
{
    double *p = space(o, n, sizeof *p);
    for (int64_t i = 0; i < n; i++) {
        p[i] = least + plb_rng_uniform(rng);
    }
    return p;
}

static int32_t *ints(owned_t *o, int64_t n, int64_t below, plb_rng_t *rng)
{
    int32_t *p = space(o, n, sizeof *p);
    for (int64_t i = 0; i < n; i++) {
        p[i] = (int32_t)plb_rng_below(rng, (uint64_t)below);
    }
    return p;
}

static int64_t *sizes(owned_t *o, int64_t n, plb_rng_t *rng)
{
    int64_t *p = space(o, n, sizeof *p);
    for (int64_t i = 0; i < n; i++) {
        p[i] = (int64_t)plb_rng_below(rng, 1000);
    }
    return p;
}

/* Draw the entities of each phase: in random order, and rarely different from those of the
 * previous phase. */
static void draw_tasks(owned_t *o, int64_t *task_ptr, int32_t *entity, plb_rng_t *rng)
{
    plb_trace_t *t = &o->trace;
    bool here[ENTITIES];
    int32_t order[ENTITIES];
    for (int32_t e = 0; e < ENTITIES; e++) {
        here[e] = plb_rng_below(rng, 3) > 0;
        order[e] = e;
    }
    task_ptr[0] = 0;
    for (int i = 0; i < PHASES; i++) {
        if (plb_rng_below(rng, 6) == 0) {
            const uint64_t a = plb_rng_below(rng, ENTITIES), b = plb_rng_below(rng, ENTITIES);
            const int32_t swap = order[a];
            here[plb_rng_below(rng, ENTITIES)] = plb_rng_below(rng, 2);
            order[a] = order[b];
            order[b] = swap;
        }
        int64_t n = task_ptr[i];
        for (int32_t k = 0; k < ENTITIES; k++) {
            if (here[order[k]]) {
                entity[n++] = order[k];
            }
        }
        task_ptr[i + 1] = n;
    }
    t->task_ptr = task_ptr;
    t->task_entity = entity;
}

static owned_t random_trace(uint64_t seed)
{
    owned_t large = {0};
    plb_rng_t rng;
    plb_rng_init(&rng, seed);
    plb_trace_t *t = &large.trace;
    *t = (plb_trace_t){.n_phases = PHASES, .n_entities = ENTITIES, .n_ranks = RANKS};
    draw_tasks(&large, space(&large, PHASES + 1, sizeof(int64_t)),
               space(&large, PHASES * ENTITIES, sizeof(int32_t)), &rng);
    const int64_t n = t->task_ptr[PHASES];
    int64_t *edge_ptr = space(&large, PHASES + 1, sizeof *edge_ptr);
    edge_ptr[0] = 0;
    for (int i = 0; i < PHASES; i++) {
        edge_ptr[i + 1] = edge_ptr[i] + (int64_t)plb_rng_below(&rng, 5);
    }
    const int64_t m = edge_ptr[PHASES];
    t->edge_ptr = edge_ptr;
    t->entity_key = sizes(&large, ENTITIES, &rng);
    uint8_t *movable = space(&large, ENTITIES, 1);
    for (int e = 0; e < ENTITIES; e++) {
        movable[e] = seed % 3 == 0 || plb_rng_below(&rng, 5) > 0;
    }
    t->entity_migratable = movable;
    int32_t *rank = ints(&large, n, RANKS, &rng);
    for (int64_t k = 0; k < n && plb_rng_below(&rng, 4) > 0; k++) {
        rank[k] = t->task_entity[k] % RANKS;
    }
    t->task_rank = rank;
    t->task_home = seed % 2 ? ints(&large, n, RANKS, &rng) : NULL;
    t->task_load = reals(&large, n, 0.0, &rng);
    t->task_bytes = seed % 4 ? sizes(&large, n, &rng) : NULL;
    t->task_memory = seed % 5 ? NULL : sizes(&large, n, &rng);
    t->edge_src = ints(&large, m, ENTITIES, &rng);
    t->edge_dst = ints(&large, m, ENTITIES, &rng);
    t->edge_bytes = reals(&large, m, 0.0, &rng);
    t->edge_messages = seed % 3 ? NULL : reals(&large, m, 0.0, &rng);
    t->speed = seed % 7 ? NULL : reals(&large, RANKS, 0.5, &rng);
    t->background = seed % 11 ? NULL : reals(&large, RANKS, 0.0, &rng);
    t->figures = seed % 13 ? NULL : reals(&large, PHASES * PLB_N_TRACE_FIGURES, 0.0, &rng);
    t->measured = seed % 6 ? NULL : reals(&large, RANKS, 0.5, &rng);
    owned_t o = part_of(t, 0, PHASES);
    owned_free(&large);
    return o;
}

static plb_phases_options_t options_of(uint64_t seed)
{
    return (plb_phases_options_t){
        .n_ranks = RANKS,
        .as_recorded = seed % 8 == 5,
        .own_loads = false,
        .estimates = seed % 9 != 0,
        .learns = seed % 9 != 0 && seed % 2,
        .one_by_one = seed % 10 == 3,
        .edges = seed % 4 != 2,
        .network = {seed % 5 == 1 ? 0.5 : 0.0, seed % 5 == 1 ? 0.25 : 0.0},
    };
}

/* ---- what a phase leaves to be seen ---- */

typedef struct seen {
    int64_t n;
    int32_t rank[ENTITIES];
    double load[ENTITIES], here[ENTITIES], time[RANKS], seconds, gain;
    int64_t bytes[ENTITIES], n_edges;
    int32_t src[ENTITIES], dst[ENTITIES];
    double edge_bytes[ENTITIES], edge_messages[ENTITIES];
    plb_metrics_t metrics;
    plb_iteration_t it;
} seen_t;

static void look_at_database(plb_phases_t *ph, seen_t *out)
{
    plb_database_t db;
    plb_err_t err = {0, ""};
    assert_int_equal(plb_phases_database(ph, &db, &err), PLB_OK);
    const plb_snapshot_t *s = &db.snapshot;
    assert_int_equal(s->n_objects, ph->n);
    for (int64_t k = 0; k < s->n_objects; k++) {
        assert_in_range(s->rank[k], 0, RANKS - 1);
        out->load[k] = ph->opt.estimates ? s->load[k] : 0.0;
        out->here[k] = db.here == NULL || !ph->opt.estimates ? 0.0 : db.here[k];
        out->bytes[k] = s->nbytes == NULL ? 0 : s->nbytes[k];
    }
    out->n_edges = s->n_edges;
    for (int64_t e = 0; e < s->n_edges; e++) {
        assert_in_range(s->edge_src[e], 0, s->n_objects - 1);
        assert_in_range(s->edge_dst[e], 0, s->n_objects - 1);
        out->src[e] = s->edge_src[e];
        out->dst[e] = s->edge_dst[e];
        out->edge_bytes[e] = s->edge_bytes[e];
        out->edge_messages[e] = s->edge_messages[e];
    }
}

/* Do an LB step: every object that may migrate goes to another rank; sometimes there are learned
 * speeds. */
static void move(plb_phases_t *ph, int64_t phase, uint64_t seed)
{
    int32_t rank[ENTITIES];
    const double speed[RANKS] = {1.0, seed % 2 ? 2.0 : 0.5, 0.25};
    for (int64_t k = 0; k < ph->n; k++) {
        const int32_t to = (int32_t)((ph->entity[k] + phase) % RANKS);
        rank[k] = ph->movable[k] && !ph->opt.as_recorded ? to : ph->rank[k];
    }
    plb_phases_move(ph, rank, phase % 2 ? speed : NULL);
}

static void run_phase(plb_phases_t *ph, int64_t i, int64_t phase, uint64_t seed, seen_t *out)
{
    plb_err_t err = {0, ""};
    memset(out, 0, sizeof *out);
    assert_int_equal(plb_phases_enter(ph, i, &err), PLB_OK);
    look_at_database(ph, out);
    if (ph->opt.estimates) {
        assert_int_equal(plb_phases_gain(ph, &out->gain, &err), PLB_OK);
        if ((phase + (int64_t)seed) % 7 == 0) {
            move(ph, phase, seed);
        }
    }
    plb_phases_run(ph);
    out->n = ph->n;
    memcpy(out->rank, ph->rank, (size_t)ph->n * sizeof *ph->rank);
    memcpy(out->time, ph->time, sizeof out->time);
    out->metrics = ph->metrics;
    out->seconds = plb_phases_time(ph);
    out->it = plb_phases_statistics(ph, phase);
    plb_phases_leave(ph);
}

/* Run the trace in parts, each in its own memory, which is freed before the next part begins; cut:
 * bits of the phases that begin a part. */
static void run_parts(const plb_trace_t *t, uint64_t seed, uint64_t cut, seen_t *out)
{
    const plb_phases_options_t opt = options_of(seed);
    plb_phases_t ph;
    plb_err_t err = {0, ""};
    assert_int_equal(plb_phases_init(&ph, &opt, &err), PLB_OK);
    for (int64_t begin = 0, end; begin < PHASES; begin = end) {
        for (end = begin + 1; end < PHASES && !(cut >> end & 1); end++) {
        }
        owned_t part = part_of(t, begin, end);
        if (plb_phases_begin(&ph, &part.trace, &err) != PLB_OK) {
            fail_msg("%s", err.text);
        }
        for (int64_t i = begin; i < end; i++) {
            run_phase(&ph, i - begin, i, seed, &out[i]);
        }
        double before = 0.0, after = 0.0;
        if (opt.estimates) {
            assert_int_equal(plb_phases_gain(&ph, &before, &err), PLB_OK);
        }
        assert_int_equal(plb_phases_pause(&ph, &err), PLB_OK);
        owned_free(&part);
        if (opt.estimates) {
            assert_int_equal(plb_phases_gain(&ph, &after, &err), PLB_OK);
        }
        assert_true(before == after);
    }
    plb_phases_free(&ph);
    plb_phases_free(&ph); /* freeing twice is allowed */
}

static void test_parts_give_what_the_whole_gives(void **state)
{
    (void)state;
    static seen_t whole[PHASES], parts[PHASES];
    for (uint64_t seed = 0; seed < 120; seed++) {
        plb_rng_t rng;
        plb_rng_init(&rng, seed);
        owned_t o = random_trace(seed);
        run_parts(&o.trace, seed, 0, whole);
        const uint64_t every = ~(uint64_t)0, some = plb_rng_below(&rng, (uint64_t)1 << PHASES);
        const uint64_t cuts[] = {every, some, some & some >> 7};
        for (int k = 0; k < 3; k++) {
            run_parts(&o.trace, seed, cuts[k], parts);
            assert_memory_equal(whole, parts, sizeof whole);
        }
        owned_free(&o);
    }
}

/* ---- loads of ranks ---- */

static void test_sums_are_exact(void **state)
{
    (void)state;
    static seen_t seen[PHASES];
    for (uint64_t seed = 0; seed < 120; seed++) {
        owned_t o = random_trace(seed);
        const plb_trace_t *t = &o.trace;
        if (t->speed == NULL && t->background == NULL && t->measured == NULL &&
            options_of(seed).network.alpha == 0.0) {
            run_parts(t, seed, 0, seen);
            for (int i = 0; i < PHASES; i++) {
                plb_exact_t sum[RANKS + 1] = {{{0}}};
                for (int64_t k = 0; k < seen[i].n; k++) {
                    plb_exact_add(&sum[seen[i].rank[k]], t->task_load[t->task_ptr[i] + k]);
                }
                for (int r = 0; r < RANKS; r++) {
                    assert_true(seen[i].time[r] == plb_exact_value(&sum[r]));
                    plb_exact_add(&sum[RANKS], seen[i].time[r]);
                }
                assert_true(seen[i].it.total == plb_exact_value(&sum[RANKS]));
                assert_true(seen[i].it.mean == seen[i].it.total / RANKS);
                assert_true(seen[i].it.max == seen[i].metrics.max);
                assert_true(seen[i].it.min == seen[i].metrics.min);
            }
        }
        owned_free(&o);
    }
}

/* Objects that may not migrate are on their recorded ranks; the others stay until they are
 * moved. */
static void test_objects_stay_where_they_are(void **state)
{
    (void)state;
    static seen_t seen[PHASES];
    for (uint64_t seed = 0; seed < 60; seed++) {
        owned_t o = random_trace(seed);
        const plb_trace_t *t = &o.trace;
        run_parts(t, seed, seed, seen);
        const plb_phases_options_t opt = options_of(seed);
        int32_t held[ENTITIES];
        bool here[ENTITIES] = {false};
        memset(held, 0xff, sizeof held);
        for (int64_t i = 0; i < PHASES; i++) {
            const int64_t first = t->task_ptr[i];
            const bool moves = opt.estimates && (i + (int64_t)seed) % 7 == 0;
            bool now[ENTITIES] = {false};
            assert_int_equal(seen[i].n, t->task_ptr[i + 1] - first);
            for (int64_t k = 0; k < seen[i].n; k++) {
                const int32_t e = t->task_entity[first + k], recorded = t->task_rank[first + k];
                const bool can = t->entity_migratable[e] && !opt.as_recorded;
                const int32_t home = t->task_home == NULL ? -1 : t->task_home[first + k];
                int32_t expected = !here[e] && home >= 0 ? home
                                   : held[e] >= 0        ? held[e]
                                                         : recorded;
                expected = !can ? recorded : moves ? (int32_t)((e + i) % RANKS) : expected;
                assert_int_equal(seen[i].rank[k], expected);
                held[e] = can ? expected : held[e];
                now[e] = true;
            }
            memcpy(here, now, sizeof here);
        }
        owned_free(&o);
    }
}

/* Objects that stay on their rank have the same load estimates as in a run. */
static void test_estimates(void **state)
{
    (void)state;
    enum { N = 5 };
    for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
        plb_rng_t rng;
        plb_rng_init(&rng, 1);
        owned_t o = {0};
        int64_t *ptr = space(&o, PHASES + 1, sizeof *ptr),
                *none = space(&o, PHASES + 1, sizeof *none);
        int32_t *entity = space(&o, PHASES * N, sizeof *entity);
        int32_t *rank = space(&o, PHASES * N, sizeof *rank);
        uint8_t *movable = space(&o, N, 1);
        memset(none, 0, (PHASES + 1) * sizeof *none);
        memset(movable, 1, N);
        for (int i = 0; i <= PHASES; i++) {
            ptr[i] = N * i;
        }
        for (int k = 0; k < PHASES * N; k++) {
            entity[k] = k % N;
            rank[k] = 0;
        }
        o.trace = (plb_trace_t){.n_phases = PHASES,
                                .n_entities = N,
                                .n_ranks = RANKS,
                                .entity_key = sizes(&o, N, &rng),
                                .entity_migratable = movable,
                                .task_ptr = ptr,
                                .task_entity = entity,
                                .task_rank = rank,
                                .task_load = reals(&o, PHASES * N, 0.1, &rng),
                                .edge_ptr = none};
        const plb_phases_options_t opt = {
            .n_ranks = RANKS, .estimates = true, .learns = true, .one_by_one = one_by_one};
        plb_phases_t ph;
        plb_err_t err = {0, ""};
        double table[PLB_ESTIMATE_ROWS * N] = {0.0};
        assert_int_equal(plb_phases_init(&ph, &opt, &err), PLB_OK);
        assert_int_equal(plb_phases_begin(&ph, &o.trace, &err), PLB_OK);
        for (int64_t i = 0; i < PHASES; i++) {
            plb_database_t db;
            assert_int_equal(plb_phases_enter(&ph, i, &err), PLB_OK);
            assert_int_equal(plb_phases_database(&ph, &db, &err), PLB_OK);
            assert_memory_equal(db.snapshot.load, table, N * sizeof *table);
            assert_memory_equal(db.here, table + PLB_ESTIMATE_HERE * N, N * sizeof *table);
            plb_phases_run(&ph);
            plb_phases_leave(&ph);
            const double *load = o.trace.task_load + N * i;
            for (int k = 0; k < N && one_by_one; k++) {
                plb_estimate_one(load[k], k, N, PLB_ESTIMATE_ROWS, table);
            }
            if (!one_by_one) {
                plb_estimate_update(load, N, table);
            }
        }
        plb_phases_free(&ph);
        owned_free(&o);
    }
}

/* ---- errors ---- */

static int run_or_fail(const plb_trace_t *t, uint64_t seed, plb_err_t *err)
{
    const plb_phases_options_t opt = options_of(seed);
    plb_phases_t ph;
    double gain;
    int ret = plb_phases_init(&ph, &opt, err);
    for (int64_t begin = 0; ret == PLB_OK && begin < PHASES; begin += PHASES / 2) {
        owned_t part = part_of(t, begin, begin + PHASES / 2);
        ret = plb_phases_begin(&ph, &part.trace, err);
        for (int64_t i = 0; ret == PLB_OK && i < PHASES / 2; i++) {
            plb_database_t db;
            if ((ret = plb_phases_enter(&ph, i, err)) ||
                (ret = plb_phases_database(&ph, &db, err))) {
                break;
            }
            plb_phases_run(&ph);
            plb_phases_leave(&ph);
        }
        if (ret == PLB_OK && (ret = plb_phases_pause(&ph, err)) == PLB_OK && opt.estimates) {
            ret = plb_phases_gain(&ph, &gain, err);
        }
        owned_free(&part);
    }
    plb_phases_free(&ph);
    return ret;
}

static void test_every_failed_allocation_is_reported(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 9; seed++) {
        owned_t o = random_trace(seed);
        int64_t n = 0;
        for (int ret = PLB_ERR_NOMEM; ret != PLB_OK; n++) {
            plb_err_t err = {0, ""};
            plb_mem_fail_at(n);
            ret = run_or_fail(&o.trace, seed, &err);
            plb_mem_fail_at(-1);
            assert_true(ret == PLB_OK || (ret == PLB_ERR_NOMEM && strlen(err.text) > 0));
        }
        assert_true(n > 20);
        owned_free(&o);
    }
}

/* Any single wrong element is an error when its phase begins. */
static void test_broken_traces_are_refused(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        owned_t o = random_trace(6 * seed + 1);
        plb_trace_t *t = &o.trace;
        plb_rng_t rng;
        plb_rng_init(&rng, seed);
        const uint64_t n = (uint64_t)t->task_ptr[PHASES], m = (uint64_t)t->edge_ptr[PHASES];
        const uint64_t k = plb_rng_below(&rng, n), e = plb_rng_below(&rng, m);
        const int32_t index = seed % 2 ? -1 - (int32_t)plb_rng_below(&rng, 1u << 31) : ENTITIES;
        const double figure = seed % 3 == 0 ? NAN : seed % 3 == 1 ? INFINITY : -1e-300;
        switch (plb_rng_below(&rng, 8)) {
        case 0:
            ((int32_t *)t->task_entity)[k] = index;
            break;
        case 1:
            ((int32_t *)t->task_rank)[k] = index;
            break;
        case 2:
            ((int32_t *)t->task_home)[k] = index;
            break;
        case 3:
            ((double *)t->task_load)[k] = figure;
            break;
        case 4:
            ((int64_t *)t->task_ptr)[1 + plb_rng_below(&rng, PHASES)] = -1;
            break;
        case 5:
            ((int32_t *)t->edge_src)[e] = index;
            break;
        case 6:
            ((int32_t *)t->edge_dst)[e] = index;
            break;
        default:
            ((double *)t->edge_bytes)[e] = figure;
            break;
        }
        const plb_phases_options_t opt = {
            .n_ranks = RANKS, .estimates = true, .learns = true, .edges = true};
        plb_phases_t ph;
        plb_err_t err = {0, ""};
        assert_int_equal(plb_phases_init(&ph, &opt, &err), PLB_OK);
        int ret = plb_phases_begin(&ph, t, &err);
        for (int64_t i = 0; ret == PLB_OK && i < PHASES; i++) {
            if ((ret = plb_phases_enter(&ph, i, &err)) == PLB_OK) {
                plb_phases_run(&ph);
                plb_phases_leave(&ph);
            }
        }
        assert_true(ret == PLB_ERR_VALUE || ret == PLB_ERR_RANGE);
        assert_true(strlen(err.text) > 0 && err.code == ret);
        plb_phases_free(&ph);
        owned_free(&o);
    }
}

static void test_another_number_of_ranks_is_refused(void **state)
{
    (void)state;
    owned_t o = random_trace(1);
    const plb_phases_options_t opt = {.n_ranks = RANKS + 1};
    plb_phases_t ph;
    plb_err_t err = {0, ""};
    assert_int_equal(plb_phases_init(&ph, &opt, &err), PLB_OK);
    assert_int_equal(plb_phases_begin(&ph, &o.trace, &err), PLB_ERR_VALUE);
    assert_non_null(strstr(err.text, "n_ranks is 3: expected 4"));
    plb_phases_free(&ph);
    owned_free(&o);
}

/* ---- sums that are made ahead ---- */

enum { KINDS = 9 };

/* Loads whose sums are hard to round: ties, neighbours of ties, different magnitudes. */
static double hard(int kind, int64_t k, plb_rng_t *rng)
{
    const double u = plb_rng_uniform(rng);
    switch (kind) {
    case 0: /* ties of the rounding to 1, and small loads that break them */
        return k == 0 ? 1.0 : ldexp(1.0, -53 - (int)plb_rng_below(rng, 3));
    case 1: /* a tie, which one tiny load breaks */
        return k == 0 ? 1.0 + 0x1p-52 : k == 1 ? 0x1p-53 : ldexp(u, -100 - (int)(k % 80));
    case 2:
        return pow(10.0, -300.0 + 330.0 * u);
    case 3: /* many equal loads */
        return 0.1;
    case 4:
        return k % 3 == 0 ? 1e30 : k % 3 == 1 ? 1e14 : 1e-300;
    case 5: /* just above and below a power of two */
        return k == 0 ? 2.0 - 0x1p-52 : k % 2 ? 0x1p-53 : 0x1p-54;
    case 6:
        return plb_rng_below(rng, 2) ? 0.0 : ldexp(u, (int)plb_rng_below(rng, 120) - 90);
    case 7: /* smaller than the lowest bit of an exact sum */
        return ldexp(u, -180 - (int)plb_rng_below(rng, 40));
    default:
        return u;
    }
}

static void check_ahead(int kind, int64_t n, int n_phases, int32_t p, uint64_t seed)
{
    owned_t o = {0};
    plb_rng_t rng;
    plb_rng_init(&rng, seed);
    double *load = space(&o, n * n_phases, sizeof *load);
    int32_t *rank = ints(&o, n, p, &rng);
    double *sum = space(&o, (int64_t)p * PLB_SUM_PHASES, sizeof *sum);
    double *room = space(&o, 2 * (int64_t)p * PLB_SUM_PHASES, sizeof *room);
    for (int64_t k = 0; k < n * n_phases; k++) {
        load[k] = hard(kind, k % n, &rng);
    }
    for (int64_t k = n - 1; k > 0 && seed % 2; k--) { /* in another order */
        const int64_t j = (int64_t)plb_rng_below(&rng, (uint64_t)k + 1);
        const double swap = load[k];
        load[k] = load[j];
        load[j] = swap;
    }
    plb_load_sums(load, n, n_phases, rank, p, sum, room);
    for (int j = 0; j < n_phases; j++) {
        for (int32_t r = 0; r < p; r++) {
            plb_exact_t of = {{0}};
            for (int64_t k = 0; k < n; k++) {
                if (rank[k] == r) {
                    plb_exact_add(&of, load[j * n + k]);
                }
            }
            assert_true(sum[r * PLB_SUM_PHASES + j] == plb_exact_value(&of));
        }
    }
    owned_free(&o);
}

static void test_sums_ahead_are_rounded_once(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 3, 4, 7, 30, 1000};
    for (int kind = 0; kind < KINDS; kind++) {
        for (uint64_t seed = 0; seed < 60; seed++) {
            const int64_t n = counts[seed % 8];
            const int32_t p = seed % 3 == 0 ? 1 : (int32_t)(1 + seed % 7);
            check_ahead(kind, n, 1 + (int)(seed / 8 % PLB_SUM_PHASES), p, seed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_give_what_the_whole_gives),
        cmocka_unit_test(test_sums_are_exact),
        cmocka_unit_test(test_objects_stay_where_they_are),
        cmocka_unit_test(test_estimates),
        cmocka_unit_test(test_every_failed_allocation_is_reported),
        cmocka_unit_test(test_broken_traces_are_refused),
        cmocka_unit_test(test_another_number_of_ranks_is_refused),
        cmocka_unit_test(test_sums_ahead_are_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
