"""Critical path, procedure load balancing factor, zeroing: twin, the paper's cases, bad input."""

import numpy as np
import pytest
from twin_path import MOVED, NOTHING, ZEROED, Twin
from whatif_programs import program, server, spa

import pylb
from pylb import _core
from pylb.errors import DomainError, OutOfRangeError, UnknownKeyError
from pylb.prediction.prediction import comm_arrays
from pylb.prediction.recorder.recording import OP, Collective, OpKind, Recording

S = 1_000_000_000
CHANGES = [(NOTHING, -1, -1, -1, False)] + [
    (change, number, source, target, kept)
    for number in (0, 1)
    for change, source, target, kept in [
        (MOVED, -1, -1, False),
        (MOVED, 0, -1, True),
        (MOVED, -1, 1, True),
        (MOVED, 1, 0, True),
        (ZEROED, -1, -1, False),
    ]
]


def marked(run, seed):
    """Return the run with two procedures marked at random, also nested or with two ends."""
    rng = np.random.default_rng(seed)
    for rank, ops in enumerate(run.ops):
        at = np.sort(rng.integers(0, len(ops), rng.integers(2, 12)))
        marks = np.zeros(len(at), OP)
        marks["kind"] = rng.choice([OpKind.ENTER, OpKind.ENTER, OpKind.LEAVE], len(at))
        marks["tag"] = rng.integers(2, size=len(at))
        marks["compute"] = rng.integers(0, 2_000_000, len(at))
        marks["request"] = -1
        run.ops[rank] = np.insert(ops, at, marks)
    run.procedures = ["one", "two"]
    return run


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_agrees_with_the_twin(ranks):
    for seed in range(15):
        run = marked(program(seed, ranks), seed)
        network = [(0.0, 0.0), (1e-6, 1e-9)][seed % 2]
        queries = [(*change, *network) for change in CHANGES]
        lengths, stuck = _core.path_lengths(run.ops, *comm_arrays(run.comms), queries)
        for query, got, waits in zip(queries, lengths, stuck, strict=True):
            expected, twin_waits = Twin(run, *query).run()
            assert got.tolist() == expected, (seed, query)
            assert waits == twin_waits == 0


@pytest.mark.parametrize("ranks", [2, 5])
def test_the_path_is_as_long_as_its_stretches(ranks):
    for seed in range(10):
        run = marked(program(seed, ranks), seed)
        path = pylb.prediction.critical_path(run)
        assert path.stretches["ns"].sum() * 1e-9 == pytest.approx(path.time, rel=1e-12)
        assert path.by_rank.sum() == pytest.approx(path.time, rel=1e-12)
        assert sum(path.by_procedure.values()) == pytest.approx(path.time, rel=1e-12)
        ends = [np.flatnonzero(s["ns"]) for s in path.stretches]
        assert len(ends) == len(path.stretches)
        # Compare with a simulation with one processor per rank and a free network, in which no send
        # waits for its receive.
        free = pylb.whatif(run, network=(0.0, 0.0), overhead=0.0, eager=1 << 40)
        assert free.time >= path.time * (1 - 1e-9)


def test_a_network_makes_the_path_longer():
    run = program(3, 4)
    short, long = (
        pylb.prediction.critical_path(run),
        pylb.prediction.critical_path(run, network=(1e-3, 1e-8)),
    )
    assert long.time > short.time
    assert long.stretches["ns"].sum() * 1e-9 < long.time


@pytest.mark.parametrize("received", [0, 5])
def test_a_message_takes_the_time_for_the_bytes_that_were_sent(received):
    # The recorder stores the bytes of a message only at its send.
    nonblocking = [
        {"kind": "IRECV", "peer": 0, "request": 0, "bytes": received},
        {"kind": "WAIT", "request": 0, "bytes": received},
    ]
    for receive in ([{"kind": "RECV", "peer": 0, "bytes": received}], nonblocking):
        send = {"kind": "SEND", "peer": 1, "bytes": 1_000_000}
        run = Recording.of([[send, {"kind": "END"}], [*receive, {"kind": "END"}]])
        assert pylb.prediction.critical_path(run, network=(1.0, 1e-6)).time == 2.0


