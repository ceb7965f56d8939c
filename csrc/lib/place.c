/* Calls that need no advisor: strategies and triggers by name, the program's own included;
 * placement and metrics; triggers for programs that reduce their own statistics. */
#include "lib/internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "partition/partition.h"

/* X(field): the fields that pylb_snapshot and plb_snapshot_t have in common. */
#define SHARED(X)                                                                                 \
    X(n_objects)                                                                                  \
    X(n_ranks)                                                                                    \
    X(load)                                                                                       \
    X(rank)                                                                                       \
    X(key)                                                                                        \
    X(nbytes)                                                                                     \
    X(memory)                                                                                     \
    X(migratable)                                                                                 \
    X(coords)                                                                                     \
    X(n_edges)                                                                                    \
    X(edge_src)                                                                                   \
    X(edge_dst)                                                                                   \
    X(edge_bytes)                                                                                 \
    X(edge_messages)                                                                              \
    X(speed)                                                                                      \
    X(background)                                                                                 \
    X(memory_limit)                                                                               \
    X(node_memory_limit)                                                                          \
    X(node)                                                                                       \
    X(near)

/* Make the internal view of a public snapshot, and check it. */
static int view(const pylb_snapshot *from, plb_snapshot_t *out, plb_err_t *err)
{
    PLB_FAIL_IF(from == NULL || from->size != sizeof *from, err, PLB_ERR_VALUE,
                "the snapshot is %s: expected one that pylb_snapshot_init() prepared",
                from == NULL ? "NULL" : "of another size");
    *out = (plb_snapshot_t){.n_components = 1};
#define X(field) out->field = from->field;
    SHARED(X)
#undef X
    PLB_FAIL_IF(from->n_objects > 0 && (from->load == NULL || from->rank == NULL), err,
                PLB_ERR_VALUE, "%s of the snapshot is NULL: expected %lld values",
                from->load == NULL ? "load" : "rank", (long long)from->n_objects);
    PLB_FAIL_IF(from->n_edges > 0 &&
                    (from->edge_src == NULL || from->edge_dst == NULL || from->edge_bytes == NULL),
                err, PLB_ERR_VALUE,
                "the snapshot has %lld edges: expected edge_src, edge_dst and edge_bytes",
                (long long)from->n_edges);
    return plb_snapshot_check(out, err);
}

void pylb_snapshot_init(pylb_snapshot *snapshot)
{
    memset(snapshot, 0, sizeof *snapshot);
    snapshot->size = sizeof *snapshot;
}

/* A strategy or trigger that the program has registered.  It stays until the process ends. */
typedef struct own {
    plb_strategy_t strategy; /* zero if this is a trigger */
    plb_trigger_kind_t kind; /* zero if this is a strategy */
    pylb_strategy_fn place;  /* NULL if this is a trigger */
    pylb_trigger_fn when;    /* NULL if this is a strategy */
    void *user;
    struct own *next;
    char name[];
} own_t;

static _Atomic(own_t *) owns;

static own_t *find_own(const char *name, bool trigger)
{
    for (own_t *o = atomic_load(&owns); o != NULL; o = o->next) {
        if ((o->when != NULL) == trigger && strcmp(o->name, name) == 0) {
            return o;
        }
    }
    return NULL;
}

/* ---- find ----------------------------------------------------------------------------------- */

static bool is_offered(const plb_strategy_t *s)
{
    return s->agent == NULL && (s->library == NULL || plb_partitioner_find(s->library) != NULL);
}

bool plb_registered_is_selectable(const plb_strategy_t *s)
{
    return is_offered(s) && !s->for_equal_objects && (s->looks_at & PLB_LOOKS_COORDS) == 0 &&
           (s->looks_at & (PLB_LOOKS_LOAD | PLB_LOOKS_COMM)) != 0;
}

