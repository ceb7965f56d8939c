"""The simulation of a recorded program: cases worked by hand, bad input."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from whatif_programs import program, spa

import pylb
from pylb import whatif
from pylb.errors import DomainError, FormatError, MissingFileError, OutOfRangeError
from pylb.prediction import suggestion
from pylb.prediction.prediction import Target, target
from pylb.prediction.recorder.recording import OP, Collective, Flag, OpKind, Recording

MS = 1_000_000
FAST = {"network": (0.0, 0.0), "overhead": 0.0}


def places(ranks):
    rng = np.random.default_rng(ranks)
    return [np.arange(ranks), np.zeros(ranks, int), rng.integers(2, size=ranks)]


# Sums over random programs of finish, waiting and paused, each times the rank's number plus 1: a
# change of the simulation changes them.
GOLDEN = {
    2: [3.9901804285, 1.20215074, 0.103758715],
    3: [7.46284421567, 2.89662804684, 0.13971974],
    5: [20.6692249235, 9.58162980537, 0.247111335],
}


@pytest.mark.parametrize("ranks", GOLDEN)
def test_predictions_of_random_programs_are_those_of_before(ranks):
    sums = np.zeros(3)
    for seed in range(18):
        run = program(seed, ranks)
        place = places(ranks)[(seed + seed // 3) % 3]  # each with each period
        n = max(place) + 1
        told = whatif(
            run,
            placement=place,
            speed=np.array([1.0, 0.5, 2.0, 1.25, 0.8])[:n],
            node=np.array([0, 1, 0, 1, 1])[:n],
            network=([[1e-6, 5e-6], [4e-6, 2e-6]], [[1e-9, 2e-9], [3e-9, 1e-9]])
            if n > 1
            else (1e-6, 1e-9),
            overhead=[0.0, 3e-7][seed % 2],
            share=[[1.0, 1.0, 0.5, 0.9, 1.0], [0.4, 1.0, 0.7, 0.6, 0.3]][seed // 2 % 2][:n],
            period=[0.0, 5e-3, 1.3e-4][seed % 3],
        )
        assert told.end == ["through"] * ranks, (seed, place, told.warnings)
        sums += np.stack([told.finish, told.waiting, told.paused]) @ np.arange(1.0, ranks + 1)
    np.testing.assert_allclose(sums, GOLDEN[ranks], rtol=1e-9)


# --- worked cases ---


END = {"kind": "END"}


def op(kind, **fields):
    return {"kind": kind, **fields}


def two(first=10, second=10):
    """Return two ranks that compute, then meet in a barrier."""
    meet = op("COLL", what=Collective.BARRIER)
    return Recording.of(
        [
            [{**meet, "tag": rank, "compute": work * MS}, END]
            for rank, work in enumerate((first, second))
        ]
    )


def test_a_shared_processor_takes_the_sum_and_one_of_half_speed_twice_as_long():
    run = two(10, 30)
    assert whatif(run, **FAST).time == pytest.approx(0.030)
    assert whatif(run, placement=[0, 0], **FAST).time == pytest.approx(0.040)
    assert whatif(run, speed=[1.0, 0.5], **FAST).time == pytest.approx(0.060)
    assert whatif(run, placement=[1, 0], speed=[1.0, 0.5], **FAST).time == pytest.approx(0.030)


def test_equal_shares_of_a_processor():
    run = Recording.of([[op("END", compute=w * MS)] for w in (1, 2, 3)])
    told = whatif(run, placement=[0, 0, 0], **FAST)
    np.testing.assert_allclose(told.finish, [0.003, 0.005, 0.006])
    np.testing.assert_allclose(told.busy, [0.001, 0.002, 0.003])


def test_a_share_is_a_part_of_each_period():
    run = Recording.of([[op("END", compute=3 * MS)]])
    told = whatif(run, share=[0.2], period=0.005, **FAST)  # runs 1 ms from 0, 5 and 10 ms on
    assert told.time == pytest.approx(0.011)
    assert whatif(run, share=[0.2], period=0.0, **FAST).time == pytest.approx(0.015)


def test_messages_cost_alpha_and_beta_on_their_link():
    run = Recording.of([[op("SEND", peer=1, bytes=1000), END], [op("RECV", peer=0), END]])
    network = ([[1e-6, 1e-3], [5e-3, 2e-6]], [[1e-9, 1e-6], [1e-6, 1e-9]])
    told = whatif(run, node=[0, 1], network=network)
    np.testing.assert_allclose(told.finish, [0.0, 2e-3])
    told = whatif(run, node=[1, 0], network=network)
    np.testing.assert_allclose(told.finish, [0.0, 6e-3])
    told = whatif(run, node=[0, 1], network=network, eager=10)  # request, reply, and the data
    np.testing.assert_allclose(told.finish, [4e-3, 4e-3])


def test_a_rendezvous_waits_until_the_receiver_is_within_mpi():
    run = Recording.of(
        [
            [op("SEND", peer=1, bytes=1000), END],
            [op("IRECV", peer=0, request=3), op("WAIT", request=3, compute=20 * MS), END],
        ]
    )
    told = whatif(run, eager=0, **FAST)
    np.testing.assert_allclose(told.finish, [0.020, 0.020])
    np.testing.assert_allclose(whatif(run, eager=1000, **FAST).finish, [0.0, 0.020])


def test_messages_of_one_sender_are_not_overtaken_except_by_tag():
    def sends(*tags):
        return [op("SEND", peer=1, tag=t, compute=MS) for t in tags]

    def receives(*tags):
        return [op("RECV", peer=0, tag=t) for t in tags]

    end = [END]
    run = Recording.of([sends(1, 2, 1) + end, receives(2, 1, 1) + end])
    told = whatif(run, steps=True, **FAST)
    np.testing.assert_allclose(told.steps[1]["end"][:3], [0.002, 0.002, 0.003])
    np.testing.assert_array_equal(told.steps[1]["cause_op"][[0, 2]], [1, 2])
    np.testing.assert_array_equal(told.steps[1]["cause_rank"][:3], [0, -1, 0])


def test_communicators_do_not_mix():
    end = [END]
    run = Recording.of(
        [
            [op("SEND", peer=1, comm=1), op("SEND", peer=1, compute=MS), *end],
            [op("RECV", peer=0), op("RECV", peer=0, comm=1), *end],
        ],
        [[0, 1], [1, 0]],
    )
    np.testing.assert_allclose(whatif(run, **FAST).finish, [0.001, 0.001])


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
@pytest.mark.parametrize("what", list(Collective))
def test_who_waits_for_whom_in_a_collective(what, ranks):
    """If one rank is late, only the ranks that need its data wait."""
    for late in range(ranks):
        root = 1
        run = Recording.of(
            [
                [
                    op(
                        "COLL",
                        what=what,
                        tag=rank,
                        peer=root,
                        bytes=1000,
                        compute=50 * MS if rank == late else 0,
                    ),
                    END,
                ]
                for rank in range(ranks)
            ]
        )
        waits = whatif(run, **FAST).finish > 0.04
        if what.name in ("BCAST", "SCATTER"):
            assert waits[late]
            assert waits.all() == (late == root or (ranks == 2 and waits.all()))
        elif what.name in ("REDUCE", "GATHER"):
            assert waits[late]
            assert waits[root]
        elif what.name in ("SCAN", "EXSCAN"):
            np.testing.assert_array_equal(waits, np.arange(ranks) >= late)
        else:
            assert waits.all()


# --- from any source ---


def test_a_server_does_its_work_in_the_recorded_order():
    """In the recording, client 1 was served first; it is so, too, if client 2 asks earlier."""
    serve = Flag.ANY_SOURCE | Flag.ANY_TAG
    end = END
    run = Recording.of(
        [
            [
                op("PROBE", peer=1, flags=serve),
                op("RECV", peer=1, flags=serve),
                op("SEND", peer=1, compute=1 * MS),
                op("IRECV", peer=-1, flags=serve, request=3),
                op("WAIT", peer=2, tag=5, request=3),
                op("SEND", peer=2, compute=5 * MS),
                op("IRECV", peer=-1, flags=serve, request=4),
                op("WAIT", peer=-1, request=4, flags=Flag.CANCELLED),
                end,
            ],
            [op("SEND", peer=0, compute=1 * MS), op("RECV", peer=0), end],
            [op("SEND", peer=0, compute=2 * MS, tag=5), op("RECV", peer=0), end],
        ]
    )
    told = whatif(run, placement=[0, 1, 2], speed=[1.0, 0.1, 1.0], **FAST)
    assert told.complete
    np.testing.assert_allclose(told.finish, [0.016, 0.011, 0.016])  # client 1 asks at 10 ms


# --- incomplete recordings, bad input ---


def test_a_rank_that_was_killed_is_named_and_who_waits_for_it():
    run = two()
    run.ops[1] = run.ops[1][:0]
    run.closed[1] = False
    with pytest.warns(UserWarning, match="rank") as said:
        told = whatif(run)
    assert told.end == ["stuck", "cut"]
    assert not told.complete
    assert {w.filename for w in said} == {__file__}
    texts = [str(w.message) for w in said]
    assert "rank 1: its records end after 0 operations, before MPI_Finalize" in texts
    assert "rank 0 waits forever in operation 0: BARRIER on communicator 0" in texts


def test_a_message_that_is_never_received_and_one_that_is_never_sent():
    end = [END]
    run = Recording.of([[op("SEND", peer=1, bytes=10), *end], end])
    with pytest.warns(UserWarning, match="rank 1 never receives 1 message sent to it"):
        assert whatif(run).complete  # the message is buffered
    with pytest.warns(UserWarning, match="rank 0 waits forever in operation 0: SEND of 10 bytes"):
        assert whatif(run, eager=0).end == ["stuck", "through"]
    run = Recording.of([[op("RECV", peer=1, tag=7), *end], end])
    with pytest.warns(UserWarning, match="RECV from rank 1, tag 7"):
        whatif(run)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"placement": [0]}, DomainError, "placement has 1 entries: expected 2"),
        ({"placement": [0, 2], "speed": [1, 1]}, OutOfRangeError, "rank 1 is processor 2: expect"),
        ({"placement": [0, -1]}, OutOfRangeError, "placement of rank 1 is processor -1"),
        ({"placement": [0.5, 1]}, DomainError, "placement has dtype float64: expected integers"),
        ({"speed": [1.0, 0.0]}, DomainError, "speed of processor 1 is 0"),
        ({"speed": [1.0, float("nan")]}, DomainError, "speed of processor 1 is nan"),
        ({"speed": [[1.0]]}, DomainError, "speed has the shape"),
        ({"node": [0]}, OutOfRangeError, "placement of rank 1 is processor 1: expected 0 ... 0"),
        ({"node": [0], "speed": [1, 1]}, DomainError, "node has 1 entries: expected 2"),
        ({"node": [0, -1]}, OutOfRangeError, "node of processor 1 is -1"),
        ({"network": (1.0,)}, DomainError, "network is"),
        ({"network": (-1.0, 0.0)}, DomainError, "network from node 0 to 0 is alpha -1"),
        ({"network": (np.zeros((3, 3)), 0.0)}, DomainError, "network's alpha has the shape"),
        ({"overhead": float("inf")}, DomainError, "overhead is inf"),
        ({"share": [0.5]}, OutOfRangeError, "placement of rank 1"),
        ({"share": [0.5, 0.0]}, DomainError, "share of processor 1 is 0"),
        ({"share": 1.5}, DomainError, "share of processor 0 is 1.5"),
        ({"period": -1.0}, DomainError, "period is -1"),
        ({"share": "half"}, DomainError, "share: expected an array of numbers"),
        ({"period": "5ms"}, DomainError, "period is '5ms': expected a finite number"),
        ({"overhead": "a"}, DomainError, "overhead is 'a': expected a finite number"),
        ({"eager": "4k"}, DomainError, "eager is '4k': expected a finite number"),
        ({"network": 1e-6}, DomainError, "network is 1e-06: expected .alpha, beta."),
        ({"network": ("a", 0)}, DomainError, "network's alpha: expected an array of numbers"),
        ({"network": {"aplha": 1e-6}}, DomainError, "network is .*aplha.*: expected"),
    ],
)
def test_bad_targets(given, error, says):
    with pytest.raises(error, match=says):
        whatif(two(), **given)


def test_the_cause_of_a_wait_within_a_collective_is_kept():
    """Rank 2 waits for rank 3, and then sends to the root."""
    reduce = op("COLL", what=Collective.REDUCE, peer=0, bytes=8)
    ranks = [[{**reduce, "tag": r, "compute": (r == 3) * 20 * MS}, END] for r in range(4)]
    told = whatif(Recording.of(ranks), steps=True, **FAST)
    assert [int(told.steps[r]["cause_rank"][0]) for r in range(4)] == [2, -1, 3, -1]


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("kind", 99, "operation 0 of rank 0: kind is 99"),
        ("compute", -1, "processor time in ns is -1"),
        ("bytes", -1, "number of bytes is -1"),
        ("comm", 1, "communicator is 1"),
        ("peer", 2, "peer is 2"),
    ],
)
def test_records_that_contradict_themselves(field, value, says):
    run = Recording.of([[op("SEND", peer=1), END], [END]])
    run.ops[0][field][0] = value
    with pytest.raises(FormatError, match=says):
        whatif(run)


def test_the_speed_of_a_machine_is_measured_by_the_program():
    here, there = two(), two()
    for ops, factor in zip(there.ops, (2, 5), strict=True):
        ops["compute"] *= factor
    speed = here.speeds(there)
    np.testing.assert_allclose(speed, [0.5, 0.2])
    for place in ([0, 1], [1, 0]):
        slow = whatif(here, placement=[0, 1], speed=speed[place], **FAST)
        busy = [1e-9 * ops["compute"].sum() for ops in here.ops]
        np.testing.assert_allclose(slow.busy, busy / speed[place])
    with pytest.raises(DomainError, match=r"elsewhere is 'run': expected a pylb\.Recording"):
        here.speeds("run")
    with pytest.raises(DomainError, match="elsewhere has 3 ranks: expected 2"):
        here.speeds(program(0, 3))
    there.ops[1]["compute"] = 0
    with pytest.raises(DomainError, match="rank 1 computes nothing"):
        here.speeds(there)


def test_recordings_are_kept(tmp_path):
    run = program(3, 3)
    run.info["seconds"] = 1.5
    run.save(tmp_path / "run")
    again = Recording.load(tmp_path / "run")
    assert again.seconds == 1.5
    for a, b in zip([*run.ops, *run.comms], [*again.ops, *again.comms], strict=True):
        np.testing.assert_array_equal(a, b)
    assert whatif(tmp_path / "run").time == whatif(run).time
    assert whatif(run).recorded == 1.5


def test_files_that_are_no_recordings(tmp_path):
    with pytest.raises(MissingFileError, match="no such file"):
        Recording.load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(FormatError, match=r"not a recording of pylb|not an HDF5 file"):
        Recording.load(tmp_path / "text")
    program(3, 3).save(tmp_path / "cut")
    whole = (tmp_path / "cut").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match=r"not a recording of pylb|not an HDF5 file"):
        Recording.load(tmp_path / "cut")
    at = whole.index(program(3, 3).ops[1].tobytes()[:48])
    (tmp_path / "bit").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(FormatError, match=r"not a recording of pylb|not an HDF5 file"):
        Recording.load(tmp_path / "bit")


def test_names():
    assert pylb.whatif is whatif
    text = (Path(__file__).parents[2] / "csrc/whatif/whatif.h").read_text()
    blocks = dict(re.findall(r"define PLB_(\w+)\(X\)(.*?)\n\n", text, re.DOTALL))
    for kinds, name in ((OpKind, "OPS"), (Collective, "COLLECTIVES")):
        assert [kind.name for kind in kinds] == re.findall(r"X\((\w+)", blocks[name])
    flags = {name: int(bit) for name, bit in re.findall(r"PLB_OP_(\w+) =\s+(\d+)", text)}
    assert {flag.name: flag.value for flag in Flag} == flags
    after = text.split("struct plb_op {")[1]
    fields = re.findall(r"^    u?(?:int\d+_t|float) ([\w, ]+);", after, re.MULTILINE)
    assert ", ".join(fields).startswith(", ".join(OP.names))
    assert OP.itemsize == 48
    assert isinstance(target(two()), Target)


@pytest.mark.parametrize("name", ["node", "placement"])
def test_a_number_that_is_too_large_is_refused(name):
    with pytest.raises(OutOfRangeError, match=f"{name} has the entry 100000000: expected"):
        whatif(two(), **{name: [0, 10**8]})


def test_the_simulation_itself_refuses_one_sided_calls():
    """It may meet them before the recording is complete, while the program runs."""
    run = Recording.of([[op("ONE_SIDED", what=4), END]])
    with pytest.raises(DomainError, match="operation 0 of rank 0 is MPI_Put: one-sided calls are"):
        target(run).simulate(run.ops, run.comms)
    run.ops[0]["what"] = 99
    with pytest.raises(FormatError, match=r"one-sided call is 99: expected 0 \.\.\. 13"):
        whatif(run)


def test_a_program_without_ranks():
    empty = np.zeros(0, np.int32)
    to = target(program(0, 2))
    with pytest.raises(DomainError, match="a program of 0 ranks: expected at least 1"):
        replace(to, placement=empty).simulate([], [])


# ---- the search for placements: compared with all placements, on other machines, with procedures


FREE = {"network": (0.0, 0.0), "overhead": 0.0}


def steps(work, n=5, nbytes=0):
    """Return ranks that compute, pass a message around a ring, and meet in a barrier."""
    p = len(work)
    ops = [
        [
            one
            for _ in range(n)
            for one in (
                op("ISEND", peer=(r + 1) % p, bytes=nbytes, compute=int(w * MS)),
                op("RECV", peer=(r - 1) % p, bytes=nbytes),
                op("WAIT"),
                op("COLL", what=Collective.ALLREDUCE, tag=r),
            )
        ]
        + [END]
        for r, w in enumerate(work)
    ]
    return Recording.of(ops)


@pytest.mark.parametrize("speed", [(1.0, 1.0, 1.0), (1.0, 0.5, 2.0)])
def test_as_good_as_the_best_there_is(speed):
    run = steps(np.random.default_rng(4).uniform(1, 30, 6))
    found = pylb.prediction.suggest(run, placement=[0] * 6, speed=speed, **FREE)
    every = [
        pylb.whatif(run, placement=at, speed=speed, **FREE).time
        for at in product(range(3), repeat=6)
    ]
    assert found[0].time == pytest.approx(min(every), rel=0.02)
    assert [one.time for one in found] == sorted(one.time for one in found)
    for one in found:
        assert pylb.whatif(run, placement=one.placement, speed=speed, **FREE).time == one.time
        assert "the busiest processor computes" in one.reason


def test_the_reason_says_how_the_placement_was_found(monkeypatch):
    run = steps([5, 5])
    for strategies, how in (["GreedyLB"], "GreedyLB"), ([], "step by step"):
        monkeypatch.setattr(suggestion, "STRATEGIES", strategies)
        found = pylb.prediction.suggest(run, placement=[0, 0], speed=[1.0, 1.0], best=1, **FREE)
        assert found[0].reason.startswith(f"1 rank moved ({how}): the busiest processor")


def test_nothing_to_save():
    assert pylb.prediction.suggest(steps([5, 5]), placement=[0, 1], speed=[1.0, 1.0], **FREE) == []


def test_messages_between_nodes_are_told():
    ops = [
        [
            op("ISEND", peer=r ^ 1, bytes=1_000_000, compute=5 * MS),
            op("RECV", peer=r ^ 1, bytes=1_000_000),
            op("WAIT"),
            END,
        ]
        for r in range(4)
    ]
    run = Recording.of(ops)
    machine = {"node": [0, 0, 1, 1], "speed": [1.0] * 4}
    slow = {"network": ([[0, 1e-3], [1e-3, 0]], [[0, 1e-8], [1e-8, 0]])}
    found = pylb.prediction.suggest(run, placement=[0, 2, 1, 3], **machine, **slow)
    assert "0 bytes go between nodes instead of 4,000,000" in found[0].reason
    assert found[0].saves > 0


def test_a_procedure_that_should_move():
    run = spa(one=5.4, two=7.3, own=(1.0, 13.0, 13.0), server_work=3.4)
    found = pylb.prediction.suggest(run, placement=range(4), speed=[1.0] * 4, best=9, **FREE)
    assert found[0].procedure == "servBusy2"
    assert found[0].placement is None
    assert str(found[0]).startswith("20.")


def test_the_warnings_of_the_present_placement_are_shown_once():
    run = steps([5, 5])
    run.warnings.append("not simulated: MPI_Fetch")
    with pytest.warns(UserWarning, match="not simulated") as said:
        pylb.prediction.suggest(run, placement=[0, 0], speed=[1.0, 1.0], **FREE)
    assert [(one.filename, str(one.message)) for one in said] == [(__file__, run.warnings[0])]


def test_a_thousand_ranks():
    rng = np.random.default_rng(1)
    run = steps(rng.lognormal(0, 1, 1000), n=2, nbytes=100)
    start = np.arange(1000) // 16
    now = pylb.whatif(run, placement=start).time
    found = pylb.prediction.suggest(run, placement=start, tries=5)
    assert found[0].time < 0.7 * now


def test_bad_input():
    with pytest.raises(DomainError, match="best is 0"):
        pylb.prediction.suggest(steps([1, 1]), placement=[0, 0], best=0)
    with pytest.raises(DomainError, match="placement has 1 entries"):
        pylb.prediction.suggest(steps([1, 1]), placement=[0])
