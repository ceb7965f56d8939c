"""Call the public functions with odd arguments, one at a time: ``python tests/fuzz/python/odd.py``.

Each argument of a valid call is replaced by arrays of other types, shapes, byte orders and values,
by objects whose ``__len__`` or ``__array__`` is wrong, and by things of another kind.  A call may
succeed, or raise an error of pylb (or TypeError for a call that Python itself refuses, or
MemoryError); it must not raise another error, die, or take more than 10 s.
"""

import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from isolated import FAILED, READ, batch
from targets import recording

import pylb
from pylb.errors import PylbError

LIMITS = {"seconds": 10, "wait": 60, "memory": 4 << 30}


class WrongLength:
    """A sequence whose length is larger than its number of entries."""

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, at: int) -> float:
        if at > 2:
            raise IndexError(at)
        return 1.0


class FailingLength:
    """A sequence whose length raises an error."""

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __getitem__(self, at: int) -> float:
        raise RuntimeError("no item")


class WrongArray:
    """An object whose `__array__` returns an array of another kind, or something else, or fails."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if isinstance(self.made, Exception):
            raise self.made
        return self.made


class WrongNumber:
    """An object whose conversion to a number fails."""

    def __float__(self) -> float:
        raise RuntimeError("no number")

    __index__ = __int__ = __float__  # type: ignore[assignment]


def things() -> Iterator[Any]:
    """Return things that are not arrays."""
    yield from (None, "text", b"bytes", "", 3.5, -1, 0, 10**30, -(10**30), float("nan"), True, 1j)
    yield from (float("inf"), [], {}, [[1], [2, 3]], ["a", "b"], [None], object(), object, len)
    yield from (WrongLength(), FailingLength(), WrongNumber(), "a\0b", "\udcff", [10**30], {"a": 1})
    yield from (WrongArray("text"), WrongArray(KeyError("key")), WrongArray(np.zeros((2, 2, 2))))
    yield from (iter([1, 2]), range(5), slice(3), np.float64(1.5), np.datetime64("2020-01-01"), ())


def arrays(good: Any) -> Iterator[Any]:
    """Return arrays that differ from a valid one in type, shape, byte order or values."""
    a = np.array(good)
    if a.dtype.kind not in "biuf" or a.size == 0:
        return
    locked = a.copy()
    locked.flags.writeable = False
    yield from (a.astype(a.dtype.newbyteorder()), locked, np.repeat(a, 2, 0)[::2], a[::-1])
    yield from (np.asfortranarray(a), a.T, a[:0], a[:1], a[:-1], np.concatenate([a, a]), a[None])
    yield from (a.reshape(-1)[0].reshape(()), a.astype(object), a.astype(str), a.astype(complex))
    yield from (a.astype(np.float16), a.astype(np.uint8), a.astype(np.int64), a.astype(np.float32))
    yield from (a.astype(bool), a.astype(np.longdouble), a.astype("M8[s]", casting="unsafe"))
    yield from (np.ma.masked_all_like(a), np.broadcast_to(a[:1], a.shape), list(a), tuple(a))
    for value in (-1, 2**31 - 1, 2**31, 2**62, -(2**62)):
        yield np.full(a.shape, value, np.int64)
    for number in (np.nan, np.inf, -np.inf, 1e308, 5e-324, -1e-300, 1e31):
        yield np.full(a.shape, number)
    yield np.full(a.shape, 2**64 - 1, np.uint64)
    unaligned = np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape)
    yield unaligned


class Call:
    """A valid call: a function and its arguments by name."""

    def __init__(self, name: str, function: Callable[..., Any], /, **words: Any) -> None:
        self.name, self.function, self.words = name, function, words

    def cases(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Return the odd calls, each with a description of its odd argument."""
        for word, good in self.words.items():
            odd = list(things())
            if isinstance(good, list | np.ndarray):
                odd += list(arrays(good))
            for i, value in enumerate(odd):
                if word == "growth" and callable(value):
                    continue  # a function of the user, whose error is its own
                yield (
                    f"{self.name}({word}=#{i} {type(value).__name__})",
                    {**self.words, word: value},
                )


