#include "comm/share.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "comm/comm.h"

/* The plan is made within groups of at most this many ranks, so that no rank reads more numbers.
 * With n groups, each n-th rank is in the same group, and n neighbours, a block, are in n groups.
 * n is no multiple of 2, 3 or 5: so each group has its part of a front of heavy neighbours, and of
 * ranks that are e.g. each fourth of a node.  A rank asks its partners: the ranks of its group,
 * and those of its block.  So groups that end early get work from the others. */
enum { GROUP = 512 };
/* A decision that nothing pays costs about 50 us: it holds for the next calls, if these are short,
 * until so many seconds have passed, and for MOST_HELD calls at most: then a failure is noticed.
 * (docs/measured/lending.md: such a call takes 1.1 to 1.4 times as long as an Iallreduce.) Without
 * lending, chunks only teach where the heavy rows are, and take as long. */
static const double HOLDS = PLB_SHARE_PARTS * PLB_SHARE_CHUNK;
enum { MOST_HELD = PLB_LONG - 1 };
/* How many ranks are asked at a time, and in vain in a call at most.  (sim, the first call on 8
 * ranks: 1.18 times the bound; with 1 at a time 1.31; with 4 in vain 1.55.) */
enum { ASKED = PLB_SHARE_PARTS / 2, TRIES = PLB_FEW * PLB_SHARE_PARTS };
/* Rows that take more than this multiple of what a rank would lend stay with it.
 * tuned: ratio; sim: with 2, two ranks hand the same rows to each other forever */
static const double MOST_OF_IT = 1.5;
/* Bytes of the rows in one message: memory that a rank needs for what it lends and borrows. */
enum { MOST_BYTES = 1 << 26 };

enum { TAG_ROWS = 1, TAG_ANSWER, TAG_ASK, TAG_NOTHING, TAG_WAITS };

/* What a message begins with. */
typedef struct head {
    int64_t piece, n;     /* index in the owner's array `piece`; number of rows */
    double work, seconds; /* work: predicted for the rows; seconds: measured by the borrower */
    double speed;         /* of the sender */
    int32_t owner, failed, reply; /* reply: whether these are the first rows after a question */
} head_t;

/* Rows that are being computed by another rank. */
typedef struct piece {
    int64_t *row, n; /* owned */
    int to;          /* the rank that got them; then the one that has computed them */
    bool planned, answered;
    double predicted, seconds; /* as predicted for this rank; as measured by the borrower */
    double speed;              /* of the rank that has computed them */
} piece_t;

typedef struct guest {
    head_t *message; /* owned: head and rows */
    int64_t bytes;
} guest_t;

typedef struct sent {
    MPI_Request request;
    void *message; /* owned */
} sent_t;

/* The predicted and the measured seconds of rows that were computed. */
typedef struct done {
    double predicted, seconds;
} done_t;

/* The numbers of a reduction: sums, then maxima.  At the end of a call, the ranks reduce WORK,
 * SPEED, CROWD, BUSY, WALL, FAILED, TIME (without lending) and SURE (duration).  CROWD: seconds
 * that all work takes on the cores, where ranks share them.  BUSY: seconds of computing, including
 * the expected waits if all ranks compute on these cores; WALL: including the measured waits. */
enum { WORK, SPEED, BYTES, UNKNOWN, CROWD, BUSY, WALL, N_SUMS };
enum { FAILED = N_SUMS, TIME, SURE, ROW, ROW_LEAST, N_ALL };

/* What this rank knows of another rank in a call. */
enum { ASK_IT, IS_ASKED, HAS_NOTHING };

struct plb_sharer {
    plb_comm_t comm;
    MPI_Comm group;            /* for the gather before a plan */
    int n_groups, n_group, me; /* n_group: number of ranks in the group; me: this rank in it */
    int n_partners;            /* partners: the ranks of the group, then those of the block */
    MPI_Op op;
    plb_share_options_t options;
    plb_row_costs_t costs;
    plb_rng_t rng;            /* draws the rank to ask */
    double *speed;            /* [n_partners] speed of each partner */
    plb_share_offer_t told;   /* what this rank will contribute to the next plan */
    plb_share_offer_t *offer; /* [n_group] */
    plb_share_flow_t *flow;   /* [n_group] */
    done_t *taken;            /* [n_partners] planned rows that each has computed for this rank */
    unsigned char *state;     /* [n_partners] ASK_IT ... */
    int *hungry;              /* [n_partners] ranks that have asked for work */
    double mine[N_ALL], all[N_ALL];
    plb_clock_t clock;      /* without waits for a core, unless a quota slows only this rank */
    double crowd, per_core; /* ranks per core, at least 1; what a second of work adds to CROWD */
    double contention;      /* WALL / BUSY of the last call that lent: < 1 if rows wait for e.g. a
                             * device, > 1 if other programs use the cores.  Equal on all ranks */
    /* Where ranks share cores, or other programs disturb them, lending may cost more than it
     * saves: then lending pauses for some calls.  Equal on all ranks. */
    double credit;       /* s: what the recent calls that lent have saved */
    int lent_calls;      /* number of calls that lent since the last pause */
    int rest, most_rest; /* number of calls that the pause still lasts; length of the last pause */
    int held;            /* number of calls for which the decision that nothing pays still holds */
    int64_t calls;       /* number of reductions that began a call */
    bool broken, lost;   /* broken: no more calls; lost: MPI may still use memory of `leaving` */
    MPI_Request leaving; /* the reduction that announces that this rank leaves */

