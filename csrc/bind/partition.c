/* Python binding of csrc/partition: library calls, quality of partitions, objects that move. */
#include "bind/library.h"
#include "bind/rooms.h"
#include "partition/moves.h"
#include "partition/quality.h"
#include "partition/remap.h"

PLB_PY_FN1(install, partitioner,
           "Add a library to the table of partitioners, from the capsule of its module.")
{
    const plb_partitioner_t *library = PyCapsule_GetPointer(partitioner, PLB_PY_PARTITIONER);
    PLB_PY_GET(library);
    return PLB_PY_NONE(c, plb_partitioner_install(library, &c->err));
}

/* Check that the rows of the graph and of the nets end where their arrays end. */
static int finish(plb_question_t *q, int64_t m, int64_t nets, int64_t pins)
{
    q->n_nets = nets < 0 ? 0 : (int32_t)nets;
    const bool graph = q->start == NULL || q->start[q->n_vertices] == (m < 0 ? 0 : m);
    PLB_PY_REFUSE_IF(
        !graph || (q->net_start != NULL && q->net_start[q->n_nets] != (pins < 0 ? 0 : pins)),
        PyExc_ValueError, "%s: expected its last entry to be the length of %s",
        graph ? "net_start" : "start", graph ? "pin" : "to");
    return 0;
}

/* Get the part of each vertex from the library (NULL: the parts are in part[] already), improve
 * the parts by V-cycles, unless `cycles` is negative, and repair them. */
static int answer(const plb_partitioner_t *library, const plb_question_t *q, int32_t cycles,
                  int32_t *part, plb_err_t *err)
{
    int ret =
        library != NULL ? plb_partition_run(library, q, part, err) : plb_partition_check(q, err);
    for (int32_t v = 0; ret == PLB_OK && v < q->n_vertices; v++) {
        if (part[v] < 0 || part[v] >= q->n_parts) {
            ret = PLB_FAIL(err, PLB_ERR_RANGE, "part[%d] is %d: expected 0 ... %d", v, part[v],
                           q->n_parts - 1);
        }
    }
    if (ret == PLB_OK && cycles >= 0) {
        ret = plb_partition_improve(q, cycles, part, err);
    }
    return ret == PLB_OK && (cycles >= 0 || library == NULL) ? plb_partition_repair(q, part, err)
                                                             : ret;
}

PLB_PY_FN(
    partition,
    "library:z vertices:i parts:i * n_weights:i=1 n_dims:i=0 imbalance:d=1.03 seed:i=0 "
    "cycles:i=-1 options:L=[] ... weight:i4@?=None share:f8@?=None start:i4@+?=None to:i4@?=None "
    "edge_weight:i4@?=None net_start:i4@+?=None pin:i4@?=None net_weight:i4@?=None "
    "coords:f8@?=None fixed:i4@?=None old:i4@?=None old_cost:i4@?=None part:i4@?=None",
    "Return the part of each vertex.  The parts come from an installed library; or, if\n"
    "library is None, from `part`.  `cycles` V-cycles then refine them; -1: only repaired.\n"
    "csrc/partition/question.h explains the arguments.  Arrays of int32 (share and coords:\n"
    "float64) are not copied; options is [name, value, ...].  The GIL is released.")
{
    const char *name;
    int32_t cycles = -1, *part;
    const int32_t *given = NULL;
    plb_question_t q = {.n_weights = 1, .imbalance = 1.03};
    PyObject *options = NULL;
    PLB_PY_TRY(plb_py_parse(c, &name, &q.n_vertices, &q.n_parts, &q.n_weights, &q.n_dims,
                            &q.imbalance, &q.seed, &cycles, &options));
    const plb_partitioner_t *library = name == NULL ? NULL : plb_partitioner_find(name);
    if (name != NULL && library == NULL) {
        PLB_PY_RAISE(PLB_ERR_MISSING, "%s has not been loaded", name);
        return NULL;
    }
    int64_t n = q.n_vertices, k = q.n_parts, m = -1, nets = -1, pins = -1;
    int64_t weights = n * q.n_weights, coords = n * q.n_dims;
    PLB_PY_TRY(plb_py_parse(c, &q.weight, &weights, &q.share, &k, &q.start, &n, &q.to, &m,
                            &q.edge_weight, &m, &q.net_start, &nets, &q.pin, &pins, &q.net_weight,
                            &nets, &q.coords, &coords, &q.fixed, &n, &q.old, &n, &q.old_cost, &n,
                            &given, &n));
    PLB_PY_TRY(finish(&q, m, nets, pins));
    PLB_PY_TRY(plb_py_options(c, options, &q.option, &q.n_options));
    if ((library == NULL) != (given != NULL)) {
        PLB_PY_RAISE(PLB_ERR_VALUE, "library and part: expected exactly one of the two");
        return NULL;
    }
    PLB_PY_GET(part = plb_py_new(c, NPY_INT32, n));
    if (given != NULL) {
        memcpy(part, given, (size_t)n * sizeof *part);
    }
    PLB_PY_RUN(c, answer(library, &q, cycles, part, &c->err));
    return plb_py_sealed(c, part);
}

