#include "whatif/whatif.h"

enum {
    /* from this many bytes on, Alltoall sends to each rank directly, as in Open MPI and MPICH */
    PAIRWISE_BYTES = 256,
};

static int32_t min32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* A step of a tree from the root.  v: the rank, counted from the root on.  The parent of v is v
 * without its lowest set bit; the subtree of child v + bit has up to `bit` ranks. */
static bool from_root(int32_t v, int32_t size, int64_t bytes, bool personal, int32_t step,
                      plb_hop_t *out)
{
    /* distance to the parent; for the root, the first power of two that is not below `size` */
    int32_t bit = 1;
    while (bit < size && (v & bit) == 0) {
        bit <<= 1;
    }
    if (v != 0 && step-- == 0) {
        *out = (plb_hop_t){-1, v - bit, 0};
        return true;
    }
    for (bit >>= 1; bit > 0; bit >>= 1) { /* the child with the largest subtree comes first */
        if (v + bit < size && step-- == 0) {
            *out = (plb_hop_t){v + bit, -1, personal ? bytes * min32(bit, size - v - bit) : bytes};
            return true;
        }
    }
    return false;
}

static bool to_root(int32_t v, int32_t size, int64_t bytes, bool personal, int32_t step,
                    plb_hop_t *out)
{
    int32_t bit = 1;
    for (; bit < size && (v & bit) == 0; bit <<= 1) {
        if (v + bit < size && step-- == 0) {
            *out = (plb_hop_t){-1, v + bit, 0};
            return true;
        }
    }
    if (v != 0 && step == 0) {
        *out = (plb_hop_t){v - bit, -1, personal ? bytes * min32(bit, size - v) : bytes};
        return true;
    }
    return false;
}

static int64_t doubling_bytes(plb_collective_t what, int32_t size, int64_t bytes, int32_t bit)
{
    switch (what) {
    case PLB_BARRIER:
        return 0;
    case PLB_ALLGATHER:
        return bytes * min32(bit, size - bit);
    case PLB_ALLTOALL:
        return bytes * ((size + 1) / 2);
    default:
        return bytes;
    }
}

/* A step on a ring: send to rank me + away, receive from rank me - away. */
static plb_hop_t around(int32_t me, int32_t size, int32_t away, int64_t bytes)
{
    return (plb_hop_t){(int32_t)(((int64_t)me + away) % size), (me - away + size) % size, bytes};
}

/* Step k of recursive doubling: send to the rank 2^k above, and receive from the rank 2^k below.
 * After this step, each rank has the data of 2^(k+1) ranks. */
static bool doubling(plb_collective_t what, int32_t me, int32_t size, int64_t bytes, int32_t step,
                     plb_hop_t *out)
{
    if (step >= 31 || (1 << step) >= size) {
        return false;
    }
    const int32_t bit = 1 << step;
    *out = around(me, size, bit, doubling_bytes(what, size, bytes, bit));
    /* in a scan, the ring is open: the first ranks receive nothing, the last ones send nothing */
    if (what == PLB_SCAN || what == PLB_EXSCAN) {
        out->to = me < size - bit ? out->to : -1;
        out->from = me >= bit ? out->from : -1;
    }
    return true;
}

static bool pairwise(int32_t me, int32_t size, int64_t bytes, int32_t step, plb_hop_t *out)
{
    *out = around(me, size, step < size - 1 ? step + 1 : 0, bytes);
    return step < size - 1;
}

static bool rooted(plb_collective_t what, int32_t me, int32_t size, int32_t root, int64_t bytes,
                   int32_t step, plb_hop_t *out)
{
    const int32_t v = (me - root + size) % size;
    const bool personal = what == PLB_GATHER || what == PLB_SCATTER;
    const bool any = what == PLB_BCAST || what == PLB_SCATTER
                         ? from_root(v, size, bytes, personal, step, out)
                         : to_root(v, size, bytes, personal, step, out);
    if (any) {
        out->to = out->to < 0 ? -1 : (int32_t)(((int64_t)out->to + root) % size);
        out->from = out->from < 0 ? -1 : (int32_t)(((int64_t)out->from + root) % size);
    }
    return any;
}

bool plb_tree_step(plb_collective_t what, int32_t me, int32_t size, int32_t root, int64_t bytes,
                   int32_t step, plb_hop_t *out)
{
    switch (what) {
    case PLB_BCAST:
    case PLB_SCATTER:
    case PLB_GATHER:
    case PLB_REDUCE:
        return rooted(what, me, size, root, bytes, step, out);
    case PLB_ALLTOALL:
        return bytes >= PAIRWISE_BYTES ? pairwise(me, size, bytes, step, out)
                                       : doubling(what, me, size, bytes, step, out);
    default:
        return doubling(what, me, size, bytes, step, out);
    }
}

void plb_tree_depth(plb_collective_t what, int32_t size, int64_t bytes, int32_t *steps,
                    int64_t *total)
{
    plb_hop_t one;
    *total = 0;
    /* rank 0, as the root, has as many steps as the longest path; without a root, all ranks have
     * the same number of steps */
    for (*steps = 0; plb_tree_step(what, 0, size, 0, bytes, *steps, &one); ++*steps) {
        *total += what == PLB_GATHER ? 0 : one.bytes;
    }
    if (what == PLB_GATHER || what == PLB_REDUCE) { /* messages go to the root */
        *total = what == PLB_GATHER ? bytes * (size - 1) : bytes * *steps;
    }
}

plb_awaits_t plb_tree_awaits(plb_collective_t what, bool is_root)
{
    switch (what) {
    case PLB_BCAST:
    case PLB_SCATTER:
        return is_root ? PLB_AWAITS_NOBODY : PLB_AWAITS_ROOT;
    case PLB_GATHER:
    case PLB_REDUCE:
        return is_root ? PLB_AWAITS_ALL : PLB_AWAITS_NOBODY;
    default:
        return PLB_AWAITS_ALL;
    }
}
