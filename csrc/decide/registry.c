#include <string.h>

#include "decide/trigger.h"

#define ADDRESS(name) &plb_trigger_##name,
const plb_trigger_kind_t *const plb_triggers[] = {PLB_TRIGGERS(ADDRESS) NULL};

const plb_trigger_kind_t *plb_trigger_find(const char *name)
{
    const plb_trigger_kind_t *const *k = plb_triggers;
    while (*k != NULL && strcmp((*k)->name, name) != 0) {
        k++;
    }
    return *k;
}
