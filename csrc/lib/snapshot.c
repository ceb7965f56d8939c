#include "lib/internal.h"

#include <string.h>

/* X(field): the fields that pylb_snapshot and plb_snapshot_t have in common. */
#define SHARED(X)                                                                                 \
    X(n_objects)                                                                                  \
    X(n_ranks)                                                                                    \
    X(load)                                                                                       \
    X(rank)                                                                                       \
    X(key)                                                                                        \
    X(nbytes)                                                                                     \
    X(memory)                                                                                     \
    X(migratable)                                                                                 \
    X(coords)                                                                                     \
    X(n_edges)                                                                                    \
    X(edge_src)                                                                                   \
    X(edge_dst)                                                                                   \
    X(edge_bytes)                                                                                 \
    X(edge_messages)                                                                              \
    X(speed)                                                                                      \
    X(background)                                                                                 \
    X(memory_limit)                                                                               \
    X(node)

int plb_lib_view(const pylb_snapshot *from, plb_snapshot_t *out, plb_err_t *err)
{
    PLB_FAIL_IF(from == NULL || from->size != sizeof *from, err, PLB_ERR_VALUE,
                "the snapshot is %s: expected one that pylb_snapshot_init() prepared",
                from == NULL ? "NULL" : "of another size");
    *out = (plb_snapshot_t){.n_components = 1};
#define X(field) out->field = from->field;
    SHARED(X)
#undef X
    PLB_FAIL_IF(from->n_objects > 0 && (from->load == NULL || from->rank == NULL), err,
                PLB_ERR_VALUE, "%s of the snapshot is NULL: expected %lld values",
                from->load == NULL ? "load" : "rank", (long long)from->n_objects);
    PLB_FAIL_IF(from->n_edges > 0 &&
                    (from->edge_src == NULL || from->edge_dst == NULL || from->edge_bytes == NULL),
                err, PLB_ERR_VALUE,
                "the snapshot has %lld edges: expected edge_src, edge_dst and edge_bytes",
                (long long)from->n_edges);
    return plb_snapshot_check(out, err);
}

void plb_lib_show(const plb_snapshot_t *from, pylb_snapshot *out)
{
    pylb_snapshot_init(out);
#define X(field) out->field = from->field;
    SHARED(X)
#undef X
}

void pylb_snapshot_init(pylb_snapshot *snapshot)
{
    memset(snapshot, 0, sizeof *snapshot);
    snapshot->size = sizeof *snapshot;
}
