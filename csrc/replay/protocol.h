/* A discrete-event simulation of the consensus protocol on up to millions of ranks: the machines
 * of decide/consensus.h themselves, one a rank and the root's, in the time of a LogGP network
 * (Culler et al. 1993, Alexandrov et al. 1995).
 *
 * The program: in each iteration a rank works, and where there is a halo waits for what its two
 * neighbours on a ring sent when they began that iteration; then it stands at AtSync.
 *
 * The network: statistics and maxima go up a tree of ranks (heap order: the children of r are
 * r f + 1 ... r f + f), each rank sends one message when its own part and its children's are
 * there; what the root makes of them goes down the same tree, one message a child.  A message of n
 * bytes arrives o + L + (n - 1) G + o after it is sent, the messages to several children leave
 * max(g, o + (n - 1) G) apart.  Receiving from several children at once is not serialised, and the
 * work is not stretched by the o of relayed messages.
 *
 * When a rank passes messages on: while it waits, always; while it works, `serves` times an
 * iteration (1: at AtSync alone, as MPI does without a thread of its own), or at once
 * (PLB_SERVES_ALWAYS: a network that reduces on its own).
 *
 * One root stands for the roots of all ranks: they take the same results in the same order.
 */
#ifndef PLB_REPLAY_PROTOCOL_H
#define PLB_REPLAY_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { PLB_SERVES_ALWAYS = 0 };

/* X(name, C type, default, unit, help): the parameters. */
#define PLB_PROTOCOL_PARAMS(X)                                                                    \
    X(n_ranks, int64_t, 1000, "", "ranks")                                                        \
    X(iterations, int64_t, 100, "", "iterations of the program")                                  \
    X(every, int64_t, 20, "",                                                                     \
      "iterations from an LB step to the statistics that ask for the next")                       \
    X(lag, int64_t, 0, "", "bounded lag D; 0: none")                                              \
    X(fanout, int64_t, 2, "", "children of a rank in the tree")                                   \
    X(serves, int64_t, 1, "", "times an iteration that a working rank serves; 0: always")         \
    X(halo, int64_t, 1, "", "whether a rank needs its neighbours' data")                          \
    X(blocked, int64_t, 0, "", "whether it waits for them in a receive of its own")               \
    X(work, double, 10e-3, "s", "work of an iteration")                                           \
    X(spread, double, 0.0, "", "largest lasting slowdown of a rank, as a fraction of work")       \
    X(noise, double, 0.02, "", "mean of an exponential delay, as a fraction of work")             \
    X(balancing, double, 0.0, "s", "time of an LB step")                                          \
    X(L, double, 1e-6, "s", "latency")                                                            \
    X(o, double, 5e-7, "s", "processor time to send or to receive a message")                     \
    X(g, double, 5e-7, "s", "gap between two messages of a rank")                                 \
    X(G, double, 1e-10, "s/B", "gap between two bytes")                                           \
    X(bytes, int64_t, 216, "B", "statistics of an iteration, up or down")                         \
    X(halo_bytes, int64_t, 1024, "B", "of a message to a neighbour")                              \
    X(seed, int64_t, 0, "", "seed of the noise")

typedef struct plb_protocol {
#define X(name, type, value, unit, help) type name;
    PLB_PROTOCOL_PARAMS(X)
#undef X
    double bucket; /* of the calendar, in parts of the longest that is allowed; tests vary it */
    plb_tick_fn tick;
    void *tick_arg;
} plb_protocol_t;

/** Every parameter its default. */
void plb_protocol_defaults(plb_protocol_t *self);

/* One decision: the root takes the statistics of `asked` at time `root`, `final` is known on every
 * rank at `known`, and the root has the proof that all stand there at `balanced`. */
typedef struct plb_protocol_decision {
    int64_t asked, tentative, final;
    double root, known, balanced; /* s; 0: it did not get so far */
} plb_protocol_decision_t;

/* X(name, C type, unit, help): the results. */
#define PLB_PROTOCOL_RESULTS(X)                                                                   \
    X(seconds, double, "s", "until the last rank had ended")                                      \
    X(pause, double, "s", "mean of the ranks: in the pause state")                                \
    X(pause_max, double, "s", "the rank that paused longest")                                     \
    X(lagged, double, "s", "mean of the ranks: waiting for older statistics")                     \
    X(gathered, double, "s", "mean of the ranks: standing at the final iteration")                \
    X(received, double, "s", "mean of the ranks: waiting for neighbours")                         \
    X(bytes_sent, double, "B", "mean of the ranks: sent for the protocol")                        \
    X(bytes_sent_max, double, "B", "the rank that sent most")                                     \
    X(messages_sent, double, "", "mean of the ranks")                                             \
    X(events, int64_t, "", "events of the simulation")

typedef struct plb_protocol_result {
#define X(name, type, unit, help) type name;
    PLB_PROTOCOL_RESULTS(X)
#undef X
    int64_t n_decisions;
    plb_protocol_decision_t *decision; /* [n_decisions], owned */
} plb_protocol_result_t;

/** Simulate.  Memory: some 350 bytes a rank, and 24 for each iteration that may be under way.
 *  PLB_ERR_VALUE: a parameter; PLB_ERR_STATE: no rank can go on.  The caller frees the result,
 *  also then. */
int plb_protocol_run(const plb_protocol_t *in, plb_protocol_result_t *out, plb_err_t *err);
void plb_protocol_result_free(plb_protocol_result_t *self);

#endif