    /* of the call under way */
    const plb_shared_rows_t *rows;
    plb_share_figures_t *figures;
    plb_tick_fn tick;
    void *tick_arg;
    plb_wait_t wait;
    bool waits, said, learns;
    int64_t *kept;     /* [n] own rows that are not lent at the start; NULL: all, before this */
    int64_t low, high; /* kept[low ... high - 1] are not computed yet */
    /* kept[0 ... control - 1], [control ... risk - 1]: see lend_planned; 0 before */
    int64_t control, risk;
    double left;          /* predicted seconds of the rows that are not computed yet */
    double predicted;     /* predicted seconds of all own rows; 0: predictions have no unit yet */
    double wall;          /* seconds of all rows computed here so far, with waits for a core */
    double grain;         /* largest seconds of a chunk */
    done_t own, controls; /* own rows computed here so far; those of them that are the control */
    bool unknown;         /* whether the predictions of some ranks have no unit yet */
    piece_t *piece;
    int64_t n_pieces, piece_room, open; /* open: pieces without an answer */
    guest_t *guest;
    int64_t n_guests, guest_room, next_guest;
    double guest_work; /* work of the guests that wait */
    sent_t *sent;
    int64_t n_sent, sent_room;
    int asked, tries; /* asked: number of questions without an answer so far */
    int ret;          /* the error of this rank */
    plb_err_t err;
};

static void merge(void *in, void *inout, int *n, MPI_Datatype *type)
{
    const double *a = in;
    double *b = inout;
    (void)type;
    for (int i = 0; i < *n; i++) {
        const int k = i % N_ALL;
        b[i] = k < N_SUMS ? a[i] + b[i] : fmax(a[i], b[i]);
    }
}

/* Find out which ranks share cores: a rank that shares them may run faster while others wait. */
static int find_cores(plb_sharer_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->comm.size, me = self->comm.rank;
    int32_t *group = NULL, n_groups = 0, n = 0;
    plb_cores_t here, *every = NULL;
    double *cores = NULL;
    PLB_NEW_EACH(p, every, group, cores);
    plb_cores_here(&here);
    PLB_MPI(MPI_Allgather(&here, sizeof here, MPI_BYTE, every, sizeof here, MPI_BYTE,
                          self->comm.comm));
    PLB_TRY(plb_cores_groups(every, p, group, cores, err));
    for (int32_t r = 0; r < p; r++) {
        n_groups += group[r] == r;
        n += group[r] == group[me];
    }
    self->clock = plb_cores_capped(every, p, me) ? PLB_CLOCK_WALL : PLB_CLOCK_AUTO;
    self->crowd = fmax(n / cores[me], 1.0);
    self->per_core = self->crowd > 1.0 ? 1.0 / (cores[me] * n_groups) : 0.0;
out:
    PLB_FREE(every, group, cores);
    return ret;
}

/* Return the rank of a partner. */
static int rank_of(const plb_sharer_t *self, int partner)
{
    const int n = self->n_groups;
    return partner < self->n_group ? partner * n + self->comm.rank % n
                                   : self->me * n + partner - self->n_group;
}

/* Return the number of a rank among the partners; -1: it is none. */
static int partner_of(const plb_sharer_t *self, int rank)
{
    const int n = self->n_groups, block = rank / n;
    if (rank % n == self->comm.rank % n) {
        return block;
    }
    return block == self->me ? self->n_group + rank % n : -1;
}

int plb_share_new(plb_sharer_t **out, MPI_Comm user, const plb_share_options_t *options,
                  const plb_patience_t *patience, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_sharer_t *self = NULL;
    *out = NULL;
    PLB_NEW0(self, 1);
    self->comm.comm = self->group = MPI_COMM_NULL;
    self->op = MPI_OP_NULL;
    PLB_TRY(plb_comm_init(&self->comm, user, err));
    const int size = self->comm.size, rank = self->comm.rank;
    int n = 1;
    while (size > n * GROUP || n % 2 == 0 || n % 3 == 0 || n % 5 == 0) {
        n++;
    }
    self->n_groups = n;
    self->me = rank / n;
    PLB_MPI(MPI_Comm_split(self->comm.comm, rank % n, rank, &self->group));
    PLB_MPI(MPI_Comm_size(self->group, &self->n_group));
    const int block = size - self->me * n < n ? size - self->me * n : n;
    self->n_partners = self->n_group + (n > 1 ? block : 0);
    PLB_MPI(MPI_Op_create(merge, 1, &self->op));
    PLB_TRY(find_cores(self, err));
    self->comm.patience = patience;
    self->options = *options;
    self->options.beta = options->beta > 0.0 ? options->beta : PLB_SHARE_BETA;
    self->costs.trust = self->contention = 1.0;
    PLB_NEW_EACH(self->n_group, self->flow, self->offer);
    PLB_NEW_EACH(self->n_partners, self->speed, self->taken, self->state, self->hungry);
    for (int k = 0; k < self->n_partners; k++) {
        self->speed[k] = 1.0;
    }
    self->told.of = -1.0;
    plb_rng_init(&self->rng, (uint64_t)rank);
out:
    if (ret == PLB_OK) {
        *out = self;
    } else if (self != NULL) {
        plb_share_close(self);
        plb_share_free(self);
    }
    return ret;
}

void plb_share_close(plb_sharer_t *self)
{
    if (self->op != MPI_OP_NULL) {
        MPI_Op_free(&self->op);
    }
    if (self->group != MPI_COMM_NULL) {
        MPI_Comm_free(&self->group);
    }
    plb_comm_free(&self->comm);
}

static void clear(plb_sharer_t *self)
{
    for (int64_t i = 0; i < self->n_pieces; i++) {
        plb_free(self->piece[i].row);
    }
    for (int64_t i = self->next_guest; i < self->n_guests; i++) {
        plb_free(self->guest[i].message);
    }
    plb_free(self->kept);
    self->kept = NULL;
    self->n_pieces = self->n_guests = self->next_guest = self->open = 0;
}