int plb_registered_strategy(const char *name, const plb_strategy_t **out, plb_err_t *err)
{
    const own_t *own = find_own(name, false);
    const plb_strategy_t *found = own != NULL ? &own->strategy : plb_strategy_find(name);
    PLB_FAIL_IF(found == NULL, err, PLB_ERR_KEY,
                "strategy is \"%.100s\": expected \"auto\" or a name that pylb_strategy_name() "
                "returns",
                name);
    PLB_FAIL_IF(!is_offered(found), err, PLB_ERR_MISSING,
                "strategy %s %s, which the C library does not offer", name,
                found->agent != NULL ? "is distributed" : "needs another library");
    *out = found;
    return PLB_OK;
}

int plb_registered_trigger(const char *name, const plb_trigger_kind_t **out, plb_err_t *err)
{
    const own_t *own = find_own(name, true);
    const plb_trigger_kind_t *found = own != NULL ? &own->kind : plb_trigger_find(name);
    PLB_FAIL_IF(found == NULL, err, PLB_ERR_KEY,
                "trigger is \"%.100s\": expected a name that pylb_trigger_name() returns", name);
    *out = found;
    return PLB_OK;
}

static int run_own(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                   int32_t *out, plb_err_t *err)
{
    const own_t *own = self->user;
    pylb_snapshot shown;
    /* Make the public view of an internal snapshot, for functions of the program. */
    pylb_snapshot_init(&shown);
#define X(field) shown.field = in->field;
    SHARED(X)
#undef X
    const int code = own->place(&shown, opts->seed, out, own->user);
    return code == 0 ? PLB_OK
                     : PLB_FAIL(err, PLB_ERR_CALLBACK, "strategy %s has failed: it returned %d",
                                self->name, code);
}

/* Call the user's function, which is in the own_t that contains *self->kind. */
static void observe_own(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    const own_t *own = (const own_t *)((const char *)self->kind - offsetof(own_t, kind));
    const plb_cycle_t *c = &self->cycle;
    const pylb_cycle cycle = {c->n, c->u, c->U, o->max, o->mean, self->cost};
    const int says = own->when(&cycle, own->user);
    self->failed = says == 0 || says == 1 ? PLB_OK : PLB_ERR_CALLBACK;
    v->excess = c->U;
    v->reason = says == 1 ? PLB_REASON_ASKED : PLB_REASON_EARLY;
}

bool plb_registered_is_own(const plb_trigger_kind_t *kind)
{
    return kind->observe == observe_own;
}

/* ---- register ------------------------------------------------------------------------------- */

static int make_own(const char *name, void *user, own_t **out, plb_err_t *err)
{
    const size_t size = strlen(name) + 1;
    own_t *self = plb_calloc(1, sizeof *self + size);
    PLB_FAIL_IF(self == NULL, err, PLB_ERR_NOMEM, "out of memory: %.100s is not registered", name);
    memcpy(self->name, name, size);
    self->user = user;
    *out = self;
    return PLB_OK;
}

static void add(own_t *self)
{
    self->next = atomic_load(&owns);
    while (!atomic_compare_exchange_weak(&owns, &self->next, self)) {
    }
}

static int check_name(const char *name, bool is_null, bool is_known, plb_err_t *err)
{
    PLB_FAIL_IF(name == NULL || *name == '\0' || is_null, err, PLB_ERR_VALUE,
                "the name is empty, or the name or the function is NULL: expected a name and a "
                "function");
    for (const char *at = name; *at != '\0'; at++) { /* a run record has the name in quotes */
        PLB_FAIL_IF((unsigned char)*at < ' ' || *at == '"' || *at == '\\', err, PLB_ERR_VALUE,
                    "the name has the character %d: expected no control character, quote or "
                    "backslash",
                    *at);
    }
    return is_known ? PLB_FAIL(err, PLB_ERR_KEY, "\"%.100s\" is registered already", name)
                    : PLB_OK;
}

