"""Run a command in a lab, and always clean up afterwards."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from pylb import files
from pylb.comm.mpiexec import insert_before_programs, is_mpiexec, n_ranks
from pylb.errors import DomainError, StateError
from pylb.lab import state
from pylb.lab.cgroup import Groups, control, parents
from pylb.lab.network import HostNetwork
from pylb.lab.plan import SLACK, Change, LabPlan, Limit, Profile, Usage
from pylb.model import checks

PROGRAM = [sys.executable, "-I", "-S", str(Path(__file__).with_name("programs.py"))]
BEAT_US = 500  # microseconds between two checks of the quotas; the checks take 3 to 5 % of a core
STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PAUSE = 0.002  # seconds between two checks of memory; a fast disk reads some 2 MB in this time
GRACE = 5.0  # seconds between asking the command to end and killing it
TYPED = 2.0  # seconds before SIGINT is passed on to the command, see `_ended_by_signals`


class Lab:
    """Limits for each rank of a command: its share of a core, memory and network.

    Parameters
    ----------
    plan : LabPlan or iterable of float
        The description of the lab, or the number of cores of each rank; this list repeats if there
        are more ranks.
    period_us : int, optional
        See `LabPlan.period_us`.  Default: 5 ms; longer for shares below 0.2.

    Examples
    --------
    >>> with pylb.lab.Lab([0.25, 0.5]) as lab:  # doctest: +SKIP
    ...     code = lab.run(["mpiexec", "-n", "4", "python", "prog.py"])
    ...     usage = lab.usage()
    """

    def __init__(self, plan: LabPlan | Iterable[float], *, period_us: int | None = None) -> None:
        if not isinstance(plan, LabPlan):
            shares = checks.several("plan", plan, "a pylb.lab.LabPlan, or a share for each rank")
            plan = LabPlan(tuple(map(Profile, shares)))
        if period_us is not None:
            period_us = checks.whole("period_us", period_us, 1, "microseconds")
            plan = plan._replace(period_us=period_us)
        plan.check()
        self.plan = plan  #: The description of the lab, with the changes that were made so far.
        self.limits, self._n_ranks = plan.limits(), None  # type: list[Limit], int | None
        self.seconds = 0.0  #: Wall time of the last command.
        self.done: list[Done] = []  #: Changes that were made during the last command.
        self.network: HostNetwork | None = None
        where = parents(
            Path("/proc/self/mountinfo").read_text(),
            Path("/proc/self/cgroup").read_text(),
            plan.needs_memory,
        )
        #: What the lab uses, what this machine cannot provide, what killed labs have left.
        self.notes = state.remove_stale()
        self._state = state.State()
        self._limits_file = self._state.folder / "limits.json"
        try:
            if plan.needs_memory:
                self.notes.append(state.swap_on(self._state, plan.swap))
            if plan.hosts:
                self.network = HostNetwork(self._state, plan.hosts)
                self.notes += self.network.notes
            # The last entry in the journal: processes end before what they use is removed.
            self._groups = Groups(self._state, where, plan.needs_memory)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all remaining processes and clean up; may be called twice."""
        self.notes += self._state.remove()

    # ---- the command ---------------------------------------------------------------------------

    def held(self, command: Sequence[str]) -> list[str]:
        """Return `command`, changed so that each program first moves into the group of its rank."""
        if not command or isinstance(command, str):
            what = repr(command) if command else "empty"
            raise DomainError(f"command is {what}: expected a program and its arguments, a list")
        if is_mpiexec(command[0]):
            words = insert_before_programs(command, self._join("rank"))
            words = [*self._join("rest"), *words]
        elif len(self.plan.nodes) > 1:
            n, expected = len(self.plan.nodes), "one limit, or mpiexec or mpirun and a program"
            raise DomainError(f"{n} limits for {command[0]!r}: expected {expected}")
        else:
            words = [*self._join("rank"), *command]
        return self.network.entered(self.plan.hosts[0].name, words) if self.network else words

    def _join(self, name: str) -> list[str]:
        bases = ":".join(map(str, self._groups.bases))
        return [*PROGRAM, "join", bases, name, str(self._limits_file)]

    def _divide(self, n_ranks: int | None) -> None:
        self._n_ranks = n_ranks
        self._follow(self.plan.expanded(n_ranks))

    def _follow(self, plan: LabPlan) -> None:
        """Take the plan, and write the limits for ranks that start from now on."""
        self.limits, self.plan = plan.limits(self._n_ranks), plan
        limits = [control(limit) for limit in self.limits]
        known: dict[str, Any] = {"ranks": limits}
        if plan.hosts:
            known = {"hosts": dict(zip([host.name for host in plan.hosts], limits, strict=True))}
        files.write_text(self._limits_file, json.dumps(known))

    def run(self, command: Sequence[str]) -> int:
        """Run a command and return its exit code, or 128 + n if signal n ended it.

        SIGINT, SIGTERM and SIGHUP end the command; a second signal kills it.  SIGHUP does nothing
        if this process ignores it, e.g. under ``nohup``.  When the command has ended, all processes
        that it has started are killed.  Call this from the main thread.
        """
        self._divide(n_ranks(command) if command and is_mpiexec(command[0]) else 1)
        words = self.held(command)
        moments, env = self._state.folder / "moments", {**os.environ}
        if not is_mpiexec(command[0]):  # mpiexec numbers its ranks; another program is rank 0
            env["PYLB_LAB_RANK"] = "0"
        if self.plan.changes:
            env[VARIABLE] = str(moments)
        if self.network:
            env |= self.network.environment()
        start, children = time.perf_counter(), list[subprocess.Popen[bytes]]()
        try:
            with (
                self._enforcing(),
                _ended_by_signals(children) as came,
                changing(self.plan.changes, moments, self.change) as self.done,
                subprocess.Popen(words, env=env) as child,
            ):
                children.append(child)
                try:
                    if came:  # before the command has started
                        child.kill()
                    child.wait()
                finally:
                    # The command still runs if waiting has failed.
                    child.kill()
                    self._groups.kill()
        finally:
            self.seconds = time.perf_counter() - start
        if came:
            return 128 + came[0]
        return child.returncode if child.returncode >= 0 else 128 - child.returncode

    @contextmanager
    def _enforcing(self) -> Iterator[None]:
        """Run helpers, so that the kernel enforces the limits: `programs.beat`, and `_keeping`."""
        with ExitStack() as helpers:
            for core in sorted(os.sched_getaffinity(0)):
                words = [*PROGRAM, "beat", str(core), str(BEAT_US), str(os.getpid())]
                beat = helpers.enter_context(subprocess.Popen(words))
                helpers.callback(beat.kill)
            if self.plan.needs_memory:
                helpers.enter_context(self._keeping())
            yield

    # ---- limits and usage ------------------------------------------------------------------------

    def measure(self, n_ranks: int | None = None) -> tuple[list[Held], list[Joined]]:
        """Measure for some seconds what the lab enforces, with programs that try to use more.

        Return the limits, as `LabPlan.limits` has them for `n_ranks` ranks, and the connections
        from the first host to each other host, and back.
        """
        self._divide(n_ranks)
        commands = []
        for i in range(len(self.limits)):
            words = ["env", f"PYLB_LAB_RANK={i}", *self._join("rank"), *PROGRAM]
            hosts, net = self.plan.hosts, self.network
            commands.append(net.entered(hosts[i].name, words) if net else words)
        with self._enforcing():
            found = held(self.limits, commands)
        self._groups.clear()
        return found, joined(self.network) if self.network else []

    def change(self, change: Change) -> None:
        """Change the limits of ranks or hosts from now on, also of a later command.

        `Change.at` and `Change.when` have no effect.  If the change names ranks, each rank of the
        last command first gets its own profile.  Before the first command, profiles up to the
        largest named rank are made; this list repeats.

        Raises
        ------
        DomainError
            A limit is out of range, or the change does not fit the lab; nothing has changed.
        OSError
            The kernel refuses, e.g. because more memory is in use than can go to swap; some ranks
            may have their new limits.
        """
        self.plan.check_change("change", change)
        plan = self.plan.expanded(self._n_ranks, [change]).after(change)
        if plan.needs_memory and not self.plan.needs_memory:
            raise DomainError("change.values: this lab began without memory limits")
        self._follow(plan)
        for rank in self._groups.ranks():
            self._groups.change(rank, self._limit(rank))
        if self.network:
            for host in self.plan.hosts:
                self.network.shape(host.name, host.link)

    def _limit(self, rank: int) -> Limit:
        if not self.plan.hosts:
            return self.limits[rank % len(self.limits)]
        return self.limits[[host.name for host in self.plan.hosts].index(self._host(rank))]

    def _host(self, rank: int) -> str:
        return (self._state.folder / f"rank{rank}").read_text() if self.plan.hosts else ""

    def usage(self) -> list[Usage]:
        """Return the limits of each rank and what it used in all commands so far, by rank."""
        return [
            self._groups.usage(rank, self._limit(rank), self._host(rank))
            for rank in self._groups.ranks()
        ]

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        """Keep the ranks within their memory limits while the block runs, without killing them.

        A program that keeps using more memory than the limit of its control group (version 1) is
        sometimes killed, although swap is free: Linux tries sixteen times to find a page to swap
        out, and gives up (seen with Linux 6.18, once in 10^4 to 10^5 page faults).  If killing is
        switched off, system calls fail instead.  So the group has a higher limit than the rank, by
        `SLACK` bytes.  A thread makes the kernel swap out the memory above the rank's limit, and
        tries again if that fails.
        """
        end = threading.Event()

        def keep() -> None:
            with suppress(OSError):  # real-time priority if permitted
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
            while not end.wait(PAUSE):
                for rank in self._groups.ranks():
                    memory = self._limit(rank).memory
                    for limit in self._groups.files(rank, "memory.limit_in_bytes"):
                        with suppress(OSError):  # raised if the group is gone
                            used = int(limit.with_name("memory.usage_in_bytes").read_text())
                            if memory is not None and used > memory:
                                with suppress(OSError):  # the kernel found no page to swap out
                                    limit.write_text(str(memory))
                                limit.write_text(str(memory + SLACK))

        thread = threading.Thread(target=keep)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()


