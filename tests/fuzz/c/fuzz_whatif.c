/* The simulator of recorded MPI programs: any operations on any machine.  The simulator refuses
 * them with a message, or it ends; then each rank has ended, was cut off, or waits forever.  Then
 * the critical path of the same operations, and of the program if a procedure were changed. */
#include <math.h>
#include <string.h>

#include "feed.h"
#include "plb.h"
#include "whatif/whatif.h"

enum { MOST_RANKS = 6, MOST_OPS = 60, NODES = 2 };

typedef struct asked {
    int32_t n, n_processors, place[MOST_RANKS], node[MOST_RANKS];
    double speed[MOST_RANKS], share[MOST_RANKS], alpha[NODES * NODES], beta[NODES * NODES];
    plb_target_t target;
    int64_t start[3];
    int32_t member[2 * MOST_RANKS];
    plb_comms_t comms; /* two communicators: the world, and all ranks except rank 0 */
    plb_op_t op[MOST_RANKS][MOST_OPS];
    int64_t n_ops[MOST_RANKS];
} asked_t;

/* Return a positive number, usually an ordinary one. */
static double feed_amount(feed_t *feed)
{
    return feed_byte(feed) < 240 ? 0.25 + feed_byte(feed) / 64.0 : feed_double(feed);
}

static void draw_target(asked_t *a, feed_t *feed)
{
    static const double period[] = {0.0, 0.1, 1e-3};
    const uint8_t how = feed_byte(feed);
    a->n_processors = 1 + (int32_t)feed_below(feed, MOST_RANKS);
    for (int32_t p = 0; p < a->n_processors; p++) {
        a->node[p] = (int32_t)feed_below(feed, NODES);
        a->speed[p] = feed_amount(feed);
        a->share[p] = feed_byte(feed) < 240 ? 0.25 * (1 + feed_below(feed, 4)) : feed_double(feed);
    }
    for (int32_t r = 0; r < a->n; r++) {
        a->place[r] = (int32_t)feed_below(feed, (uint32_t)a->n_processors);
    }
    for (int k = 0; k < NODES * NODES; k++) {
        a->alpha[k] = feed_byte(feed) < 250 ? 1e-6 * feed_byte(feed) : feed_double(feed);
        a->beta[k] = feed_byte(feed) < 250 ? 1e-9 * feed_byte(feed) : feed_double(feed);
    }
    a->target = (plb_target_t){.n_processors = a->n_processors,
                               .n_nodes = NODES,
                               .place = a->place,
                               .speed = a->speed,
                               .share = how & 1 ? a->share : NULL,
                               .period = period[feed_below(feed, 3)],
                               .node = a->node,
                               .alpha = a->alpha,
                               .beta = a->beta,
                               .overhead = how & 2 ? 1e-6 : 0.0,
                               .eager = how & 4 ? 100 : 0};
}

/* Draw an operation, usually with few peers, tags and requests, so that it can be valid. */
static plb_op_t draw_op(asked_t *a, feed_t *feed, int32_t rank)
{
    plb_op_t op = {.kind = (uint8_t)(1 + feed_below(feed, PLB_N_OPS - 1)),
                   .peer = (int32_t)feed_below(feed, (uint32_t)a->n),
                   .tag = (int32_t)feed_below(feed, 3),
                   .request = (int32_t)feed_below(feed, 3),
                   .bytes = feed_byte(feed) < 240 ? feed_byte(feed) * 8 : feed_int(feed),
                   .compute = feed_byte(feed) * 1000,
                   .flags = feed_byte(feed) < 128 ? 0 : feed_byte(feed),
                   .what = (uint16_t)feed_below(feed, PLB_N_COLLECTIVES)};
    if (feed_byte(feed) > 240) {
        op.compute = feed_int(feed);
    }
    if (op.kind == PLB_OP_COLL || op.kind == PLB_OP_ICOLL) {
        op.comm = rank > 0 && feed_bool(feed);
        op.peer = op.comm ? 0 : op.peer;
        op.tag = op.comm ? rank - 1 : rank;
    }
    if (feed_byte(feed) == 0) { /* sometimes it has arbitrary fields */
        op.peer = (int32_t)feed_int(feed);
        op.tag = (int32_t)feed_int(feed);
        op.request = (int32_t)feed_int(feed);
        op.comm = (int32_t)feed_int(feed);
        op.kind = feed_byte(feed);
    }
    return op;
}

