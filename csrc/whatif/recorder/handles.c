#include "whatif/recorder/internal.h"

#include <stdlib.h>
#include <unistd.h>

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

void *plb_must_have(void *block)
{
    if (block == NULL) {
        static const char why[] = "pylb record: out of memory: the program ends\n";
        (void)!write(STDERR_FILENO, why, sizeof why - 1);
        abort();
    }
    return block;
}

void plb_map_put(plb_map_t *self, uint64_t key, void *value)
{
    (void)plb_must_have(put(self, key, value, NULL) == PLB_OK ? self : NULL);
}

void *plb_map_take(plb_map_t *self, uint64_t key)
{
    void *const out = plb_map_get(self, key);
    if (out != NULL) {
        plb_map_put(self, key, NULL);
    }
    return out;
}
