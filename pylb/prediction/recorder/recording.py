"""A recording: the operations of each rank of an MPI program, and data about its machine."""

from __future__ import annotations

import ctypes
import functools
import json
import os
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from pylb import _core, optional
from pylb.console import count
from pylb.errors import DomainError, FormatError, MissingFileError, StateError
from pylb.files import kind_of, named, understood, writing
from pylb.io import hdf5
from pylb.model import checks

# ---- the layout of operations in csrc/whatif/whatif.h, and their names --------------------------


ONE_SIDED_CALLS = _core.ONE_SIDED

OP = np.dtype(
    [
        *((name, "i8") for name in ("compute", "begin", "bytes")),
        ("inside", "f4"),
        *((name, "i4") for name in ("peer", "tag", "request", "comm")),
        ("kind", "u1"),
        ("flags", "u1"),
        ("what", "u2"),
    ]
)
"""One operation of a rank; the fields are those of ``plb_op_t``."""

STEP = np.dtype(
    [
        *((x, "f8") for x in ("begin", "end")),
        ("cause_op", "i8"),
        ("cause_rank", "i4"),
        ("pad", "i4"),
    ]
)
"""Begin and end of a simulated operation in seconds, and which operation of which rank it waited
for; -1 if none."""


class OpKind(IntEnum):
    """The kind of an operation; csrc/whatif/whatif.h explains the fields for each kind."""

    END = 0
    SEND = 1
    ISEND = 2
    RECV = 3
    IRECV = 4
    WAIT = 5
    PROBE = 6
    COLL = 7
    ICOLL = 8
    PAUSE = 9
    ENTER = 10
    LEAVE = 11
    ONE_SIDED = 12


class Collective(IntEnum):
    """The collective operation, in the field ``what``."""

    BARRIER = 0
    BCAST = 1
    GATHER = 2
    SCATTER = 3
    REDUCE = 4
    ALLREDUCE = 5
    ALLGATHER = 6
    ALLTOALL = 7
    REDUCE_SCATTER = 8
    SCAN = 9
    EXSCAN = 10


class Flag(IntFlag):
    """Bits of the field ``flags``."""

    SAME_CALL = 1
    ANY_SOURCE = 2
    ANY_TAG = 4
    SYNCHRONOUS = 8
    BUFFERED = 16
    CANCELLED = 32


FORMAT = "pylb operations 3"
DTYPES = {"head": np.dtype(np.uint8)}
NUMBERS = ("seconds", "alpha", "beta", "overhead", "eager", "response")
MOST_NUMBER = 1e15  # largest number in `info`, in seconds or bytes