void plb_share_free(plb_sharer_t *self)
{
    if (self == NULL || self->lost) {
        return;
    }
    clear(self);
    plb_row_costs_free(&self->costs);
    PLB_FREE(self->speed, self->flow, self->offer, self->taken, self->state, self->hungry);
    PLB_FREE(self->piece, self->guest, self->sent, self);
}

/* ---- messages --------------------------------------------------------------------------- */

static double speed(const plb_sharer_t *self)
{
    return self->speed[self->me];
}

/* Keep the first error of this rank; the call goes on, so that no other rank waits for this one.
 */
static void keep(plb_sharer_t *self, int code, const plb_err_t *err)
{
    if (code != PLB_OK && self->ret == PLB_OK) {
        self->ret = code;
        self->err = *err;
    }
}

/* Send a message, which is freed when it has gone. */
static int post(plb_sharer_t *self, head_t *message, int64_t bytes, int to, int tag,
                plb_err_t *err)
{
    int ret = PLB_OK;
    message->speed = speed(self);
    PLB_GROW(self->sent, self->sent_room, self->n_sent + 1);
    sent_t *sent = &self->sent[self->n_sent];
    PLB_FAIL_IF(bytes > PLB_PIECE, err, PLB_ERR_RANGE,
                "%lld bytes of rows in one message: expected at most %d", (long long)bytes,
                PLB_PIECE);
    PLB_MPI(MPI_Isend(message, (int)bytes, MPI_BYTE, to, tag, self->comm.comm, &sent->request));
    sent->message = message;
    self->n_sent++;
    message = NULL;
out:
    plb_free(message);
    return ret;
}

static int post_head(plb_sharer_t *self, int to, int tag, int64_t n, plb_err_t *err)
{
    head_t *head;
    PLB_PASS_NEW0(head, 1);
    head->n = n;
    return post(self, head, sizeof *head, to, tag, err);
}

/* Wait a little for other ranks. */
static int pause_a_little(plb_sharer_t *self)
{
    const plb_patience_t *patience = self->comm.patience;
    if (!self->waits) {
        plb_wait_begin(&self->wait, self->tick, self->tick_arg);
        self->waits = true;
    }
    if (!self->said && patience != NULL && patience->say != NULL &&
        plb_clock_ns(PLB_CLOCK_WALL) - self->wait.start > PLB_WAIT_PATIENCE_NS) {
        patience->say(patience->arg);
        self->said = true;
        for (int k = 0; k < self->n_partners; k++) { /* `receive` drops the one to itself */
            PLB_PASS(post_head(self, rank_of(self, k), TAG_WAITS, self->calls, &self->err));
        }
    }
    return plb_wait_pause(&self->wait);
}

static int drop_sent(plb_sharer_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    for (int64_t i = 0; i < self->n_sent;) {
        int done = 0;
        PLB_MPI(MPI_Test(&self->sent[i].request, &done, MPI_STATUS_IGNORE));
        if (done) {
            plb_free(self->sent[i].message);
            self->sent[i] = self->sent[--self->n_sent];
        } else {
            i++;
        }
    }
out:
    return ret;
}

/* Lend rows row[n], which are predicted to take `seconds` here. */
static int lend(plb_sharer_t *self, const int64_t *row, int64_t n, double seconds, int to,
                bool planned, bool reply, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t bytes = (int64_t)sizeof(head_t) + n * self->rows->row_bytes;
    head_t *head = NULL;
    PLB_GROW(self->piece, self->piece_room, self->n_pieces + 1);
    piece_t *piece = &self->piece[self->n_pieces];
    *piece = (piece_t){.n = n, .to = to, .planned = planned};
    PLB_NEW(piece->row, n);
    self->n_pieces++;
    for (int64_t k = 0; k < n; k++) {
        piece->row[k] = row[k];
        piece->predicted += self->costs.now[row[k]];
    }
    head = plb_malloc((size_t)bytes, 1);
    PLB_TRY(head != NULL ? PLB_OK : PLB_NO_MEMORY(head, bytes));
    *head = (head_t){.piece = self->n_pieces - 1,
                     .n = n,
                     .work = seconds * speed(self),
                     .owner = self->comm.rank,
                     .reply = reply};
    PLB_TRY(self->rows->pack(self->rows->arg, row, n, (char *)(head + 1), err));
    self->figures->rows += (double)n;
    self->figures->bytes += (double)bytes;
    ret = post(self, head, bytes, to, TAG_ROWS, err);
    head = NULL;
    self->open += ret == PLB_OK;
out:
    plb_free(head);
    return ret;
}

/* ---- own rows --------------------------------------------------------------------------- */

static int64_t row_at(const plb_sharer_t *self, int64_t k)
{
    return self->kept != NULL ? self->kept[k] : k;
}

/* Return the ratio of the measured to the predicted time of the own rows so far.  One part in
 * PLB_SHARE_PARTS of all own rows counts as if it had taken the predicted time. */
static double scale(const plb_sharer_t *self)
{
    const double before = self->predicted / PLB_SHARE_PARTS;
    const double expected = self->own.predicted + before;
    return self->own.seconds > 0.0 && expected > 0.0 ? (self->own.seconds + before) / expected
                                                     : 1.0;
}

/* Return the seconds that the remaining own rows will take. */
static double rest(const plb_sharer_t *self)
{
    return self->low < self->high ? self->left * scale(self) : 0.0;
}

/* Return the smallest length of a chunk; 0 while the predictions have no unit. */
static double least(const plb_sharer_t *self, double seconds)
{
    return self->costs.known || self->own.seconds > 0.0 ? seconds : 0.0;
}

