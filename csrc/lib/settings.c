#include "lib/internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/point.h"
#include "decide/decider.h"

/* ---- options ------------------------------------------------------------------------------- */

/* 2^53 - 1: a text with a larger number may have been rounded */
static const double MOST = 9007199254740991.0;

static int read_number(const char *option, const char *text, double *out, plb_err_t *err)
{
    char *end;
    *out = plb_point_read(text, &end);
    return end == text || *end != '\0'
               ? PLB_FAIL(err, PLB_ERR_VALUE, "%s is \"%.100s\": expected a number", option, text)
               : PLB_OK;
}

/* Read a whole number from `least` to 2^53. */
static int option_count(const char *option, const char *text, int64_t least, int64_t *out,
                        plb_err_t *err)
{
    double number;
    PLB_PASS(read_number(option, text, &number, err));
    PLB_FAIL_IF(!(number >= (double)least && number <= MOST) || number != (double)(int64_t)number,
                err, PLB_ERR_VALUE, "%s is %.100s: expected a whole number, %lld ... 2^53 - 1",
                option, text, (long long)least);
    *out = (int64_t)number;
    return PLB_OK;
}

/* Read "yes" or "no". */
static int option_flag(const char *option, const char *text, bool *out, plb_err_t *err)
{
    *out = strcmp(text, "yes") == 0;
    return *out || strcmp(text, "no") == 0
               ? PLB_OK
               : PLB_FAIL(err, PLB_ERR_VALUE, "%s is \"%.100s\": expected \"yes\" or \"no\"",
                          option, text);
}

int plb_option_defaults(const plb_param_t *params, int n, double **value, plb_err_t *err)
{
    PLB_PASS_NEW(*value, n);
    for (int i = 0; i < n; i++) {
        (*value)[i] = params[i].fallback;
    }
    return PLB_OK;
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

/* Set the parameter `name` of params[n] in value[n].  owner: name of the strategy or trigger, for
 *  messages.  PLB_ERR_KEY: there is no such parameter. */
static int option_param(const plb_param_t *params, int n, const char *owner, const char *name,
                        const char *text, double *value, plb_err_t *err)
{
    return set_param(params, n, owner, name, strlen(name), text, value, err);
}

int plb_option_params(const plb_param_t *params, int n, const char *owner, const char *text,
                      double *value, plb_err_t *err)
{
    char number[64];
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
        PLB_PASS(set_param(params, n, owner, text, name, number, value, err));
        text += size;
    }
    return PLB_OK;
}

/* X(variable of the environment, option). */
#define ENVIRONMENT(X)                                                                            \
    X("PYLB_STRATEGY", "strategy")                                                                \
    X("PYLB_TRIGGER", "trigger")                                                                  \
    X("PYLB_MODE", "mode")                                                                        \
    X("PYLB_RECORD", "record")                                                                    \
    X("PYLB_CLOCK", "clock")

static int copy_text(const char *from, char **out, plb_err_t *err)
{
    const size_t size = strlen(from) + 1;
    PLB_PASS_NEW(*out, size);
    memcpy(*out, from, size);
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
    for (int i = 0; i < self->n; i++) {
        PLB_FREE(self->option[i], self->value[i]);
    }
    PLB_FREE(self->option, self->value, self->record, self->strategy_params, self->trigger_params);
    *self = (plb_settings_t){0};
}

/* ---- the options --------------------------------------------------------------------------- */

typedef int (*set_fn)(plb_settings_t *self, const char *option, const char *value, plb_err_t *err);

static int set_strategy(plb_settings_t *self, const char *option, const char *value,
                        plb_err_t *err)
{
    const plb_strategy_t *found = NULL;
    (void)option;
    if (strcmp(value, "auto") != 0) {
        PLB_PASS(plb_registered_strategy(value, &found, err));
    }
    self->strategy = found;
    return PLB_OK;
}

static int set_trigger(plb_settings_t *self, const char *option, const char *value, plb_err_t *err)
{
    (void)option;
    PLB_PASS(plb_registered_trigger(value, &self->trigger, err));
    self->every = 0;
    return PLB_OK;
}

static int set_every(plb_settings_t *self, const char *option, const char *value, plb_err_t *err)
{
    PLB_PASS(option_count(option, value, 1, &self->every, err));
    return plb_registered_trigger("periodic", &self->trigger, err);
}

static int set_mode(plb_settings_t *self, const char *option, const char *value, plb_err_t *err)
{
    const bool off = strcmp(value, "off") == 0;
    (void)option;
    PLB_FAIL_IF(!off && strcmp(value, "on") != 0, err, PLB_ERR_VALUE,
                "mode is \"%.100s\": expected \"on\" or \"off\"", value);
    self->off = off;
    return PLB_OK;
}

