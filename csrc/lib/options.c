#include "lib/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/point.h"

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

int plb_option_count(const char *option, const char *text, int64_t least, int64_t *out,
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

int plb_option_flag(const char *option, const char *text, bool *out, plb_err_t *err)
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

int plb_option_param(const plb_param_t *params, int n, const char *owner, const char *name,
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