/* Return the seconds for which this rank has work, including rows of other ranks. */
static double supply(const plb_sharer_t *self)
{
    return rest(self) + self->guest_work / speed(self);
}

/* Return the largest number of rows in a message. */
static int64_t most_rows(const plb_sharer_t *self)
{
    const plb_shared_rows_t *rows = self->rows;
    const int64_t most = rows->row_bytes > 0 ? MOST_BYTES / rows->row_bytes : rows->n;
    return rows->chunk > 0 && rows->chunk < most ? rows->chunk : most;
}

/* Return how many rows make a chunk of `seconds`, even if they turn out to be heavy: kept[first],
 * kept[first + step] ..., 1 ... most rows.  *sum: their predicted time. */
static int64_t filled(const plb_sharer_t *self, int64_t first, int step, int64_t most,
                      double seconds, double *sum)
{
    double worst = 0.0;
    int64_t n = 0;
    for (*sum = 0.0; n < most; n++) {
        const int64_t k = first + n * step, i = row_at(self, k);
        worst += k < self->risk ? self->costs.worst[i] : self->costs.now[i];
        if (n > 0 && worst > seconds) {
            break;
        }
        *sum += self->costs.now[i];
    }
    return n;
}

/* Return how many of the next rows are computed together. */
static int64_t count(const plb_sharer_t *self, double seconds, double *sum)
{
    const int64_t stop = self->low < self->control ? self->control
                         : self->low < self->risk  ? self->risk
                                                   : self->high;
    const int64_t n = (stop < self->high ? stop : self->high) - self->low;
    const int64_t most = self->rows->chunk > 0 && self->rows->chunk < n ? self->rows->chunk : n;
    return filled(self, self->low, 1, most, seconds / scale(self), sum);
}

static void compute(plb_sharer_t *self, double chunk)
{
    double sum;
    const int64_t n = count(self, chunk, &sum), first = row_at(self, self->low);
    const bool together = row_at(self, self->low + n - 1) - first == n - 1;
    const int64_t *row = together ? NULL : self->kept + self->low;
    plb_err_t err = {0};
    const int64_t start = plb_clock_ns(PLB_CLOCK_WALL), begin = plb_clock_ns(self->clock);
    const int ret = self->rows->own(self->rows->arg, first, row, n, &err);
    const double seconds = 1e-9 * (double)(plb_clock_ns(self->clock) - begin);
    self->wall += 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - start);
    if (self->low < self->control) {
        self->controls.predicted += sum;
        self->controls.seconds += seconds;
    }
    self->own.predicted += sum;
    self->own.seconds += seconds;
    plb_row_costs_learn(&self->costs, first, row, n, seconds);
    self->low += n;
    self->left = fmax(self->left - sum, 0.0);
    self->figures->own += seconds;
    self->waits = false;
    keep(self, ret, &err);
    if (ret != PLB_OK) {
        self->low = self->high; /* the call fails, so the other rows are not needed */
    }
}

/* ---- rows of other ranks ---------------------------------------------------------------- */

static int entertain(plb_sharer_t *self, plb_err_t *err)
{
    guest_t guest = self->guest[self->next_guest++];
    head_t head = *guest.message, *out = NULL;
    char *answer = NULL;
    int64_t bytes = 0;
    int ret = PLB_OK;
    plb_err_t failure = {0};
    self->guest_work = fmax(self->guest_work - head.work, 0.0);
    const int64_t start = plb_clock_ns(PLB_CLOCK_WALL), begin = plb_clock_ns(self->clock);
    head.failed = PLB_OK != self->rows->guest(self->rows->arg, (char *)(guest.message + 1), head.n,
                                              &answer, &bytes, &failure);
    head.seconds = 1e-9 * (double)(plb_clock_ns(self->clock) - begin);
    self->wall += 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - start);
    self->figures->borrowed += head.seconds;
    plb_free(guest.message);
    bytes = answer != NULL ? bytes : 0;
    out = plb_malloc(sizeof head + (size_t)bytes, 1);
    PLB_TRY(out != NULL ? PLB_OK : PLB_NO_MEMORY(out, bytes));
    *out = head;
    memcpy(out + 1, answer, (size_t)bytes);
    ret = post(self, out, (int64_t)sizeof head + bytes, head.owner, TAG_ANSWER, err);
out:
    plb_free(answer);
    return ret;
}

static int take(plb_sharer_t *self, const head_t *head, int64_t bytes, int from, plb_err_t *err)
{
    PLB_FAIL_IF(head->piece < 0 || head->piece >= self->n_pieces ||
                    self->piece[head->piece].answered,
                err, PLB_ERR_STATE, "rank %d has returned rows that it was not given", from);
    piece_t *piece = &self->piece[head->piece];
    piece->planned = piece->planned && piece->to == from;
    piece->to = from;
    piece->answered = true;
    piece->seconds = head->seconds;
    piece->speed = head->speed;
    self->open--;
    self->figures->lent += head->seconds;
    return self->rows->take(self->rows->arg, from, head->failed, piece->row, piece->n,
                            (const char *)(head + 1), bytes - (int64_t)sizeof *head, err);
}

/* Learn the times of the lent rows and the speeds of the borrowers; return the sum of these times,
 * in seconds of this rank. */
