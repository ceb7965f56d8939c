"""``pylb steer``: balance an MPI program that knows nothing of pylb, through commands of its user.

`libpylb_pmpi`, which is loaded with each rank, writes the time of the rank's work to a file in
memory (`Gauge`).  This process reads these times, and asks an `Advisor` for all ranks.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pylb import console
from pylb.cli.common import PROGRAM, SUMMARY, arg, command, fields, write_json
from pylb.cli.programs import check_program
from pylb.console import note, seconds
from pylb.errors import DomainError
from pylb.lab import units
from pylb.lab.plan import table_of, yaml_of
from pylb.model import checks
from pylb.model.snapshot import F64
from pylb.prediction.recorder import launch
from pylb.run.advisor import Advisor
from pylb.run.experience import entry_of

MOST_RANKS = 1 << 16  # largest number of ranks for which the file has room
SILENCE = 10.0  # seconds without a call of MPI after which a note is printed
LOOKS = 10  # how often the work of the ranks is read in each interval
TRIES = 2  # pylb gives up after this number of successive failures of the user's commands


class SteerPlan(NamedTuple):
    """How to balance a program: the contents of ``steer.yaml``."""

    #: Command that makes the running program redistribute, and waits until this is done.  With
    #: `stop`: command between the end of the program and its next start.
    redistribute: str = ""
    stop: str = ""  #: Command that makes the program write its state and end.
    start: str = ""  #: Command that continues from this state; default: the original command.
    stopped: int = 0  #: Exit code of the program after `stop`.
    #: Seconds from a decision to the next one, in which the program makes several steps.  Only the
    #: first interval has this length; in each later one, the ranks do the same amount of work.
    interval: float = 1.0
    #: Seconds that an LB step is expected to take; None: a trial shows this.
    cost: float | None = None
    waits: bool = True  #: False: `redistribute` does not wait, so `cost` is used for each LB step.
    warmup: float = 0.0  #: Seconds after each start that are not measured.
    limit: float = 600.0  #: Longest time that a command, or the end of the program, may take.

    @classmethod
    def load(cls, path: str) -> SteerPlan:
        times = ("interval", "cost", "warmup", "limit")
        found = None if path == "-" else yaml_of(path)
        try:
            given = dict(table_of("the file", {} if found is None else found, cls._fields))
            given |= {k: units.quantity(units.TIME, k, v) for k, v in given.items() if k in times}
            self = cls(**given)
            for key in ("redistribute", "stop", "start"):
                checks.instance(key, getattr(self, key), str)
            checks.flag("waits", self.waits)
            checks.whole("stopped", self.stopped, 0, "an exit code", 256)
            for key in ("interval", "limit"):
                checks.positive(key, getattr(self, key))
            if not self.waits and (self.cost is None or self.stop or not self.redistribute):
                raise DomainError("waits is no: expected cost, and redistribute without stop")
            if not self.stop and (self.start or self.stopped):
                raise DomainError("start or stopped is given without stop")
        except DomainError as why:
            raise DomainError(f"{path}: {why}") from None
        return self


class Gauge:
    """What each rank of a running program writes: n_ranks, pid, work; `slot_t` in mpi_clock.c."""

    def __init__(self) -> None:
        fd, self.path = tempfile.mkstemp(prefix="pylb-steer-")
        with open(fd, "r+b") as file:
            file.truncate(MOST_RANKS * 64)
            self.slots = np.memmap(file, np.int64, "r", shape=(MOST_RANKS, 8))

    @property
    def n_ranks(self) -> int:
        """Number of ranks of the program; 0 until all of them have called MPI."""
        n = int(self.slots[:, 0].max())
        return n if n and self.slots[:n, 0].all() else 0

    def work(self) -> F64:
        """Return (n_ranks,) the seconds that each rank has worked until its last call of MPI."""
        return np.asarray(self.slots[: self.n_ranks, 2] * 1e-9, np.float64)


class Steering:
    """A program that is run, measured and balanced."""

    def __init__(self, plan: SteerPlan, command: list[str]) -> None:
        self.plan, self.lb = plan, None  # type: SteerPlan, Advisor | None
        self.command = command
        self.began = time.monotonic()
        self.failures = 0  # number of successive failures
        self.given_up = False  # whether there are no more LB steps
        self.stops = False  # whether the running program was asked to stop
        self.stop_began = 0.0  # when it was asked to stop; 0: the LB step is over
        self.last: F64 | None = None  # work of each rank at the beginning of the interval
        # Mean work of the ranks in an interval, in seconds.  Intervals of constant work correspond
        # to steps of the program: after a good LB step, they are shorter.
        self.amount = 0.0

    def run(self) -> int:
        """Run the command, perhaps several times; return the last exit code."""
        command = self.command
        while True:
            gauge, self.stops = Gauge(), False
            try:
                words = launch.preloading(command, "_pmpi", [f"PYLB_STEER={gauge.path}"])
                with subprocess.Popen(words) as child, launch.signals_end(child) as came:
                    self._watch(child, gauge)
            finally:
                os.unlink(gauge.path)
            code = child.returncode if child.returncode >= 0 else 128 - child.returncode
            if came or not self.stops or code != self.plan.stopped:
                return code
            if self.plan.redistribute:
                self._call("redistribute", {})
            command = shlex.split(self.plan.start) or command

    def _watch(self, child: subprocess.Popen[bytes], gauge: Gauge) -> None:
        """Measure the program, and balance it, until it ends."""
        started, told = time.monotonic(), False
        while not gauge.n_ranks:
            if not _runs(child, min(self.plan.interval, 0.05)):
                return
            if not told and time.monotonic() - started > SILENCE:
                told = True
                note(
                    f"no rank has called MPI for {SILENCE:.0f} s: expected a program of MPI whose "
                    "ranks all run on this machine, with an MPI that is not linked statically"
                )
        if not _runs(child, self.plan.warmup):
            return
        self._begin(gauge)
        began = time.monotonic()
        while _runs(child, self.plan.interval / LOOKS):
            now = gauge.work()
            assert self.lb is not None
            assert self.last is not None
            load = np.maximum(now - self.last, 0.0)
            spent = float(load.mean())
            if not self.amount and time.monotonic() - began >= self.plan.interval:
                self.amount = spent
            if len(now) != self.lb.n_ranks or not 0 < self.amount <= spent:
                continue
            self.last = now
            advice = self.lb.advise(seconds=load * (self.amount / spent))
            if advice and not (self.given_up or self.stops):
                self._rebalance(child, gauge, load)

    def _begin(self, gauge: Gauge) -> None:
        """Begin to measure a program that has just started; after `stop`, this ends the LB step."""
        n = gauge.n_ranks
        if self.lb is None:
            acts = self.plan.redistribute or self.plan.stop
            self.lb = Advisor(ranks=n, cost=self.plan.cost, mode="on" if acts else "off")
            if experience := self.lb._state.options.experience:
                experience.entry = entry_of(f"{shlex.join(self.command)}, steer", n)
        elif n != self.lb.n_ranks:
            self.given_up, before = True, self.lb.n_ranks
            note(f"no more LB steps: the program has {n} ranks after its restart, {before} before")
        elif self.stop_began:
            self.lb.rebalanced(time.monotonic() - self.stop_began)
        self.stop_began = 0.0
        self.last = gauge.work()

    def _rebalance(self, child: subprocess.Popen[bytes], gauge: Gauge, load: F64) -> None:
        """Call the user's command; after `stop`, the LB step lasts until the restart (`_begin`)."""
        began, plan = time.monotonic(), self.plan
        ranks = {
            "PYLB_PIDS": " ".join(map(str, gauge.slots[: gauge.n_ranks, 1].tolist())),
            "PYLB_SECONDS": " ".join(f"{x:.6g}" for x in load),
        }
        done = self._call("stop" if plan.stop else "redistribute", ranks)
        if plan.stop and done:
            self.stops, self.stop_began = True, began
            if _runs(child, plan.limit):
                self._failed(f"the program has not ended {seconds(plan.limit)} after stop")
        elif done and self.lb is not None:
            spent = time.monotonic() - began if plan.waits else plan.cost
            self.lb.rebalanced(spent)  # type: ignore[arg-type]
        self.last = gauge.work()

    def _call(self, name: str, env: Mapping[str, str]) -> bool:
        """Run a command of the user; say whether it succeeded."""
        command, limit = getattr(self.plan, name), self.plan.limit
        words, environment = ["sh", "-c", command], {**os.environ, **env}
        with subprocess.Popen(words, env=environment, start_new_session=True) as child:
            try:
                code = child.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                return self._failed(f"{name}: {command!r} took longer than {seconds(limit)}")
        if code:
            return self._failed(f"{name}: {command!r} has failed with exit code {code}")
        self.failures = 0
        return True

    def _failed(self, why: str) -> bool:
        self.failures += 1
        self.given_up |= self.failures == TRIES
        note(why + "; no more LB steps" * (self.failures == TRIES))
        return False

    def summary(self) -> dict[str, Any]:
        """Return the measurements under the names of a report; an iteration is an interval."""
        took = {"seconds": time.monotonic() - self.began}
        if self.lb is None:
            return {"n_ranks": 0, "iterations": 0, **took}
        self.lb.finish()
        report = self.lb.report()
        keys = "n_ranks iterations mean_max_over_mean idle_mean n_lb_steps lb_cost"
        gain = sum(r.gain for r in self.lb.history.lb_steps if r.gain == r.gain)
        return fields(report, keys) | took | {"saved": gain - report.lb_cost}