int pylb_strategy_register(const char *name, pylb_strategy_fn strategy, void *user)
{
    plb_err_t *err = plb_lib_error();
    own_t *self = NULL;
    PLB_FAIL_IF(
        name != NULL && strcmp(name, "auto") == 0, err, PLB_ERR_KEY,
        "the name is \"auto\", which lets pylb choose the strategy: expected another name");
    PLB_PASS(check_name(name, strategy == NULL,
                        name != NULL && (find_own(name, false) || plb_strategy_find(name)), err));
    PLB_PASS(make_own(name, user, &self, err));
    self->place = strategy;
    self->strategy = (plb_strategy_t){.name = self->name,
                                      .help = "a function of the program",
                                      .source = "",
                                      .looks_at = ~0u,
                                      .run = run_own,
                                      .user = self};
    add(self);
    return PLB_OK;
}

int pylb_trigger_register(const char *name, pylb_trigger_fn trigger, void *user)
{
    plb_err_t *err = plb_lib_error();
    own_t *self = NULL;
    PLB_PASS(check_name(name, trigger == NULL,
                        name != NULL && (find_own(name, true) || plb_trigger_find(name)), err));
    PLB_PASS(make_own(name, user, &self, err));
    self->when = trigger;
    self->kind = (plb_trigger_kind_t){.name = self->name,
                                      .help = "a function of the program",
                                      .source = "",
                                      .observe = observe_own};
    add(self);
    return PLB_OK;
}

/* ---- lists ---------------------------------------------------------------------------------- */

static const plb_strategy_t *strategy_at(int i)
{
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL; s++) {
        if (is_offered(*s) && i-- == 0) {
            return *s;
        }
    }
    for (const own_t *o = atomic_load(&owns); o != NULL; o = o->next) {
        if (o->place != NULL && i-- == 0) {
            return &o->strategy;
        }
    }
    return NULL;
}

static const plb_trigger_kind_t *trigger_at(int i)
{
    for (const plb_trigger_kind_t *const *t = plb_triggers; *t != NULL; t++) {
        if (i-- == 0) {
            return *t;
        }
    }
    for (const own_t *o = atomic_load(&owns); o != NULL; o = o->next) {
        if (o->when != NULL && i-- == 0) {
            return &o->kind;
        }
    }
    return NULL;
}

const char *pylb_strategy_name(int i)
{
    const plb_strategy_t *s = i < 0 ? NULL : strategy_at(i);
    return s == NULL ? NULL : s->name;
}

const char *pylb_strategy_help(int i)
{
    const plb_strategy_t *s = i < 0 ? NULL : strategy_at(i);
    return s == NULL ? NULL : s->help;
}

const char *pylb_trigger_name(int i)
{
    const plb_trigger_kind_t *t = i < 0 ? NULL : trigger_at(i);
    return t == NULL ? NULL : t->name;
}

const char *pylb_trigger_help(int i)
{
    const plb_trigger_kind_t *t = i < 0 ? NULL : trigger_at(i);
    return t == NULL ? NULL : t->help;
}

/* ---- triggers for programs that reduce their own statistics --------------------------------- */

struct pylb_trigger {
    plb_handle_t handle;
};

static int make(const plb_trigger_kind_t *kind, const char *params, plb_trigger_t **out,
                plb_err_t *err)
{
    int ret = PLB_OK;
    double *value = NULL;
    *out = NULL;
    PLB_TRY(plb_option_params(kind->params, kind->n_params, kind->name, params, &value, err));
    PLB_NEW0(*out, 1);
    ret = plb_trigger_init(*out, kind, value, err);
out:
    plb_free(value);
    if (ret != PLB_OK) {
        plb_free(*out);
    }
    return ret;
}

