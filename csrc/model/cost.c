#include "model/model.h"

#include <string.h>

#include "base/base.h"

enum { STEPS = 8 }; /* number of collective steps in an LB step (counted, not tuned) */

typedef struct sent {
    const plb_snapshot_t *in;
    double *messages, *bytes; /* [p] what each rank sends to other ranks, times the distance */
} sent_t;

static void add(void *arg, int32_t src, int32_t dst, double bytes, double messages)
{
    sent_t *self = arg;
    if (src != dst) {
        self->messages[src] += plb_distance(self->in, src, dst, 0) * messages;
        self->bytes[src] += plb_distance(self->in, src, dst, 1) * bytes;
    }
}

int plb_add_messages(const plb_snapshot_t *in, const int32_t *rank, plb_network_t network,
                     double *time, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = in->n_ranks;
    double *sent = NULL;
    int64_t *mark = NULL;
    if (!plb_network_costs(network) || in->n_edges + in->n_multicasts == 0) {
        return PLB_OK;
    }
    PLB_NEW0(sent, 2 * (int64_t)p);
    PLB_NEW(mark, p);
    sent_t own = {in, sent, sent + p};
    rank = rank == NULL ? in->rank : rank;
    plb_each_edge(in, rank, add, &own);
    plb_each_multicast(in, rank, mark, add, &own);
    for (int32_t r = 0; r < p; r++) {
        time[r] += network.alpha * sent[r] + network.beta * sent[p + r];
    }
out:
    PLB_FREE(sent, mark);
    return ret;
}

int plb_phase_times(const plb_snapshot_t *in, const int32_t *rank, plb_network_t network,
                    double *time, plb_err_t *err)
{
    plb_snapshot_rank_times(in, rank, time);
    return plb_add_messages(in, rank, network, time, err);
}

int plb_migration_seconds(const plb_lb_cost_t *self, const plb_snapshot_t *in, const int32_t *rank,
                          double *seconds, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = in->n_ranks;
    double *busy = NULL;
    plb_groups_t leaving = {0}; /* objects by their present rank */
    int32_t *sender = NULL;     /* [p] the rank most recently counted as a sender to this rank */
    *seconds = 0.0;
    PLB_NEW0(busy, p);
    PLB_TRY(plb_groups_init(&leaving, in->rank, in->n_objects, p, err));
    PLB_NEW(sender, p);
    memset(sender, 0xff, (size_t)p * sizeof *sender);
    for (int32_t r = 0; r < p; r++) {
        for (int64_t k = leaving.start[r]; k < leaving.start[r + 1]; k++) {
            const int32_t i = leaving.item[k];
            if (rank[i] == r) {
                continue;
            }
            const double bytes = in->nbytes == NULL ? 0.0 : (double)in->nbytes[i];
            busy[r] +=
                self->handling + self->beta * bytes + (sender[rank[i]] == r ? 0.0 : self->alpha);
            busy[rank[i]] += self->handling;
            sender[rank[i]] = r;
        }
    }
    for (int32_t r = 0; r < p; r++) {
        *seconds = busy[r] > *seconds ? busy[r] : *seconds;
    }
out:
    plb_groups_free(&leaving);
    PLB_FREE(busy, sender);
    return ret;
}

double plb_first_cost(const plb_lb_cost_t *self, int64_t objects, int64_t bytes, int32_t n_ranks)
{
    int rounds = 0;
    while (n_ranks >> rounds > 0) {
        rounds++;
    }
    const double move = 2.0 * self->handling * (double)objects + self->beta * (double)bytes;
    return move + self->alpha * STEPS * rounds;
}
