#include "handles.h"

#include <stdlib.h>

#include "base/mem.h"

void *plb_map_get(const plb_map_t *self, uint64_t key)
{
    const int32_t number = plb_keys_find(&self->keys, (int64_t)key);
    return number < 0 ? NULL : self->value[number];
}

static int put(plb_map_t *self, uint64_t key, void *value, plb_err_t *err)
{
    int32_t number;
    PLB_PASS(plb_keys_add(&self->keys, (int64_t)key, &number, err));
    PLB_PASS_GROW(self->value, self->room, self->keys.n);
    self->value[number] = value;
    return PLB_OK;
}

void plb_map_put(plb_map_t *self, uint64_t key, void *value)
{
    if (put(self, key, value, NULL) != PLB_OK) {
        abort(); /* no memory is left, so the program itself could not go on, either */
    }
}

void *plb_map_take(plb_map_t *self, uint64_t key)
{
    void *const out = plb_map_get(self, key);
    if (out != NULL) {
        plb_map_put(self, key, NULL);
    }
    return out;
}
