/* Loaded with LAMMPS by lammps_inputs.py: counts the pairs and atoms of each rank.  At the end of
 * each `run`, rows are added to the file PAIRS.<rank>: one for each time that LAMMPS has built
 * neighbour lists, which all ranks do in the same time step.
 *
 * PAIRS_STEPS is the largest number of time steps of a `run`.  With PAIRS_CLOCK="pair atom build
 * step", the seconds of a pair, of an atom, of a pair in a new neighbour list, and of an LB step,
 * pylb gets computed times: then its decisions are the same in each run, however busy the cores
 * are. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WEAK __attribute__((weak)) extern
WEAK int lammps_extract_setting(void *lmp, const char *name);
WEAK void *lammps_extract_global(void *lmp, const char *name);
WEAK int lammps_neighlist_num_elements(void *lmp, int list);
WEAK void lammps_neighlist_element_neighbors(void *lmp, int list, int element, int *atom, int *n,
                                             int **neighbours);
WEAK int pylb_work(void *lb, double seconds);
WEAK int pylb_rebalanced(void *lb, double seconds);

#define REPLACE(result, name, symbol, ...)                                                        \
    result name(__VA_ARGS__) __asm__(symbol);                                                     \
    static const char name##_symbol[] = symbol;                                                   \
    typedef result name##_fn(__VA_ARGS__);
#define ORIGINAL(name) ((name##_fn *)dlsym(RTLD_NEXT, name##_symbol))

REPLACE(void, on_run, "_ZN9LAMMPS_NS3Run7commandEiPPc", void *self, int n, char **words)
REPLACE(void, on_build, "_ZN9LAMMPS_NS8Neighbor5buildEi", void *self, int topology)
REPLACE(void, on_balance, "_ZN9LAMMPS_NS10FixBalance9rebalanceEv", void *self)
REPLACE(int, on_advise, "pylb_advise", void *lb, int *rebalance)
REPLACE(double, on_seconds, "pylb_seconds", void *lb)
REPLACE(int, on_moved, "pylb_rebalance_end", void *lb)

/* steps: time steps with the lists that have these pairs; cpu, advice: processor seconds of the LB
 * step and of pylb's decision before the lists were built */
static struct {
    int64_t steps, pairs, atoms, lb_steps;
    double cpu, advice;
} row[100000], now;
static int n_rows;
static int64_t last; /* time step that was counted last */
static void *lmp;
static double clock_of[4], given; /* PAIRS_CLOCK; seconds of work since the start */
static double told;               /* those of the steps that pylb has ended */

static double cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Count the time steps since the last call; add the work of these steps to what pylb is told. */
static void count(void)
{
    const int64_t step = *(int64_t *)lammps_extract_global(lmp, "ntimestep");
    const int64_t steps = step > last ? step - last : 0;
    last = step;
    now.steps += steps;
    given += (double)steps * (clock_of[0] * (double)now.pairs + clock_of[1] * (double)now.atoms);
}

void on_build(void *self, int topology)
{
    lmp = ((void **)self)[1]; /* follows the pointer to the virtual functions */
    ORIGINAL(on_build)(self, topology);
    count();
    if (n_rows < (int)(sizeof row / sizeof *row)) {
        row[n_rows++] = now;
    }
    now.steps = now.pairs = now.lb_steps = 0;
    now.cpu = now.advice = 0.0;
    now.atoms = lammps_extract_setting(lmp, "nlocal");
    for (int list = 0, n; (n = lammps_neighlist_num_elements(lmp, list)) >= 0; list++) {
        int64_t pairs = 0;
        for (int i = 0; i < n; i++) {
            int atom, some = 0, *neighbours;
            lammps_neighlist_element_neighbors(lmp, list, i, &atom, &some, &neighbours);
            pairs += some;
        }
        now.pairs = pairs > now.pairs ? pairs : now.pairs; /* lists of `hybrid` are parts of one */
    }
    given += clock_of[2] * (double)now.pairs;
}

void on_balance(void *self)
{
    const double before = cpu();
    ORIGINAL(on_balance)(self);
    now.cpu += cpu() - before;
    now.lb_steps++;
}

int on_advise(void *lb, int *rebalance)
{
    count();
    int code = clock_of[3] > 0.0 ? pylb_work(lb, given - told) : 0;
    const double before = cpu();
    told = given;
    code = code == 0 ? ORIGINAL(on_advise)(lb, rebalance) : code;
    now.advice += cpu() - before;
    return code;
}

double on_seconds(void *lb)
{
    if (lmp != NULL) {
        count();
    }
    return clock_of[3] > 0.0 ? given : ORIGINAL(on_seconds)(lb);
}

int on_moved(void *lb)
{
    const int code = ORIGINAL(on_moved)(lb);
    return code == 0 && clock_of[3] > 0.0 ? pylb_rebalanced(lb, clock_of[3]) : code;
}

void on_run(void *self, int n, char **words)
{
    char path[4096], *most = getenv("PAIRS_STEPS"), *first = words[0];
    const char *told = getenv("PAIRS_CLOCK");
    words[0] = most != NULL && atoll(first) > atoll(most) ? most : first;
    if (told != NULL) {
        sscanf(told, "%lf %lf %lf %lf", clock_of, clock_of + 1, clock_of + 2, clock_of + 3);
    }
    ORIGINAL(on_run)(self, n, words);
    words[0] = first;
    count();
    snprintf(path, sizeof path, "%s.%d", getenv("PAIRS"),
             lammps_extract_setting(lmp, "world_rank"));
    FILE *f = fopen(path, "ab");
    if (f != NULL) {
        fwrite(row, sizeof *row, (size_t)n_rows, f);
        fwrite(&now, sizeof now, 1, f);
        fclose(f);
    }
    n_rows = 0;
    now.steps = now.lb_steps = 0;
    now.cpu = now.advice = 0.0;
}
