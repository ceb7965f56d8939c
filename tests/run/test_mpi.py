"""The runtime under mpiexec: the cases and programs of tests/mpi, on several numbers of ranks."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest
from launch import HERE, answers_of, launch, printed

from pylb.partitioning import libraries

# ---- cases: one job for each number of ranks, as a start takes longest ---------------------------

FILES = sorted(path.stem for path in HERE.glob("*cases.py"))


@pytest.fixture(scope="module")
def answers(mpiexec):
    """Return a function that runs the cases on a number of ranks, and keeps their answers."""
    left_out = set() if libraries.available("Zoltan") else {"partition_cases"}
    if find_spec("pylb._dgraph") is None:
        left_out.add("dgraph_cases")
    return answers_of(mpiexec, "each_case.py", *(f for f in FILES if f not in left_out))


@pytest.mark.parametrize("ranks", [3, 5])
def test_cases(answers, ranks):
    """On one and on three ranks; and half of them on five, half on two."""
    found = answers(ranks)
    assert sum(map(len, found.values())) > 90
    assert any(answer is not None for answer in found["cases"].values())
    for file in ("cases", "multicast_cases"):
        assert found[file] == answers(3)[file]


# ---- programs that end well or badly -------------------------------------------------------------

ENDINGS = [  # program, its arguments, what it prints
    ("plain", ["raise"], "rank 2: ValueError: block 7 is broken (in iteration 3)"),
    ("plain", ["interrupt"], "RemoteError: rank 2: KeyboardInterrupt"),
    ("plain", ["exit"], "rank 2 ended its program in iteration 3, while rank 0 is at the"),
    ("plain", ["break"], "rank 2 ended its program in iteration 3, while rank 0 is at the"),
    ("plain", ["constructor"], "RemoteError: rank 2: no strategy 'nonsense'"),
    ("plain", ["afterwards"], "pylb: rank 0: rank 2: ValueError: after the loop"),
    ("plain", ["one loop more"], "rank 2 ended its program after iteration 5"),
    ("plain", ["all raise"], "ValueError: everybody"),
    ("plain", ["blocked"], "nobody hears me; the other ranks did not come within 1 s"),
    ("plain", ["signal"], "the other ranks did not come within 1 s"),
    ("lagged", ["raise"], "rank 2: ValueError: block 7 is broken (in iteration 5)"),
    ("lagged", ["blocked"], "nobody hears me; the other ranks did not come within 1 s"),
    ("lagged", ["pause"], "RemoteError: rank 2: KeyboardInterrupt"),
    ("lagged", ["all raise"], "ValueError: everybody"),
    ("objects", ["raise"], "RemoteError: rank 2: ValueError: object "),
    ("objects", ["inf raise"], "RemoteError: rank 2: ValueError: object "),
    ("advisor", ["raise", 2], "rank 2: ValueError: block 7 is broken"),
    ("advisor", ["exit", 0], "rank 2 ended its program"),
    ("advisor", ["skip", 0], "rank 2: advise() was not called in step 3"),
    ("advisor", ["own loop", 0], "rank 2: ValueError: block 7 is broken"),
    ("advisor", ["moving", 0], "cell 7 is broken"),
    ("advisor", ["moving", 2], "cell 7 is broken"),
]


@pytest.mark.parametrize(("program", "words", "says"), ENDINGS)
def test_every_rank_ends_and_says_why(mpiexec, program, words, says):
    words = HERE / "endings.py", program, *words
    code, out, said = launch(mpiexec, 3, *words, PYLB_ABORT_AFTER="1")
    assert code != 0
    assert says in said
    if program in ("lagged", "objects"):
        assert "is through" not in out
        assert ("aborting" in said) == ("blocked" in words)


@pytest.mark.parametrize(
    "words",
    [
        ("plain", "fine"),
        ("plain", "stop"),  # a rank was stopped for two seconds
        ("advisor", "fine", 2),
        ("advisor", "fine in an own loop", 0),
    ],
)
def test_a_good_end_says_nothing(mpiexec, words):
    code, out, said = launch(mpiexec, 3, HERE / "endings.py", *words)
    assert code == 0, said
    for r in range(3):  # lines of several ranks may be mixed
        assert out.count(f"rank {r} is through") == 1
    assert "pylb" not in said


@pytest.mark.parametrize(
    ("program", "case", "through"),
    [
        ("lagged", "exit", ["0: 20 []", "1: 20 []"]),
        ("lagged", "break", ["0: 20 []", "1: 20 []", "2: "]),
        ("lagged", "break alone", ["0: 20 []", "1: 20 []", "2: 20 []"]),
        ("lagged", "caught", ["0: 23 []", "1: 23 []", "2: 23 []"]),
        ("lagged", "stop", ["0: 20 [7, 15]", "1: 20 [7, 15]", "2: 20 [7, 15]"]),
        ("objects", "inf exit", ["0: 20 []", "1: 20 []"]),
        ("objects", "raise caught", ["0: 23 []", "1: 23 []", "2: 23 []"]),
    ],
)
def test_the_others_go_on(mpiexec, program, case, through):
    code, out, said = launch(mpiexec, 3, HERE / "endings.py", program, case)
    assert code == 0, said
    lines = sorted(re.findall(r"rank (\d is through: \d+ \[[^]]*)", out))
    assert len(lines) == len(through)
    for line, says in zip(lines, through, strict=True):
        assert line.startswith(says.replace(":", " is through:").rstrip("]"))


@pytest.mark.parametrize(
    "call", ["Balancer(comm)", "partition(ids=[0], method='block', comm=comm)"]
)
def test_a_wrong_communicator_on_one_rank_ends_all(mpiexec, call):
    """The other ranks already wait in MPI for this rank, which can tell them nothing."""
    start = "from mpi4py.MPI import COMM_WORLD as comm; import pylb\n"
    program = f"{start}if comm.rank: comm = 3\npylb.{call}"
    code, _, said = launch(mpiexec, 2, "-c", program, PYLB_ABORT_AFTER="0.1")
    assert code != 0
    assert "comm is 3: expected" in said


def test_all_ranks_raise_and_can_continue_if_one_has_no_memory_for_a_migration(mpiexec):
    assert printed(mpiexec, 3, HERE / "short.py", "no_memory").count("done") == 3


# ---- a rank dies under an MPI that tolerates it (ULFM, in Open MPI 5): its objects are named ----


@pytest.fixture(scope="module")
def tolerant(mpiexec):
    """Return the words that start ranks of which one may die."""
    said = subprocess.run([*mpiexec, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"Open MPI\D*(\d+)", said.stdout)
    if found is None or int(found[1]) < 5:
        pytest.skip("needs Open MPI 5: make test MPI=openmpi5")
    return [*mpiexec, "--with-ft", "ulfm"]


@pytest.mark.parametrize("lag", [0, 1])
def test_a_dead_rank_and_its_objects_are_named(tolerant, lag):
    code, _, said = launch(tolerant, 3, HERE / "short.py", "killed", lag)
    assert code != 0
    told = re.findall(
        r"MPIError: rank 2 has died; of its objects, this rank knows \d+: (.+) \(", said
    )
    assert told, said
    assert re.search(r"noticed in iteration 4[0-2]:", said), said
    named = {int(key) for line in told for key in line.split(", ")}
    assert named
    assert named <= set(range(16, 24))


# ---- a rank ends while other ranks wait in an MPI call of their own ------------------------------

PROGRAM = """
import sys
from mpi4py import MPI
import pylb
from pylb.comm import program_end
program_end.FINALIZE = 0.5  # seconds; the default is 5
world = MPI.COMM_WORLD
part = world.Split(world.rank < 2, world.rank)
lb = pylb.Balancer(part)
lb.add(world.rank, None)
for it in lb.iterate(5):
    for key, block in lb.local():
        pass
    if world.rank == 1 and it == 2:
        {end}
