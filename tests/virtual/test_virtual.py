"""Virtual ranks: the programs of tests/mpi, and times that can be computed in advance."""

import signal
import sys
import threading
import time

import cases  # these cases also run under mpiexec
import numpy as np
import programs
import pytest
from each_case import cases_of, in_blocks

import pylb
from pylb.errors import DeadlockError, DomainError, OutOfRangeError, StateError
from pylb.model.network import Network, measure_network

ALPHA, BETA = 1e-3, 1e-6


def cluster(p, **options):
    options = {"network": (ALPHA, BETA), "clock": "none", **options}
    return pylb.VirtualCluster(p, **options)


# ---- the runtime -----------------------------------------------------------------------------


# Virtual ranks have no Comm.Free, and are all on one node.
OF_MPI = (cases.freed_communicator, cases.in_rounds)


@pytest.mark.parametrize("case", [c for c in cases_of(cases) if c not in OF_MPI])
def test_cases_of_mpi(case):
    answers = [pylb.VirtualCluster(p).run(case) for p in (1, 2, 3, 5)]
    assert all(answer == answers[0][0] for each in answers for answer in each)


@pytest.mark.parametrize(("p", "n"), [(4, 41), (30, 60)])
def test_random_programs_agree_with_their_twin(p, n):
    parts = pylb.VirtualCluster(p).run(lambda comm: programs.run_balanced(comm, 7, n, 6)[1])
    assert {k: v for part in parts for k, v in part.items()} == programs.run_twin(7, n, 6)


