"""Predict the time of a recorded program on other processors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core
from pylb.console import count
from pylb.errors import DomainError, OutOfRangeError, warn
from pylb.model import checks
from pylb.model.snapshot import F64, I32
from pylb.prediction.recorder.recording import STEP, Collective, OpKind, Recording

ENDS = ("through", "cut", "stuck")

DEFAULTS: dict[str, Any] = {
    "alpha": 1e-6,
    "beta": 1e-10,
    "overhead": 0.0,
    "eager": 4096,
    "response": 0.0,
}
"""Values of `Target`, used if neither the call nor the recording has them.  The costs of a message
are those within a machine."""

MOST_PROCESSORS = 1 << 20
MOST_NODES = 1 << 12  # limit of the number of nodes, unless there are more processors
PERIOD = 0.005
"""Period of ``pylb lab`` in seconds."""


@dataclass(frozen=True)
class Target:
    """The machine for a prediction: its processors, its network, and which rank runs where.

    Of k ranks that compute on a processor, each gets 1/k of it at any time (egalitarian processor
    sharing).  A rank that waits in MPI uses no processor.

    Examples
    --------
    >>> prediction = pylb.whatif("run", placement=[0, 0, 1, 1], speed=[1.0, 0.5])
    >>> prediction.target.speed
    array([1. , 0.5])
    """

    placement: I32  #: (p,) processor of each rank.
    #: (q,) speed of each processor: in 1 second, it does work that took this number of seconds of
    #: processor time in the recording.
    speed: F64
    node: I32  #: (q,) node of each processor.
    #: (m, m) seconds per message and per byte from one node to another; m: number of nodes.  alpha
    #: includes the recorded ``response``: the mean delay until a rank notices a message, if it
    #: sleeps between two polls.
    alpha: F64
    beta: F64
    share: F64  #: (q,) available fraction of each processor, as in ``pylb lab --share``.
    #: Period of the shares in seconds.  In each period, the processor is available until its share
    #: is used up; waiting in MPI uses up the share, too.  With 0, a share acts like a lower speed.
    #: Default: 5 ms as in ``pylb lab``, or 0 if the recorded ranks slept while they waited, because
    #: sleep does not use up a share.
    period: float
    overhead: float  #: Processor seconds of an MPI call.
    eager: int  #: Largest message, in bytes, that is sent before its receive is posted.

    def simulate(
        self,
        ops: list[NDArray[Any]],
        comms: Sequence[NDArray[np.int32]],
        steps: list[NDArray[Any]] | None = None,
    ) -> F64:
        """Simulate each rank's operations; return the figures of `_core.simulate`."""
        machine = (self.placement, self.speed, self.node, self.alpha, self.beta, self.share)
        start, member = comm_arrays(comms)
        return _core.simulate(
            ops, start, member, *machine, self.period, self.overhead, self.eager, steps or []
        )


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """The prediction of a recorded run on other processors.

    Examples
    --------
    >>> prediction = pylb.whatif("run", placement=[0, 1, 2, 3])
    >>> prediction.complete, prediction.end
    (True, ['through', 'through', 'through', 'through'])
    """

    time: float  #: Seconds from the end of MPI_Init to the last rank's MPI_Finalize.
    finish: F64  #: (p,) time when each rank ends, in seconds.
    busy: F64  #: (p,) processor seconds of each rank.
    waiting: F64  #: (p,) seconds for which each rank waits within MPI.
    paused: F64  #: (p,) seconds for which each rank sleeps or waits for files.
    #: How each rank ends: ``"through"`` (complete), ``"cut"`` (its records end early), ``"stuck"``
    #: (it waits for a message that never comes).
    end: list[str]
    processor_busy: F64  #: (q,) seconds of work of each processor.
    target: Target
    recorded: float | None  #: Wall time of the recorded run.
    warnings: list[str] = field(default_factory=list)  #: Reasons why the prediction may be wrong.
    #: For each operation of each rank: when it begins and ends, and which rank it waits for.
    steps: list[NDArray[Any]] | None = None

    @property
    def complete(self) -> bool:
        """Whether all ranks have ended normally."""
        return all(end == "through" for end in self.end)

    def __repr__(self) -> str:
        was = "" if self.recorded is None else f", recorded {self.recorded:.4g} s"
        doubt = f", {len(self.warnings)} warnings" if self.warnings else ""
        return f"<Prediction: {self.time:.4g} s{was}{doubt}>"


