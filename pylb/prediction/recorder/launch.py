"""Run an MPI program with the recorder loaded, receive its operations, predict while it runs."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import optional
from pylb.comm.mpiexec import insert_before_programs, is_mpiexec
from pylb.console import clip
from pylb.errors import DomainError, PylbError
from pylb.prediction.prediction import Target, target
from pylb.prediction.recorder.recording import OP, OpKind, Recording, one_sided

# ---- the monitor, which receives what the recorder in each rank sends ---------------------------


DRIFT = 1e-4  # a larger drift between two clocks, as a fraction of the run's time, is reported
SHOWN = 10  # largest number of warnings about absent ranks, and about refused connections
GRACE = 5.0  # longest wait, in seconds, until the ranks disconnect after the end of the command

# The frames of the recorder: csrc/whatif/recorder/internal.h
HEAD = struct.Struct("=IIq")  # kind, length in bytes, index of the first operation
MOST_RANKS = 1 << 20
COMM = struct.Struct("=qqq")  # a communicator's index, name and number of members

TOKEN = "OMPI_PYLB_TOKEN"
"""Environment variable with the token.  Open MPI passes variables that begin with OMPI_ to the
ranks on all machines; other launchers pass all variables."""


class ProtocolError(Exception):
    """Raised if a connection does not follow the protocol of the recorder."""


@dataclass(eq=False)
class RankLog:
    """The data received from one rank."""

    hello: dict[str, Any]  # the first frame
    offset: float  # the monitor's clock minus this rank's clock at the start, in seconds
    parts: list[NDArray[Any]] = field(default_factory=lambda: [np.zeros(0, OP)])  # see `ops`
    n_ops: int = 0
    numbers: list[int] = field(default_factory=list)  # the monitor's index of each communicator
    end: dict[str, Any] = field(default_factory=dict)  # the last frame; empty: it has not come
    end_offset: float = 0.0  # like `offset`, at the end
    lost: int = 0  # number of operations that did not arrive
    costs: dict[str, float] = field(default_factory=dict)  # measured costs of MPI calls
    procedures: list[int] = field(default_factory=list)  # the monitor's index of each procedure

    def ops(self) -> NDArray[Any]:
        """Return all operations so far."""
        if len(self.parts) > 1:
            self.parts = [np.concatenate(self.parts)]
        return self.parts[0]


@dataclass(eq=False)
class Connection:
    """The connection to one rank.  Data come in frames: messages with a kind and a length."""

    sock: socket.socket
    buffer: bytearray = field(default_factory=bytearray)
    known: bool = False  # whether the rank has sent the token
    rank: RankLog | None = None
    second: bool = False  # whether the rank is in a second MPI program of the same command


class RecordMonitor:
    """The monitor of one run, to which the ranks connect."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._listener = socket.create_server((host, 0))
        # The first line of each connection.  Other users can see the address in command lines, but
        # not the token.
        self.token = secrets.token_hex(16)
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self._selector = selectors.DefaultSelector()
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self.ranks: dict[int, RankLog] = {}
        self._comms: dict[int, int] = {}  # index of each communicator in `members`, by its name
        self.members: list[NDArray[np.int32]] = []
        self.procedures: list[str] = []
        self.lacks: dict[str, int] = {}
        self.strange: list[str] = []
        self.connected = 0  # number of open connections

    def close(self) -> None:
        """Close all sockets; may be called twice."""
        for key in [*(self._selector.get_map() or {}).values()]:
            self._selector.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def serve(self, seconds: float) -> None:
        """Wait for data, at most for `seconds`, and read what has arrived."""
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._listener:
                self._accept()
            else:
                self._receive(key.data)

    def serve_until(
        self, done: Callable[[], bool], between: Callable[[], None] = lambda: None
    ) -> None:
        """Receive until `done()` and all ranks have disconnected; call `between` every 0.1 s."""
        deadline = math.inf
        while True:
            self.serve(0.1)
            between()
            if done():
                deadline = min(deadline, time.monotonic() + GRACE)
                if self.connected == 0 or time.monotonic() > deadline:
                    self.serve(0.0)
                    return

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as error:  # the connection is gone, or no file descriptor is free
            self._note(f"a connection to the monitor was not accepted: {error}")
            time.sleep(0.01)
            return
        sock.setblocking(False)
        self._selector.register(sock, selectors.EVENT_READ, Connection(sock))
        self.connected += 1

    def _receive(self, one: Connection) -> None:
        try:
            data = one.sock.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        one.buffer += data
        try:
            self._frames(one)
        except Exception as error:  # bad data end this connection, but no other one
            why = clip(str(error) or type(error).__name__)
            self._note(f"a connection to the monitor was not from the recorder: {why}")
            data = b""
        if not data:
            self._selector.unregister(one.sock)
            one.sock.close()
            self.connected -= 1

    def _frames(self, one: Connection) -> None:
        if not one.known:
            line, newline, rest = bytes(one.buffer).partition(b"\n")
            if not newline:
                if len(one.buffer) > 100:
                    raise ProtocolError("the first line is not a token: more than 100 bytes")
                return
            if not secrets.compare_digest(line, self.token.encode()):
                raise ProtocolError("a wrong token")
            one.known, one.buffer = True, bytearray(rest)
        while len(one.buffer) >= HEAD.size:
            kind, length, first = HEAD.unpack_from(one.buffer)
            if len(one.buffer) < HEAD.size + length:
                return
            body = bytes(one.buffer[HEAD.size : HEAD.size + length])
            del one.buffer[: HEAD.size + length]
            self._frame(one, chr(kind), first, body)

    def _frame(self, one: Connection, kind: str, first: int, body: bytes) -> None:
        if kind == "H":
            self._hello(one, json.loads(body))
        elif one.second:
            return
        elif one.rank is None:
            raise ProtocolError(f"a frame {kind!r} before the rank's hello (frame 'H')")
        elif kind == "O":
            self._operations(one.rank, first, np.frombuffer(body, OP))
        elif kind == "C":
            _, name, size = COMM.unpack_from(body)
            if name not in self._comms:
                self._comms[name] = len(self.members)
                self.members.append(np.frombuffer(body, np.int32, size, COMM.size).copy())
            one.rank.numbers.append(self._comms[name])
        elif kind == "P":
            name = body[4:].decode(errors="replace")  # after its index
            if name not in self.procedures:
                self.procedures.append(name)
            one.rank.procedures.append(self.procedures.index(name))
        elif kind == "L":
            lack = json.loads(body)
            self.lacks[lack["what"]] = self.lacks.get(lack["what"], 0) + lack["times"]
        elif kind == "N":
            one.rank.costs = json.loads(body)
        elif kind == "E":
            end = json.loads(body)
            one.rank.end_offset = time.monotonic() - 1e-9 * end["now"]
            one.rank.end = end
        else:
            raise ProtocolError(f"a frame of the unknown kind {kind!r}")

    def _note(self, text: str) -> None:
        if len(self.strange) < SHOWN:
            self.strange.append(text)

    def _hello(self, one: Connection, hello: dict[str, Any]) -> None:
        if not 0 <= hello["rank"] < hello["size"] <= MOST_RANKS:
            raise ProtocolError(f"rank {hello['rank']} of {hello['size']}")
        if hello["rank"] in self.ranks or self.size not in (0, hello["size"]):
            one.second = True
            self._note("the command ran more than one MPI program: only the first one is recorded")
        else:
            one.rank = RankLog(hello, time.monotonic() - 1e-9 * hello["now"])
            self.ranks[hello["rank"]] = one.rank

    def _operations(self, rank: RankLog, first: int, sent: NDArray[Any]) -> None:
        ops = sent.copy()
        # Replace the rank's indices of communicators and procedures by those of the monitor.
        ops["comm"] = np.array(rank.numbers, np.int32)[ops["comm"]]
        marks = np.flatnonzero((ops["kind"] == OpKind.ENTER) | (ops["kind"] == OpKind.LEAVE))
        if len(marks):
            ops["tag"][marks] = np.array(rank.procedures, np.int32)[ops["tag"][marks]]
        rank.lost = first - rank.n_ops
        rank.parts.append(ops)
        rank.n_ops += len(ops)

    # ---- the recording -------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of ranks of MPI_COMM_WORLD; 0 before the first rank has connected."""
        return max((r.hello["size"] for r in self.ranks.values()), default=0)

    def recording(self, command: list[str]) -> Recording:
        """Make a recording of all data so far."""
        p = self.size
        known = [self.ranks.get(r) for r in range(p)]
        ranks = [r for r in known if r]
        ops = [r.ops() if r else np.zeros(0, OP) for r in known]
        closed = np.array([bool(r and r.end and not r.lost) for r in known], bool)
        info: dict[str, Any] = {"command": command}
        if p:
            info.update(self._times([r for r in ranks if r.end]))
            info["hosts"] = [r.hello["host"] if r else None for r in known]
            info["cores"] = [
                r.hello["core"] if r and r.hello["cores"] == 1 else None for r in known
            ]
            info["library"] = ranks[0].hello["library"]
            for name in ("overhead", "alpha", "beta"):  # the lowest, as delays only increase them
                measured = [r.costs[name] for r in ranks if r.costs.get(name, -1) >= 0]
                info |= {name: min(measured)} if measured else {}
            info.update(self._asking([r for r in ranks if "asked" in r.end]))
        warnings = list(dict.fromkeys(self.strange))
        if not self.ranks:
            warnings.append("no rank called MPI_Init with the recorder loaded")
        absent = [number for number, rank in enumerate(known) if rank is None]
        warnings += [f"rank {number} was not recorded" for number in absent[:SHOWN]]
        if len(absent) > SHOWN:
            warnings.append(f"{len(absent) - SHOWN} other ranks were not recorded")
        for number, rank in sorted(self.ranks.items()):
            warnings += [f"rank {number}: {text}" for text in self._warnings_of(rank)]
        warnings += [f"not simulated: {what} ({times} times)" for what, times in self.lacks.items()]
        if names := one_sided([rank.ops() for rank in self.ranks.values()]):
            warnings.append(f"pylb whatif cannot simulate one-sided calls: {names}")
        return Recording(ops, list(self.members), closed, info, list(self.procedures), warnings)

    def _times(self, ended: list[RankLog]) -> dict[str, Any]:
        """Return the wall time of the run, and the start of each rank, by the monitor's clock."""
        if len(ended) < self.size:
            return {}
        here = socket.gethostname()
        shift = [0.0 if rank.hello["host"] == here else rank.offset for rank in ended]
        start = [s + 1e-9 * rank.end["start"] for s, rank in zip(shift, ended, strict=True)]
        end = [s + 1e-9 * rank.end["ns"] for s, rank in zip(start, ended, strict=True)]
        return {"seconds": max(end) - min(start), "starts": [s - min(start) for s in start]}

    @staticmethod
    def _asking(ended: list[RankLog]) -> dict[str, float]:
        """Return ``response`` if ranks sleep between polls: the mean delay in seconds until they
        notice a message; {} if they sleep for at most half of the time in which they poll.
        """
        wall, square, napped = (
            sum(rank.end["asked"][name] for rank in ended) for name in ("wall", "square", "napped")
        )
        if napped <= 0.5 * wall or wall <= 0:
            return {}
        # ranks notice at once what comes while they wait within an MPI call
        within = sum(float(rank.ops()["inside"].sum()) for rank in ended)
        return {"response": square / (2 * (wall + within))}

    @staticmethod
    def _warnings_of(rank: RankLog) -> list[str]:
        out, end = [], rank.end
        if rank.lost:
            out.append(f"{rank.lost} operations were lost in transmission")
        if not end:
            return [*out, f"it ended without MPI_Finalize: {rank.n_ops} operations are known"]
        if not end["finalized"]:
            out.append("it never called MPI_Finalize: recorded up to the end of its process")
        if end["ops"] != rank.n_ops:
            out.append(f"only {rank.n_ops} of {end['ops']} operations arrived")
        if end["foreign"]:
            out.append(
                f"{end['foreign']} MPI calls of other threads (MPI_THREAD_MULTIPLE) are not "
                "recorded, so their messages and waits are not simulated"
            )
        if end["beyond"] > 0.02 * end["ns"]:
            out.append(
                f"its threads used {1e-9 * end['beyond']:.3g} s of processor time in parallel: "
                "predictions treat them as one thread"
            )
        drift = abs(rank.end_offset - rank.offset)
        # A rank on the monitor's host has the same clock as the monitor.
        elsewhere = rank.hello["host"] != socket.gethostname()
        if elsewhere and drift > max(0.05, DRIFT * 1e-9 * end["ns"]):
            out.append(f"its clock and the monitor's clock drifted apart by {drift:.3g} s")
        if not rank.hello["delays"]:
            out.append("no /proc/self/schedstat: waits for a core may count as computing")
        return out