static int set_lag(plb_settings_t *self, const char *option, const char *value, plb_err_t *err)
{
    int64_t lag = 0;
    PLB_PASS(option_count(option, value, 0, &lag, err));
    PLB_FAIL_IF(lag >= 1 << 20, err, PLB_ERR_VALUE, "lag is %lld: expected less than 2^20 steps",
                (long long)lag);
    self->lag = lag;
    return PLB_OK;
}

static int set_count(plb_settings_t *self, const char *option, const char *value, plb_err_t *err)
{
    int64_t *out = strcmp(option, "seed") == 0 ? &self->seed : &self->steps;
    return option_count(option, value, 0, out, err);
}

static int set_flag(plb_settings_t *self, const char *option, const char *value, plb_err_t *err)
{
    bool flag;
    PLB_PASS(option_flag(option, value, &flag, err));
    *(strcmp(option, "learn_speeds") == 0 ? &self->learn_speeds : &self->pause_if_useless) = flag;
    return PLB_OK;
}

static int set_network(plb_settings_t *self, const char *option, const char *value, plb_err_t *err)
{
    char *end, *last;
    const double alpha = plb_point_read(value, &end), beta = plb_point_read(end, &last);
    PLB_FAIL_IF(end == value || last == end || *last != '\0' || !(alpha >= 0.0 && alpha <= 1e30) ||
                    !(beta >= 0.0 && beta <= 1e30),
                err, PLB_ERR_VALUE,
                "%s is \"%.100s\": expected seconds per message and seconds per byte, e.g. "
                "\"2e-6 1e-10\"",
                option, value);
    self->network = (plb_network_t){alpha, beta};
    return PLB_OK;
}

static int set_clock(plb_settings_t *self, const char *option, const char *value, plb_err_t *err)
{
    (void)option;
    return plb_clock_named(value, &self->clock) && self->clock != PLB_CLOCK_MPI_WALL
               ? PLB_OK
               : PLB_FAIL(err, PLB_ERR_VALUE,
                          "clock is \"%.100s\": expected \"auto\", \"wall\", \"cpu\", \"mpi\" or "
                          "\"none\"",
                          value);
}

static int set_verify(plb_settings_t *self, const char *option, const char *value, plb_err_t *err)
{
    double part;
    PLB_PASS(read_number(option, value, &part, err));
    PLB_FAIL_IF(!(part >= 0.0 && part <= 1.0), err, PLB_ERR_VALUE,
                "%s is %.100s: expected 0 ... 1", option, value);
    self->verify = part;
    return PLB_OK;
}

static int set_record(plb_settings_t *self, const char *option, const char *value, plb_err_t *err)
{
    const size_t n = strlen(value);
    (void)option;
    PLB_FAIL_IF(n < 6 || strcmp(value + n - 5, ".json") != 0, err, PLB_ERR_VALUE,
                "record is \"%.100s\": expected a path that ends in "
                ".json",
                value);
    plb_free(self->record);
    self->record = NULL;
    return copy_text(value, &self->record, err);
}

/* Keep a parameter until strategy and trigger are known; plb_settings_close then checks it. */
static int keep(plb_settings_t *self, const char *option, const char *value, plb_err_t *err)
{
    int ret = PLB_OK;
    char *w = NULL, *v = NULL;
    PLB_RENEW(self->option, self->n + 1);
    PLB_RENEW(self->value, self->n + 1);
    PLB_TRY(copy_text(option, &w, err));
    PLB_TRY(copy_text(value, &v, err));
    self->option[self->n] = w;
    self->value[self->n++] = v;
    return PLB_OK;
out:
    PLB_FREE(w, v);
    return ret;
}

static const struct {
    const char *option;
    set_fn set;
} options[] = {
    {"strategy", set_strategy}, {"trigger", set_trigger},
    {"every", set_every},       {"mode", set_mode},
    {"lag", set_lag},           {"seed", set_count},
    {"steps", set_count},       {"pause_if_useless", set_flag},
    {"clock", set_clock},       {"record", set_record},
    {"learn_speeds", set_flag}, {"network", set_network},
    {"verify", set_verify},
};

int plb_settings_set(plb_settings_t *self, const char *option, const char *value, plb_err_t *err)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (strcmp(options[i].option, option) == 0) {
            return options[i].set(self, option, value, err);
        }
    }
    return strncmp(option, "strategy.", 9) == 0 || strncmp(option, "trigger.", 8) == 0
               ? keep(self, option, value, err)
               : PLB_FAIL(
                     err, PLB_ERR_KEY,
                     "\"%.100s\": no such option; expected strategy, trigger, every, mode, lag, "
                     "steps, pause_if_useless, learn_speeds, network, clock, seed, record, "
                     "verify, strategy.X or trigger.X",
                     option);
}

/* ---- all options together ------------------------------------------------------------------ */

/* If PYLB_TRIGGER is a number, it sets the option `every`. */
static const char *option_of(const char *option, const char *value)
{
    return strcmp(option, "trigger") == 0 && isdigit((unsigned char)*value) ? "every" : option;
}