def comm_arrays(comms: Sequence[NDArray[np.int32]]) -> tuple[NDArray[np.int64], I32]:
    """Return where each communicator begins, and the members of all communicators in one array."""
    start = np.concatenate([[0], np.cumsum([len(one) for one in comms])]).astype(np.int64)
    return start, np.concatenate([np.zeros(0, np.int32), *comms]).astype(np.int32)


def whatif(
    run: Recording | str | os.PathLike[str], *, steps: bool = False, **where: Any
) -> Prediction:
    """Predict the time of a recorded program under another placement.

    This is the process load balancing factor (Eom and Hollingsworth 1998): the recorded operations
    are simulated on the target, where ranks that compute share their processor.  Values that are
    not given here come from the recording, or else from `DEFAULTS`.

    Parameters
    ----------
    run : Recording or path
    steps : bool
        Store the times of each operation in the result (32 bytes per operation).
    **where
        The target: ``placement``, ``speed``, ``node``, ``network``, ``share`` and the other
        arguments of `target`.

    Examples
    --------
    >>> run = pylb.Recording.load("run")
    >>> prediction = pylb.whatif(run, placement=[0, 0, 1, 1], speed=[1.0, 0.5])
    >>> prediction.time > run.seconds
    True
    """
    recording = Recording.given(run)
    aim = target(recording, **where)
    checks.flag("steps", steps)
    times = [np.zeros(len(ops), STEP) for ops in recording.ops] if steps else None
    figures = aim.simulate(recording.ops, recording.comms, times)
    finish, busy, waiting, paused, done, end, unread = figures.T.copy()
    ends = [ENDS[int(e)] for e in end]
    found = _warnings_of(recording, ends, done.astype(int), unread.astype(int))
    found = [*recording.warnings, *found]
    for text in found:
        warn(text)
    return Prediction(
        time=float(finish.max(initial=0.0)),
        finish=finish,
        busy=busy,
        waiting=waiting,
        paused=paused,
        end=ends,
        processor_busy=np.bincount(aim.placement, busy, len(aim.speed)).astype(np.float64),
        target=aim,
        recorded=recording.seconds,
        warnings=found,
        steps=times,
    )


def target(
    recording: Recording,
    *,
    placement: ArrayLike | None = None,
    speed: ArrayLike | None = None,
    node: ArrayLike | None = None,
    network: Any = None,
    share: ArrayLike = 1.0,
    period: float | None = None,
    overhead: float | None = None,
    eager: int | None = None,
) -> Target:
    """Make the target for a recorded program; the recording gives the defaults.

    Parameters
    ----------
    recording : Recording
    placement : (p,) array of int, optional
        Processor of each rank.  Default: each rank has its own processor.
    speed : float or (q,) array, optional
        Speed of each processor; 1: as fast as the recorded one.  The length of the array is the
        number of processors.  Default: all 1; there are then as many processors as entries of
        `share` or `node`, or else 1 + the largest index in the placement.
    node : (q,) array of int, optional
        Node of each processor.  Default: all are on one node.
    network : (alpha, beta), or a mapping, optional
        Seconds per message and per byte: numbers, or (m, m) arrays by node.
    share, period, overhead, eager
        See `Target`; a share may be one number for all processors.
    """
    place, speeds, shares, nodes = _processors(recording.n_ranks, placement, speed, share, node)
    assumed = {**DEFAULTS, **{k: v for k, v in recording.info.items() if k in DEFAULTS}}
    given = {"overhead": overhead, "eager": eager}
    assumed.update({k: checks.number(k, v) for k, v in given.items() if v is not None})
    alpha, beta = _network(network, assumed, int(nodes.max(initial=0)) + 1)
    alpha += float(assumed["response"])
    if period is None:
        period = PERIOD if assumed["response"] <= 0 else 0.0
    period = checks.number("period", period)
    overhead, eager = float(assumed["overhead"]), int(assumed["eager"])
    return Target(place, speeds, nodes, alpha, beta, shares, period, overhead, eager)


