/* Work that takes the same processor time on any rank: `steps` in registers, some 2 ns each.
 */
#ifndef WORK_H
#define WORK_H

static volatile double sink;

static void work(double steps)
{
    double x = 0.3;
    for (long i = 0; i < (long)steps; i++) {
        x = 3.9 * x * (1.0 - x);
    }
    sink = x;
}

#endif
