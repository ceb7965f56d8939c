#include "lib/experience.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIND "{\"pylb experience\": "
#define VERSION "1"

static bool skip(const char **at, const char *text)
{
    const size_t n = strlen(text);
    const bool same = strncmp(*at, text, n) == 0;
    *at += same ? n : 0;
    return same;
}

/* Read x[n] after a name; a number that is not known is null. */
static bool read_numbers(const char **at, const char *name, double *x, int n)
{
    bool good = skip(at, ", \"") && skip(at, name) && skip(at, n > 1 ? "\": [" : "\": ");
    for (int i = 0; i < n && good; i++) {
        char *end;
        good = i == 0 || skip(at, ", ");
        x[i] = NAN;
        if (good && !skip(at, "null")) {
            x[i] = plb_point_read(*at, &end);
            good = end != *at && isfinite(x[i]);
            *at = end;
        }
    }
    return good && (n == 1 || skip(at, "]"));
}

/* Read a line from the name of its program on. */
static bool read_line(const char *at, plb_past_t *out)
{
    bool good = skip(&at, "\"") && read_numbers(&at, "runs", &out->runs, 1) && out->runs >= 1.0;
#define X(name, n, unit, help) good = good && read_numbers(&at, #name, out->learned.name, n);
    PLB_EXPERIENCE(X)
#undef X
    return good && skip(&at, "}\n");
}

int plb_experience_read(const char *path, const char *program, plb_past_t *out, plb_err_t *said,
                        plb_err_t *err)
{
    char *line = NULL;
    size_t room = 0;
    bool good = true, odd = false, others = false;
    plb_past_t past;
    *out = (plb_past_t){0};
    FILE *f = fopen(path, "re");
    if (f == NULL && errno == ENOENT) {
        return PLB_OK;
    }
    while (f != NULL && good && getline(&line, &room, f) > 0) {
        const char *at = line;
        const size_t n = strcspn(line, "\n"), kind = strlen(KIND);
        good = strncmp(line, KIND, n < kind ? n : kind) == 0;
        const bool same = skip(&at, KIND VERSION ", \"program\": \"");
        others = others || same;
        if (!same || (skip(&at, program) && *at == '"' && !read_line(at, &past))) {
            odd = odd || n > 0;
        } else if (*at == '"') {
            *out = past;
        }
    }
    const int why = f == NULL || ferror(f) ? errno : 0;
    free(line);
    if (f != NULL) {
        (void)fclose(f);
    }
    PLB_FAIL_IF(why != 0, err, PLB_ERR_FORMAT,
                "experience is \"%.200s\", which cannot be read: %s", path, strerror(why));
    PLB_FAIL_IF(!good, err, PLB_ERR_FORMAT,
                "experience is \"%.200s\", another kind of file: expected an experience file, or "
                "the path of a new one",
                path);
    if (out->runs == 0 && (odd || others)) {
        (void)PLB_FAIL(said, PLB_ERR_KEY, "%.200s: %s (%.100s): the run begins without experience",
                       path,
                       odd ? "a line was cut off, damaged, or of another version; nothing for"
                           : "no entry for",
                       program);
    }
    return PLB_OK;
}

static void put_numbers(FILE *f, const char *name, const double *x, int n)
{
    fprintf(f, ", \"%s\": %s", name, n > 1 ? "[" : "");
    for (int i = 0; i < n; i++) {
        fputs(i > 0 ? ", " : "", f);
        if (isfinite(x[i])) {
            fprintf(f, "%.17g", x[i]);
        } else {
            fputs("null", f);
        }
    }
    fputs(n > 1 ? "]" : "", f);
}

void plb_experience_write(const char *path, const char *program, double runs,
                          const plb_trigger_t *trigger, bool is_whole, int64_t *done,
                          plb_err_t *said)
{
    const bool other = runs > 0 && isnan(*trigger->told.mean);
    plb_experience_t learned = plb_trigger_learned(trigger);
    if (trigger->seen + 1 == *done) {
        return;
    }
    *done = trigger->seen + 1;
    *learned.iterations = is_whole ? *learned.iterations : NAN;
    if (other) {
        (void)PLB_FAIL(said, PLB_ERR_STATE,
                       "%.150s: the mean load differs from that of earlier runs by more than a "
                       "factor of 2, so their experience was not used",
                       path);
    }
    FILE *f = fopen(path, "a+e");
    if (f != NULL) {
        const locale_t before = plb_point_begin();
        const bool cut = fseek(f, -1, SEEK_END) == 0 && fgetc(f) != '\n'; /* the last line was */
        (void)fseek(f, 0, SEEK_END);
        fprintf(f, "%s" KIND VERSION ", \"program\": \"%s\", \"runs\": %.0f", cut ? "\n" : "",
                program, other ? 1.0 : runs + 1.0);
#define X(name, n, unit, help) put_numbers(f, #name, learned.name, n);
        PLB_EXPERIENCE(X)
#undef X
        fputs("}\n", f);
        plb_point_end(before);
    }
    if (f == NULL || fclose(f) != 0) {
        (void)PLB_FAIL(said, PLB_ERR_FORMAT, "%.150s: %s; what this run has learned is not stored",
                       path, strerror(errno));
    }
}