PLB_PY_FN(fill, "start:i8+ to:i4 perm:i4",
          "Count the entries in each column of the Cholesky factor; perm: vertices' new numbers.")
{
    const int64_t *start;
    const int32_t *to, *perm;
    int64_t rows = -1, m = -1, n = -1;
    PLB_PY_TRY(plb_py_parse(c, &start, &rows, &to, &m, &perm, &n));
    bool good = rows == n && n < INT32_MAX && plb_py_rises(start, n, m);
    for (int64_t e = 0; good && e < m; e++) {
        good = to[e] >= 0 && to[e] < n;
    }
    PLB_PY_RAISE_IF(!good, PyExc_ValueError,
                    "start, to, perm: expected rows of a graph, and a new number for each vertex");
    int64_t *entries = plb_py_new(c, NPY_INT64, n);
    PLB_PY_RUN(c, plb_cholesky_fill((int32_t)n, start, to, perm, entries, &c->err));
    return plb_py_out(c, entries);
}

/* The arguments of graph_quality() and of nets_quality(). */
typedef struct rows_question {
    plb_rows_t rows;
    plb_places_t places;
} rows_question_t;

PLB_PY_FN(scan_rows, "name:s start:I+ to:I first:l objects:l",
          "Check the rows of a graph or of nets.  Returns (loops, skew): the number of edges\n"
          "from an object to itself, and a sum of hashes.  The graph is symmetric if the sum of\n"
          "skew over all ranks is 0 (csrc/partition/quality.h).  Copies no int32 or int64 array.")
{
    const char *name;
    plb_rows_t rows = {.n = -1};
    plb_scan_t out;
    int64_t first, objects, n_entries = -1;
    PLB_PY_TRY(
        plb_py_parse(c, &name, &rows.start, &rows.n, &rows.to, &n_entries, &first, &objects));
    PLB_PY_RUN(c, plb_rows_scan(&rows, name, n_entries, first, objects, &out, &c->err));
    return Py_BuildValue("LL", (long long)out.loops, (long long)out.skew);
}

static int read_rows(plb_py_call_t *c, rows_question_t *q)
{
    plb_rows_t *rows = &q->rows;
    plb_places_t *places = &q->places;
    int64_t n_entries = -1, n_weights = -1, n_parts = -1;
    rows->n = places->n = places->n_ghosts = -1;
    PLB_PY_PASS(plb_py_parse(c, &rows->start, &rows->n, &rows->to, &n_entries, &rows->weight,
                             &n_weights, &places->n_parts, &places->first, &places->part,
                             &places->n, &places->ghost, &places->n_ghosts, &places->ghost_part,
                             &n_parts));
    PLB_PY_REFUSE_IF(n_parts != places->n_ghosts, PyExc_ValueError,
                     "ghost_part: expected a part for each ghost");
    return 0;
}

PLB_PY_FN(graph_quality, "start:I+ to:I weight:f8? parts:i first:l part:i4 ghost:i8 ghost_part:i4",
          "Return (cut, cut weight, boundary, volume, pairs); csrc/partition/quality.h explains\n"
          "them.  The first three have an entry for each part.  The rows must have passed\n"
          "scan_rows; every object of another rank that they name must be among the ghosts.")
{
    rows_question_t q;
    int64_t n_pairs = 0, *pair = NULL;
    double volume = 0.0;
    PLB_PY_TRY(read_rows(c, &q));
    const int32_t parts = q.places.n_parts;
    double *cut = plb_py_new(c, NPY_FLOAT64, parts);
    double *cut_weight = plb_py_new(c, NPY_FLOAT64, parts);
    int64_t *boundary = plb_py_new(c, NPY_INT64, parts);
    PLB_PY_RUN(c, plb_quality_graph(&q.rows, &q.places, cut, cut_weight, boundary, &volume, &pair,
                                    &n_pairs, &c->err));
    return Py_BuildValue("NNNdN", plb_py_sealed(c, cut), plb_py_sealed(c, cut_weight),
                         plb_py_sealed(c, boundary), volume,
                         plb_py_take(pair, n_pairs, NPY_INT64));
}