world.barrier()
"""


def ended(mpiexec, end):
    """Return the standard error of a program on three ranks, of which the last has no balancer."""
    code, _, said = launch(mpiexec, 3, "-c", PROGRAM.format(end=end), PYLB_ABORT_AFTER="1")
    assert code != 0
    return said


def test_an_uncaught_exception_ends_ranks_that_wait_elsewhere(mpiexec):
    said = ended(mpiexec, "raise ValueError('I am broken')")
    assert re.search(r"rank 1 has ended its program by ValueError: I am broken; for 1\.5 s", said)
    assert "aborting all ranks" in said


def test_an_end_without_exception_says_who_waits(mpiexec):
    said = ended(mpiexec, "sys.exit(0)")
    assert "rank 1 ended its program in iteration 2, while rank 0 is" in said
    assert re.search(r"rank 0 has ended its program by RemoteError: rank 1 ended", said)


@pytest.mark.parametrize("text", ["soon", "inf"])
def test_a_time_limit_that_is_no_number_is_refused(mpiexec, text):
    """When ranks meet, not at import: a program of one rank does not need it."""
    env = {**os.environ, "PYLB_ABORT_AFTER": text}
    alone = "import pylb.comm.program_end; lb = pylb.Balancer(); lb.add(0, 1); list(lb.iterate(1))"
    done = subprocess.run([sys.executable, "-c", alone], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    program = "from mpi4py import MPI; import pylb; pylb.Balancer(MPI.COMM_WORLD)"
    code, _, said = launch(mpiexec, 2, "-c", program, PYLB_ABORT_AFTER=text)
    assert code != 0
    assert f"DomainError: PYLB_ABORT_AFTER is '{text}': expected seconds" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "says"), [("", "not started"), ("MPI.Init(); MPI.Finalize();", "ended")]
)
def test_mpi_is_not_running(start, says):
    program = f"""
import mpi4py
mpi4py.rc(initialize=False, finalize=False)
from mpi4py import MPI
import pylb
comm = MPI.COMM_WORLD
{start}
for call in (
    lambda: pylb.Balancer(comm),
    lambda: pylb.Plan(comm, [0]),
    lambda: pylb.partition(coords=[[0.0]], parts=1, comm=comm),
    lambda: pylb.model.measure_network(comm),
):
    try:
        call()
    except pylb.errors.StateError as why:
        print(why)
try:
    print(pylb.partitioning.color(([0, 1, 2], [1, 0])).n_colors, "colours")
except pylb.errors.StateError as why:
    print(why)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    errors = done.stdout.count(f"MPI has {says}: expected a call between MPI.Init")
    assert (errors, "2 colours" in done.stdout) == ((5, False) if start else (4, True))
