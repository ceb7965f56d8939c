#include "critical.h"

#include "whatif/whatif.h"

enum { RANKS = 8, OPS = 64, PROCEDURES = 3 };

typedef struct found {
    int64_t longest[RANKS];
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
    bool taken[RANKS * OPS] = {false};
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
    static plb_path_hop_t hops[RANKS][OPS];
    plb_path_hop_t *hop[RANKS];
    plb_path_query_t query = {.change = PLB_PATH_NOTHING, .procedure = -1, .from = -1, .to = -1};
    found_t plain = {.stuck = 0}, changed = {.stuck = 0};
    for (int32_t r = 0; r < s->n_ranks; r++) {
        MUST(s->n[r] <= OPS);
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

void critical_call(feed_t *feed, const plb_streams_t *streams, int64_t fail_at)
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
