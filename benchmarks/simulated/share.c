/* csrc/comm/share.c on simulated ranks: time over the bound, on a machine that is never busy.
 *
 *     share CASE RANKS ROWS SECONDS CALLS     (see benchmarks/share_simulated.py)
 *
 * Each rank is a coroutine with a clock of its own; the one whose clock is behind runs.  Messages
 * follow LogGP (Alexandrov, Ionescu, Schauser and Scheiman 1995): a message of k bytes costs the
 * sender `o`, arrives after L + k G, and costs the receiver `o`.  A collective call is complete
 * log2(ranks) (L + 2 o) after the last rank has begun it.  A chunk of rows costs CALL beside its
 * rows, as a Python function does. */
#include <math.h>
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
    double *mine, *all;
    int n, arrived;
    double done; /* time at which it is complete; 0: not yet */
} collective_t;

typedef struct sim_request {
    collective_t *of;
    double *out;
    MPI_Op op;
    int n;
} request_t;

typedef struct sim_rank {
    ucontext_t context;
    double now, speed;
    message_t *inbox; /* in order of arrival */
    int n_collectives;
    bool over;
    const double *cost; /* of the rows of this rank in this call */
    plb_share_figures_t figures;
} sim_rank_t;

static sim_rank_t *ranks;
static collective_t *collectives;
static ucontext_t scheduler;
static int p, current, n_collectives;

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
    swapcontext(&ranks[current].context, &scheduler);
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

