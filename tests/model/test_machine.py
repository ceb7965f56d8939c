"""Room model: the cost of messages."""

import json

import numpy as np
import pytest
from launch import HERE, printed

import pylb
from pylb.errors import DomainError
from pylb.model.network import Network, measure_network

SIZES = np.array([8, 1024, 32768, 1 << 20])


@pytest.mark.parametrize("alpha", [0.0, 1e-7, 3e-6, 1e-3])
@pytest.mark.parametrize("beta", [1e-20, 1e-11, 4e-9])
def test_fit_is_exact_on_a_line(alpha, beta):
    fitted = Network.fit(SIZES, alpha + beta * SIZES)
    np.testing.assert_allclose(fitted, (alpha, beta), rtol=1e-9, atol=1e-18)


def test_noise_of_large_messages_hardly_changes_alpha():
    noise = np.random.default_rng(1).uniform(0.9, 1.1, 40)
    sizes = np.tile(SIZES, 10)
    fitted = Network.fit(sizes, noise * (2e-6 + 1e-9 * sizes))
    np.testing.assert_allclose(fitted, (2e-6, 1e-9), rtol=0.1)


# A plain fit would give a negative beta for the exponent -0.1, and a negative alpha for 1.3.
@pytest.mark.parametrize("power", [-0.1, 1.3])
def test_neither_part_is_negative_and_no_other_pair_is_closer(power):
    seconds = SIZES**power

    def error(alpha, beta):
        return ((1 - (alpha + beta * SIZES) / seconds) ** 2).sum()

    fitted = Network.fit(SIZES, seconds)
    assert min(fitted) == 0.0
    for step in (1e-3, 1e-2, 0.1, 1.0):
        for alpha in (fitted.alpha, max(fitted.alpha - step, 0), fitted.alpha + step):
            for scale in (1 - step, 1 + step):
                assert error(alpha, scale * fitted.beta) >= error(*fitted) * (1 - 1e-9)
        assert error(fitted.alpha, fitted.beta + step / SIZES.max()) >= error(*fitted)


def test_bad_measurements():
    for bytes_, seconds, match in [
        ([1, 2], [1.0], "shapes"),
        ([1, 2], [1.0, 0.0], "finite seconds above 0"),
        ([1, -2], [1.0, 1.0], "bytes or seconds have a value out of range"),
        ([1, np.nan], [1.0, 1.0], "bytes or seconds have a value out of range"),
        ([8, 8], [1.0, 1.0], "1 different sizes"),
        ([], [], "0 different sizes"),
    ]:
        with pytest.raises(DomainError, match=match):
            Network.fit(bytes_, seconds)


def measured(mpiexec, ranks):
    """Return alpha and beta, which all ranks must know to the bit."""
    out = printed(mpiexec, ranks, HERE / "network.py")
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == ranks
    assert all(a == answers[0] for a in answers)
    return answers[0]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_measured_under_mpiexec(mpiexec, ranks):
    alpha, beta = measured(mpiexec, ranks)
    if ranks == 1:
        assert (alpha, beta) == (0.0, 0.0)
        return
    assert 0 <= alpha < 1
    for _ in range(4):  # where ranks share cores, a delay of the small messages may hide beta
        if beta > 0.0:
            break
        alpha, beta = measured(mpiexec, ranks)
    assert 1e-13 < beta < 1e-5  # between 10 TB/s and 100 kB/s


def test_an_argument_that_is_not_a_communicator():
    pytest.importorskip("mpi4py")
    with pytest.raises(DomainError, match="comm is 3: expected an intracommunicator"):
        measure_network(3)


@pytest.mark.parametrize("measure", [measure_network, pylb.Machine.measure])
def test_a_communicator_that_was_freed(measure):
    comm = pytest.importorskip("mpi4py.MPI").COMM_SELF.Dup()
    comm.Free()
    with pytest.raises(DomainError, match="expected an intracommunicator of mpi4py"):
        measure(comm)


def test_messages_belong_to_the_time_of_their_sender():
    edges = ([0, 0, 1, 2], [1, 2, 0, 2], [100.0, 1000.0, 10.0, 1e6], [1, 2, 4, 8])
    snap = pylb.Snapshot(load=[1.0, 2.0, 3.0], rank=[0, 0, 1], n_ranks=3, edges=edges)
    network = Network(0.5, 1e-3)
    np.testing.assert_allclose(network.rank_times(snap), [3.0 + 2 * 0.5 + 1.0, 3.0, 0.0])
    apart = snap.with_rank([0, 1, 2])
    np.testing.assert_allclose(
        network.rank_times(apart), [1.0 + 3 * 0.5 + 1.1, 2.0 + 4 * 0.5 + 0.01, 3.0]
    )
    alone = pylb.Snapshot(load=[1.0], rank=[0])
    assert network.rank_times(alone).tolist() == [1.0]
