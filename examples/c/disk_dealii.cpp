/* A mesh of deal.II: pylb says when, deal.II says where cells go.  A disk moves through the mesh;
 * cells in it have ten times as much to do.  With Debian's libdeal.ii-dev, after `make install`:
 *   mpicxx -std=c++17 -DOMPI_SKIP_MPICXX=1 -isystem /usr/include/trilinos disk_dealii.cpp \
 *       $(pkg-config --cflags --libs pylb_mpi) -Wl,-rpath,$HOME/pylb/lib -ldeal.ii -ltbb \
 *       -ltrilinos_teuchoscomm -ltrilinos_teuchosparameterlist -ltrilinos_teuchoscore -o disk
 *   mpiexec -n 4 ./disk */
#include <cmath>
#include <cstdio>

#include <mpi.h>

#include <deal.II/base/mpi.h>
#include <deal.II/distributed/tria.h>
#include <deal.II/grid/grid_generator.h>

#include <pylb_dealii.hpp>

using Mesh = dealii::parallel::distributed::Triangulation<2>;

const int steps = 60;

int work_of(const dealii::Point<2> &centre, int step)
{
    const double angle = 6.28 * step / steps;
    const dealii::Point<2> disk(0.5 + 0.3 * std::cos(angle), 0.5 + 0.3 * std::sin(angle));
    return centre.distance(disk) < 0.2 ? 10 : 1;
}

double compute(const Mesh &mesh, int step)
{
    double sum = 0.0;
    for (const auto &cell : mesh.active_cell_iterators()) {
        if (cell->is_locally_owned()) {
            for (int i = 2000 * work_of(cell->center(), step); i > 0; i--) {
                sum += std::sqrt(i);
            }
        }
    }
    return sum;
}

int main(int argc, char **argv)
{
    dealii::Utilities::MPI::MPI_InitFinalize mpi(argc, argv, 1);
    Mesh mesh(MPI_COMM_WORLD, dealii::Triangulation<2>::none, Mesh::no_automatic_repartitioning);
    dealii::GridGenerator::hyper_cube(mesh);
    mesh.refine_global(6);
    mesh.repartition();
    pylb::Advisor lb(MPI_COMM_WORLD);
    int made = 0;
    double sum = 0.0;
    for (int step = 0; step < steps; step++) {
        {
            const auto timed = lb.timed();
            sum += compute(mesh, step);
        }
        made += pylb::repartition(lb, mesh, [step](const auto &cell, auto) {
            return static_cast<unsigned int>(work_of(cell->center(), step));
        });
    }
    if (dealii::Utilities::MPI::this_mpi_process(MPI_COMM_WORLD) == 0) {
        std::printf("%d LB steps in %d steps\n", made, steps);
    }
    return sum > 0.0 ? 0 : 1;
}
