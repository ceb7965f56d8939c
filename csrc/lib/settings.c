/* The options of an advisor; and the beginning of its first step, which makes the options final.
 */
#include "lib/internal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* ---- options ------------------------------------------------------------------------------- */

/* a larger number may have been rounded when the text was read */
static const int64_t MOST = (INT64_C(1) << 53) - 1;

static int read_number(const char *option, const char *text, double *out, plb_err_t *err)
{
    char *end;
    *out = plb_point_read(text, &end);
    return end == text || *end != '\0'
               ? PLB_FAIL(err, PLB_ERR_VALUE, "%s is \"%.100s\": expected a number", option, text)
               : PLB_OK;
}

static int set_param(const plb_param_t *params, int n, const char *owner, const char *name,
                     size_t length, const char *text, double *value, plb_err_t *err)
{
    for (int i = 0; i < n; i++) {
        if (strlen(params[i].name) == length && strncmp(params[i].name, name, length) == 0) {
            PLB_PASS(read_number(params[i].name, text, &value[i], err));
            return plb_params_check(&params[i], 1, &value[i], err);
        }
    }
    return PLB_FAIL(err, PLB_ERR_KEY, "%s has no parameter \"%.*s\"", owner, (int)length, name);
}

int plb_option_params(const plb_param_t *params, int n, const char *owner, const char *text,
                      double **value, plb_err_t *err)
{
    char number[64];
    PLB_PASS_NEW(*value, n);
    for (int i = 0; i < n; i++) {
        (*value)[i] = params[i].fallback;
    }
    while (text != NULL && *text != '\0') {
        if (isspace((unsigned char)*text)) {
            text++;
            continue;
        }
        const size_t name = strcspn(text, "= \t\n"), size = strcspn(text, " \t\n");
        const size_t digits = size - name - 1;
        PLB_FAIL_IF(text[name] != '=' || digits >= sizeof number, err, PLB_ERR_VALUE,
                    "params have \"%.*s\": expected name=value", (int)(size < 100 ? size : 100),
                    text);
        memcpy(number, text + name + 1, digits);
        number[digits] = '\0';
        PLB_PASS(set_param(params, n, owner, text, name, number, *value, err));
        text += size;
    }
    return PLB_OK;
}

int plb_settings_init(plb_settings_t *self, plb_err_t *err)
{
    *self = (plb_settings_t){
        .clock = PLB_CLOCK_AUTO, .steps = -1, .pause_if_useless = -1, .learn_speeds = -1};
    return plb_registered_trigger("auto", &self->trigger, err);
}

void plb_settings_free(plb_settings_t *self)
{
    PLB_FREE(self->of_strategy, self->of_trigger, self->record, self->experience,
             self->strategy_params, self->trigger_params);
    *self = (plb_settings_t){0};
}

/* Set an option that is a number, or "yes" or "no".  *known becomes false for any other option. */
static int set_number(plb_settings_t *self, const char *option, const char *value, bool *known,
                      plb_err_t *err)
{
    const struct {
        const char *name;
        int64_t least, most, *to;
    } counts[] = {{"every", 1, MOST, &self->every}, {"lag", 0, (1 << 20) - 1, &self->lag},
                  {"ahead", 0, 1, &self->ahead},    {"partial", 0, 1, &self->partial},
                  {"seed", 0, MOST, &self->seed},   {"memory_limit", 1, MOST, &self->memory_limit},
                  {"steps", 0, MOST, &self->steps}};
    const bool learns = strcmp(option, "learn_speeds") == 0, yes = strcmp(value, "yes") == 0;
    double number;
    *known = true;
    if (learns || strcmp(option, "pause_if_useless") == 0) {
        PLB_FAIL_IF(!yes && strcmp(value, "no") != 0, err, PLB_ERR_VALUE,
                    "%s is \"%.100s\": expected \"yes\" or \"no\"", option, value);
        *(learns ? &self->learn_speeds : &self->pause_if_useless) = yes;
        return PLB_OK;
    }
    if (strcmp(option, "verify") == 0) {
        PLB_PASS(read_number(option, value, &self->verify, err));
        return plb_check(PLB_FRACTION, PLB_FIGURES({option, self->verify}), err);
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (strcmp(counts[i].name, option) == 0) {
            PLB_PASS(read_number(option, value, &number, err));
            PLB_FAIL_IF(!(number >= (double)counts[i].least && number <= (double)counts[i].most) ||
                            number != (double)(int64_t)number,
                        err, PLB_ERR_VALUE, "%s is %.100s: expected a whole number, %lld ... %s",
                        option, value, (long long)counts[i].least,
                        counts[i].most < MOST ? "2^20 - 1" : "2^53 - 1");
            *counts[i].to = (int64_t)number;
            return PLB_OK;
        }
    }
    *known = false;
    return PLB_OK;
}