int pylb_trigger_create(const char *name, const char *params, pylb_trigger **trigger)
{
    plb_err_t *err = plb_lib_error();
    const plb_trigger_kind_t *kind = NULL;
    plb_trigger_t *core;
    plb_handle_t *handle;
    PLB_FAIL_IF(name == NULL || trigger == NULL, err, PLB_ERR_VALUE, "%s is NULL",
                name == NULL ? "name" : "trigger");
    PLB_PASS(plb_registered_trigger(name, &kind, err));
    PLB_PASS(make(kind, params, &core, err));
    const int ret = plb_handle_open(PLB_HANDLE_TRIGGER, core, &handle, err);
    if (ret != PLB_OK) {
        plb_trigger_free(core);
        plb_free(core);
        return ret;
    }
    *trigger = (pylb_trigger *)handle;
    return PLB_OK;
}

static plb_trigger_t *core_of(const pylb_trigger *trigger, plb_err_t *err)
{
    return plb_handle_content((const plb_handle_t *)trigger, PLB_HANDLE_TRIGGER, err);
}

int pylb_trigger_close(pylb_trigger **trigger)
{
    plb_err_t *err = plb_lib_error();
    if (trigger == NULL || *trigger == NULL) {
        return PLB_OK;
    }
    plb_trigger_t *core = core_of(*trigger, err);
    if (core == NULL) {
        return err->code;
    }
    plb_trigger_free(core);
    plb_free(core);
    ((plb_handle_t *)*trigger)->content = NULL;
    *trigger = NULL;
    return PLB_OK;
}

int pylb_trigger_expect(pylb_trigger *trigger, int64_t n, double cost)
{
    plb_err_t *err = plb_lib_error();
    plb_trigger_t *core = core_of(trigger, err);
    return core == NULL ? err->code : plb_trigger_expect(core, n < 0 ? INT64_MAX : n, cost, err);
}

int pylb_trigger_observe(pylb_trigger *trigger, int64_t iteration, double max, double mean,
                         int *rebalance)
{
    plb_err_t *err = plb_lib_error();
    plb_trigger_t *core = core_of(trigger, err);
    const plb_observation_t o = {iteration, max, mean};
    if (core == NULL) {
        return err->code;
    }
    PLB_FAIL_IF(rebalance == NULL, err, PLB_ERR_VALUE, "rebalance is NULL");
    PLB_PASS(plb_trigger_observe(core, &o, err));
    *rebalance = core->verdict.balance;
    return PLB_OK;
}

int pylb_trigger_balanced(pylb_trigger *trigger, int64_t iteration, double cost,
                          double max_over_mean)
{
    plb_err_t *err = plb_lib_error();
    plb_trigger_t *core = core_of(trigger, err);
    return core == NULL ? err->code
                        : plb_trigger_balanced(core, iteration, cost, max_over_mean, err);
}

const char *pylb_trigger_reason(const pylb_trigger *trigger)
{
    const plb_trigger_t *core = core_of(trigger, plb_lib_error());
    return core == NULL ? NULL : plb_reason_words[core->verdict.reason];
}

/* ---- placement and metrics ------------------------------------------------------------------ */

static const plb_param_t auto_params[] = {
    PLB_SELECTION(PLB_PARAM_ROW){"alpha", "s", "cost of a message", 2e-6, 0.0, 1e30},
    {"beta", "s", "cost of a byte", 1e-10, 0.0, 1e30},
};
enum { ALPHA = PLB_N_SELECTION, BETA, N_AUTO };

/* Place as an advisor's first LB step would do; Python's choose_and_place does the same. */
static int place_auto(const plb_snapshot_t *in, const char *params, uint64_t seed, int32_t *rank,
                      plb_err_t *err)
{
    int ret = PLB_OK;
    double *value = NULL, *speed = NULL, every = 1.0;
    plb_settings_t settings = {.seed = (int64_t)seed, .steps = -1, .trigger_params = &every};
    plb_trigger_t trigger = {0};
    plb_decider_t decider = {0};
    plb_placing_t placing;
    PLB_TRY(plb_option_params(auto_params, N_AUTO, "auto", params, &value, err));
    PLB_TRY(plb_registered_trigger("periodic", &settings.trigger, err));
    settings.strategy_params = value;
    settings.network = (plb_network_t){value[ALPHA], value[BETA]};
    PLB_TRY(plb_lib_decider_init(&decider, &trigger, &settings, true, in->n_ranks, err));
    PLB_TRY(plb_decider_see(&decider, in, err));
    PLB_TRY(plb_decider_choose(&decider, NULL, 0, err));
    PLB_NEW(speed, in->n_ranks);
    const plb_database_t all = {.snapshot = *in};
    ret = plb_decider_place(&decider, &all, rank, speed, &placing, err);
out:
    plb_decider_free(&decider);
    plb_trigger_free(&trigger);
    PLB_FREE(value, speed);
    return ret;
}

