/* A discrete-event simulation of the consensus protocol on up to millions of ranks.  It runs the
 * state machines of decide/consensus.h, one per rank and one for the root, with the times of a
 * LogGP network (Culler et al. 1993, Alexandrov et al. 1995).
 *
 * The program: in each iteration a rank works.  With `halo` it then waits for data from its two
 * neighbours on a ring, which they send when they begin the same iteration.  Then it is at
 * AtSync, the end of the iteration.
 *
 * The network: statistics, and maxima of the iterations that ranks have begun, go up a tree of
 * ranks (decide/consensus.h explains the rules and the terms).  With fanout f, the children of
 * rank r are the ranks r f + 1 ... r f + f.  A rank sends one message to its parent when it has
 * its own part and those of its children.  The root's rulings go down the same tree, one message
 * per child.  A message of n bytes arrives o + L + (n - 1) G + o seconds after it is sent.  A rank
 * sends to its children one after the other, every max(g, o + (n - 1) G) seconds.  It can receive
 * from several children at the same time, and passing messages on does not prolong its work.
 *
 * A waiting rank passes messages on immediately.  A working rank passes them on `serves` times per
 * iteration (1: only at AtSync, like MPI without a progress thread), or immediately
 * (PLB_SERVES_ALWAYS: the network itself reduces).
 *
 * In the real protocol each rank has a root; all roots decide the same (decide/consensus.h).  The
 * simulation has only one. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "measure/stats.h"

enum { PLB_SERVES_ALWAYS = 0 };

/* X(name, C type, default, unit, help): the parameters. */
#define PLB_PROTOCOL_PARAMS(X)                                                                    \
    X(n_ranks, int64_t, 1000, "", "ranks")                                                        \
    X(iterations, int64_t, 100, "", "iterations of the program")                                  \
    X(every, int64_t, 20, "",                                                                     \
      "iterations from an LB step to the statistics that ask for the next one")                   \
    X(lag, int64_t, 0, "",                                                                        \
      "lag D: a rank at the end of iteration k waits for the statistics of k - D; 0: no lag")     \
    X(fanout, int64_t, 2, "", "number of children of a rank in the tree")                         \
    X(serves, int64_t, 1, "",                                                                     \
      "how often a working rank passes messages on in an iteration; 0: always immediately")       \
    X(halo, int64_t, 1, "", "1: a rank needs its neighbours' data; 0: it does not")               \
    X(blocked, int64_t, 0, "",                                                                    \
      "1: a rank that waits for its neighbours' data is in a blocking receive, and only passes "  \
      "messages of the protocol on; 0: it also processes these messages")                         \
    X(work, double, 10e-3, "s", "work of an iteration")                                           \
    X(spread, double, 0.0, "", "largest lasting slowdown of a rank, as a fraction of work")       \
    X(noise, double, 0.02, "", "mean of an exponential delay, as a fraction of work")             \
    X(balancing, double, 0.0, "s", "time of an LB step")                                          \
    X(L, double, 1e-6, "s", "latency")                                                            \
    X(o, double, 5e-7, "s", "processor time to send or to receive a message")                     \
    X(g, double, 5e-7, "s", "gap between two messages of a rank")                                 \
    X(G, double, 1e-10, "s/B", "gap between two bytes")                                           \
    X(bytes, int64_t, sizeof(plb_stats_t), "B", "size of the statistics of an iteration")         \
    X(halo_bytes, int64_t, 1024, "B", "size of a message to a neighbour")                         \
    X(seed, int64_t, 0, "", "seed of the noise")

typedef struct plb_protocol {
#define X(name, type, value, unit, help) type name;
    PLB_PROTOCOL_PARAMS(X)
#undef X
    double bucket; /* for tests: width of the calendar's buckets; 1: the largest valid width */
} plb_protocol_t;

void plb_protocol_defaults(plb_protocol_t *self);

/* One decision.  At time `root`, the root takes the statistics of iteration `asked`, which ask
 * for an LB step, and announces iteration `tentative` for it.  At `known`, all ranks know the
 * iteration at whose end the LB step takes place, `final`.  At `balanced`, the root knows that all
 * ranks have reached the end of that iteration. */
typedef struct plb_protocol_decision {
    int64_t asked, tentative, final;
    double root, known, balanced; /* seconds; 0: the event did not take place */
} plb_protocol_decision_t;

/* X(name, C type, unit, help): the results. */
#define PLB_PROTOCOL_RESULTS(X)                                                                   \
    X(seconds, double, "s", "time until the last rank has ended")                                 \
    X(pause, double, "s", "mean over the ranks: waiting until all agree when to rebalance")       \
    X(pause_max, double, "s", "longest time that a rank waits until all agree when to rebalance") \
    X(lagged, double, "s",                                                                        \
      "mean over the ranks: waiting for the statistics of an earlier iteration (lag)")            \
    X(gathered, double, "s", "mean over the ranks: waiting for other ranks before LB steps")      \
    X(received, double, "s", "mean over the ranks: waiting for neighbours")                       \
    X(bytes_sent, double, "B", "mean over the ranks: bytes sent for the protocol")                \
    X(bytes_sent_max, double, "B", "largest number of bytes that one rank sent")                  \
    X(messages_sent, double, "", "mean over the ranks: messages sent for the protocol")           \
    X(events, int64_t, "", "events of the simulation")

typedef struct plb_protocol_result {
#define X(name, type, unit, help) type name;
    PLB_PROTOCOL_RESULTS(X)
#undef X
    int64_t n_decisions;
    plb_protocol_decision_t *decision; /* [n_decisions], owned */
} plb_protocol_result_t;

/** Simulate the protocol.  Memory: per rank about 350 bytes, and 24 bytes for each iteration that
 * may be under way.  PLB_ERR_VALUE: an invalid parameter; PLB_ERR_STATE: no rank can go on.  The
 * caller frees the result, also after an error. */
int plb_protocol_run(const plb_protocol_t *in, plb_protocol_result_t *out, plb_err_t *err);
void plb_protocol_result_free(plb_protocol_result_t *self);