/* Keep a parameter until strategy and trigger are known; plb_option_params then checks it. */
static int keep(char **params, const char *name, const char *value, plb_err_t *err)
{
    static const char ends[] = " \t\n";
    PLB_FAIL_IF(name[strcspn(name, ends)] != '\0' || value[strcspn(value, ends)] != '\0', err,
                PLB_ERR_VALUE, "%.100s is \"%.100s\": expected a number", name, value);
    const size_t before = *params == NULL ? 0 : strlen(*params);
    const size_t more = strlen(name) + strlen(value) + sizeof " =";
    PLB_PASS_RENEW(*params, before + more);
    snprintf(*params + before, more, " %s=%s", name, value);
    return PLB_OK;
}

int plb_settings_set(plb_settings_t *self, const char *option, const char *value, plb_err_t *err)
{
    bool known;
    PLB_PASS(set_number(self, option, value, &known, err));
    if (known) {
        return strcmp(option, "every") == 0
                   ? plb_registered_trigger("periodic", &self->trigger, err)
                   : PLB_OK;
    }
    if (strcmp(option, "strategy") == 0) {
        const plb_strategy_t *found = NULL;
        if (strcmp(value, "auto") != 0) {
            PLB_PASS(plb_registered_strategy(value, &found, err));
        }
        self->strategy = found;
    } else if (strcmp(option, "trigger") == 0) {
        PLB_PASS(plb_registered_trigger(value, &self->trigger, err));
        self->every = 0;
    } else if (strcmp(option, "mode") == 0) {
        const bool off = strcmp(value, "off") == 0;
        PLB_FAIL_IF(!off && strcmp(value, "on") != 0, err, PLB_ERR_VALUE,
                    "mode is \"%.100s\": expected \"on\" or \"off\"", value);
        self->off = off;
    } else if (strcmp(option, "clock") == 0) {
        plb_clock_t clock;
        PLB_FAIL_IF(!plb_clock_named(value, &clock) || clock == PLB_CLOCK_MPI_WALL, err,
                    PLB_ERR_VALUE,
                    "clock is \"%.100s\": expected \"auto\", \"wall\", \"cpu\", \"mpi\" or "
                    "\"none\"",
                    value);
        self->clock = clock;
    } else if (strcmp(option, "network") == 0) {
        char *end, *last;
        const double alpha = plb_point_read(value, &end), beta = plb_point_read(end, &last);
        PLB_FAIL_IF(
            end == value || last == end || *last != '\0' || !(alpha >= 0.0 && alpha <= 1e30) ||
                !(beta >= 0.0 && beta <= 1e30),
            err, PLB_ERR_VALUE,
            "network is \"%.100s\": expected seconds per message and seconds per byte, e.g. "
            "\"2e-6 1e-10\"",
            value);
        self->network = (plb_network_t){alpha, beta};
    } else if (strcmp(option, "record") == 0 || strcmp(option, "experience") == 0) {
        const size_t n = strlen(value);
        char **to = *option == 'r' ? &self->record : &self->experience;
        PLB_FAIL_IF(*option == 'r' && (n < 6 || strcmp(value + n - 5, ".json") != 0), err,
                    PLB_ERR_VALUE, "record is \"%.100s\": expected a path that ends in .json",
                    value);
        PLB_PASS_RENEW(*to, n + 1);
        memcpy(*to, value, n + 1);
    } else if (strncmp(option, "strategy.", 9) == 0) {
        return keep(&self->of_strategy, option + 9, value, err);
    } else if (strncmp(option, "trigger.", 8) == 0) {
        return keep(&self->of_trigger, option + 8, value, err);
    } else {
        return PLB_FAIL(
            err, PLB_ERR_KEY,
            "\"%.100s\": no such option; expected strategy, trigger, every, mode, lag, "
            "ahead, partial, steps, pause_if_useless, learn_speeds, network, clock, memory_limit, "
            "seed, record, experience, verify, strategy.X or trigger.X",
            option);
    }
    return PLB_OK;
}