@contextmanager
def _ended_by_signals(children: Sequence[subprocess.Popen[bytes]]) -> Iterator[list[int]]:
    """Let the first signal of `STOP` end the child, and a second one kill it; yield the signals."""
    came: list[int] = []
    timers: list[threading.Timer] = []

    def handle(number: int, _: Any) -> None:
        came.append(number)
        # A terminal sends Ctrl-C to the command, too, and a second SIGINT makes Open MPI abort less
        # gracefully.  So SIGINT is passed on only after a while.
        first = TYPED if number == signal.SIGINT else 0.0
        gently = [(first, number), (first + GRACE, signal.SIGKILL)]
        for child in children:
            for wait, one in gently if len(came) == 1 else [(0.0, signal.SIGKILL)]:
                timers.append(threading.Timer(wait, child.send_signal, [one]))
                timers[-1].start()

    stop = [s for s in STOP if (s, signal.getsignal(s)) != (signal.SIGHUP, signal.SIG_IGN)]
    old = {number: signal.signal(number, handle) for number in stop}
    try:
        yield came
    finally:
        for number, action in old.items():
            signal.signal(number, action)
        for timer in timers:
            timer.cancel()


# ---- changes while the command runs: at a given time, or at a moment that it announces ----------


MOST_WORDS = 4096  # reading the name of a moment stops at this number of bytes
NAMING = 5.0  # seconds to wait for the name of a moment


