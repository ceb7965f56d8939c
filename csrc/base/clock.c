#include "base/base.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- run delay --------------------------------------------------------------------------- */

typedef struct meter {
    bool open;
    int fd;          /* schedstat of this thread; -1: there is none */
    int64_t read_at; /* ns: monotonic time at which `delay` was read */
    int64_t delay;   /* ns: run delay of this thread until `read_at` */
    int64_t last;    /* ns: the value that plb_undelayed_ns returned most recently */
} meter_t;

static _Thread_local meter_t meter;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void close_meter(void *arg)
{
    meter_t *self = arg;
    if (self->open && self->fd >= 0) {
        close(self->fd);
    }
    *self = (meter_t){0};
}

/* After a fork, the open file is that of the parent's thread: close it, so that the next reading
 * opens this thread's file. */
static void after_fork(void)
{
    close_meter(&meter);
}

static void set_up(void)
{
    pthread_key_create(&key, close_meter);
    pthread_atfork(NULL, NULL, after_fork);
}

/* Delete the key: if the library is unloaded while threads still run, these threads must not call
 * close_meter when they end. */
__attribute__((destructor)) static void tear_down(void)
{
    pthread_once(&once, set_up);
    pthread_key_delete(key);
}

static int64_t read_meter(meter_t *self)
{
    char text[80]; /* three numbers; the second is the run delay in nanoseconds */
    if (!self->open) {
        pthread_once(&once, set_up);
        pthread_setspecific(key, self);
        self->fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
        self->open = true;
    }
    const ssize_t n = self->fd < 0 ? 0 : pread(self->fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    const char *second = strchr(text, ' ');
    return second != NULL ? strtoll(second, NULL, 10) : 0;
}

int64_t plb_run_delay_ns(void)
{
    return read_meter(&meter);
}

plb_moment_t plb_moment_now(int64_t wall, bool reads)
{
    meter_t *self = &meter;
    if (reads || wall - self->read_at >= PLB_RUN_DELAY_GRAIN_NS) {
        /* Read the run delay and the clock; if the thread had to wait in between, read both again.
         */
        int64_t now = wall;
        for (int i = 0; i < 3; i++) {
            const int64_t before = now;
            self->delay = read_meter(self);
            now = plb_monotonic_ns();
            if (now - before < PLB_RUN_DELAY_GRAIN_NS / 2) {
                break;
            }
        }
        self->read_at = now;
        wall = now;
    }
    const int64_t t = wall - self->delay;
    self->last = t > self->last ? t : self->last;
    return (plb_moment_t){wall, self->last};
}

plb_mpi_clock_t plb_mpi_clock(void)
{
    bool sees = false;
    if (pylb_pmpi_work_ns != NULL) {
        (void)pylb_pmpi_work_ns(false, &sees);
    }
    return sees ? PLB_PMPI_SEES : pylb_pmpi_work_ns != NULL ? PLB_PMPI_BLIND : PLB_NO_PMPI;
}

/* ---- wait -------------------------------------------------------------------------------- */

void plb_wait_begin(plb_wait_t *self, plb_tick_fn tick, void *arg)
{
    const int64_t now = plb_clock_ns(PLB_CLOCK_WALL);
    *self = (plb_wait_t){now, now, tick, arg};
}

int plb_wait_pause(plb_wait_t *self)
{
    const int64_t now = plb_clock_ns(PLB_CLOCK_WALL), waited = now - self->start;
    if (waited < PLB_WAIT_SPIN_NS) {
        return 0;
    }
    if (waited < PLB_WAIT_YIELD_NS) {
        sched_yield();
        return 0;
    }
    /* sleep for a quarter of the time waited so far */
    const struct timespec t = {0, waited / 4 < PLB_WAIT_MOST_NS ? waited / 4 : PLB_WAIT_MOST_NS};
    nanosleep(&t, NULL);
    if (self->tick != NULL && now - self->ticked > PLB_TICK_NS) {
        self->ticked = now;
        return self->tick(self->arg);
    }
    return 0;
}

_Thread_local plb_clock_frame_t plb_clock_frame;

static const struct {
    const char *name;
    plb_clock_t clock;
} clocks[] = {
    {"auto", PLB_CLOCK_AUTO}, {"wall", PLB_CLOCK_WALL},         {"cpu", PLB_CLOCK_CPU},
    {"mpi", PLB_CLOCK_MPI},   {"mpi_wall", PLB_CLOCK_MPI_WALL}, {"none", PLB_CLOCK_NONE},
};

enum { N_CLOCKS = sizeof clocks / sizeof *clocks };

bool plb_clock_named(const char *name, plb_clock_t *out)
{
    for (int i = 0; i < N_CLOCKS; i++) {
        if (strcmp(clocks[i].name, name) == 0) {
            *out = clocks[i].clock;
            return true;
        }
    }
    return false;
}

const char *plb_clock_name(plb_clock_t clock)
{
    int i = 0;
    while (clocks[i].clock != clock) {
        i++;
    }
    return clocks[i].name;
}

int64_t plb_clock_own_ns(plb_clock_t clock)
{
    const plb_clock_frame_t *f = &plb_clock_frame;
    if (clock == PLB_CLOCK_CPU && f->source == PLB_CLOCK_WALL) {
        return f->declared + (int64_t)(f->pace * (double)plb_clock_real_ns(clock));
    }
    return f->own + (int64_t)(f->pace * (double)(plb_clock_real_ns(f->source) - f->began));
}

void plb_clock_enter(plb_clock_t source, int64_t own, double pace)
{
    plb_clock_frame_t *f = &plb_clock_frame;
    f->source = source;
    f->pace = pace;
    f->own = own;
    f->began = plb_clock_real_ns(f->source);
    f->on = true;
}

int64_t plb_clock_leave(void)
{
    const int64_t own = plb_clock_own_ns(PLB_CLOCK_WALL);
    plb_clock_frame.on = false;
    return own;
}
