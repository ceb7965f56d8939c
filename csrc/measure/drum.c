#include "base/clock.h"
#include "measure/measure.h"

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
