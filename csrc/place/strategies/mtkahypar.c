/* MtKaHyParLB: multicasts as nets, divided by Mt-KaHyPar (Gottesbueren, Heuer, Maas, Sanders and
 * Schlag 2024) with its deterministic preset. */
#include "place/kit/parts.h"

static const plb_param_t params[] = {PLB_PARAM_IMBALANCE};

const plb_strategy_t plb_strategy_mtkahypar = {
    .name = "MtKaHyParLB",
    .help = "Mt-KaHyPar's hypergraph partitioner: each multicast reaches few ranks",
    .source = "Gottesbueren et al. 2024",
    .family = PLB_COMPREHENSIVE,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = plb_parts_run,
    .library = "mtkahypar",
};
