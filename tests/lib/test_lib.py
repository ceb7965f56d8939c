"""The C library as a user meets it: installed, then linked by pkg-config and by CMake."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import advisor_drift
import pytest
from compiled import finished, flags, needs, needs_fortran, run

import pylb
from pylb.cli.main import main
from pylb.decide.decider import registered
from pylb.errors import FormatError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def mpi_program(prefix, tmp_path_factory):
    """Build a program of tests/lib against libpylb_mpi."""
    if not (prefix / "lib" / "libpylb_mpi.so").exists():
        pytest.skip("no MPI compiler")
    made = {}

    def build(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp("mpi") / name
            source = HERE / f"{name}.c"
            linked = flags(prefix, "pylb_mpi")
            run(["mpicc", "-std=c11", *WARNINGS, str(source), *linked, "-o", str(made[name])])
        return made[name]

    return build


@pytest.mark.parametrize("ranks", [1, 3])
def test_work_is_lent(mpi_program, mpiexec, ranks):
    """Rows come back in order; a negative number of rows is an error of all ranks."""
    done = finished([*mpiexec, "-n", str(ranks), str(mpi_program("share"))])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("code 0, 0 wrong") == ranks
    assert len(re.findall(r"code -[29]\b", done.stdout)) == ranks
    assert "n is -1: expected" in done.stderr


def test_cells_with_a_load_for_each_phase(mpi_program, mpiexec):
    done = finished([*mpiexec, "-n", "2", str(mpi_program("cells")), "phases"])
    lines = sorted(done.stdout.splitlines())  # the ranks print at the same time
    assert lines == ["code 0"] * 2 + ["max 48, mean 32, 1.5 -> 1"] * 2, done.stderr


def test_cells_share_data_that_count_once_on_a_rank(mpi_program, mpiexec):
    done = finished([*mpiexec, "-n", "2", str(mpi_program("cells")), "shared"])
    moves = re.findall(r"(\d+) cells move, within the limit\ncode 0\n", done.stdout)
    assert len(moves) == 2, done.stdout + done.stderr
    assert int(moves[0]) > 0
    done = finished([*mpiexec, "-n", "2", str(mpi_program("cells")), "shared", "mistake"])
    assert done.stdout.count("code -") == 2, done.stdout
    assert "cells 4 and 5 share data 2, but give different bytes or homes for it" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x"], "or cells with another n_components"),
        (["x"] * 9, "n_components of the cells is 9: expected 1 ... 8"),
    ],
)
def test_another_number_of_phases_is_an_error_of_all_ranks(mpi_program, mpiexec, words, said):
    done = finished([*mpiexec, "-n", "2", str(mpi_program("cells")), "phases", *words])
    assert done.stdout.count("code -") == 2, done.stdout
    assert said in done.stderr


@pytest.mark.parametrize("ranks", [2, 3])
def test_an_advice_that_is_ignored_is_said_once(mpi_program, mpiexec, ranks):
    words = [str(mpi_program("drift")), "60", "0", "ignored", "every=5"]
    done = finished([*mpiexec, "-n", str(ranks), *words])
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the advice to rebalance was not carried out") == 1


def test_a_function_of_rows_that_fails_ends_all(mpi_program, mpiexec):
    done = finished([*mpiexec, "-n", "3", str(mpi_program("share")), "fail"])
    assert done.stdout.count("code -9") == 3
    assert "the function of pylb_share returned 7" in done.stderr


@pytest.mark.parametrize("words", [("close", 0), ("close", 3), ("advise", 0), ("advise", 3)])
def test_a_rank_that_does_not_come_to_share_ends_all(mpi_program, mpiexec, words):
    done = finished([*mpiexec, "-n", "3", str(mpi_program("share")), *map(str, words)])
    assert done.stdout.count("code -") == 3, done.stdout + done.stderr


def test_lent_rows_are_computed_again_at_home(mpi_program, mpiexec):
    """The function adds the number of the rank that computes a row."""
    done = finished([*mpiexec, "-n", "3", str(mpi_program("share")), "verify"])
    assert "verify is 1.5: expected 0 ... 1" in done.stderr
    assert "has another result on rank" in done.stderr
    assert "code 0" not in done.stdout


# ---- the library and its header ------------------------------------------------------------


@pytest.mark.parametrize(("compiler", "standard"), [("cc", "-std=c11"), ("g++", "-std=c++17")])
def test_every_function_and_its_errors(prefix, tmp_path, compiler, standard):
    needs(compiler)
    language = ["-x", "c++"] if "++" in standard else ["-x", "c"]
    words = [compiler, standard, *WARNINGS, *language, str(HERE / "use.c"), "-x", "none"]
    run([*words, *flags(prefix, "pylb"), "-lm", "-o", str(tmp_path / "use")])
    assert run([str(tmp_path / "use")]) == "0 failures\n"


def test_the_same_with_the_static_library(prefix, tmp_path):
    library = prefix / "lib" / "libpylb.a"
    words = ["cc", str(HERE / "use.c"), f"-I{prefix / 'include'}", str(library)]
    run([*words, "-lm", "-pthread", "-o", str(tmp_path / "use")])
    assert run([str(tmp_path / "use")]) == "0 failures\n"


COMMA = r"""
#include <locale.h>
#include <stdio.h>

