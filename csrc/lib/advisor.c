/* An advisor: begin and end, and its run record. */
#include "lib/internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

/* JSON has neither NaN nor infinity.  NaN becomes null, infinity a number too large for a double,
 * which readers convert to infinity. */
static void put_number(FILE *f, double x)
{
    if (isnan(x)) {
        fputs("null", f);
    } else if (isinf(x)) {
        fputs(x > 0 ? "1e999" : "-1e999", f);
    } else {
        fprintf(f, "%.17g", x);
    }
}

static void put_numbers(FILE *f, const double *x, int64_t n)
{
    fputc('[', f);
    for (int64_t i = 0; i < n; i++) {
        fputs(i > 0 ? ", " : "", f);
        put_number(f, x[i]);
    }
    fputc(']', f);
}

static void put_member(FILE *f, const char *name, double x)
{
    fprintf(f, ", \"%s\": ", name);
    put_number(f, x);
}

/* ---- what is written ------------------------------------------------------------------------ */

static void put_params(FILE *f, const char *word, const plb_param_t *params, int n,
                       const double *value)
{
    fprintf(f, "\"%s\": {", word);
    for (int i = 0; i < n; i++) {
        fprintf(f, "%s\"%s\": ", i > 0 ? ", " : "", params[i].name);
        put_number(f, value[i]);
    }
    fputs("},\n", f);
}

static void put_settings(FILE *f, const plb_lib_advisor_t *self)
{
    const plb_settings_t *s = &self->settings;
    const plb_decider_t *d = &self->decider;
    const plb_strategy_t *strategy = &d->candidates[0].strategy;
    fprintf(f, "\"pylb\": \"%s\",\n\"n_ranks\": %d,\n\"strategy\": \"%s\",\n", PYLB_VERSION,
            self->ranks->size, d->opt.selects ? "auto" : strategy->name);
    if (d->opt.selects) {
        put_params(f, "strategy_params", plb_selection_params, PLB_N_SELECTION,
                   s->strategy_params);
    } else {
        put_params(f, "strategy_params", strategy->params, strategy->n_params,
                   d->candidates[0].params);
    }
    fputs("\"strategies\": [", f);
    for (int32_t i = 0; i < d->opt.n; i++) {
        fprintf(f, "%s\"%s\"", i > 0 ? ", " : "", d->candidates[i].strategy.name);
    }
    fprintf(f, "],\n\"trigger\": \"%s\",\n", s->trigger->name);
    put_params(f, "trigger_params", s->trigger->params, s->trigger->n_params, s->trigger_params);
    fprintf(f, "\"mode\": \"%s\",\n\"lag\": %lld,\n\"seed\": %lld,\n\"clock\": \"%s\",\n",
            s->off ? "off" : "on", (long long)s->lag, (long long)s->seed,
            plb_clock_name(s->clock));
    if (*self->crowd.words != '\0') {
        fprintf(f,
                "\"cores\": \"%s\",\n"
                "\"sharing\": {\"ranks\": %d, \"cores\": %.17g, \"waits\": %s},\n",
                self->crowd.words, (int)self->crowd.n_ranks, self->crowd.n_cores,
                plb_lib_loads_wait(self) ? "true" : "false");
    }
    fprintf(f, "\"experience\": %.0f,\n", self->past.runs);
    fprintf(f, "\"pause_if_useless\": %s,\n\"learn_speeds\": %s,\n\"steps\": %lld,\n",
            plb_settings_gives_up(s) ? "true" : "false", d->opt.learns ? "true" : "false",
            (long long)s->steps);
}

