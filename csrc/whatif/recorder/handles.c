/* Linear probing, kept half empty. */
#include "handles.h"

#include <stdlib.h>

static uint32_t place_of(const plb_table_t *self, uint64_t key)
{
    uint32_t at = (uint32_t)plb_mix(key) & (self->room - 1);
    while (self->value[at] != NULL && self->key[at] != key) {
        at = (at + 1) & (self->room - 1);
    }
    return at;
}

void *plb_table_get(const plb_table_t *self, uint64_t key)
{
    return self->room == 0 ? NULL : self->value[place_of(self, key)];
}

static void grow(plb_table_t *self)
{
    const plb_table_t old = *self;
    self->room = old.room ? 2 * old.room : 64;
    self->key = malloc(self->room * sizeof *self->key);
    self->value = calloc(self->room, sizeof *self->value);
    if (self->key == NULL || self->value == NULL) {
        abort(); /* as the program itself would for want of so little */
    }
    for (uint32_t i = 0; i < old.room; i++) {
        if (old.value[i] != NULL) {
            const uint32_t at = place_of(self, old.key[i]);
            self->key[at] = old.key[i];
            self->value[at] = old.value[i];
        }
    }
    free(old.key);
    free(old.value);
}

void plb_table_put(plb_table_t *self, uint64_t key, void *value)
{
    if (2 * self->n >= self->room) {
        grow(self);
    }
    const uint32_t at = place_of(self, key);
    self->n += self->value[at] == NULL;
    self->key[at] = key;
    self->value[at] = value;
}

void *plb_table_take(plb_table_t *self, uint64_t key)
{
    if (self->room == 0) {
        return NULL;
    }
    uint32_t hole = place_of(self, key);
    void *const out = self->value[hole];
    if (out == NULL) {
        return NULL;
    }
    self->n--;
    /* Those behind move up, as far as they are not where they belong. */
    const uint32_t mask = self->room - 1;
    for (uint32_t i = (hole + 1) & mask; self->value[i] != NULL; i = (i + 1) & mask) {
        const uint32_t home = (uint32_t)plb_mix(self->key[i]) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            self->key[hole] = self->key[i];
            self->value[hole] = self->value[i];
            hole = i;
        }
    }
    self->value[hole] = NULL;
    return out;
}