/* ---- all options together ------------------------------------------------------------------ */

/* If a variable of the environment is not empty, set an option to its value; an error names the
 * variable.  A strategy or trigger from the environment has its default parameters. */
static int set_by(plb_settings_t *self, const char *variable, const char *option, plb_err_t *err)
{
    const char *value = getenv(variable);
    if (value == NULL || *value == '\0') {
        return PLB_OK;
    }
    plb_err_t why = {0};
    const bool strategy = strcmp(option, "strategy") == 0,
               trigger = strcmp(option, "trigger") == 0;
    /* if PYLB_TRIGGER is a number, it sets the option `every` */
    const bool every = trigger && isdigit((unsigned char)*value);
    const int code = plb_settings_set(self, every ? "every" : option, value, &why);
    PLB_FAIL_IF(code != PLB_OK, err, code, "%s: %.480s", variable, why.text);
    if (strategy || trigger) {
        char **params = strategy ? &self->of_strategy : &self->of_trigger;
        plb_free(*params);
        *params = NULL;
    }
    self->strategy_by_environment = self->strategy_by_environment || strategy;
    return PLB_OK;
}

/* Return the parameters that "strategy.X" may set; for "auto", the parameters of the choice. */
static const plb_param_t *strategy_table(const plb_settings_t *self, int *n, const char **name)
{
    const plb_strategy_t *s = self->strategy;
    *n = s == NULL ? PLB_N_SELECTION : s->n_params;
    *name = s == NULL ? "auto" : s->name;
    return s == NULL ? plb_selection_params : s->params;
}

/* Check and set the parameters.  Call this after all options have been set. */
static int settings_close(plb_settings_t *self, plb_err_t *err)
{
    int n;
    const char *name;
    const plb_param_t *params = strategy_table(self, &n, &name);
    const plb_trigger_kind_t *t = self->trigger;
    PLB_PASS(plb_option_params(params, n, name, self->of_strategy, &self->strategy_params, err));
    PLB_PASS(plb_option_params(t->params, t->n_params, t->name, self->of_trigger,
                               &self->trigger_params, err));
    if (self->every > 0 && self->of_trigger == NULL) {
        self->trigger_params[0] = (double)self->every;
    }
    return PLB_OK;
}

bool plb_settings_gives_up(const plb_settings_t *self)
{
    const bool by_user =
        strcmp(self->trigger->name, "periodic") == 0 || plb_registered_is_own(self->trigger);
    return self->pause_if_useless < 0 ? !by_user : self->pause_if_useless;
}

static uint64_t hash_more(uint64_t hash, const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hash = plb_mix64(hash ^ ((const unsigned char *)data)[i]);
    }
    return hash;
}

