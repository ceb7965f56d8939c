"""Efficiencies of a run, as defined by POP and reported by TALP (of BSC's DLB).

"Useful" is the computing time of a rank in a region; "elapsed" is the time of the region:

    parallel efficiency      = mean useful / elapsed
    load balance             = mean useful / max useful
    communication efficiency = max useful / elapsed

The first is the product of the other two.  A region is the whole run ("Global" in TALP), or the
iterations from one LB step to the next.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from pylb._version import __version__
from pylb.show.course import Course

WHOLE = "Global"


class Region(NamedTuple):
    """Efficiencies of some iterations."""

    name: str
    first: int
    iterations: int
    elapsed: float  # seconds, including the LB steps at the end of its iterations
    useful: float  # computing seconds, sum over the ranks
    max_useful: float  # computing seconds of the rank that computed longest
    parallel_efficiency: float
    load_balance: float
    communication_efficiency: float
    # Sum of the iterations' mean loads / sum of their maximum loads.  If a different rank is slow
    # in each iteration, this counts as imbalance here, but as communication above.
    of_iterations: float


def regions(course: Course) -> list[Region]:
    """Return the whole run and, if it had LB steps, the iterations between them."""
    m = course.n_iterations
    cuts = sorted({0, m, *(i + 1 for i in course.lb_step_iterations if 0 <= i + 1 < m)})
    out = [_region(course, WHOLE, 0, m)]
    if len(cuts) > 2:
        out += [_region(course, f"iterations {a}-{b - 1}", a, b) for a, b in pairwise(cuts)]
    return out


def _region(course: Course, name: str, first: int, end: int) -> Region:
    part = slice(first, end)
    useful = course.times[part].sum(axis=0)
    elapsed = float(course.elapsed[part].sum() + course.step_seconds[part].sum())
    if end - first == course.n_iterations:
        elapsed = course.seconds
    mean, most = float(useful.mean()), float(useful.max())
    pairs = (mean, elapsed), (mean, most), (most, elapsed)
    parallel, balance, communication = (_ratio(*pair) for pair in pairs)
    of_iterations = _ratio(float(course.mean[part].sum()), float(course.max[part].sum()))
    efficiencies = (parallel, balance, communication, of_iterations)
    return Region(name, first, end - first, elapsed, float(useful.sum()), most, *efficiencies)


def _ratio(part: float, whole: float) -> float:
    """Return part / whole; 1 if `whole` is 0, because no rank waits then."""
    return part / whole if whole > 0 else 1.0


def talp(course: Course) -> dict[str, Any]:
    """Return the regions in the JSON format of TALP (DLB 3.5), with times in nanoseconds.

    Data that pylb does not measure are absent: version of DLB, instructions, cycles, MPI calls.
    What TALP does not have, e.g. the title of the run, is under ``pylb``.
    """
    p, application = course.n_ranks, {}
    cpus = {"numCpus": p, "numMpiRanks": p}
    for r in regions(course):
        seconds = {
            "elapsedTime": r.elapsed,
            "usefulTime": r.useful,
            "mpiTime": max(r.elapsed * p - r.useful, 0.0),
            "usefulNormdApp": r.useful / p,
            "mpiNormdApp": max(r.elapsed - r.useful / p, 0.0),
            "maxUsefulNormdProc": r.max_useful,
        }
        application[r.name] = {
            **cpus,
            "avgCpus": float(p),
            "numMeasurements": r.iterations,
            **{name: round(1e9 * time) for name, time in seconds.items()},
            "parallelEfficiency": r.parallel_efficiency,
            "mpiParallelEfficiency": r.parallel_efficiency,
            "mpiCommunicationEfficiency": r.communication_efficiency,
            "mpiLoadBalance": r.load_balance,
            "pylb": {
                "firstIteration": r.first,
                "loadBalanceOfIterations": r.of_iterations,
                "maxOverMean": 1.0 / r.of_iterations if r.of_iterations > 0 else None,
            },
        }
    return {
        "producer": f"pylb {__version__}",
        "resources": cpus,
        "Application": application,
        "pylb": {"title": course.title},
    }
