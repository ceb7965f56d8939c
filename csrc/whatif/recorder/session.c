#include "whatif/recorder/internal.h"

#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- calibrate ----------------------------------------------------------------------------- */

enum { CALLS = 200, TRIPS = 30, LARGE = 1 << 18 };

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double call_seconds(MPI_Comm comm)
{
    double best = 1.0;
    for (int repeat = 0; repeat < 5; repeat++) {
        int flag;
        const double begin = PMPI_Wtime();
        for (int i = 0; i < CALLS; i++) {
            PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
        }
        best = least(best, (PMPI_Wtime() - begin) / CALLS);
    }
    return best;
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
static void call_costs(plb_call_costs_t *out)
{
    int rank, size;
    MPI_Comm own;
    *out = (plb_call_costs_t){.alpha = -1.0, .beta = -1.0};
    PMPI_Comm_dup(MPI_COMM_WORLD, &own);
    PMPI_Comm_rank(own, &rank);
    PMPI_Comm_size(own, &size);
    out->overhead = call_seconds(own);
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

static void say_hello(int rank, bool delays, int provided)
{
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
}

/* Do not record programs that this program starts. */
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
    const bool timed_only = only != NULL && strcmp(only, "time") == 0;
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    process = getpid();
    const bool delays = plb_log_prepare();
    if (!plb_monitor_reach(rank)) {
        return;
    }
    say_hello(rank, delays, provided);
    restore_preload();
    if (!timed_only) {
        plb_call_costs_t costs;
        call_costs(&costs);
        plb_frame_text('N', "{\"overhead\": %.4g, \"alpha\": %.4g, \"beta\": %.4g}",
                       costs.overhead, costs.alpha, costs.beta);
        plb_group(MPI_COMM_WORLD);
        plb_procedures_tell();
    }
    PMPI_Barrier(MPI_COMM_WORLD); /* then all ranks begin the program at the same time */
    plb_log_begin(!timed_only);
}

void plb_record_end(bool finalized)
{
    if (plb_monitor_is_open() && getpid() == process) {
        plb_log_end(finalized);
        plb_monitor_close();
    }
}

/* Ends the recording of a program that ends without MPI_Finalize. */
__attribute__((destructor)) static void at_exit(void)
{
    plb_record_end(false);
}
