#include <stddef.h>
#include <string.h>

#include "place/strategy.h"

/* X(name of plb_strategy_*), in the order in which they are listed. */
#define STRATEGIES(X)                                                                             \
    X(none)                                                                                       \
    X(bestfit)                                                                                    \
    X(greedy)                                                                                     \
    X(refine)                                                                                     \
    X(refine_swap)                                                                                \
    X(refine_comm)                                                                                \
    X(comm_aware)                                                                                 \
    X(vector)                                                                                     \
    X(power)                                                                                      \
    X(metis)                                                                                      \
    X(scotch)                                                                                     \
    X(scotch_refine)                                                                              \
    X(zoltan)                                                                                     \
    X(hypergraph)                                                                                 \
    X(gossip)                                                                                     \
    X(hierarchical)                                                                               \
    X(diffusion)

#define DECLARE(name) extern const plb_strategy_t plb_strategy_##name;
STRATEGIES(DECLARE)

#define ADDRESS(name) &plb_strategy_##name,
const plb_strategy_t *const plb_strategies[] = {STRATEGIES(ADDRESS) NULL};

const plb_strategy_t *plb_strategy_find(const char *name)
{
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL; s++) {
        if (strcmp((*s)->name, name) == 0) {
            return *s;
        }
    }
    return NULL;
}