class Online:
    """Simulations of a run while it is recorded, one for each target.

    `targets` has the arguments of `pylb.whatif` for each target.  ``say(line)`` is called for each
    target every `period` seconds, or less often if the simulations, which all begin at the start of
    the run, take more than a tenth of this time.
    """

    def __init__(
        self,
        monitor: RecordMonitor,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
        period: float = 1.0,
    ) -> None:
        self._monitor, self._given, self._say = monitor, targets, say
        self._period, self._last = period, time.monotonic()
        self._aims: list[Target] = []

    def __call__(self) -> None:
        """Simulate the operations that have arrived, if a period has passed."""
        now, monitor = time.monotonic(), self._monitor
        if now - self._last < self._period:
            return
        try:
            if not self._aims and 0 < monitor.size == len(monitor.ranks):
                recording = monitor.recording([])
                self._aims = [target(recording, **given) for given in self._given]
            for aim, given in zip(self._aims, self._given, strict=False):  # all, or none so far
                self._simulate(aim, given)
                self._last = time.monotonic()
                self._period = max(self._period, 10.0 * (self._last - now))
        except PylbError as error:  # the program and its recording continue
            self._period = math.inf
            self._say(f"no more predictions while the program runs: {error}")

    def _simulate(self, aim: Target, given: Mapping[str, Any]) -> None:
        ops = [rank.ops() for _, rank in sorted(self._monitor.ranks.items())]
        times = aim.simulate(ops, self._monitor.members)
        done = times[:, 4].astype(int)
        ends = [one[n - 1] for one, n in zip(ops, done, strict=True) if n]
        here = max([0.0, *(1e-9 * int(op["begin"]) + float(op["inside"]) for op in ends)])
        there = float(times[:, 0].max())
        if here > 0:
            words = ", ".join(
                f"{name} {','.join(f'{x:g}' for x in np.atleast_1d(value))}"
                for name, value in given.items()
            )
            self._say(
                f"{here:.1f} s so far would take {there:.1f} s ({there / here:.0%}) with {words}"
            )


