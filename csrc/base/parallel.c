#include "base/cores.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

enum { MOST = 64 };

typedef struct part {
    plb_part_fn fn;
    void *arg;
    int part, n_parts;
    pthread_t thread;
    bool started;
} part_t;

static void *run(void *arg)
{
    const part_t *self = arg;
    self->fn(self->arg, self->part, self->n_parts);
    return NULL;
}

int plb_cores(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > MOST ? MOST : n;
}

void plb_parallel(int n_parts, plb_part_fn fn, void *arg)
{
    part_t part[MOST];
    for (int i = 0; i < n_parts; i++) {
        part[i] = (part_t){.fn = fn, .arg = arg, .part = i, .n_parts = n_parts};
        part[i].started = i > 0 && pthread_create(&part[i].thread, NULL, run, &part[i]) == 0;
    }
    for (int i = 0; i < n_parts; i++) {
        if (part[i].started) {
            pthread_join(part[i].thread, NULL);
        } else {
            run(&part[i]);
        }
    }
}
