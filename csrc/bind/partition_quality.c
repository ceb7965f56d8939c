/* Room partition: what a partition is worth, and which objects move. */
#include "bind/rooms.h"

#include "partition/moves.h"
#include "partition/quality.h"
#include "partition/remap.h"

/* Rows of a graph or of nets, where the parts are, and the arguments in common. */
typedef struct question {
    plb_rows_t rows;
    plb_places_t places;
} question_t;

PLB_PY_FN(scan_rows, "scan_rows(name, start, to, first, objects, /)\n--\n\n"
                     "(loops, skew) of checked rows; int32 and int64 without a copy.")
{
    const char *name;
    plb_rows_t rows = {.n = -1};
    plb_scan_t out;
    int64_t first, objects, n_entries = -1;
    if (plb_py_parse(c, "name:s start:I+ to:I first:l objects:l", &name, &rows.start, &rows.n,
                     &rows.to, &n_entries, &first, &objects) != 0) {
        return NULL;
    }
    return PLB_PY_UNLOCKED(c, plb_rows_scan(&rows, name, n_entries, first, objects, &out, &c->err))
               ? plb_py_fail(c)
               : Py_BuildValue("LL", (long long)out.loops, (long long)out.skew);
}

static int read_question(plb_py_call_t *c, question_t *q)
{
    plb_rows_t *rows = &q->rows;
    plb_places_t *places = &q->places;
    int64_t n_entries = -1, n_weights = -1, n_parts = -1;
    rows->n = places->n = places->n_ghosts = -1;
    if (plb_py_parse(c, "start:I+ to:I weight:f8? parts:i first:l part:i4 ghost:i8 ghost_part:i4",
                     &rows->start, &rows->n, &rows->to, &n_entries, &rows->weight, &n_weights,
                     &places->n_parts, &places->first, &places->part, &places->n, &places->ghost,
                     &places->n_ghosts, &places->ghost_part, &n_parts) != 0) {
        return -1;
    }
    if (n_parts != places->n_ghosts) {
        PyErr_SetString(PyExc_ValueError, "ghost_part: expected a part for each ghost");
        return -1;
    }
    return 0;
}

PLB_PY_FN(graph_quality,
          "graph_quality(start, to, weight, parts, first, part, ghost, ghost_part, /)\n--\n\n"
          "Return (cut, cut weight, boundary) of each part, volume, pairs of neighbours.\n"
          "The rows must have passed scan_rows; every object of another rank is among the\n"
          "ghosts.")
{
    question_t q;
    int64_t n_pairs = 0, *pair = NULL, *boundary;
    double *cut, *cut_weight, volume = 0.0;
    if (read_question(c, &q) != 0) {
        return NULL;
    }
    const int32_t parts = q.places.n_parts;
    if ((cut = plb_py_new(c, NPY_FLOAT64, parts)) == NULL ||
        (cut_weight = plb_py_new(c, NPY_FLOAT64, parts)) == NULL ||
        (boundary = plb_py_new(c, NPY_INT64, parts)) == NULL) {
        return NULL;
    }
    return PLB_PY_UNLOCKED(c, plb_quality_graph(&q.rows, &q.places, cut, cut_weight, boundary,
                                                &volume, &pair, &n_pairs, &c->err))
               ? plb_py_fail(c)
               : Py_BuildValue("NNNdN", plb_py_sealed(c, cut), plb_py_sealed(c, cut_weight),
                               plb_py_sealed(c, boundary), volume,
                               plb_py_take(pair, n_pairs, NPY_INT64));
}

PLB_PY_FN(nets_quality,
          "nets_quality(start, pin, weight, parts, first, part, ghost, ghost_part, /)\n--\n\n"
          "Return (connectivity - 1, cut nets), both weighted.")
{
    question_t q;
    double connectivity = 0.0, cut = 0.0;
    if (read_question(c, &q) != 0) {
        return NULL;
    }
    return PLB_PY_UNLOCKED(c, plb_quality_nets(&q.rows, &q.places, &connectivity, &cut, &c->err))
               ? plb_py_fail(c)
               : Py_BuildValue("dd", connectivity, cut);
}

