#include <stddef.h>
#include <string.h>

#include "decide/trigger.h"

#define ADDRESS(name) &plb_trigger_##name,
const plb_trigger_kind_t *const plb_triggers[] = {PLB_TRIGGERS(ADDRESS) NULL};

const plb_trigger_kind_t *plb_trigger_find(const char *name)
{
    for (const plb_trigger_kind_t *const *k = plb_triggers; *k != NULL; k++) {
        if (strcmp((*k)->name, name) == 0) {
            return *k;
        }
    }
    return NULL;
}
