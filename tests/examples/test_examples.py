"""The examples: their physics against plain twins, their output, any number of ranks."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from launch import answers_of

PROGRAMS = Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(PROGRAMS))
with pytest.MonkeyPatch.context() as patch:
    patch.setitem(sys.modules, "mpi4py", None)  # one rank: this process does not start MPI
    import flow
    import jacobi2d
    import kneighbor
    import lbtest
    import leanmd
    import multizone
    import runs
    from lennardjones import Fluid

ID, X, V = 0, slice(1, 4), slice(4, 7)


def test_lending_does_not_change_the_chemistry(mpiexec):
    pytest.importorskip("cantera", reason="Cantera is not installed")
    words = [*mpiexec, "-n", "2", sys.executable, PROGRAMS / "chemistry.py", "--cells", "100"]
    sums = []
    for lend in ("yes", "no"):
        done = subprocess.run(
            [*words, "--steps", "3", "--lend", lend], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        sums.append(done.stdout.split(";")[0])
    assert sums[0] == sums[1]
    assert sums[0].startswith("checksum ")


# ---- leanmd ----------------------------------------------------------------------------------


def potential(x, box, c):
    """Return the potential energy of all pairs, each at its nearest image."""
    d = x[:, :, None] - x[:, None, :]
    d -= np.round(d / box[:, None, None]) * box[:, None, None]
    r = np.sqrt((d**2).sum(axis=0))
    np.fill_diagonal(r, np.inf)

    def u(r):
        return 4.0 * (r**-12.0 - r**-6.0)

    def slope(r):
        return 4.0 * (-12.0 * r**-13.0 + 6.0 * r**-7.0)

    return np.where(r < c, u(r) - u(c) - (r - c) * slope(c), 0.0).sum() / 2.0


@pytest.mark.parametrize("away", [1, 2])
def test_the_energy_is_a_plain_sum_over_all_pairs(away):
    """At the start and, far from the lattice, at the end."""
    fluid = Fluid(3, away, cutoff=2.5, every=4)
    atoms = fluid.drop(seed=3, temperature=2.0)
    # Some layers of the lattice are close to a side of the box, and to a border between rows of
    # cells.
    atoms[X] = fluid.wrap(atoms[X] + np.array([[-0.5], [0.15], [0.0]]))
    run = leanmd.solve(None, fluid, atoms, 18)
    assert np.array_equal(run.atoms[ID], atoms[ID])
    for i, at in ((0, atoms), (18, run.atoms)):
        expected = (at[V] ** 2).sum() / 2.0, potential(at[X], fluid.box, fluid.cutoff)
        assert np.allclose(run.energy[i], expected, rtol=1e-11, atol=0.0)
    assert np.any(np.floor(run.atoms[X] / 3.0) != np.floor(atoms[X] / 3.0))  # some change the cell


def test_energy_and_momentum_are_conserved():
    drift = {}
    for dt, steps in ((0.004, 40), (0.002, 80)):
        fluid = Fluid(3, cutoff=2.5, dt=dt)
        run = leanmd.solve(None, fluid, fluid.drop(), steps)
        drift[dt] = run.drift
        assert np.abs(run.momentum).max() < 1e-12
        kinetic = run.energy[:, 0]
        assert np.ptp(kinetic) > 100 * np.ptp(run.total)  # energy was exchanged
    assert drift[0.004] < 5e-4
    assert 3.0 < drift[0.004] / drift[0.002] < 5.0  # second order


def test_atoms_that_stay_in_their_cell_too_long_are_an_error():
    fluid = Fluid(3, cutoff=2.5, every=1000)
    with pytest.raises(RuntimeError, match="atoms must change cells more often"):
        leanmd.solve(None, fluid, fluid.drop(), 200)


# ---- kneighbor -------------------------------------------------------------------------------


def test_ring_has_k_neighbours_on_both_sides():
    ring = kneighbor.Ring(10, 2, 8, 5, 3, 0.4, 7)
    assert sorted(ring.neighbours(0)) == [1, 2, 8, 9]
    assert [ring.steps(key, 2) for key in range(10)] == [5] * 10
    assert [ring.steps(key, 3) for key in range(10)] == [35] * 4 + [5] * 6


@pytest.mark.parametrize(("words", "says"), [("--k 8", "k is 8"), ("--bytes 12", "bytes is 12")])
def test_bad_rings_are_errors(monkeypatch, words, says):
    monkeypatch.setattr(sys, "argv", ["kneighbor.py", "--work", "1", *words.split()])
    with pytest.raises(SystemExit, match=says):
        kneighbor.main()


# ---- lbtest ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "degrees"),
    [("ring", {2}), ("mesh", {4}), ("cube", {6}), ("random", set(range(2, 20)))],
)
def test_graphs_of_lbtest(graph, degrees):
    program = lbtest.Program.draw(graph, 120, (0.5, 2.0), (100, 900), degree=6, seed=3)
    a, b = program.pairs.T
    assert np.all(a < b)
    assert len({*map(tuple, program.pairs.tolist())}) == len(a)
    degree = np.bincount(program.pairs.ravel(), minlength=120)
    assert set(degree.tolist()) <= degrees
    assert graph != "random" or 5.0 < degree.mean() < 6.1
    assert 0.5 <= program.load.min() < 0.6 < 1.9 < program.load.max() <= 2.0
    assert 100 <= program.nbytes.min() < 150 < 850 < program.nbytes.max() <= 900
    sent = {(i, j): size for i, to in enumerate(program.sends) for j, size in to}
    assert len(sent) == 2 * len(a)
    assert all(sent[j, i] == size for (i, j), size in sent.items())
    again = lbtest.Program.draw(graph, 120, (0.5, 2.0), (100, 900), 6, ordered=True, seed=3)
    assert np.array_equal(again.pairs, program.pairs)
    assert np.array_equal(again.load, np.sort(program.load)[::-1])


def test_lbtest_as_a_snapshot():
    program = lbtest.Program.draw("cube", 64, (1.0, 1.0), (8, 8))
    snapshot = program.snapshot(4)
    assert snapshot.metrics.max_over_mean == 1.0
    assert snapshot.n_edges == 2 * 3 * 64
    assert np.array_equal(np.bincount(snapshot.rank), [16] * 4)


def test_lbtest_wants_ranges(monkeypatch):
    monkeypatch.setattr(sys, "argv", "lbtest --ms 2 1".split())
    with pytest.raises(SystemExit, match=r"load is .* expected a range"):
        lbtest.main()


# ---- multizone -------------------------------------------------------------------------------


def test_zones_are_those_of_bt_mz():
    for name, largest in {"S": 18, "B": 72}.items():  # NPB 3.3.1: problem_size of the class
        problem = multizone.CLASSES[name]
        assert max(w for box in problem.boxes for w in box.size) == largest
    for name, problem in multizone.CLASSES.items():
        cells = [box.n_cells for box in problem.boxes]
        assert sum(cells) == np.prod(problem.cells)
        assert max(cells) / min(cells) == pytest.approx(9.0 if name == "S" else 20.25, rel=0.2)
        for key in range(problem.n_zones):
            for side, other in problem.neighbours(key).items():
                assert problem.neighbours(other)[flow.OPPOSITE[side]] == key


def test_flow_comes_closer_to_the_exact_solution():
    errors = []
    for n in (12, 24):  # both grids are simulated up to the same time
        problem = multizone.Problem((n, n, n // 2), 2, 3.0)
        errors.append(multizone.solve(None, problem, n * n // 24, mode="off").error)
    assert errors[1] < 0.15
    assert 1.7 < errors[0] / errors[1] < 4.5  # first order at the zones' borders, else second


# ---- all -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("example", "words", "shown"),
    [
        (jacobi2d, "--blocks 2 --size 8 --iterations 6", ["4 blocks on 1 ranks, 6 iterations"]),
        (kneighbor, "--work 2 --iterations 8 --start 4", ["4 times as long from", "16 obj"]),
        (lbtest, "--steps 1 9 --graph cube --iterations 6", ["graph: cube, 32 pairs", "16 obj"]),
        (
            multizone,
            "--size S --steps 4",
            ["4 zones", "216 to 1944, 3456 in all", "error: at most"],
        ),
        (leanmd, "--cells 3 --steps 3", ["energy of an atom", "total energy: within", "405 cells"]),
    ],
)
def test_comparisons(monkeypatch, capsys, tmp_path, example, words, shown):
    picture = tmp_path / "loads.png"
    monkeypatch.setattr(
        sys, "argv", [example.__name__, "--compare", "--plot", str(picture), *words.split()]
    )
    example.main()
    out = capsys.readouterr().out
    for text in [*shown, "unbalanced", "every 5", "metabalancer", "fingerprint"]:
        assert text in out
    assert picture.stat().st_size > 10_000


def test_virtual_ranks_come_to_the_same_solution(monkeypatch, capsys):
    shown = []
    for virtual in ("", "--virtual 1", "--virtual 7"):
        words = f"jacobi2d.py --blocks 4 --size 8 --iterations 6 --every 2 {virtual}".split()
        monkeypatch.setattr(sys, "argv", words)
        jacobi2d.main()
        shown.append(capsys.readouterr().out)
    assert "16 blocks on 7 ranks, 6 iterations" in shown[2]
    assert len({text.splitlines()[-1] for text in shown}) == 1
    assert "fingerprint" in shown[0].splitlines()[-1]


def test_runs_that_differ_are_an_error(monkeypatch):
    solutions = iter([[b"warm-up"], [b"one"], [b"one"], [b"one"], [b"another"]])

    def solve(iterations, **way):
        lb = runs.pylb.Balancer(None, **way)
        list(lb.iterate(iterations))
        return runs.Run.of(lb, next(solutions))

    with pytest.raises(SystemExit, match="the solutions differ"):
        runs.compare(3, solve)


@pytest.fixture(scope="module")
def answers(mpiexec):
    """Return a function: what the programs print on a number of ranks; each runs only once."""
    return answers_of(mpiexec, "examples.py")


@pytest.mark.parametrize("ranks", [1, 3])
def test_results_do_not_depend_on_the_ranks(answers, ranks):
    fingerprints, reaction = answers(ranks)
    assert fingerprints[0::2] == fingerprints[1::2]  # unbalanced and balanced
    assert len(set(fingerprints)) == 6
    assert fingerprints == answers(1)[0]
    if ranks > 1:  # the sudden imbalance was seen and removed (Menon 2012, figure 3.4)
        assert reaction["after"] <= 3
        before, unbalanced, balanced = reaction["ratio"]
        assert before == pytest.approx(1.0)
        assert unbalanced > 1.4
        assert balanced - 1.0 < 0.2 * (unbalanced - 1.0)
