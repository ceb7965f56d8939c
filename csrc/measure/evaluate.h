/* Evaluates a placement: messages, memory and migrations.  An edge delivers its bytes to the
 * receiver's rank.  A multicast delivers its bytes once to each rank that has receivers. */
#pragma once

#include "model/snapshot.h"

/* X(type, name, unit, help); types: double or int64_t.  Python's Evaluation has the same names. */
#define PLB_EVALUATION(X)                                                                         \
    X(double, cut, "bytes", "bytes of the edges between different ranks")                         \
    X(double, connectivity, "bytes",                                                              \
      "sum over the multicasts: bytes times the number of other ranks with receivers "            \
      "(connectivity - 1)")                                                                       \
    X(double, bytes_local, "bytes", "bytes delivered within a rank")                              \
    X(double, bytes_node, "bytes", "bytes delivered between ranks of a node")                     \
    X(double, bytes_network, "bytes", "bytes delivered between nodes")                            \
    X(double, hop_bytes, "bytes",                                                                 \
      "bytes times the number of links that they pass in the tree of ranks, nodes and network: "  \
      "2 within a node, 4 between nodes")                                                         \
    X(double, messages_local, "", "messages delivered within a rank")                             \
    X(double, messages_node, "", "messages delivered between ranks of a node")                    \
    X(double, messages_network, "", "messages delivered between nodes")                           \
    X(double, sent_max, "bytes", "largest sum of bytes that one rank sends to other ranks")       \
    X(double, received_max, "bytes",                                                              \
      "largest sum of bytes that one rank receives from other ranks")                             \
    X(double, link_max, "bytes", "largest sum of bytes that one rank sends to one other rank")    \
    X(int64_t, link_src, "", "the rank that sends link_max; -1: no rank sends to another")        \
    X(int64_t, link_dst, "", "the rank that receives link_max; -1: no rank sends to another")     \
    X(double, neighbours_mean, "", "mean number of ranks that a rank sends to or receives from")  \
    X(int64_t, neighbours_max, "",                                                                \
      "largest number of ranks that a rank sends to or receives from")                            \
    X(int64_t, memory_max, "bytes", "largest memory of objects and shared blocks on a rank")      \
    X(int64_t, migrations, "", "number of objects that change their rank")                        \
    X(int64_t, migration_bytes, "bytes",                                                          \
      "bytes that these migrations send; 0 if the snapshot has no sizes of objects")

typedef struct plb_evaluation {
#define X(type, name, unit, help) type name;
    PLB_EVALUATION(X)
#undef X
} plb_evaluation_t;

/** Evaluate the placement rank[] (NULL: the present one), in linear time. */
int plb_evaluate(const plb_snapshot_t *in, const int32_t *rank, plb_evaluation_t *out,
                 plb_err_t *err);
