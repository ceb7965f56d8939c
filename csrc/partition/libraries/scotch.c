/* Scotch 7: graphs, fixed vertices, remapping with a cost of leaving the present part.
 * Each call has its own context: one thread, a seed, and no state that other calls share. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <scotch.h>

#include "base/base.h"
#include "partition/libraries/partitioners.h"

_Static_assert(sizeof(SCOTCH_Num) == sizeof(int32_t),
               "Scotch with integers of 32 bits is expected");

/* ---- messages: instead of libscotcherr, which prints them ----------------------------------- */

/* the last message of Scotch on this thread */
static _Thread_local char said[256];

__attribute__((visibility("default"))) void SCOTCH_errorProg(const char *name)
{
}

__attribute__((visibility("default"), format(printf, 1, 2))) void
SCOTCH_errorPrint(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
}

__attribute__((visibility("default"), format(printf, 1, 2))) void
SCOTCH_errorPrintW(const char *format, ...)
{
    (void)format; /* ignored, because it is only a warning */
}

static int failed(const char *what, plb_err_t *err)
{
    return PLB_FAIL(err, PLB_ERR_LIBRARY, "Scotch: %s failed: %s", what,
                    said[0] ? said : "no reason given");
}

static const struct {
    const char *word;
    SCOTCH_Num flag;
} STRATEGIES[] = {
    {"default", SCOTCH_STRATDEFAULT},     {"quality", SCOTCH_STRATQUALITY},
    {"speed", SCOTCH_STRATSPEED},         {"balance", SCOTCH_STRATBALANCE},
    {"safety", SCOTCH_STRATSAFETY},       {"scalability", SCOTCH_STRATSCALABILITY},
    {"recursive", SCOTCH_STRATRECURSIVE},
};

static int set_strategy(SCOTCH_Strat *strategy, const plb_question_t *in, plb_err_t *err)
{
    SCOTCH_Num flags = in->old == NULL ? SCOTCH_STRATDEFAULT : SCOTCH_STRATREMAP;
    for (int i = 0; i < in->n_options; i++) {
        const char *name = in->option[2 * i], *value = in->option[2 * i + 1];
        size_t k = 0;
        const size_t n = sizeof STRATEGIES / sizeof *STRATEGIES;
        while (k < n && strcmp(STRATEGIES[k].word, value) != 0) {
            k++;
        }
        PLB_FAIL_IF(strcmp(name, "STRATEGY") != 0 || k == n, err, PLB_ERR_VALUE,
                    "Scotch has no option %s = '%s': expected STRATEGY = default, quality, "
                    "speed, balance, safety, scalability or recursive",
                    name, value);
        flags |= STRATEGIES[k].flag;
    }
    const locale_t before = plb_point_begin(); /* Scotch writes and reads numbers as text */
    const int code = SCOTCH_stratGraphMapBuild(strategy, flags, in->n_parts, in->imbalance - 1.0);
    plb_point_end(before);
    return code == 0 ? PLB_OK : failed("SCOTCH_stratGraphMapBuild", err);
}

/* Parts of unequal size are a complete graph of weighted processors. */
static int set_parts(SCOTCH_Arch *arch, const plb_question_t *in, plb_err_t *err)
{
    enum { TOTAL = 1 << 28 };
    int ret = PLB_OK;
    SCOTCH_Num *weight = NULL;
    double total = 0.0;
    /* Scotch maps best if it knows that all parts are equal */
    if (plb_all_equal(in->share, in->n_parts)) {
        return SCOTCH_archCmplt(arch, in->n_parts) == 0 ? PLB_OK : failed("SCOTCH_archCmplt", err);
    }
    PLB_NEW(weight, in->n_parts);
    for (int32_t r = 0; r < in->n_parts; r++) {
        total += in->share[r];
    }
    for (int32_t r = 0; r < in->n_parts; r++) {
        const double w = in->share[r] / total * TOTAL;
        weight[r] = w < 1.0 ? 1 : (SCOTCH_Num)w;
    }
    if (SCOTCH_archCmpltw(arch, in->n_parts, weight) != 0) {
        ret = failed("SCOTCH_archCmpltw", err);
    }
out:
    plb_free(weight);
    return ret;
}

/* ---- the call ------------------------------------------------------------------------------- */

/* A vertex without an old part gets part 0 at no cost: if it had -1, Scotch 7.0.3 would end with a
 * segmentation fault. */
