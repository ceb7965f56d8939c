/* Runs every strategy, or only one, on random snapshots, and finds the calls that take more than
 * 50 times the median of their strategy and size.  Parameters have their defaults.  Calls that
 * return at once, because nothing has to move, do not count for the median.  Compiled with
 * CLOCK_LIBRARIES, it runs only the strategies of METIS, Scotch and Zoltan, otherwise only the
 * other ones.
 *
 *     clock SNAPSHOTS [FIRST SEED [STRATEGY]]
 *
 * Sizes are objects + ranks + edges, in steps of a factor of two.  Prints a line for each strategy
 * and size, then the slow calls with their seeds.  The exit status is 1 if there is a slow call,
 * or one that a library has refused.
 * A call is not slow if it takes less than SHORT seconds, or less than SHORT_PER_ITEM seconds
 * times its size: most calls only move a few objects and take microseconds, but if limits are hard
 * to meet, a strategy searches for a bounded number of steps. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "anything.h"
#include "plb.h"
#ifdef CLOCK_LIBRARIES
#include <mpi.h>

#include "partition/libraries/partitioners.h"

static void install_libraries(void)
{
    plb_err_t err;
    MPI_Init(NULL, NULL);
    MUST(plb_partitioner_install(&plb_metis, &err) == PLB_OK);
    MUST(plb_partitioner_install(&plb_scotch, &err) == PLB_OK);
    MUST(plb_partitioner_install(plb_zoltan(), &err) == PLB_OK);
}

static void leave_libraries(void)
{
    MPI_Finalize();
}

static bool is_measured(const char *library)
{
    return library != NULL && plb_partitioner_find(library) != NULL;
}
#else
static void install_libraries(void)
{
}

static void leave_libraries(void)
{
}

static bool is_measured(const char *library)
{
    return library == NULL;
}
#endif

enum { CLASSES = 16, BYTES = 64, LIMIT = 120, MOST_SLOW = 100 };
static const double FACTOR = 50.0, SHORT = 0.01, SHORT_PER_ITEM = 2.5e-4;

typedef struct calls {
    double *seconds;
    int64_t *seed;
    int64_t n, room;
} calls_t;

static int64_t seed_now, n_refused;
static const char *name_now = "";

static void too_long(int signal)
{
    (void)signal;
    printf("%s, seed %lld: more than %d s\n", name_now, (long long)seed_now, LIMIT);
    fflush(stdout);
    _exit(1);
}

static int add(calls_t *self, double seconds, int64_t seed)
{
    plb_err_t *err = NULL;
    int ret = PLB_OK;
    int64_t room = self->room;
    PLB_GROW(self->seconds, room, self->n + 1);
    PLB_RENEW(self->seed, room);
    self->room = room;
    self->seconds[self->n] = seconds;
    self->seed[self->n++] = seed;
out:
    return ret;
}

static int size_class(const plb_snapshot_t *s)
{
    int64_t size = s->n_objects + s->n_ranks + s->n_edges + s->n_pins;
    int out = 0;
    for (; size > 1 && out < CLASSES - 1; size /= 2) {
        out++;
    }
    return out;
}

/* One snapshot in a hundred is ten times as large. */
static void one_seed(int64_t seed, const char *only, calls_t (*calls)[CLASSES])
{
    plb_rng_t rng;
    plb_err_t err;
    uint8_t data[BYTES];
    anything_t any;
    plb_rng_init(&rng, (uint64_t)seed);
    for (int i = 0; i < BYTES; i++) {
        data[i] = (uint8_t)plb_rng_next(&rng);
    }
    feed_t feed = feed_of(data, plb_rng_below(&rng, BYTES + 1));
    const uint32_t scale = plb_rng_below(&rng, 100) == 0 ? 10 : 1;
    anything_init(&any, &feed, 200 * scale, 48 * scale, 600 * scale);
    if (plb_snapshot_check(&any.snapshot, &err) == PLB_OK) {
        for (int k = 0; plb_strategies[k] != NULL; k++) {
            name_now = plb_strategies[k]->name;
            if (!is_measured(plb_strategies[k]->library) ||
                (only != NULL && strcmp(only, name_now) != 0)) {
                continue;
            }
            alarm(LIMIT);
            const placed_t one = anything_place(plb_strategies[k], &any.snapshot, NULL, -1);
            if (one.code == PLB_ERR_LIBRARY) {
                printf("REFUSED %s, seed %lld\n", name_now, (long long)seed);
                n_refused++;
            }
            if (one.migrations > 0 || one.seconds > SHORT) {
                calls_t *like = &calls[k][size_class(&any.snapshot)];
                MUST(add(like, one.seconds, seed) == PLB_OK);
            }
        }
    }
    anything_free(&any);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const calls_t *self)
{
    double *sorted = plb_malloc((size_t)self->n, sizeof *sorted);
    memcpy(sorted, self->seconds, (size_t)self->n * sizeof *sorted);
    qsort(sorted, (size_t)self->n, sizeof *sorted, by_value);
    const double out = sorted[self->n / 2];
    plb_free(sorted);
    return out;
}

static int report(const char *name, int size, const calls_t *self)
{
    int n_slow = 0;
    double most = 0.0;
    const double median = median_of(self), small = fmax(SHORT, SHORT_PER_ITEM * (1 << size));
    for (int64_t i = 0; i < self->n; i++) {
        const bool slow = self->seconds[i] > fmax(FACTOR * median, small);
        most = self->seconds[i] > most ? self->seconds[i] : most;
        n_slow += slow;
        if (slow && n_slow < MOST_SLOW) {
            printf("SLOW %s, seed %lld: %.3g s, %.0f times the median\n", name,
                   (long long)self->seed[i], self->seconds[i], self->seconds[i] / median);
        }
    }
    printf("%-20s size %5d ... %-6d %8lld calls, median %8.2f us, longest %6.1f times that\n",
           name, 1 << size, (2 << size) - 1, (long long)self->n, 1e6 * median, most / median);
    return n_slow;
}

int main(int argc, char **argv)
{
    static calls_t calls[32][CLASSES];
    const int64_t n = argc > 1 ? atoll(argv[1]) : 1000, first = argc > 2 ? atoll(argv[2]) : 0;
    const char *only = argc > 3 ? argv[3] : NULL;
    int n_slow = 0;
    signal(SIGALRM, too_long);
    install_libraries();
    for (seed_now = first; seed_now < first + n; seed_now++) {
        one_seed(seed_now, only, calls);
    }
    for (int k = 0; plb_strategies[k] != NULL; k++) {
        for (int c = 0; c < CLASSES; c++) {
            if (calls[k][c].n > 0) {
                n_slow += report(plb_strategies[k]->name, c, &calls[k][c]);
            }
        }
    }
    leave_libraries();
    printf("%lld snapshots from seed %lld, %d slow calls, %lld refused\n", (long long)n,
           (long long)first, n_slow, (long long)n_refused);
    return n_slow > 0 || n_refused > 0;
}