def test_a_server_that_is_the_bottleneck():
    # The paper's figures 3 and 4: with the server at its limit, 30.7 s; servBusy1 takes 5.4 s, and
    # servBusy2 14.6 s, for two clients.
    run = spa(one=5.4, two=7.3, own=(1.0, 13.0, 13.0), server_work=3.4, rounds=50)
    told = pylb.prediction.procedures(run)
    total = told["servBusy1"].time
    assert total == pytest.approx(30.7, rel=0.02)
    assert told["servBusy1"].seconds == pytest.approx(5.4)
    assert told["servBusy1"].zeroed == pytest.approx(total - 5.4, rel=0.01)
    assert told["servBusy1"].moved == pytest.approx(total - 5.4, rel=0.01)
    assert told["servBusy2"].zeroed < told["servBusy2"].moved < total
    assert told[0].moved == min(one.moved for one in told)
    # Compare with a recording that was changed by hand: the client computes between request and
    # reply.
    for name, client in (("servBusy1", (1,)), ("servBusy2", (2, 3))):
        assert told[name].moved == pytest.approx(by_hand(run, name, client).time, rel=0.01)


def by_hand(run, name, clients):
    number = run.procedures.index(name)
    ops = [[dict(zip(OP.names, op.tolist(), strict=True)) for op in rank] for rank in run.ops]
    for rank in ops:
        for op in rank:
            op["kind"] = OpKind(op["kind"]).name
    work = [op["compute"] for op in ops[0] if op["kind"] == "LEAVE" and op["tag"] == number]
    for op in ops[0]:
        if op["kind"] == "LEAVE" and op["tag"] == number:
            op["compute"] = 0
    for client in clients:
        for op in ops[client]:
            op["compute"] += work[0] if op["kind"] == "RECV" else 0
    moved = Recording.of(ops)
    moved.procedures = run.procedures
    return pylb.prediction.critical_path(moved)


def test_any_pair_of_ranks():
    # Rank 0 computes for 3 s and sends to 1 and then to 2, which waits for it.
    ops = [
        [
            {"kind": "ENTER", "compute": 0},
            {"kind": "LEAVE", "compute": 3 * S},
            {"kind": "SEND", "peer": 1},
            {"kind": "SEND", "peer": 2, "compute": S},
            {"kind": "END", "compute": 4 * S},
        ],
        [{"kind": "RECV", "peer": 0}, {"kind": "END"}],
        [{"kind": "RECV", "peer": 0}, {"kind": "END", "compute": S}],
    ]
    run = Recording.of(ops)
    run.procedures = ["work"]
    assert pylb.prediction.critical_path(run).time == 8
    # As in the paper, the next message takes the procedure's time to rank 1.
    assert pylb.prediction.procedures(run)["work"].moved == 5
    # If the procedure moves to rank 2, this rank does the 3 s of work, and then computes for 1 s.
    assert pylb.prediction.procedures(run, source=0, target=2)["work"].moved == 5
    assert pylb.prediction.procedures(run, source=1)["work"].moved == 8


