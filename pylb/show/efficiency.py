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
from typing import Any

from pylb._version import __version__
from pylb.show.course import Course


def regions(course: Course) -> list[dict[str, Any]]:
    """Return the whole run and, if it had LB steps, the iterations between them."""
    m = course.n_iterations
    cuts = sorted({0, m, *(i + 1 for i in course.lb_step_iterations if 0 <= i + 1 < m)})
    out = [_region(course, "Global", 0, m)]
    if len(cuts) > 2:
        out += [_region(course, f"iterations {a}-{b - 1}", a, b) for a, b in pairwise(cuts)]
    return out


def _region(course: Course, name: str, first: int, end: int) -> dict[str, Any]:
    part = slice(first, end)
    useful = course.times[part].sum(axis=0)
    elapsed = float(course.elapsed[part].sum() + course.step_seconds[part].sum())
    if end - first == course.n_iterations:
        elapsed = course.seconds
    mean, most = float(useful.mean()), float(useful.max())
    return {
        "name": name,
        "first": first,
        "iterations": end - first,
        "elapsed": elapsed,  # seconds, including the LB steps at the end of its iterations
        "useful": float(useful.sum()),  # computing seconds, sum over the ranks
        "max_useful": most,  # computing seconds of the rank that computed longest
        "parallel_efficiency": _ratio(mean, elapsed),
        "load_balance": _ratio(mean, most),
        "communication_efficiency": _ratio(most, elapsed),
        # Sum of the iterations' mean loads / sum of their maximum loads.  If a different rank is
        # slow in each iteration, this counts as imbalance here, but as communication above.
        "of_iterations": _ratio(float(course.mean[part].sum()), float(course.max[part].sum())),
    }


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
            "elapsedTime": r["elapsed"],
            "usefulTime": r["useful"],
            "mpiTime": max(r["elapsed"] * p - r["useful"], 0.0),
            "usefulNormdApp": r["useful"] / p,
            "mpiNormdApp": max(r["elapsed"] - r["useful"] / p, 0.0),
            "maxUsefulNormdProc": r["max_useful"],
        }
        application[r["name"]] = {
            **cpus,
            "avgCpus": float(p),
            "numMeasurements": r["iterations"],
            **{name: round(1e9 * time) for name, time in seconds.items()},
            "parallelEfficiency": r["parallel_efficiency"],
            "mpiParallelEfficiency": r["parallel_efficiency"],
            "mpiCommunicationEfficiency": r["communication_efficiency"],
            "mpiLoadBalance": r["load_balance"],
            "pylb": {
                "firstIteration": r["first"],
                "loadBalanceOfIterations": r["of_iterations"],
                "maxOverMean": 1.0 / r["of_iterations"] if r["of_iterations"] > 0 else None,
            },
        }
    return {
        "producer": f"pylb {__version__}",
        "resources": cpus,
        "Application": application,
        "pylb": {"title": course.title},
    }
