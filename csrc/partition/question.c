#include "partition/partition.h"

#include <string.h>

#include "base/base.h"

enum { MAX_LIBRARIES = 8 };
static const plb_partitioner_t *installed[MAX_LIBRARIES] = {&plb_builtin};

int plb_partitioner_install(const plb_partitioner_t *self, plb_err_t *err)
{
    for (int i = 0; i < MAX_LIBRARIES; i++) {
        if (installed[i] == NULL || strcmp(installed[i]->name, self->name) == 0) {
            installed[i] = self;
            return PLB_OK;
        }
    }
    return PLB_FAIL(err, PLB_ERR_STATE, "cannot install partitioner %s: %d are installed already",
                    self->name, (int)MAX_LIBRARIES);
}

const plb_partitioner_t *plb_partitioner_find(const char *name)
{
    for (int i = 0; i < MAX_LIBRARIES && installed[i] != NULL; i++) {
        if (strcmp(installed[i]->name, name) == 0) {
            return installed[i];
        }
    }
    return NULL;
}

/* Check that the n values x[0], x[stride], x[2 stride] ... are in least ... most.  sum: also that
 * their sum is below 2^31.  x NULL: nothing is checked. */
static int check_values(const char *name, const int32_t *x, int64_t n, int32_t stride,
                        int32_t least, int32_t most, bool sum, plb_err_t *err)
{
    int64_t total = 0;
    for (int64_t i = 0; x != NULL && i < n; i++) {
        PLB_FAIL_IF(x[i * stride] < least || x[i * stride] > most, err, PLB_ERR_VALUE,
                    "%s[%lld] is %d: expected %d ... %d", name, (long long)i, x[i * stride], least,
                    most);
        total += x[i * stride];
    }
    PLB_FAIL_IF(sum && total > INT32_MAX, err, PLB_ERR_VALUE,
                "%s: the sum is %lld: expected below 2^31", name, (long long)total);
    return PLB_OK;
}

static int check_start(const char *name, const int32_t *start, int32_t n, plb_err_t *err)
{
    PLB_FAIL_IF(start[0] != 0, err, PLB_ERR_VALUE, "%s[0] is %d: expected 0", name, start[0]);
    for (int32_t i = 0; i < n; i++) {
        PLB_FAIL_IF(start[i + 1] < start[i], err, PLB_ERR_VALUE,
                    "%s[%d] is %d: expected %d or more", name, i + 1, start[i + 1], start[i]);
    }
    return PLB_OK;
}

static int check_graph(const plb_question_t *in, plb_err_t *err)
{
    PLB_PASS(check_start("start", in->start, in->n_vertices, err));
    const int64_t m = in->start[in->n_vertices];
    for (int32_t v = 0; v < in->n_vertices; v++) {
        for (int32_t j = in->start[v]; j < in->start[v + 1]; j++) {
            PLB_FAIL_IF(in->to[j] < 0 || in->to[j] >= in->n_vertices || in->to[j] == v, err,
                        PLB_ERR_RANGE,
                        "to[%d], an edge of vertex %d, is %d: expected a different "
                        "vertex, 0 ... %d",
                        j, v, in->to[j], in->n_vertices - 1);
        }
    }
    return check_values("edge_weight", in->edge_weight, m, 1, 1, INT32_MAX, true, err);
}

int plb_partition_check(const plb_question_t *in, plb_err_t *err)
{
    PLB_FAIL_IF(in->n_parts < 1, err, PLB_ERR_VALUE, "parts is %d: expected 1 or more",
                in->n_parts);
    PLB_FAIL_IF(!(in->imbalance > 1.0 && in->imbalance <= 1e6), err, PLB_ERR_VALUE,
                "imbalance is %g: expected a number above 1, "
                "e.g. 1.03, and at most 1e6",
                in->imbalance);
    PLB_FAIL_IF(in->seed < 0, err, PLB_ERR_VALUE, "seed is %d: expected zero or more", in->seed);
    for (int32_t c = 0; in->weight != NULL && c < in->n_weights; c++) {
        PLB_PASS(check_values("weight", in->weight + c, in->n_vertices, in->n_weights, 0,
                              INT32_MAX, true, err));
    }
    double sum = 0.0;
    for (int32_t r = 0; in->share != NULL && r < in->n_parts; r++) {
        PLB_FAIL_IF(!(in->share[r] >= 0.0 && in->share[r] <= 1e30), err, PLB_ERR_VALUE,
                    "share[%d] is %g: expected 0 ... 1e30", r, in->share[r]);
        sum += in->share[r];
    }
    PLB_FAIL_IF(in->share != NULL && !(sum > 0.0), err, PLB_ERR_VALUE,
                "share is 0 for all parts: expected one above 0");
    PLB_PASS(in->start == NULL ? PLB_OK : check_graph(in, err));
    if (in->net_start != NULL) {
        PLB_PASS(check_start("net_start", in->net_start, in->n_nets, err));
        PLB_PASS(check_values("pin", in->pin, in->net_start[in->n_nets], 1, 0, in->n_vertices - 1,
                              false, err));
        PLB_PASS(
            check_values("net_weight", in->net_weight, in->n_nets, 1, 0, INT32_MAX, true, err));
    }
    PLB_PASS(plb_check_coords(in->coords, in->n_vertices, in->n_dims, err));
    PLB_PASS(check_values("fixed", in->fixed, in->n_vertices, 1, -1, in->n_parts - 1, false, err));
    PLB_PASS(check_values("old", in->old, in->n_vertices, 1, -1, in->n_parts - 1, false, err));
    return check_values("old_cost", in->old_cost, in->n_vertices, 1, 0, INT32_MAX, true, err);
}

