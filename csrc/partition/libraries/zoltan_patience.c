#include "partition/libraries/zoltan_patience.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/point.h"

/* PYLB_ABORT_AFTER, as in pylb/comm/program_end.py */
static double seconds(void)
{
    const char *given = getenv("PYLB_ABORT_AFTER");
    return given == NULL || *given == '\0' ? 10.0 : plb_point_read(given, NULL);
}

static void end_job(const plb_patience_t *self)
{
    int rank = 0, level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    MPI_Comm_rank(self->comm, &rank);
    fprintf(self->file,
            "pylb: rank %d: %s; the other ranks did not come within %g s (PYLB_ABORT_AFTER); "
            "aborting all ranks\n",
            rank, self->why, seconds());
    fflush(self->file);
    if (level == MPI_THREAD_MULTIPLE) {
        MPI_Abort(self->comm, 1);
    }
    _exit(1);
}

static void *wait(void *data)
{
    plb_patience_t *self = data;
    struct timespec until;
    int ret = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    const double end = (double)until.tv_nsec * 1e-9 + seconds();
    until.tv_sec += (time_t)end;
    until.tv_nsec = (long)((end - floor(end)) * 1e9);
    pthread_mutex_lock(&self->lock);
    while (!self->over && ret != ETIMEDOUT) {
        ret = pthread_cond_timedwait(&self->end, &self->lock, &until);
    }
    if (!self->over) {
        end_job(self);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

void plb_patience_begin(plb_patience_t *self, MPI_Comm comm, FILE *file, const char *why)
{
    *self = (plb_patience_t){.comm = comm, .file = file, .why = why};
    if (why == NULL) {
        return;
    }
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->end, NULL);
    self->begun = pthread_create(&self->thread, NULL, wait, self) == 0;
}

void plb_patience_end(plb_patience_t *self)
{
    if (self->why == NULL) {
        return;
    }
    if (self->begun) {
        pthread_mutex_lock(&self->lock);
        self->over = true;
        pthread_cond_signal(&self->end);
        pthread_mutex_unlock(&self->lock);
        pthread_join(self->thread, NULL);
    }
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->end);
}
