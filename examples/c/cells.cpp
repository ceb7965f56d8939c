/* Cells of different weight; pylb says when to rebalance, and gives cells to other ranks.
 *
 *     mpicxx -std=c++17 cells.cpp $(pkg-config --cflags --libs pylb_mpi) -o cells
 *     mpiexec -n 4 ./cells
 */
#include <mpi.h>
#include <pylb.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

static void run(int rank)
{
    const int n = 32; /* cells of each rank at the beginning */
    std::vector<int64_t> key;
    for (int i = 0; i < n; i++) {
        key.push_back(rank * n + i);
    }
    std::vector<double> value(key.size(), 1.0);
    pylb::Advisor lb(MPI_COMM_WORLD);
    for (int step = 0; step < 100; step++) {
        std::vector<double> load;
        for (size_t i = 0; i < key.size(); i++) {
            const double begin = lb.seconds();
            const int work = key[i] < n / 2 ? 20000 : 1000; /* some cells have more to do */
            for (int k = 0; k < work; k++) {
                value[i] = std::cos(value[i]);
            }
            load.push_back(lb.seconds() - begin);
        }
        pylb::Cells cells;
        cells.load = load;
        cells.key = key;
        if (auto plan = lb.advise(cells)) {
            auto rebalancing = lb.rebalancing();
            value = plan.migrate(value);
            key = plan.migrate(key);
        }
    }
    int64_t lb_steps = 0, mine = static_cast<int64_t>(key.size()), all = 0;
    double here = 0.0, sum = 0.0;
    for (double x : value) {
        here += x;
    }
    pylb::check(pylb_advisor_counts(lb, nullptr, &lb_steps)); /* every function of pylb.h */
    MPI_Reduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&here, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        std::printf("%d cells, %d LB steps, sum %.6f\n", static_cast<int>(all),
                    static_cast<int>(lb_steps), sum);
    }
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    try {
        run(rank);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
