/* libpylb_lammps, which `pylb run` loads with LAMMPS: LAMMPS' `fix balance` says where atoms go,
 * pylb says when.  Input scripts stay as they are.
 *
 * This library replaces functions of LAMMPS' C++ classes by their names in the shared library, and
 * calls the originals.  So it sees each `run`, whichever way the script starts it.  A run without
 * a `fix balance` gets one until its end.  A `fix balance` with an interval loses its interval and
 * threshold: with the interval 0, LAMMPS calls it whenever it builds neighbour lists, which costs
 * nothing more, and pylb decides whether the call takes place. */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/pylb.h"

/* Least number of time steps between two decisions, and least product with the atoms of a rank, so
 * that a decision costs little beside the steps; docs/your_code.md tells both to users. */
enum { PERIOD = 20, ATOM_STEPS = 250 * PERIOD };

/* Least max/mean of atoms for a first LB step.  Atoms at a surface have fewer neighbours, so LB
 * steps that balance numbers of atoms leave about as much.
 * tuned: ratio; lammps_inputs.py, peri on 2 ranks: LB steps at 1.07 make the run 10 % longer */
static const double CLEAR = 1.1;

/* LAMMPS' interface for C; absent in other programs */
#define LAMMPS __attribute__((weak)) extern
LAMMPS int lammps_get_mpi_comm(void *lmp);
LAMMPS int lammps_has_id(void *lmp, const char *category, const char *name);
LAMMPS double lammps_get_natoms(void *lmp);
LAMMPS int lammps_extract_setting(void *lmp, const char *name);
LAMMPS void *lammps_extract_global(void *lmp, const char *name);
LAMMPS char *lammps_command(void *lmp, const char *command);

/* A function of LAMMPS that this library replaces; ORIGINAL(name) is LAMMPS' own function. */
#define REPLACE(result, name, symbol, ...)                                                        \
    __attribute__((visibility("default"))) result name(__VA_ARGS__) __asm__(symbol);              \
    static const char name##_symbol[] = symbol;                                                   \
    typedef result name##_fn(__VA_ARGS__);
#define ORIGINAL(name) ((name##_fn *)dlsym(RTLD_NEXT, name##_symbol))

REPLACE(void, pylb_lmp_run, "_ZN9LAMMPS_NS3Run7commandEiPPc", void *self, int n, char **words)
REPLACE(void, pylb_lmp_balance, "_ZN9LAMMPS_NS10FixBalanceC1EPNS_6LAMMPSEiPPc", void *self,
        void *lmp, int n, char **words)
REPLACE(void, pylb_lmp_setup, "_ZN9LAMMPS_NS10FixBalance18setup_pre_exchangeEv", void *self)
REPLACE(void, pylb_lmp_exchange, "_ZN9LAMMPS_NS10FixBalance12pre_exchangeEv", void *self)
REPLACE(void, pylb_lmp_rebalance, "_ZN9LAMMPS_NS10FixBalance9rebalanceEv", void *self)
REPLACE(void, pylb_lmp_tiled, "_ZN9LAMMPS_NS9CommTiledC1EPNS_6LAMMPSEPNS_4CommE", void *self,
        void *lmp, void *old)
REPLACE(void, pylb_lmp_weigh, "_ZN9LAMMPS_NS13ImbalanceTime7computeEPd", void *self,
        double *weight)
REPLACE(double, pylb_lmp_factor, "_ZN9LAMMPS_NS7Balance16imbalance_factorERd", void *self,
        double *most)

static struct {
    pylb_advisor *lb;
    bool failed;     /* pylb has failed: no more LB steps */
    bool running;    /* within a `run` */
    bool tiled;      /* `comm_style tiled`, for which `shift` is not possible */
    bool begun;      /* the first run has begun */
    char fix[64];    /* name of the most recent `fix balance` of the script */
    void *own, *lmp; /* the fix that pylb decides for, and its LAMMPS */
    bool sets_up;    /* within the set-up of the first run */
    bool weighs;     /* within a run with a fix of pylb's own */
    double since;    /* pylb_seconds at the last decision */
    double work;     /* seconds of work of this rank between the last two decisions */
    int64_t next;    /* time step of the next decision */
} me;

/* Leave LAMMPS alone if it has one rank, or the environment says so. */
static bool acts(void *lmp)
{
    const char *mode = getenv("PYLB_MODE");
    return !me.failed && lammps_extract_setting(lmp, "world_size") != 1 &&
           (mode == NULL || strcmp(mode, "off") != 0);
}

static bool works(int code)
{
    if (code != PYLB_OK && !me.failed) {
        me.failed = true;
        fprintf(stderr, "pylb: LAMMPS goes on without LB steps: %s\n", pylb_error());
    }
    return code == PYLB_OK;
}

static int64_t time_step(void)
{
    const void *at = lammps_extract_global(me.lmp, "ntimestep");
    return lammps_extract_setting(me.lmp, "bigint") == 8 ? *(const int64_t *)at
                                                         : *(const int32_t *)at;
}

/* Return the time step of the next decision; the same on all ranks. */
static int64_t next_decision(void)
{
    const double atoms = fmax(lammps_get_natoms(me.lmp), 1.0);
    const double n = (double)ATOM_STEPS * lammps_extract_setting(me.lmp, "world_size") / atoms;
    return time_step() + (int64_t)fmax(n, PERIOD);
}

