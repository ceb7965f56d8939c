"""The monitor of a recording: it receives what the recorder in each rank sends."""

from __future__ import annotations

import json
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb.console import clip
from pylb.prediction.recorder.layout import OP, OpKind
from pylb.prediction.recorder.recording import Recording, one_sided

DRIFT = 1e-4  # a larger drift between two clocks, as a fraction of the run's time, is reported
SHOWN = 10  # largest number of warnings about absent ranks, and about refused connections


@dataclass(eq=False)
class RankLog:
    """The data received from one rank."""

    hello: dict[str, Any]  # the first frame
    offset: float  # the monitor's clock minus this rank's clock at the start, in seconds
    room: NDArray[Any] = field(default_factory=lambda: np.zeros(1024, OP))  # memory for `ops`
    n_ops: int = 0
    numbers: list[int] = field(default_factory=list)  # the monitor's index of each communicator
    end: dict[str, Any] | None = None  # the last frame
    end_offset: float = 0.0  # like `offset`, at the end
    lost: int = 0  # number of operations that did not arrive
    costs: dict[str, float] = field(default_factory=dict)  # measured costs of MPI calls
    procedures: list[int] = field(default_factory=list)  # the monitor's index of each procedure

    def ops(self) -> NDArray[Any]:
        return self.room[: self.n_ops]

    def add(self, ops: NDArray[Any]) -> None:
        """Append operations; arrays that `ops` returned before do not change."""
        n = self.n_ops + len(ops)
        if n > len(self.room):
            room = np.zeros(2 * n, OP)
            room[: self.n_ops] = self.room[: self.n_ops]
            self.room = room
        self.room[self.n_ops : n] = ops
        self.n_ops = n


