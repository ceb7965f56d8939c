/* What pylb.hpp throws: each line that is printed is an exception.  With CASE "rows": a function
 * of rows that throws on one rank. */
#include <mpi.h>
#include <pylb.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

static int rank = -1;

template <class Fn> static void thrown(Fn fn)
{
    try {
        fn();
        std::printf("rank %d: nothing\n", rank);
    } catch (const pylb::Error &error) {
        std::printf("rank %d: %d %s\n", rank, error.code, error.what());
    } catch (const std::exception &error) {
        std::printf("rank %d: own %s\n", rank, error.what());
    }
    std::fflush(stdout);
}

/* One mistake, on rank 0 where nothing else is said; all ranks call it. */
static void mistakes()
{
    const std::vector<double> good(2, rank == 0 ? 3.0 : 1.0),
        nan{1.0, std::numeric_limits<double>::quiet_NaN()};
    const std::array<int64_t, 2> key{2 * rank, 2 * rank + 1};
    const std::vector<int64_t> one(1);
    pylb::Advisor lb(MPI_COMM_WORLD);
    lb.set("clock", "none");
    lb.set("every", "1");
    thrown([] { pylb::Advisor none(MPI_COMM_NULL); });
    thrown([&] { lb.set("stratagy", "auto"); });
    thrown([&] { lb.work(-1.0); });
    pylb::Cells cells;
    cells.load = rank == 0 ? nan : good;
    thrown([&] { (void)lb.advise(cells); });
    cells.load = good;
    if (pylb::inherit(good, one, one, 1) != std::vector<double>(1, good[0])) {
        std::printf("rank %d: other loads\n", rank);
    }
    thrown([&] { pylb::inherit(good, one, key, 1); });
    cells.key = {key.data(), key.size()};
    if (rank == 0) {
        cells.nbytes = one;
    }
    thrown([&] { (void)lb.advise(cells); });
    cells.nbytes = {};
    if (pylb::Plan plan = lb.advise(cells)) {
        thrown([&] { plan.migrate(rank == 0 ? std::vector<double>{} : good); });
        std::vector<double> came;
        thrown([&] { plan.migrate_begin(rank == 0 ? std::vector<double>{} : good, came); });
        plan.migrate_begin(good, came);
        plan.migrate_end();
        thrown([&] {
            plan.migrate_end();
            came.clear();
        });
        if (came != plan.migrate(good)) {
            std::printf("rank %d: other values\n", rank);
        }
        pylb::Plan other(std::move(plan));
        thrown([&] { plan.migrate(good); });
        thrown([&] { plan.rank(); });
        std::printf("rank %d: %zu ranks\n", rank, other.rank().size);
    }
    pylb::Advisor next(std::move(lb));
    thrown([&] { (void)lb.advise(); });
    thrown([&] { lb.seconds(); });
    thrown([&] { auto timed = lb.timed(); });
    next.close();
    thrown([&] { (void)next.advise(); });
    thrown([&] { next.share(good, [](double x) { return 2.0 * x; }); });
}

/* Rank 0 computes a row that throws; then no rank can go on. */
static void rows()
{
    pylb::Advisor lb(MPI_COMM_WORLD);
    std::vector<float> row(100, 1.0f);
    const double more = 0.5;
    const auto sum = lb.share(row, [&](float x) { return x + more; });
    std::printf("rank %d: %g %g\n", rank, sum.front(), sum.back());
    thrown([&] {
        for (int i = 0; i < 10; i++) {
            lb.share(row, [](float x) {
                return rank == 0 ? throw std::domain_error("no such row") : x;
            });
            (void)lb.advise();
        }
    });
}

int main(int argc, char **argv)
{
    thrown([] { pylb::Advisor early(MPI_COMM_WORLD); });
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pylb::Advisor late(MPI_COMM_WORLD); /* MPI_Finalize closes it */
    argc > 1 && std::strcmp(argv[1], "rows") == 0 ? rows() : mistakes();
    MPI_Finalize();
    thrown([&] { (void)late.advise(); });
}
