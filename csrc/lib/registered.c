/* Strategies and triggers by name, including the program's own; snapshots of the program. */
#include "lib/internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
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

int plb_lib_view(const pylb_snapshot *from, plb_snapshot_t *out, plb_err_t *err)
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

static const char OF_PROGRAM[] = "a function of the program"; /* help */

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

/* Register a strategy or a trigger; *out: to be completed, and published by add(). */
static int make_own(const char *name, bool is_null, bool is_known, void *user, own_t **out,
                    plb_err_t *err)
{
    PLB_FAIL_IF(name == NULL || *name == '\0' || is_null, err, PLB_ERR_VALUE,
                "the name is empty, or the name or the function is NULL: expected a name and a "
                "function");
    for (const char *at = name; *at != '\0'; at++) { /* a run record has the name in quotes */
        PLB_FAIL_IF(*at < ' ' || *at > '~' || *at == '"' || *at == '\\', err, PLB_ERR_VALUE,
                    "the name has the character %d: expected printable ASCII without quotes and "
                    "backslashes",
                    (unsigned char)*at);
    }
    PLB_FAIL_IF(is_known, err, PLB_ERR_KEY, "\"%.100s\" is registered already", name);
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

int pylb_strategy_register(const char *name, pylb_strategy_fn strategy, void *user)
{
    plb_err_t *err = plb_lib_error();
    own_t *self = NULL;
    PLB_FAIL_IF(
        name != NULL && strcmp(name, "auto") == 0, err, PLB_ERR_KEY,
        "the name is \"auto\", which lets pylb choose the strategy: expected another name");
    const bool known = name != NULL && (find_own(name, false) || plb_strategy_find(name));
    PLB_PASS(make_own(name, strategy == NULL, known, user, &self, err));
    self->place = strategy;
    self->strategy = (plb_strategy_t){.name = self->name,
                                      .help = OF_PROGRAM,
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
    const bool known = name != NULL && (find_own(name, true) || plb_trigger_find(name));
    PLB_PASS(make_own(name, trigger == NULL, known, user, &self, err));
    self->when = trigger;
    self->kind = (plb_trigger_kind_t){
        .name = self->name, .help = OF_PROGRAM, .source = "", .observe = observe_own};
    add(self);
    return PLB_OK;
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* The name, or the help, of entry i of the strategies or triggers: pylb's, then the program's. */
static const char *listed(int i, bool triggers, bool help)
{
    for (const plb_strategy_t *const *s = plb_strategies; !triggers && *s != NULL; s++) {
        if (is_offered(*s) && i-- == 0) {
            return help ? (*s)->help : (*s)->name;
        }
    }
    for (const plb_trigger_kind_t *const *t = plb_triggers; triggers && *t != NULL; t++) {
        if (i-- == 0) {
            return help ? (*t)->help : (*t)->name;
        }
    }
    for (const own_t *o = atomic_load(&owns); o != NULL; o = o->next) {
        if ((triggers ? o->when != NULL : o->place != NULL) && i-- == 0) {
            return help ? OF_PROGRAM : o->name;
        }
    }
    return NULL;
}

const char *pylb_strategy_name(int i)
{
    return listed(i, false, false);
}

const char *pylb_strategy_help(int i)
{
    return listed(i, false, true);
}

const char *pylb_trigger_name(int i)
{
    return listed(i, true, false);
}

const char *pylb_trigger_help(int i)
{
    return listed(i, true, true);
}
