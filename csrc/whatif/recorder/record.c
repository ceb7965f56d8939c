/* Clocks, the buffer of operations, the connection to the monitor. */
#include "record.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    BUFFERED = 4096,          /* operations */
    FLUSH_NS = 200 * 1000000, /* at the latest */
    LONG_NS = 200 * 1000,     /* intervals from here on are looked at: did the process sleep? */
    POLL_NS = 20 * 1000,      /* computing less between two questions is part of asking, */
    NAP_POLL_NS = 200 * 1000, /* and less than this where the process slept as well */
    NAP_NS = 10 * 1000,       /* being away for longer between two questions is sleep */
    MOST_LACKS = 64,
};

typedef struct lack {
    const char *what;
    int64_t times;
} lack_t;

static struct {
    bool on, timed_only;
    pthread_t thread;
    int socket, schedstat, rank;
    pid_t process;                /* that called MPI_Init: a fork of it is another one */
    int64_t start;                /* wall time of operations' 0 */
    int64_t wall, cpu;            /* at the end of the last call */
    int64_t delay;                /* that the process had waited for a processor */
    int64_t begin, compute;       /* of the present call */
    int64_t carried;              /* processor time before calls that noted nothing */
    int64_t flushed;              /* wall time of the last flush */
    int64_t sent;                 /* operations that went to the monitor */
    int64_t beyond;               /* processor time of other threads */
    int64_t foreign;              /* calls by other threads */
    bool asked;                   /* the last call was a poll */
    int64_t asked_at;             /* and began then */
    double asked_wall, asked_cpu; /* ns from one question to the next, and of the processor */
    double asked_square;          /* sum of the squares of the former */
    double naps, napped;          /* questions after a sleep, and ns asleep */
    int32_t n, first; /* operations in the buffer, and the first of this call; -1: none */
    int32_t n_lacks;
    lack_t lack[MOST_LACKS];
    plb_op_t op[BUFFERED];
} me = {.socket = -1, .schedstat = -1};

static __thread bool inside_call; /* MPI calls itself */
static pthread_mutex_t foreign_lock = PTHREAD_MUTEX_INITIALIZER;

/* --- clocks --- */

static int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Nanoseconds for which the process wanted to run and another one did: the second number of
 * schedstat. */
static int64_t run_delay(void)
{
    char text[96];
    const ssize_t n = me.schedstat < 0 ? -1 : pread(me.schedstat, text, sizeof text - 1, 0);
    if (n <= 0) {
        return -1;
    }
    text[n] = '\0';
    const char *second = strchr(text, ' ');
    return second ? strtoll(second, NULL, 10) : -1;
}

/* --- the monitor --- */