class Done(NamedTuple):
    """A change that was made: seconds after the start, the change, and its error or "".

    Examples
    --------
    >>> pylb.lab.Done(20.1, pylb.lab.Change(at=20.0, values={"share": 0.25})).failed
    ''
    """

    seconds: float
    change: Change
    failed: str = ""


@contextmanager
def changing(
    changes: Sequence[Change], path: Path, apply: Callable[[Change], None]
) -> Iterator[list[Done]]:
    """`apply` each change when its time comes, in a thread; yield the list of those made so far."""
    done: list[Done] = []
    if not changes:
        yield done
        return
    left, start = sorted(changes, key=lambda change: change.begin), time.monotonic()

    def make(now: list[Change]) -> bool:
        for change in now:
            left.remove(change)
            failed = ""
            try:
                apply(change)
            except (OSError, RuntimeError, DomainError) as why:
                failed = str(why)
            done.append(Done(time.monotonic() - start, change, failed))
        return bool(now)

    def serve(listener: socket.socket, end: socket.socket) -> None:
        while True:
            times = [change.at for change in left if change.at is not None]
            pause = max(0.0, min(times) - (time.monotonic() - start)) if times else None
            ready = select.select([listener, end], [], [], pause)[0]
            if end in ready:
                return
            now = time.monotonic() - start
            make([change for change in left if change.at is not None and change.at <= now])
            if listener in ready:
                line = listener.accept()[0]
                # An error: the program has ended, or sent no name in time.
                with line, suppress(OSError):
                    line.settimeout(NAMING)
                    words = b""
                    while (more := line.recv(MOST_WORDS)) and len(words) < MOST_WORDS:
                        words += more
                    moment = words.decode(errors="replace")
                    changed = make([change for change in left if change.when == moment])
                    line.sendall(b"1" if changed else b"0")

    mine, theirs = socket.socketpair()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, mine, theirs:
        path.unlink(missing_ok=True)  # the socket to which `announce` sends names of moments
        listener.bind(str(path))
        listener.listen(1024)
        thread = threading.Thread(target=serve, args=(listener, theirs))
        thread.start()
        try:
            yield done
        finally:
            mine.close()
            thread.join()