class Recorded(NamedTuple):
    """The result of `record`: the command's exit code, and the recording."""

    code: int
    recording: Recording


def preloading(
    command: Sequence[str], name: str, words: Sequence[str] = (), more: Sequence[str] = ()
) -> list[str]:
    """Return `command`, changed so that each of its ranks loads a library of pylb first.

    `name` is "_record" (the recorder) or "_pmpi" (the clock "mpi").  `words` (``NAME=value``) go
    into the environment of the ranks.  `more` has paths of libraries to load after this one.
    """
    if not command:
        raise DomainError("command is empty: expected a program and its arguments")
    spec = importlib.util.find_spec(f"pylb.{name}")
    if spec is None or spec.origin is None:
        raise optional.missing_part("MPI")
    libraries = [spec.origin, *more, os.environ.get("LD_PRELOAD", "")]
    first = ["env", f"LD_PRELOAD={' '.join(filter(None, libraries))}", *words]
    if is_mpiexec(command[0]):
        return insert_before_programs(command, first)
    return [*first, *command]


def loaded(
    command: Sequence[str],
    address: str,
    *,
    only_time: bool = False,
    procedures: Sequence[str] = (),
) -> list[str]:
    """Return `command`, changed so that each of its ranks loads the recorder."""
    given = {
        "PYLB_RECORDER": address,
        "PYLB_RECORD_PRELOAD": os.environ.get("LD_PRELOAD", ""),
        "PYLB_RECORD_ONLY": "time" * only_time,
        "PYLB_PROCEDURES": ",".join(procedures),
    }
    return preloading(command, "_record", [f"{name}={x}" for name, x in given.items() if x])


