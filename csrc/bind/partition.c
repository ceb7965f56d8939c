/* Python binding of csrc/partition: libraries, checks of rows, fill, numbers of parts; Mt-KaHyPar.
 */
#include "partition/partition.h"

#include "bind/library.h"

/* Get the part of each vertex from the library (NULL: the parts are in part[] already), improve
 * the parts by V-cycles, unless `cycles` is negative, and repair them. */
static int answer(const plb_partitioner_t *library, const plb_question_t *q, int32_t cycles,
                  int32_t *part, plb_err_t *err)
{
    PLB_PASS(library != NULL ? plb_partition_run(library, q, part, err)
                             : plb_partition_check(q, err));
    for (int32_t v = 0; v < q->n_vertices; v++) {
        PLB_FAIL_IF(part[v] < 0 || part[v] >= q->n_parts, err, PLB_ERR_RANGE,
                    "part[%d] is %d: expected 0 ... %d", v, part[v], q->n_parts - 1);
    }
    if (cycles >= 0) {
        PLB_PASS(plb_partition_improve(q, cycles, part, err));
    }
    return cycles >= 0 || library == NULL ? plb_partition_repair(q, part, err) : PLB_OK;
}

PLB_PY_DEF(
    fn, partition,
    "library:? vertices parts * n_weights=1 n_dims=0 imbalance=1.03 seed=0 cycles=-1 options:L=[] "
    "... weight:@?=None share:@?=None start:@+?=None to:@?=None edge_weight:@?=None "
    "net_start:@+?=None pin:@?=None net_weight:@?=None coords:@?=None fixed:@?=None old:@?=None "
    "old_cost:@?=None part:@?=None",
    "Return the part of each vertex.")
{
    const char *name;
    int32_t cycles = -1, *part;
    const int32_t *given = NULL;
    plb_question_t q = {.n_weights = 1, .imbalance = 1.03};
    PyObject *options = NULL;
    PLB_PASS(PLB_READ(c, PLB_ONE(&name), PLB_ONE(&q.n_vertices), PLB_ONE(&q.n_parts),
                      PLB_ONE(&q.n_weights), PLB_ONE(&q.n_dims), PLB_ONE(&q.imbalance),
                      PLB_ONE(&q.seed), PLB_ONE(&cycles), PLB_ONE(&options)));
    const plb_partitioner_t *library = name == NULL ? NULL : plb_partitioner_find(name);
    PLB_FAIL_IF(name != NULL && library == NULL, &c->err, PLB_ERR_MISSING,
                "%s has not been loaded", name);
    int64_t n = q.n_vertices, k = q.n_parts, m = -1, nets = -1, pins = -1;
    int64_t weights = n * q.n_weights, coords = n * q.n_dims;
    PLB_PASS(PLB_READ(c, PLB_MANY(&q.weight, &weights), PLB_MANY(&q.share, &k),
                      PLB_MANY(&q.start, &n), PLB_MANY(&q.to, &m), PLB_MANY(&q.edge_weight, &m),
                      PLB_MANY(&q.net_start, &nets), PLB_MANY(&q.pin, &pins),
                      PLB_MANY(&q.net_weight, &nets), PLB_MANY(&q.coords, &coords),
                      PLB_MANY(&q.fixed, &n), PLB_MANY(&q.old, &n), PLB_MANY(&q.old_cost, &n),
                      PLB_MANY(&given, &n)));
    /* Check that the rows of the graph and of the nets end where their arrays end. */
    q.n_nets = nets < 0 ? 0 : (int32_t)nets;
    const bool graph = q.start == NULL || q.start[q.n_vertices] == (m < 0 ? 0 : m);
    PLB_PASS(plb_py_refuse(
        !graph || (q.net_start != NULL && q.net_start[q.n_nets] != (pins < 0 ? 0 : pins)),
        PyExc_ValueError, "%s: expected its last entry to be the length of %s",
        graph ? "net_start" : "start", graph ? "pin" : "to"));
    PLB_PASS(plb_py_options(c, options, &q.option, &q.n_options));
    PLB_FAIL_IF((library == NULL) != (given != NULL), &c->err, PLB_ERR_VALUE,
                "library and part: expected exactly one of the two");
    PLB_PASS((part = plb_py_new(c, NPY_INT32, n)) == NULL);
    if (given != NULL) {
        memcpy(part, given, (size_t)n * sizeof *part);
    }
    PLB_PASS(PLB_PY_UNLOCKED(c, answer(library, &q, cycles, part, &c->err)));
    return plb_py_answer(c, plb_py_sealed(c, part));
}

PLB_PY_DEF(fn, fill, "start:+ to perm",
           "Count the entries in each column of the Cholesky factor; perm: vertices' new numbers.")
{
    const int64_t *start;
    const int32_t *to, *perm;
    int64_t rows = -1, m = -1, n = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&start, &rows), PLB_MANY(&to, &m), PLB_MANY(&perm, &n)));
    bool good = rows == n && n < INT32_MAX && plb_py_rises(start, n, m);
    for (int64_t e = 0; good && e < m; e++) {
        good = to[e] >= 0 && to[e] < n;
    }
    PLB_PASS(plb_py_refuse(
        !good, PyExc_ValueError,
        "start, to, perm: expected rows of a graph, and a new number for each vertex"));
    int64_t *entries = plb_py_new(c, NPY_INT64, n);
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_cholesky_fill((int32_t)n, start, to, perm, entries, &c->err)));
    return plb_py_answer(c, plb_py_out(c, entries));
}

