/* A recording: marked procedures; begin and end. */
#include "whatif/recorder/internal.h"

#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    (void)site;
    mark_function(PLB_OP_ENTER, function);
}

void __cyg_profile_func_exit(void *function, void *site)
{
    (void)site;
    mark_function(PLB_OP_LEAVE, function);
}

/* ---- calibrate ----------------------------------------------------------------------------- */

typedef struct call_costs {
    double overhead;    /* seconds of a call */
    double alpha, beta; /* seconds per message and per byte; -1: the rank has no partner */
} call_costs_t;

enum { CALLS = 200, TRIPS = 30, LARGE = 1 << 18 };

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* Measure the seconds of one message to `partner`: half of the fastest round trip. */
static double trip_seconds(MPI_Comm comm, int partner, bool first, void *buffer, int bytes)
{
    double best = 1.0;
    for (int i = 0; i < TRIPS; i++) {
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

/* Measure the costs, in some milliseconds.  Collective over MPI_COMM_WORLD. */
static void call_costs(call_costs_t *out)
{
    int rank, size;
    MPI_Comm own;
    *out = (call_costs_t){.alpha = -1.0, .beta = -1.0};
    PMPI_Comm_dup(MPI_COMM_WORLD, &own);
    PMPI_Comm_rank(own, &rank);
    PMPI_Comm_size(own, &size);
    double best = 1.0;
    for (int repeat = 0; repeat < 5; repeat++) {
        int flag;
        const double begin = PMPI_Wtime();
        for (int i = 0; i < CALLS; i++) {
            PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, own, &flag, MPI_STATUS_IGNORE);
        }
        best = least(best, (PMPI_Wtime() - begin) / CALLS);
    }
    out->overhead = best;
    const int partner = rank ^ 1;
    static char buffer[LARGE]; /* static: an allocation could fail on only one of two ranks */
    if (partner < size) {
        const double small = trip_seconds(own, partner, rank < partner, buffer, 8);
        const double large = trip_seconds(own, partner, rank < partner, buffer, LARGE);
        out->alpha = small;
        out->beta = (large > small ? large - small : 0.0) / LARGE;
    }
    PMPI_Barrier(own);
    PMPI_Comm_free(&own);
}

static pid_t process; /* the recorded one; processes that it forks are not recorded */

void plb_record_start(int provided)
{
    const char *only = getenv("PYLB_RECORD_ONLY");
    const bool timed_only = only != NULL && strcmp(only, "time") == 0;
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    process = getpid();
    const bool delays = plb_log_prepare();
    if (!plb_monitor_reach(rank)) {
        return;
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
    plb_frame_text('H',
                   "{\"rank\": %d, \"size\": %d, \"host\": \"%s\", \"pid\": %d, \"now\": %lld, "
                   "\"cores\": %d, \"core\": %d, \"thread_multiple\": %s, \"delays\": %s, "
                   "\"library\": \"%s\"}",
                   rank, size, host, (int)getpid(), (long long)plb_now(CLOCK_MONOTONIC),
                   CPU_COUNT(&set), first, provided == MPI_THREAD_MULTIPLE ? "true" : "false",
                   delays ? "true" : "false", library);
    /* Do not record programs that this program starts. */
    const char *before = getenv("PYLB_RECORD_PRELOAD");
    if (before != NULL) {
        setenv("LD_PRELOAD", before, 1);
    } else {
        unsetenv("LD_PRELOAD");
    }
    if (!timed_only) {
        call_costs_t costs;
        call_costs(&costs);
        plb_frame_text('N', "{\"overhead\": %.4g, \"alpha\": %.4g, \"beta\": %.4g}",
                       costs.overhead, costs.alpha, costs.beta);
        plb_group(MPI_COMM_WORLD);
        procedures_tell();
    }
    PMPI_Barrier(MPI_COMM_WORLD); /* then all ranks begin the program at the same time */
    plb_log_begin(!timed_only);
}

void plb_record_end(bool finalized)
{
    if (plb_monitor_is_open() && getpid() == process) {
        plb_log_end(finalized);
    }
}

/* Ends the recording of a program that ends without MPI_Finalize. */
__attribute__((destructor)) static void at_exit(void)
{
    plb_record_end(false);
}
