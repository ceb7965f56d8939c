#include "measure/measure.h"

#include <math.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/mem.h"

static const double MOST = 1e30; /* so that sums of powers are finite */

static int check(const plb_drum_t *self, plb_err_t *err)
{
    for (int64_t v = 0; v < self->n; v++) {
        const int32_t above = self->parent[v];
        PLB_FAIL_IF(v == 0 ? above != -1 : above < 0 || above >= v, err, PLB_ERR_RANGE,
                    "parent[%lld] is %d: expected %s", (long long)v, above,
                    v == 0 ? "-1" : "a place with a lower number");
        PLB_FAIL_IF(!isnan(self->comm[v]) && !(self->comm[v] >= 0.0 && self->comm[v] <= MOST), err,
                    PLB_ERR_VALUE, "comm[%lld] is %g: expected 0 ... 1e30, or NaN", (long long)v,
                    self->comm[v]);
    }
    return PLB_OK;
}

/* Compute cpu[n]: for each place, the sum of p_n over its leaves. */
static int sums(const plb_drum_t *self, double *cpu, plb_err_t *err)
{
    int ret = PLB_OK;
    bool *inner = NULL;
    PLB_NEW0(inner, self->n);
    for (int64_t v = 1; v < self->n; v++) {
        inner[self->parent[v]] = true;
    }
    for (int64_t v = 0; v < self->n; v++) {
        if (!inner[v] && !(self->cpu[v] >= 0.0 && self->cpu[v] <= MOST)) {
            ret = PLB_FAIL(err, PLB_ERR_VALUE, "cpu[%lld] is %g: expected 0 ... 1e30",
                           (long long)v, self->cpu[v]);
            goto out;
        }
        cpu[v] = inner[v] ? 0.0 : self->cpu[v];
    }
    for (int64_t v = self->n - 1; v > 0; v--) {
        cpu[self->parent[v]] += cpu[v];
    }
    if (!(cpu[0] > 0.0)) {
        ret = PLB_FAIL(err, PLB_ERR_VALUE, "cpu is 0 for all leaves: expected one above 0");
    }
out:
    plb_free(inner);
    return ret;
}

int plb_drum_power(const plb_drum_t *self, double w_comm, double *power, plb_err_t *err)
{
    /* comm[v]: sum of the communication powers of those children of place v that can compute */
    double *cpu = NULL, *comm = NULL;
    int ret = check(self, err);
    if (ret == PLB_OK && !(w_comm >= 0.0 && w_comm <= 1.0)) {
        ret = PLB_FAIL(err, PLB_ERR_VALUE, "w_comm is %g: expected 0 ... 1", w_comm);
    }
    if (ret != PLB_OK) {
        return ret;
    }
    PLB_NEW(cpu, self->n);
    PLB_NEW0(comm, self->n);
    PLB_TRY(sums(self, cpu, err));
    for (int64_t v = 1; v < self->n; v++) {
        /* the sum is NaN if one of its terms is NaN */
        comm[self->parent[v]] += cpu[v] > 0.0 ? self->comm[v] : 0.0;
    }
    power[0] = 1.0;
    for (int64_t v = 1; v < self->n; v++) {
        const int32_t above = self->parent[v];
        const double w = comm[above] > 0.0 ? w_comm : 0.0;
        /* the quotients come first: a product with a subnormal number could become 0 */
        power[v] = cpu[v] > 0.0 ? power[above] * (1.0 - w) * (cpu[v] / cpu[above]) : 0.0;
        if (w > 0.0 && cpu[v] > 0.0) {
            power[v] += power[above] * w * (self->comm[v] / comm[above]);
        }
    }
out:
    PLB_FREE(cpu, comm);
    return ret;
}

double plb_drum_benchmark(double seconds, double *cpu_seconds)
{
    enum { N = 1024, PASSES = 16 };
    double a[N], b[N];
    for (int i = 0; i < N; i++) {
        a[i] = 1.0 + i;
        b[i] = 1.0 / (1.0 + i);
    }
    const int64_t start = plb_clock_real_ns(PLB_CLOCK_WALL);
    const int64_t cpu = plb_clock_real_ns(PLB_CLOCK_CPU);
    int64_t now = start;
    double steps = 0.0;
    while ((double)(now - start) < 1e9 * seconds) {
        for (int k = 0; k < PASSES; k++) {
            for (int i = 0; i < N; i++) {
                a[i] = 0.5 * a[i] + b[i];
            }
        }
        __asm__ volatile("" : : "r"(a) : "memory"); /* keeps the compiler from removing the loop */
        steps += (double)N * PASSES;
        now = plb_clock_real_ns(PLB_CLOCK_WALL);
    }
    *cpu_seconds = 1e-9 * (double)(plb_clock_real_ns(PLB_CLOCK_CPU) - cpu);
    return steps;
}
