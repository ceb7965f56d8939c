/* A hash table from MPI's handles, or other numbers, to pointers. */
#ifndef PLB_WHATIF_RECORDER_HANDLES_H
#define PLB_WHATIF_RECORDER_HANDLES_H

#include <stddef.h>
#include <stdint.h>

typedef struct plb_table {
    uint64_t *key;
    void **value;
    uint32_t n, room;
} plb_table_t;

void *plb_table_get(const plb_table_t *self, uint64_t key);
void plb_table_put(plb_table_t *self, uint64_t key, void *value);
void *plb_table_take(plb_table_t *self, uint64_t key);

static inline uint64_t plb_mix(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

static inline uint64_t plb_handle(const void *handle, size_t size)
{
    uint64_t out = 0;
    __builtin_memcpy(&out, handle, size < sizeof out ? size : sizeof out);
    return out;
}
#define PLB_HANDLE(handle) plb_handle(&(handle), sizeof(handle))

#endif
