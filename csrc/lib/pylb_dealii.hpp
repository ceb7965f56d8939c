/* pylb for codes on deal.II: deal.II says where cells go, pylb says when.
 *
 *     pylb::Advisor lb(MPI_COMM_WORLD);
 *     for (int step = 0; step < n; step++) {
 *         compute(triangulation); // with auto timed = lb.timed(); in the blocks that compute
 *         pylb::repartition(lb, triangulation, weight, prepare_transfer, distribute_dofs_again);
 *     }
 *
 * Make the triangulation with `no_automatic_repartitioning`; else deal.II also repartitions it
 * each time it is refined.  Link with libpylb_mpi and deal.II. */
#ifndef PYLB_DEALII_HPP
#define PYLB_DEALII_HPP

#include <deal.II/distributed/tria.h>

#include "pylb.hpp"

namespace pylb
{

/* End a step, and repartition the triangulation if that pays now.  Collective; call it in place of
 * tria.repartition() at fixed intervals.  weight(cell, status): positive weight of a cell, as for
 * deal.II's signal `weight`, e.g. the microseconds that it took in this step.  before(), after():
 * called before and after cells move, e.g. for a SolutionTransfer and to distribute dofs; their
 * time is a part of the LB step's cost.  Return whether cells may have moved. */
template <int dim, int spacedim, class Weight, class Before, class After>
bool repartition(Advisor &lb, dealii::parallel::distributed::Triangulation<dim, spacedim> &tria,
                 Weight weight, Before before, After after)
{
    if (!lb.advise()) {
        return false;
    }
    const auto rebalancing = lb.rebalancing();
    const boost::signals2::scoped_connection connection = tria.signals.weight.connect(weight);
    before();
    tria.repartition();
    after();
    return true;
}

template <int dim, int spacedim, class Weight>
bool repartition(Advisor &lb, dealii::parallel::distributed::Triangulation<dim, spacedim> &tria,
                 Weight weight)
{
    return repartition(
        lb, tria, weight, [] {}, [] {});
}

} // namespace pylb

#endif