/* Return a fingerprint, 0 or more, of the settings that must be the same on all ranks. */
static int64_t settings_fingerprint(const plb_settings_t *self)
{
    int n;
    const char *name;
    (void)strategy_table(self, &n, &name);
    const plb_trigger_kind_t *t = self->trigger;
    const int64_t rest[] = {self->lag,
                            self->ahead,
                            self->partial,
                            self->seed,
                            self->steps,
                            self->off,
                            self->pause_if_useless,
                            self->learn_speeds,
                            self->clock == PLB_CLOCK_NONE,
                            self->record != NULL,
                            plb_settings_learn(self),
                            self->memory_limit};
    uint64_t hash = hash_more(1, name, strlen(name));
    hash = hash_more(hash, t->name, strlen(t->name));
    hash = hash_more(hash, self->strategy_params, (size_t)n * sizeof(double));
    hash = hash_more(hash, self->trigger_params, (size_t)t->n_params * sizeof(double));
    hash = hash_more(hash, &self->network, sizeof self->network);
    hash = hash_more(hash, rest, sizeof rest);
    return (int64_t)(hash >> 1);
}

/* ---- the decider ---------------------------------------------------------------------------- */

enum { MOST_RECEIPTS = 4096 }; /* a run without a record keeps at most this many */

/* List the strategies from which "auto" chooses, *n of them, and their parameters, one after the
 * other; the caller frees both lists.  (Python's "auto" also chooses from distributed strategies,
 * and from those of installed libraries.) */
static int list_all(plb_candidate_strategy_t **list, int32_t *n, double **params, plb_err_t *err)
{
    int64_t most = 0, n_params = 0;
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL; s++, most++) {
        n_params += (*s)->n_params;
    }
    PLB_PASS_NEW(*list, most);
    PLB_PASS_NEW(*params, n_params);
    double *at = *params;
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL; s++) {
        if (plb_registered_is_selectable(*s)) {
            (*list)[(*n)++] = (plb_candidate_strategy_t){**s, at};
            for (int k = 0; k < (*s)->n_params; k++) {
                *at++ = (*s)->params[k].fallback;
            }
        }
    }
    return PLB_OK;
}

int plb_lib_decider_init(plb_decider_t *self, plb_trigger_t *trigger, const plb_settings_t *s,
                         bool with_cells, int32_t n_ranks, plb_err_t *err)
{
    int ret = PLB_OK;
    double ledger[PLB_N_LEDGER], selection[PLB_N_SELECTION], *params = NULL;
    plb_candidate_strategy_t *among = NULL;
    int32_t n = 1;
    const bool selects = with_cells && s->strategy == NULL;
    const bool by_pylb = s->strategy == NULL && strcmp(s->trigger->name, "auto") == 0;
    /* the same rule as that of Python's Advisor */
    const bool learns = s->learn_speeds < 0 ? by_pylb && s->lag == 0 : s->learn_speeds;
    for (int i = 0; i < PLB_N_LEDGER; i++) {
        ledger[i] = plb_ledger_params[i].fallback;
    }
    for (int i = 0; i < PLB_N_SELECTION; i++) {
        selection[i] = selects ? s->strategy_params[i] : plb_selection_params[i].fallback;
    }
    if (selects) {
        n = 0;
        PLB_TRY(list_all(&among, &n, &params, err));
    } else { /* without cells, the program's own redistribution */
        PLB_NEW(among, 1);
        *among = with_cells ? (plb_candidate_strategy_t){*s->strategy, s->strategy_params}
                            : (plb_candidate_strategy_t){plb_own_strategy, NULL};
    }
    const plb_decider_options_t opt = {
        .n_ranks = n_ranks,
        .candidates = among,
        .n = n,
        .selects = selects,
        .selection = selection,
        .ledger = ledger,
        .gives_up = plb_settings_gives_up(s),
        .learns = with_cells && learns,
        .watches = with_cells && learns && strcmp(s->trigger->name, "auto") == 0 && s->lag == 0,
        .network = s->network,
        .keep = s->record == NULL ? MOST_RECEIPTS : 0,
        .seed = (uint64_t)s->seed,
    };
    PLB_TRY(plb_trigger_init(trigger, s->trigger, s->trigger_params, err));
    PLB_TRY(plb_decider_init(self, &opt, trigger, err));
    ret = s->steps < 0 ? PLB_OK : plb_decider_expect(self, s->steps, NAN, NAN, err);
out:
    PLB_FREE(among, params);
    return ret;
}

/* ---- the first step ------------------------------------------------------------------------- */