static double learn_lent(plb_sharer_t *self)
{
    const done_t *kept = self->controls.predicted > 0.0 ? &self->controls : &self->own;
    double total = 0.0, most = 0.0;
    memset(self->taken, 0, (size_t)self->n_partners * sizeof *self->taken);
    for (int64_t i = 0; i < self->n_pieces; i++) {
        const piece_t *piece = &self->piece[i];
        if (piece->planned) {
            done_t *lent = &self->taken[partner_of(self, piece->to)];
            lent->predicted += piece->predicted;
            lent->seconds += piece->seconds;
        }
    }
    self->told.of = -1.0;
    for (int64_t i = 0; i < self->n_pieces; i++) {
        const piece_t *piece = &self->piece[i];
        const int to = partner_of(self, piece->to); /* may be -1: rows are passed on */
        const done_t lent = to >= 0 ? self->taken[to] : (done_t){0};
        double ratio = piece->speed / speed(self); /* a few chunks cannot tell it */
        if (lent.predicted > PLB_FEW * self->grain && lent.seconds > 0.0 &&
            kept->predicted > 0.0 && kept->seconds > 0.0) {
            const double seen = kept->seconds / kept->predicted * lent.predicted / lent.seconds;
            if (lent.predicted > most) { /* the others learn only the speed of this borrower */
                most = lent.predicted;
                self->told.of = to;
                self->told.ratio = seen;
            }
            ratio = sqrt(ratio * seen);
        }
        plb_row_costs_learn(&self->costs, 0, piece->row, piece->n, piece->seconds * ratio);
        total += piece->seconds * ratio;
    }
    return total;
}

/* ---- questions -------------------------------------------------------------------------- */

/* Ask a partner for work, by turns in the group and in the block; *any: whether there is one. */
static int ask(plb_sharer_t *self, bool *any, plb_err_t *err)
{
    const int n = self->n_partners, n_group = self->n_group;
    const int begin = n > n_group && self->tries % 2 > 0 ? n_group : 0;
    const int end = begin > 0 ? n : n_group;
    const int first = begin + (int)plb_rng_below(&self->rng, (uint64_t)(end - begin));
    for (int i = 0; i < n; i++) {
        const int k = (first + i) % n, to = rank_of(self, k);
        if (to != self->comm.rank && self->state[k] == ASK_IT) {
            self->state[k] = IS_ASKED;
            self->asked++;
            self->tries++;
            *any = true;
            return post_head(self, to, TAG_ASK, 0, err);
        }
    }
    self->tries = TRIES;
    return PLB_OK;
}

/* Give work to a partner, which has asked: borrowed rows first; or answer that there is none.
 * speeds: sum of the speeds of this rank and of those that wait for an answer. */
static int give(plb_sharer_t *self, int partner, double speeds, plb_err_t *err)
{
    const int to = rank_of(self, partner);
    const double pace = self->speed[partner];
    double work = self->ret == PLB_OK ? supply(self) * speed(self) * pace / speeds : 0.0;
    bool any = false;
    while (work > 0.5 * PLB_SHARE_CHUNK * speed(self) && self->next_guest < self->n_guests) {
        guest_t *last = &self->guest[self->n_guests - 1];
        head_t *head = last->message;
        if (head->work > MOST_OF_IT * work) {
            break;
        }
        work -= head->work;
        self->guest_work = fmax(self->guest_work - head->work, 0.0);
        head->reply = !any;
        any = true;
        self->n_guests--;
        PLB_PASS(post(self, head, last->bytes, to, TAG_ROWS, err));
    }
    const double ratio = scale(self), beta = 2.0 * self->options.beta;
    while (work > 0.5 * PLB_SHARE_CHUNK * speed(self) && self->high > self->low + 1) {
        const double most =
            fmin(work, fmax(self->grain, PLB_SHARE_CHUNK) * pace) / speed(self) / ratio;
        const int64_t rows = most_rows(self), free = self->high - self->low - 1;
        double sum;
        const int64_t n = filled(self, self->high - 1, -1, rows < free ? rows : free, most, &sum);
        const double seconds = sum * ratio;
        if (beta * (double)(n * self->rows->row_bytes) > seconds * speed(self) / pace ||
            seconds * speed(self) > 2.0 * work) {
            break; /* sending takes as long as computing, or a single row is too much work */
        }
        self->high -= n;
        self->left = fmax(self->left - sum, 0.0);
        work -= seconds * speed(self);
        PLB_PASS(lend(self, self->kept + self->high, n, seconds, to, false, !any, err));
        any = true;
    }
    return any ? PLB_OK : post_head(self, to, TAG_NOTHING, 0, err);
}

/* ---- the call --------------------------------------------------------------------------- */

/* Receive all messages that have come, and answer questions. */
static int receive(plb_sharer_t *self, plb_err_t *err)
{
    int ret = PLB_OK, there = 0, bytes, n_hungry = 0;
    double speeds = speed(self);
    MPI_Message message;
    MPI_Status status;
    head_t *head = NULL;
    for (;;) {
        PLB_MPI(
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, self->comm.comm, &there, &message, &status));
        if (!there) {
            break;
        }
        self->waits = false;
        PLB_MPI(MPI_Get_count(&status, MPI_BYTE, &bytes));
        head = plb_malloc((size_t)bytes, 1);
        PLB_TRY(head != NULL ? PLB_OK : PLB_NO_MEMORY(head, bytes));
        PLB_MPI(MPI_Mrecv(head, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE));
        plb_err_t own = {0};
        const int from = status.MPI_SOURCE, partner = partner_of(self, from);
        if (partner >= self->n_group) { /* no plan tells the speeds of other groups */
            self->speed[partner] = head->speed;
        }
        if (status.MPI_TAG == TAG_ROWS) {
            PLB_GROW(self->guest, self->guest_room, self->n_guests + 1);
            int64_t k = self->n_guests++; /* the heaviest first */
            for (; k > self->next_guest && self->guest[k - 1].message->work < head->work; k--) {
                self->guest[k] = self->guest[k - 1];
            }
            self->guest[k] = (guest_t){head, bytes};
            self->guest_work += head->work;
            if (head->reply) {
                self->asked--;
                self->tries = 0;
                self->state[partner] = ASK_IT; /* there may be more */
            }
            head = NULL;
        } else if (status.MPI_TAG == TAG_ANSWER) {
            keep(self, take(self, head, bytes, from, &own), &own);
        } else if (status.MPI_TAG == TAG_ASK) {
            self->hungry[n_hungry++] = partner;
            speeds += self->speed[partner];
        } else if (status.MPI_TAG == TAG_NOTHING) {
            self->asked--;
            self->state[partner] = HAS_NOTHING;
        }
        plb_free(head);
        head = NULL;
    }
    for (int k = 0; k < n_hungry; k++) {
        PLB_TRY(give(self, self->hungry[k], speeds, err));
        speeds -= self->speed[self->hungry[k]];
    }