static bool write_all(const void *data, size_t n)
{
    const char *at = data;
    while (n > 0) {
        const ssize_t done = send(me.socket, at, n, MSG_NOSIGNAL);
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
    if (me.socket < 0) {
        return;
    }
    const struct {
        uint32_t type, length;
        int64_t first; /* number of its first operation: a gap would be seen */
    } head = {(uint32_t)type, length, me.sent};
    if (!write_all(&head, sizeof head) || !write_all(data, length)) {
        fprintf(stderr, "pylb record: rank %d lost its monitor (%s): it is recorded no further\n",
                me.rank, strerror(errno));
        close(me.socket);
        me.socket = -1;
        me.on = false;
    }
}

static void frame_text(char type, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void frame_text(char type, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    plb_frame(type, text, (uint32_t)(n < (int)sizeof text ? n : (int)sizeof text - 1));
}

static void flush_ops(int64_t wall)
{
    if (me.n > 0) {
        plb_frame('O', me.op, (uint32_t)((size_t)me.n * sizeof *me.op));
        me.sent += me.n;
        me.n = 0;
    }
    me.flushed = wall;
}

/* PYLB_RECORD is address:port:token. */
static bool reach_monitor(void)
{
    char text[128] = "";
    const char *where = getenv("PYLB_RECORD");
    if (where == NULL) {
        return false;
    }
    snprintf(text, sizeof text, "%s", where);
    char *port = strchr(text, ':');
    char *token = port ? strchr(port + 1, ':') : NULL;
    if (token == NULL) {
        return false;
    }
    *port++ = *token++ = '\0';
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    const int yes = 1, large = 1 << 22;
    me.socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (me.socket < 0 || inet_pton(AF_INET, text, &to.sin_addr) != 1 ||
        connect(me.socket, (struct sockaddr *)&to, sizeof to) != 0) {
        fprintf(stderr, "pylb record: no monitor at %s:%s: not recorded\n", text, port);
        return false;
    }
    setsockopt(me.socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(me.socket, SOL_SOCKET, SO_SNDBUF, &large, sizeof large);
    return write_all(token, strlen(token)) && write_all("\n", 1);
}

/* --- a call --- */

static bool is_foreign(void)
{
    if (pthread_equal(pthread_self(), me.thread)) {
        return false;
    }
    pthread_mutex_lock(&foreign_lock);
    me.foreign++;
    pthread_mutex_unlock(&foreign_lock);
    return true;
}

/* Between the calls the process used `cpu` of `wall`: where that is less for another reason than
 * that others ran on its processor, it slept. */
static void note_pause(int64_t wall, int64_t cpu)
{
    const int64_t delay = run_delay();
    const int64_t waited = delay < 0 ? 0 : delay - me.delay;
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

bool plb_enter(void)
{
    if (!me.on || inside_call || is_foreign()) {
        return false;
    }
    inside_call = true;
    me.begin = now(CLOCK_MONOTONIC);
    const int64_t cpu = now(CLOCK_PROCESS_CPUTIME_ID) - me.cpu, wall = me.begin - me.wall;
    me.first = -1;
    me.compute = cpu + me.carried;
    me.beyond += cpu > wall + LONG_NS ? cpu - wall : 0;
    if (wall - cpu > LONG_NS && !me.asked) { /* sleeping between two questions is waiting */
        note_pause(wall, cpu);
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
    if (me.n == BUFFERED) { /* a call with very many */
        flush_ops(me.begin);
        me.first = BUFFERED; /* not here any more */
    }
}

/* Nanoseconds since the last question for which the process was away of its own. */
static int64_t slept(int64_t computed)
{
    int64_t away = me.begin - me.wall - computed;
    if (away > LONG_NS || computed >= POLL_NS) { /* did another one run? */
        const int64_t delay = run_delay();
        away -= delay < 0 ? 0 : delay - me.delay;
        me.delay = delay;
    }
    return away;
}

/* From one question to the next. */
static void count_asking(int64_t computed, int64_t away)
{
    const double took = (double)(me.wall - me.asked_at + computed), since = took + (double)away;
    if (away >= 0) {
        me.asked_wall += since;
        me.asked_cpu += took;
        me.asked_square += since * since;
    }
    if (away > NAP_NS) {
        me.naps++;
        me.napped += (double)away;
    }
}

/* Whoever sleeps between two questions does nothing but wait: the way to sleep and back takes
 * longer than asking itself, above all on a core that is idle meanwhile. */
void plb_polled(void)
{
    const int64_t computed = me.compute - me.carried;
    if (me.asked && computed < NAP_POLL_NS) {
        const int64_t away = slept(computed);
        if (computed < POLL_NS || away > NAP_NS) {
            count_asking(computed, away);
            me.compute = me.carried;
        }
    }
    me.asked = true;
    me.asked_at = me.begin;
}

void plb_leave(void)
{
    int64_t wall = now(CLOCK_MONOTONIC);
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
        me.delay = run_delay();
    }
    if (me.n > BUFFERED / 2 || wall - me.flushed > FLUSH_NS) {
        flush_ops(wall);
        wall = now(CLOCK_MONOTONIC);
    }
    inside_call = false;
    me.wall = wall;
    me.cpu = now(CLOCK_PROCESS_CPUTIME_ID);
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

/* --- beginning and end --- */

static void say_hello(int provided)
{
    int size = 1;
    char host[256] = "?", library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    gethostname(host, sizeof host - 1);
    PMPI_Comm_rank(MPI_COMM_WORLD, &me.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    int length = 0;
    PMPI_Get_library_version(library, &length);
    library[strcspn(library, "\n\",")] = '\0';
    int first = -1;
    for (int i = 0; i < CPU_SETSIZE && first < 0; i++) {
        first = CPU_ISSET(i, &set) ? i : -1;
    }
    const char *yield = getenv("OMPI_MCA_mpi_yield_when_idle");
    frame_text('H',
               "{\"rank\": %d, \"size\": %d, \"host\": \"%s\", \"pid\": %d, \"now\": %lld, "
               "\"cores\": %d, \"core\": %d, \"thread_multiple\": %s, \"delays\": %s, "
               "\"library\": \"%s\", \"yield\": \"%s\"}",
               me.rank, size, host, (int)getpid(), (long long)now(CLOCK_MONOTONIC),
               CPU_COUNT(&set), first, provided == MPI_THREAD_MULTIPLE ? "true" : "false",
               run_delay() >= 0 ? "true" : "false", library, yield ? yield : "");
}

/* What the program itself starts is not the program. */
static void restore_preload(void)
{
    const char *before = getenv("PYLB_RECORD_PRELOAD");
    if (before != NULL) {
        setenv("LD_PRELOAD", before, 1);
    } else {
        unsetenv("LD_PRELOAD");
    }
}

void plb_record_start(int provided)
{
    const char *only = getenv("PYLB_RECORD_ONLY");
    me.timed_only = only != NULL && strcmp(only, "time") == 0;
    me.thread = pthread_self();
    me.process = getpid();
    me.schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (!reach_monitor()) {
        if (me.socket >= 0) {
            close(me.socket);
            me.socket = -1;
        }
        return;
    }
    say_hello(provided);
    restore_preload();
    if (!me.timed_only) {
        plb_costs_t costs;
        plb_calibrate(&costs);
        frame_text('N', "{\"overhead\": %.4g, \"alpha\": %.4g, \"beta\": %.4g}", costs.overhead,
                   costs.alpha, costs.beta);
        plb_group(MPI_COMM_WORLD);
        plb_procedures_tell();
    }
    PMPI_Barrier(MPI_COMM_WORLD); /* the program begins everywhere at once */
    me.on = !me.timed_only;
    me.n = 0;
    me.delay = run_delay();
    me.start = me.wall = me.flushed = now(CLOCK_MONOTONIC);
    me.cpu = now(CLOCK_PROCESS_CPUTIME_ID);
}

void plb_record_end(bool finalized)
{
    if (me.socket < 0 || getpid() != me.process) {
        return;
    }
    const int64_t seconds = now(CLOCK_MONOTONIC) - me.start;
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
               "\"asked\": {\"wall\": %.6g, \"cpu\": %.6g, \"square\": %.6g, \"naps\": %.0f, "
               "\"napped\": %.6g}}",
               (long long)me.sent, (long long)seconds, (long long)me.start,
               (long long)now(CLOCK_MONOTONIC), (long long)me.beyond, (long long)me.foreign,
               finalized ? "true" : "false", 1e-9 * me.asked_wall, 1e-9 * me.asked_cpu,
               1e-18 * me.asked_square, me.naps, 1e-9 * me.napped);
    close(me.socket);
    me.socket = -1;
}

/* A program that ends without MPI_Finalize. */
__attribute__((destructor)) static void at_exit(void)
{
    plb_record_end(false);
}