PLB_PY_FN(nets_quality, "start:I+ pin:I weight:f8? parts:i first:l part:i4 ghost:i8 ghost_part:i4",
          "Return two weighted sums over the nets: of the number of parts of a net minus 1, and\n"
          "of 1 for each net that is cut.")
{
    rows_question_t q;
    double connectivity = 0.0, cut = 0.0;
    PLB_PY_TRY(read_rows(c, &q));
    PLB_PY_RUN(c, plb_quality_nets(&q.rows, &q.places, &connectivity, &cut, &c->err));
    return Py_BuildValue("dd", connectivity, cut);
}

PLB_PY_FN(part_sums, "part:i4 parts:i weight:f8@? columns:i",
          "Return the number of objects of each part; then, for each column of the weights, its\n"
          "sum over the objects of each part.")
{
    const int32_t *part;
    const double *weight;
    int64_t n = -1, n_weights = -1;
    int32_t parts, columns;
    PLB_PY_TRY(plb_py_parse(c, &part, &n, &parts, &weight, &n_weights, &columns));
    PLB_PY_RAISE_IF(parts < 1 || columns < 0 || (weight == NULL ? 0 : n_weights) != n * columns,
                    PyExc_ValueError,
                    "parts: expected 1 or more; weight: expected the shape (n, columns)");
    double *sums = plb_py_new(c, NPY_FLOAT64, (int64_t)parts * (1 + columns));
    PLB_PY_RUN(c, plb_part_sums(part, n, parts, weight, columns, sums, &c->err));
    return plb_py_sealed(c, sums);
}

PLB_PY_FN(remap,
          "parts:i ranks:i ... share:f8@? fixed:b1@? kept_part:i4@? kept_old:i4@? kept:f8@? "
          "on_rank:f8@?",
          "Return the new number of each part, chosen such that as much data as possible stays\n"
          "in place; see csrc/partition/remap.h.")
{
    plb_new_names_t in = {0};
    PLB_PY_TRY(plb_py_parse(c, &in.n_parts, &in.n_ranks));
    int64_t k = in.n_parts, kept = -1, on_rank = k * in.n_ranks;
    PLB_PY_TRY(plb_py_parse(c, &in.share, &k, &in.fixed, &k, &in.part, &kept, &in.old, &kept,
                            &in.kept, &kept, &in.on_rank, &on_rank));
    int32_t *name = plb_py_new(c, NPY_INT32, k);
    in.n_kept = in.kept == NULL ? 0 : kept;
    PLB_PY_RUN(c, plb_remap(&in, name, &c->err));
    return plb_py_sealed(c, name);
}

PLB_PY_FN(moves, "part:i4 old:i4? parts:i first:l ids:i8?",
          "Return (row, id, new part) of the objects of one process that change their part, in\n"
          "ascending order of the rows; see csrc/partition/moves.h.")
{
    plb_new_parts_t in = {.n_ranks = 1, .n = -1};
    plb_moves_t out = {0};
    PLB_PY_TRY(
        plb_py_parse(c, &in.part, &in.n, &in.old, &in.n, &in.n_parts, &in.first, &in.ids, &in.n));
    PLB_PY_RUN(c, plb_moves_init(&out, &in, &c->err));
    PyObject *found = Py_BuildValue("NNN", plb_py_take(out.row, out.n, NPY_INT64),
                                    plb_py_take(out.id, out.n, NPY_INT64),
                                    plb_py_take(out.part, out.n, NPY_INT32));
    out.row = out.id = NULL; /* NumPy owns the arrays now */
    out.part = NULL;
    plb_moves_free(&out);
    return found;
}

static PyMethodDef methods[] = PLB_PY_METHODS(
    fn, install, partition, fill, scan_rows, graph_quality, nets_quality, part_sums, remap, moves);

const plb_py_room_t plb_py_partition = {methods, {NULL}, NULL};