VARIABLE = "PYLB_LAB_MOMENTS"  # in the environment: the socket on which the lab listens


def announce(moment: str) -> bool:
    """Tell the lab that a moment has come; return after the lab has made the changes for it.

    `moment` is `Change.when` of some changes.  Any rank may call it; only the first call for a
    moment counts.  Return whether the lab changed anything; outside a lab, nothing happens.

    Examples
    --------
    >>> pylb.lab.announce("half")  # outside a lab
    False
    """
    path = os.environ.get(VARIABLE)
    if path is None:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(path)
        line.sendall(moment.encode())
        line.shutdown(socket.SHUT_WR)
        return line.recv(1) == b"1"


# ---- measuring: programs that try to use more than the limits -----------------------------------


SECONDS = 0.4  # duration of a busy loop, and of a transfer
BEYOND = 1.25  # bytes that a program writes, as a multiple of its memory limit
MOST_TOUCHED = 2**29  # largest number of bytes to write; a limit that needs more is not tested
PATIENCE = 60.0  # seconds to wait for a measuring program


class Held(NamedTuple):
    """The measured limits of a rank or host: cores, and bytes of memory (None if not tested)."""

    share: float
    memory: int | None


class Joined(NamedTuple):
    """The measured connection between two hosts: bits per second, and seconds one way."""

    source: str
    target: str
    bandwidth: float
    latency: float


def held(limits: Sequence[Limit], commands: Sequence[Sequence[str]]) -> list[Held]:
    """Measure each limit; `commands[i]` starts a program in the group with `limits[i]`."""
    cores = len(os.sched_getaffinity(0))
    shares: list[float] = []
    while len(shares) < len(limits):  # at the same time as many programs as the cores allow
        first, stop, total = len(shares), len(shares), 0.0
        while stop < len(limits) and (stop == first or total + limits[stop].share <= cores):
            total += limits[stop].share
            stop += 1
        spinning = [[*c, "spin", str(SECONDS)] for c in commands[first:stop]]
        shares += map(float, _outputs(*spinning))
    out = []
    for share, limit, command in zip(shares, limits, commands, strict=True):
        memory, touched = None, round(BEYOND * (limit.memory or 0))
        if 0 < touched <= MOST_TOUCHED:
            memory = int(_outputs([*command, "touch", str(touched)])[0])
        out.append(Held(share, memory))
    return out


def joined(network: HostNetwork) -> list[Joined]:
    """Measure the connection from the first host to each other host, and back."""
    first, *others = [host.name for host in network.hosts]
    out = []
    for source, target in [pair for one in others for pair in ((first, one), (one, first))]:
        with _start(network.entered(target, [*PROGRAM, "serve"])) as server:
            try:
                assert server.stdout is not None
                port = server.stdout.readline().strip()
                words = [*PROGRAM, "transfer", target, port, str(SECONDS)]
                found = _outputs(network.entered(source, words))[0]
            finally:
                server.kill()
        out.append(Joined(source, target, *map(float, found.split())))
    return out


def _start(words: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _outputs(*commands: Sequence[str]) -> list[str]:
    """Run programs at the same time; return what each of them prints."""
    out = []
    with ExitStack() as stack:
        children = [stack.enter_context(_start(words)) for words in commands]
        for child in children:
            stack.callback(child.kill)  # after an error: the others would run on
        for child in children:
            said, complaint = child.communicate(timeout=PATIENCE)
            if child.returncode:
                why = complaint.strip() or f"the program ended with code {child.returncode}"
                raise StateError(f"a limit could not be measured: {why}")
            out.append(said)
    return out
