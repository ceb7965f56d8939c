"""The simulation of the consensus protocol, against a plain twin and cases worked by hand."""

import math

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

from pylb import _core
from pylb.errors import DomainError, StateError
from pylb.replay.protocol import protocol_params, simulate_protocol

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
DEFAULTS = {name: default for name, (default, _, _) in protocol_params().items()}


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def uniform(seed, rank, iteration):
    a = mix((seed + STEP * (rank + 1)) & MASK)
    return (mix((a + STEP * (iteration + 1)) & MASK) >> 11) * 2.0**-53


def twin(q):
    """Simulate iteration by iteration a run with a lag, in which messages are passed on at once."""
    p, f = q["n_ranks"], q["fanout"]
    between = q["o"] + q["L"] + q["o"]
    message = between + (q["bytes"] - 1) * q["G"]
    halo = between + (q["halo_bytes"] - 1) * q["G"]
    gap = max(q["g"], q["o"] + (q["bytes"] - 1) * q["G"])
    begin, known, lagged, gathered, received = np.zeros(p), {}, 0.0, 0.0, 0.0
    last, final, decided = 0, None, []
    for k in range(1, q["iterations"] + 1):
        factor = [
            1.0
            + q["spread"] * uniform(q["seed"], r, 0)
            - q["noise"] * math.log1p(-uniform(q["seed"], r, k))
            for r in range(p)
        ]
        done = begin + q["work"] * np.array(factor)
        at = done
        if q["halo"] and p > 1:
            at = np.maximum(done, np.maximum(np.roll(begin, 1), np.roll(begin, -1)) + halo)
        received += (at - done).mean()
        up = at.copy()
        for r in range(p - 1, 0, -1):
            up[(r - 1) // f] = max(up[(r - 1) // f], up[r] + message)
        down = np.empty(p)
        down[0] = up[0]
        for r in range(1, p):
            down[r] = down[(r - 1) // f] + gap * ((r - 1) % f) + message
        known[k] = down
        begin = at
        if k > q["lag"]:
            begin = np.maximum(at, known[k - q["lag"]])
        if k == q["iterations"]:
            return down.max(), lagged, gathered, received, decided
        lagged += (begin - at).mean()
        if k == final:
            gathered += (down - begin).mean()
            begin = down + q["balancing"]
            last, final = k, None
        elif final is None and k - last >= q["every"] and k + q["lag"] < q["iterations"]:
            final = k + q["lag"]
            decided.append((k, final))
    raise AssertionError


@examples(80)
@given(st.data())
def test_with_a_lag_it_agrees_with_the_twin(data):
    draw = data.draw
    q = DEFAULTS | {
        "n_ranks": draw(st.integers(1, 40)),
        "iterations": draw(st.integers(1, 30)),
        "every": draw(st.integers(1, 8)),
        "lag": draw(st.integers(1, 6)),
        "fanout": draw(st.integers(1, 4)),
        "serves": 0,
        "halo": draw(st.integers(0, 1)),
        "blocked": draw(st.integers(0, 1)),
        "work": draw(st.sampled_from([1e-6, 1e-5, 1e-3])),
        "spread": draw(st.sampled_from([0.0, 0.3])),
        "noise": draw(st.sampled_from([0.0, 0.02, 1.0])),
        "balancing": draw(st.sampled_from([0.0, 1e-4])),
        "seed": draw(st.integers(0, 1000)),
    }
    run = simulate_protocol(**q)
    seconds, lagged, gathered, received, decided = twin(q)
    assert run.seconds == pytest.approx(seconds, rel=1e-12)
    assert [(d.asked, d.final) for d in run.decisions] == decided
    # (In all other cases, a rank gets statistics while it waits for a neighbour.)
    if q["blocked"] or not q["halo"]:
        assert run.lagged == pytest.approx(lagged, abs=1e-12)
        assert run.gathered == pytest.approx(gathered, abs=1e-12)
    assert run.lagged + run.gathered == pytest.approx(lagged + gathered, abs=1e-12)
    assert run.received == pytest.approx(received, abs=1e-12)
    assert run.pause == 0.0


def test_a_decision_without_a_lag_by_hand():
    q = {"n_ranks": 3, "noise": 0.0, "halo": 0, "L": 1e-4, "serves": 0}
    d = simulate_protocol(**q).decisions[0]
    word = 1e-4 + 2 * 5e-7 + 15 * 1e-10  # seconds of a message with a maximum, or of its answer
    statistics = 1e-4 + 2 * 5e-7 + 207 * 1e-10
    gap = 5e-7 + 15 * 1e-10
    assert (d.asked, d.tentative, d.final) == (20, 21, 21)
    assert d.root == pytest.approx(20 * 10e-3 + statistics)
    assert d.known == pytest.approx(21 * 10e-3 + word + gap + word)
    assert d.balanced == pytest.approx(21 * 10e-3 + statistics)
    # Each rank learns of the round during iteration 21, and pauses after it until the answer.
    run = simulate_protocol(**q, iterations=22)
    answers = np.array([word, word + word, word + gap + word])
    assert run.pause == pytest.approx(answers.mean())
    assert run.pause_max == pytest.approx(answers.max())


def test_messages_and_bytes_are_those_of_a_tree():
    run = simulate_protocol(n_ranks=15, iterations=30, every=100, lag=2)
    assert run.decisions == ()
    assert run.messages_sent * 15 == pytest.approx(30 * 2 * 14)
    assert run.bytes_sent == pytest.approx(_core.STATS_BYTES * run.messages_sent)
    assert run.bytes_sent_max == 30 * _core.STATS_BYTES * 3  # messages: one up, two down
    assert math.isnan(run.iterations_to_consensus)


@pytest.mark.parametrize("lag", [0, 1, 4])
@pytest.mark.parametrize("serves", [0, 1, 5])
@pytest.mark.parametrize("seed", range(3))
def test_every_decision_is_made(lag, serves, seed):
    run = simulate_protocol(n_ranks=200, lag=lag, serves=serves, seed=seed, noise=0.3, every=10)
    assert len(run.decisions) >= 2
    for d in run.decisions[:-1]:
        assert d.asked < d.tentative <= d.final
        assert d.root < d.known
        assert d.root <= d.balanced
        assert lag == 0 or d.final == d.asked + lag
    assert (run.pause > 0) == (lag == 0)
    assert (run.lagged > 0) == (lag > 0)


def test_the_hang_without_a_lag_and_its_cure():
    hangs = {"n_ranks": 100, "blocked": 1}
    with pytest.raises(StateError, match="no rank can go on: 0 of 100 have ended"):
        simulate_protocol(**hangs)
    for lag in (1, 2, 8):
        assert simulate_protocol(**hangs, lag=lag).decisions[0].final == 20 + lag
    assert simulate_protocol(n_ranks=100).decisions  # waiting ranks serve


def test_consensus_takes_logarithmically_long():
    """If ranks serve only at AtSync, each level of the tree takes most of an iteration."""
    depth = np.arange(4, 14)
    runs = [simulate_protocol(n_ranks=2 ** int(d) - 1, every=10, iterations=120) for d in depth]
    waits = np.array([run.iterations_to_consensus for run in runs])
    slope, at_0 = np.polyfit(depth, waits, 1)
    assert 0.5 < slope < 2.0
    assert np.abs(waits - (slope * depth + at_0)).max() < 1.5
    assert len({run.bytes_sent_max / run.seconds // 1e4 for run in runs}) <= 2


def test_ranks_far_ahead_of_the_statistics():
    """So many iterations are open that the initial buffer has to grow."""
    run = simulate_protocol(n_ranks=100, halo=0, work=1e-6, L=1e-4, every=1000)
    assert run.seconds == pytest.approx(100e-6 + 12e-4, rel=0.2)
    assert run.decisions == ()


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"n_rank": 3}, "no parameter 'n_rank': there are n_ranks, iterations"),
        ({"n_ranks": 2.5}, "n_ranks is 2.5: expected a number, int"),
        ({"n_ranks": 0}, "n_ranks is 0: expected 1 ..."),
        ({"L": 0.0}, "L is 0: expected 1e-15 ..."),
        ({"noise": -1.0}, "noise is -1: expected 0 ..."),
        ({"work": math.nan}, "work is nan"),
        ({"work": "x"}, "work is 'x'"),
        ({"lag": -1}, "lag is -1"),
        ({"seed": 2**70}, "seed is 1180591620717411303424"),
        ({"halo": True}, "halo is True"),
    ],
)
def test_bad_parameters(params, says):
    with pytest.raises(DomainError, match=says):
        simulate_protocol(**params)


def test_numbers_of_numpy():
    of_numpy = simulate_protocol(n_ranks=np.int64(10), work=np.float32(0.5))
    assert of_numpy == simulate_protocol(n_ranks=10, work=0.5)


def test_the_core_checks_its_tuple():
    with pytest.raises(ValueError, match="expected a tuple"):
        _core.protocol((1, 2))
