"""The consensus on an iteration: every interleaving of small systems.

The state machines of csrc/decide/consensus.c have no input or output, so the explorer
(tests/c/interleave.c) is a C program around them.  PYLB_EXPLORE=1 adds explorations that take
minutes.  tests/c/test_atsync.c has random runs of larger systems.
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
SOURCES += [f"csrc/base/{name}.c" for name in ("err", "mem")]

FOUND = ("violation", "deadlock")
full = pytest.mark.skipif(not os.environ.get("PYLB_EXPLORE"), reason="PYLB_EXPLORE=1 is not set")


@pytest.fixture(scope="module")
def interleave(tmp_path_factory):
    """Run the explorer with options; return (result, states, depth, all that it printed)."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"no C compiler {compiler[0]}")
    program = tmp_path_factory.mktemp("consensus") / "interleave"
    flags = "-std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Wno-unused-parameter -Werror".split()
    flags += ["-ffunction-sections", "-Wl,--gc-sections"]  # of consensus.c, only the machines
    folders = [f"-I{ROOT / folder}" for folder in ("csrc", "tests/c")]
    words = [*compiler, *flags, *folders, *SOURCES, "-o", program]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr

    def run(options, timeout=400):
        words = [str(program), *options.split()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
        assert done.returncode in (0, 1), done.stderr
        last = done.stdout.splitlines()[-1]
        found = re.fullmatch(r"result=(\w+) states=(\d+) depth=(\d+)", last)
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
    "changes=2 early=2",
    "changes=2 early=5",
    "changes=2 objects=2 migrate=1 iterations=4",
    "changes=2 ranks=3 migrate=1 iterations=4",
    "changes=1 objects=2 churn=2 iterations=3",
    "changes=1 ranks=3 churn=2 migrate=1 iterations=4",
    "changes=2 lag=1 churn=2 iterations=4",
    "changes=1 fails=1",
    "changes=1 fails=1 migrate=1",
    "changes=1 fails=2 ranks=3 iterations=3",
]


@pytest.mark.parametrize("options", SMALL)
def test_every_interleaving(interleave, options):
    result, _, _, text = interleave(options)
    assert result == "ok", text


@pytest.mark.parametrize("extra", ["", "ring=1", "objects=2", "early=1", "fails=1"])
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
    "ranks=3 objects=2 iterations=5 changes=2 lag=2",
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


def test_final_decision_after_the_statistics_of_that_iteration(interleave):
    """With statistics at any time, and a comparison by =, the final iteration can be missed."""
    result, _, _, text = interleave("wish=2:3 ablate=6")
    assert result == "deadlock"
    seen = re.findall(r" rank 0: sees the (.*)", text)
    assert seen[-2:] == ["statistics of 3", "maximum; final iteration 3"]
    said = "waits at 3, statistics contributed up to 3, seen up to 3, limit 3, final 3"
    assert text.count(said) == 2


def test_statistics_while_a_maximum_is_on_its_way(interleave):
    """Roots that take statistics during a reduction of maxima decide differently, also with <=."""
    assert interleave("changes=2 ablate=2")[0] in FOUND


def test_lb_step_after_the_end_of_a_rank(interleave):
    assert interleave("changes=1 iterations=3 early=1 ablate=8")[0] == "violation"
