/* Python binding of csrc/model/machine.h. */
#include "model/machine.h"

#include "bind/rooms.h"

typedef struct question {
    plb_topology_t machine;
    plb_flows_t flows;
    const int32_t *place, *group;
} question_t;

/* Check that data[m] are in 0 ... n-1 and, if `once` is true, that none is repeated. */
static int check_range(plb_py_call_t *c, const char *name, const int32_t *data, int64_t m,
                       int32_t n, bool once)
{
    char *seen = plb_py_memory(c, n, 1);
    for (int64_t k = 0; seen != NULL && k < m; k++) {
        PLB_PASS(plb_py_refuse(data[k] < 0 || data[k] >= n, PyExc_IndexError,
                               "%s[%lld] is %d: expected 0 ... %d", name, (long long)k, data[k],
                               n - 1));
        PLB_PASS(plb_py_refuse(seen[data[k]] && once, PyExc_ValueError,
                               "%s[%lld] is %d, like an entry before it", name, (long long)k,
                               data[k]));
        seen[data[k]] = 1;
    }
    return seen != NULL ? 0 : -1;
}

static int read_question(plb_py_call_t *c, bool groups, question_t *q)
{
    bool torus;
    const int64_t *sizes;
    int64_t n_sizes = -1, parts = -1, m = -1, bytes = -1, places = -1, grouped = -1;
    const plb_py_arg_t args[] = {PLB_ONE(&torus),
                                 PLB_MANY(&sizes, &n_sizes),
                                 PLB_MANY(&q->flows.start, &parts),
                                 PLB_MANY(&q->flows.to, &m),
                                 PLB_MANY(&q->flows.bytes, &bytes),
                                 PLB_MANY(&q->place, &places),
                                 groups ? (plb_py_arg_t)PLB_MANY(&q->group, &grouped)
                                        : (plb_py_arg_t){0},
                                 {0}};
    PLB_PASS(plb_py_read(c, args));
    PLB_PASS(plb_topology_init(&q->machine, torus ? PLB_TORUS : PLB_TREE, sizes, (int)n_sizes,
                               &c->err));
    const int32_t n = q->machine.n_places;
    const struct {
        const char *name;
        int64_t is, expected;
    } lengths[] = {{"start", parts + 1, n + 1},
                   {"to", m, parts == n ? q->flows.start[n] : m},
                   {"bytes", bytes, m},
                   {"place", places, n},
                   {"group", groups ? grouped : n, n}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        PLB_PASS(plb_py_refuse(lengths[i].is != lengths[i].expected, PyExc_ValueError,
                               "%s has %lld entries: expected %lld", lengths[i].name,
                               (long long)lengths[i].is, (long long)lengths[i].expected));
    }
    for (int32_t i = 0; i < n; i++) {
        PLB_PASS(plb_py_refuse(
            q->flows.start[i] < (i > 0 ? q->flows.start[i - 1] : 0) || q->flows.start[i] > m,
            PyExc_ValueError, "start[%d] is %lld: expected rising numbers, 0 ... %lld", i,
            (long long)q->flows.start[i], (long long)m));
    }
    PLB_PASS(check_range(c, "to", q->flows.to, m, n, false));
    PLB_PASS(check_range(c, "place", q->place, n, n, true));
    return 0;
}

static int measure(const question_t *q, double *sum, double *most, plb_err_t *err)
{
    *sum = plb_hop_bytes(&q->machine, &q->flows, q->place);
    return plb_topology_link(&q->machine, &q->flows, q->place, most, err);
}

PLB_PY_DEF(fn, hop_bytes, "torus sizes start:+ to bytes place",
           "Return the hop-bytes (sum of bytes times hops), and the bytes over the busiest link.")
{
    question_t q;
    double sum = 0.0, most = 0.0;
    PLB_PASS(read_question(c, false, &q));
    PLB_PASS(PLB_PY_UNLOCKED(c, measure(&q, &sum, &most, &c->err)));
    return plb_py_answer(c, Py_BuildValue("dd", sum, most));
}

PLB_PY_DEF(fn, map_parts, "torus sizes start:+ to bytes place group",
           "Return a new place for each part, such that the hop-bytes are at most those of the\n"
           "given `place`.  Two parts change places only if they have the same number in `group`.")
{
    question_t q;
    int32_t *place;
    PLB_PASS(read_question(c, true, &q));
    PLB_PASS((place = plb_py_new(c, NPY_INT32, q.machine.n_places)) == NULL);
    memcpy(place, q.place, (size_t)q.machine.n_places * sizeof *place);
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_topology_map(&q.machine, &q.flows, q.group, place, &c->err)));
    return plb_py_answer(c, plb_py_sealed(c, place));
}

static const plb_py_def_t *const methods[] = {&fn_hop_bytes, &fn_map_parts, NULL};

const plb_py_room_t plb_py_model_topology = {methods, {NULL}, NULL};