int plb_wait_pause(plb_wait_t *self)
{
    const int64_t waited = plb_clock_ns(PLB_CLOCK_WALL) - self->start;
    if (waited < PLB_WAIT_YIELD_NS) {
        spend(2e-6);
    } else {
        spend(1e-9 * (double)(waited / 4 < PLB_WAIT_MOST_NS ? waited / 4 : PLB_WAIT_MOST_NS));
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

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
    (void)comm;
    *rank = current;
    return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
    (void)comm;
    *size = p;
    return MPI_SUCCESS;
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out)
{
    (void)color;
    (void)key;
    *out = comm;
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

static int begin(const double *in, int n, double *out, MPI_Op op, MPI_Request *request)
{
    const int index = ranks[current].n_collectives++;
    if (index == n_collectives) {
        collectives = plb_realloc(collectives, (size_t)index + 1, sizeof *collectives);
        collectives[n_collectives++] =
            (collective_t){.mine = plb_malloc((size_t)(n * p), sizeof(double)), .n = n};
    }
    collective_t *of = &collectives[index];
    memcpy(of->mine + current * n, in, (size_t)n * sizeof *in);
    spend(O);
    of->done = fmax(of->done, ranks[current].now + ceil(log2(p)) * (L + 2.0 * O));
    of->arrived++;
    *request = plb_malloc(1, sizeof **request);
    **request = (request_t){(collective_t *)(intptr_t)index, out, op, n};
    return MPI_SUCCESS;
}

int MPI_Iallreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request)
{
    (void)type;
    (void)comm;
    return begin(in, n, out, op, request);
}

int MPI_Iallgather(const void *in, int n, MPI_Datatype type, void *out, int each, MPI_Datatype of,
                   MPI_Comm comm, MPI_Request *request)
{
    (void)type;
    (void)each;
    (void)of;
    (void)comm;
    return begin(in, n, out, MPI_OP_NULL, request);
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
    const collective_t *of = &collectives[(intptr_t)(*request)->of];
    const int n = of->n;
    if (of->arrived < p || of->done > ranks[current].now) {
        return MPI_SUCCESS;
    }
    if ((*request)->op == MPI_OP_NULL) {
        memcpy((*request)->out, of->mine, (size_t)(n * p) * sizeof(double));
    } else {
        memcpy((*request)->out, of->mine, (size_t)n * sizeof(double));
        for (int r = 1; r < p; r++) {
            int one = n;
            (*request)->op(of->mine + r * n, (*request)->out, &one, NULL);
        }
    }
    plb_free(*request);
    *request = MPI_REQUEST_NULL;
    *done = 1;
    return MPI_SUCCESS;
}

/* ---- the program -----------------------------------------------------------------------------
 */

static char test_case;
static int n_rows, n_calls;
static double mean_seconds;
static double *costs; /* [n_calls, p * n_rows] */
static double *durations, *bounds, *homes;

static double normal(plb_rng_t *rng)
{
    return sqrt(-2.0 * log(1.0 - plb_rng_uniform(rng))) *
           cos(6.283185307179586 * plb_rng_uniform(rng));
}

static void make_costs(void)
{
    const int n = p * n_rows;
    plb_rng_t rng;
    plb_rng_init(&rng, 1);
    for (int k = 0; k < n_calls; k++) {
        double *cost = costs + (int64_t)k * n, total = 0.0, level = 0.0;
        for (int i = 0; i < n; i++) {
            if (test_case == 'f') { /* front: a tenth of the rows is 20 times as heavy */
                cost[i] = (i - k * (n / 100) + 100 * n) % n < n / 10 ? 20.0 : 1.0;
            } else if (test_case == 'j' || (test_case == 'p' && k == 0)) {
                level = test_case == 'p' && i % n_rows == 0 ? 0.5 * normal(&rng) : level;
                cost[i] = exp(level + normal(&rng));
            } else {
                cost[i] = test_case == 'p' ? costs[i] : 1.0;
            }
            total += k > 0 && test_case == 'p' ? 0.0 : cost[i];
        }
        for (int i = 0; i < n && total > 0.0; i++) {
            cost[i] *= mean_seconds * p / total;
        }
    }
    double speeds = 0.0;
    for (int r = 0; r < p; r++) {
        ranks[r].speed = test_case == 's' ? (double)(1 << r % 4) : 1.0;
        speeds += ranks[r].speed;
    }
    for (int k = 0; k < n_calls; k++) {
        for (int r = 0; r < p; r++) {
            double sum = 0.0;
            for (int i = 0; i < n_rows; i++) {
                sum += costs[((int64_t)k * p + r) * n_rows + i];
            }
            bounds[k] += sum / speeds;
            homes[k] = fmax(homes[k], sum / ranks[r].speed);
        }
    }
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
        ranks[me].now = 1.0 * k * 100.0;
        ranks[me].cost = costs + ((int64_t)k * p + me) * n_rows;
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
    ranks[me].over = true;
    for (;;) {
        yield();
    }
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        return 2;
    }
    test_case = *argv[1];
    p = atoi(argv[2]);
    n_rows = atoi(argv[3]);
    mean_seconds = atof(argv[4]);
    n_calls = atoi(argv[5]);
    ranks = plb_calloc((size_t)p, sizeof *ranks);
    costs = plb_calloc((size_t)n_calls * (size_t)p * (size_t)n_rows, sizeof *costs);
    durations = plb_calloc((size_t)n_calls, sizeof *durations);
    bounds = plb_calloc((size_t)n_calls, sizeof *bounds);
    homes = plb_calloc((size_t)n_calls, sizeof *homes);
    make_costs();
    for (int r = 0; r < p; r++) {
        getcontext(&ranks[r].context);
        ranks[r].context.uc_stack.ss_sp = plb_malloc(STACK, 1);
        ranks[r].context.uc_stack.ss_size = STACK;
        makecontext(&ranks[r].context, program, 0);
    }
    for (int left = p; left > 0;) {
        int next = -1;
        for (int r = 0; r < p; r++) {
            if (!ranks[r].over && (next < 0 || ranks[r].now < ranks[next].now)) {
                next = r;
            }
        }
        current = next;
        swapcontext(&scheduler, &ranks[current].context);
        left -= ranks[current].over;
    }
    for (int k = 0; k < n_calls; k++) {
        printf("%.4f %.4f\n", durations[k] / bounds[k], homes[k] / bounds[k]);
    }
    return 0;
}
