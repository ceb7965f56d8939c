/* Columns of an atmosphere: clouds make some expensive, and the clouds move.  The state of a
 * column stays on its rank; pylb_share lends the work where that saves time.
 *
 *     mpicc -O2 columns.c $(pkg-config --cflags --libs pylb_mpi) -lm -o columns
 *     mpiexec -n 4 ./columns
 *     PYLB_MODE=off mpiexec -n 4 ./columns       # without lending: the same checksum */
#include <math.h>
#include <mpi.h>
#include <pylb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 64, COLUMNS = 200, STEPS = 20 };

typedef struct column {
    double cloud, temperature[LEVELS];
} column_t;

/* Advance columns: a cloud needs many small steps, clear air few. */
static int microphysics(int64_t n, const void *in, void *out, void *user)
{
    const column_t *before = in;
    column_t *after = out;
    (void)user;
    for (int64_t i = 0; i < n; i++) {
        double t[LEVELS];
        after[i] = before[i];
        for (int k = 0; k < 20 + 2000 * (before[i].cloud > 0.5); k++) {
            memcpy(t, after[i].temperature, sizeof t);
            for (int z = 0; z < LEVELS; z++) {
                const double below = t[(z + LEVELS - 1) % LEVELS], above = t[(z + 1) % LEVELS];
                after[i].temperature[z] = t[z] + 1e-3 * (below - 2.0 * t[z] + above);
            }
        }
    }
    return 0;
}

static void check(int code)
{
    if (code != PYLB_OK) {
        fprintf(stderr, "%s\n", pylb_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    static column_t column[COLUMNS], result[COLUMNS];
    pylb_advisor *lb;
    int rank, size;
    double sum = 0.0, total;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
    for (int i = 0; i < COLUMNS; i++) {
        for (int z = 0; z < LEVELS; z++) {
            column[i].temperature[z] = sin((double)(z * (rank * COLUMNS + i + 1)));
        }
    }
    const double begin = MPI_Wtime();
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < COLUMNS; i++) { /* a front that covers 15 % of the columns */
            const double place = (double)(rank * COLUMNS + i) / (COLUMNS * size);
            const double behind = (double)step / STEPS - place;
            column[i].cloud = behind - floor(behind) < 0.15 ? 1.0 : 0.0;
        }
        check(pylb_share(lb, COLUMNS, sizeof *column, column, sizeof *result, result, microphysics,
                         NULL));
        memcpy(column, result, sizeof column);
    }
    const double seconds = MPI_Wtime() - begin;
    for (int i = 0; i < COLUMNS; i++) {
        for (int z = 0; z < LEVELS; z++) {
            sum += fabs(column[i].temperature[z]);
        }
    }
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("checksum %.9f; %.2f s\n", total, seconds);
    }
    check(pylb_advisor_close(&lb));
    MPI_Finalize();
    return 0;
}
