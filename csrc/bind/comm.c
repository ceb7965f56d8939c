/* Python binding of the part of csrc/comm without MPI. */
#include "bind/convert.h"
#include "comm/share.h"

PLB_PY_DEF(fn, route, "destination n_ranks",
           "Return the route (rank, start, order) of items to the ranks destination[n]: items\n"
           "start[i] ... start[i+1]-1 of `order` go to rank[i].  order None: already sorted.")
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
 * table (comm/table.c). */
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

typedef struct table {
    PLB_PY_HEAD plb_table_t core;
} table_t;

static int table_init(table_t *self, plb_py_call_t *c)
{
    (void)self;
    (void)c;
    return 0;
}

static void table_fini(table_t *self)
{
    plb_table_free(&self->core);
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
    return PLB_PY_UNLOCKED(c, plb_table_put(&self->core, id, value, n, &c->err));
}

PLB_PY_DEF(table, find, "ids", "Return the number of each id, int32; -1: it has none.")
{
    const int64_t *id;
    int64_t n = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&id, &n)));
    int32_t *value = plb_py_new(c, NPY_INT32, n);
    PLB_PASS(PLB_PY_UNLOCKED(c, (plb_table_find(&self->core, id, n, value), PLB_OK)));
    return plb_py_answer(c, plb_py_out(c, value));
}

PLB_PY_DEF(table, remove, "ids", "Remove ids.  Returns how many of them were in the table.")
{
    const int64_t *id;
    int64_t n = -1, found;
    PLB_PASS(PLB_READ(c, PLB_MANY(&id, &n)));
    PLB_PASS(PLB_PY_UNLOCKED(c, (found = plb_table_remove(&self->core, id, n), PLB_OK)));
    return plb_py_answer(c, PyLong_FromLongLong(found));
}

PLB_PY_DEF(table, ids, "", "Return all ids, in arbitrary order.")
{
    int64_t *ids = plb_py_new(c, NPY_INT64, self->core.n);
    PLB_PASS(ids == NULL);
    plb_table_ids(&self->core, ids);
    return plb_py_answer(c, plb_py_out(c, ids));
}

static const plb_py_def_t *const table_methods[] = {&table_put, &table_find, &table_remove,
                                                    &table_ids, NULL};

static Py_ssize_t table_length(PyObject *object)
{
    return ((table_t *)object)->core.n;
}

#define TABLE(X)                                                                                  \
    X(table, nbytes, PyLong_FromLongLong(plb_table_bytes(&self->core)),                           \
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
