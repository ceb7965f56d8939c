/* Work lent within a step, for programs in C and Fortran. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "lib/internal.h"

typedef struct shared {
    int64_t bytes_in, bytes_out;
    const char *in;
    char *out;
    pylb_rows_fn fn;
    void *user;
    double verify;
} shared_t;

static int call(const shared_t *self, int64_t n, const char *in, char *out, plb_err_t *err)
{
    const int code = self->fn(n, in, out, self->user);
    PLB_FAIL_IF(code != 0, err, PLB_ERR_CALLBACK, "the function of pylb_share returned %d", code);
    return PLB_OK;
}

static void gather(const char *from, const int64_t *row, int64_t n, int64_t bytes, char *to)
{
    for (int64_t k = 0; k < n; k++) {
        memcpy(to + k * bytes, from + row[k] * bytes, (size_t)bytes);
    }
}

static int pack(void *arg, const int64_t *row, int64_t n, char *out, plb_err_t *err)
{
    const shared_t *self = arg;
    gather(self->in, row, n, self->bytes_in, out);
    return PLB_OK;
}

static int keep(const shared_t *self, const int64_t *row, int64_t n, const char *answer)
{
    for (int64_t k = 0; k < n; k++) {
        memcpy(self->out + row[k] * self->bytes_out, answer + k * self->bytes_out,
               (size_t)self->bytes_out);
    }
    return PLB_OK;
}

static int own(void *arg, int64_t first, const int64_t *row, int64_t n, plb_err_t *err)
{
    int ret = PLB_OK;
    const shared_t *self = arg;
    char *in = NULL, *out = NULL;
    if (row == NULL) {
        return call(self, n, self->in + first * self->bytes_in,
                    self->out + first * self->bytes_out, err);
    }
    PLB_NEW(in, n * self->bytes_in);
    PLB_NEW(out, n * self->bytes_out);
    gather(self->in, row, n, self->bytes_in, in);
    PLB_TRY(call(self, n, in, out, err));
    ret = keep(self, row, n, out);
out:
    PLB_FREE(in, out);
    return ret;
}

static int guest(void *arg, const char *rows, int64_t n, char **answer, int64_t *bytes,
                 plb_err_t *err)
{
    const shared_t *self = arg;
    *bytes = n * self->bytes_out;
    PLB_PASS_NEW(*answer, *bytes);
    const int ret = call(self, n, rows, *answer, err);
    if (ret != PLB_OK) { /* then the answer is the text of the error */
        plb_free(*answer);
        *answer = NULL;
    }
    return ret;
}

/* Compute some of the rows row[n] again, at least one, and compare. */
static int verify(const shared_t *self, int from, const int64_t *row, int64_t n,
                  const char *answer, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t step = (int64_t)fmax(1.0 / self->verify, 1.0), bytes = self->bytes_out;
    char *in = NULL, *out = NULL;
    PLB_NEW(in, self->bytes_in);
    PLB_NEW(out, bytes);
    for (int64_t k = 0; k < n; k += step) {
        gather(self->in, &row[k], 1, self->bytes_in, in);
        PLB_TRY(call(self, 1, in, out, err));
        PLB_FAIL_IF(memcmp(out, answer + k * bytes, (size_t)bytes) != 0, err, PLB_ERR_VALUE,
                    "row %lld has another result on rank %d than on this rank: expected a "
                    "function that depends only on the row, and sets all bytes of the result",
                    (long long)row[k], from);
    }
out:
    PLB_FREE(in, out);
    return ret;
}

static int take(void *arg, int from, bool failed, const int64_t *row, int64_t n,
                const char *answer, int64_t bytes, plb_err_t *err)
{
    const shared_t *self = arg;
    PLB_FAIL_IF(failed, err, PLB_ERR_CALLBACK,
                "the function of pylb_share failed on rank %d, for %lld rows of this rank, the "
                "first of them %lld",
                from, (long long)n, (long long)row[0]);
    PLB_FAIL_IF(bytes != n * self->bytes_out, err, PLB_ERR_VALUE,
                "rank %d returned %lld bytes for %lld rows of %lld: expected the same bytes_out "
                "on all ranks",
                from, (long long)bytes, (long long)n, (long long)self->bytes_out);
    if (self->verify > 0.0) {
        PLB_PASS(verify(self, from, row, n, answer, err));
    }
    return keep(self, row, n, answer);
}

static int check(const shared_t *self, int64_t n, plb_err_t *err)
{
    PLB_FAIL_IF(n < 0 || n > INT32_MAX, err, PLB_ERR_VALUE, "n is %lld: expected 0 ... 2^31 - 1",
                (long long)n);
    PLB_FAIL_IF(self->bytes_in < 1 || self->bytes_out < 1, err, PLB_ERR_VALUE,
                "bytes_in is %lld, bytes_out is %lld: expected 1 or more",
                (long long)self->bytes_in, (long long)self->bytes_out);
    PLB_FAIL_IF(n > 0 && (self->in == NULL || self->out == NULL), err, PLB_ERR_VALUE,
                "in or out is NULL: expected %lld rows", (long long)n);
    PLB_FAIL_IF(self->fn == NULL, err, PLB_ERR_VALUE, "fn is NULL: expected a function of rows");
    return PLB_OK;
}

int pylb_share(pylb_advisor *lb, int64_t n, int64_t bytes_in, const void *in, int64_t bytes_out,
               void *out, pylb_rows_fn fn, void *user)
{
    PLB_LIB_BEGIN(self, err, lb);
    const int ready = plb_lib_advisor_ready(self, err);
    shared_t shared = {bytes_in, bytes_out, in, out, fn, user, self->settings.verify};
    plb_share_figures_t figures = {0};
    plb_shared_rows_t rows = {.row_bytes = bytes_in, .arg = &shared, own, pack, guest, take};
    rows.failed = ready != PLB_OK ? ready : check(&shared, n, err);
    rows.n = rows.failed == PLB_OK ? n : 0;
    const int64_t begin = plb_clock_real_ns(self->clock);
    if (self->settings.off || self->ranks->share == NULL) {
        PLB_PASS(rows.failed);
        PLB_PASS(rows.n > 0 ? own(&shared, 0, NULL, n, err) : PLB_OK);
        figures.own = 1e-9 * (double)(plb_clock_real_ns(self->clock) - begin);
    } else {
        PLB_PASS(self->ranks->share(self->ranks, &rows, &figures, err));
    }
    const double work = figures.own + figures.borrowed;
    const int64_t waited = plb_clock_real_ns(self->clock) - begin - (int64_t)(1e9 * work);
    self->worked += waited; /* the wait must not count as work, whichever clock is used */
    if (self->started != 0) {
        self->started += waited;
    } else {
        self->work += work;
    }
    return PLB_OK;
}
