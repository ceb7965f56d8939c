#include "base/quantile.h"

double plb_nth(double *x, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1; /* Hoare's selection algorithm (quickselect) */
    while (low < high) {
        const double pivot = x[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot) {
                i++;
            }
            while (x[j] > pivot) {
                j--;
            }
            if (i <= j) {
                const double swap = x[i];
                x[i++] = x[j];
                x[j--] = swap;
            }
        }
        if (k <= j) {
            high = j;
        } else if (k >= i) {
            low = i;
        } else {
            break;
        }
    }
    return x[k];
}

double plb_median(double *x, int64_t n)
{
    const int64_t half = (n - 1) / 2;
    const double low = plb_nth(x, n, half);
    return 0.5 * (low + plb_nth(x + half, n - half, n / 2 - half));
}
