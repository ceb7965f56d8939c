"""Codes that own their data: examples in Python, C and Fortran, and the page that shows them."""

import difflib
import json
import os
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from compiled import finished, flags, needs, needs_fortran, run
from launch import launch

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
WARNINGS = ["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
LAMMPS = Path("/usr/lib/python3/dist-packages/lammps")  # Debian's python3-lammps
RUN = [sys.executable, "-m", "pylb", "run", "--"]
pytestmark = pytest.mark.slow


def table(text):
    """Return the rows of an example's table: {name: (max/mean, seconds, LB steps, result)}."""
    rows = re.findall(r"^(with\w* pylb) +([\d.]+) +([\d.]+) +(\d+)(?: +(\S+))? *$", text, re.M)
    assert [row[0] for row in rows] == ["without pylb", "with pylb"], text
    return {name: (float(ratio), float(s), int(n), result) for name, ratio, s, n, result in rows}


# ---- Python ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "ranks"), [("particles", 1), ("particles", 3), ("curve", 2)])
def test_python_programs(mpiexec, tmp_path, name, ranks):
    """Run the program with fewer steps."""
    text = (EXAMPLES / "own_loop" / f"{name}.py").read_text()
    text, n = re.subn(r"^(.*\bSTEPS = .*, )\d+", r"\g<1>60", text, flags=re.M)
    assert n == 1
    (tmp_path / f"{name}.py").write_text(text)
    shutil.copy(EXAMPLES / "own_loop" / "table.py", tmp_path)
    code, out, said = launch(mpiexec, ranks, tmp_path / f"{name}.py")
    assert code == 0, said
    rows = table(out)
    assert rows["without pylb"][2] == 0
    assert rows["with pylb"][3] == rows["without pylb"][3]  # pylb does not change the result
    if ranks == 1:
        assert rows["with pylb"][2] == 0


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_quadtree(mpiexec, ranks):
    code, out, said = launch(mpiexec, ranks, EXAMPLES / "own_loop" / "quadtree.py")
    assert code == 0, said
    found = re.fullmatch(r"(\d+) cells, area 1: max/mean [\d.]+, (\d+) LB steps?\n", out)
    assert found, out
    assert int(found[1]) > 200
    assert (int(found[2]) > 0) == (ranks > 1)


@pytest.mark.parametrize("name", ["particles", "curve"])
def test_few_lines_are_added_for_pylb(name):
    text = (EXAMPLES / "own_loop" / f"{name}.py").read_text()
    added = [line for line in text.splitlines() if line.endswith("# pylb")]
    assert 3 <= len(added) <= 6
    assert all("pylb" in line or "lb." in line or "plan" in line for line in added)


def needs_open_mpi():
    """Skip the test if Debian's packages use another MPI than these tests."""
    version = run([sys.executable, "-c", "import mpi4py.MPI as m; print(m.Get_library_version())"])
    if "Open MPI" not in version:
        pytest.skip("Debian's packages are linked with Open MPI")


@pytest.mark.parametrize(("case", "ranks"), [("slab", 2), ("droplet", 3)])
def test_lammps(mpiexec, case, ranks):
    if not LAMMPS.is_dir() or find_spec("mpi4py") is None:
        pytest.skip("no python3-lammps")
    needs_open_mpi()
    script = EXAMPLES / "own_loop" / "lammps_balance.py"
    words = ["-W", "ignore", str(script), case, "--steps", "1000"]
    # Every 200 time steps: on a busy machine "auto" may rightly wait until the run is nearly over.
    code, out, said = launch([*RUN, *mpiexec], ranks, *words, PYLB_TRIGGER="4")
    if code != 0 and "liblammps" in said:
        pytest.skip("no liblammps-dev")
    assert code == 0, said
    rows = table(out)
    assert rows["with pylb"][2] >= 1
    assert rows["with pylb"][0] < 0.9 * rows["without pylb"][0]


def needs_debian(*modules):
    """Skip the test without these modules of Debian, which use Open MPI and Debian's Python."""
    folders = [
        Path("/usr/lib") / folder / "dist-packages" for folder in ("petsc/lib/python3", "python3")
    ]
    if not all(any((folder / name).is_dir() for folder in folders) for name in modules):
        pytest.skip(f"no {' '.join(modules)} of Debian")
    if sys.version_info[:2] != (3, 11) or find_spec("mpi4py") is None:
        pytest.skip("another Python than Debian's")
    needs_open_mpi()
    return os.pathsep.join(map(str, folders))


@pytest.mark.parametrize(
    ("name", "module", "ranks"),
    [("petsc", "petsc4py", 3), ("dolfinx", "dolfinx", 2)],
)
def test_meshes(mpiexec, name, module, ranks):
    """Also a test of mpi4py 3.1, which belongs to these packages."""
    path = needs_debian(module, "mpi4py")
    script = EXAMPLES / "own_loop" / f"{name}_mesh.py"
    code, out, said = launch(mpiexec, ranks, "-W", "ignore", script, PYTHONPATH=path)
    assert code == 0, said
    found = re.fullmatch(r"(\d) ranks: max/mean [\d.]+, (\d+) LB steps\n", out)
    assert int(found[1]) == ranks
    assert int(found[2]) >= 1


def test_yade(mpiexec, tmp_path):
    """It runs in Debian's Python, with Debian's mpi4py."""
    if shutil.which("yade") is None or sys.version_info[:2] != (3, 11):
        pytest.skip("no yade")
    needs_open_mpi()
    for name in ("pylb", "greenlet", "msgspec"):
        (tmp_path / name).symlink_to(Path(find_spec(name).origin).parent)
    words = ["yade", "-n", "-x", EXAMPLES / "own_loop" / "yade_heap.py"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "HEIGHT": "10", "STEPS": "700"}
    env["PYLB_TRIGGER"] = "2"
    done = finished([*RUN, *mpiexec, "-n", "3", *map(str, words)], env=env)
    assert done.returncode == 0, done.stderr
    assert re.search(r"s; spheres of each worker at the end: \[\d+, \d+\]", done.stdout)
    assert int(re.search(r"number of LB steps +(\d+)", done.stdout)[1]) >= 1


def test_lammps_with_an_untouched_script(mpiexec, tmp_path):
    """Its runs are in a loop; LAMMPS' own times say how many atoms each rank has."""
    if shutil.which("lmp") is None or b"liblammps" not in Path(shutil.which("lmp")).read_bytes():
        pytest.skip("no LAMMPS with a shared library")
    needs_open_mpi()
    script, record = EXAMPLES / "own_loop" / "in.slab", tmp_path / "run.json"
    words = ["lmp", "-in", script, "-log", "none", "-var", "steps", "500"]
    done = finished(
        [*RUN, *mpiexec, "-n", "2", *map(str, words)],
        env={**os.environ, "PYLB_RECORD": str(record)},
    )
    assert done.returncode == 0, done.stderr
    atoms = re.findall(r"Nlocal: .* ave +(\d+) max", done.stdout)
    assert len(atoms) == 3
    assert int(atoms[-1]) < 2500  # of 2560: without pylb, one rank has nearly all of them
    assert len(json.loads(record.read_text())["figures"]) > 9  # decisions


# ---- C and Fortran -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prefix(mpiexec, prefix):
    needs("mpicc")
    return prefix


def build_c(prefix, name, folder, standard="c11"):
    compiler, more = ["mpicc"], []
    if "++" in standard:
        needs("mpicxx")
        compiler, more = ["mpicxx", "-x", "c++"], ["-DOMPI_SKIP_MPICXX=1", "-DMPICH_SKIP_MPICXX=1"]
    source = EXAMPLES / "c" / f"{name}.c"
    words = [*compiler, *more, f"-std={standard}", *WARNINGS, source, "-x", "none"]
    run([*words, *flags(prefix, "pylb_mpi"), "-lm", "-o", folder / name])
    return folder / name


def build_cpp(prefix, name, folder):
    needs("mpicxx")
    more = ["-std=c++17", "-DOMPI_SKIP_MPICXX=1", "-DMPICH_SKIP_MPICXX=1", *WARNINGS]
    source = EXAMPLES / "c" / f"{name}.cpp"
    run(["mpicxx", *more, source, *flags(prefix, "pylb_mpi"), "-o", folder / name])
    return folder / name


def build_fortran(prefix, name, folder):
    needs_fortran()
    warnings = ["-O1", "-std=f2018", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    source = EXAMPLES / "fortran" / f"{name}.f90"
    linked = flags(prefix, "pylb_fortran")
    run(["mpifort", *warnings, source, *linked, "-o", folder / name])
    return folder / name


BUILD = {".c": build_c, ".cpp": build_cpp, ".f90": build_fortran}
PROGRAMS = ["particles.c", "jacobi.c", "particles.f90"]


@pytest.fixture(scope="module")
def program(prefix, tmp_path_factory):
    """Build an example by name."""
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("program")
            made[name] = BUILD[Path(name).suffix](prefix, Path(name).stem, folder)
        return made[name]

    return get


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_example_in_c_plus_plus(mpiexec, program, ranks):
    said = run([*mpiexec, "-n", ranks, program("cells.cpp")])
    found = re.match(r"(\d+) cells, \d+ LB steps, sum ([\d.]+)\n", said)
    assert int(found[1]) == 32 * ranks
    assert float(found[2]) == pytest.approx(23.650724 * ranks)


@pytest.mark.parametrize("name", ["particles", "jacobi"])
def test_examples_in_c_are_also_c_plus_plus(prefix, tmp_path, name):
    build_c(prefix, name, tmp_path, "c++17")


@pytest.fixture(scope="module")
def circle(prefix, tmp_path_factory):
    source, made = EXAMPLES / "c" / "circle_p4est.c", tmp_path_factory.mktemp("p4est") / "circle"
    words = ["mpicc", "-std=c11", "-D_GNU_SOURCE", *WARNINGS, source]
    words += [*flags(prefix, "pylb_mpi"), "-lp4est", "-lsc", "-lm", "-o", made]
    built = finished([*map(str, words)])
    if built.returncode != 0 and re.search("p4est_extended.h: No such|-lp4est", built.stderr):
        pytest.skip("no libp4est-dev")
    assert built.returncode == 0, built.stderr
    if len(set(re.findall(r"libmpi\w*\.so\.\d+", run(["ldd", made])))) > 1:
        pytest.skip("p4est is linked with another MPI than mpicc")
    return made


def test_p4est(mpiexec, circle):
    rows = table(run([*mpiexec, "-n", 2, circle]))
    assert rows["with pylb"][2] >= 1
    assert rows["with pylb"][0] < rows["without pylb"][0]
    assert rows["with pylb"][3] == rows["without pylb"][3]  # the result does not depend on pylb
    said = run([*mpiexec, "-n", 2, circle, 1, 1, "--virtual"])
    assert said.count("every") == 6
    assert float(re.search(r"best interval: ([\d.]+)", said)[1]) <= 1.05


def test_deal_ii(mpiexec, prefix, tmp_path):
    needs("mpicxx")
    source, made = EXAMPLES / "c" / "disk_dealii.cpp", tmp_path / "disk"
    libraries = [*flags(prefix, "pylb_mpi"), "-ldeal.ii", "-ltbb"]
    libraries += [f"-ltrilinos_teuchos{name}" for name in ("comm", "parameterlist", "core")]
    words = ["mpicxx", "-std=c++17", "-DOMPI_SKIP_MPICXX=1", "-isystem", "/usr/include/trilinos"]
    built = finished([*map(str, [*words, source, *libraries, "-o", made])])
    if built.returncode != 0 and re.search(r"deal.II/\S+: No such|-ldeal.ii", built.stderr):
        pytest.skip("no libdeal.ii-dev")
    assert built.returncode == 0, built.stderr
    out = run([*mpiexec, "-n", 2, made], env={**os.environ, "PYLB_TRIGGER": "10"})
    assert int(out.split()[0]) == 6


def test_few_lines_are_changed_for_p4est():
    text = (EXAMPLES / "c" / "circle_p4est.c").read_text()
    loops = [
        re.search(rf"^static double {name}.*?^}}", text, re.S | re.M)[0]
        for name in ("by_interval", "by_pylb")
    ]
    marks = [row[0] for row in difflib.ndiff(*[loop.splitlines()[2:] for loop in loops])]
    assert 4 <= marks.count("+") <= 7  # and the header


@pytest.mark.parametrize("name", PROGRAMS)
def test_computed_seconds(mpiexec, program, name):
    """If seconds are computed, the LB steps are the same in each run, and save time."""
    out = run([*mpiexec, "-n", 3, program(name), "--virtual"])
    rows = table("\n".join(line for line in out.splitlines() if "after" not in line))
    assert rows["with pylb"][3] == rows["without pylb"][3]
    assert rows["with pylb"][2] == out.count("after step") >= 3
    assert rows["with pylb"][0] < 1.2 < 1.5 < rows["without pylb"][0]
    assert rows["with pylb"][1] < 0.8 * rows["without pylb"][1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_measured_times(mpiexec, program, name):
    """With measured times, decisions differ from run to run, but the program's result does not."""
    rows = table(run([*mpiexec, "-n", 2, program(name)]))
    assert rows["with pylb"][3] == rows["without pylb"][3]


@pytest.mark.parametrize("build", [build_c, build_fortran])
def test_columns_are_lent(mpiexec, prefix, tmp_path, monkeypatch, build):
    """The results do not depend on which rank has computed a column."""
    program, sums = build(prefix, "columns", tmp_path), []
    for mode in ("on", "off"):
        monkeypatch.setenv("PYLB_MODE", mode)
        sums.append(run([*mpiexec, "-n", 2, program]).split(";")[0])
    assert re.fullmatch(r"checksum \d+\.\d+", sums[0])
    assert sums[0] == sums[1]


# ---- the page ----------------------------------------------------------------------------------


def page_of(language):
    """Return the blocks of the page in a language."""
    page = (ROOT / "docs" / "c.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)```", page, re.S | re.M)


def test_the_commands_of_the_page(prefix, tmp_path):
    """Run the commands of the page, except the first one, which the fixture has run."""
    lines, look = page_of("sh")
    install, rest = lines.split("\n", 1)
    assert install.startswith("make install PREFIX=$HOME/pylb ")
    (tmp_path / "pylb").symlink_to(prefix)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    needs("pkg-config")
    run(["bash", "-ec", rest], cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)})
    assert (tmp_path / "jacobi").exists()
    run(["bash", "-ec", look], cwd=tmp_path)
    assert (tmp_path / "run.html").stat().st_size > 10_000


@pytest.mark.parametrize(("k", "name"), [(0, "jacobi"), (2, "particles")])
def test_the_loops_before_pylb_compile(prefix, tmp_path, k, name):
    """The loops compile with the functions and the constants of the example."""
    program = tmp_path / "before.c"
    names = "double load[CELLS], energy = 0.0;" if name == "particles" else "double work[STEPS];"
    program.write_text(
        f'#define main of_the_example\n#include "{EXAMPLES / "c" / name}.c"\n'
        f"void before(void) {{ {names}\n{page_of('c')[k]}}}\n"
    )
    run(["mpicc", "-fsyntax-only", program, *flags(prefix, "pylb_mpi")])


BLOCK = re.compile(r"<!-- (\S+) -->\n```\w+\n(.*?)```", re.S)


def test_the_page_shows_the_examples():
    """If a block names a file, its lines are in that file, in the same order."""
    pages = [(ROOT / "docs" / name).read_text() for name in ("your_code.md", "c.md")]
    blocks = BLOCK.findall("\n".join(pages))
    assert len(blocks) >= 7
    for path, block in blocks:
        lines = iter([line.strip() for line in (ROOT / path).read_text().splitlines()])
        for line in block.splitlines():
            assert not line.strip() or line.strip() in lines, f"{path}: {line}"
