#include "comm/share.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/quantile.h"
#include "base/sort.h"
#include "comm/comm.h"

/* Ranks lend within groups of about this many, so that no rank reads more than this many numbers.
 * The groups are strided: a front of heavy neighbours is spread over all groups. */
enum { GROUP = 512 };
/* Seconds for a byte that is sent and received: a copy at each end, 1 GB/s together. */
static const double BETA = 1e-9;
/* Lending begins if it saves this part of the time, and at least these seconds: a call that lends
 * ends with a reduction, and computes in chunks. */
static const double LEAST_GAIN = 0.02, LEAST_SECONDS = 3e-4;
/* A chunk takes at least this long: a call of a Python function takes 10 us.  At most this part of
 * the call: the last chunk is how late the slowest rank may be. */
static const double LEAST_CHUNK = 4e-4, MOST_CHUNK = 1.0 / 24.0;
/* Without lending, chunks only teach where the heavy rows are. */
static const double HOME_CHUNK = 4e-3;
/* A rank that asks gets this part of what would let both end together: costs may be wrong. */
static const double GIVE = 0.6;
/* Three quarters of the chunks of a rank within this factor of the others: its speed, not its
 * rows.
 */
static const double SPREAD = 1.3;
/* Rows that are no longer heavy look like a faster rank: a single call says little. */
static const double MOST_RATIO = 4.0;
/* How many ranks are asked in succession that have nothing to give. */
enum { TRIES = 24 };
/* Bytes of the rows in one message: memory that a rank needs for what it lends and borrows. */
enum { MOST_BYTES = 1 << 26 };

enum { TAG_ROWS = 1, TAG_ANSWER, TAG_ASK, TAG_NOTHING };

/* What a message begins with. */
typedef struct head {
    int64_t piece, n;      /* index in `piece` of the lender; number of rows */
    double work;           /* of rows: predicted; of an answer: as it was */
    double seconds, speed; /* of an answer; of the sender */
    double gain;           /* part of a difference that is put down to the sender's speed */
    int32_t failed, reply; /* reply: the rows were asked for */
} head_t;

/* Time over prediction of the chunks of a call.  The median says whether all rows take longer; the
 * mean would say that a rank is fast if some of the rows it got are no longer heavy. */
typedef struct ratios {
    double *x; /* [room] owned */
    int64_t n, room;
} ratios_t;

/* Rows that are being computed by another rank. */
typedef struct piece {
    int64_t *row, n; /* owned */
    int to;
    bool answered;
    double predicted, work, gain; /* work, gain: as in the answer */
} piece_t;

typedef struct guest {
    head_t *message; /* owned: head and rows */
    int from;
} guest_t;

typedef struct sent {
    MPI_Request request;
    void *message; /* owned */
} sent_t;

/* One reduction: sums, then maxima.  The second reduction of a call uses WORK, SPEED, FAILED,
 * TIME (without lending) and SURE (duration). */
enum { WORK, SPEED, BYTES, UNKNOWN, N_SUMS };
enum { FAILED = N_SUMS, TIME, SURE, ROW, ROW_LEAST, N_ALL };

struct plb_sharer {
    plb_comm_t comm;
    MPI_Op op;
    plb_share_options_t options;
    plb_row_costs_t costs;
    double speed;
    int n_speeds;           /* number of calls that have taught something of the speed */
    plb_share_rank_t *rank; /* [size] */
    plb_share_flow_t *flow; /* [size] */
    double mine[N_ALL], all[N_ALL];
    /* Where ranks share cores, or others disturb them, lending may cost more than it saves: then
     * it rests for some calls.  Equal on all ranks. */
    double credit;       /* s: what the recent calls that lent have saved */
    int lent_calls;      /* calls that lent since it last rested */
    int rest, most_rest; /* calls that lending still rests; for how many it rested last */
    bool broken, lost;   /* lost: MPI may still use the memory of a reduction */
    uint64_t calls;