out:
    plb_free(head);
    return ret;
}

static int reduce(plb_sharer_t *self, MPI_Request *request, plb_err_t *err)
{
    int ret = PLB_OK;
    /* FAILED: the lowest rank that has failed; plus a half if its program does something else */
    self->mine[FAILED] = self->ret == PLB_OK ? 0.0 : self->comm.size - self->comm.rank;
    self->mine[FAILED] += self->ret == PLB_ERR_STATE ? 0.5 : 0.0;
    PLB_MPI(MPI_Iallreduce(self->mine, self->all, N_ALL, MPI_DOUBLE, self->op, self->comm.comm,
                           request));
out:
    return ret;
}

/* Compute own rows until a collective call is complete. */
static int meanwhile(plb_sharer_t *self, MPI_Request *request, plb_err_t *err)
{
    int ret = PLB_OK, done = 0;
    for (;;) {
        PLB_MPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done) {
            break;
        }
        if (self->low < self->high) {
            compute(self, self->costs.known ? PLB_SHARE_CHUNK
                                            : rest(self) / (PLB_SHARE_PARTS * PLB_SHARE_PARTS));
        } else {
            PLB_TRY(pause_a_little(self));
        }
    }
    self->waits = false;
out:
    return ret;
}

/* Return this rank's own error, or else the error that all ranks have agreed on. */
static int agreed(plb_sharer_t *self, plb_err_t *err)
{
    if (self->ret != PLB_OK) {
        *err = self->err;
        return self->ret;
    }
    const int rank = self->comm.size - (int)self->all[FAILED];
    PLB_FAIL_IF(self->all[FAILED] != floor(self->all[FAILED]), err, PLB_ERR_CALLBACK,
                "rank %d has ended its program, or makes another collective call", rank);
    return self->all[FAILED] == 0.0 ? PLB_OK : plb_comm_raise_for(PLB_ERR_CALLBACK, rank, err);
}

/* Give the rows that the plan lends to the other ranks, the heaviest first, and put the others in
 * the order in which they are computed: some of the heaviest, as a control; rows that may turn out
 * to be heavy; then all others. */
static int lend_planned(plb_sharer_t *self, int32_t n_flows, plb_err_t *err)
{
    enum { STAYS, GOES, IS_CONTROL };
    int ret = PLB_OK;
    const int64_t n = self->rows->n, most = most_rows(self);
    plb_loads_t order = {0};
    unsigned char *what = NULL;
    int64_t *row = NULL, kept = 0, start = 0;
    PLB_NEW0(what, n);
    PLB_NEW(row, n);
    memset(what, GOES, (size_t)self->low); /* these have already been computed */
    PLB_TRY(plb_loads_sorted(&order, self->costs.now, n, PLB_DESCENDING, err));
    for (int32_t f = 0; f < n_flows; f++) {
        const int to = self->flow[f].to;
        if (self->flow[f].from != self->me) {
            continue;
        }
        double left = self->flow[f].work / speed(self);
        const double chunk = fmax(self->grain, PLB_SHARE_CHUNK) * self->speed[to] / speed(self);
        /* rows that take longer than the remaining work stay here, or go to the next borrower */
        for (int64_t k = start; k < n && left > 0.0;) {
            int64_t m = 0;
            double sum = 0.0;
            for (; k < n && m < most && sum < fmin(chunk, left); k++) {
                const int64_t i = order.item[k].id;
                const double w = self->costs.now[i];
                if (what[i] == STAYS && k % PLB_SHARE_PARTS == PLB_SHARE_PARTS - 1) {
                    what[i] = IS_CONTROL;
                } else if (what[i] == STAYS && w <= MOST_OF_IT * (left - sum)) {
                    what[i] = GOES;
                    row[m++] = i;
                    sum += w;
                }
                start += k == start && what[i] != STAYS;
            }
            left -= sum;
            self->left -= sum;
            if (m == 0) {
                break;
            }
            PLB_TRY(lend(self, row, m, sum, rank_of(self, to), true, false, err));
        }
    }
    plb_row_costs_look_around(&self->costs);
    PLB_NEW(self->kept, n);
    for (int64_t i = 0; i < n; i++) {
        if (what[i] == IS_CONTROL) {
            self->kept[kept++] = i;
        }
    }
    self->control = kept;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < n; i++) {
            const bool risky = self->costs.worst[i] > PLB_ABRUPT * self->costs.now[i];
            if (what[i] == STAYS && risky == (pass == 0)) {
                self->kept[kept++] = i;
            }
        }
        self->risk = pass == 0 ? kept : self->risk;
    }
    self->low = 0;
    self->high = kept;
out:
    plb_loads_free(&order);
    PLB_FREE(what, row);
    return ret;
}