PLB_PY_FN(part_sums,
          "part_sums(part, parts, weight, columns, /)\n--\n\n"
          "Return the number of objects of each part, then each column of the weights,\n"
          "one after the other.")
{
    const int32_t *part;
    const double *weight;
    double *sums;
    int64_t n = -1, n_weights = -1;
    int32_t parts, columns;
    if (plb_py_parse(c, "part:i4 parts:i weight:f8@? columns:i", &part, &n, &parts, &weight,
                     &n_weights, &columns) != 0) {
        return NULL;
    }
    if (parts < 1 || columns < 0 || (weight == NULL ? 0 : n_weights) != n * columns) {
        return PyErr_Format(PyExc_ValueError, "parts, weight: expected 1 or more, (n, columns)");
    }
    if ((sums = plb_py_new(c, NPY_FLOAT64, (int64_t)parts * (1 + columns))) == NULL) {
        return NULL;
    }
    return PLB_PY_UNLOCKED(c, plb_part_sums(part, n, parts, weight, columns, sums, &c->err))
               ? plb_py_fail(c)
               : plb_py_sealed(c, sums);
}

PLB_PY_FN(remap, "remap(parts, ranks, share, fixed, kept_part, kept_old, kept, on_rank, /)\n--\n\n"
                 "New name of each part; csrc/partition/remap.h.")
{
    plb_new_names_t in = {0};
    int32_t *name;
    if (plb_py_parse(c, "parts:i ranks:i ...", &in.n_parts, &in.n_ranks) != 0) {
        return NULL;
    }
    int64_t k = in.n_parts, kept = -1, on_rank = k * in.n_ranks;
    if (plb_py_parse(c,
                     "share:f8@? fixed:b1@? kept_part:i4@? kept_old:i4@? kept:f8@? on_rank:f8@?",
                     &in.share, &k, &in.fixed, &k, &in.part, &kept, &in.old, &kept, &in.kept,
                     &kept, &in.on_rank, &on_rank) != 0 ||
        (name = plb_py_new(c, NPY_INT32, k)) == NULL) {
        return NULL;
    }
    in.n_kept = in.kept == NULL ? 0 : kept;
    return PLB_PY_UNLOCKED(c, plb_remap(&in, name, &c->err)) ? plb_py_fail(c)
                                                             : plb_py_sealed(c, name);
}

PLB_PY_FN(moves,
          "moves(part, old, parts, first, ids, /)\n--\n\n"
          "(row, id, new part) of the objects of one process that change their part, ascending;\n"
          "csrc/partition/moves.h.")
{
    plb_new_parts_t in = {.n_ranks = 1, .n = -1};
    plb_moves_t out = {0};
    if (plb_py_parse(c, "part:i4 old:i4? parts:i first:l ids:i8?", &in.part, &in.n, &in.old, &in.n,
                     &in.n_parts, &in.first, &in.ids, &in.n) != 0) {
        return NULL;
    }
    if (PLB_PY_UNLOCKED(c, plb_moves_init(&out, &in, &c->err)) != PLB_OK) {
        return plb_py_fail(c);
    }
    PyObject *found = Py_BuildValue("NNN", plb_py_take(out.row, out.n, NPY_INT64),
                                    plb_py_take(out.id, out.n, NPY_INT64),
                                    plb_py_take(out.part, out.n, NPY_INT32));
    out.row = out.id = NULL; /* numpy's now */
    out.part = NULL;
    plb_moves_free(&out);
    return found;
}

static PyMethodDef methods[] = {
    PLB_PY_ENTRY(fn, scan_rows),
    PLB_PY_ENTRY(fn, graph_quality),
    PLB_PY_ENTRY(fn, nets_quality),
    PLB_PY_ENTRY(fn, part_sums),
    PLB_PY_ENTRY(fn, remap),
    PLB_PY_ENTRY(fn, moves),
    {0},
};

const plb_py_room_t plb_py_partition_quality = {methods, {NULL}, NULL};