def drifting(comm, iterations, **balancing):
    """Run a program with a hot spot that moves; it declares seconds instead of computing."""
    lb = pylb.Balancer(comm, **balancing)
    n = 8 * comm.size
    in_blocks(lb, n)
    for it in lb.iterate(iterations):
        for key, _ in lb.local():
            comm.elapse(1e-3 * (1 + 4 * ((key - 3 * it) % n < n // 4)))
            lb.send((key + 1) % n, key, b"x" * 1000)
    loads = lb.rank_loads()
    return lb.report().to_dict(), loads.tolist()


def test_every_figure_is_the_same_in_every_run():
    one, other = (cluster(12), cluster(12))
    answer = one.run(drifting, 30, every=4)
    assert repr(answer) == repr(other.run(drifting, 30, every=4))
    assert np.array_equal(one.seconds, other.seconds)
    report, loads = answer[0]
    assert len(report["history"]) == 7
    assert report["migrations"] > 0
    assert np.sum(loads) == pytest.approx(30 * 12 * 8 * 2e-3)


@pytest.mark.slow
def test_some_hundred_ranks():
    unbalanced, balanced = (
        cluster(200).run(drifting, 8, **how)[0][0]
        for how in ({"mode": "off"}, {"every": 2, "strategy": "GreedyLB"})
    )
    assert unbalanced["iterations"] == balanced["iterations"] == 8
    assert unbalanced["mean_max_over_mean"] == pytest.approx(2.5)  # 5 ms over a mean of 2 ms
    assert balanced["mean_max_over_mean"] < 1.6


def test_a_body_is_timed_alone_and_at_the_speed_of_its_rank():
    def main(comm):
        lb = pylb.Balancer(comm, mode="off")
        lb.add(lb.rank, None)
        whole = []
        for _ in lb.iterate(5):
            begin = time.perf_counter()
            for _ in lb.local():
                time.sleep(10e-3)
            whole.append(time.perf_counter() - begin)
        return lb.rank_loads(), lb.metrics.time, whole

    machine = pylb.VirtualCluster(8, speed=[2.0] + [1.0] * 7, clock="wall")
    answers = machine.run(main)
    loads, times, _ = answers[3]
    whole = np.array([whole for *_, whole in answers]).T  # on a busy machine, some wake up late
    assert (loads[:, 0] >= 5e-3).all()
    assert (loads[:, 0] <= whole[:, 0] / 2).all()
    assert (loads[:, 1:] >= 10e-3).all()
    assert (times < whole.sum(axis=1)).any()  # ranks run at the same time
    by_cpu = pylb.VirtualCluster(2).run(main)[0][0]
    assert (by_cpu < 5e-3).all()  # sleep takes no processor time


def test_speeds_can_be_seen_in_the_loads():
    def main(comm):
        lb = in_blocks(pylb.Balancer(comm, mode="off"), 4 * comm.size)
        for _ in lb.iterate(3):
            for _ in lb.local():
                comm.elapse(6e-3)
        return lb.rank_loads()

    loads = cluster(3, speed=[1, 2, 3]).run(main)[0]
    assert np.allclose(loads[0], [24e-3, 12e-3, 8e-3])


# ---- time ------------------------------------------------------------------------------------


def test_a_message_occupies_its_sender():
    def main(comm):
        if comm.rank == 0:
            comm.elapse(1.0)
            comm.send(b"x" * 100_000, 1)
            comm.send(None, 1, tag=4)
        elif comm.rank == 1:
            assert comm.recv(0, tag=4) is None  # although this message was sent last
            assert len(comm.recv(0)) == 100_000
        return comm.time

    there, here, other = cluster(3).run(main)
    assert there == pytest.approx(1.0 + 2 * ALPHA + BETA * 100_000, abs=1e-4)
    assert here == there
    assert other == 0.0


def test_collective_calls_and_their_times():
    def main(comm):
        seen = []
        comm.elapse(float(comm.rank))
        assert comm.gather(comm.rank, root=2) == ([0, 1, 2, 3, 4] if comm.rank == 2 else None)
        seen.append(comm.time)
        assert comm.bcast({"a": 1} if comm.rank == 4 else None, root=4) == {"a": 1}
        seen.append(comm.time)
        assert comm.allgather(comm.rank**2) == [0, 1, 4, 9, 16]
        assert comm.allreduce(comm.rank) == 10
        assert comm.allreduce(comm.rank, max) == 4
        assert comm.allreduce([comm.rank]) == [0, 1, 2, 3, 4]
        assert comm.reduce(1) == (5 if comm.rank == 0 else None)
        assert comm.scatter("abcde" if comm.rank == 1 else None, root=1) == "abcde"[comm.rank]
        other = comm.Dup()
        assert other.sendrecv(comm.rank, (comm.rank + 1) % 5, source=(comm.rank - 1) % 5) == (
            (comm.rank - 1) % 5
        )
        comm.Barrier()
        return [*seen, comm.time]

    times = np.array(cluster(5, network=(ALPHA, 0.0)).run(main)).T
    assert np.allclose(times[0], [0, 1, 4 + 3 * ALPHA, 3, 4])
    assert np.allclose(times[1], [4 + 3 * ALPHA] * 5)
    assert len(set(times[2])) == 1


def test_the_network_is_what_is_measured():
    assert cluster(4).run(measure_network) == [Network(ALPHA, BETA)] * 4


# ---- what goes wrong -------------------------------------------------------------------------


def test_an_error_on_one_rank_ends_all():
    ended = []

    def main(comm):
        try:
            lb = pylb.Balancer(comm, every=1)
            lb.add(lb.rank, None)
            for it in lb.iterate(9):
                if it == 3 and lb.rank == 2:
                    raise ValueError("block 7 is broken")
        finally:
            ended.append(comm.rank)

    with pytest.raises(ValueError, match="block 7 is broken") as caught:
        cluster(5).run(main)
    if sys.version_info >= (3, 11):
        assert caught.value.__notes__ == ["on virtual rank 2 of 5"]
    assert sorted(ended) == [0, 1, 2, 3, 4]
    assert not [t for t in threading.enumerate() if t.name.startswith("virtual rank")]


def test_errors_that_the_program_catches_are_its_own():
    def main(comm):
        lb = pylb.Balancer(comm, every=1, strategy=lambda s: 1 / 0)
        lb.add(lb.rank, None)
        with pytest.raises(pylb.errors.StrategyError, match="ZeroDivision"):
            list(lb.iterate(3))
        return comm.allreduce(1)

    assert cluster(3).run(main) == [3, 3, 3]


def leaves_early(comm):
    lb = pylb.Balancer(comm, every=1)
    lb.add(lb.rank, None)
    for it in lb.iterate(9):
        if it == 3 and lb.rank == 2:
            return


@pytest.mark.parametrize(
    ("main", "error", "says"),
    [
        (
            lambda comm: comm.recv((comm.rank + 1) % 3, tag=8),
            DeadlockError,
            r"no rank can continue: rank 0: waits in recv\(source=1, tag=8\); rank 1: waits in",
        ),
        (
            leaves_early,
            DeadlockError,
            "rank 0, 1: waits in the balancer at the end of iteration 3; rank 2: has ended",
        ),
        (
            lambda comm: comm.barrier() if comm.rank else comm.bcast(1),
            StateError,
            r"ranks are in different calls: rank 0: bcast\(root=0\); rank 1, 2: barrier\(\)",
        ),
        (lambda comm: comm.send(1, 3), OutOfRangeError, r"dest is 3: expected 0 \.\.\. 2"),
        (lambda comm: comm.elapse(-1.0), DomainError, "seconds is -1.0"),
        (lambda comm: comm.elapse("1"), DomainError, "seconds is '1'"),
        (lambda comm: comm.Isend(1, 0), AttributeError, "no 'Isend': it has mpi4py's send"),
        (lambda comm: comm.scatter([1, 2]), DomainError, "2 objects: expected 3"),
        (lambda comm: sys.exit(4), SystemExit, "4"),
    ],
)
def test_programs_that_go_wrong(main, error, says):
    with pytest.raises(error, match=says):
        cluster(3).run(main)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_ranks": 0}, "n_ranks is 0"),
        ({"n_ranks": "x"}, "n_ranks is 'x'"),
        ({"n_ranks": 2, "speed": [1.0]}, r"speed has shape \(1,\)"),
        ({"n_ranks": 2, "speed": [1.0, 0.0]}, "speed has 0: expected"),
        ({"n_ranks": 2, "network": (-1.0, 0.0)}, r"network\[0\] is"),
        ({"n_ranks": 2, "clock": "sun"}, "clock is 'sun'"),
    ],
)
def test_bad_arguments(options, says):
    with pytest.raises(DomainError, match=says):
        pylb.VirtualCluster(**options)


def test_interrupts_reach_a_rank_that_runs():
    def main(comm):
        while comm.rank:  # rank 0 waits in the barrier
            pass
        comm.barrier()

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            cluster(3).run(main)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not [t for t in threading.enumerate() if t.name.startswith("virtual rank")]


@pytest.mark.parametrize("clock", ["none", "cpu"])
def test_a_cluster_within_a_rank_does_not_change_the_time_of_the_rank(clock):
    def inner(comm):
        comm.elapse(5.0)
        comm.barrier()
        return comm.time

    def main(comm):
        comm.elapse(1.0)
        times = pylb.VirtualCluster(2, clock="none", network=(0, 0)).run(inner)
        return times, comm.time

    for times, now in pylb.VirtualCluster(2, clock=clock, network=(0, 0)).run(main):
        assert times == [5.0, 5.0]
        assert 1.0 <= now < (2.0 if clock == "cpu" else 1.0 + 1e-12)


@pytest.mark.parametrize("call", ["barrier", "send", "recv", "rank_loads", "iterate"])
def test_a_rank_communicates_only_in_its_own_program(call):
    kept = {}

    def communicate(comm, lb):
        return {
            "barrier": comm.barrier,
            "send": lambda: comm.send(1, 1),
            "recv": lambda: comm.recv(source=1),
            "rank_loads": lb.rank_loads,
            "iterate": lambda: list(lb.iterate(1)),
        }[call]()

    def main(comm):
        lb = pylb.Balancer(comm)
        kept[comm.rank] = comm, lb
        for _ in lb.iterate(2):
            pass
        comm.barrier()
        if comm.rank == 1:
            with pytest.raises(StateError, match="rank 0 communicates outside its own program"):
                communicate(*kept[0])
        return lb

    lb, _ = pylb.VirtualCluster(2, clock="none").run(main)
    assert lb.report().iterations == 2
    with pytest.raises(StateError, match="rank 0 communicates outside its own program"):
        communicate(*kept[0])