static void draw(asked_t *a, feed_t *feed)
{
    a->n = 1 + (int32_t)feed_below(feed, MOST_RANKS);
    for (int32_t r = 0; r < a->n; r++) {
        a->member[r] = r;
        a->member[a->n + (r > 0 ? r - 1 : 0)] = r;
    }
    a->start[1] = a->n;
    a->start[2] = 2 * a->n - 1;
    a->comms = (plb_comms_t){2, a->start, a->member};
    draw_target(a, feed);
    const uint32_t most = 1 + feed_below(feed, MOST_OPS - 1);
    const bool alike = feed_bool(feed); /* true: all ranks make the same calls */
    for (int32_t r = 0; r < a->n; r++) {
        const int64_t n = a->n_ops[r] = feed_below(feed, most);
        feed_t same = *feed;
        for (int64_t k = 0; k < n; k++) {
            a->op[r][k] = draw_op(a, alike ? &same : feed, r);
        }
        if (feed_byte(feed) < 250) {
            a->op[r][a->n_ops[r]++] = (plb_op_t){.kind = PLB_OP_END};
        }
    }
}

enum { PROCEDURES = 3 };

typedef struct found {
    int64_t longest[MOST_RANKS];
    int32_t stuck;
} found_t;

/* ---- pairs ---------------------------------------------------------------------------------- */

static const plb_op_t *nth_send(const plb_streams_t *s, const plb_pairing_t *pairs, int64_t number)
{
    for (int32_t r = 0; r < s->n_ranks; r++) {
        int64_t at = pairs->send_start[r];
        for (int64_t i = 0; i < s->n[r]; i++) {
            if (plb_op_is_send(&s->op[r][i]) && at++ == number) {
                return &s->op[r][i];
            }
        }
    }
    return NULL;
}

/* Each receive has a send of its own, with its peer, communicator and tag. */
static void check_pairs(const plb_streams_t *s, const plb_pairing_t *pairs)
{
    bool taken[MOST_RANKS * (MOST_OPS + 1)] = {false};
    int64_t number = 0, unsent = 0;
    for (int32_t r = 0; r < s->n_ranks; r++) {
        for (int64_t i = 0; i < s->n[r]; i++) {
            if (!plb_op_is_receive(&s->op[r][i])) {
                continue;
            }
            const int64_t of = pairs->send_of[number++];
            unsent += of < 0;
            if (of >= 0) {
                const plb_op_t *send = nth_send(s, pairs, of);
                MUST(send != NULL && !taken[of] && send->peer == r);
                MUST(send->comm == s->op[r][i].comm);
                taken[of] = true;
            }
        }
    }
    MUST(number == pairs->receive_start[s->n_ranks] && unsent == pairs->unsent);
    MUST(pairs->send_start[s->n_ranks] - pairs->unreceived == number - unsent);
}

/* ---- paths ---------------------------------------------------------------------------------- */

static int64_t time_of(const plb_op_t *op)
{
    return op->compute + (op->kind == PLB_OP_PAUSE ? op->bytes : 0);
}