class Connection:
    """The connection to one rank.  Data come in frames: messages with a kind and a length."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = bytearray()
        self.known = False  # whether the rank has sent the token
        self.rank: RankLog | None = None
        self.second = False  # whether the rank is in a second MPI program of the same command


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
        self._open = 0

    def close(self) -> None:
        """Close all sockets; may be called twice."""
        for key in list(self._selector.get_map().values() if self._selector.get_map() else []):
            self._selector.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    @property
    def connected(self) -> int:
        """Number of open connections."""
        return self._open

    def serve(self, seconds: float) -> None:
        """Wait for data, at most for `seconds`, and read what has arrived."""
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._listener:
                self._accept()
            else:
                self._receive(key.data)

    def serve_until(
        self,
        done: Callable[[], bool],
        grace: float = 5.0,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        """Receive data until `done()` is true, and then until all ranks have disconnected.

        `grace` is the longest wait for the disconnections, in seconds.  `between` is called about
        every 0.1 seconds, or more often.
        """
        deadline = None
        while True:
            self.serve(0.1)
            between()
            if done():
                deadline = deadline or time.monotonic() + grace
                if self._open == 0 or time.monotonic() > deadline:
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
        self._open += 1

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
            self._open -= 1

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
            self._communicator(one.rank, body)
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
        rank.lost += first - rank.n_ops - rank.lost
        rank.add(ops)

    def _communicator(self, rank: RankLog, body: bytes) -> None:
        _, name, size = COMM.unpack_from(body)
        if name not in self._comms:
            self._comms[name] = len(self.members)
            self.members.append(np.frombuffer(body, np.int32, size, COMM.size).copy())
        rank.numbers.append(self._comms[name])

    # ---- the recording -------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of ranks of MPI_COMM_WORLD; 0 before the first rank has connected."""
        return max((r.hello["size"] for r in self.ranks.values()), default=0)

    def recording(self, command: list[str]) -> Recording:
        """Make a recording of all data so far."""
        p = self.size
        known = [self.ranks.get(r) for r in range(p)]
        ops = [np.zeros(0, OP) if r is None else r.ops() for r in known]
        closed = np.array([r is not None and r.end is not None and not r.lost for r in known], bool)
        info: dict[str, Any] = {"command": command}
        if p:
            info.update(self._times(known))
            info["hosts"] = [r.hello["host"] if r else None for r in known]
            info["cores"] = [
                r.hello["core"] if r and r.hello["cores"] == 1 else None for r in known
            ]
            info["library"] = next(r.hello["library"] for r in known if r)
            info.update(self._costs(known))
            info.update(self._asking(known))
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

    def _times(self, known: list[RankLog | None]) -> dict[str, Any]:
        """Return the wall time of the run, and the start of each rank, by the monitor's clock."""
        here = socket.gethostname()
        start, end = [], []
        for rank in known:
            if rank is not None and rank.end is not None:
                shift = 0.0 if rank.hello["host"] == here else rank.offset
                start.append(shift + 1e-9 * rank.end["start"])
                end.append(start[-1] + 1e-9 * rank.end["ns"])
        if not start or len(start) < len(known):
            return {}
        zero = min(start)
        return {"seconds": max(end) - zero, "starts": [s - zero for s in start]}

    @staticmethod
    def _costs(known: list[RankLog | None]) -> dict[str, float]:
        """Return the lowest measured costs of a call and a message; delays only increase them."""
        reported = [rank.costs for rank in known if rank is not None and rank.costs]
        out = {}
        for name in ("overhead", "alpha", "beta"):
            values = [costs[name] for costs in reported if costs[name] >= 0]
            if values:
                out[name] = min(values)
        return out

    @staticmethod
    def _asking(known: list[RankLog | None]) -> dict[str, float]:
        """Return ``response`` if ranks sleep between polls: the mean delay in seconds until they
        notice a message; {} if they sleep for at most half of the time in which they poll.
        """
        ended = [rank for rank in known if rank is not None and rank.end and "asked" in rank.end]
        wall, square, napped = (
            sum(rank.end["asked"][name] for rank in ended if rank.end)
            for name in ("wall", "square", "napped")
        )
        if napped <= 0.5 * wall or wall <= 0:
            return {}
        # ranks notice at once what comes while they wait within an MPI call
        within = sum(float(rank.ops()["inside"].sum()) for rank in ended)
        return {"response": square / (2 * (wall + within))}

    @staticmethod
    def _warnings_of(rank: RankLog) -> list[str]:
        out = []
        if rank.lost:
            out.append(f"{rank.lost} operations were lost in transmission")
        if rank.end is None:
            out.append(f"it ended without MPI_Finalize: {rank.n_ops} operations are known")
            return out
        if not rank.end["finalized"]:
            out.append("it never called MPI_Finalize: recorded up to the end of its process")
        if rank.end["ops"] != rank.n_ops:
            out.append(f"only {rank.n_ops} of {rank.end['ops']} operations arrived")
        if rank.end["foreign"]:
            out.append(
                f"{rank.end['foreign']} MPI calls of other threads (MPI_THREAD_MULTIPLE) are not "
                "recorded, so their messages and waits are not simulated"
            )
        seconds = 1e-9 * rank.end["ns"]
        if rank.end["beyond"] > 0.02 * rank.end["ns"]:
            out.append(
                f"its threads used {1e-9 * rank.end['beyond']:.3g} s of processor time in "
                "parallel: predictions treat them as one thread"
            )
        drift = abs(rank.end_offset - rank.offset)
        # A rank on the monitor's host has the same clock as the monitor.
        elsewhere = rank.hello["host"] != socket.gethostname()
        if elsewhere and drift > max(0.05, DRIFT * seconds):
            out.append(f"its clock and the monitor's clock drifted apart by {drift:.3g} s")
        if not rank.hello["delays"]:
            out.append("no /proc/self/schedstat: waits for a core may count as computing")
        return out


# ---- the frames of the recorder: csrc/whatif/recorder/internal.h --------------------------------


HEAD = struct.Struct("=IIq")  # kind, length in bytes, index of the first operation
MOST_RANKS = 1 << 20
COMM = struct.Struct("=qqq")  # a communicator's index, name and number of members

TOKEN = "OMPI_PYLB_TOKEN"
"""Environment variable with the token.  Open MPI passes variables that begin with OMPI_ to the
ranks on all machines; other launchers pass all variables."""


class ProtocolError(Exception):
    """Raised if a connection does not follow the protocol of the recorder."""
