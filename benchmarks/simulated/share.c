/* csrc/comm/share.c on simulated ranks: time over the bound, on a machine that is never busy.
 *
 *     share CASE RANKS ROWS SECONDS CALLS [COSTS]     (see benchmarks/share_simulated.py)
 *
 * COSTS is a file: the seconds of all rows in each call, as doubles; else they follow from CASE.
 * Each rank is a coroutine with a clock of its own; the one whose clock is behind runs.  Messages
 * follow LogGP (Alexandrov, Ionescu, Schauser and Scheiman 1995): a message of k bytes costs the
 * sender `o`, arrives after L + k G, and costs the receiver `o`.  A collective call is complete
 * log2(ranks) (L + 2 o) after the last rank has begun it.  A chunk of rows costs CALL beside its
 * rows, as a Python function does. */
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "base/base.h"
#include "comm/comm.h"

static const double L = 2e-6, O = 1e-6, G = 1e-10, POLL = 3e-7, CALL = 2e-5;
enum { STACK = 1 << 17, BYTES = 64 };

typedef struct sim_message {
    int from, to, tag, bytes;
    double arrives;
    struct sim_message *next;
    char data[];
} message_t;

typedef struct collective {
    double *all; /* the sums so far, or the numbers of the ranks so far */
    int arrived;
    double done; /* time at which it is complete if nobody arrives any more */
} collective_t;

/* Communicator 0 has all ranks, the others are groups. */
typedef struct sim_comm {
    collective_t *call;
    int size, n_calls;
} sim_comm_t;

typedef struct sim_request {
    MPI_Comm comm;
    int call, n; /* n: of numbers in the result */
    double *out;
} request_t;

typedef struct sim_rank {
    ucontext_t begin;
    jmp_buf here; /* where it goes on; swapcontext makes system calls, which take a microsecond */
    bool runs, sleeps;        /* sleeps: its polls have no effect until something happens */
    double now, speed, waits; /* waits: when the present wait began */
    request_t *request;       /* the collective call that it waits for, or NULL */
    message_t *inbox;         /* in order of arrival */
    int group, member;        /* group: communicator; member: rank in it */
    int n_calls[2];           /* collective calls in communicator 0, and in the group */
    double *cost;             /* [n_rows] of the rows of this rank in this call */
    plb_rng_t rng;
    plb_share_figures_t figures;
} sim_rank_t;

static sim_rank_t *ranks;
static sim_comm_t *comms;
static plb_queue_t order; /* ranks by their clocks */
static jmp_buf scheduler;
static int p, current, n_split;

/* ---- time ------------------------------------------------------------------------------------
 */

_Thread_local plb_clock_frame_t plb_clock_frame = {.on = true};

static void spend(double seconds)
{
    ranks[current].now += seconds;
}

/* Let the ranks run whose clocks are behind. */
static void yield(void)
{
    if (_setjmp(ranks[current].here) == 0) {
        _longjmp(scheduler, 1);
    }
}

int64_t plb_clock_own_ns(plb_clock_t clock)
{
    (void)clock;
    return (int64_t)(1e9 * ranks[current].now);
}

plb_moment_t plb_moment_now(int64_t wall, bool reads)
{
    (void)reads;
    return (plb_moment_t){wall, wall}; /* is not called in a frame */
}

/* Each simulated rank has a core of its own, so nobody has to be asked. */
void plb_cores_here(plb_cores_t *out)
{
    *out = (plb_cores_t){0};
}

bool plb_cores_capped(const plb_cores_t *all, int32_t n, int32_t rank)
{
    (void)all, (void)n, (void)rank;
    return false;
}

int plb_cores_groups(const plb_cores_t *all, int32_t n, int32_t *group, double *cores,
                     plb_err_t *err)
{
    (void)all, (void)err;
    for (int32_t r = 0; r < n; r++) {
        group[r] = r;
        cores[r] = 1.0;
    }
    return PLB_OK;
}

int MPI_Allgather(const void *in, int n, MPI_Datatype type, void *out, int each, MPI_Datatype of,
                  MPI_Comm comm)
{
    (void)in, (void)n, (void)type, (void)out, (void)each, (void)of, (void)comm;
    return MPI_SUCCESS;
}

void plb_wait_begin(plb_wait_t *self, plb_tick_fn tick, void *arg)
{
    const int64_t now = plb_clock_ns(PLB_CLOCK_WALL);
    *self = (plb_wait_t){now, now, tick, arg};
}

static void pause_once(sim_rank_t *self)
{
    const double waited = self->now - self->waits;
    self->now +=
        waited < 1e-9 * PLB_WAIT_YIELD_NS ? 2e-6 : fmin(0.25 * waited, 1e-9 * PLB_WAIT_MOST_NS);
}

