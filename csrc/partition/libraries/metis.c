/* METIS 5: graphs; several weights of a vertex; no fixed vertices. */
#include <math.h>
#include <metis.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "partition/libraries/partitioners.h"

_Static_assert(sizeof(idx_t) == sizeof(int32_t), "METIS with integers of 32 bits is expected");

/* METIS uses the process's rand(): one call at a time, so that the seed determines the result. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct {
    const char *name;
    int index;
    const char *word[3]; /* words for the values 0, 1, ...; none: the value is a number */
} OPTIONS[] = {
    {"PTYPE", METIS_OPTION_PTYPE, {"rb", "kway"}},
    {"OBJTYPE", METIS_OPTION_OBJTYPE, {"cut", "vol"}},
    {"CTYPE", METIS_OPTION_CTYPE, {"rm", "shem"}},
    {"NCUTS", METIS_OPTION_NCUTS, {NULL}},
    {"NITER", METIS_OPTION_NITER, {NULL}},
    {"NO2HOP", METIS_OPTION_NO2HOP, {NULL}},
    {"MINCONN", METIS_OPTION_MINCONN, {NULL}},
    {"CONTIG", METIS_OPTION_CONTIG, {NULL}},
};

static int set_option(idx_t *options, const char *name, const char *value, plb_err_t *err)
{
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++) {
        if (strcmp(OPTIONS[i].name, name) != 0) {
            continue;
        }
        for (int k = 0; k < 3 && OPTIONS[i].word[k] != NULL; k++) {
            if (strcmp(OPTIONS[i].word[k], value) == 0) {
                options[OPTIONS[i].index] = k;
                return PLB_OK;
            }
        }
        char *end;
        const long number = strtol(value, &end, 10);
        if (OPTIONS[i].word[0] == NULL && end != value && *end == '\0' && number >= 0 &&
            number <= 1000000) {
            options[OPTIONS[i].index] = (idx_t)number;
            return PLB_OK;
        }
        return PLB_FAIL(err, PLB_ERR_VALUE, "METIS: %s is '%s': expected %s%s%s", name, value,
                        OPTIONS[i].word[0] ? OPTIONS[i].word[0] : "an integer, 0 ... 1000000",
                        OPTIONS[i].word[0] ? " or " : "",
                        OPTIONS[i].word[0] ? OPTIONS[i].word[1] : "");
    }
    return PLB_FAIL(
        err, PLB_ERR_VALUE,
        "METIS has no option %s: expected PTYPE, OBJTYPE, CTYPE, NCUTS, NITER, NO2HOP, "
        "MINCONN or CONTIG",
        name);
}

/* ---- the call ------------------------------------------------------------------------------- */

/* Say whether equal vertices fit into the parts if none exceeds its share by this factor. */
static bool fit(const plb_question_t *in, double total, double factor)
{
    double room = 0.0;
    for (int32_t p = 0; p < in->n_parts; p++) {
        const double share = (in->share == NULL ? 1.0 : in->share[p]) / total;
        room += floor(factor * share * in->n_vertices + 1e-6);
    }
    return room >= in->n_vertices;
}

/* Few equal vertices cannot be divided as evenly as asked, e.g. 9 vertices into 2 parts.  METIS'
 * k-way refinement then tries it again and again, and the cut becomes up to four times as large.
 * So return the smallest factor that is possible, if it is larger. */
static double possible_imbalance(const plb_question_t *in)
{
    double total = 0.0, low = in->imbalance, high = in->n_parts;
    for (int32_t p = 0; p < in->n_parts; p++) {
        total += in->share == NULL ? 1.0 : in->share[p];
    }
    bool equal = in->n_weights <= 1;
    for (int32_t v = 1; equal && in->weight != NULL && v < in->n_vertices; v++) {
        equal = in->weight[v] == in->weight[0];
    }
    if (!equal || fit(in, total, low)) {
        return low;
    }
    while (high - low > 1e-4) {
        const double middle = (low + high) / 2.0;
        *(fit(in, total, middle) ? &high : &low) = middle;
    }
    return high;
}

static int set_options(const plb_question_t *in, idx_t *options, plb_err_t *err)
{
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_NUMBERING] = 0;
    /* METIS treats seed 0 like seed 1 */
    options[METIS_OPTION_SEED] = in->seed + (in->seed < INT32_MAX);
    const double possible = possible_imbalance(in);
    double thousandths = (possible - 1.0) * 1000.0;
    thousandths = possible > in->imbalance ? ceil(thousandths) : floor(thousandths + 0.5);
    options[METIS_OPTION_UFACTOR] = (idx_t)fmin(fmax(thousandths, 1.0), 1e6);
    int ret = PLB_OK;
    for (int i = 0; ret == PLB_OK && i < in->n_options; i++) {
        ret = set_option(options, in->option[2 * i], in->option[2 * i + 1], err);
    }
    return ret;
}

static int run(const plb_question_t *in, int32_t *part, plb_err_t *err)
{
    int ret = PLB_OK;
    real_t *target = NULL;
    idx_t options[METIS_NOPTIONS], n = in->n_vertices, k = in->n_parts, cut;
    idx_t ncon = in->n_weights > 1 ? in->n_weights : 1;
    PLB_TRY(set_options(in, options, err));
    if (in->share != NULL) {
        /* The sum of the shares is 1 for each weight.  METIS refuses a share that is 0 in single
         * precision; a share of LEAST is already less than a unit of weight. */
        const double LEAST = 1e-10;
        double total = 0.0;
        PLB_NEW(target, (int64_t)k * ncon);
        for (int32_t r = 0; r < k; r++) {
            total += in->share[r];
        }
        for (int64_t i = 0; i < (int64_t)k * ncon; i++) {
            target[i] = (real_t)fmax(in->share[i / ncon] / total, LEAST);
        }
    }
    const bool bisect = options[METIS_OPTION_PTYPE] == METIS_PTYPE_RB;
    int (*const ask)(idx_t *, idx_t *, idx_t *, idx_t *, idx_t *, idx_t *, idx_t *, idx_t *,
                     real_t *, real_t *, idx_t *, idx_t *, idx_t *) =
        bisect ? METIS_PartGraphRecursive : METIS_PartGraphKway;
    pthread_mutex_lock(&lock);
    const int code = ask(&n, &ncon, (idx_t *)in->start, (idx_t *)in->to, (idx_t *)in->weight, NULL,
                         (idx_t *)in->edge_weight, &k, target, NULL, options, &cut, part);
    pthread_mutex_unlock(&lock);
    if (code == METIS_ERROR_MEMORY) {
        ret = PLB_FAIL(err, PLB_ERR_NOMEM, "METIS ran out of memory");
    } else if (code != METIS_OK) {
        ret = PLB_FAIL(err, PLB_ERR_LIBRARY, "METIS failed (code %d)", code);
    }
out:
    plb_free(target);
    return ret;
}

const plb_partitioner_t plb_metis = {
    .name = "METIS",
    .version = PLB_VERSION3(METIS_VER_MAJOR, METIS_VER_MINOR, METIS_VER_SUBMINOR),
    .takes = PLB_TAKES_GRAPH | PLB_TAKES_WEIGHTS,
    .run = run,
};