@dataclass(eq=False, repr=False)
class Recording:
    """The operations of every rank of one run.

    Examples
    --------
    >>> run = pylb.Recording.load("run")
    >>> run.n_ranks, run.procedures
    (4, ['servBusy1', 'servBusy2'])
    """

    #: The operations of each rank, in order, with the fields of `OP`.
    ops: list[NDArray[Any]]
    #: Members of each communicator, by their ranks in MPI_COMM_WORLD, in order of their ranks in
    #: the communicator.  The first communicator is MPI_COMM_WORLD.
    comms: list[NDArray[np.int32]]
    #: (p,) whether all operations of the rank arrived; False if it was killed, or some were lost.
    closed: NDArray[np.bool_]
    #: Data about the run: ``command``; ``seconds``, the wall time from the end of MPI_Init to the
    #: beginning of MPI_Finalize; defaults for `Target` (``alpha``, ``beta``, ``overhead``,
    #: ``response``); ``library`` (MPI's version); by rank: ``starts``, ``hosts``, ``cores``.
    info: dict[str, Any] = field(default_factory=dict)
    #: Names of the marked procedures, in order of their indices in the operations.
    procedures: list[str] = field(default_factory=list)
    #: Missing data, and other reasons why predictions are less certain.
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        ops: Sequence[Any],
        comms: Sequence[Sequence[int]] | None = None,
        **info: Any,
    ) -> Recording:
        """Make a recording from arrays or lists of dicts, for tests and tools.

        Parameters
        ----------
        ops : sequence
            For each rank a structured array, or a sequence of mappings: ``kind`` (a name such as
            ``"SEND"``) and other fields.
        comms : sequence of sequences of int, optional
            Default: only the world communicator.
        """
        arrays = [_operations(rank) for rank in ops]
        world = [range(len(arrays))] if comms is None else comms
        members = [np.array(list(one), np.int32) for one in world]
        closed = [len(ops) > 0 and ops["kind"][-1] == OpKind.END for ops in arrays]
        return cls(arrays, members, np.array(closed, bool), info)

    @property
    def n_ranks(self) -> int:
        """Number of ranks, p."""
        return len(self.ops)

    @property
    def n_ops(self) -> int:
        return sum(map(len, self.ops))

    @property
    def seconds(self) -> float | None:
        """Wall time of the recorded run, or None if it is not known."""
        return self.info.get("seconds")

    def speeds(self, elsewhere: Recording) -> NDArray[np.float64]:
        """Compute the speeds of other processors, on which the same program was also recorded.

        Parameters
        ----------
        elsewhere : Recording
            A recording of the same program on the other processors, with the same input.  Short
            runs are enough if both do the same work.

        Returns
        -------
        (p,) float64
            Speed of the other processor of each rank, relative to its processor in this recording.

        Examples
        --------
        >>> run = pylb.Recording.load("run")
        >>> run.speeds(run)  # a recording, compared with itself
        array([1., 1., 1., 1.])
        """
        checks.instance("elsewhere", elsewhere, Recording)
        if elsewhere.n_ranks != self.n_ranks:
            raise DomainError(
                f"elsewhere has {elsewhere.n_ranks} ranks: expected {self.n_ranks}, as in this "
                "recording"
            )
        mine, others = (
            np.array([ops["compute"].sum() for ops in one.ops], np.float64)
            for one in (self, elsewhere)
        )
        for rank in np.flatnonzero((mine <= 0) | (others <= 0))[:1]:
            raise DomainError(f"rank {rank} computes nothing: its processor's speed is not known")
        return np.asarray(mine / others)

    def __repr__(self) -> str:
        took = "" if self.seconds is None else f", {self.seconds:.4g} s"
        cut = "" if self.closed.all() else f", {np.sum(~self.closed)} ranks incomplete"
        return f"<Recording: {self.n_ops} operations of {self.n_ranks} ranks{took}{cut}>"

    @staticmethod
    def check_writable(path: str | os.PathLike[str]) -> None:
        """Check, before a long run, that `save` can write there: a new file, or a recording."""
        optional.require("h5py")
        name = named(path)
        folder = os.path.dirname(os.path.abspath(name))
        if not os.path.isdir(folder):
            raise MissingFileError(f"{name}: there is no folder {folder}")
        _check_regular(name)
        if not os.access(folder, os.W_OK):
            raise StateError(f"{name}: the folder {folder} is not writable")
        if os.path.exists(name) and os.path.getsize(name):
            with suppress(Exception), hdf5.reading(path, DTYPES) as file:
                if file.text("format").startswith(FORMAT[:-1]):
                    return
            raise StateError(f"{name} exists and is not a recording: it is not overwritten")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an HDF5 file; an existing file is replaced when the new one is complete."""
        optional.require("h5py")
        path = named(path)
        _check_regular(path)
        head = {
            "info": self.info,
            "procedures": self.procedures,
            "warnings": self.warnings,
            "closed": self.closed.tolist(),
        }
        with writing(path, "w+b") as file, closing(hdf5.Output(file)) as out:
            out.text("format", FORMAT)
            out.array("head", np.frombuffer(json.dumps(head).encode(), np.uint8))
            for group, arrays in (("ops", self.ops), ("comms", self.comms)):
                out.h5.create_group(group)
                for i, array in enumerate(arrays):
                    out.array(f"{group}/{i}", array)

    @classmethod
    def given(cls, run: Recording | str | os.PathLike[str]) -> Recording:
        """Return `run`, or read it if it is a path; raise DomainError if it cannot be simulated."""
        recording = run if isinstance(run, Recording) else cls.load(run)
        if recording.n_ranks == 0:
            raise DomainError("; ".join(["the recording has no ranks", *recording.warnings]))
        if names := one_sided(recording.ops):
            raise DomainError(
                f"the recording has one-sided calls, which are not simulated: {names}"
            )
        return recording

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """Read a file that `save` or ``pylb record`` wrote."""
        with understood(path, "a recording of pylb"), hdf5.reading(path, DTYPES) as file:
            return _read(file)


def one_sided(ops: Sequence[NDArray[Any]]) -> str:
    """Name the one-sided calls among the operations of all ranks; empty if there are none."""
    which = [rank["what"][rank["kind"] == OpKind.ONE_SIDED] for rank in ops]
    times = np.bincount(np.concatenate([np.zeros(0, int), *which]), minlength=len(ONE_SIDED_CALLS))
    return ", ".join(
        f"MPI_{name} ({count(n, 'time')})"
        for name, n in zip(ONE_SIDED_CALLS, times.tolist(), strict=False)
        if n
    )


def _check_regular(path: str | os.PathLike[str]) -> None:
    if os.path.exists(path) and not os.path.isfile(path):
        kind = kind_of(os.stat(path).st_mode)
        raise StateError(f"{os.fspath(path)} is {kind}: expected a regular file, or a new one")


def _read(file: hdf5.Input) -> Recording:
    form = file.text("format")
    if form != FORMAT:
        raise FormatError(f"its format is {form!r}: expected {FORMAT!r}")
    head = json.loads(file.bytes("head"))
    ops = [_dataset(file, f"ops/{r}", OP) for r in range(file.n_datasets("ops"))]
    comms = [_dataset(file, f"comms/{i}", np.int32) for i in range(file.n_datasets("comms"))]
    closed = np.array(head["closed"], bool)
    if len(closed) != len(ops) or bool(ops) > bool(comms):
        raise FormatError(
            f"inconsistent counts: {len(ops)} ranks, {len(closed)} entries of closed, "
            f"{len(comms)} communicators"
        )
    for i, members in enumerate(comms):
        if members.size and not 0 <= members.min() <= members.max() < len(ops):
            raise FormatError(f"communicator {i} has a member that is not a rank")
    info = dict(head["info"])
    for name in NUMBERS:  # a prediction uses these
        given = info.get(name, 0)
        if type(given) not in (int, float) or not 0 <= given < MOST_NUMBER:
            raise FormatError(f"{name} is {given!r}: expected a number from 0 to {MOST_NUMBER:g}")
    words = [list(map(str, head[name])) for name in ("procedures", "warnings")]
    return Recording(ops, comms, closed, info, *words)


def _dataset(file: hdf5.Input, name: str, dtype: Any) -> NDArray[Any]:
    rows = file.rows(name)
    if rows is None or rows.dtype != dtype or rows.ndim != 1:
        raise FormatError(f"{name} is damaged, or was written by another version of pylb")
    return np.ascontiguousarray(rows)


def _operations(rank: Any) -> NDArray[Any]:
    if isinstance(rank, np.ndarray):
        if rank.dtype != OP:
            raise FormatError(f"operations have the type {rank.dtype}: expected {OP}")
        return np.ascontiguousarray(rank)
    out = np.zeros(len(rank), OP)
    for i, given in enumerate(rank):
        fields = dict(given)
        fields["kind"] = OpKind[fields["kind"]]
        for name, value in fields.items():
            out[name][i] = value
    return out


Function = TypeVar("Function", bound=Callable[..., Any])


@functools.lru_cache(maxsize=1)
def _recorder() -> ctypes.CDLL | None:
    """Return the recorder, if it is loaded into this process."""
    program = ctypes.CDLL(None)
    return program if hasattr(program, "pylb_procedure_enter") else None


@overload
def procedure(function: Function, /, *, name: str | None = None) -> Function: ...
@overload
def procedure(*, name: str) -> Callable[[Function], Function]: ...
def procedure(function: Any = None, /, *, name: str | None = None) -> Any:
    """Mark a function, so that `pylb record` measures its time.

    Without the recorder, the function is returned unchanged.  In C, use the macro
    ``PYLB_PROCEDURE`` of ``csrc/whatif/recorder/pylb_procedure.h``, or compile with
    ``-finstrument-functions`` and name the functions: ``pylb record --procedures serve,...``.

    Parameters
    ----------
    function : callable
    name : str, optional
        Default: the function's name with its class, e.g. ``Server.answer``.

    Examples
    --------
    >>> @pylb.procedure
    ... def serve(request):
    ...     return request
    >>> serve("a request")
    'a request'
    """
    if function is None:
        return functools.partial(procedure, name=name)
    recorder = _recorder()
    if recorder is None:
        return function
    known = getattr(function, "__qualname__", type(function).__qualname__)  # objects lack it
    number = recorder.pylb_procedure((name or known).encode())
    enter, leave = recorder.pylb_procedure_enter, recorder.pylb_procedure_leave

    @functools.wraps(function)
    def marked(*args: Any, **kwargs: Any) -> Any:
        enter(number)
        try:
            return function(*args, **kwargs)
        finally:
            leave(number)

    return marked