class Changed(Call):
    """A use of an object whose arrays change after they were checked."""

    def cases(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the cases: each array in turn, set to each of these values."""
        for path, _ in parts_of(self.words["make"]()):
            for value in (10**6, -1, -(10**9), 2**31 - 1, np.nan, np.inf, -1e300, 1e308, 0):
                yield f"{self.name}{path} = {value}", {**self.words, "path": path, "value": value}


def parts_of(whole: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return the public arrays within something, with their names."""
    if isinstance(whole, np.ndarray):
        yield path, whole
    elif isinstance(whole, list | tuple):
        for i, one in enumerate(whole):
            yield from parts_of(one, f"{path}[{i}]")
    elif type(whole).__module__.startswith("pylb"):
        for name in type(whole).__dataclass_fields__:
            if not name.startswith("_"):
                yield from parts_of(getattr(whole, name), f"{path}.{name}")


def change(make: Callable[[], Any], uses: list[Any], path: str = "", value: Any = 0) -> None:
    """Change an array, and use what contains it."""
    whole = make()
    for name, array in parts_of(whole):
        if name == path and array.flags.writeable:
            for column in array.dtype.names or [...]:
                with np.errstate(all="ignore"):
                    array[column] = np.array(value).astype(array[column].dtype)
    for use in uses:
        with contextlib.suppress(PylbError):
            use(whole)


def calls(folder: Path) -> list[Call]:
    """Return the valid calls."""
    graph = (np.array([0, 2, 4, 6, 8]), np.array([1, 3, 0, 2, 1, 3, 2, 0]))
    load, rank = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 0, 1, 1])
    src, dst, nbytes = np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([8.0, 8.0, 8.0])
    edges = pylb.model.Edges(src, dst, nbytes)
    snapshot = pylb.Snapshot(load, rank, 2, edges=edges)
    trace = pylb.Trace.from_snapshots([snapshot] * 6)
    machine, models = pylb.Machine.parse("node:2 rank:2"), lambda: points_of(2)
    coords = np.arange(12.0).reshape(4, 3)
    run = recording()
    run.save(folder / "run")
    trace.save(folder / "vt")
    machine.save(folder / "machine")

    def solve(**words: Any) -> None:
        lb = pylb.Balancer(**{"every": 2, "strategy": "GreedyLB", "record": False, **words})
        for key in range(4):
            lb.add(key, [key])
        for _ in lb.iterate(5):
            for key, _ in lb.local():
                lb.send((key + 1) % 4, key, 1)

    def method(name: str, *args: Any, **words: Any) -> Any:
        lb = pylb.Balancer(every=2, record=False)
        for key in range(4):
            lb.add(key, [key])
        return getattr(lb, name)(*args, **words)

    def advise(loads: Any = None, keys: Any = None, **words: Any) -> None:
        lb = pylb.Advisor(**{"every": 2, **words})
        for _ in range(5):
            lb.advise(loads=loads, keys=keys)

    def cells(**words: Any) -> None:
        lb = pylb.Advisor(every=2)
        for _ in range(5):
            lb.advise(**words)

    def generated(**words: Any) -> None:
        program = pylb.replaying.Imbalance(**{"mean": 1.0, "iterations": 50, **words})
        program.optimum(0.5)
        program.run("menon", cost=0.5)

    def with_models(name: str, **words: Any) -> Any:
        return getattr(models(), name)(**words)

    snap: dict[str, Any] = {"load": load, "rank": rank, "n_ranks": 2, "coords": coords}
    snap |= {"nbytes": np.array([1, 2, 3, 4]), "memory": np.array([1, 1, 1, 1])}
    snap |= {"migratable": np.array([True] * 4), "memory_limit": np.array([9, 9])}
    snap |= {"speed": np.array([1.0, 2.0]), "background": np.array([0.0, 0.0])}
    snap |= {"node": np.array([0, 1]), "key": np.arange(4)}
    snap |= {"block": np.array([0, 0, 1, -1]), "block_bytes": np.array([3, 4])}
    known = {k: v for k, v in snap.items() if k in pylb.Snapshot.__dataclass_fields__}
    edge = {"src": src, "dst": dst, "nbytes": nbytes}

    def whole_snapshot() -> pylb.Snapshot:
        cast = [np.array([0]), np.array([0, 2]), np.array([1, 2]), np.array([8.0])]
        given = {name: np.array(value) for name, value in known.items() if name != "n_ranks"}
        given["edges"] = pylb.model.Edges(**{name: value.copy() for name, value in edge.items()})
        return pylb.Snapshot(**given, n_ranks=2, multicasts=pylb.model.Multicasts(*cast))

    part = {"graph": graph, "parts": 2, "weight": np.array([1, 2, 3, 4])}
    return [
        Call("Snapshot", lambda **w: pylb.place(pylb.Snapshot(**w), "GreedyLB"), **known,
             edges=edges),
        Call("Edges", lambda **w: pylb.Snapshot(load, rank, 2, edges=pylb.model.Edges(**w)),
             src=src, dst=dst, nbytes=nbytes, messages=np.array([1.0, 1.0, 1.0])),
        Call("place", pylb.place, snapshot=snapshot, strategy="RefineLB", seed=1, tolerance=0.01),
        Call("evaluate", pylb.evaluate, snapshot=snapshot, rank=rank),
        Call("traffic", pylb.placing.traffic, snapshot=snapshot, strategy="GossipLB", seed=1),
        Call("with_rank", lambda rank: snapshot.with_rank(rank), rank=rank),
        Call("replay", pylb.replay, trace=trace, strategy="GreedyLB", every=2, lag=0, cost=0.1,
             migration_alpha=1e-6, seed=0),
        Call("optimum", pylb.replaying.optimum, trace=trace, strategy="GreedyLB", cost=0.1, seed=0,
             width=4),
        Call("from_snapshots", lambda s: pylb.Trace.from_snapshots(s), s=[snapshot]),
        Call("Trace.load", lambda path: pylb.Trace.load(path), path=str(folder / "vt")),
        Call("Trace.save", lambda path: trace.save(path), path=str(folder / "out")),
        Call("Trace.tasks", lambda phase: trace.tasks(phase), phase=0),
        Call("partition", pylb.partition, **part, shares=np.array([1.0, 2.0]),
             coords=coords[:, :2], imbalance=1.1, seed=1),
        Call("partition rib", lambda **w: pylb.partition(method="rib", **w), coords=coords, parts=2,
             weight=np.array([1.0, 2.0, 3.0, 4.0])),
        Call("partition graph", lambda start, to: pylb.partition((start, to), 2),
             start=graph[0], to=graph[1]),
        Call("color", pylb.partitioning.color, graph=graph, distance=1, symmetrize=False),
        Call("order", pylb.partitioning.order, graph=graph, symmetrize=True),
        Call("Machine.parse", lambda text: pylb.Machine.parse(text), text="node:2 rank:2"),
        Call("Machine.load", lambda path: pylb.Machine.load(path), path=str(folder / "machine")),
        Call("Machine.save", lambda path: machine.save(path), path=str(folder / "machine2")),
        Call("Machine.with_speeds", lambda s: machine.with_speeds(s), s=np.array([1.0] * 4)),
        Call("Metrics.of", lambda time: pylb.model.Metrics.of(time), time=load),
        Call("SpeedModels", lambda points: pylb.SpeedModels(points),
             points=[(np.array([1.0, 2.0]), np.array([3.0, 2.0]))]),
        Call("SpeedModels.split", lambda n: with_models("split", n=n), n=10),
        Call("SpeedModels.times", lambda d: models().times(d), d=np.array([3.0, 4.0])),
        Call("SpeedModels.update", lambda a, b: models().update(a, b), a=np.array([3, 4]),
             b=np.array([3.0, 4.0])),
        Call("SpeedModels.save", lambda p: models().save(p), p=str(folder / "models")),
        Call("SpeedModels.load", lambda p: pylb.SpeedModels.load(p), p=str(folder / "models")),
        Call("Imbalance", generated, growth=np.arange(50.0), drift=np.ones(50),
             noise=np.zeros(50), iterations=50, mean=1.0),
        Call("VirtualCluster", lambda **w: pylb.VirtualCluster(**w).run(id), p=2,
             speed=np.array([1.0, 2.0]), network=(1e-6, 1e-9), clock="cpu"),
        Call("whatif", pylb.whatif, run=run, placement=[0, 1], steps=False),
        Call("whatif target", pylb.whatif, run=run, speed=np.array([1.0, 2.0]),
             placement=np.array([0, 1])),
        Call("critical_path", pylb.prediction.critical_path, run=run, network=(0.0, 0.0)),
        Call("procedures", pylb.prediction.procedures, run=run, network=(0.0, 0.0)),
        Call("suggest", pylb.prediction.suggest, run=run, placement=[0, 1], best=2, tries=3),
        Call("Recording.load", lambda p: pylb.Recording.load(p), p=str(folder / "run")),
        Call("Recording.save", lambda p: run.save(p), p=str(folder / "run2")),
        Call("report", pylb.report, run=trace, path=str(folder / "r.html"), title="t"),
        Call("RunRecord.load", lambda p: pylb.RunRecord.load(p), p=str(folder / "none.h5")),
        Call("Balancer", solve, every=2, strategy="GreedyLB", seed=1, lag=0, mode="on",
             trigger="menon", clock="cpu", network=(1e-6, 1e-9), record=False, load=None),
        Call("Balancer.add", lambda key, block: method("add", key, block), key=9, block=1),
        Call("Balancer.send", lambda a, b, x: method("send", a, b, x), a=1, b=2, x=1),
        Call("Balancer.remove", lambda key: method("remove", key), key=1),
        Call("Balancer.rank_of", lambda key: method("rank_of", key), key=1),
        Call("Balancer.ranks_of", lambda keys: method("ranks_of", keys), keys=np.arange(4)),
        Call("Balancer.inbox", lambda key: method("inbox", key), key=1),
        Call("Balancer.multicast", lambda a, b, x: method("multicast", a, b, x), a=1,
             b=np.array([2, 3]), x=1),
        Call("Balancer.iterate", lambda n: [i for i, _ in zip(range(9), method("iterate", n),
                                                              strict=False)], n=5),
        Call("Balancer.checkpoint", lambda p: method("checkpoint", p), p=str(folder / "check")),
        Call("Balancer.save", lambda p: method("save", p), p=str(folder / "saved.h5")),
        Call("Balancer.report", lambda p: method("report", p), p=str(folder / "rep.json")),
        Call("Balancer.restore", lambda p: pylb.Balancer.restore(None, p), p=str(folder / "check")),
        Call("Advisor", advise, every=2, strategy="GreedyLB", seed=1, lag=0, loads=1.0),
        Call("Advisor.advise", cells, loads=load, keys=np.arange(4), nbytes=np.array([1, 2, 3, 4]),
             coords=coords, migratable=np.array([True] * 4), memory=np.array([1, 2, 3, 4])),
        Call("RowPartition", lambda **w: pylb.RowPartition(None, **w), n=10, model="fpm", tol=0.05),
        Call("TilePartition", lambda **w: pylb.TilePartition(None, **w), shape=(4, 4), tol=0.05),
        Call("Directory.update", lambda i, data: pylb.Directory(None, "f8").update(i, data=data),
             i=np.arange(4), data=load),
        Call("Directory", lambda **w: pylb.Directory(None, **w), dtype="f8", shape=(2,)),
        Call("Directory.find", lambda ids: found(ids), ids=np.arange(4)),
        Call("Plan", lambda to: pylb.Plan(None, to), to=np.zeros(4, np.int32)),
        Call("Plan.forward", lambda x: pylb.Plan(None, np.zeros(4, np.int32)).forward(x), x=load),
        Call("migrate", lambda x, to: pylb.migrate(None, x, to=to), x=load,
             to=np.zeros(4, np.int32)),
        Call("plan_between", lambda have, want: pylb.comm.plan_between(None, have, want),
             have=np.arange(4), want=np.arange(4)[::-1].copy()),
        Changed("changed snapshot", change, make=whole_snapshot, uses=[
            *(lambda s, name=name: pylb.place(s, name) for name in pylb.strategies()),
            pylb.evaluate, lambda s: pylb.placing.traffic(s, "GossipLB"),
            lambda s: pylb.Trace.from_snapshots([s, s]).replay("GreedyLB", every=1)]),
        Changed("changed trace", change,
                make=lambda: pylb.Trace.from_snapshots([whole_snapshot()] * 4),
                uses=[lambda t: t.replay("GreedyLB", every=2), lambda t: t.optimum(cost=0.1),
                      lambda t: t[0], lambda t: t.tasks(0), lambda t: t.save("out")]),
        Changed("changed recording", change, make=recording,
                uses=[pylb.whatif, pylb.prediction.critical_path, pylb.prediction.procedures,
                      lambda r: pylb.prediction.suggest(r, placement=[0, 1], tries=2)]),
        Call("register_strategy", pylb.register_strategy, call=lambda s: s.rank, name="own",
             looks_at=["load"]),
        Call("a strategy's answer", lambda out: pylb.place(snapshot, lambda s: out), out=rank),
    ]  # fmt: skip