static int place_by_name(const plb_snapshot_t *in, const char *strategy, const char *params,
                         uint64_t seed, int32_t *rank, plb_err_t *err)
{
    const plb_strategy_t *with;
    if (strcmp(strategy, "auto") == 0) {
        return place_auto(in, params, seed, rank, err);
    }
    PLB_PASS(plb_registered_strategy(strategy, &with, err));
    int ret = PLB_OK;
    double *value = NULL;
    PLB_TRY(plb_option_params(with->params, with->n_params, with->name, params, &value, err));
    const plb_opts_t opts = {.params = value, .seed = seed};
    PLB_TRY(plb_strategy_place(with, in, &opts, rank, err));
    ret = plb_snapshot_check_placement(in, rank, err);
out:
    plb_free(value);
    return ret;
}

int pylb_place(const pylb_snapshot *snapshot, const char *strategy, const char *params,
               uint64_t seed, int32_t *rank)
{
    plb_err_t *err = plb_lib_error();
    int ret = PLB_OK;
    plb_snapshot_t in;
    int32_t *placed = NULL; /* `rank` may be the array of the present ranks, and stays on errors */
    PLB_PASS(view(snapshot, &in, err));
    PLB_FAIL_IF(strategy == NULL || (rank == NULL && in.n_objects > 0), err, PLB_ERR_VALUE,
                "%s is NULL", strategy == NULL ? "strategy" : "rank");
    PLB_NEW0(placed, in.n_objects);
    PLB_TRY(place_by_name(&in, strategy, params, seed, placed, err));
    if (in.n_objects > 0) {
        memcpy(rank, placed, (size_t)in.n_objects * sizeof *rank);
    }
out:
    plb_free(placed);
    return ret;
}

int pylb_rank_times(const pylb_snapshot *snapshot, const int32_t *rank, double *time)
{
    plb_err_t *err = plb_lib_error();
    plb_snapshot_t in;
    PLB_PASS(view(snapshot, &in, err));
    PLB_FAIL_IF(time == NULL, err, PLB_ERR_VALUE, "time is NULL");
    if (rank != NULL) {
        PLB_PASS(plb_snapshot_check_placement(&in, rank, err));
    }
    plb_snapshot_rank_times(&in, rank, time);
    return PLB_OK;
}

int pylb_metrics_of(const double *time, int32_t n, pylb_metrics *metrics)
{
    plb_err_t *err = plb_lib_error();
    plb_metrics_t m;
    PLB_FAIL_IF(time == NULL || metrics == NULL || n < 1, err, PLB_ERR_VALUE,
                "time or metrics is NULL, or n is %d: expected 1 or more", (int)n);
    for (int32_t r = 0; r < n; r++) {
        PLB_FAIL_IF(!(time[r] >= 0.0 && time[r] <= 1e30), err, PLB_ERR_VALUE,
                    "time[%d] is %g: expected 0 ... 1e30 seconds", (int)r, time[r]);
    }
    plb_metrics_of(time, n, &m);
    *metrics = (pylb_metrics){m.max,     m.mean,       m.min,       m.std,     m.max_over_mean,
                              m.percent, m.efficiency, m.idle_mean, m.idle_max};
    return PLB_OK;
}
