/* A recording: the connection to the monitor, the clocks, and the buffer of operations; marked
 * procedures; begin and end. */
#include "whatif/recorder/internal.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"

static int connection = -1, own_rank;
static int64_t sent; /* number of operations that have been sent */

static void monitor_close(void)
{
    if (connection >= 0) {
        close(connection);
    }
    connection = -1;
}

static bool write_all(const void *data, size_t n)
{
    const char *at = data;
    while (n > 0) {
        const ssize_t done = send(connection, at, n, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        at += done;
        n -= (size_t)done;
    }
    return true;
}

void plb_frame(char type, const void *data, uint32_t length)
{
    if (connection < 0) {
        return;
    }
    const struct {
        uint32_t type, length;
        /* number of the frame's first operation, so that the monitor notices gaps */
        int64_t first;
    } head = {(uint32_t)type, length, sent};
    if (!write_all(&head, sizeof head) || !write_all(data, length)) {
        fprintf(stderr, "pylb record: rank %d lost its monitor (%s): the recording stops here\n",
                own_rank, strerror(errno));
        monitor_close();
    }
}

__attribute__((format(printf, 2, 3))) static void frame_text(char type, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    const locale_t before = plb_point_begin();
    const int n = vsnprintf(text, sizeof text, fmt, args);
    plb_point_end(before);
    va_end(args);
    plb_frame(type, text, (uint32_t)(n < (int)sizeof text ? n : (int)sizeof text - 1));
}

/* PYLB_RECORDER is address:port, without the secret token: this variable appears in command lines,
 * which every user can read. */
static bool monitor_reach(int rank)
{
    own_rank = rank;
    char text[128] = "";
    const char *where = getenv("PYLB_RECORDER"), *token = getenv("OMPI_PYLB_TOKEN");
    if (where == NULL || token == NULL) {
        return false;
    }
    snprintf(text, sizeof text, "%s", where);
    char *port = strchr(text, ':');
    if (port == NULL) {
        return false;
    }
    *port++ = '\0';
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    const int yes = 1, large = 1 << 22;
    connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0 || inet_pton(AF_INET, text, &to.sin_addr) != 1 ||
        connect(connection, (struct sockaddr *)&to, sizeof to) != 0) {
        fprintf(stderr, "pylb record: no monitor at %s:%s: this rank is not recorded\n", text,
                port);
        monitor_close();
        return false;
    }
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(connection, SOL_SOCKET, SO_SNDBUF, &large, sizeof large);
    if (!write_all(token, strlen(token)) || !write_all("\n", 1)) {
        monitor_close();
    }
    return connection >= 0;
}

/* ---- the log -------------------------------------------------------------------------------- */

enum {
    BUFFERED = 4096,        /* number of operations in the buffer */
    FLUSH_NS = PLB_TICK_NS, /* if not sent for longer, the buffer is sent in the next call */
    /* ns: a process that did not run for a longer time may have slept; one that sleeps between two
     * polls and computes for less is polling */
    LONG_NS = PLB_WAKE_NS,
    /* a shorter computation between polls counts as polling; half of it may be the recorder */
    POLL_NS = 2 * PLB_MPI_POLL_NS,
    MOST_LACKS = 64,
};

typedef struct lack {
    const char *what;
    int64_t times;
} lack_t;

static struct {
    bool on;
    pthread_t thread;
    int64_t start;          /* wall time at which the recording begins: time 0 of the operations */
    int64_t wall, cpu;      /* wall time and processor time at the end of the last call */
    int64_t delay;          /* ns for which the process has waited for a processor (run_delay) */
    int64_t begin, compute; /* start of the present call; processor ns before it */
    int64_t carried;        /* part of `compute` that precedes calls without an operation */
    int64_t flushed;        /* wall time at which operations were last sent */
    int64_t beyond;         /* ns of processor time of the other threads */
    _Atomic int64_t foreign; /* number of MPI calls by other threads */
    bool asked;              /* whether the last call was a poll */
    /* sums over pairs of successive polls: ns between them, without waits for a core; the square
     * of this; ns of sleep */
    double asked_wall, asked_square, napped;
    int32_t n, first; /* number of operations in the buffer; this call's first, or -1 */
    int32_t n_lacks;
    lack_t lack[MOST_LACKS];
    plb_op_t op[BUFFERED];
} me;

static __thread bool inside_call; /* inside a call of MPI by the program (MPI may call itself) */

/* --- clocks --- */

static void flush_ops(int64_t wall)
{
    if (me.n > 0) {
        plb_frame('O', me.op, (uint32_t)me.n * (uint32_t)sizeof *me.op);
        sent += me.n;
        me.on = me.on && connection >= 0;
        me.n = 0;
    }
    me.flushed = wall;
}