PLB_PY_DEF(fn, scan_rows, "name start:+ to first objects", "Check the rows of a graph or of nets.")
{
    const char *name;
    plb_rows_t rows = {.n = -1};
    plb_scan_t out;
    int64_t first, objects, n_entries = -1;
    PLB_PASS(PLB_READ(c, PLB_ONE(&name), PLB_MANY(&rows.start, &rows.n),
                      PLB_MANY(&rows.to, &n_entries), PLB_ONE(&first), PLB_ONE(&objects)));
    PLB_PASS(
        PLB_PY_UNLOCKED(c, plb_rows_scan(&rows, name, n_entries, first, objects, &out, &c->err)));
    return plb_py_answer(c, Py_BuildValue("LL", (long long)out.loops, (long long)out.skew));
}

PLB_PY_DEF(fn, remap,
           "parts ranks ... share:@? fixed:@? kept_part:@? kept_old:@? kept:@? on_rank:@?",
           "Return the new number of each part, so that much stays (csrc/partition/partition.h).")
{
    plb_new_names_t in = {0};
    PLB_PASS(PLB_READ(c, PLB_ONE(&in.n_parts), PLB_ONE(&in.n_ranks)));
    int64_t k = in.n_parts, kept = -1, on_rank = k * in.n_ranks;
    PLB_PASS(PLB_READ(c, PLB_MANY(&in.share, &k), PLB_MANY(&in.fixed, &k),
                      PLB_MANY(&in.part, &kept), PLB_MANY(&in.old, &kept),
                      PLB_MANY(&in.kept, &kept), PLB_MANY(&in.on_rank, &on_rank)));
    int32_t *name = plb_py_new(c, NPY_INT32, k);
    in.n_kept = in.kept == NULL ? 0 : kept;
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_remap(&in, name, &c->err)));
    return plb_py_answer(c, plb_py_sealed(c, name));
}

/* ---- Mt-KaHyPar ----------------------------------------------------------------------------- */

/* View `data` (NULL: None) as an array, which the package may read only during the call. */
static PyObject *shown(const void *data, npy_intp n, int type)
{
    return data == NULL ? Py_NewRef(Py_None)
                        : PyArray_SimpleNewFromData(1, &n, type, (void *)(uintptr_t)data);
}

static PyObject *answer_of(PyObject *module, const plb_question_t *q)
{
    const bool nets = q->net_start != NULL;
    const int32_t *start = nets ? q->net_start : q->start;
    const int32_t n_rows = nets ? q->n_nets : q->n_vertices;
    return PyObject_CallMethod(
        module, "answer_of", "iidiONNNNNN", q->n_vertices, q->n_parts, q->imbalance, q->seed,
        nets ? Py_True : Py_False, shown(q->weight, q->n_vertices, NPY_INT32),
        shown(q->share, q->n_parts, NPY_FLOAT64), shown(q->fixed, q->n_vertices, NPY_INT32),
        shown(start, n_rows + 1, NPY_INT32),
        shown(nets ? q->pin : q->to, start[n_rows], NPY_INT32),
        shown(nets ? q->net_weight : q->edge_weight, nets ? q->n_nets : start[n_rows], NPY_INT32));
}

static int run(const plb_question_t *q, int32_t *part, plb_err_t *err)
{
    PLB_FAIL_IF(q->n_options > 0, err, PLB_ERR_VALUE, "mtkahypar has no parameter %s",
                q->option[0]);
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *module = PyImport_ImportModule("pylb.partitioning.packages");
    PyObject *answer = module != NULL ? answer_of(module, q) : NULL;
    if (answer != NULL) {
        memcpy(part, PyArray_DATA((PyArrayObject *)answer), (size_t)q->n_vertices * sizeof *part);
    }
    const int ret =
        answer != NULL ? PLB_OK : PLB_FAIL(err, PLB_ERR_CALLBACK, "mtkahypar has raised an error");
    Py_XDECREF(answer);
    Py_XDECREF(module);
    PyGILState_Release(state);
    return ret;
}

static const plb_partitioner_t mtkahypar = {
    .name = "mtkahypar",
    .takes = PLB_TAKES_GRAPH | PLB_TAKES_HYPERGRAPH | PLB_TAKES_FIXED,
    .run = run,
};

PLB_PY_DEF(fn, install, "!partitioner",
           "Add the partitioner in a capsule to the table; None: Mt-KaHyPar.")
{
    const plb_partitioner_t *library =
        c->arg == Py_None ? &mtkahypar : PyCapsule_GetPointer(c->arg, plb_py_partitioner_name);
    PLB_PASS(library == NULL);
    return plb_partitioner_install(library, &c->err);
}

static const plb_py_def_t *const methods[] = {&fn_install,   &fn_partition, &fn_fill,
                                              &fn_scan_rows, &fn_remap,     NULL};

const plb_py_room_t plb_py_partition = {methods, {NULL}, NULL};