def points_of(p: int) -> Any:
    """Return speed models of p ranks."""
    return pylb.SpeedModels([(np.array([1.0, 10.0]), np.array([5.0, 4.0]))] * p)


def found(ids: Any) -> Any:
    """Look up objects in a directory of four."""
    directory = pylb.Directory(None)
    directory.update(np.arange(4))
    return directory.find(ids)


def outcome(call: Call, words: dict[str, Any]) -> str:
    """Return what is wrong with a call's outcome, or ''."""
    try:
        call.function(**words)
    except (PylbError, MemoryError):
        return ""
    except OSError as why:  # the system may refuse a path
        return "" if why.filename is not None else repr(why)
    except BaseException as why:
        frame = why.__traceback__
        while frame and frame.tb_next:
            frame = frame.tb_next
        if frame and frame.tb_frame.f_code.co_filename == __file__:
            return ""  # an error that the odd argument itself raises
        at = f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else ""
        return f"{type(why).__name__}: {why} ({at})"[:230]
    return ""


def main(only: list[str]) -> int:
    """Run all cases, or those of the named calls; print what went wrong."""
    warnings.simplefilter("ignore")
    n, wrong = 0, []
    with tempfile.TemporaryDirectory(prefix="pylb-odd-") as folder:
        os.chdir(folder)
        for call in calls(Path(folder)):
            if only and call.name not in only:
                continue
            said = outcome(call, call.words)
            cases = [(f"{call.name}: the valid call", call.words), *call.cases()]
            n += len(cases)

            def one(i: int, call: Call = call, cases: Any = cases) -> tuple[int, str]:
                why = outcome(call, cases[i][1])
                return (FAILED if why else READ), why

            at = 0
            while at < len(cases):
                at, some = batch(range(at, len(cases)), one, **LIMITS)
                wrong += [f"{cases[i][0]}: {why}" for i, kind, why in some if kind == FAILED]
            if said:
                wrong.append(f"{call.name}, which should be valid: {said}")
    print("\n".join(wrong))
    print(f"{n} calls, {len(wrong)} wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