@contextlib.contextmanager
def signals_end(child: subprocess.Popen[bytes] | None = None) -> Iterator[list[int]]:
    """Let the first SIGINT or SIGTERM end only the child, if there is one, but not the recording.

    Yields a list to which arriving signals are added.  The first signal raises no exception,
    because this could interrupt the reading of a frame, or be lost within NumPy.  A second signal
    raises KeyboardInterrupt.
    """
    came: list[int] = []

    def handle(number: int, frame: Any) -> None:
        came.append(number)
        if child is not None:
            child.send_signal(signal.SIGINT)
        if len(came) > 1:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def record(
    command: Sequence[str],
    *,
    only_time: bool = False,
    procedures: Sequence[str] = (),
    host: str = "127.0.0.1",
    online: Sequence[Mapping[str, Any]] = (),
    say: Callable[[str], None] = print,
) -> Recorded:
    """Run an MPI program and record its operations.

    Parameters
    ----------
    command : sequence of str
        ``mpiexec ...``, or a program that runs as one rank.  The program is not changed; a library
        is loaded with it (``LD_PRELOAD``).
    only_time : bool
        Record only the wall time, from the end of MPI_Init to the beginning of MPI_Finalize.
    procedures : sequence of str
        Functions to mark, in a program compiled with ``-finstrument-functions``.
    host : str
        Address by which the ranks reach this process.  The default works if all ranks are on this
        machine.
    online : sequence of mappings
        Targets, each as arguments of `pylb.whatif`.  While the program runs, it is also simulated
        on each of them.
    say : callable
        With `online`, ``say(line)`` is called every second with a line for each target.

    Returns
    -------
    Recorded
        ``recording.warnings`` lists what the recording lacks.

    Examples
    --------
    >>> from pylb.prediction.recorder.launch import record
    >>> record(["mpiexec", "-n", "4", "python", "prog.py"]).recording.save("run")  # doctest: +SKIP
    """
    monitor = RecordMonitor(host)
    try:
        words = loaded(command, monitor.address, only_time=only_time, procedures=procedures)
        between = Online(monitor, online, say) if online else lambda: None
        env = {**os.environ, TOKEN: monitor.token}
        with subprocess.Popen(words, env=env) as child, signals_end(child):
            monitor.serve_until(lambda: child.poll() is not None, between=between)
            recording = monitor.recording(list(command))
            recording.warnings += [
                f"procedure {name!r} was never called, or its program was not compiled with "
                "-finstrument-functions -rdynamic"
                for name in procedures
                if recording.n_ops and name not in recording.procedures
            ]
        code = child.returncode if child.returncode >= 0 else 128 - child.returncode
        return Recorded(code, recording)
    finally:
        monitor.close()