    /* of the call under way */
    const plb_shared_rows_t *rows;
    plb_share_figures_t *figures;
    int64_t *kept;         /* [n] own rows that are not lent at the start; NULL: all */
    int64_t low, high;     /* kept[low ... high - 1] are not computed yet */
    double left;           /* prediction for these */
    double did, predicted; /* work of the own rows computed here so far, and its prediction */
    ratios_t own, borrowed, lent; /* lent: scratch */
    bool unknown;                 /* the predictions of some ranks have no unit yet */
    double call_work;             /* what this rank is predicted to do in the call */
    piece_t *piece;
    int64_t n_pieces, piece_room, open; /* open: pieces without an answer */
    guest_t *guest;
    int64_t n_guests, guest_room, next_guest;
    sent_t *sent;
    int64_t n_sent, sent_room;
    int asked, tries; /* asked: an answer to a question is awaited */
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

int plb_share_new(plb_sharer_t **out, MPI_Comm user, const plb_share_options_t *options,
                  const plb_patience_t *patience, plb_err_t *err)
{
    int ret = PLB_OK, rank, size;
    MPI_Comm group = MPI_COMM_NULL;
    plb_sharer_t *self = NULL;
    *out = NULL;
    PLB_NEW0(self, 1);
    self->comm.comm = MPI_COMM_NULL;
    self->op = MPI_OP_NULL;
    PLB_MPI(MPI_Comm_rank(user, &rank));
    PLB_MPI(MPI_Comm_size(user, &size));
    PLB_MPI(MPI_Comm_split(user, rank % ((size + GROUP - 1) / GROUP), rank, &group));
    PLB_TRY(plb_comm_init(&self->comm, group, err));
    PLB_MPI(MPI_Op_create(merge, 1, &self->op));
    self->comm.patience = patience;
    self->options = *options;
    self->options.beta = options->beta > 0.0 ? options->beta : BETA;
    self->costs.trust = self->speed = 1.0;
    PLB_NEW(self->rank, self->comm.size);
    PLB_NEW(self->flow, self->comm.size);
out:
    if (group != MPI_COMM_NULL) {
        MPI_Comm_free(&group);
    }
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
    PLB_FREE(self->rank, self->flow, self->piece, self->guest, self->sent, self->own.x,
             self->borrowed.x);
    PLB_FREE(self->lent.x, self);
}

/* ---- messages --------------------------------------------------------------------------- */

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
static int post(plb_sharer_t *self, void *message, int64_t bytes, int to, int tag, plb_err_t *err)
{
    int ret = PLB_OK;
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

static int post_head(plb_sharer_t *self, int to, int tag, plb_err_t *err)
{
    head_t *head;
    PLB_PASS_NEW0(head, 1);
    head->speed = self->speed;
    return post(self, head, sizeof *head, to, tag, err);
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

/* Lend rows row[n] (owned by this call from now on) of `work` to a rank. */
static int lend(plb_sharer_t *self, int64_t *row, int64_t n, double work, int to, bool reply,
                plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t bytes = (int64_t)sizeof(head_t) + n * self->rows->row_bytes;
    head_t *head = NULL;
    PLB_GROW(self->piece, self->piece_room, self->n_pieces + 1);
    piece_t *piece = &self->piece[self->n_pieces];
    *piece = (piece_t){.row = row, .n = n, .to = to};
    row = NULL;
    for (int64_t k = 0; k < n; k++) {
        piece->predicted += self->costs.now[piece->row[k]];
    }
    head = plb_malloc((size_t)bytes, 1);
    PLB_TRY(head != NULL ? PLB_OK : PLB_NO_MEMORY(head, bytes));
    *head = (head_t){.piece = self->n_pieces++, .n = n, .work = work, .reply = reply};
    PLB_TRY(self->rows->pack(self->rows->arg, piece->row, n, (char *)(head + 1), err));
    self->figures->rows += (double)n;
    self->figures->bytes += (double)bytes;
    ret = post(self, head, bytes, to, TAG_ROWS, err);
    head = NULL;
    self->open += ret == PLB_OK;
out:
    PLB_FREE(row, head);
    return ret;
}

/* ---- own rows --------------------------------------------------------------------------- */

static int64_t row_at(const plb_sharer_t *self, int64_t k)
{
    return self->kept != NULL ? self->kept[k] : k;
}

/* What the rest of the own rows will take, as far as the rows before were mispredicted. */
static double rest(const plb_sharer_t *self)
{
    return self->predicted > 0.0 && self->did > 0.0 ? self->left * self->did / self->predicted
                                                    : self->left;
}

/* The largest number of rows in a message. */
static int64_t most_rows(const plb_sharer_t *self)
{
    const plb_shared_rows_t *rows = self->rows;
    const int64_t most = rows->row_bytes > 0 ? MOST_BYTES / rows->row_bytes : rows->n;
    return rows->chunk > 0 && rows->chunk < most ? rows->chunk : most;
}

/* How many of the remaining rows, from the front or the back, are predicted to take `work`. */
static int64_t count(const plb_sharer_t *self, double work, int64_t most, bool back, double *sum)
{
    const int64_t n = self->high - self->low;
    const double scale = self->left > 0.0 ? rest(self) / self->left : 1.0;
    int64_t k = 0;
    *sum = 0.0;
    while (k < n && k < most && (k == 0 || *sum * scale < work)) {
        *sum += self->costs.now[row_at(self, back ? self->high - 1 - k : self->low + k)];
        k++;
    }
    return k;
}

static int note(ratios_t *self, double work, double predicted, plb_err_t *err)
{
    PLB_PASS_GROW(self->x, self->room, self->n + 1);
    self->x[self->n++] = predicted > 0.0 ? work / predicted : 1.0;
    return PLB_OK;
}

/* The median; 1 if there are too few to tell. */
static double typical(ratios_t *self)
{
    return self->n >= 3 ? plb_median(self->x, self->n) : 1.0;
}

static void compute(plb_sharer_t *self, double work)
{
    double sum;
    const int64_t chunk = self->rows->chunk > 0 ? self->rows->chunk : self->high;
    const int64_t n = count(self, work, chunk, false, &sum), first = row_at(self, self->low);
    const bool together = row_at(self, self->low + n - 1) - first == n - 1;
    const int64_t *row = together ? NULL : self->kept + self->low;
    plb_err_t err = {0};
    const int64_t begin = plb_clock_real_ns(PLB_CLOCK_AUTO);
    const int ret = self->rows->own(self->rows->arg, first, row, n, &err);
    const double seconds = 1e-9 * (double)(plb_clock_real_ns(PLB_CLOCK_AUTO) - begin);
    self->low += n;
    self->left = fmax(self->left - sum, 0.0);
    self->figures->own += seconds;
    plb_row_costs_learn(&self->costs, first, row, n, seconds * self->speed);
    self->did += seconds * self->speed;
    self->predicted += sum;
    keep(self, ret, &err);
    keep(self, note(&self->own, seconds * self->speed, sum, &err), &err);
    if (ret != PLB_OK) {
        self->low = self->high; /* the call fails: the rest is not needed */
        self->left = 0.0;
    }
}

/* Give rows from the back to a rank that has asked. */
static int give(plb_sharer_t *self, int to, double speed, plb_err_t *err)
{
    const double work = GIVE * rest(self) * speed / (speed + self->speed);
    const double seconds = work / speed;
    double sum;
    if (self->ret != PLB_OK || self->high - self->low < 2 || seconds < LEAST_CHUNK) {
        return post_head(self, to, TAG_NOTHING, err);
    }
    const int64_t n = count(self, work, most_rows(self), true, &sum);
    if (n == 0 || n == self->high - self->low ||
        2.0 * self->options.beta * (double)(n * self->rows->row_bytes) > seconds) {
        return post_head(self, to, TAG_NOTHING, err);
    }
    int64_t *row;
    PLB_PASS_NEW(row, n);
    for (int64_t k = 0; k < n; k++) {
        row[k] = row_at(self, self->high - n + k);
    }
    const double scale = rest(self) / self->left;
    self->high -= n;
    self->left = fmax(self->left - sum, 0.0);
    return lend(self, row, n, sum * scale, to, true, err);
}

/* ---- rows of other ranks ---------------------------------------------------------------- */

/* How much of a difference between times and predictions is put down to this rank's speed: all in
 * the first call with rows of others, later the mean of about five. */
static double gain(const plb_sharer_t *self)
{
    return self->unknown ? 0.0 : 1.0 / (1 + (self->n_speeds < 4 ? self->n_speeds : 4));
}

/* Whether the times of all rows differ from their predictions by about the same factor. */
static bool agrees(ratios_t *self)
{
    const int64_t n = self->n;
    return n >= 4 && plb_nth(self->x, n, 3 * n / 4) < SPREAD * plb_nth(self->x, n, n / 4);
}

/* How fast a rank is against its speed so far: what its rows take, relative to own rows, by which
 * one sees that all costs have changed.  1 where the times do not agree: then it is the rows. */
static double change(ratios_t *there, ratios_t *here, double part)
{
    const double ratio = typical(here) / typical(there);
    return agrees(there) ? pow(fmin(fmax(ratio, 1.0 / MOST_RATIO), MOST_RATIO), part) : 1.0;
}

/* Learn what the lent rows took.  If the rows that a rank computed took less than predicted, it
 * may be faster than believed: its speed changes by the same rule (learn_speed).  *total: their
 * work. */
static int learn_lent(plb_sharer_t *self, double *total, plb_err_t *err)
{
    *total = 0.0;
    for (int64_t i = 0; i < self->n_pieces; i++) {
        const piece_t *piece = &self->piece[i];
        self->lent.n = 0;
        for (int64_t k = 0; k < self->n_pieces; k++) { /* few: about 24 a rank */
            if (self->piece[k].to == piece->to) {
                PLB_PASS(note(&self->lent, self->piece[k].work, self->piece[k].predicted, err));
            }
        }
        const double work = piece->work * change(&self->lent, &self->own, piece->gain);
        plb_row_costs_learn(&self->costs, 0, piece->row, piece->n, work);
        *total += work;
    }
    return PLB_OK;
}

static int entertain(plb_sharer_t *self, plb_err_t *err)
{
    guest_t guest = self->guest[self->next_guest++];
    head_t head = *guest.message, *out = NULL;
    char *answer = NULL;
    int64_t bytes = 0;
    int ret = PLB_OK;
    plb_err_t failure = {0};
    const int64_t begin = plb_clock_real_ns(PLB_CLOCK_AUTO);
    head.failed = PLB_OK != self->rows->guest(self->rows->arg, (char *)(guest.message + 1), head.n,
                                              &answer, &bytes, &failure);
    head.seconds = 1e-9 * (double)(plb_clock_real_ns(PLB_CLOCK_AUTO) - begin);
    self->figures->borrowed += head.seconds;
    PLB_TRY(note(&self->borrowed, head.seconds * self->speed, head.work, err));
    head.work = head.seconds * self->speed;
    head.gain = gain(self);
    plb_free(guest.message);
    bytes = answer != NULL ? bytes : 0;
    out = plb_malloc(sizeof head + (size_t)bytes, 1);
    PLB_TRY(out != NULL ? PLB_OK : PLB_NO_MEMORY(out, bytes));
    *out = head;
    memcpy(out + 1, answer, (size_t)bytes);
    ret = post(self, out, (int64_t)sizeof head + bytes, guest.from, TAG_ANSWER, err);
out:
    plb_free(answer);
    return ret;
}

static int take(plb_sharer_t *self, const head_t *head, int64_t bytes, int from, plb_err_t *err)
{
    PLB_FAIL_IF(head->piece < 0 || head->piece >= self->n_pieces ||
                    self->piece[head->piece].to != from || self->piece[head->piece].answered,
                err, PLB_ERR_STATE, "rank %d has answered for rows that it does not have", from);
    piece_t *piece = &self->piece[head->piece];
    piece->answered = true;
    piece->work = head->work;
    piece->gain = head->gain;
    self->open--;
    self->figures->lent += head->seconds;
    return self->rows->take(self->rows->arg, from, head->failed, piece->row, piece->n,
                            (const char *)(head + 1), bytes - (int64_t)sizeof *head, err);
}

static int ask(plb_sharer_t *self, plb_err_t *err)
{
    const int size = self->comm.size;
    int to = (self->comm.rank + 1 + self->tries) % size;
    if (size > TRIES) { /* a different order in each call and on each rank */
        const uint64_t x =
            (self->calls * 1000003u + (uint64_t)self->comm.rank * 8191u + (uint64_t)self->tries) *
            0x9E3779B97F4A7C15u;
        to = (self->comm.rank + 1 + (int)((x >> 33) % (uint64_t)(size - 1))) % size;
    }
    self->tries++;
    self->asked = 1;
    return post_head(self, to, TAG_ASK, err);
}

/* ---- the call --------------------------------------------------------------------------- */

/* Receive all messages that have come.  *any: whether there was one. */
static int receive(plb_sharer_t *self, bool *any, plb_err_t *err)
{
    int ret = PLB_OK, there = 0, bytes;
    MPI_Message message;
    MPI_Status status;
    head_t *head = NULL;
    for (*any = false;; *any = true) {
        PLB_MPI(
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, self->comm.comm, &there, &message, &status));
        if (!there) {
            return PLB_OK;
        }
        PLB_MPI(MPI_Get_count(&status, MPI_BYTE, &bytes));
        head = plb_malloc((size_t)bytes, 1);
        PLB_TRY(head != NULL ? PLB_OK : PLB_NO_MEMORY(head, bytes));
        PLB_MPI(MPI_Mrecv(head, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE));
        plb_err_t own = {0};
        const int from = status.MPI_SOURCE;
        if (status.MPI_TAG == TAG_ROWS) {
            PLB_GROW(self->guest, self->guest_room, self->n_guests + 1);
            self->guest[self->n_guests++] = (guest_t){head, from};
            if (head->reply) {
                self->asked = self->tries = 0; /* there may be more */
            }
            head = NULL;
        } else if (status.MPI_TAG == TAG_ANSWER) {
            keep(self, take(self, head, bytes, from, &own), &own);
        } else if (status.MPI_TAG == TAG_ASK) {
            PLB_TRY(give(self, from, head->speed, err));
        } else {
            self->asked = 0;
        }
        plb_free(head);
        head = NULL;
    }
out:
    plb_free(head);
    return ret;
}

static int reduce(plb_sharer_t *self, MPI_Request *request, plb_err_t *err)
{
    int ret = PLB_OK;
    /* the largest code, then the lowest rank */
    self->mine[FAILED] = self->ret == PLB_OK ? 0.0 : -self->ret * 0x1p32 - self->comm.rank;
    PLB_MPI(MPI_Iallreduce(self->mine, self->all, N_ALL, MPI_DOUBLE, self->op, self->comm.comm,
                           request));
out:
    return ret;
}

/* Return the error that all ranks have agreed on, of this rank if it has one. */
static int agreed(plb_sharer_t *self, plb_err_t *err)
{
    const double failed = self->all[FAILED];
    if (self->ret != PLB_OK) {
        *err = self->err;
        return self->ret;
    }
    if (failed == 0.0) {
        return PLB_OK;
    }
    const int rank = (int)(ceil(failed / 0x1p32) * 0x1p32 - failed);
    return PLB_FAIL(err, PLB_ERR_CALLBACK, "rank %d has failed", rank);
}

/* Give the rows that the plan lends to the other ranks, the heaviest first. */
static int lend_planned(plb_sharer_t *self, int32_t n_flows, double chunk, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t n = self->rows->n;
    const int me = self->comm.rank;
    plb_loads_t order = {0};
    bool *gone = NULL;
    int64_t *row = NULL, kept = 0;
    const int64_t most = most_rows(self);
    PLB_NEW0(gone, n);
    PLB_TRY(plb_loads_sorted(&order, self->costs.now, n, PLB_DESCENDING, err));
    for (int32_t f = 0; f < n_flows; f++) {
        double left = self->flow[f].work;
        if (self->flow[f].from != me) {
            continue;
        }
        /* rows that are longer than what is left stay here, or go to the next borrower */
        for (int64_t k = 0; k < n && left > 0.0;) {
            int64_t m = 0;
            double sum = 0.0;
            PLB_NEW(row, n - k);
            for (; k < n && m < most && sum < fmin(chunk, left); k++) {
                const int64_t i = order.item[k].id;
                const double w = self->costs.now[i];
                if (!gone[i] && w <= 1.5 * (left - sum)) {
                    gone[i] = true;
                    row[m++] = i;
                    sum += w;
                }
            }
            left -= sum;
            self->left -= sum;
            if (m == 0) {
                plb_free(row);
                row = NULL;
                break;
            }
            int64_t *mine = row;
            row = NULL;
            PLB_TRY(lend(self, mine, m, sum, self->flow[f].to, false, err));
        }
    }
    PLB_NEW(self->kept, n);
    for (int64_t i = 0; i < n; i++) {
        if (!gone[i]) {
            self->kept[kept++] = i;
        }
    }
    self->high = kept;
out:
    plb_loads_free(&order);
    PLB_FREE(gone, row);
    return ret;
}

/* Gather (work, speed) of all ranks, and plan.  *work: what this rank will do. */
static int plan(plb_sharer_t *self, double *work, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t n_flows;
    MPI_Request request;
    const plb_share_rank_t mine = {self->mine[WORK], self->speed};
    PLB_MPI(MPI_Iallgather(&mine, 2, MPI_DOUBLE, self->rank, 2, MPI_DOUBLE, self->comm.comm,
                           &request));
    PLB_TRY(plb_comm_finish(&request, self->comm.patience, err));
    const double total = fmax(self->all[WORK], 1e-12);
    const double toll = 2.0 * self->options.beta * self->all[BYTES] / total;
    plb_share_plan(self->rank, self->comm.size, toll, self->flow, &n_flows);
    *work = mine.work;
    for (int32_t f = 0; f < n_flows; f++) {
        const plb_share_flow_t *flow = &self->flow[f];
        *work += flow->work * ((flow->to == self->comm.rank) - (flow->from == self->comm.rank));
    }
    const double chunk = fmax(*work * MOST_CHUNK, LEAST_CHUNK * self->speed);
    ret = lend_planned(self, n_flows, chunk, err);
out:
    return ret;
}

/* Compute all rows, own and others', until all ranks have all their answers. */
static int work_together(plb_sharer_t *self, plb_tick_fn tick, void *arg, int64_t begin,
                         plb_err_t *err)
{
    int ret = PLB_OK, done = 0, ended = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    plb_wait_t wait;
    bool waits = false;
    while (!done || self->n_sent > 0) {
        bool any;
        PLB_TRY(receive(self, &any, err));
        PLB_TRY(drop_sent(self, err));
        if (self->next_guest < self->n_guests) {
            PLB_TRY(entertain(self, err));
            any = true;
        } else if (self->low < self->high) {
            const double most = fmax(self->call_work * MOST_CHUNK, LEAST_CHUNK * self->speed);
            compute(self, fmin(fmax(rest(self) / 6.0, LEAST_CHUNK * self->speed), most));
            any = true;
        } else if (self->options.reactive && !self->asked && !ended &&
                   self->tries < (self->comm.size > TRIES ? TRIES : self->comm.size - 1)) {
            PLB_TRY(ask(self, err));
            any = true;
        } else if (!ended && self->open == 0 && !self->asked) {
            double lent;
            PLB_TRY(learn_lent(self, &lent, err));
            self->mine[WORK] = self->did + lent;
            self->mine[SPEED] = self->speed;
            self->mine[TIME] = self->mine[WORK] / self->speed;
            self->mine[SURE] = 1e-9 * (double)(plb_clock_real_ns(PLB_CLOCK_WALL) - begin);
            PLB_TRY(reduce(self, &request, err));
            ended = 1;
        } else if (ended && !done) {
            PLB_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        }
        if (any || done) {
            waits = false;
            continue;
        }
        if (!waits) {
            plb_wait_begin(&wait, tick, arg);
            waits = true;
        }
        PLB_TRY(plb_wait_pause(&wait));
    }
out:
    return ret;
}

/* Learn the speed from the rows of others, against own rows. */
static void learn_speed(plb_sharer_t *self)
{
    if (self->unknown || !agrees(&self->borrowed)) {
        return;
    }
    const double factor = change(&self->borrowed, &self->own, gain(self));
    self->n_speeds++;
    self->speed *= factor;
    for (int64_t i = 0; i < self->costs.n; i++) {
        self->costs.last[i] *= factor;
    }
    self->costs.mean *= factor;
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
    self->high = rows->n;
    self->left = *predicted;
    const double time = *predicted / self->speed;
    const double mine[N_ALL] = {[WORK] = *predicted,
                                [SPEED] = self->speed,
                                [BYTES] = (double)rows->row_bytes * (double)rows->n,
                                [UNKNOWN] = rows->n > 0 && !self->costs.known,
                                [TIME] = time,
                                [SURE] = time * (1.0 + self->costs.error),
                                [ROW] = (double)rows->row_bytes,
                                [ROW_LEAST] = -(double)rows->row_bytes};
    memcpy(self->mine, mine, sizeof mine);
    PLB_TRY(reduce(self, &request, err));
    PLB_TRY(plb_comm_finish(&request, self->comm.patience, err));
    PLB_TRY(agreed(self, err));
    PLB_FAIL_IF(self->all[ROW] != -self->all[ROW_LEAST], err, PLB_ERR_VALUE,
                "the rows of rank %d have %lld bytes, those of another rank %.0f: expected arrays "
                "of the same dtypes and shapes of a row on all ranks",
                self->comm.rank, (long long)rows->row_bytes,
                self->all[ROW] != self->mine[ROW] ? self->all[ROW] : -self->all[ROW_LEAST]);
out:
    return ret;
}

static void judge(plb_sharer_t *self, double saved)
{
    if (self->unknown) {
        return; /* the first call cannot plan */
    }
    self->credit = 0.7 * self->credit + saved;
    if (++self->lent_calls >= 3 && self->credit < 0.0) {
        self->rest = self->most_rest = self->most_rest > 0 ? 2 * self->most_rest : 8;
        self->most_rest = self->most_rest < 256 ? self->most_rest : 256;
        self->lent_calls = 0;
        self->credit = 0.0;
    } else if (self->lent_calls > 10) {
        self->most_rest = 0;
    }
}

int plb_share_call(plb_sharer_t *self, const plb_shared_rows_t *rows, plb_tick_fn tick,
                   void *tick_arg, plb_share_figures_t *figures, plb_err_t *err)
{
    int ret = PLB_OK;
    double predicted = 0.0;
    PLB_FAIL_IF(self->broken, err, PLB_ERR_STATE, "an earlier call was interrupted or failed");
    const int64_t begin = plb_clock_real_ns(PLB_CLOCK_WALL);
    *figures = (plb_share_figures_t){0};
    self->rows = rows;
    self->figures = figures;
    self->did = self->predicted = 0.0;
    self->own.n = self->borrowed.n = 0;
    self->asked = self->tries = 0;
    self->ret = PLB_OK;
    self->calls++;
    self->broken = true; /* until the call has ended well */
    PLB_TRY(begin_call(self, &predicted, err));
    const bool unknown = self->unknown = self->all[UNKNOWN] > 0.0;
    const double bound = self->all[WORK] / self->all[SPEED];
    const double gain = self->all[SURE] - bound;
    const bool pays =
        self->comm.size > 1 && (unknown || gain > fmax(LEAST_GAIN * bound, LEAST_SECONDS));
    const bool lends = pays && self->options.lend && self->rest == 0;
    self->call_work = predicted;
    if (lends) {
        if (!unknown) {
            PLB_TRY(plan(self, &self->call_work, err));
        }
        PLB_TRY(work_together(self, tick, tick_arg, begin, err));
        figures->longest = self->all[TIME];
        figures->bound = self->all[WORK] / self->all[SPEED];
        figures->saved = self->all[TIME] - self->all[SURE];
        judge(self, figures->saved);
    } else {
        self->rest -= self->rest > 0;
        while (self->low < self->high) {
            compute(self, self->costs.known ? fmax(predicted / 32.0, HOME_CHUNK * self->speed)
                                            : fmax(predicted / 32.0, 1.0));
        }
        figures->longest = unknown ? 0.0 : self->all[TIME];
        figures->bound = unknown ? 0.0 : bound;
        figures->saved = pays && !unknown && !self->options.lend ? self->all[TIME] - bound : 0.0;
    }
    ret = lends ? agreed(self, err) : self->ret;
    if (ret == PLB_OK) {
        plb_row_costs_end(&self->costs, predicted);
        learn_speed(self);
        self->broken = false;
    } else if (self->ret != PLB_OK) {
        *err = self->err;
        if (!lends) { /* the others learn it when they begin the next call */
            MPI_Request request;
            self->lost = reduce(self, &request, &self->err) == PLB_OK;
        }
    }
out:
    clear(self);
    figures->speed = self->speed;
    figures->seconds = 1e-9 * (double)(plb_clock_real_ns(PLB_CLOCK_WALL) - begin);
    return ret;
}