/* Something happens at `time` for which rank r may wait: it notices it in its next poll. */
static void wake(int r, double time)
{
    if (ranks[r].sleeps) {
        while (ranks[r].now < time) {
            pause_once(&ranks[r]);
        }
        ranks[r].sleeps = false;
        plb_queue_set(&order, r, ranks[r].now);
    }
}

static bool complete(const request_t *request)
{
    return comms[request->comm].call[request->call].arrived == comms[request->comm].size;
}

int plb_wait_pause(plb_wait_t *wait)
{
    sim_rank_t *self = &ranks[current];
    self->waits = 1e-9 * (double)wait->start;
    pause_once(self);
    self->sleeps = true;
    if (self->inbox != NULL) {
        wake(current, self->inbox->arrives);
    }
    if (self->request != NULL && complete(self->request)) {
        wake(current, comms[self->request->comm].call[self->request->call].done);
    }
    yield();
    return PLB_OK;
}

/* ---- MPI -------------------------------------------------------------------------------------
 */

int plb_mpi_fail(plb_err_t *err, int code, const char *call, const char *file, int line)
{
    return plb_fail(err, PLB_ERR_MPI, file, line, "%d in %s", code, call);
}

int plb_comm_raise_for(int code, int rank, plb_err_t *err)
{
    return PLB_FAIL(err, code, "rank %d has failed", rank);
}

int plb_comm_init(plb_comm_t *self, MPI_Comm user, plb_err_t *err)
{
    (void)err;
    *self = (plb_comm_t){.comm = user, .rank = current, .size = p};
    return PLB_OK;
}

void plb_comm_free(plb_comm_t *self)
{
    self->comm = MPI_COMM_NULL;
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
    *size = comms[comm].size;
    return MPI_SUCCESS;
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out)
{
    (void)comm;
    (void)key;
    *out = ranks[current].group = 1 + color;
    comms[*out].size++;
    n_split++;
    while (n_split < p) {
        spend(POLL);
        yield();
    }
    for (int r = 0; r < current; r++) {
        ranks[current].member += ranks[r].group == *out;
    }
    return MPI_SUCCESS;
}

int MPI_Comm_free(MPI_Comm *comm)
{
    *comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

int MPI_Op_create(MPI_User_function *function, int commutes, MPI_Op *op)
{
    (void)commutes;
    *op = function;
    return MPI_SUCCESS;
}

int MPI_Op_free(MPI_Op *op)
{
    *op = MPI_OP_NULL;
    return MPI_SUCCESS;
}

int MPI_Isend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    (void)type;
    (void)comm;
    message_t *message = plb_malloc(sizeof *message + (size_t)n, 1);
    spend(O + n * G); /* a copy */
    *message = (message_t){current, to, tag, n, ranks[current].now + L + n * G, NULL};
    memcpy(message->data, data, (size_t)n);
    message_t **at = &ranks[to].inbox;
    while (*at != NULL && (*at)->arrives <= message->arrives) {
        at = &(*at)->next;
    }
    message->next = *at;
    *at = message;
    wake(to, message->arrives);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int *there, MPI_Message *out, MPI_Status *status)
{
    (void)from;
    (void)tag;
    (void)comm;
    spend(POLL);
    yield();
    message_t *message = ranks[current].inbox;
    *there = message != NULL && message->arrives <= ranks[current].now;
    if (*there) {
        ranks[current].inbox = message->next;
        *out = message;
        *status = (MPI_Status){message->from, message->tag, message->bytes};
    }
    return MPI_SUCCESS;
}

int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *n)
{
    (void)type;
    *n = status->bytes;
    return MPI_SUCCESS;
}

int MPI_Mrecv(void *data, int n, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
    (void)type;
    (void)status;
    spend(O + n * G);
    memcpy(data, (*message)->data, (size_t)n);
    plb_free(*message);
    return MPI_SUCCESS;
}