def _processors(
    p: int, placement: ArrayLike | None, speed: ArrayLike | None, share: ArrayLike, node: Any
) -> tuple[I32, F64, F64, I32]:
    """Return placement, speed, share and node as arrays; the C core checks their values."""
    place = checks.integers("placement", np.arange(p) if placement is None else placement, np.int64)
    if place.shape != (p,):
        raise DomainError(f"placement has {place.size} entries: expected {p}, one for each rank")
    speeds = checks.array("speed", 1.0 if speed is None else speed, np.float64)
    _check_most("placement", place, MOST_PROCESSORS)
    if speeds.ndim == 0:
        sizes = [np.size(np.asarray(one)) for one in (share, node) if np.ndim(one) == 1]
        speeds = np.full([*sizes, int(place.max(initial=0)) + 1][0], float(speeds))
    if speeds.ndim != 1:
        raise DomainError(
            f"speed has the shape {speeds.shape}: expected a number, or one for each processor"
        )
    n = len(speeds)
    shares = checks.array("share", share, np.float64)
    if shares.ndim == 0:
        shares = np.full(n, float(shares))
    nodes = checks.integers("node", np.zeros(n, int) if node is None else node, np.int64)
    _check_most("node", nodes, max(n, MOST_NODES))
    for name, array in (("share", shares), ("node", nodes)):
        if array.shape != speeds.shape:
            raise DomainError(f"{name} has {array.size} entries: expected {n}, like speed")
    return place.astype(np.int32), speeds, shares, nodes.astype(np.int32)


def _check_most(name: str, values: NDArray[Any], most: int) -> None:
    """Check that no index is `most` or more (memory is allocated for the largest), or -`most`."""
    for bad in values[(values < -most) | (values >= most)]:
        raise OutOfRangeError(f"{name} has the entry {bad}: expected entries below {most}")


def _network(given: Any, assumed: Mapping[str, Any], m: int) -> tuple[F64, F64]:
    names = ("alpha", "beta")
    what = "(alpha, beta), or a mapping with these names"
    known = {} if given is None else given
    if isinstance(known, Mapping):
        pair = [known.get(x, assumed[x]) for x in names] if {*known} <= {*names} else []
    else:
        pair = checks.several("network", given, what)
    if len(pair) != 2:
        raise DomainError(f"network is {given!r}: expected {what}")
    out = [checks.array(f"network's {x}", y, np.float64) for x, y in zip(names, pair, strict=True)]
    for name, matrix in zip(names, out, strict=True):
        if matrix.shape not in ((), (m, m)):
            raise DomainError(
                f"network's {name} has the shape {matrix.shape}: expected a number, or an "
                f"array ({m}, {m}) by node"
            )
    alpha, beta = (np.broadcast_to(matrix, (m, m)).copy() for matrix in out)
    return alpha, beta


def _warnings_of(
    recording: Recording, ends: list[str], done: NDArray[Any], unread: NDArray[Any]
) -> list[str]:
    out = []
    if all(end == "through" for end in ends):  # a cut or stuck rank leaves messages unread
        out += [
            f"rank {rank} never receives {count(unread[rank], 'message')} sent to it"
            for rank in np.flatnonzero(unread)
        ]
    for rank, end in enumerate(ends):
        ops = recording.ops[rank]
        if end == "cut":
            out.append(
                f"rank {rank}: its records end after {len(ops)} operations, before MPI_Finalize"
            )
        elif end == "stuck":
            at = ops[min(int(done[rank]), len(ops) - 1)]
            out.append(f"rank {rank} waits forever in operation {done[rank]}: {describe(at)}")
    return out


def describe(op: Any) -> str:
    kind = OpKind(int(op["kind"]))
    if kind in (OpKind.SEND, OpKind.ISEND):
        return f"{kind.name} of {op['bytes']} bytes to rank {op['peer']}, tag {op['tag']}"
    if kind in (OpKind.RECV, OpKind.IRECV, OpKind.PROBE):
        source = "any rank" if op["flags"] & 2 else f"rank {op['peer']}"
        return f"{kind.name} from {source}, tag {op['tag']}, communicator {op['comm']}"
    if kind in (OpKind.COLL, OpKind.ICOLL):
        return f"{Collective(int(op['what'])).name} on communicator {op['comm']}"
    if kind == OpKind.WAIT:
        return f"WAIT for request {op['request']}"
    return str(kind.name)
