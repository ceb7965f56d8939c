"""Ranks of equal speed are recognised: random programs whose loads depend on the placement.

    python benchmarks/like.py [--programs 200] [--clusters 24] [--first 0] [--phases] [--quick]

Three parts are measured:

like: programs on identical ranks, in a plain simulation (common/like_programs.py) and under
`pylb.Balancer` on a `pylb.VirtualCluster`.  The result is the number of programs in which a learned
speed was ever wrong by more than 5 %.  With `--phases`, only this part is measured, with programs
of two and three phases, of which the last one on clusters is that of a device.

unlike: the same programs, but some ranks are 1.5 to 4 times slower.  The results are the number of
placements until the speeds are known, and the error of the speeds at the end.

time: the processor time of one observation.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from common import like_programs as lp
from common.figures import check

from pylb.measure.monitor import SpeedLearner

LIMIT = 0.05


def like(first: int, n: int, draw: Any, verdicts: list[dict[str, Any]]) -> None:
    """Count the programs on identical ranks in which a wrong speed was learned."""
    programs = map(draw, range(first, first + n))
    wrong = [program.name for program in programs if lp.worst_off(program) > LIMIT]
    for name in wrong:
        print(f"  {name}")
    check(f"{len(wrong)} of {n} programs learned a wrong speed (0)", not wrong, verdicts)


def clusters(first: int, n: int, verdicts: list[dict[str, Any]]) -> None:
    """Count the programs in which `Balancer` learned a wrong speed, on virtual clusters."""
    wrong = 0
    for seed in range(first, first + n):
        speeds, _ = lp.run_on_cluster(lp.draw(seed))
        wrong += max((lp.off(np.array(s)) for s in speeds if s), default=0.0) > LIMIT
    check(f"{wrong} of {n} programs on clusters learned a wrong speed (0)", wrong == 0, verdicts)


def phases(first: int, n: int, verdicts: list[dict[str, Any]]) -> None:
    """Do the same as `clusters` for programs with phases."""
    wrong = 0
    for seed in range(first, first + n):
        told = lp.speeds_of_phases(lp.draw_phases(seed))
        every = [v for speed in told if speed is not None for v in np.atleast_2d(speed.T)]
        wrong += max(map(lp.off, every), default=0.0) > LIMIT
    check(f"{wrong} of {n} programs on clusters learned a wrong speed (0)", wrong == 0, verdicts)


def unlike(n: int, verdicts: list[dict[str, Any]]) -> None:
    """Count the placements until the speeds of unlike ranks are known."""
    after, off = [], []
    for seed in range(n):
        program, speed = lp.draw_unlike(seed)
        placements, last, known = 0, np.empty(0), 0
        for seen in lp.simulate(program, speed):
            placements += not np.array_equal(last, seen.rank)
            last = seen.rank.copy()
            known = known or placements * (seen.speed is not None)
        if known:
            after.append(known)
            off.append(lp.off(seen.speed, speed))
    print(f"speeds become known in {len(after)} of {n} programs (the others hardly move objects")
    print(f"  or have loads that change more) after {np.median(after):.0f} placements (median),")
    print(
        f"  {np.percentile(after, 90):.0f} (nine in ten); the worst speed is then off by", end=" "
    )
    print(f"{100.0 * np.median(off):.1f} % (median)")
    check(f"{len(after)} of {n} are learned (70 %)", len(after) >= 0.7 * n, verdicts)


def seconds_each(n: int, p: int, moving: float) -> float:
    """Measure the time to observe n objects on p ranks, with eight placements remembered."""
    rng = np.random.default_rng(1)
    speed, work = np.exp(rng.uniform(np.log(0.25), 0.0, p)), np.exp(rng.normal(0.0, 1.0, n))
    key, rank, learner = np.arange(n), (np.arange(n) * p // n).astype(np.int32), SpeedLearner(p)
    took = []
    for _ in range(20):
        seconds = work / speed[rank] * np.exp(0.2 * rng.standard_normal(n))
        begin = time.process_time()
        learner.observe(key, rank, seconds)
        took.append(time.process_time() - begin)
        moves = rng.random(n) < moving
        rank = np.where(moves, rng.integers(0, p, n), rank).astype(np.int32)
    return float(np.median(took[10:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--programs", type=int, default=200, help="programs on equal ranks (%(default)s)"
    )
    parser.add_argument(
        "--clusters", type=int, default=24, help="programs in the runtime (%(default)s)"
    )
    parser.add_argument("--first", type=int, default=0, help="first seed (%(default)s)")
    parser.add_argument("--phases", action="store_true", help="programs with phases only")
    parser.add_argument("--quick", action="store_true", help="run a tenth of the programs")
    args = parser.parse_args()
    part = 10 if args.quick else 1
    verdicts: list[dict[str, Any]] = []
    like(args.first, args.programs // part, lp.draw_phases if args.phases else lp.draw, verdicts)
    if args.phases:
        phases(args.first, args.clusters // part, verdicts)
        return
    clusters(args.first, args.clusters // part, verdicts)
    unlike(args.programs // part, verdicts)
    for n, p in ((1_000, 10), (10_000, 100), (100_000, 1000)):
        few, all_ = (1e3 * seconds_each(n, p, moving) for moving in (0.1, 1.0))
        print(
            f"{n:6d} objects, {p:4d} ranks: {few:.2f} ms if a tenth moves, {all_:.2f} ms if all do"
        )


if __name__ == "__main__":
    main()