/* In pylb's own fix, an atom weighs what one of its rank's atoms has cost since the last decision:
 * those with many neighbours cost more.  LAMMPS' own times of ranks contain waits for a core. */
void pylb_lmp_weigh(void *self, double *weight)
{
    if (!me.weighs) {
        ORIGINAL(pylb_lmp_weigh)(self, weight);
    }
    const int n = me.weighs && me.work > 0.0 ? lammps_extract_setting(me.lmp, "nlocal") : 0;
    for (int i = 0; i < n; i++) {
        weight[i] *= me.work / n;
    }
}

void pylb_lmp_tiled(void *self, void *lmp, void *old)
{
    me.tiled = true;
    ORIGINAL(pylb_lmp_tiled)(self, lmp, old);
}

void pylb_lmp_balance(void *self, void *lmp, int n, char **words)
{
    static char interval[] = "0", threshold[] = "1.0";
    char *mine[n + 1];
    memcpy(mine, words, sizeof *mine * (size_t)n);
    me.own = me.own == self ? NULL : me.own; /* the old `fix balance` has been deleted */
    if (n > 4 && strcmp(words[3], "0") != 0 && acts(lmp)) {
        mine[3] = interval;
        mine[4] = threshold;
        me.own = self;
    }
    snprintf(me.fix, sizeof me.fix, "%s", words[0]);
    ORIGINAL(pylb_lmp_balance)(self, lmp, n, mine);
}

/* Return max/mean of the weights, which decides whether LAMMPS balances.  The first LB step of
 * pylb's own fix balances numbers of atoms, so a small imbalance does not count. */
double pylb_lmp_factor(void *self, double *most)
{
    const double factor = ORIGINAL(pylb_lmp_factor)(self, most);
    return me.sets_up && factor < CLEAR ? 1.0 : factor;
}

/* Balance at the beginning of the first run, which tells pylb what an LB step costs; in later
 * runs, pylb decides. */
void pylb_lmp_setup(void *self)
{
    if (self != me.own || !me.begun) {
        me.sets_up = self == me.own && me.weighs;
        ORIGINAL(pylb_lmp_setup)(self);
        me.sets_up = false;
    }
}

static void go_on(void)
{
    works(pylb_start(me.lb));
    me.since = pylb_seconds(me.lb);
}

void pylb_lmp_rebalance(void *self)
{
    const bool tells = self == me.own && me.running && works(pylb_stop(me.lb)) &&
                       works(pylb_rebalance_begin(me.lb));
    ORIGINAL(pylb_lmp_rebalance)(self);
    if (tells && works(pylb_rebalance_end(me.lb))) {
        go_on();
    }
}

void pylb_lmp_exchange(void *self)
{
    int yes = self != me.own;
    if (!yes && me.running && !me.failed && time_step() >= me.next) {
        me.next = next_decision();
        me.work = pylb_seconds(me.lb) - me.since;
        if (works(pylb_stop(me.lb)) && works(pylb_advise(me.lb, &yes))) {
            go_on();
        }
    }
    if (yes) {
        ORIGINAL(pylb_lmp_exchange)(self);
    }
}

void pylb_lmp_run(void *self, int n, char **words)
{
    me.lmp = ((void **)self)[1]; /* follows the pointer to the virtual functions in all versions */
    const bool on = acts(me.lmp) && lammps_extract_setting(me.lmp, "box_exist") > 0;
    if (on && me.lb == NULL) {
        works(pylb_advisor_create_fortran(lammps_get_mpi_comm(me.lmp), &me.lb));
    }
    /* copies, because the library's commands overwrite `words`, which belong to the script */
    char *mine[n + 1];
    for (int i = 0; i < n; i++) {
        mine[i] = strdup(words[i]);
    }
    const bool has = *me.fix != '\0' && lammps_has_id(me.lmp, "fix", me.fix);
    bool prepares = true; /* whether the run makes the usual preparation, which a new fix needs */
    for (int i = 1; i + 1 < n && strcmp(words[i], "every") != 0; i++) {
        prepares = prepares && (strcmp(words[i], "pre") != 0 || strcmp(words[i + 1], "no") != 0);
    }
    const bool adds = on && !me.failed && !has && !me.tiled && prepares;
    if (adds) {
        char fix[96];
        const bool flat = lammps_extract_setting(me.lmp, "dimension") == 2;
        snprintf(fix, sizeof fix,
                 "fix pylb_balance all balance 1 1.0 shift %s 20 1.02 weight time 1",
                 flat ? "xy" : "xyz");
        lammps_command(me.lmp, fix);
    }
    me.running = on && !me.failed;
    me.weighs = adds;
    if (me.running) {
        go_on();
    }
    me.next = on ? next_decision() : 0;
    ORIGINAL(pylb_lmp_run)(self, n, mine);
    me.begun = true;
    if (me.running && !me.failed) {
        works(pylb_stop(me.lb));
    }
    me.running = me.weighs = false;
    if (adds) {
        lammps_command(me.lmp, "unfix pylb_balance");
        me.own = NULL;
        *me.fix = '\0';
    }
    for (int i = 0; i < n; i++) {
        free(mine[i]);
    }
}