static void drop_params(plb_settings_t *self, const char *option)
{
    int kept = 0;
    for (int i = 0; i < self->n; i++) {
        if (strncmp(self->option[i], option, strlen(option)) == 0) {
            PLB_FREE(self->option[i], self->value[i]);
        } else {
            self->option[kept] = self->option[i];
            self->value[kept++] = self->value[i];
        }
    }
    self->n = kept;
}

/* Set an option by a variable of the environment, which an error names; *set: it is not empty. */
static int set_by(plb_settings_t *self, const char *variable, const char *option, bool *set,
                  plb_err_t *err)
{
    const char *value = getenv(variable);
    *set = value != NULL && *value != '\0';
    if (!*set) {
        return PLB_OK;
    }
    plb_err_t why = {0};
    const int code = plb_settings_set(self, option_of(option, value), value, &why);
    PLB_FAIL_IF(code != PLB_OK, err, code, "%s: %.480s", variable, why.text);
    drop_params(self, option);
    return PLB_OK;
}

int plb_settings_environment(plb_settings_t *self, plb_err_t *err)
{
    bool set;
#define X(variable, option)                                                                       \
    PLB_PASS(set_by(self, variable, option, &set, err));                                          \
    if (strcmp(option, "strategy") == 0) {                                                        \
        self->strategy_by_environment = set;                                                      \
    }
    ENVIRONMENT(X)
#undef X
    return PLB_OK;
}

/* Return the parameters that "strategy.X" sets; for "auto", those of the selection. */
static const plb_param_t *strategy_table(const plb_settings_t *self, int *n, const char **name)
{
    const plb_strategy_t *s = self->strategy;
    *n = s == NULL ? PLB_N_SELECTION : s->n_params;
    *name = s == NULL ? "auto" : s->name;
    return s == NULL ? plb_selection_params : s->params;
}

int plb_settings_close(plb_settings_t *self, plb_err_t *err)
{
    int n;
    const char *name;
    const plb_param_t *params = strategy_table(self, &n, &name);
    const plb_trigger_kind_t *t = self->trigger;
    PLB_PASS(plb_option_defaults(params, n, &self->strategy_params, err));
    PLB_PASS(plb_option_defaults(t->params, t->n_params, &self->trigger_params, err));
    if (self->every > 0) {
        self->trigger_params[0] = (double)self->every;
    }
    for (int i = 0; i < self->n; i++) {
        const char *option = self->option[i], *value = self->value[i];
        if (*option == 's') {
            PLB_PASS(option_param(params, n, name, option + 9, value, self->strategy_params, err));
        } else {
            PLB_PASS(option_param(t->params, t->n_params, t->name, option + 8, value,
                                  self->trigger_params, err));
        }
    }
    return PLB_OK;
}

bool plb_settings_gives_up(const plb_settings_t *self)
{
    const bool by_user =
        strcmp(self->trigger->name, "periodic") == 0 || plb_registered_is_own(self->trigger);
    return self->pause_if_useless < 0 ? !by_user : self->pause_if_useless;
}

bool plb_settings_learns(const plb_settings_t *self)
{
    const bool chosen_by_pylb = self->strategy == NULL && strcmp(self->trigger->name, "auto") == 0;
    return self->learn_speeds < 0 ? chosen_by_pylb && self->lag == 0 : self->learn_speeds;
}

/* Only LB steps of the trigger "auto" are checked: a trigger of the user is never overruled. */
bool plb_settings_watches(const plb_settings_t *self)
{
    return plb_settings_learns(self) && strcmp(self->trigger->name, "auto") == 0 && self->lag == 0;
}

static uint64_t add_number(uint64_t hash, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return plb_mix64(hash ^ (bits + UINT64_C(0x9e3779b97f4a7c15)));
}

static uint64_t add_name(uint64_t hash, const char *name)
{
    for (; *name != '\0'; name++) {
        hash = plb_mix64(hash ^ (unsigned char)*name);
    }
    return hash;
}

int64_t plb_settings_fingerprint(const plb_settings_t *self)
{
    int n;
    const char *name;
    (void)strategy_table(self, &n, &name);
    uint64_t hash = add_name(add_name(1, name), self->trigger->name);
    for (int i = 0; i < n; i++) {
        hash = add_number(hash, self->strategy_params[i]);
    }
    for (int i = 0; i < self->trigger->n_params; i++) {
        hash = add_number(hash, self->trigger_params[i]);
    }
    hash = add_number(add_number(hash, self->network.alpha), self->network.beta);
    const int64_t rest[] = {self->lag,
                            self->seed,
                            self->steps,
                            self->off,
                            self->pause_if_useless,
                            self->learn_speeds,
                            self->clock == PLB_CLOCK_NONE,
                            self->record != NULL};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        hash = add_number(hash, (double)rest[i]);
    }
    return (int64_t)(hash >> 1);
}
