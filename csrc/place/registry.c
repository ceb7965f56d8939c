#include <stddef.h>
#include <string.h>

#include "place/strategy.h"

extern const plb_strategy_t plb_strategy_none;
extern const plb_strategy_t plb_strategy_greedy;
extern const plb_strategy_t plb_strategy_refine;

const plb_strategy_t *const plb_strategies[] = {
    &plb_strategy_none,
    &plb_strategy_greedy,
    &plb_strategy_refine,
    NULL,
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
