"""A saved run, replayed with the same arguments, makes the same decisions, to the last bit.

Random programs on virtual ranks with declared times, and under MPI with real clocks; a shadow run
against the replay of its record.
"""

import dataclasses
import json
import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from chance import examples
from each_case import dealt
from hypothesis import given
from hypothesis import strategies as st
from launch import HERE, printed

import pylb
from pylb.decide.decider import registered

FIELDS = [f.name for f in dataclasses.fields(pylb.decide.Receipt)]
NETWORK = 5e-6, 4e-9


def differences(one, other, without=()):
    """Return the differences of two histories, in order."""
    said = [] if len(one) == len(other) else [f"{len(one)} and {len(other)} receipts"]
    for a, b in zip(one, other, strict=False):
        for name in FIELDS:
            u, v = repr(getattr(a, name)), repr(getattr(b, name))
            if u != v and name not in without:
                said.append(f"after {a.iteration}, {b.iteration}: {name}: {u} and {v}")
    return said


# ---- programs ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """A random program: its seed determines loads, messages, and when objects come and go."""

    seed: int
    n_ranks: int
    n_objects: int
    loops: tuple  # (n, stop) of each: its iterations, and the one in which a break ends it
    load: str  # how loads change: "noise", "spot", "growth", "jump", "empty" (often none)
    comes: float  # probability that an object comes in an iteration or between two loops
    goes: float  # probability that an object goes
    talks: str  # "": no messages; "ring"; "random", also to objects that leave; "casts": multicasts
    exchanges: bool  # whether iterations have two halves with an exchange of messages between them
    sizes: bool  # whether objects declare sizes, and some may not migrate; else sizes are measured
    slow: bool  # whether ranks are of different speeds
    coords: bool = False
    updates: float = 0.0  # probability that an object changes a property in an iteration
    limits: str = ""  # memory limits of the ranks: "wide", or "tight": more than one exceeds them
    other: str = ""
    again: float = 0.0  # probability that another object with the same key replaces one that goes
    works: bool = False  # whether some objects have an estimate of their work
    between: bool = False  # whether objects send messages between two loops that have iterations
    asks: str = ""  # words of "background speed memory_limit": functions with changing answers

    def seconds(self, key, it):
        """Return the load of an object in an iteration."""
        rng = np.random.default_rng((self.seed, key, it))
        base = np.random.default_rng((self.seed, key)).exponential(1e-3)
        x = base * (1 + 0.2 * rng.random())
        if self.load == "empty" and (it // 5) % 2:
            return 0.0
        if self.load == "spot":
            x *= 1 + 8 * math.exp(-0.5 * ((key % 97 / 97 - it / 60) / 0.1) ** 2)
        if self.load == "growth" and key % 4 == 0:
            x *= 1 + 0.05 * it
        if self.load == "jump" and it > 15 and key % 7 == 0:
            x *= 6
        return x

    def changes(self, it, alive, between):
        """Return (rank, key) of the objects that come, and the keys of those that leave."""
        rng = np.random.default_rng((self.seed, it, between))
        gone = [k for k in sorted(alive) if rng.random() < self.goes / max(len(alive), 1)]
        new = [(int(rng.integers(self.n_ranks)), k) for k in gone if rng.random() < self.again]
        for r in range(self.n_ranks):
            key = int(rng.integers(0, 3 * self.n_objects + 30))  # some of these keys existed before
            if rng.random() < self.comes and key not in alive | {k for _, k in new}:
                new.append((r, key))
        return new, gone

    def add(self, lb, key):
        """Add the object with this key to this rank."""
        rng = np.random.default_rng((self.seed, key, 1))
        block, more = np.zeros(int(rng.integers(1, 3000))), {}
        if self.sizes:
            more["nbytes"] = int(rng.integers(0, 5000))
            more["memory"] = int(rng.integers(0, 5000)) if rng.random() < 0.5 else None
            more["migratable"] = bool(rng.random() < 0.8)
        if self.coords:
            more["coords"] = rng.random(3)
        if self.works and rng.random() < 0.7:
            more["work"] = 1 + rng.random()
        lb.add(key, block, **more)

    def update(self, lb, it):
        """Change properties of some objects of this rank."""
        rng = np.random.default_rng((self.seed, it, 7, lb.rank))
        for key, _ in lb.local():
            if rng.random() < self.updates:
                value = {
                    "nbytes": rng.integers(9000),
                    "memory": rng.integers(9000),
                    "migratable": bool(rng.random() < 0.5),
                    **({"coords": rng.random(3)} if self.coords else {}),
                    **({"work": 1 + rng.random()} if self.works else {}),
                }
                name = rng.choice(list(value))
                lb.update(key, **{name: value[name]})

    def change(self, lb, it, alive, fresh, between=0):
        """Add and remove objects; update `alive`, and `fresh`, the objects that came here."""
        new, gone = self.changes(it, alive, between)
        if between:
            here = {key for key, _ in lb.local()} | fresh
        else:
            here = set(np.array(gone)[lb.ranks_of(gone) == lb.rank].tolist()) if gone else ()
        for key in gone:
            if key in here:
                lb.remove(key)
            alive.discard(key)
        fresh.clear()
        for r, key in new:
            if r == lb.rank:
                self.add(lb, key)
                fresh.add(key)
            alive.add(key)

    def send(self, lb, key, it, there):
        """Send the messages of an object in an iteration."""
        if self.talks == "ring":
            lb.send(there[(there.index(key) + 1) % len(there)], key, np.zeros(100))
        elif self.talks == "random":
            rng = np.random.default_rng((self.seed, it, key, 2))
            for target in rng.choice(there, int(rng.integers(0, 3))).tolist():
                lb.send(target, key, np.zeros(int(rng.integers(0, 200))))
        elif self.talks == "casts":
            rng = np.random.default_rng((self.seed, it, key, 2))
            for _ in range(int(rng.integers(0, 3))):
                targets = rng.choice(there, int(rng.integers(0, 6))).tolist()
                lb.multicast(targets, key, np.zeros(int(rng.integers(0, 200))))
            if rng.random() < 0.3:
                lb.send(int(rng.choice(there)), key, b"one")

    def passes(self, comm, lb, it, alive):
        """Run the body of an iteration."""
        there = sorted(alive)
        pace = 1 + self.slow * (comm.rank % 3 == 1)
        halves = 2 if self.exchanges else 1
        for half in range(halves):
            for key, _ in lb.local():
                comm.elapse(pace * self.seconds(key, it) / halves)
                self.send(lb, key, it, there)
            if half + 1 < halves:
                lb.exchange()
        if self.other:
            comm.elapse(self.background(comm.rank))
        if self.updates:
            self.update(lb, it)

    def background(self, rank):
        """Return the seconds of other work of a rank in an iteration."""
        rng = np.random.default_rng((self.seed, rank, 3))
        return float(rng.choice([0.0, 5e-3])) * rng.random() * self.n_objects / self.n_ranks

    def answers(self, rank, words):
        """Return functions of which each answer is another number."""
        rng = np.random.default_rng((self.seed, rank, 4))
        each = {
            "background": lambda: float(rng.random() * 1e-2),
            "speed": lambda: float(rng.choice([0.5, 1.0, 1.5])),
            "memory_limit": lambda: int(rng.integers(20_000 * (self.n_objects + 1))),
        }
        learns = words.get("learn_speeds")
        return {x: each[x] for x in self.asks.split() if not (learns and x == "speed")}

    def run(self, comm, path, words, **more):
        """Run the program under a Balancer, save it, and return the history and the iterations."""
        if self.limits:
            each = {"wide": 10**9, "tight": 20_000 * self.n_objects // comm.size}[self.limits]
            more["memory_limit"] = [each // (1 + r % 3) for r in range(comm.size)]
        if self.other:
            seconds = self.background(comm.rank)
            more["background"] = (lambda: seconds) if self.other == "function" else seconds
        more = {**self.answers(comm.rank, words), **more}
        lb = pylb.Balancer(comm, **words, **more)
        alive = set(range(self.n_objects))
        for key in sorted(alive):
            if key * comm.size // self.n_objects == comm.rank:
                self.add(lb, key)
        done, fresh = 0, set()
        for (n, stop), (following, _) in pairwise([*self.loops, (0, 0)]):
            for it in lb.iterate(n):
                if it - done == stop:
                    self.change(lb, it, alive, fresh)
                    break
                self.passes(comm, lb, it, alive)
                self.change(lb, it, alive, fresh)
            done += min(n, stop)
            if done < self.n_iterations:
                self.change(lb, done, alive, fresh, between=1)
                for key, _ in lb.local() if self.between and n and following else ():
                    self.send(lb, key, 10_000 + done, sorted(alive))
        if isinstance(more.get("record"), str):
            lb.finish()
        else:
            lb.save(path)
        return lb.history, lb.metrics

    @property
    def n_iterations(self):
        """The total number of iterations of all loops."""
        return sum(min(n, stop) for n, stop in self.loops)

    @property
    def lasts(self):
        """The last whole iteration of each loop that is left early."""
        ends = np.cumsum([min(n, stop) for n, stop in self.loops])
        return {int(e) - 1 for e, (n, stop) in zip(ends, self.loops, strict=True) if stop < n}


programs = st.builds(
    Program,
    seed=st.integers(0, 2**32 - 1),
    n_ranks=st.integers(1, 8),
    n_objects=st.integers(0, 40),
    loops=st.lists(
        st.tuples(
            st.one_of(st.just(0), st.integers(0, 25)), st.one_of(st.just(99), st.integers(0, 24))
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    load=st.sampled_from(["noise", "spot", "growth", "jump", "empty"]),
    comes=st.sampled_from([0.0, 0.05, 0.3]),
    goes=st.sampled_from([0.0, 0.1, 0.6]),
    talks=st.sampled_from(["", "ring", "random", "casts"]),
    exchanges=st.booleans(),
    sizes=st.booleans(),
    slow=st.booleans(),
    coords=st.booleans(),
    updates=st.sampled_from([0.0, 0.0, 0.2]),
    limits=st.sampled_from(["", "", "wide", "tight"]),
    other=st.sampled_from(["", "", "number", "function"]),
    again=st.sampled_from([0.0, 0.5]),
    works=st.booleans(),
    between=st.booleans(),
    asks=st.sampled_from(["", "", "background", "speed", "background speed memory_limit"]),
)


def backwards(snapshot):
    """A user's strategy: move every object that may migrate to the opposite rank."""
    return np.where(
        snapshot.migratable, snapshot.n_ranks - 1 - snapshot.rank, snapshot.rank
    ).astype(np.int32)


def whenever(cycle):
    """A user's trigger."""
    return cycle.n > 2 and cycle.max > 1.3 * cycle.mean


OF_COORDS = ["HSFCLB", "RCBLB"]
IN_ROUNDS = [s.name for s in pylb.strategies().values() if s.distributed]
STRATEGIES = [
    *("auto", "PowerAwareLB", backwards, *OF_COORDS, *IN_ROUNDS),
    *(s.name for s in registered()),
]
TRIGGERS = [
    {"every": 4},
    {"trigger": whenever},
    *({"trigger": name} for name in sorted(pylb.triggers()) if name != "periodic"),
]
strategy_words = st.sampled_from(STRATEGIES).map(lambda s: {"strategy": s})
trigger_words = st.sampled_from(TRIGGERS)
switches = st.fixed_dictionaries(
    {},
    optional={
        "learn_speeds": st.booleans(),
        "pause_if_useless": st.booleans(),
        "seed": st.integers(0, 5),
    },
)


def fit(program, words):
    """Return the program with the positions that the strategy needs."""
    return dataclasses.replace(program, coords=program.coords or words.get("strategy") in OF_COORDS)


def check(program, words, path, **more):
    """Compare the run with its replay from the file; return the replay."""
    program = fit(program, words)
    cluster = pylb.VirtualCluster(program.n_ranks, clock="none", network=NETWORK)
    history, iterations = cluster.run(program.run, str(path), words, **more)[0]
    trace = pylb.Trace.load(path)
    replay = trace.replay(**words)
    assert differences(history, replay.decisions) == []
    np.testing.assert_array_equal(replay.iteration_time, iterations.time)
    np.testing.assert_array_equal(replay.metrics["max"], iterations.max)
    np.testing.assert_array_equal(replay.rank, trace.task_rank)
    again = pylb.RunRecord.of(trace).trace
    for name in ("entity_key", "entity_birth", "entity_migratable", "task_entity", "task_work"):
        np.testing.assert_array_equal(getattr(again, name), getattr(trace, name), err_msg=name)
    np.testing.assert_array_equal(again.movable(slice(None)), trace.movable(slice(None)))
    return replay


# LB steps at the start of a loop, after empty loops, and in a last loop that is left at once.
# Messages between loops; objects come, go, are replaced and change all the time.
EVENTFUL = Program(
    3, 3, 30, ((8, 99), (0, 99), (8, 99), (9, 6), (0, 99), (4, 99), (8, 0)), "spot", 0.3, 0.6,
    "ring", exchanges=False, sizes=True, slow=True, updates=0.2, again=0.5, works=True,
    between=True,
)  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_where_much_happens(tmp_path, strategy):
    """Every second strategy on 2 ranks with more LB steps, the others on 3."""
    n_ranks, every = [(3, 4), (2, 2)][STRATEGIES.index(strategy) % 2]
    program = dataclasses.replace(EVENTFUL, n_ranks=n_ranks)
    check(program, {"strategy": strategy, "every": every}, tmp_path / "run.h5")


@pytest.mark.parametrize("strategy", STRATEGIES)
@examples(2)
@given(program=programs, when=trigger_words, more=switches)
def test_every_strategy(tmp_path_factory, strategy, program, when, more):
    words = {"strategy": strategy, **when, **more}
    check(program, words, tmp_path_factory.mktemp("run") / "run.h5")


@pytest.mark.parametrize("when", TRIGGERS)
@examples(2)
@given(program=programs, strategy=strategy_words, more=switches)
def test_every_trigger(tmp_path_factory, when, program, strategy, more):
    words = {**strategy, **when, **more}
    check(program, words, tmp_path_factory.mktemp("run") / "run.h5")


@examples(5)
@given(program=programs, words=switches)
def test_without_any_arguments(tmp_path_factory, program, words):
    check(program, words, tmp_path_factory.mktemp("run") / "run.h5")


@examples(6)
@given(
    program=programs,
    strategy=strategy_words,
    when=trigger_words,
    speed=st.lists(st.sampled_from([0.5, 0.7, 1.0, 1.3]), min_size=8, max_size=8),
)
def test_speeds_that_are_given(tmp_path_factory, program, strategy, when, speed):
    """With given speeds, a trace stores work as loads; its seconds add up as in the run."""
    path = tmp_path_factory.mktemp("run") / "run.h5"
    check(program, {**strategy, **when}, path, speed=speed[: program.n_ranks])


@examples(6)
@given(program=programs, strategy=strategy_words, when=trigger_words)
def test_a_record_that_is_written_during_the_run(tmp_path_factory, program, strategy, when):
    path = tmp_path_factory.mktemp("run") / "run.h5"
    check(program, {**strategy, **when}, path, record=str(path))


@examples(6)
@given(program=programs.filter(lambda p: not (p.asks and p.lasts)), strategy=strategy_words)
def test_a_shadow_is_the_replay_of_its_recording(tmp_path_factory, program, strategy):
    """The receipts of a shadow run, in which nothing moves, are those of its replay."""
    path, program = tmp_path_factory.mktemp("run") / "run.h5", fit(program, strategy)
    cluster = pylb.VirtualCluster(program.n_ranks, clock="none", network=NETWORK)
    history, _ = cluster.run(program.run, str(path), {**strategy, "mode": "shadow"})[0]
    replay = pylb.Trace.load(path).replay(**strategy)
    assert differences(history, replay.decisions, without=("moved",)) == []
    assert not any(r.moved for r in history)


def two_nodes(n_ranks):
    """Return a machine whose ranks are on two nodes, with a slow network between them."""
    rank, half = pylb.model.Place("rank"), n_ranks // 2
    nodes = tuple(pylb.model.Place("node", "", (rank,) * n) for n in (half, n_ranks - half) if n)
    near = np.eye(len(nodes), dtype=bool)
    root = pylb.model.Place("machine", children=nodes)
    return pylb.Machine(root, alpha=np.where(near, 1e-6, 1e-3), beta=np.where(near, 1e-9, 1e-6))


@examples(8)
@given(
    program=programs.filter(lambda p: not (p.asks and p.lasts)),
    strategy=st.sampled_from(["auto", "RefineCommLB", "CCMLB", "HypergraphLB"]),
    shadow=st.booleans(),
)
def test_distances_are_recorded(tmp_path_factory, program, strategy, shadow):
    """A run on a machine, its shadow, and the replay of its record decide alike."""
    path, machine = tmp_path_factory.mktemp("run") / "run.h5", two_nodes(program.n_ranks)
    words = {"strategy": strategy, "every": 3}
    if not shadow:
        check(program, words, path, network=machine)
    else:
        program = fit(program, words)
        cluster = pylb.VirtualCluster(program.n_ranks, clock="none", network=NETWORK)
        words |= {"mode": "shadow", "network": machine}
        history, _ = cluster.run(program.run, str(path), words)[0]
        replay = pylb.Trace.load(path).replay(strategy, every=3)
        assert differences(history, replay.decisions, without=("moved",)) == []
    trace = pylb.Trace.load(path)
    if machine.near is not None:
        assert np.array_equal(trace.node, machine.node)
        assert np.array_equal(trace.near, machine.near)


@examples(3)
@given(
    program=programs.filter(lambda p: not p.lasts and not p.sizes),
    strategy=strategy_words,
    when=trigger_words,
)
def test_a_run_with_the_lb_steps_of_a_record(tmp_path_factory, program, strategy, when):
    """`Balancer(replay=)` rebalances like the record; a replay of its record does the same."""
    path = tmp_path_factory.mktemp("run") / "run.h5"
    recorded = check(program, {**strategy, **when}, path)
    cluster = pylb.VirtualCluster(program.n_ranks, clock="none", network=NETWORK)
    other = path.with_name("again.h5")
    history, iterations = cluster.run(program.run, str(other), {}, replay=str(path))[0]
    assert [(r.iteration, r.migrations) for r in history] == [
        (r.iteration, r.migrations) for r in recorded.lb_steps
    ]
    np.testing.assert_array_equal(iterations.max, recorded.metrics["max"])
    np.testing.assert_array_equal(pylb.Trace.load(other).replay("none").rank, recorded.rank)


def test_a_record_of_a_program_in_which_more_objects_may_migrate(tmp_path):
    """`Balancer(replay=)` names the object that may not follow its record."""
    path = str(tmp_path / "run.h5")

    def main(comm, pinned, **words):
        lb = pylb.Balancer(comm, **words)
        dealt(lb, range(70, 76), lambda key: key)
        for it in lb.iterate(6):
            for key, _ in lb.local():
                comm.elapse(1.0)
                if it == 2 and key == pinned:
                    lb.update(key, migratable=False)
        if "replay" not in words:
            lb.save(path)

    cluster = pylb.VirtualCluster(3, clock="none", network=NETWORK)
    cluster.run(main, None, strategy=backwards, every=4)
    expected = "in iteration 4 object 75 is on rank 0, but here it may not migrate from rank 2"
    with pytest.raises(pylb.errors.DomainError, match=expected):
        cluster.run(main, 75, replay=path)


@pytest.mark.parametrize("mode", ["on", "shadow"])
def test_sizes_that_change_after_the_lb_step_that_follows_a_coming(tmp_path, mode):
    """The LB step has the old sizes; iteration 63 is the last one before the file is extended."""
    path = tmp_path / "run.h5"

    def main(comm):
        lb = pylb.Balancer(
            comm, strategy="BestFitLB", every=2, memory_limit=10_000, mode=mode,
            record=str(path),
        )  # fmt: skip
        for key in range(6):
            if comm.rank == 0:
                lb.add(key, key, memory=100 + key)
        for it in lb.iterate(70):
            for key, _ in lb.local():
                comm.elapse(1.0 + key % 3)
                if key == 100 + it - 1:
                    lb.update(key, memory=1)
            if comm.rank == 0 and it in {1, 5, 63}:
                lb.add(100 + it, it, memory=5_000 + it)
        return lb.history

    history = pylb.VirtualCluster(2, clock="none", network=NETWORK).run(main)[0]
    replay = pylb.Trace.load(path).replay("BestFitLB", every=2)
    assert differences(history, replay.decisions, without=("moved",)) == []
    seen = [r.memory_full for r in history if r.balanced and r.iteration in {1, 5, 63}]
    assert min(seen) > (0.5 if mode == "on" else 0.0)


# ---- what a record must tell, one thing at a time ----------------------------------------------


@pytest.mark.parametrize("name", ["speed", "background", "memory_limit"])
def test_functions_whose_answers_change(tmp_path, name):
    """A record has the answers at the start of a loop and of LB steps; phases have their own."""
    path, words = tmp_path / "run.h5", {"strategy": "BestFitLB", "every": 3}
    answers = {"speed": [1.0, 2.0, 4.0], "background": [0.0, 9.0, 3.0], "memory_limit": [8, 3, 5]}

    def main(comm):
        said, turn = [], iter(range(1000))

        def tell():
            said.append(answers[name][(next(turn) + comm.rank) % 3])
            return said[-1]

        lb = pylb.Balancer(comm, **words, **{name: tell})
        dealt(lb, range(9), lambda key: key, memory=1)
        for n in (10, 5):
            for it in lb.iterate(n):
                for key, _ in lb.local():
                    comm.elapse(1.0 + (key * it) % 5)
        lb.save(path)
        return lb.history, said

    results = pylb.VirtualCluster(3, clock="none", network=NETWORK).run(main)
    trace = pylb.Trace.load(path)
    replay = trace.replay(**words)
    assert differences(results[0][0], replay.decisions) == []
    assert any(r.migrations for r in replay.lb_steps)
    told = np.array([said for _, said in results]).T
    given = [getattr(trace[i], name).tolist() for i in range(len(trace))]
    if name == "background":  # asked at the start of a loop, too
        turns = [0] * 3 + [1] * 3 + [2] * 3 + [3] + [4] * 2 + [5] * 3
        figures = pylb.RunRecord.load(path).rank_times.max(axis=1)
        np.testing.assert_allclose(figures, trace.figures[:, 1])
    else:  # the first answer is that of the first LB step
        turns = [0] * 6 + [1] * 3 + [2] * 3 + [3] * 3
    assert given == [told[i].tolist() for i in turns]


def test_messages_between_two_loops_come_after_an_lb_step_that_is_due(tmp_path):
    """The LB step knows the messages of the first loop only, as its record does."""

    def unless_heavy(snapshot):
        return snapshot.rank if np.any(snapshot.edge_bytes > 10_000) else backwards(snapshot)

    path, words = tmp_path / "run.h5", {"strategy": unless_heavy, "every": 4}

    def program(comm):
        lb, got = pylb.Balancer(comm, **words), []
        dealt(lb, range(12), lambda key: key)
        for n in (4, 4):
            for _ in lb.iterate(n):
                for key, _ in lb.local():
                    got += [x for _, x in lb.inbox(key)]
                    comm.elapse(1.0 + key % 3)
                    lb.send((key + 1) % 12, key, np.zeros(1000))
            for key, _ in lb.local():
                lb.send((key + 6) % 12, key, np.ones(100_000))
        lb.save(path)
        return lb.history, sum(len(x) == 100_000 for x in got)

    results = pylb.VirtualCluster(3, clock="none", network=NETWORK).run(program)
    replay = pylb.Trace.load(path).replay(**words)
    assert differences(results[0][0], replay.decisions) == []
    assert replay.lb_step_iterations == [3]
    assert replay.migrations == 8  # of 12 objects, all but those of the middle rank
    assert sum(got for _, got in results) == 12


# ---- under MPI --------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 3])
def test_under_mpi(mpiexec, tmp_path, ranks):
    """Runs with real clocks, also with a lag and in shadow mode; only the record has the times."""
    out = printed(mpiexec, ranks, HERE / "same_bits.py", tmp_path)
    for name, words in json.loads(out.splitlines()[-1]).items():
        trace = pylb.Trace.load(tmp_path / name)
        replay = trace.replay(**{k: v for k, v in words.items() if k != "mode"})
        history = pylb.RunRecord.load(tmp_path / name).history
        shadow = words.get("mode") == "shadow"
        assert differences(history, replay.decisions, ["moved"] if shadow else []) == [], words