static int begin(const double *in, int n, double *out, MPI_Op op, MPI_Comm comm,
                 MPI_Request *request)
{
    sim_rank_t *self = &ranks[current];
    sim_comm_t *of = &comms[comm];
    const int index = self->n_calls[comm > 0]++, size = op == MPI_OP_NULL ? n * of->size : n;
    if (index == of->n_calls) {
        of->call = plb_realloc(of->call, (size_t)index + 1, sizeof *of->call);
        of->call[of->n_calls++] = (collective_t){.all = plb_malloc((size_t)size, sizeof(double))};
    }
    collective_t *call = &of->call[index];
    if (op == MPI_OP_NULL) {
        memcpy(call->all + n * self->member, in, (size_t)n * sizeof *in);
    } else if (call->arrived == 0) {
        memcpy(call->all, in, (size_t)n * sizeof *in);
    } else {
        op((void *)in, call->all, &n, NULL);
    }
    spend(O);
    call->done = fmax(call->done, self->now + ceil(log2(of->size)) * (L + 2.0 * O));
    call->arrived++;
    *request = self->request = plb_malloc(1, sizeof **request);
    **request = (request_t){comm, index, size, out};
    for (int r = 0; r < p && complete(*request); r++) {
        if (comm == 0 || ranks[r].group == comm) {
            wake(r, call->done);
        }
    }
    return MPI_SUCCESS;
}

int MPI_Iallreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request)
{
    (void)type;
    return begin(in, n, out, op, comm, request);
}

int MPI_Iallgather(const void *in, int n, MPI_Datatype type, void *out, int each, MPI_Datatype of,
                   MPI_Comm comm, MPI_Request *request)
{
    (void)type;
    (void)each;
    (void)of;
    return begin(in, n, out, MPI_OP_NULL, comm, request);
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    (void)status;
    *done = *request == MPI_REQUEST_NULL;
    if (*done) {
        return MPI_SUCCESS;
    }
    spend(POLL);
    yield();
    const request_t *of = *request;
    const collective_t *call = &comms[of->comm].call[of->call];
    if (complete(of) && call->done <= ranks[current].now) {
        memcpy(of->out, call->all, (size_t)of->n * sizeof *of->out);
        plb_free(*request);
        *request = ranks[current].request = MPI_REQUEST_NULL;
        *done = 1;
    }
    return MPI_SUCCESS;
}

/* ---- the program -----------------------------------------------------------------------------
 */

static char test_case;
static int n_rows, n_calls;
static double mean_seconds, speeds;
static FILE *file;
static double *durations, *work, *homes; /* [n_calls] longest call; all work; longest at home */

static double normal(plb_rng_t *rng)
{
    return sqrt(-2.0 * log(1.0 - plb_rng_uniform(rng))) *
           cos(6.283185307179586 * plb_rng_uniform(rng));
}

/* Set the costs of the rows of this rank in call k. */
static void make_costs(sim_rank_t *self, int me, int k)
{
    const int64_t n = (int64_t)p * n_rows, first = (int64_t)me * n_rows;
    const bool drawn = test_case == 'j' || (test_case == 'p' && k == 0);
    /* a leaping front moves on by a hundredth of all rows, a front by 40 rows at most */
    const int64_t step = test_case == 'f' && n / 100 > 40 ? 40 : n / 100;
    const double spread = test_case == 'p' ? 0.5 : 0.0, level = drawn ? normal(&self->rng) : 0.0;
    const double mean = drawn ? exp(0.5 * (1.0 + spread * spread)) : 2.9;
    double sum = 0.0;
    if (file != NULL && (fseek(file, (k * n + first) * 8L, SEEK_SET) != 0 ||
                         fread(self->cost, 8, (size_t)n_rows, file) != (size_t)n_rows)) {
        abort();
    }
    for (int i = 0; i < n_rows && file == NULL; i++) {
        if (test_case == 'f' || test_case == 'l') { /* a tenth of the rows is 20 times as heavy */
            const bool heavy = (first + i + (n - step) * k) % n < n / 10;
            self->cost[i] = mean_seconds / n_rows * (heavy ? 20.0 : 1.0) / mean;
        } else if (drawn) {
            self->cost[i] =
                mean_seconds / n_rows * exp(spread * level + normal(&self->rng)) / mean;
        } else if (test_case != 'p') {
            self->cost[i] = mean_seconds / n_rows;
        }
    }
    for (int i = 0; i < n_rows; i++) {
        sum += self->cost[i];
    }
    work[k] += sum;
    homes[k] = fmax(homes[k], sum / self->speed);
}

static int own(void *arg, int64_t first, const int64_t *row, int64_t n, plb_err_t *err)
{
    const sim_rank_t *self = arg;
    double seconds = 0.0;
    (void)err;
    for (int64_t k = 0; k < n; k++) {
        seconds += self->cost[row != NULL ? row[k] : first + k];
    }
    spend(CALL + seconds / self->speed);
    return PLB_OK;
}

static int pack(void *arg, const int64_t *row, int64_t n, char *out, plb_err_t *err)
{
    const sim_rank_t *self = arg;
    (void)err;
    spend(0.5 * CALL);
    for (int64_t k = 0; k < n; k++) {
        memcpy(out + k * BYTES, &self->cost[row[k]], sizeof(double));
    }
    return PLB_OK;
}