/* Paths without costs of messages. */
static int paths(feed_t *feed, const plb_streams_t *s, const plb_pairing_t *pairs, plb_err_t *err)
{
    static plb_path_hop_t hops[MOST_RANKS][MOST_OPS];
    plb_path_hop_t *hop[MOST_RANKS];
    plb_path_query_t query = {.change = PLB_PATH_NOTHING, .procedure = -1, .from = -1, .to = -1};
    found_t plain = {.stuck = 0}, changed = {.stuck = 0};
    for (int32_t r = 0; r < s->n_ranks; r++) {
        MUST(s->n[r] <= MOST_OPS);
        hop[r] = hops[r];
    }
    PLB_PASS(plb_path_lengths(s, pairs, &query, plain.longest, hop, &plain.stuck, err));
    for (int32_t r = 0; plain.stuck == 0 && r < s->n_ranks; r++) {
        int64_t own = 0;
        for (int64_t i = 0; i < s->n[r]; i++) {
            own += time_of(&s->op[r][i]);
        }
        MUST(plain.longest[r] >= own);
    }
    query.procedure = (int32_t)feed_below(feed, PROCEDURES);
    query.change = feed_bool(feed) ? PLB_PATH_ZEROED : PLB_PATH_MOVED;
    query.kept = feed_bool(feed);
    query.from = (int32_t)feed_below(feed, (uint32_t)s->n_ranks + 1) - 1;
    query.to = (int32_t)feed_below(feed, (uint32_t)s->n_ranks + 1) - 1;
    PLB_PASS(plb_path_lengths(s, pairs, &query, changed.longest, NULL, &changed.stuck, err));
    MUST(changed.stuck == plain.stuck); /* the order of messages does not depend on times */
    for (int32_t r = 0; query.change == PLB_PATH_ZEROED && r < s->n_ranks; r++) {
        MUST(changed.longest[r] >= 0 && changed.longest[r] <= plain.longest[r]);
    }
    query.change = PLB_PATH_NOTHING;
    query.alpha = feed_byte(feed) * 1e-6;
    query.beta = feed_byte(feed) * 1e-9;
    PLB_PASS(plb_path_lengths(s, pairs, &query, changed.longest, NULL, &changed.stuck, err));
    for (int32_t r = 0; r < s->n_ranks; r++) {
        MUST(changed.longest[r] >= plain.longest[r]);
    }
    return PLB_OK;
}

/* Pair the messages, find the paths, and check them. */
static void find_critical(feed_t *feed, const plb_streams_t *streams, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    plb_pairing_t pairs = {0};
    plb_mem_fail_at(fail_at);
    int ret = plb_pairing_make(streams, &pairs, &err);
    if (ret == PLB_OK) {
        check_pairs(streams, &pairs);
        ret = paths(feed, streams, &pairs, &err);
    }
    plb_mem_fail_at(-1);
    MUST(ret == PLB_OK || ret == PLB_ERR_FORMAT || ret == PLB_ERR_VALUE ||
         (ret == PLB_ERR_NOMEM && fail_at >= 0));
    MUST(ret == PLB_OK || err.text[0] != '\0');
    plb_pairing_free(&pairs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    feed_t feed = feed_of(data, size);
    plb_err_t err = {0, ""};
    asked_t *a = plb_calloc(1, sizeof *a);
    plb_process_times_t out[MOST_RANKS] = {0};
    draw(a, &feed);
    const plb_op_t *op[MOST_RANKS];
    for (int32_t r = 0; r < a->n; r++) {
        op[r] = a->op[r];
    }
    const plb_streams_t streams = {a->n, op, a->n_ops, a->comms};
    const int64_t fail_at = feed_byte(&feed) < 32 ? feed_byte(&feed) : -1;
    plb_mem_fail_at(fail_at);
    const int ret = plb_whatif(&streams, &a->target, NULL, out, &err);
    plb_mem_fail_at(-1);
    MUST(ret == PLB_OK || ret == PLB_ERR_FORMAT || ret == PLB_ERR_VALUE || ret == PLB_ERR_RANGE ||
         (ret == PLB_ERR_NOMEM && fail_at >= 0));
    MUST(ret == PLB_OK || err.text[0] != '\0');
    find_critical(&feed, &streams, fail_at);
    plb_free(a);
    return 0;
}