static void put_receipt(FILE *f, const plb_settings_t *s, const plb_decider_t *d,
                        const plb_receipt_t *r)
{
    static const char *const kinds[] = {"hold", "off", "balance", "speeds"};
    fprintf(f, "{\"kind\": \"%s\", \"strategy\": %d, \"moved\": %s", kinds[r->kind],
            (int)r->strategy, r->moved ? "true" : "false");
#define X(name) put_member(f, #name, r->placing.name);
    PLB_PLACING(X)
#undef X
#define X(name) put_member(f, #name, r->name);
    PLB_RECEIPT(X)
#undef X
#define X(name) fprintf(f, ", \"%s\": %lld", #name, (long long)r->name);
    PLB_RECEIPT_COUNTS(X)
#undef X
    fputs(", \"speed\": ", f);
    put_numbers(f, r->speed, r->speed == NULL ? 0 : d->opt.n_ranks);
    const bool by_environment = s->strategy_by_environment && r->strategy >= 0 && *r->why == '\0';
    fprintf(f, ", \"why\": \"%s\", \"reason\": \"%s\", \"figures\": {",
            by_environment ? "the environment says so (PYLB_STRATEGY)" : r->why,
            plb_reason_words[r->verdict.reason]);
    const char *comma = "";
#define X(name, unit, help)                                                                       \
    if (!isnan(r->verdict.name)) {                                                                \
        fprintf(f, "%s\"%s\": ", comma, #name);                                                   \
        put_number(f, r->verdict.name);                                                           \
        comma = ", ";                                                                             \
    }
    PLB_VERDICT(X)
#undef X
    fputs("}, \"alternatives\": [", f);
    for (int32_t i = 0; i < d->opt.n; i++) {
        const double pair[] = {r->alternatives[i].gain, r->alternatives[i].cost};
        fputs(i > 0 ? ", " : "", f);
        put_numbers(f, pair, 2);
    }
    fputs("]}", f);
}

/* Write under a temporary name, then rename: so a file under the final name is complete. */
static int write_file(const plb_lib_advisor_t *self, const double *load, plb_err_t *err)
{
    int ret = PLB_OK;
    const char *path = self->settings.record;
    char *part = NULL;
    const size_t size = strlen(path) + sizeof ".0123456789.part";
    PLB_NEW(part, size);
    snprintf(part, size, "%s.%ld.part", path, (long)getpid());
    (void)remove(part);
    FILE *f = fopen(part, "wx"); /* x: fail if the file exists, e.g. as a link that somebody has
                                    put there */
    bool good = f != NULL;
    if (good) {
        const locale_t before = plb_point_begin();
        const plb_decider_t *d = &self->decider;
        fputs("{\"format\": \"pylb advisor\", \"version\": 1,\n", f);
        put_settings(f, self);
        /* Write the figures of each step, and load[p][n], the load of each rank in each step. */
        const int p = self->ranks->size;
        const int64_t n = self->n_rows;
        fputs("\"figures\": [", f);
        for (int64_t i = 0; i < n; i++) {
            const plb_step_row_t *r = &self->row[i];
            const double figures[] = {r->time,        r->max, r->mean, r->idle,
                                      r->utilization, r->min, 0.0,     0.0};
            fputs(i > 0 ? ",\n" : "\n", f);
            put_numbers(f, figures, 8);
        }
        fputs("],\n\"loads\": [", f);
        for (int r = 0; r < p; r++) {
            fputs(r > 0 ? ",\n" : "\n", f);
            put_numbers(f, load + r * n, n);
        }
        fputs("],\n", f);
        fputs("\"receipts\": [", f);
        for (int64_t i = 0; i < d->n_receipts; i++) {
            fputs(i > 0 ? ",\n" : "\n", f);
            put_receipt(f, &self->settings, d, &d->receipts[i]);
        }
        fputs("]}\n", f);
        plb_point_end(before);
        good = ferror(f) == 0;
        good = fclose(f) == 0 && good;
        good = good && rename(part, path) == 0;
    }
    if (!good) {
        ret = PLB_FAIL(err, PLB_ERR_FORMAT, "%.300s cannot be written: %s", path, strerror(errno));
        if (f != NULL) {
            (void)remove(part);
        }
    }
out:
    plb_free(part);
    return ret;
}

/* Complete the receipts, and copy the loads of this rank to *out, owned by the caller. */
static int settle(plb_lib_advisor_t *self, double **out, plb_err_t *err)
{
    PLB_PASS(plb_advisor_judge(&self->core, err));
    plb_decider_settle(&self->decider);
    PLB_PASS_NEW(*out, self->n_rows);
    for (int64_t i = 0; i < self->n_rows; i++) {
        (*out)[i] = self->row[i].load;
    }
    return PLB_OK;
}

/* Gather the loads of the ranks, and write the record, if one was asked for.  failed: PLB_OK, or
 * the code of an error of this rank.  Collective; an error is raised on all ranks. */
static int record_write(plb_lib_advisor_t *self, int failed, plb_err_t *err)
{
    char *all = NULL;
    double *mine = NULL;
    plb_err_t said = {0};
    if (self->settings.record == NULL) {
        return failed;
    }
    int ret = failed ? failed : settle(self, &mine, err);
    const int64_t bytes = ret == PLB_OK ? (int64_t)sizeof *mine * self->n_rows : ret;
    PLB_TRY(self->ranks->gather(self->ranks, mine, bytes, &all, err));
    if (self->ranks->rank == 0) {
        said.code = write_file(self, (const double *)(const void *)all, &said);
    }
    PLB_TRY(self->ranks->bcast(self->ranks, &said, sizeof said, err));
    ret = said.code == PLB_OK ? PLB_OK : PLB_FAIL(err, said.code, "%s", said.text);
out:
    PLB_FREE(mine, all);
    return ret;
}

/* ---- begin ---------------------------------------------------------------------------------- */

int plb_lib_advisor_open(plb_transport_t *ranks, pylb_advisor **out, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_handle_t *handle = NULL;
    plb_lib_advisor_t *self = NULL;
    PLB_NEW0(self, 1);
    self->ranks = ranks;
    ranks->patience = (plb_patience_t){plb_lib_say_late, self};
    self->mark = plb_clock_real_ns(PLB_CLOCK_WALL);
    self->delayed = plb_run_delay_ns();
    self->worked = plb_clock_real_ns(PLB_CLOCK_MPI);
    PLB_TRY(plb_settings_init(&self->settings, err));
    PLB_TRY(plb_handle_open(PLB_HANDLE_ADVISOR, self, &handle, err));
    *out = (pylb_advisor *)handle;
out:
    if (ret != PLB_OK) {
        plb_free(self);
    }
    return ret;
}

int pylb_advisor_create(pylb_advisor **lb)
{
    plb_err_t *err = plb_lib_error();
    plb_transport_t *ranks;
    PLB_FAIL_IF(lb == NULL, err, PLB_ERR_VALUE, "lb is NULL");
    *lb = NULL;
    PLB_PASS(plb_transport_alone(&ranks, err));
    const int ret = plb_lib_advisor_open(ranks, lb, err);
    if (ret != PLB_OK) {
        ranks->free(ranks);
    }
    return ret;
}

int pylb_advisor_set(pylb_advisor *lb, const char *option, const char *value)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_FAIL_IF(option == NULL || value == NULL, err, PLB_ERR_VALUE, "%s is NULL",
                option == NULL ? "option" : "value");
    return self->ready
               ? PLB_FAIL(err, PLB_ERR_STATE,
                          "%.100s is set after the first step began: expected an earlier call",
                          option)
               : plb_settings_set(&self->settings, option, value, err);
}