bool plb_enter(void)
{
    if (!me.on || inside_call) {
        return false;
    }
    if (!pthread_equal(pthread_self(), me.thread)) {
        atomic_fetch_add(&me.foreign, 1);
        return false;
    }
    inside_call = true;
    me.begin = plb_monotonic_ns();
    const int64_t cpu = plb_posix_ns(CLOCK_PROCESS_CPUTIME_ID) - me.cpu, wall = me.begin - me.wall;
    me.first = -1;
    me.compute = cpu + me.carried;
    me.beyond += cpu > wall + LONG_NS ? cpu - wall : 0;
    /* sleep between two polls counts as waiting, not as a pause */
    if (wall - cpu > LONG_NS && !me.asked) {
        /* Log a pause between two calls, which were `wall` ns apart.  The process ran for `cpu` ns
         * of this time.  In the remaining time it slept, or waited for its processor. */
        const int64_t delay = plb_run_delay_ns(), waited = delay - me.delay;
        me.delay = delay;
        const int64_t pause = wall - cpu - waited;
        if (pause > LONG_NS / 2) {
            const int64_t kept = me.compute;
            me.compute = 0;
            plb_note((plb_op_t){.kind = PLB_OP_PAUSE, .bytes = pause});
            me.first = -1;
            me.compute = kept;
        }
    }
    return true;
}

void plb_note(plb_op_t op)
{
    if (me.first < 0) {
        op.compute = me.compute;
        me.first = me.n;
    } else {
        op.flags |= PLB_OP_SAME_CALL;
    }
    op.begin = me.begin - me.start;
    me.op[me.n++] = op;
    if (me.n == BUFFERED) { /* a single call may have very many operations */
        flush_ops(me.begin);
        me.first = BUFFERED; /* the call's first operation was sent already */
    }
}

/* A process that sleeps between two polls is only waiting, even if it uses more time than POLL_NS:
 * falling asleep and waking up take longer than the poll, most of all on an idle core. */
void plb_polled(void)
{
    const int64_t computed = me.compute - me.carried;
    if (me.asked && computed < LONG_NS) {
        int64_t away = me.begin - me.wall - computed;
        /* the process may have waited for its processor instead of sleeping */
        if (away > LONG_NS || computed >= POLL_NS) {
            const int64_t delay = plb_run_delay_ns();
            away -= delay - me.delay;
            me.delay = delay;
        }
        if (computed < POLL_NS || away > PLB_MPI_POLL_NS) {
            const double since = (double)(computed + away);
            if (away >= 0) {
                me.asked_wall += since;
                me.asked_square += since * since;
            }
            if (away > PLB_MPI_POLL_NS) {
                me.napped += (double)away;
            }
            me.compute = me.carried;
        }
    }
    me.asked = true;
}

