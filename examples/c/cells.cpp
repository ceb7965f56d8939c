/* Cells of different weight; pylb says when to rebalance, and gives cells to other ranks.
 *
 *     mpicxx -std=c++17 cells.cpp $(pkg-config --cflags --libs pylb_mpi) -o cells
 *     mpiexec -n 4 ./cells
 */
#include <mpi.h>
#include <pylb.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

static void check(int code)
{
    if (code != PYLB_OK) {
        throw std::runtime_error(pylb_error());
    }
}

/* An advisor that closes itself, on all ranks at the same place. */
class Advisor {
  public:
    explicit Advisor(MPI_Comm comm) { check(pylb_advisor_create_mpi(comm, &lb)); }
    ~Advisor()
    {
        if (pylb_advisor_close(&lb) != PYLB_OK) {
            std::fprintf(stderr, "pylb: %s\n", pylb_error());
        }
    }
    Advisor(const Advisor &) = delete;
    Advisor &operator=(const Advisor &) = delete;
    operator pylb_advisor *() const { return lb; }

  private:
    pylb_advisor *lb = nullptr;
};

/* Return the items of the cells that this rank has after the plan; from: one item for each cell. */
template <class T> std::vector<T> migrated(pylb_plan *plan, const std::vector<T> &from)
{
    std::vector<T> to(static_cast<size_t>(pylb_plan_n(plan)));
    check(pylb_plan_migrate(plan, from.data(), sizeof(T), to.data()));
    return to;
}

static void run(int rank)
{
    const int n = 32; /* cells of each rank at the beginning */
    std::vector<int64_t> key;
    for (int i = 0; i < n; i++) {
        key.push_back(rank * n + i);
    }
    std::vector<double> value(key.size(), 1.0);
    Advisor lb(MPI_COMM_WORLD);
    for (int step = 0; step < 100; step++) {
        std::vector<double> load(key.size());
        for (size_t i = 0; i < key.size(); i++) {
            const double begin = pylb_seconds(lb);
            const int work = key[i] < n / 2 ? 20000 : 1000; /* some cells have more to do */
            for (int k = 0; k < work; k++) {
                value[i] = std::cos(value[i]);
            }
            load[i] = pylb_seconds(lb) - begin;
        }
        pylb_cells cells;
        pylb_cells_init(&cells);
        cells.n = static_cast<int64_t>(key.size());
        cells.load = load.data();
        cells.key = key.data();
        pylb_plan *plan = nullptr;
        check(pylb_advise_cells(lb, &cells, &plan));
        if (plan != nullptr) {
            check(pylb_rebalance_begin(lb));
            value = migrated(plan, value);
            key = migrated(plan, key);
            check(pylb_rebalance_end(lb));
        }
    }
    int64_t lb_steps = 0, mine[1] = {static_cast<int64_t>(key.size())}, all[1];
    double here = 0.0, sum;
    for (double x : value) {
        here += x;
    }
    check(pylb_advisor_counts(lb, nullptr, &lb_steps));
    MPI_Reduce(mine, all, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&here, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        std::printf("%d cells, %d LB steps, sum %.6f\n", static_cast<int>(all[0]),
                    static_cast<int>(lb_steps), sum);
    }
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    run(rank);
    MPI_Finalize();
}