int pylb_advisor_rank(const pylb_advisor *lb, int *rank, int *n_ranks)
{
    PLB_LIB_BEGIN(self, err, lb);
    if (rank != NULL) {
        *rank = self->ranks->rank;
    }
    if (n_ranks != NULL) {
        *n_ranks = self->ranks->size;
    }
    return PLB_OK;
}

/* ---- what was decided ----------------------------------------------------------------------- */

int pylb_advisor_counts(const pylb_advisor *lb, int64_t *decisions, int64_t *lb_steps)
{
    PLB_LIB_BEGIN(self, err, lb);
    if (decisions != NULL) {
        *decisions = self->decider.n_receipts;
    }
    if (lb_steps != NULL) {
        *lb_steps = self->decider.n_lb_steps;
    }
    return PLB_OK;
}

int pylb_advisor_receipt(pylb_advisor *lb, int64_t i, pylb_receipt *receipt)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_FAIL_IF(receipt == NULL || i < 0 || i >= self->decider.n_receipts, err,
                receipt == NULL ? PLB_ERR_VALUE : PLB_ERR_RANGE,
                receipt == NULL ? "receipt is NULL" : "i is %lld: expected 0 ... %lld",
                (long long)i, (long long)self->decider.n_receipts - 1);
    PLB_PASS(plb_advisor_judge(&self->core, err));
    const plb_receipt_t *r = &self->decider.receipts[i];
    const bool done = r->kind == PLB_DECISION_BALANCE || r->kind == PLB_DECISION_SPEEDS;
    *receipt = (pylb_receipt){
        .iteration = r->iteration,
        .rebalanced = done,
        .strategy = r->strategy < 0 ? "" : self->decider.candidates[r->strategy].strategy.name,
        .reason =
            r->kind == PLB_DECISION_OFF ? "LB steps have cost more than they saved lately"
            : r->kind == PLB_DECISION_SPEEDS
                ? "the trigger asked for no LB step, but better estimates of the ranks' speeds "
                  "show that an LB step saves time"
                : plb_reason_words[r->verdict.reason],
        .max = r->max,
        .mean = r->mean,
        .before = r->placing.before,
        .predicted = r->placing.predicted,
        .cost = r->cost,
        .gain = r->gain,
        .migrations = r->migrations,
        .seconds_statistics = r->placing.seconds_statistics,
        .seconds_strategy = r->placing.seconds_strategy,
        .seconds_migration = r->seconds_migration,
        .seconds_warm_up = r->seconds_warm_up,
        .seconds_hidden = r->seconds_hidden,
    };
    return PLB_OK;
}