def test_a_gain_is_no_more_than_the_time_before_a_wait():
    # Rank 0 works 3 s, but would have waited for rank 1 until 2.5 s in any case.
    ops = [
        [
            {"kind": "ENTER"},
            {"kind": "LEAVE", "compute": 3 * S},
            {"kind": "RECV", "peer": 1},
            {"kind": "SEND", "peer": 2},
            {"kind": "END", "compute": 9 * S},
        ],
        [{"kind": "SEND", "peer": 0, "compute": 5 * S // 2}, {"kind": "END"}],
        [{"kind": "RECV", "peer": 0}, {"kind": "END"}],
    ]
    run = Recording.of(ops)
    run.procedures = ["work"]
    assert (
        pylb.prediction.procedures(run)["work"].moved == 12
    )  # the paper ignores work before a receive
    assert pylb.prediction.procedures(run, source=0, target=2)["work"].moved == pytest.approx(11.5)


def test_shares_of_a_known_path():
    run = spa(one=1.0, two=2.0, own=(0.1, 0.1, 0.1))
    path = pylb.prediction.critical_path(run)
    assert set(path.by_procedure) == {"servBusy1", "servBusy2", ""}
    assert path.by_procedure["servBusy2"] == pytest.approx(4.0, rel=0.2)
    assert path.by_rank[0] > 0.9 * path.time
    assert "critical" in repr(path).lower()
    assert repr(pylb.prediction.procedures(run)).count("\n") == 2


def test_what_never_comes():
    run = Recording.of([[{"kind": "RECV", "peer": 1}, {"kind": "END"}], [{"kind": "END"}]])
    run.procedures = ["work"]
    with pytest.raises(DomainError, match="1 of 2 ranks wait"):
        pylb.prediction.critical_path(run)
    with pytest.warns(UserWarning, match="the results cover only a part of the run"):
        pylb.prediction.procedures(run)


def test_bad_input():
    run = server(1)
    with pytest.raises(DomainError, match="no procedure is marked"):
        pylb.prediction.procedures(run)
    run.procedures = ["serve"]
    with pytest.raises(OutOfRangeError, match=r"target is 9: expected 0 \.\.\. 3"):
        pylb.prediction.procedures(run, target=9)
    with pytest.raises(DomainError, match="source is '1': expected an integer"):
        pylb.prediction.procedures(run, source="1")
    with pytest.raises(DomainError, match=r"network\[0\] is -1"):
        pylb.prediction.critical_path(run, network=(-1.0, 0.0))
    with pytest.raises(UnknownKeyError, match="serve"):
        pylb.prediction.procedures(run)["server"]
    for wrong, text in [
        ({"kind": "SEND", "peer": 7}, r"peer is 7: expected 0 \.\.\. 0"),
        ({"kind": "COLL", "comm": 3}, r"communicator is 3: expected 0 \.\.\. 0"),
        ({"kind": "COLL", "tag": 2}, r"own rank in the communicator is 2: expected 0 \.\.\. 0"),
        ({"kind": "WAIT", "request": -1}, r"request is -1: expected 0 \.\.\. 16777215"),
    ]:
        with pytest.raises(ValueError, match=text):
            pylb.prediction.critical_path(Recording.of([[wrong]]))
    meet = {"kind": "COLL", "what": Collective.BARRIER, "tag": 1}
    with pytest.raises(ValueError, match="which is rank 1 of MPI_COMM_WORLD: expected rank 0"):
        pylb.prediction.critical_path(Recording.of([[meet], [meet]]))
    calls = [{"what": Collective.BARRIER}, {"what": Collective.BCAST}]
    roots = [{"what": Collective.BCAST}, {"what": Collective.BCAST, "peer": 1}]
    for first, second in (calls, roots):
        unlike = Recording.of([[{"kind": "COLL", **first}], [{"kind": "COLL", "tag": 1, **second}]])
        with pytest.raises(ValueError, match=r"another rank calls B.* with root \d at this"):
            pylb.prediction.critical_path(unlike)
    bad = Recording.of([[{"kind": "ENTER", "tag": 3}, {"kind": "END"}]])
    said = "operation 0 of rank 0 enters procedure 3: expected one of the 0 procedures"
    with pytest.raises(ValueError, match=said):
        pylb.prediction.critical_path(bad)
    with pytest.raises(ValueError, match="records of 48 bytes"):
        _core.path_lengths([np.zeros(3)], [0], [], [])


def test_nothing_recorded():
    assert pylb.prediction.critical_path(Recording.of([[], []])).time == 0
