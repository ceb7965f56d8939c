/* KaMinParLB: the communication graph cut by KaMinPar (Gottesbueren, Heuer, Sanders, Schulz and
 * Seemaier 2021), which takes no fixed vertices: of objects that may not migrate only the load
 * counts. */
#include "place/kit/parts.h"

static const plb_param_t params[] = {PLB_PARAM_IMBALANCE};

const plb_strategy_t plb_strategy_kaminpar = {
    .name = "KaMinParLB",
    .help = "KaMinPar partitions the communication graph; a multicast is an edge to each receiver",
    .source = "Gottesbueren et al. 2021",
    .family = PLB_COMPREHENSIVE,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = plb_parts_run,
    .library = "kaminpar",
};