/* ---- the end -------------------------------------------------------------------------------- */

void plb_lib_advisor_drop(plb_handle_t *handle)
{
    plb_lib_advisor_t *self = handle->content;
    handle->content = NULL;
    plb_plan_free(&self->plan);
    plb_decider_free(&self->decider);
    plb_trigger_free(&self->trigger);
    plb_settings_free(&self->settings);
    PLB_FREE(self->exported, self->row);
    self->ranks->free(self->ranks);
    plb_free(self);
}

int plb_lib_advisor_begin_close(plb_handle_t *handle, plb_err_t *err)
{
    plb_lib_advisor_t *self = handle->content;
    return self->begun && !self->over ? plb_lib_advisor_begin_leaving(self, err) : PLB_OK;
}

int plb_lib_advisor_close(plb_handle_t *handle, plb_err_t *err)
{
    plb_lib_advisor_t *self = handle->content;
    int ret = PLB_OK;
    const bool moves = self->plan.moves != NULL;
    if (self->begun && !self->over) {
        ret = plb_lib_advisor_leave(self, err);
        if (!plb_steps_broken(&self->steps)) { /* this condition is the same on all ranks */
            ret = record_write(self, ret, err);
        }
        if (ret == PLB_OK && self->ranks->rank == 0 && plb_settings_learn(&self->settings)) {
            plb_err_t said = {0};
            int64_t done = 0;
            plb_experience_write(self->settings.experience, self->program, self->past.runs,
                                 &self->trigger, true, &done, &said);
            if (*said.text != '\0') {
                fprintf(stderr, "pylb: %s\n", said.text);
            }
        }
    } else if (!self->begun && self->ranks->size > 1) {
        /* tell the other ranks, which may be in their first step, that this rank makes none */
        plb_err_t own; /* counts only if this rank cannot take part in reductions */
        ret = plb_lib_advisor_begin(self, false, &own);
        *err = self->steps.net == NULL ? own : *err;
        ret = self->steps.net == NULL ? ret : plb_lib_advisor_leave(self, err);
    }
    plb_lib_advisor_drop(handle);
    PLB_FAIL_IF(moves, err, PLB_ERR_STATE,
                "the advisor was closed while arrays were on their way: expected "
                "pylb_plan_migrate_end first");
    return ret;
}

int pylb_advisor_close(pylb_advisor **lb)
{
    plb_err_t *err = plb_lib_error();
    if (lb == NULL || *lb == NULL) {
        return PLB_OK;
    }
    if (plb_lib_advisor_of(*lb, err) == NULL) {
        return err->code;
    }
    const int ret = plb_lib_advisor_close((plb_handle_t *)*lb, err);
    *lb = NULL;
    return ret;
}
