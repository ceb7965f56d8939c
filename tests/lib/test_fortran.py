"""The Fortran module: every call and its errors, on several ranks."""

import pytest
from compiled import flags, needs_fortran, run
from test_lib import HERE

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
    assert run([*mpiexec, "-n", str(ranks), str(program)], timeout=60) == "0 failures\n"


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
