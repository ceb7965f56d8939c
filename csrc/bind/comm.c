/* Python binding of the part of csrc/comm without MPI. */
#include "bind/views.h"
#include "comm/share.h"

PLB_PY_DEF(fn, route, "destination n_ranks",
           "Return the route (rank, start, order) of items to the ranks destination[n]: items "
           "start[i] ...")
{
    const int32_t *destination;
    int64_t n = -1;
    int32_t n_ranks;
    plb_route_t found;
    PLB_PASS(PLB_READ(c, PLB_MANY(&destination, &n), PLB_ONE(&n_ranks)));
    PLB_PASS(plb_py_refuse(n_ranks < 1, PyExc_ValueError, "n_ranks: expected 1 or more"));
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_route_init(&found, destination, n, n_ranks, &c->err)));
    return plb_py_answer(c, Py_BuildValue("NNN", plb_py_take(found.rank, found.n_peers, NPY_INT32),
                                          plb_py_take(found.start, found.n_peers + 1, NPY_INT64),
                                          plb_py_take(found.order, n, NPY_INT32)));
}

/* The upper bits of an id's hash choose the rank; the lower bits choose its slot in the rank's
 * table (below). */
static void homes(const int64_t *id, int64_t n, int32_t n_ranks, int32_t *rank)
{
    for (int64_t i = 0; i < n; i++) {
        rank[i] = (int32_t)(((plb_hash(id[i]) >> 32) * (uint64_t)n_ranks) >> 32);
    }
}

PLB_PY_DEF(fn, home, "ids n_ranks",
           "Return the rank that keeps the directory entry of each id, int32.")
{
    const int64_t *id;
    int64_t n = -1;
    int32_t n_ranks;
    PLB_PASS(PLB_READ(c, PLB_MANY(&id, &n), PLB_ONE(&n_ranks)));
    int32_t *rank = plb_py_new(c, NPY_INT32, n);
    PLB_PASS(PLB_PY_UNLOCKED(c, (homes(id, n, n_ranks, rank), PLB_OK)));
    return plb_py_answer(c, plb_py_out(c, rank));
}

static const plb_py_def_t *const methods[] = {&fn_route, &fn_home, NULL};

/* ---- numbers of ids ------------------------------------------------------------------------- */

/* A number, 0 or more, for each of some ids, in a hash table that is at most three quarters full.
 * (Each slot holds an id and its number.  A look-up among 2 * 10^6 ids takes twice as long with
 * plb_keys_t, whose slots refer to another array.) */
typedef struct table {
    PLB_PY_HEAD int64_t *id;  /* [n_slots] */
    int32_t *value;           /* [n_slots] */
    int64_t n_slots, n, used; /* n: number of entries; used: including removed entries */
} table_t;

enum {
    LEAST_SLOTS = 8,
    FREE = -1, /* values of a slot that was never used, and of an id that was removed */
    REMOVED = -2,
};

/* Return the slot of an id.  If the id never was in the table, return the free slot for it.  The
 * table has slots. */
static inline int64_t slot_of(const table_t *self, int64_t id)
{
    int64_t at = plb_slot_first(plb_hash(id), self->n_slots);
    while (self->value[at] != FREE && self->id[at] != id) {
        at = plb_slot_next(at, self->n_slots);
    }
    return at;
}

/* Fetch the slot of an id that is looked up soon: among 10^6 ids, each look-up waits for memory.
 */
static inline void fetch_ahead(const table_t *self, const int64_t *id, int64_t i, int64_t n)
{
    if (i + PLB_AHEAD < n) {
        const int64_t slot = plb_slot_first(plb_hash(id[i + PLB_AHEAD]), self->n_slots);
        __builtin_prefetch(&self->id[slot]);
        __builtin_prefetch(&self->value[slot]);
    }
}

/* Make room for more entries; those that were removed are left out. */
static int reserve(table_t *self, int64_t more, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t n = self->n + more;
    PLB_FAIL_IF(n > INT32_MAX, err, PLB_ERR_RANGE, "%lld ids on a rank: expected fewer than 2^31",
                (long long)n);
    if (4 * (self->used + more) < 3 * self->n_slots) {
        return PLB_OK;
    }
    table_t grown = {.n_slots = LEAST_SLOTS + n + n / 2};
    PLB_NEW_EACH(grown.n_slots, grown.id, grown.value);
    memset(grown.value, FREE, (size_t)grown.n_slots * sizeof *grown.value);
    for (int64_t i = 0; i < self->n_slots; i++) {
        if (self->value[i] >= 0) {
            const int64_t to = slot_of(&grown, self->id[i]);
            grown.id[to] = self->id[i];
            grown.value[to] = self->value[i];
        }
    }
    PLB_FREE(self->id, self->value);
    self->id = grown.id;
    self->value = grown.value;
    self->n_slots = grown.n_slots;
    self->used = self->n;
    return PLB_OK;
out:
    PLB_FREE(grown.id, grown.value);
    return ret;
}