#include "pylb.h"

#define TRY(call) if ((call) != PYLB_OK) return puts(pylb_error()), 1

int main(int n, char **words)
{
    pylb_advisor *lb;
    pylb_trigger *trigger;
    int rebalance;
    if (n != 2 || setlocale(LC_ALL, "") == NULL || *localeconv()->decimal_point != ',') return 2;
    TRY(pylb_trigger_create("threshold", "threshold=1.25", &trigger));
    TRY(pylb_trigger_observe(trigger, 0, 1.2, 1.0, &rebalance));
    if (rebalance) return 3;
    TRY(pylb_trigger_close(&trigger));
    TRY(pylb_advisor_create(&lb));
    TRY(pylb_advisor_set(lb, "network", "1.5e-6 2.5e-10"));
    TRY(pylb_advisor_set(lb, "trigger", "threshold"));
    TRY(pylb_advisor_set(lb, "trigger.threshold", "1.25"));
    TRY(pylb_advisor_set(lb, "record", words[1]));
    TRY(pylb_work(lb, 0.5));
    TRY(pylb_advise(lb, &rebalance));
    TRY(pylb_advisor_close(&lb));
    return *localeconv()->decimal_point != ',';
}
"""


def test_numbers_have_a_point_in_every_locale(prefix, tmp_path, comma):
    (tmp_path / "use.c").write_text(COMMA)
    run(["cc", str(tmp_path / "use.c"), *flags(prefix, "pylb"), "-o", str(tmp_path / "use")])
    path = tmp_path / "run.json"
    run([str(tmp_path / "use"), str(path)], env={**os.environ, **comma})
    record = json.loads(path.read_text())
    assert record["loads"] == [[0.5]]
    assert record["trigger_params"]["threshold"] == 1.25


def test_a_code_that_is_ignored_is_a_warning(prefix, tmp_path):
    (tmp_path / "ignore.c").write_text(
        '#include "pylb.h"\nvoid f(pylb_advisor *lb) { pylb_start(lb); }\n'
    )
    words = ["cc", "-c", f"-I{prefix / 'include'}", str(tmp_path / "ignore.c"), "-Werror"]
    done = subprocess.run([*words, "-o", os.devnull], capture_output=True, text=True)
    assert "unused-result" in done.stderr


def test_only_names_of_pylb_are_exported(prefix):
    needs("nm", "readelf")
    library = prefix / "lib"
    abi = re.search(r"#define PYLB_ABI (\d+)", (prefix / "include" / "pylb.h").read_text())[1]
    for path in sorted(library.glob("libpylb*.a")) + sorted(library.glob("libpylb*.so")):
        table = run(["nm", "-g", "--defined-only", *(["-D"] * (path.suffix == ".so")), str(path)])
        names = {row.split()[-1] for row in table.splitlines() if len(row.split()) == 3}
        assert names
        prefixes = r"__pylb_MOD_|_F\.pylb_MOD_" if "fortran" in path.name else r"py?lb_|plb_"
        prefixes += "|MPI_|mpi_" * ("_pmpi" in path.name) + "|_ZN9LAMMPS" * ("_lam" in path.name)
        assert {n for n in names if not re.match(prefixes, n)} == set(), path.name
    for path in {*library.glob("*.so")} - {library / "libpylb_lammps.so"}:  # only preloaded
        assert f"{path.name}.{abi}" in run(["readelf", "-d", str(path)])


def test_every_function_of_the_header_is_there(prefix):
    header = (prefix / "include" / "pylb.h").read_text()
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    declared = set(re.findall(r"PYLB_(?:CALL|API) [\w ]+?[ *](pylb_\w+)\(", header))
    assert len(declared) > 40
    there = ""
    for path in (prefix / "lib").glob("libpylb*.so"):
        there += run(["nm", "-D", "--defined-only", str(path)])
    assert {name for name in declared if f" {name}\n" not in there} == set()


def test_by_cmake(prefix, tmp_path):
    needs("cmake", "g++")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(use C CXX)\n"
        "find_package(pylb 0.1 REQUIRED)\n"
        "add_executable(use use.c)\ntarget_link_libraries(use pylb::pylb m)\n"
        "set_property(TARGET use PROPERTY C_STANDARD 11)\n"
    )
    shutil.copy(HERE / "use.c", tmp_path)
    run(["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "b"), f"-DCMAKE_PREFIX_PATH={prefix}"])
    run(["cmake", "--build", str(tmp_path / "b")])
    assert run([str(tmp_path / "b" / "use")]) == "0 failures\n"


# ---- several ranks -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "lag", "kind"),
    [(1, 2, "seconds"), (2, 2, "cells"), (3, 0, "cells"), (5, 0, "seconds")],
)
def test_decisions_are_made_and_recorded(mpi_program, mpiexec, tmp_path, ranks, lag, kind):
    path = tmp_path / "run.json"
    words = [str(mpi_program("drift")), "120", str(lag), kind, f"record={path}"]
    said = run([*mpiexec, "-n", str(ranks), *words])
    record = json.loads(path.read_text())
    assert record["n_ranks"] == ranks
    assert len(record["figures"]) == 120
    assert [len(row) for row in record["loads"]] == [120] * ranks
    done = [row.split()[1] == "1" for row in said.splitlines()]
    kinds = [r["kind"] == "balance" for r in record["receipts"]]
    assert kinds[: len(done)] == done  # with a lag, more steps follow when the advisor is closed
    assert len(kinds) <= len(done) + lag
    assert any(done) == (ranks > 1)
    for step, (figures, *loads) in enumerate(zip(record["figures"], *record["loads"], strict=True)):
        assert figures[1] == max(loads), step


def faults(mpi_program, mpiexec, ranks, *words, **env):
    words = [*mpiexec, "-n", str(ranks), str(mpi_program("faults")), *words]
    said = run(words, env={**os.environ, **env})
    return sorted(row for row in said.splitlines() if "MPI_COMM_NULL" not in row)


AT_FAULT = [
    ("leaves", "closed their advisor"),
    ("own leaves", "closed their advisor"),
    ("closes", "closed their advisor before step 0"),
    ("lags", "different options"),
    ("array", "from is NULL"),
    ("left", "has left"),
    ("huge", "bytes: expected fewer than 2^63 bytes"),
    ("offsets", "items to itself, but receives"),
    ("falling", "offset[2] is 0: expected 1 or more"),
    ("begin null", "from is NULL"),
    ("end twice", "pylb_plan_migrate_end without pylb_plan_migrate_begin"),
    ("not ended", "still on their way"),
    ("left moving", "closed while arrays were on their way"),
    ("mixed", "different steps"),
    ("words", "different options"),
    ("nan", "loads[0] is -1"),
    ("open", "pylb_start is still open"),
    ("twice", "key 7 is given twice"),
    ("asked", "no LB step on rank 0, an LB step on rank 1"),
    ("asked cells", "no LB step on rank 0, an LB step on rank 1"),
    ("failing", "the trigger has failed on rank 1"),
]


@pytest.mark.parametrize(("case", "words"), AT_FAULT)
def test_one_rank_is_at_fault_and_all_end(mpi_program, mpiexec, case, words):
    """Every second case with a lag; tests/c/test_advisor.c has each ending with each lag."""
    ranks, lag = [(2, "0"), (3, "3")][AT_FAULT.index((case, words)) % 2]
    said = faults(mpi_program, mpiexec, ranks, case, lag)
    assert [row for row in said if re.fullmatch(r"rank \d+ ends", row)] == [
        f"rank {r} ends" for r in range(ranks)
    ]
    assert any(words in row for row in said), said
    told = {int(row.split()[1].strip(":")) for row in said if re.match(r"rank \d+: -", row)}
    assert told == set(range(ranks)), said


@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        *((1, "ahead 1"), (2, "clock wall"), (3, "ahead 1 clock wall"), (3, "strategy GreedyLB")),
        (5, "ahead 1 lag 1"),
    ],
)
def test_arrays_move_while_the_program_computes(mpi_program, mpiexec, ranks, options):
    """With "ahead", an LB step after step 2 moves data in step 3 and counts from step 4 on."""
    said = run([*mpiexec, "-n", str(ranks), str(mpi_program("moves")), *options.split()])
    words = r"rank (\d+): (\d+) plans, (\d+) LB steps, (\d+) moved, (\d+) hidden, (\d+) failures"
    found = sorted(re.findall(words, said))
    assert [int(r) for r, *_ in found] == list(range(ranks)), said
    (plans,) = {int(n) for _, n, *_ in found}
    assert (plans > 2) == (ranks > 1)
    for _, _, steps, moved, hidden, failures in found:
        assert failures == "0"
        assert moved > "0" or ranks == 1
        assert hidden == (moved if "wall" in options else "0"), said
        assert ranks == 1 or plans - int(steps) in (0, 1)  # the last one is not over yet


@pytest.mark.parametrize(("ranks", "case"), [(1, "repeat"), (3, "repeat"), (2, "repeat cells")])
def test_a_call_that_fails_changes_nothing(mpi_program, mpiexec, tmp_path, ranks, case):
    path = tmp_path / "run.json"
    said = faults(mpi_program, mpiexec, ranks, case, "0", str(path))
    failed = 4 * ranks  # in each of steps 0, 3, 6 and 9, one rank after the other is at fault
    assert [row for row in said if "calls failed" in row] == [
        f"rank {r}: {failed} calls failed" for r in range(ranks)
    ], said
    assert json.loads(path.read_text())["loads"] == [[1.0 + r] * 10 for r in range(ranks)]


def test_ranks_that_wait_for_another_rank_say_so(mpi_program, mpiexec):
    """In the first step, in another step of another advisor, and when an advisor is made."""
    lines = {
        "late step": (r"rank 0 has waited 10 s for the other ranks in step 0",),
        "late create": (r"rank 0 has waited 10 s for the other ranks to create an advisor",),
        "other": tuple(rf"rank {r} has waited 10 s for the other ranks in step 0" for r in (0, 1)),
    }
    jobs = {}
    for case in lines:
        words = [*mpiexec, "-n", "2", str(mpi_program("faults")), case]
        jobs[case] = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ},  # without the variables that MPI sets here
        )
    missing, said = {case: set(lines[case]) for case in lines}, {}
    for case, job in jobs.items():
        with job:
            said[case] = []
            while missing[case] and (row := job.stderr.readline().decode()):
                said[case].append(row)
                missing[case] -= {line for line in missing[case] if line in row}
            job.terminate()  # the ranks would wait forever
            job.communicate()
    assert not any(missing.values()), said


LOOPS = {"every": ["every", "2"], "lag": ["every", "2", "lag", "2"], "auto": []}  # options
FAULTS = ["kill", "exit", "error"]
EXPLORE = bool(os.environ.get("PYLB_EXPLORE"))
DEATHS = [(loop, how, p) for loop in LOOPS for how in FAULTS for p in (2, 3, 5)]


def calls(out):
    """Return how many calls of MPI the program has made."""
    return int(re.search(r"(\d+) calls", out).group(1))


@pytest.mark.parametrize(("loop", "how", "ranks"), DEATHS if EXPLORE else DEATHS[1:-1:9])
def test_a_rank_dies_at_a_call_of_mpi(mpi_program, mpiexec, loop, how, ranks):
    """A rank dies at the n-th call (by default every 29th n): the job ends and names it."""
    words = [*mpiexec, "-n", str(ranks), str(mpi_program("dying"))]
    n = calls(run([*words, "none", "0", *LOOPS[loop]]))
    assert n > 20
    for at in range(0, n, 1 if EXPLORE else 29):
        case = [*words, how, str(at), *LOOPS[loop]]
        done = finished(case)
        end, said = time.time(), done.stdout + done.stderr
        if done.returncode == 0:  # this run made fewer calls than the first one
            assert calls(done.stdout) <= at, said
            continue
        died = re.search(rf"rank {ranks - 1} comes to ([\w ]+) at ([0-9.]+)", said)
        assert died, said
        passed = end - float(died.group(2))
        print(f"{loop} {how} {ranks} {died.group(1)}: {passed:.1f} s", file=sys.stderr)
        if how == "error":
            assert re.search(rf"rank {ranks - 1}: .* in MPI_I\w+", said), said


def test_an_advisor_that_is_left_open_ends_with_mpi(mpi_program, mpiexec):
    assert faults(mpi_program, mpiexec, 2, "open end") == ["rank 0 ends", "rank 1 ends"]


@pytest.mark.parametrize("lag", ["0", "3"])
def test_one_rank_closes_its_advisor_and_the_other_ends_with_mpi(
    mpi_program, mpiexec, tmp_path, lag
):
    path = tmp_path / "run.json"
    said = faults(mpi_program, mpiexec, 2, "recorded", lag, str(path))
    assert said == ["rank 0 ends", "rank 1 ends"]
    assert len(json.loads(path.read_text())["figures"]) == 10


def test_a_rank_with_two_advisors_ends_and_no_other_rank_waits_for_it(mpi_program, mpiexec):
    said = faults(mpi_program, mpiexec, 2, "two")
    assert said[::2] == ["rank 0 ends", "rank 1 ends"]
    assert "1 of 2 ranks closed their advisor before step 5" in said[1]


@pytest.mark.skipif(not EXPLORE, reason="waits 10 s, on a calm machine; PYLB_EXPLORE=1")
def test_ranks_that_close_their_advisors_in_another_order_say_so(mpi_program, mpiexec):
    words = [*mpiexec, "-n", "2", str(mpi_program("faults")), "order"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as job:
        said = next((row for row in job.stderr if b"close an advisor" in row), b"").decode()
        job.terminate()  # they would wait forever
        job.communicate()
    assert "before step 1: all ranks must close" in said


def test_before_mpi_init_and_after_mpi_finalize(mpi_program, mpiexec):
    assert "MPI is not initialised" in run([str(mpi_program("faults")), "early"])
    said = faults(mpi_program, mpiexec, 2, "late")
    assert [row for row in said if "MPI is finalised" not in row] == ["rank 0 ends", "rank 1 ends"]
    assert len(said) == 4


@pytest.fixture(scope="module")
def thrown(prefix, tmp_path_factory, mpiexec):
    """Run errors.cpp, which uses pylb.hpp; return the exceptions of each rank."""
    needs("mpicxx")
    program = tmp_path_factory.mktemp("errors") / "errors"
    more = ["-std=c++17", "-DOMPI_SKIP_MPICXX=1", "-DMPICH_SKIP_MPICXX=1", *WARNINGS]
    run(["mpicxx", *more, HERE / "errors.cpp", *flags(prefix, "pylb_mpi"), "-o", program])

    def get(ranks, *case):
        said = run([*mpiexec, "-n", ranks, program, *case])
        assert said.count("rank -1: -10 MPI is not initialised") == ranks
        return [re.findall(rf"^rank {r}: (.*)", said, re.M) for r in range(ranks)]

    return get


@pytest.mark.parametrize("ranks", [1, 3])
def test_exceptions_in_c_plus_plus(thrown, ranks):
    for r, said in enumerate(thrown(ranks)):
        other = "-2 rank 0 failed in step 0"  # one rank is at fault, and all throw
        plan = ["-2 rank 0 has failed" if r else "-2 from has 0 values: expected 2"] * 2
        plan += ["-10 pylb_plan_migrate_end without pylb_plan_migrate_begin"]
        plan += ["-2 plan is NULL", "-2 plan is NULL", "2 ranks"]
        begins = [
            "-2 comm is MPI_COMM_NULL: expected a communicator",
            '-4 "stratagy": no such option',
            "-2 seconds is -1: expected 0 ... 1e30",
            other if r else "-2 loads[1] is nan: expected 0 ... 1e30",
            "-2 child has 2 values: expected 1",
            other if r else "-2 nbytes has 1 values: expected 2",
            *(plan if ranks > 1 else []),
            "-2 the handle is NULL: expected an open advisor",
            "-10 the handle is NULL: expected an open advisor",
            *["-2 the handle is NULL: expected an open advisor"] * 3,
            "-10 this advisor is closed",
        ]
        assert len(said) == len(begins), said
        for row, words in zip(said, begins, strict=True):
            assert row.startswith(words), said


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_function_of_rows_that_throws(thrown, ranks):
    """The rank of the row gets the exception itself, the others an error of pylb."""
    for r, said in enumerate(thrown(ranks, "rows")):
        assert said[0] == "1.5 1.5"
        assert re.match(r"-(9|10) " if r else "own no such row", said[1]), said
        assert said[2:] == ["-10 this advisor is closed"]


def test_the_environment_has_the_last_word(mpi_program, mpiexec, tmp_path):
    path = tmp_path / "env.json"
    env = {**os.environ, "PYLB_TRIGGER": "menon", "PYLB_STRATEGY": "GreedyLB"}
    env["PYLB_RECORD"] = str(path)
    run([*mpiexec, "-n", "2", str(mpi_program("drift")), "60", "0", "cells"], env=env)
    record = json.loads(path.read_text())
    assert (record["trigger"], record["strategy"]) == ("menon", "GreedyLB")
    said = pylb.RunRecord.load(path).history.lb_steps[0].explain()
    assert "the environment says so (PYLB_STRATEGY)" in said
    wrong = {"PYLB_MODE": "shadow", "PYLB_RECORD": "run.h5", "PYLB_TRIGGER": "0"}
    for name, value in wrong.items():
        words = [str(mpi_program("drift")), "60", "0", "cells"]
        done = subprocess.run(
            words, env={**os.environ, name: value}, capture_output=True, text=True
        )
        assert done.returncode != 0
        assert f"{name}: " in done.stderr, done.stderr


@pytest.mark.parametrize(("ranks", "lag"), [(2, "0"), (3, "2")])
def test_a_run_learns_from_earlier_ones(mpi_program, mpiexec, tmp_path, ranks, lag):
    path, record = tmp_path / "app.pylb", tmp_path / "run.json"
    words = [*mpiexec, "-n", str(ranks), str(mpi_program("drift")), "120", lag, "seconds"]
    words += [f"experience={path}", f"record={record}"]

    def first(**env):
        done = finished(words, env={**os.environ, **env})
        assert done.returncode == 0, done.stderr
        steps = [r for r in map(str.split, done.stdout.splitlines()) if r[1] == "1"]
        runs = json.loads(record.read_text())["experience"]
        told = re.findall("pylb: .*app.pylb.*", done.stderr)
        return int(steps[0][0]) if steps else None, runs, told

    alone, *rest = first()
    assert rest == [0, []]
    entry = json.loads(path.read_text())
    assert entry["program"].endswith(f", C, {ranks} ranks")
    assert [entry[x] for x in ("runs", "iterations", "cost")] == pytest.approx([1, 120, 2e-3])
    second, *rest = first()
    assert second < alone
    assert rest == [1, []]
    path.write_text(path.read_text()[:-30])  # of two lines: the second was cut off
    assert first() == (second, 1, [])
    path.write_text(path.read_text()[:100])
    *rest, (said,) = first()
    assert rest == [alone, 0]
    assert "without experience" in said
    assert first(PYLB_EXPERIENCE="0") == (alone, 0, [])
    assert first(PYLB_MODE="off") == (None, 0, [])
    assert len(path.read_text().splitlines()) == 2
    path.write_text("1, 2\n")
    assert "another kind of file" in finished(words).stderr
    assert path.read_text() == "1, 2\n"


# ---- its record, read by Python ------------------------------------------------------------


def test_python_reads_the_record(mpi_program, mpiexec, tmp_path):
    path = tmp_path / "run.json"
    words = [str(mpi_program("drift")), "120", "0", "cells", f"record={path}"]
    run([*mpiexec, "-n", "3", *words])
    said = json.loads(path.read_text())
    record, trace = pylb.RunRecord.load(path), pylb.Trace.load(path)
    assert record.n_ranks == trace.n_ranks == 3
    assert record.figures.tolist() == said["figures"]
    assert record.stretches[0].load.T.tolist() == said["loads"]
    assert record.parameters["strategy"] == "auto"
    assert record.history.lb_steps[0].strategy == "BestFitLB"
    assert len(record.history) == len(said["receipts"])
    first = record.history.lb_steps[0]
    weighed = {a.strategy for a in first.alternatives} - {""}
    assert "GreedyLB" in weighed
    assert weighed <= {s.name for s in registered()}  # none that reads positions
    assert f"After iteration {first.iteration} the objects were rebalanced" in first.explain()
    assert main(["report", str(path), "--html", str(tmp_path / "run.html")]) == 0
    assert (tmp_path / "run.html").stat().st_size > 10_000
    path.write_text(path.read_text()[:-100])
    with pytest.raises(FormatError, match=r"run\.json: not JSON: .* line"):
        pylb.RunRecord.load(path)
    path.write_text(json.dumps(said | {"version": 9}))
    with pytest.raises(FormatError, match="version 9"):
        pylb.Trace.load(path)


EACH = [(1, 1), (2, 1), (3, 1)]


@pytest.mark.parametrize(("ranks", "step"), EACH if EXPLORE else [(1, 1), (2, 5)])
def test_allocations_fail(mpi_program, mpiexec, no_malloc, tmp_path, ranks, step):
    """Allocations of one rank fail in turn: all ranks end, and no memory is lost."""
    program, record = mpi_program("no_memory"), str(tmp_path / "run.json")
    switch = ["env", f"LD_PRELOAD={no_malloc}", "NO_MALLOC_IN=libpylb"]
    said = run([*mpiexec, "-n", str(ranks), *switch, str(program), record, str(step)])
    lines = [line for line in said.splitlines() if line.startswith("session")]
    assert len(lines) == 6 * ranks, said
    for line in lines:
        assert re.fullmatch(r"session \d: codes 0 0, \d+ failed, 0 lost", line), said


# ---- the advisor of the C library and that of Python decide alike, to the bit ------------------


def told(text):
    return [line.replace("-nan", "nan") for line in text]


@pytest.mark.parametrize(
    ("ranks", "kind", "alpha"),
    [
        *((2, "seconds", 0), (3, "cells", 0), (5, "learn_speeds", 0), (2, "keyless", 0)),
        *((2, "ignored", 0), (2, "cells", 0.003), (3, "cells", 0.03)),
    ],
)
def test_they_decide_alike(mpi_program, mpiexec, ranks, kind, alpha):
    """Both estimate the cost of the first LB step from the network."""
    network = [f"network={alpha} 0"] if alpha else []
    said = run([*mpiexec, "-n", str(ranks), str(mpi_program("drift")), "120", "0", kind, *network])
    cluster = pylb.VirtualCluster(ranks, clock="none", network=(0.0, 0.0))
    given = {"network": (alpha, 0.0)} if alpha else {}
    found = cluster.run(lambda comm: advisor_drift.drift(comm, 120, 0, kind, **given))
    assert all(rows == found[0] for rows in found)
    assert told(said.splitlines()) == told(found[0])


def test_partial_lb_steps_come_one_after_the_other(mpi_program, mpiexec):
    """Each removes half of the imbalance; they go on until the next one would not pay."""
    words = ["120", "0", "partial", "partial=1"]
    said = run([*mpiexec, "-n", "2", str(mpi_program("drift")), *words]).splitlines()
    cluster = pylb.VirtualCluster(2, clock="none", network=(0.0, 0.0))
    found = cluster.run(lambda comm: advisor_drift.drift(comm, 120, 0, "partial"))
    assert told(said) == told(found[0])
    made = [int(line.split()[0]) for line in said if line.split()[1] == "1"]
    first = [i for i in made if i - 1 not in made]
    assert 2 <= len(first) < len(made) / 1.5


def test_a_first_cost_is_measured(mpi_program, mpiexec):
    """If times are measured, both rehearse an LB step in the first step."""
    words = ["120", "0", "cells", "clock=wall", "network=1e-6 1e-9"]
    said = run([*mpiexec, "-n", "2", str(mpi_program("drift")), *words])
    assert "BestFitLB" in said


def test_they_decide_alike_with_a_lag(mpi_program, mpiexec):
    words = ["120", "2", "seconds"]
    said = run([*mpiexec, "-n", "3", str(mpi_program("drift")), *words])
    twin = [sys.executable, advisor_drift.__file__, *words]
    found = run([*mpiexec, "-n", "3", *twin]).splitlines()
    # The C program prints its receipts before the statistics of the last two steps are known.
    made = told(said.splitlines())
    last = max([i for i, line in enumerate(made) if line.split()[1] == "1"], default=len(made) - 1)
    assert told(found)[:last] == made[:last]
    assert last > 10


# ---- the Fortran module: every call and its errors, on several ranks ---------------------------


CHECKS = ["-g", "-O1", "-fcheck=all", "-std=f2018", "-Wall", "-Wextra", "-pedantic", "-Werror"]


@pytest.fixture(scope="module")
def program(prefix, tmp_path_factory):
    needs_fortran()
    made = tmp_path_factory.mktemp("fortran") / "use"
    linked = flags(prefix, "pylb_fortran")
    run(["mpifort", *CHECKS, str(HERE / "use.f90"), *linked, "-o", str(made)])
    return made


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_call_and_its_errors(mpiexec, program, ranks):
    assert run([*mpiexec, "-n", str(ranks), str(program)]) == "0 failures\n"


def test_the_module_has_every_function_that_a_program_calls(prefix):
    """The module has the functions of pylb.h for advisors, plans and steps."""
    header = (prefix / "include" / "pylb.h").read_text().split("/* ---- placement")[0]
    module = (prefix / "include" / "pylb.f90").read_text()
    names = [
        word.split("(")[0].lstrip("*")
        for word in header.split()
        if word.startswith(("pylb_", "*pylb_")) and "(" in word
    ]
    missing = {n for n in names if f'name="{n}"' not in module}
    assert missing <= {"pylb_advisor_create_mpi", "pylb_error_name"}