void plb_leave(void)
{
    int64_t wall = plb_monotonic_ns();
    const int64_t inside = wall - me.begin;
    if (me.first >= 0) {
        if (me.first < me.n) {
            me.op[me.first].inside = 1e-9f * (float)inside;
        }
        me.carried = 0;
        me.asked = false;
    } else {
        me.carried = me.compute;
    }
    if (inside > LONG_NS) {
        me.delay = plb_run_delay_ns();
    }
    if (me.n > BUFFERED / 2 || wall - me.flushed > FLUSH_NS) {
        flush_ops(wall);
        wall = plb_monotonic_ns();
    }
    inside_call = false;
    me.wall = wall;
    me.cpu = plb_posix_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void plb_lacks(const char *what)
{
    for (int32_t i = 0; i < me.n_lacks; i++) {
        if (me.lack[i].what == what) {
            me.lack[i].times++;
            return;
        }
    }
    if (me.n_lacks < MOST_LACKS) {
        me.lack[me.n_lacks++] = (lack_t){what, 1};
    }
}

void plb_lacks_in_call(const char *what)
{
    if (plb_enter()) {
        plb_lacks(what);
        plb_leave();
    }
}

/* A marked procedure may run in a forked process: it must not write to the parent's connection. */
static void stop_in_child(void)
{
    me.on = false;
}

/* ---- a hash table --------------------------------------------------------------------------- */

void *plb_map_get(const plb_map_t *self, uint64_t key)
{
    const int32_t number = plb_keys_find(&self->keys, (int64_t)key);
    return number < 0 ? NULL : self->value[number];
}

static int put(plb_map_t *self, uint64_t key, void *value, plb_err_t *err)
{
    int32_t number;
    PLB_PASS(plb_keys_add(&self->keys, (int64_t)key, &number, err));
    PLB_PASS_GROW(self->value, self->room, self->keys.n);
    self->value[number] = value;
    return PLB_OK;
}

void *plb_must_have(void *block)
{
    if (block == NULL) {
        static const char why[] = "pylb record: out of memory: the program ends\n";
        (void)!write(STDERR_FILENO, why, sizeof why - 1);
        abort();
    }
    return block;
}

void plb_map_put(plb_map_t *self, uint64_t key, void *value)
{
    (void)plb_must_have(put(self, key, value, NULL) == PLB_OK ? self : NULL);
}

/* ---- procedures ----------------------------------------------------------------------------- */

enum { MOST = 256, LONGEST = 252 };

static char names[MOST][LONGEST];
static int32_t n_names, n_told;
static plb_map_t numbers; /* maps an instrumented function to its number + 2; 1: not chosen */

PLB_EXPORT int pylb_procedure(const char *name);
PLB_EXPORT void pylb_procedure_enter(int number);
PLB_EXPORT void pylb_procedure_leave(int number);

/* Send those names of marked procedures that the monitor does not have yet. */
static void procedures_tell(void)
{
    for (; n_told < n_names; n_told++) {
        char frame[4 + LONGEST];
        const size_t length = strlen(names[n_told]);
        memcpy(frame, &n_told, 4);
        memcpy(frame + 4, names[n_told], length);
        plb_frame('P', frame, (uint32_t)(4 + length));
    }
}

int pylb_procedure(const char *name)
{
    for (int32_t i = 0; i < n_names; i++) {
        if (strncmp(names[i], name, LONGEST - 1) == 0) {
            return i;
        }
    }
    if (n_names == MOST) {
        plb_lacks("more than 256 marked procedures");
        return MOST - 1;
    }
    strncpy(names[n_names], name, LONGEST - 1);
    n_names++;
    return n_names - 1;
}

static void mark(int kind, int number)
{
    if (plb_enter()) {
        procedures_tell();
        plb_note((plb_op_t){.kind = (uint8_t)kind, .tag = number});
        plb_leave();
    }
}

void pylb_procedure_enter(int number)
{
    mark(PLB_OP_ENTER, number);
}

void pylb_procedure_leave(int number)
{
    mark(PLB_OP_LEAVE, number);
}

/* --- -finstrument-functions --- */

static bool is_chosen(const char *name)
{
    const char *all = getenv("PYLB_PROCEDURES");
    const size_t length = strlen(name);
    for (const char *at = all; at != NULL && *at != '\0'; at += *at == ',') {
        const size_t word = strcspn(at, ",");
        if (word == length && strncmp(at, name, word) == 0) {
            return true;
        }
        at += word;
    }
    return false;
}

PLB_EXPORT void __cyg_profile_func_enter(void *function, void *site);
PLB_EXPORT void __cyg_profile_func_exit(void *function, void *site);

static void mark_function(int kind, void *function)
{
    uintptr_t known = (uintptr_t)plb_map_get(&numbers, (uint64_t)(uintptr_t)function);
    if (known == 0) {
        Dl_info info;
        const bool named = dladdr(function, &info) != 0 && info.dli_sname != NULL;
        known =
            named && is_chosen(info.dli_sname) ? (uintptr_t)pylb_procedure(info.dli_sname) + 2 : 1;
        plb_map_put(&numbers, (uint64_t)(uintptr_t)function, (void *)known);
    }
    const int number = (int)known - 2;
    if (number >= 0) {
        mark(kind, number);
    }
}

void __cyg_profile_func_enter(void *function, void *site)
{
    mark_function(PLB_OP_ENTER, function);
}

void __cyg_profile_func_exit(void *function, void *site)
{
    mark_function(PLB_OP_LEAVE, function);
}

/* ---- calibrate ----------------------------------------------------------------------------- */

/* REPEATS: calls in a row, and attempts, of which the fastest counts: the longer the better. */
enum { REPEATS = PLB_LONG, LARGE = 1 << 18 };

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* Measure the seconds of one message to `partner`: half of the fastest round trip. */
static double trip_seconds(MPI_Comm comm, int partner, bool first, void *buffer, int bytes)
{
    double best = 1.0;
    for (int i = 0; i < REPEATS; i++) {
        const double begin = PMPI_Wtime();
        if (first) {
            PMPI_Send(buffer, bytes, MPI_BYTE, partner, 0, comm);
        }
        PMPI_Recv(buffer, bytes, MPI_BYTE, partner, 0, comm, MPI_STATUS_IGNORE);
        if (!first) {
            PMPI_Send(buffer, bytes, MPI_BYTE, partner, 0, comm);
        }
        best = least(best, (PMPI_Wtime() - begin) / 2.0);
    }
    return best;
}

/* Measure, in some milliseconds, the seconds of a call, and of a message and of a byte (-1: the
 * rank has no partner), and tell the monitor.  Collective over MPI_COMM_WORLD. */
static void call_costs(void)
{
    int rank, size;
    double overhead = 1.0, alpha = -1.0, beta = -1.0;
    MPI_Comm own;
    PMPI_Comm_dup(MPI_COMM_WORLD, &own);
    PMPI_Comm_rank(own, &rank);
    PMPI_Comm_size(own, &size);
    for (int k = 0; k < REPEATS; k++) {
        int flag;
        const double begin = PMPI_Wtime();
        for (int i = 0; i < REPEATS; i++) {
            PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, own, &flag, MPI_STATUS_IGNORE);
        }
        overhead = least(overhead, (PMPI_Wtime() - begin) / REPEATS);
    }
    const int partner = rank ^ 1;
    static char buffer[LARGE]; /* static: an allocation could fail on only one of two ranks */
    if (partner < size) {
        alpha = trip_seconds(own, partner, rank < partner, buffer, 8);
        const double large = trip_seconds(own, partner, rank < partner, buffer, LARGE);
        beta = (large > alpha ? large - alpha : 0.0) / LARGE;
    }
    PMPI_Barrier(own);
    PMPI_Comm_free(&own);
    frame_text('N', "{\"overhead\": %.4g, \"alpha\": %.4g, \"beta\": %.4g}", overhead, alpha,
               beta);
}

