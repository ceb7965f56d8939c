"""The consensus on an iteration: every interleaving of small systems, random runs of larger ones.

The state machines of csrc/decide/consensus.c have no input or output, so the explorer
(tests/c/interleave.c) is a C program around them. A slow twin here, written from the rules alone,
must reach the same number of states.  PYLB_EXPLORE=1 adds explorations that take minutes, and a
million random runs.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [f"tests/c/{name}.c" for name in ("interleave", "consensus_model")]
SOURCES += [f"csrc/base/{name}.c" for name in ("err", "mem", "rng")]

FOUND = ("violation", "deadlock")
full = pytest.mark.skipif(not os.environ.get("PYLB_EXPLORE"), reason="PYLB_EXPLORE=1 is not set")


@pytest.fixture(scope="module")
def interleave(tmp_path_factory):
    """Run the explorer with options; return (result, states, depth, all that it printed)."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"no C compiler {compiler[0]}")
    program = tmp_path_factory.mktemp("consensus") / "interleave"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"]
    folders = [f"-I{ROOT / folder}" for folder in ("csrc", "tests/c")]
    words = [*compiler, *flags, *folders, *SOURCES, "-o", program]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr

    def run(options, timeout=60):
        words = [str(program), *options.split()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
        assert done.returncode in (0, 1), done.stderr
        last = done.stdout.splitlines()[-1]
        found = re.fullmatch(r"result=(\w+) states=(\d+) steps=\d+ depth=(\d+) seconds=.*", last)
        assert found, last
        assert (done.returncode == 0) == (found[1] == "ok")
        return found[1], int(found[2]), int(found[3]), done.stdout

    return run


# ---- no fault may be found ----

SMALL = [
    "ranks=1 changes=3",
    "changes=2",
    "changes=3 iterations=6",
    "changes=2 ring=1 ranks=3 iterations=4",
    "changes=1 ranks=3",
    "changes=1 ranks=3 objects=2 iterations=3",
    "changes=1 objects=2",
    "changes=2 known=0",
    "changes=2 central=1 iterations=4 ranks=3",
    "changes=2 central=1 lag=2",
    "changes=2 early=2",
    "changes=2 early=5 known=0",
    "changes=2 objects=2 migrate=1 iterations=4",
    "changes=2 ranks=3 migrate=1 iterations=4",
    "changes=1 objects=2 churn=2 iterations=3",
    "changes=1 ranks=3 churn=2 migrate=1 iterations=4",
    "changes=2 lag=1 churn=2 iterations=4",
    "changes=1 fails=1 known=0",
    "changes=1 fails=1 migrate=1",
    "changes=1 fails=2 ranks=3 iterations=3",
    "changes=2 lag=1 one_comm=1 ranks=3",
]


@pytest.mark.parametrize("options", SMALL)
def test_every_interleaving(interleave, options):
    result, _, _, text = interleave(options)
    assert result == "ok", text


@pytest.mark.parametrize("extra", ["", "ring=1", "known=0", "objects=2", "early=1", "fails=1"])
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("lag", [1, 2])
def test_bounded_lag_with_blocking_receives(interleave, lag, ranks, extra):
    iterations = 4 if ranks == 3 and extra == "objects=2" else 5
    options = f"blocked=1 lag={lag} ranks={ranks} iterations={iterations} changes=2 {extra}"
    result, _, _, text = interleave(options)
    assert result == "ok", text


def test_three_ranks_two_objects_five_iterations(interleave):
    """With a lag, all changes of the final iteration are explored; without a lag, one change."""
    for options in ["lag=1 changes=2", "wish=1:5 wish=2:3"]:
        result, states, _, text = interleave(f"ranks=3 objects=2 iterations=5 {options}")
        assert result == "ok", text
        assert states > 100_000


FULL = [
    "ranks=3 objects=2 iterations=5 changes=2",
    "ranks=3 objects=2 iterations=5 changes=1 ring=1",
    "ranks=3 objects=2 iterations=5 changes=1 known=0",
    "ranks=3 objects=2 iterations=5 changes=2 lag=2",
    "ranks=3 objects=2 iterations=4 changes=1 central=1",
    "ranks=3 objects=2 iterations=5 changes=3 lag=2 blocked=1",
    "ranks=4 objects=1 iterations=5 changes=2 lag=2 blocked=1",
    "ranks=3 objects=2 iterations=4 changes=1 migrate=1",
    "ranks=3 objects=2 iterations=4 changes=1 fails=1",
]


@full
@pytest.mark.parametrize("options", FULL)
def test_every_interleaving_of_larger_systems(interleave, options):
    result, _, _, text = interleave(options, timeout=1800)
    assert result == "ok", text


# ---- known faults must be found ----


def test_no_pause(interleave):
    """Menon 3.6.1: object a waits for b in the LB step, and b waits for a in iteration i + 1."""
    result, _, depth, text = interleave("wish=2:3 ablate=1")
    assert (result, depth) == ("violation", 19)
    assert "rank 1 balances at 3, object 0 has begun 4" in text
    result, _, depth, text = interleave("wish=2:3 ablate=1 hangs=1")
    assert (result, depth) == ("deadlock", 20)
    assert "object 0 runs 4" in text
    assert "object 1 waits at 3" in text
    assert "balancing\n" in text


@pytest.mark.parametrize(("ranks", "shortest"), [(2, 15), (3, 22)])
@pytest.mark.parametrize("objects", [1, 2])
def test_blocking_receives_without_a_lag(interleave, ranks, shortest, objects):
    """A rank pauses at its limit, and its neighbour, which has not seen the round, waits for it."""
    result, _, depth, text = interleave(f"wish=2:3 blocked=1 ranks={ranks} objects={objects}")
    assert result == "deadlock"
    assert "round open" in text
    assert "in a receive" in text
    if objects == 1:
        assert depth == shortest


@pytest.mark.parametrize("central", [0, 1])
def test_final_decision_after_the_statistics_of_that_iteration(interleave, central):
    """With statistics at any time, and a comparison by =, the final iteration can be missed."""
    result, _, _, text = interleave(f"wish=2:3 ablate=6 central={central}")
    assert result == "deadlock"
    seen = re.findall(
        r"root on rank 0: sees the (.*)" if central else r" rank 0: sees the (.*)", text
    )
    assert seen[-2:] == ["statistics of 3", "maximum 3; final iteration 3"]
    assert (
        text.count("waits at 3, statistics contributed up to 3, seen up to 3, limit 3, final 3")
        == 2
    )


def test_statistics_while_a_maximum_is_on_its_way(interleave):
    """Roots that take statistics during a reduction of maxima decide differently, also with <=."""
    assert interleave("changes=2 ablate=2")[0] in FOUND


def test_rank_that_has_ended_must_serve(interleave):
    result, _, _, text = interleave("wish=2:3 ranks=3 iterations=4 quit=1")
    assert result == "deadlock"
    assert "object 0 waits at 4" in text
    assert "object 2 waits at 3" in text


def test_lb_step_after_the_end_of_a_rank(interleave):
    assert interleave("changes=1 iterations=3 early=1 ablate=8")[0] == "violation"


def test_each_kind_needs_its_own_communicator(interleave):
    result, _, _, text = interleave("changes=1 one_comm=1")
    assert result == "violation"
    assert "is a maximum on rank 1 and statistics on another rank" in text


# ---- random runs ----


def test_random_runs(interleave):
    result, runs, _, text = interleave("runs=30000 vary=1")
    assert result == "ok", text
    assert runs == 30_000
    for seed in (2, 3):
        result, _, _, text = interleave(
            f"runs=300 seed={seed} ranks=8 objects=2 iterations=40 changes=7"
        )
        assert result == "ok", text


@pytest.mark.parametrize("ablate", [1, 2, 6, 8])
def test_random_runs_find_a_missing_rule(interleave, ablate):
    assert interleave(f"runs=30000 vary=1 ablate={ablate}")[0] in FOUND


@full
def test_a_million_random_runs(interleave):
    result, _, _, text = interleave("runs=1000000 vary=1 seed=7", timeout=600)
    assert result == "ok", text


# ---- the twin ----

NEVER = 10**9


class Twin:
    """The rules of consensus.h on plain tuples.

    Every rank has a root, ranks serve while they wait, and the end of the run is known.

    A state is (ranks, wishes, tops, changes); of a rank: the reach of its objects (2k: waits at
    AtSync(k); 2k - 1: runs iteration k), statistics contributed and seen, limit, final, round,
    tentative iteration of an open round or None, and whether it balances or is done.
    """

    def __init__(self, ranks, objects, iterations, lag, changes):
        self.p, self.o, self.k, self.lag, self.budget = ranks, objects, iterations, lag, changes

    def start(self):
        rank = ((0,) * self.o, 0, 0, NEVER, NEVER, 0, None, "")
        return ((rank,) * self.p, (None,) * (self.k + 1), (0, 0), self.budget)

    def steps(self, state):
        ranks, wishes, _, changes = state
        flat = [reach for rank in ranks for reach in rank[0]]
        for r, (reach, _, seen, limit, final, number, tentative, phase) in enumerate(ranks):
            if phase == "done":
                continue
            for j, x in enumerate(reach):
                at = x // 2
                if x % 2:
                    g = r * self.o + j
                    near = flat[max(g - 1, 0) : g + 2]
                    if all(y >= x for y in near):
                        yield self.reach(state, r, j)
                elif at < min(limit, self.k) and (self.lag == 0 or at <= seen + self.lag):
                    yield self.move(state, r, reach=put(reach, j, x + 1))
            i = seen + 1
            if all(other[1] >= i for other in ranks) and tentative is None and phase == "":
                if wishes[i] is not None:
                    options = [wishes[i]]
                elif changes == 0 or i == self.k or final <= i:
                    options = [-1]
                else:
                    options = [w for w in (-1, *range(i, self.k + 2), NEVER) if w != final]
                for wish in options:
                    yield self.statistics(state, r, i, wish)
            if tentative is not None and all(other[5] >= number for other in ranks):
                period = max(tentative, (state[2][number % 2] + 1) // 2)
                yield self.move(state, r, limit=period, final=period, tentative=None)
        if all(rank[7] == "balancing" for rank in ranks):
            for r in range(self.p):
                state = self.move(state, r, limit=NEVER, final=NEVER, phase="")
            yield state

    def reach(self, state, r, j):
        reach = put(state[0][r][0], j, state[0][r][0][j] + 1)
        return self.move(state, r, reach=reach, contributed=min(x // 2 for x in reach))

    def statistics(self, state, r, i, wish):
        ranks, wishes, tops, changes = state
        reach, _, _, _, final, number, _, _ = ranks[r]
        if wishes[i] is None and wish != -1:
            changes -= 1
        state = (ranks, put(wishes, i, wish), tops, changes)
        if i == self.k:
            return self.move(state, r, seen=i, phase="done")
        if final <= i:
            return self.move(state, r, seen=i, phase="balancing")
        period = max(wish, i + max(self.lag, 1))
        if wish == -1 or period == final:
            return self.move(state, r, seen=i)
        if self.lag > 0 or period > final:
            return self.move(state, r, seen=i, limit=period, final=period)
        first = all(rank[5] <= number for rank in ranks)
        top = max(max(reach), 0 if first else tops[(number + 1) % 2])
        state = (ranks, state[1], put(tops, (number + 1) % 2, top), changes)
        limit = max(period, (max(reach) + 1) // 2)
        return self.move(state, r, seen=i, limit=limit, number=number + 1, tentative=period)

    FIELDS = ("reach", "contributed", "seen", "limit", "final", "number", "tentative", "phase")

    def move(self, state, r, **changed):
        rank = tuple(changed.get(f, old) for f, old in zip(self.FIELDS, state[0][r], strict=True))
        ranks = put(state[0], r, rank)
        # Forget data that no rank can need any more.
        least = min(rank[2] for rank in ranks)
        wishes = tuple(None if i <= least else w for i, w in enumerate(state[1]))
        tops = tuple(
            top if any(rank[5] < n + (rank[6] is not None) for rank in ranks) else 0
            for top, n in zip(state[2], self.latest(ranks), strict=True)
        )
        return (ranks, wishes, tops, state[3])

    @staticmethod
    def latest(ranks):
        most = max(rank[5] for rank in ranks)
        return (most - most % 2, most - 1 + most % 2)

    def explore(self):
        """Count the states, and check in each what the protocol promises."""
        todo = [self.start()]
        known = set(todo)
        while todo:
            state = todo.pop()
            following = list(self.steps(state))
            if not following:
                assert all(rank[7] == "done" for rank in state[0]), state
            for rank in state[0]:
                if rank[7] == "balancing":
                    reached = {x for other in state[0] for x in other[0]}
                    assert reached == {2 * rank[4]}, state
            fresh = set(following) - known
            known |= fresh
            todo.extend(fresh)
        return len(known)


def put(values, at, value):
    return (*values[:at], value, *values[at + 1 :])


@pytest.mark.parametrize(
    "size", [(2, 1, 4, 0, 2), (2, 1, 4, 1, 2), (2, 2, 3, 0, 1), (3, 1, 3, 0, 1), (3, 1, 4, 2, 2)]
)
def test_twin_reaches_the_same_states(interleave, size):
    ranks, objects, iterations, lag, changes = size
    options = f"ranks={ranks} objects={objects} iterations={iterations} lag={lag}"
    result, states, _, text = interleave(f"{options} changes={changes}")
    assert result == "ok", text
    assert states == Twin(*size).explore()