def _runs(child: subprocess.Popen[bytes], wait: float) -> bool:
    """Wait for the end of the child; say whether it still runs."""
    try:
        child.wait(wait)
    except subprocess.TimeoutExpired:
        return True
    return False


@command(
    "run an MPI program that knows nothing of pylb, and call commands that balance it",
    arg("plan FILE", "a file that says which commands redistribute; -: none, only measure"),
    SUMMARY,
    PROGRAM,
)
def steer(args: argparse.Namespace) -> int:
    """pylb steer steer.yaml -- mpiexec -n 4 ./a.out
    pylb steer - -- mpiexec -n 4 ./a.out        (only measure what balancing would save)

    steer.yaml, for a program that redistributes when there is a file, and deletes it afterwards:
    redistribute: touch balance; while [ -e balance ]; do sleep 0.1; done
    for a program that can only be started again, from a file that it has written:
    stop: touch stop
    start: mpiexec -n 4 ./a.out --restart
    """
    plan = SteerPlan.load(args.plan)
    check_program(args.command[0])
    steering = Steering(plan, args.command)
    code = steering.run()
    told = steering.summary()
    write_json(args, {**told, "exit_code": code})
    if not told["iterations"]:
        note("no interval was measured: the program has ended too early, or does not use MPI")
        return code
    words = f"{told['n_ranks']} ranks, {seconds(told['seconds'])}, max/mean "
    words += f"{told['mean_max_over_mean']:.2f}: a rank waited for {seconds(told['idle_mean'])}"
    if told["n_lb_steps"]:
        saved = seconds(told["saved"]) if told["saved"] > 0 else "nothing"
        words += f"; {console.count(told['n_lb_steps'], 'LB step')} saved {saved} more than their "
        words += f"cost of {seconds(told['lb_cost'])}"
    elif not (plan.redistribute or plan.stop):
        words += ", which balancing would have saved, apart from its own cost"
    note(words)
    return code