/* Gather the offers of the group, and plan. */
static int plan(plb_sharer_t *self, plb_err_t *err)
{
    enum { N = sizeof(plb_share_offer_t) / sizeof(double) };
    int ret = PLB_OK;
    int32_t n_flows;
    MPI_Request request;
    const plb_share_offer_t mine = {rest(self) * speed(self), self->told.ratio, self->told.of};
    self->told.of = -1.0;
    PLB_MPI(
        MPI_Iallgather(&mine, N, MPI_DOUBLE, self->offer, N, MPI_DOUBLE, self->group, &request));
    PLB_TRY(meanwhile(self, &request, err));
    plb_share_speeds(self->offer, self->n_group, self->speed);
    const double toll = 2.0 * self->options.beta * self->all[BYTES] / fmax(self->all[WORK], 1e-12);
    const double time =
        plb_share_plan(self->offer, self->speed, self->n_group, toll, self->flow, &n_flows);
    /* smaller chunks leave less to do at the end, but each takes tens of microseconds (sim, 600
     * ranks, costs that stay: 1.05 times the bound; with whole parts 1.06) */
    const double part = time * PLB_SHARE_GAIN;
    self->grain = fmax(fmin(part, fmax(0.5 * part, PLB_FEW * PLB_SHARE_CHUNK)), PLB_SHARE_CHUNK);
    ret = lend_planned(self, n_flows, err);
out:
    return ret;
}

/* Compute all rows, own and others', until all ranks have all their answers. */
static int work_together(plb_sharer_t *self, int64_t begin, plb_err_t *err)
{
    int ret = PLB_OK, done = 0, ended = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    while (!done || self->n_sent > 0) {
        PLB_TRY(receive(self, err));
        PLB_TRY(drop_sent(self, err));
        const double grain =
            self->grain > 0.0 ? self->grain : rest(self) / (PLB_FEW * PLB_SHARE_PARTS);
        bool any = false;
        while (self->options.reactive && !ended && self->asked < ASKED && self->tries < TRIES &&
               supply(self) < fmax(grain, PLB_SHARE_CHUNK)) {
            PLB_TRY(ask(self, &any, err));
        }
        const bool own = self->low < self->high;
        const bool urgent = own && self->low < self->risk;
        if (!urgent && self->next_guest < self->n_guests) {
            PLB_TRY(entertain(self, err));
            self->waits = false;
        } else if (own) {
            compute(self,
                    fmax(fmin(rest(self) / PLB_SHARE_PARTS, grain), least(self, PLB_SHARE_CHUNK)));
        } else if (!ended && self->open == 0 && self->asked == 0) {
            const double did = self->own.seconds, home = did + learn_lent(self);
            self->mine[TIME] = home;
            self->mine[WORK] = home * speed(self);
            self->mine[SPEED] = speed(self);
            self->mine[CROWD] = home * self->per_core;
            self->mine[BUSY] = (did + self->figures->borrowed) * self->crowd;
            self->mine[WALL] = self->wall;
            self->mine[SURE] = 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - begin);
            PLB_TRY(reduce(self, &request, err));
            ended = 1;
        } else {
            if (ended && !done) {
                PLB_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
            }
            if (!done) {
                PLB_TRY(pause_a_little(self));
            }
        }
    }
out:
    return ret;
}

static int begin_call(plb_sharer_t *self, double *predicted, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_shared_rows_t *rows = self->rows;
    MPI_Request request;
    plb_err_t own = {0};
    keep(self, rows->failed, err);
    keep(self, plb_row_costs_begin(&self->costs, rows->n, rows->cost, predicted, &own), &own);
    self->low = 0;
    self->high = self->ret == PLB_OK ? rows->n : 0;
    self->left = *predicted;
    self->predicted = self->costs.known ? *predicted : 0.0;
    const double mine[N_ALL] = {[WORK] = *predicted * speed(self),
                                [SPEED] = speed(self),
                                [BYTES] = (double)rows->row_bytes * (double)rows->n,
                                [UNKNOWN] = rows->n > 0 && !self->costs.known,
                                [CROWD] = *predicted * self->per_core,
                                [TIME] = *predicted,
                                [SURE] = *predicted * (1.0 + self->costs.error),
                                [ROW] = (double)rows->row_bytes + rows->kind,
                                [ROW_LEAST] = -(double)rows->row_bytes - rows->kind};
    memcpy(self->mine, mine, sizeof mine);
    self->calls++;
    PLB_TRY(reduce(self, &request, err));
    PLB_TRY(meanwhile(self, &request, err));
    PLB_FAIL_IF(self->all[FAILED] == 0.0 && self->all[ROW] != -self->all[ROW_LEAST], err,
                PLB_ERR_VALUE,
                "a row has %lld bytes on rank %d, and %.0f on another rank: expected rows of the "
                "same dtypes and shapes on all ranks",
                (long long)rows->row_bytes, self->comm.rank,
                self->all[ROW] != self->mine[ROW] ? self->all[ROW] : -self->all[ROW_LEAST]);
out:
    return ret;
}

/* Update the credit, and begin a pause if lending does not pay.  A single call changes the credit
 * at most by the gain that was possible, because other programs may have disturbed it. */
static void judge(plb_sharer_t *self, double saved, double possible)
{
    if (self->unknown) {
        return; /* the first call could not plan */
    }
    const double kept = 1.0 - PLB_NEWEST;
    self->credit = kept * self->credit + fmin(fmax(saved, -possible), possible);
    if (++self->lent_calls >= PLB_FEW && self->credit < 0.0) {
        self->rest = self->most_rest = self->most_rest > 0 ? 2 * self->most_rest : PLB_WINDOW;
        self->most_rest = self->most_rest < PLB_LONG ? self->most_rest : PLB_LONG;
        self->lent_calls = 0;
        self->credit = 0.0;
    } else if (self->lent_calls > PLB_WINDOW) {
        self->most_rest = 0;
    }
}

