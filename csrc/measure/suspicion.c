#include "measure/suspicion.h"

#include "base/mem.h"

/* A rank is suspected if at least LEAST objects stayed on it, if their median time has grown by a
 * factor above exp(SLOWER) = 1.93, and if the outer deciles of their changes differ by less than
 * the fraction ALIKE of the median change.  (If another program shares the core, the factor is 2.)
 * On equal ranks, this happens in 1 % of 800 random programs (tests/twins/like_programs.py). */
static const double SLOWER = 0.66, ALIKE = 0.1;
enum { LEAST = 8 };

double plb_suspicion(int64_t n, double slower, double width)
{
    return n >= LEAST && slower < -SLOWER && width < -ALIKE * slower ? slower : 0.0;
}

int plb_suspicions_test(double *suspected, int32_t p, const plb_timings_t *last,
                        const plb_timings_t *now, plb_err_t *err)
{
    int ret = PLB_OK;
    double *sum = NULL;
    int64_t *count = NULL, i = 0;
    if (plb_suspicions_most(suspected, p) < 0) {
        return ret;
    }
    PLB_NEW0(sum, p);
    PLB_NEW0(count, p);
    for (int64_t j = 0; j < now->n; j++) {
        i = plb_timings_find(last, i, now->key[j]);
        if (i < last->n && last->key[i] == now->key[j] && last->rank[i] < p &&
            last->rank[i] != now->rank[j]) {
            const double by = (double)now->y[j] - last->y[i];
            sum[last->rank[i]] += by;
            sum[now->rank[j]] -= by;
            count[last->rank[i]]++;
            count[now->rank[j]]++;
        }
    }
    for (int32_t r = 0; r < p; r++) {
        if (sum[r] > 0.5 * suspected[r] * (double)count[r]) {
            suspected[r] = 0.0;
        }
    }
out:
    PLB_FREE(sum, count);
    return ret;
}

int32_t plb_suspicions_most(const double *suspected, int32_t p)
{
    int32_t out = -1;
    for (int32_t r = 0; r < p; r++) {
        out = suspected[r] < (out < 0 ? 0.0 : suspected[out]) ? r : out;
    }
    return out;
}
