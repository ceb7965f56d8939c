#include <stddef.h>
#include <string.h>

#include "place/strategy.h"

extern const plb_strategy_t plb_strategy_none;
extern const plb_strategy_t plb_strategy_bestfit;
extern const plb_strategy_t plb_strategy_greedy;
extern const plb_strategy_t plb_strategy_refine;
extern const plb_strategy_t plb_strategy_vector;
extern const plb_strategy_t plb_strategy_gossip;
extern const plb_strategy_t plb_strategy_hierarchical;

const plb_strategy_t *const plb_strategies[] = {
    &plb_strategy_none,   &plb_strategy_bestfit, &plb_strategy_greedy,       &plb_strategy_refine,
    &plb_strategy_vector, &plb_strategy_gossip,  &plb_strategy_hierarchical, NULL,
};

const plb_strategy_t *plb_strategy_find(const char *name)
{
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL; s++) {
        if (strcmp((*s)->name, name) == 0) {
            return *s;
        }
    }
    return NULL;
}