/* Return the larger of `time` and the time that all work takes on the cores that ranks share. */
static double on_cores(const plb_sharer_t *self, double time)
{
    return fmax(time, self->all[CROWD] * fmin(self->contention, 1.0));
}

/* Compute the rows; *lends: whether ranks lend each other work in this call. */
static int compute_all(plb_sharer_t *self, int64_t begin, bool *lends, plb_err_t *err)
{
    double predicted = 0.0;
    plb_share_figures_t *figures = self->figures;
    *lends = false;
    self->learns = !plb_share_holds(self);
    if (!self->learns) {
        keep(self, self->rows->failed, err);
        if (self->ret == PLB_OK && self->rows->n > 0) {
            keep(self, self->rows->own(self->rows->arg, 0, NULL, self->rows->n, err), err);
        }
        figures->own = 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - begin);
        return self->ret;
    }
    PLB_PASS(begin_call(self, &predicted, err));
    if (self->all[FAILED] > 0.0) {
        *lends = true; /* all ranks know of the failure */
        return agreed(self, err);
    }
    self->unknown = self->all[UNKNOWN] > 0.0;
    const double bound = on_cores(self, self->all[WORK] / self->all[SPEED]);
    const bool pays =
        self->comm.size > 1 && (self->unknown || plb_share_pays(self->all[SURE], bound));
    *lends = pays && self->options.lend && self->rest == 0;
    if (*lends) {
        memset(self->state, ASK_IT, (size_t)self->n_partners);
        PLB_PASS(self->unknown ? lend_planned(self, 0, err) : plan(self, err));
        PLB_PASS(work_together(self, begin, err));
        self->contention =
            self->all[BUSY] > 0.0 ? self->all[WALL] / self->all[BUSY] : self->contention;
        /* without lending, the rows would have waited for other programs, too */
        figures->longest = on_cores(self, self->all[TIME]) * fmax(self->contention, 1.0);
        figures->bound = on_cores(self, self->all[WORK] / self->all[SPEED]);
        figures->saved = figures->longest - self->all[SURE];
        judge(self, figures->saved,
              fmax(figures->longest - figures->bound, PLB_SHARE_GAIN * figures->longest));
        PLB_PASS(agreed(self, err));
    } else {
        self->rest -= self->rest > 0;
        if (!pays) {
            const double most = HOLDS / fmax(self->all[SURE], HOLDS / (MOST_HELD + 1.0));
            self->held = (int)most - 1 > 0 ? (int)most - 1 : 0;
        }
        while (self->low < self->high) {
            compute(self, fmax(rest(self) / PLB_LONG, least(self, HOLDS)));
        }
        figures->longest = self->unknown ? 0.0 : on_cores(self, self->all[TIME]);
        figures->bound = self->unknown ? 0.0 : bound;
        figures->saved =
            pays && !self->unknown && !self->options.lend ? figures->longest - bound : 0.0;
        *err = self->ret != PLB_OK ? self->err : *err;
        PLB_PASS(self->ret);
    }
    plb_row_costs_end(&self->costs, predicted);
    return PLB_OK;
}

bool plb_share_holds(plb_sharer_t *self)
{
    const bool holds = self->held > 0 && !self->broken;
    self->held -= holds;
    return holds;
}

void plb_share_leave(plb_sharer_t *self, int why)
{
    self->broken = true;
    self->ret = self->ret == PLB_OK ? why : self->ret;
    self->lost = reduce(self, &self->leaving, &self->err) == PLB_OK;
}

bool plb_share_look(plb_sharer_t *self, bool ends)
{
    int there = 0, done = 0;
    MPI_Message message;
    MPI_Status status;
    head_t head;
    while (!self->broken && !ends &&
           MPI_Improbe(MPI_ANY_SOURCE, TAG_WAITS, self->comm.comm, &there, &message, &status) ==
               MPI_SUCCESS &&
           there &&
           MPI_Mrecv(&head, sizeof head, MPI_BYTE, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
        ends = head.n > self->calls;
    }
    if (ends && !self->broken) {
        plb_share_leave(self, PLB_ERR_STATE);
    }
    if (self->lost && MPI_Test(&self->leaving, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
        self->lost = !done;
    }
    return !self->lost;
}

int plb_share_call(plb_sharer_t *self, const plb_shared_rows_t *rows, plb_tick_fn tick,
                   void *tick_arg, plb_share_figures_t *figures, plb_err_t *err)
{
    bool lends;
    PLB_FAIL_IF(self->broken, err, PLB_ERR_STATE, "an earlier call was interrupted or failed");
    const int64_t begin = plb_clock_ns(PLB_CLOCK_WALL);
    *figures = (plb_share_figures_t){0};
    self->rows = rows;
    self->figures = figures;
    self->tick = tick;
    self->tick_arg = tick_arg;
    self->waits = self->said = false;
    self->wall = self->grain = self->guest_work = 0.0;
    self->own = self->controls = (done_t){0};
    self->control = self->risk = 0;
    self->asked = self->tries = 0;
    self->ret = PLB_OK;
    const int ret = compute_all(self, begin, &lends, err);
    self->broken = ret != PLB_OK;
    if (ret != PLB_OK && ret == self->ret && !lends) {
        plb_share_leave(self, ret);
    }
    clear(self);
    figures->speed = speed(self);
    figures->seconds = 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - begin);
    return ret;
}

const double *plb_share_seconds(const plb_sharer_t *self, int64_t *n)
{
    *n = self->learns ? self->costs.n : 0;
    return self->costs.last;
}
