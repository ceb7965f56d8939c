/* Work lent within a step, from C: heavy rows on the last rank; each row is doubled. */
#define _POSIX_C_SOURCE 199309L
#include <mpi.h>
#include <pylb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

typedef struct row {
    double seconds, value;
} row_t;

static double offset; /* with "verify": what the result depends on, and must not */

static int twice(int64_t n, const void *in, void *out, void *user)
{
    const row_t *row = in;
    double *result = out, sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        result[i] = 2.0 * row[i].value + offset;
        sum += row[i].seconds;
    }
    const struct timespec pause = {(time_t)sum, (long)(1e9 * (sum - (double)(time_t)sum))};
    nanosleep(&pause, NULL);
    return *(int *)user;
}

int main(int argc, char **argv)
{
    enum { N = 50 };
    pylb_advisor *lb;
    row_t row[N];
    double out[N];
    int rank, size, rebalance, wrong = 0, code = PYLB_OK;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int n = rank == 0 && size > 2 ? 0 : N;
    for (int i = 0; i < N; i++) {
        row[i] = (row_t){rank == size - 1 ? 1e-3 : 1e-5, 100 * rank + i};
    }
    if (check(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb)) != PYLB_OK) {
        return 1;
    }
    if (argc > 1 && strcmp(argv[1], "verify") == 0) {
        offset = rank;
        wrong += check(pylb_advisor_set(lb, "verify", "1.5")) != PYLB_ERR_VALUE;
        wrong += check(pylb_advisor_set(lb, "verify", "0.01")) != PYLB_OK;
    }
    for (int step = 0; step < 6 && code == PYLB_OK; step++) {
        if (argc > 2 && rank == 0 && step == atoi(argv[2])) { /* this rank does something else */
            code = strcmp(argv[1], "close") == 0 ? PYLB_ERR_STATE
                                                 : check(pylb_advise(lb, &rebalance));
            break;
        }
        int fail = argc == 2 && offset == 0.0 && step == 3 && rank == size - 1 ? 7 : 0;
        memset(out, 0, sizeof out);
        code = check(pylb_share(lb, n, sizeof *row, row, sizeof *out, out, twice, &fail));
        for (int i = 0; i < n && code == PYLB_OK; i++) {
            wrong += out[i] != 2.0 * row[i].value + offset;
        }
        code = code == PYLB_OK ? check(pylb_advise(lb, &rebalance)) : code;
    }
    printf("rank %d: code %d, %d wrong\n", rank, code, wrong);
    if (code == PYLB_OK) {
        code = check(pylb_share(lb, -1, sizeof *row, row, sizeof *out, out, twice, &wrong));
        printf("rank %d: code %d\n", rank, code);
    }
    (void)check(pylb_advisor_close(&lb));
    MPI_Finalize();
    return 0;
}