static pid_t process; /* the process that is recorded; those that it forks are not recorded */

bool plb_record_open(int provided, bool *timed_only)
{
    const char *only = getenv("PYLB_RECORD_ONLY");
    *timed_only = only != NULL && strcmp(only, "time") == 0;
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    process = getpid();
    me.thread = pthread_self(); /* only calls of this thread are logged */
    pthread_atfork(NULL, NULL, stop_in_child);
    if (!monitor_reach(rank)) {
        return false;
    }
    int size = 1;
    char host[256] = "?", library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    gethostname(host, sizeof host - 1);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    int length = 0;
    PMPI_Get_library_version(library, &length);
    library[strcspn(library, "\n\",")] = '\0';
    int first = -1;
    for (int i = 0; i < CPU_SETSIZE && first < 0; i++) {
        first = CPU_ISSET(i, &set) ? i : -1;
    }
    frame_text('H',
               "{\"rank\": %d, \"size\": %d, \"host\": \"%s\", \"pid\": %d, \"now\": %lld, "
               "\"cores\": %d, \"core\": %d, \"thread_multiple\": %s, \"delays\": %s, "
               "\"library\": \"%s\"}",
               rank, size, host, (int)getpid(), (long long)plb_monotonic_ns(), CPU_COUNT(&set),
               first, provided == MPI_THREAD_MULTIPLE ? "true" : "false",
               access("/proc/thread-self/schedstat", R_OK) == 0 ? "true" : "false", library);
    /* Do not record programs that this program starts. */
    const char *before = getenv("PYLB_RECORD_PRELOAD");
    if (before != NULL) {
        setenv("LD_PRELOAD", before, 1);
    } else {
        unsetenv("LD_PRELOAD");
    }
    if (!*timed_only) {
        call_costs();
    }
    return true;
}

void plb_record_begin(bool timed_only)
{
    if (!timed_only) {
        procedures_tell();
    }
    PMPI_Barrier(MPI_COMM_WORLD); /* now all ranks begin the program at the same time */
    me.on = !timed_only;
    me.n = 0;
    me.delay = plb_run_delay_ns();
    me.start = me.wall = me.flushed = plb_monotonic_ns();
    me.cpu = plb_posix_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void plb_record_end(bool finalized)
{
    if (connection < 0 || getpid() != process) {
        return;
    }
    const int64_t seconds = plb_monotonic_ns() - me.start;
    if (plb_enter()) {
        plb_note((plb_op_t){.kind = PLB_OP_END});
        plb_leave();
    }
    me.on = false;
    flush_ops(0);
    for (int32_t i = 0; i < me.n_lacks; i++) {
        frame_text('L', "{\"what\": \"%s\", \"times\": %lld}", me.lack[i].what,
                   (long long)me.lack[i].times);
    }
    frame_text('E',
               "{\"ops\": %lld, \"ns\": %lld, \"start\": %lld, \"now\": %lld, "
               "\"beyond\": %lld, \"foreign\": %lld, \"finalized\": %s, "
               "\"asked\": {\"wall\": %.6g, \"square\": %.6g, \"napped\": %.6g}}",
               (long long)sent, (long long)seconds, (long long)me.start,
               (long long)plb_monotonic_ns(), (long long)me.beyond, (long long)me.foreign,
               finalized ? "true" : "false", 1e-9 * me.asked_wall, 1e-18 * me.asked_square,
               1e-9 * me.napped);
    monitor_close();
}

/* Ends the recording of a program that ends without MPI_Finalize. */
__attribute__((destructor)) static void at_exit(void)
{
    plb_record_end(false);
}