typedef struct share {
    plb_cores_t cores;
    int64_t lag;
    double runs; /* number of earlier runs from which rank 0 has read */
} share_t;

/* Find the group of ranks with the fewest cores per rank.  *capped: whether a quota of processor
 * time limits this rank and no other; *any: whether it does so for any rank.  *lag becomes the
 * largest lag of all ranks: then all ranks have the same number of reductions under way, even if
 * they were given different lags by mistake.  All ranks learn what earlier runs have learned.
 * Collective; an error is raised on all ranks. */
static int share_facts(plb_lib_advisor_t *self, bool *capped, bool *any, int64_t *lag,
                       plb_err_t *err)
{
    int ret = PLB_OK;
    plb_transport_t *ranks = self->ranks;
    const int p = ranks->size;
    share_t mine = {.lag = *lag, .runs = self->past.runs}, one;
    char *all = NULL;
    plb_cores_t *cores = plb_malloc((size_t)p, sizeof *cores);
    plb_cores_here(&mine.cores);
    PLB_TRY(ranks->gather(ranks, &mine, sizeof mine, &all, err));
    all = ranks->rank == 0 ? all : plb_malloc((size_t)p, sizeof mine);
    ret = all == NULL || cores == NULL ? PLB_NO_MEMORY(all, p) : PLB_OK;
    PLB_TRY(ranks->agree(ranks, ret, err));
    PLB_TRY(ranks->bcast(ranks, all, p * (int64_t)sizeof mine, err));
    for (int r = 0; r < p; r++) {
        memcpy(&one, all + (size_t)r * sizeof one, sizeof one);
        cores[r] = one.cores;
        *lag = one.lag > *lag ? one.lag : *lag;
        mine.runs = r == 0 ? one.runs : mine.runs;
    }
    if (mine.runs > 0) {
        PLB_TRY(ranks->bcast(ranks, &self->past, sizeof self->past, err));
    }
    for (int r = 0; r < p; r++) {
        const bool limited = plb_cores_capped(cores, p, r);
        *any = *any || limited;
        *capped = r == ranks->rank ? limited : *capped;
    }
    ret = ranks->agree(ranks, plb_cores_crowd(cores, p, &self->crowd, err), err);
out:
    PLB_FREE(cores, all);
    return ret;
}

plb_lib_advisor_t *plb_lib_advisor_of(const pylb_advisor *lb, plb_err_t *err)
{
    return plb_handle_content((const plb_handle_t *)lb, PLB_HANDLE_ADVISOR, err);
}

int plb_lib_advisor_ready(plb_lib_advisor_t *self, plb_err_t *err)
{
    if (self->ready) {
        return PLB_OK;
    }
    static const char *const environment[][2] = {
        {"PYLB_STRATEGY", "strategy"}, {"PYLB_TRIGGER", "trigger"},       {"PYLB_MODE", "mode"},
        {"PYLB_RECORD", "record"},     {"PYLB_EXPERIENCE", "experience"}, {"PYLB_CLOCK", "clock"}};
    for (size_t i = 0; i < sizeof environment / sizeof *environment; i++) {
        PLB_PASS(set_by(&self->settings, environment[i][0], environment[i][1], err));
    }
    /* "auto" is the clock "mpi" where that works.  On one rank it needs no call of MPI. */
    const plb_mpi_clock_t mpi = plb_mpi_clock();
    self->clock = self->settings.clock;
    PLB_FAIL_IF(self->clock == PLB_CLOCK_MPI && mpi == PLB_NO_PMPI, err, PLB_ERR_MISSING,
                "clock is \"mpi\", but libpylb_pmpi is not loaded: start the program by `pylb run "
                "-- mpiexec ...`, or link it with pylb_pmpi");
    PLB_FAIL_IF(self->clock == PLB_CLOCK_MPI && mpi == PLB_PMPI_BLIND && self->ranks->size > 1,
                err, PLB_ERR_STATE,
                "clock is \"mpi\", but libpylb_pmpi sees no call of MPI: expected a program that "
                "loads MPI as a shared library, after libpylb_pmpi, and no other tool before it");
    if (self->clock == PLB_CLOCK_AUTO && mpi == PLB_PMPI_SEES) {
        self->clock = PLB_CLOCK_MPI;
    }
    self->ready = true;
    return PLB_OK;
}

