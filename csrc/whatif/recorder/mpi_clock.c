/* The clock "mpi" (internal.h). */
#include "whatif/recorder/internal.h"

#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

/* What `pylb steer` reads of a rank while it runs. */
typedef struct slot {
    int64_t n_ranks;   /* number of ranks in MPI_COMM_WORLD; 0: this rank has not called MPI yet */
    int64_t pid;       /* process id of the rank */
    int64_t work;      /* ns of work until the last call began */
    int64_t unused[5]; /* so that ranks do not share a cache line */
} slot_t;

static __thread struct {
    slot_t *slot;          /* NULL: nobody watches */
    plb_moment_t at;       /* time at which the last call ended */
    int64_t work, delayed; /* ns of work until `at`; the same, including waits for a core */
    int64_t processor;     /* ns of processor time of the process at the last poll, if `naps` */
    bool inside;           /* within a call of the program */
    bool asked;            /* whether the last call was a poll that has failed */
    bool naps;             /* whether the program does something else between polls */
} me;

static bool seen; /* whether any thread has called MPI */

/* Return the work between a poll that has failed and the next poll.  The first time that this is
 * long, the processor time at its beginning is not known: it is read only if `naps` is true. */
static int64_t between_polls(bool brief, int64_t gap)
{
    if (brief) {
        me.naps = false;
        return 0;
    }
    const int64_t used = me.naps ? plb_posix_ns(CLOCK_PROCESS_CPUTIME_ID) - me.processor : gap;
    me.naps = true;
    const bool slept = gap - used > PLB_MPI_POLL_NS && used < PLB_WAKE_NS;
    return gap < PLB_MPI_POLL_NS || slept ? 0 : used < gap ? used : gap;
}

/* Return this rank's slot in the file that the environment names; NULL: nobody reads it, or this
 * machine has no such file. */
static slot_t *find_slot(void)
{
    const char *path = getenv("PYLB_STEER");
    const int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    int rank, size;
    struct stat file;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    const size_t bytes = sizeof(slot_t) * (size_t)size;
    const bool fits = fstat(fd, &file) == 0 && (size_t)file.st_size >= bytes;
    void *at = fits ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    slot_t *out = at == MAP_FAILED ? NULL : (slot_t *)at + rank;
    if (out == NULL || out->n_ranks > 0) { /* another program of MPI, e.g. one that was spawned */
        return NULL;
    }
    *out = (slot_t){.n_ranks = size, .pid = getpid()};
    return out;
}

bool plb_mpi_enter(bool polls)
{
    if (me.inside) {
        return false;
    }
    me.inside = true;
    if (!seen) {
        seen = true;
        me.slot = find_slot();
    }
    const bool asked = me.asked && polls;
    const int64_t wall = plb_monotonic_ns();
    const bool brief = wall - me.at.wall < PLB_MPI_POLL_NS;
    const plb_moment_t now = plb_moment_now(wall, asked && !brief);
    int64_t work = now.undelayed - me.at.undelayed;
    work = asked ? between_polls(brief, work) : work;
    me.work += work;
    me.delayed += asked ? work : now.wall - me.at.wall;
    me.at = now;
    if (me.slot != NULL) {
        me.slot->work = me.work;
    }
    return true;
}

void plb_mpi_leave(bool failed)
{
    const int64_t wall = plb_monotonic_ns();
    me.at = plb_moment_now(wall, wall - me.at.wall > PLB_MPI_LONG_NS);
    me.inside = false;
    me.asked = failed;
    if (failed && me.naps) {
        me.processor = plb_posix_ns(CLOCK_PROCESS_CPUTIME_ID);
    }
}

__attribute__((visibility("default"))) int64_t pylb_pmpi_work_ns(bool delayed, bool *sees)
{
    *sees = seen;
    if (me.inside) {
        return delayed ? me.delayed : me.work;
    }
    const plb_moment_t now = plb_moment_now(plb_monotonic_ns(), false);
    return delayed ? me.delayed + now.wall - me.at.wall
                   : me.work + now.undelayed - me.at.undelayed;
}