static int check_taken(const plb_partitioner_t *with, const plb_question_t *in, plb_err_t *err)
{
    const struct {
        unsigned bit;
        bool asked;
        const char *what;
    } asked[] = {
        {PLB_TAKES_GRAPH, in->start != NULL, "graphs"},
        {PLB_TAKES_HYPERGRAPH, in->net_start != NULL, "hypergraphs"},
        {PLB_TAKES_COORDS, in->n_dims > 0, "coordinates"},
        {PLB_TAKES_WEIGHTS, in->n_weights > 1, "several weights of a vertex"},
        {PLB_TAKES_FIXED, in->fixed != NULL, "fixed vertices"},
        {PLB_TAKES_OLD, in->old != NULL, "an old partition"},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        PLB_FAIL_IF(asked[i].asked && !(with->takes & asked[i].bit), err, PLB_ERR_VALUE,
                    "%s does not take %s", with->name, asked[i].what);
    }
    return PLB_OK;
}

int plb_partition_run(const plb_partitioner_t *with, const plb_question_t *in, int32_t *part,
                      plb_err_t *err)
{
    plb_question_t plain = *in;
    PLB_PASS(plb_partition_check(in, err));
    PLB_PASS(check_taken(with, in, err));
    if (in->n_parts == 1) {
        memset(part, 0, (size_t)in->n_vertices * sizeof *part);
    }
    if (in->n_parts == 1 || in->n_vertices == 0) {
        return PLB_OK;
    }
    bool weighs = in->weight == NULL;
    for (int64_t i = 0; !weighs && i < (int64_t)in->n_vertices * in->n_weights; i++) {
        weighs = in->weight[i] > 0;
    }
    if (!weighs) { /* use 1, because some libraries divide by the sum */
        plain.weight = NULL;
        plain.n_weights = 1;
    }
    /* without a library, parts are runs of vertices; plb_partition_repair then balances them */
    for (int32_t v = 0; v < in->n_vertices; v++) {
        const bool fixed = in->fixed != NULL && in->fixed[v] >= 0;
        part[v] = fixed ? in->fixed[v] : (int32_t)((int64_t)v * in->n_parts / in->n_vertices);
    }
    const bool connected = (in->start != NULL && in->start[in->n_vertices] > 0) ||
                           (in->net_start != NULL && in->net_start[in->n_nets] > 0) ||
                           in->n_dims > 0;
    if (connected && in->n_vertices >= in->n_parts) {
        PLB_PASS(with->run(&plain, part, err));
    }
    for (int32_t v = 0; v < in->n_vertices; v++) {
        PLB_FAIL_IF(part[v] < 0 || part[v] >= in->n_parts, err, PLB_ERR_LIBRARY,
                    "%s put vertex %d into part %d: there are %d parts", with->name, v, part[v],
                    in->n_parts);
        PLB_FAIL_IF(in->fixed != NULL && in->fixed[v] >= 0 && in->fixed[v] != part[v], err,
                    PLB_ERR_LIBRARY, "%s put vertex %d into part %d, but it is fixed in part %d",
                    with->name, v, part[v], in->fixed[v]);
    }
    /* regions of points stay as the library has cut them */
    const bool cuts = in->n_dims > 0 && in->start == NULL && in->net_start == NULL;
    return cuts ? PLB_OK : plb_partition_repair(&plain, part, err);
}