static int remap(SCOTCH_Graph *graph, SCOTCH_Arch *arch, SCOTCH_Strat *strategy,
                 const plb_question_t *in, int32_t *part, plb_err_t *err)
{
    int ret = PLB_OK;
    SCOTCH_Num *old = NULL, *cost = NULL;
    PLB_NEW_EACH(in->n_vertices, old, cost);
    for (int32_t v = 0; v < in->n_vertices; v++) {
        const bool isnew = in->old[v] < 0;
        old[v] = isnew ? 0 : in->old[v];
        cost[v] = isnew ? 0 : in->old_cost == NULL ? 1 : in->old_cost[v];
    }
    int (*const ask)(SCOTCH_Graph *, const SCOTCH_Arch *, SCOTCH_Num *, double, const SCOTCH_Num *,
                     SCOTCH_Strat *, SCOTCH_Num *) =
        in->fixed == NULL ? SCOTCH_graphRemap : SCOTCH_graphRemapFixed;
    if (ask(graph, arch, old, 1.0, cost, strategy, part) != 0) {
        ret = failed("SCOTCH_graphRemap", err);
    }
out:
    PLB_FREE(old, cost);
    return ret;
}

static int map(SCOTCH_Graph *graph, SCOTCH_Arch *arch, SCOTCH_Strat *strategy,
               const plb_question_t *in, int32_t *part, plb_err_t *err)
{
    if (in->fixed != NULL) {
        memcpy(part, in->fixed, (size_t)in->n_vertices * sizeof *part);
    }
    if (in->old != NULL) {
        return remap(graph, arch, strategy, in, part, err);
    }
    const int code = in->fixed == NULL ? SCOTCH_graphMap(graph, arch, strategy, part)
                                       : SCOTCH_graphMapFixed(graph, arch, strategy, part);
    return code == 0 ? PLB_OK : failed("SCOTCH_graphMap", err);
}

/* Give fixed vertices weights of at least 1: if all of them had weight 0, Scotch 7.0.3 would make
 * its table of their parts too small, and search it in an endless loop (kgraphMapRbVfloMerge). */
static int weigh_fixed(const plb_question_t *in, SCOTCH_Num **weight, plb_err_t *err)
{
    int ret = PLB_OK;
    if (in->fixed == NULL || in->weight == NULL) {
        return ret;
    }
    PLB_NEW(*weight, in->n_vertices);
    for (int32_t v = 0; v < in->n_vertices; v++) {
        (*weight)[v] = in->fixed[v] >= 0 && in->weight[v] < 1 ? 1 : in->weight[v];
    }
out:
    return ret;
}

static int run(const plb_question_t *in, int32_t *part, plb_err_t *err)
{
    SCOTCH_Num *weight = NULL;
    SCOTCH_Context context;
    SCOTCH_Graph graph, bound;
    SCOTCH_Arch arch;
    SCOTCH_Strat strategy;
    said[0] = '\0';
    SCOTCH_contextInit(&context);
    SCOTCH_graphInit(&graph);
    SCOTCH_graphInit(&bound);
    SCOTCH_archInit(&arch);
    SCOTCH_stratInit(&strategy);
    int ret = SCOTCH_contextThreadSpawn(&context, 1, NULL) != 0 ||
                      SCOTCH_contextRandomClone(&context) != 0 ||
                      SCOTCH_contextOptionSetNum(&context, SCOTCH_OPTIONNUMDETERMINISTIC, 1) != 0
                  ? failed("SCOTCH_context", err)
                  : PLB_OK;
    SCOTCH_contextRandomSeed(&context, in->seed);
    SCOTCH_contextRandomReset(&context);
    PLB_THEN(weigh_fixed(in, &weight, err));
    if (ret == PLB_OK &&
        SCOTCH_graphBuild(&graph, 0, in->n_vertices, in->start, in->start + 1,
                          weight == NULL ? in->weight : weight, NULL, in->start[in->n_vertices],
                          in->to, in->edge_weight) != 0) {
        ret = failed("SCOTCH_graphBuild", err);
    }
    if (ret == PLB_OK && SCOTCH_contextBindGraph(&context, &graph, &bound) != 0) {
        ret = failed("SCOTCH_contextBindGraph", err);
    }
    PLB_THEN(set_parts(&arch, in, err));
    PLB_THEN(set_strategy(&strategy, in, err));
    PLB_THEN(map(&bound, &arch, &strategy, in, part, err));
    SCOTCH_stratExit(&strategy);
    SCOTCH_archExit(&arch);
    SCOTCH_graphExit(&bound);
    SCOTCH_graphExit(&graph);
    SCOTCH_contextExit(&context);
    plb_free(weight);
    return ret;
}

const plb_partitioner_t plb_scotch = {
    .name = "Scotch",
    .version = PLB_VERSION3(SCOTCH_VERSION, SCOTCH_RELEASE, SCOTCH_PATCHLEVEL),
    .takes = PLB_TAKES_GRAPH | PLB_TAKES_FIXED | PLB_TAKES_OLD,
    .run = run,
};