static int table_init(table_t *self, plb_py_call_t *c)
{
    return reserve(self, 0, &c->err);
}

static void table_fini(table_t *self)
{
    PLB_FREE(self->id, self->value);
}

static int put_each(table_t *self, const int64_t *id, const int32_t *value, int64_t n,
                    plb_err_t *err)
{
    PLB_PASS(reserve(self, n, err));
    for (int64_t i = 0; i < n; i++) {
        fetch_ahead(self, id, i, n);
        const int64_t at = slot_of(self, id[i]);
        self->n += self->value[at] < 0;
        self->used += self->value[at] == FREE;
        self->id[at] = id[i];
        self->value[at] = value[i];
    }
    return PLB_OK;
}

/* Look up the numbers of ids (-1: there is none), and remove the ids if `removes` is true. */
static void find_each(table_t *self, const int64_t *id, int64_t n, bool removes, int32_t *value)
{
    for (int64_t i = 0; i < n; i++) {
        fetch_ahead(self, id, i, n);
        int32_t *const at = &self->value[slot_of(self, id[i])];
        value[i] = *at >= 0 ? *at : -1;
        if (removes && *at >= 0) {
            *at = REMOVED;
            self->n--;
        }
    }
}

PLB_PY_DEF(table, put, "ids numbers", "Set the numbers, 0 or more, of ids, which may be new.")
{
    const int64_t *id;
    const int32_t *value;
    int64_t n = -1;
    bool good = true;
    PLB_PASS(PLB_READ(c, PLB_MANY(&id, &n), PLB_MANY(&value, &n)));
    for (int64_t i = 0; i < n; i++) {
        good = good && value[i] >= 0;
    }
    PLB_PASS(plb_py_refuse(!good, PyExc_ValueError, "numbers: expected 0 or more"));
    return PLB_PY_UNLOCKED(c, put_each(self, id, value, n, &c->err));
}

static int found(table_t *self, plb_py_call_t *c, bool removes)
{
    const int64_t *id;
    int64_t n = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&id, &n)));
    int32_t *value = plb_py_new(c, NPY_INT32, n);
    PLB_PASS(PLB_PY_UNLOCKED(c, (find_each(self, id, n, removes, value), PLB_OK)));
    return plb_py_answer(c, plb_py_out(c, value));
}

PLB_PY_DEF(table, find, "ids", "Return the number of each id, int32; -1: it has none.")
{
    return found(self, c, false);
}

PLB_PY_DEF(table, remove, "ids", "Remove ids.  Returns the numbers that they had, like find().")
{
    return found(self, c, true);
}

PLB_PY_DEF(table, ids, "", "Return all ids, in arbitrary order.")
{
    int64_t *to = plb_py_new(c, NPY_INT64, self->n);
    PLB_PASS(to == NULL);
    for (int64_t i = 0, n = 0; i < self->n_slots; i++) {
        if (self->value[i] >= 0) {
            to[n++] = self->id[i];
        }
    }
    return plb_py_answer(c, plb_py_out(c, to));
}

static const plb_py_def_t *const table_methods[] = {&table_put, &table_find, &table_remove,
                                                    &table_ids, NULL};

static Py_ssize_t table_length(PyObject *object)
{
    return ((table_t *)object)->n;
}

#define TABLE(X)                                                                                  \
    X(table, nbytes,                                                                              \
      PyLong_FromLongLong(self->n_slots *(int64_t)(sizeof *self->id + sizeof *self->value)),      \
      "Bytes of memory that the table uses.")
PLB_PY_PROPERTIES(table, TABLE)

PLB_PY_TYPE(table, "pylb._core.Table", "", "A number for each of some ids.",
            {Py_tp_getset, table_getset}, {Py_sq_length, table_length}, )

static int constants(PyObject *module)
{
#define X(name, unit, help) #name,
    static const char *const names[] = {PLB_SHARE_FIGURES(X)};
#undef X
    return plb_py_add_value(module, "SHARE_FIGURES",
                            plb_py_names(names, sizeof names / sizeof *names));
}

const plb_py_room_t plb_py_comm = {methods, {&table_spec}, constants};