/* Read what earlier runs of this command on as many ranks have learned. */
static int read_experience(plb_lib_advisor_t *self, plb_err_t *err)
{
    char words[200] = "program";
    plb_err_t said = {0};
    FILE *f = fopen("/proc/self/cmdline", "re");
    if (f != NULL) {
        const size_t n = fread(words, 1, sizeof words - 1, f);
        (void)fclose(f);
        words[n] = '\0';
        for (size_t i = 0; i + 1 < n; i++) { /* a byte 0 after each word */
            words[i] = words[i] < ' ' || words[i] == '"' || words[i] == '\\' ? ' ' : words[i];
        }
    }
    const int p = self->ranks->size;
    snprintf(self->program, sizeof self->program, "%s, C, %d rank%s", words, p, p > 1 ? "s" : "");
    PLB_PASS(
        plb_experience_read(self->settings.experience, self->program, &self->past, &said, err));
    if (*said.text != '\0') {
        fprintf(stderr, "pylb: %s\n", said.text);
    }
    return PLB_OK;
}

/* Do the part of plb_lib_advisor_begin that needs no other rank. */
static int prepare(plb_lib_advisor_t *self, plb_err_t *err)
{
    PLB_PASS(plb_lib_advisor_ready(self, err));
    PLB_PASS(settings_close(&self->settings, err));
    PLB_FAIL_IF(self->settings.partial && self->with_cells, err, PLB_ERR_VALUE,
                "partial is 1, but the step has cells: expected pylb_advise, because a plan moves "
                "all cells that are to move");
    PLB_PASS(plb_lib_decider_init(&self->decider, &self->trigger, &self->settings,
                                  self->with_cells, self->ranks->size, err));
    if (self->ranks->rank == 0 && plb_settings_learn(&self->settings)) {
        PLB_PASS(read_experience(self, err));
    }
    self->asks = plb_registered_is_own(self->settings.trigger);
    plb_advisor_init(&self->core, &self->decider, self->with_cells);
    self->core.untold = plb_lib_measures_work(self);
    self->core.partial = self->settings.partial != 0;
    self->fingerprint = settings_fingerprint(&self->settings) ^ (self->with_cells ? 1 : 0) ^
                        (plb_lib_measures_work(self) ? 2 : 0);
    return PLB_OK;
}

/* The collective part runs even after an error, so that no other rank waits for this one. */
int plb_lib_advisor_begin(plb_lib_advisor_t *self, bool with_cells, plb_err_t *err)
{
    self->begun = true;
    self->with_cells = with_cells;
    const int ret = prepare(self, err);
    int64_t lag = self->settings.lag;
    bool capped = false, any = false;
    PLB_PASS(share_facts(self, &capped, &any, &lag, err));
    if (ret == PLB_OK && self->past.runs > 0) {
        PLB_PASS(plb_trigger_begin(&self->trigger, &self->past.learned, err));
    }
    any = any && (self->clock == PLB_CLOCK_AUTO || self->clock == PLB_CLOCK_MPI);
    if (capped && any) {
        self->clock = self->clock == PLB_CLOCK_AUTO ? PLB_CLOCK_WALL : PLB_CLOCK_MPI_WALL;
    }
    if (self->crowd.n_ranks == self->ranks->size) {
        self->decider.share = fmin(self->crowd.n_cores / self->crowd.n_ranks, 1.0);
        self->core.share = any || plb_lib_loads_wait(self) ? self->decider.share : 1.0;
    }
    PLB_PASS(self->ranks->reserve(self->ranks, (int)lag + 2, err));
    PLB_PASS(plb_steps_init(&self->steps, self->ranks->reduction, (int32_t)lag, err));
    return ret;
}