static int guest(void *arg, const char *rows, int64_t n, char **answer, int64_t *bytes,
                 plb_err_t *err)
{
    const sim_rank_t *self = arg;
    double seconds = 0.0, one;
    *bytes = n * BYTES;
    PLB_PASS_NEW(*answer, *bytes);
    for (int64_t k = 0; k < n; k++) {
        memcpy(&one, rows + k * BYTES, sizeof one);
        seconds += one;
    }
    spend(2.0 * CALL + seconds / self->speed);
    return PLB_OK;
}

static int take(void *arg, int from, bool failed, const int64_t *row, int64_t n,
                const char *answer, int64_t bytes, plb_err_t *err)
{
    (void)arg, (void)from, (void)failed, (void)row, (void)n, (void)answer, (void)bytes, (void)err;
    spend(0.5 * CALL);
    return PLB_OK;
}

static void program(void)
{
    const int me = current;
    const plb_share_options_t options = {.lend = true, .reactive = true};
    plb_sharer_t *sharer;
    plb_err_t err = {0};
    if (plb_share_new(&sharer, 0, &options, NULL, &err) != PLB_OK) {
        abort();
    }
    for (int k = 0; k < n_calls; k++) {
        const plb_shared_rows_t rows = {.n = n_rows,
                                        .row_bytes = BYTES,
                                        .arg = &ranks[me],
                                        .own = own,
                                        .pack = pack,
                                        .guest = guest,
                                        .take = take};
        ranks[me].now = 100.0 * k;
        make_costs(&ranks[me], me, k);
        const int ret = plb_share_call(sharer, &rows, NULL, NULL, &ranks[me].figures, &err);
        if (ret != PLB_OK) {
            fprintf(stderr, "rank %d: %s\n", me, err.text);
            abort();
        }
        durations[k] = fmax(durations[k], ranks[me].now - 100.0 * k);
        if (getenv("TRACE") != NULL && atoi(getenv("TRACE")) == k) {
            const plb_share_figures_t *f = &ranks[me].figures;
            fprintf(stderr, "%d %d: %.4f own %.4f borrowed %.4f lent %.4f rows %g speed %.3f\n", k,
                    me, f->seconds, f->own, f->borrowed, f->lent, f->rows, f->speed);
        }
    }
    plb_share_close(sharer);
    plb_share_free(sharer);
    ranks[me].now = INFINITY;
    yield();
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        return 2;
    }
    test_case = *argv[1];
    p = atoi(argv[2]);
    n_rows = atoi(argv[3]);
    mean_seconds = atof(argv[4]);
    n_calls = atoi(argv[5]);
    file = argc > 6 ? fopen(argv[6], "rb") : NULL;
    ranks = plb_calloc((size_t)p, sizeof *ranks);
    comms = plb_calloc((size_t)p + 1, sizeof *comms);
    comms[0].size = p;
    durations = plb_calloc((size_t)n_calls, sizeof *durations);
    work = plb_calloc((size_t)n_calls, sizeof *work);
    homes = plb_calloc((size_t)n_calls, sizeof *homes);
    order = (plb_queue_t){plb_calloc((size_t)p, sizeof *order.item),
                          plb_calloc((size_t)p, sizeof *order.at), p};
    for (int r = 0; r < p; r++) {
        sim_rank_t *self = &ranks[r];
        self->speed = test_case == 's' ? (double)(1 << r % 4) : 1.0;
        speeds += self->speed;
        self->cost = plb_calloc((size_t)n_rows, sizeof *self->cost);
        plb_rng_init(&self->rng, (uint64_t)r);
        getcontext(&self->begin);
        self->begin.uc_stack.ss_sp = plb_malloc(STACK, 1);
        self->begin.uc_stack.ss_size = STACK;
        makecontext(&self->begin, program, 0);
        order.item[r].id = order.at[r] = r;
    }
    while (order.item[0].key < INFINITY) {
        current = order.item[0].id;
        if (_setjmp(scheduler) == 0) {
            if (ranks[current].runs) {
                _longjmp(ranks[current].here, 1);
            }
            ranks[current].runs = true;
            setcontext(&ranks[current].begin);
        }
        plb_queue_set(&order, current, ranks[current].sleeps ? INFINITY : ranks[current].now);
    }
    for (int k = 0; k < n_calls; k++) {
        printf("%.4f %.4f\n", durations[k] * speeds / work[k], homes[k] * speeds / work[k]);
    }
    return 0;
}
