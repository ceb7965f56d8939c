#include <stddef.h>
#include <string.h>

#include "place/strategy.h"

#define ADDRESS(name) &plb_strategy_##name,
const plb_strategy_t *const plb_strategies[] = {PLB_STRATEGIES(ADDRESS) NULL};

const plb_strategy_t *plb_strategy_find(const char *name)
{
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL; s++) {
        if (strcmp((*s)->name, name) == 0) {
            return *s;
        }
    }
    return NULL;
}
