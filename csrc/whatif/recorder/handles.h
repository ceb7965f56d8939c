/* A hash table that maps MPI handles, or other numbers, to pointers. */
#pragma once

#include <stddef.h>

#include "base/hash.h"

typedef struct plb_map {
    plb_keys_t keys; /* all keys, also removed ones, because MPI reuses its handles */
    void **value;    /* [keys] value of each key; NULL: the key was removed */
    int64_t room;
} plb_map_t;

/** Return the block; if it is NULL (no memory), end the program with a message. */
void *plb_must_have(void *block);

void *plb_map_get(const plb_map_t *self, uint64_t key);
void plb_map_put(plb_map_t *self, uint64_t key, void *value);
void *plb_map_take(plb_map_t *self, uint64_t key);

static inline uint64_t plb_handle(const void *handle, size_t size)
{
    uint64_t out = 0;
    __builtin_memcpy(&out, handle, size < sizeof out ? size : sizeof out);
    return out;
}
#define PLB_HANDLE(handle) plb_handle(&(handle), sizeof(handle))
