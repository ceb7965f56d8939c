/* MetisLB, ScotchLB and MtKaHyParLB: the parts of a partitioning library become ranks.
 *
 * METIS (Karypis and Kumar 1998) and Scotch take the communication graph.  METIS takes no fixed
 * vertices: of objects that may not migrate it knows the load, not the edges.  Mt-KaHyPar
 * (Gottesbueren, Heuer, Maas, Sanders, Schlag 2024), with its deterministic preset, takes
 * multicasts as nets. */
#include "place/internal.h"

static const plb_param_t params[] = {PLB_PARAM_IMBALANCE};

/* Define a strategy: the C name after plb_strategy_, then its name, library, help and source. */
#define STRATEGY(id, title, partitioner, words, paper)                                            \
    const plb_strategy_t plb_strategy_##id = {                                                    \
        .name = title,                                                                            \
        .help = words,                                                                            \
        .source = paper,                                                                          \
        .family = PLB_COMPREHENSIVE,                                                              \
        .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_BYTES | PLB_LOOKS_SPEED |         \
                    PLB_LOOKS_MEMORY,                                                             \
        .params = params,                                                                         \
        .n_params = 1,                                                                            \
        .run = plb_parts_run,                                                                     \
        .library = partitioner,                                                                   \
    }

STRATEGY(metis, "MetisLB", "METIS",
         "METIS partitions the communication graph; a multicast is an edge to each receiver",
         "Menon 2012, 2.2");
STRATEGY(scotch, "ScotchLB", "Scotch",
         "Scotch maps the communication graph; a multicast is an edge to each receiver",
         "Menon 2012, 2.2");
STRATEGY(mtkahypar, "MtKaHyParLB", "mtkahypar",
         "Mt-KaHyPar's hypergraph partitioner: each multicast reaches few ranks",
         "Gottesbueren et al. 2024");
