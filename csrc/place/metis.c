/* MetisLB: the communication graph cut by METIS (Karypis and Kumar 1998), which takes no fixed
 * vertices: objects that may not migrate count with their load alone. */
#include "base/mem.h"
#include "place/parts.h"

static int run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
               int32_t *out, plb_err_t *err)
{
    plb_parts_t parts;
    int32_t *part = NULL;
    const double imbalance = opts->params[0];
    int ret = plb_parts_init(&parts, in, false, imbalance, opts->seed, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW(part, parts.question.n_vertices);
    if ((ret = plb_parts_graph(&parts, err)) ||
        (ret = plb_parts_ask(&parts, self->library, opts, part, err)) ||
        (ret = plb_parts_relabel(&parts, part, err))) {
        goto out;
    }
    ret = plb_parts_place(&parts, part, imbalance, opts, out, err);
out:
    plb_free(part);
    plb_parts_free(&parts);
    return ret;
}

static const plb_param_t params[] = {PLB_PARAM_IMBALANCE};

const plb_strategy_t plb_strategy_metis = {
    .name = "MetisLB",
    .help = "METIS cuts the communication graph; multicasts are edges to each receiver",
    .source = "Menon 2012, 2.2",
    .family = PLB_COMPREHENSIVE,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = run,
    .library = "METIS",
};
