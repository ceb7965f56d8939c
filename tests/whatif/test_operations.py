"""pylb record: real programs under the recorder, whole and broken; the monitor."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import pylb
from pylb.cli.main import main
from pylb.prediction.recorder import launch
from pylb.prediction.recorder.launch import HEAD, RecordMonitor, loaded, record
from pylb.prediction.recorder.recording import Collective, Flag, OpKind

HERE = Path(__file__).parents[1]
needs_recorder = pytest.mark.skipif(find_spec("pylb._record") is None, reason="built without MPI")


def mpicc():
    return shutil.which("mpicc", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.fixture(scope="session")
def mpiexec(mpiexec):
    if find_spec("pylb._record") is None:
        pytest.skip("built without MPI")
    return mpiexec


@pytest.fixture(scope="session")
def build(mpiexec, tmp_path_factory):
    """Compile a program of tests/recorded."""
    folder = tmp_path_factory.mktemp("recorded")

    def make(name):
        program = folder / name
        if not program.exists():
            source = HERE / "recorded" / f"{name}.c"
            subprocess.run([mpicc(), "-O2", source, "-o", program, "-pthread"], check=True)
        return str(program)

    return make


def whole(run):
    assert run.closed.all(), run.warnings
    told = pylb.whatif(run)
    assert told.end == ["through"] * run.n_ranks
    return told


COMMA = r"""
#include <locale.h>
#include <mpi.h>

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "");
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return *localeconv()->decimal_point != ',';
}
"""


def test_a_program_writes_its_numbers_with_a_comma(mpiexec, tmp_path, comma, monkeypatch):
    (tmp_path / "use.c").write_text(COMMA)
    subprocess.run([mpicc(), tmp_path / "use.c", "-o", tmp_path / "use"], check=True)
    for name, value in comma.items():
        monkeypatch.setenv(name, value)
    code, run = record([*mpiexec, "-n", "2", str(tmp_path / "use")])
    assert code == 0
    whole(run)


@pytest.mark.filterwarnings("ignore:not simulated")
@pytest.mark.parametrize("ranks", [1, 3])
def test_every_operation_is_recorded_and_can_be_simulated(mpiexec, build, ranks, capfd):
    code, run = record([*mpiexec, "-n", str(ranks), build("everything")])
    assert code == 0
    assert capfd.readouterr().out.count("is through") == ranks
    assert run.n_ranks == ranks
    whole(run)
    for ops in run.ops:
        kinds = np.bincount(ops["kind"], minlength=len(OpKind))
        assert kinds[OpKind.END] == 1
        assert kinds[OpKind.PROBE] == 2
        assert kinds[OpKind.ICOLL] == 3
        assert kinds[OpKind.WAIT] == kinds[OpKind.ISEND] + kinds[OpKind.IRECV] + kinds[OpKind.ICOLL]
        what = ops["what"][ops["kind"] == OpKind.COLL]
        assert set(what) == set(Collective)
        assert ops["compute"].sum() > 100_000
        assert (np.diff(ops["begin"]) >= 0).all()
    assert sorted(map(len, run.comms))[-1] == ranks
    sent = sum(np.isin(ops["kind"], [OpKind.SEND, OpKind.ISEND]).sum() for ops in run.ops)
    cancelled = sum((ops["flags"] & Flag.CANCELLED > 0).sum() for ops in run.ops)
    got = sum(np.isin(ops["kind"], [OpKind.RECV, OpKind.IRECV]).sum() for ops in run.ops)
    assert sent == got - cancelled
    assert cancelled == ranks


UNUSUAL = {
    "failed": [],
    "cancel": [],
    "between": ["not simulated: a collective between the groups of an intercommunicator"],
    "copies": [],
    "files": [
        f"not simulated: waiting in MPI_File_{how}_at_all, which counts as computing"
        for how in ("write", "read")
    ],
    "persistent": ["not simulated: a persistent collective or a partitioned message"],
    "spawn": [
        "not simulated: MPI_Comm_spawn",
        "not simulated: a process that was started by MPI_Comm_spawn or connected later",
    ],
    "fork": [],
}


@pytest.mark.filterwarnings("ignore:not simulated")
@pytest.mark.parametrize("how", UNUSUAL)
def test_unusual_calls(mpiexec, build, tmp_path, how, capfd):
    """Once, each of these crashed the program, or gave a recording that could not be simulated."""
    code, run = record([*mpiexec, "-n", "3", build("unusual"), how, str(tmp_path / "file")])
    assert code == 0, capfd.readouterr()
    assert whole(run).complete
    said = capfd.readouterr().out
    named = [] if "2 requests" in said else UNUSUAL[how]  # an MPI without persistent collectives
    assert [text.partition(" (")[0] for text in run.warnings] == named
    assert said.count("6 errors") == (3 if how == "failed" else 0)
    kinds = np.concatenate([ops["kind"] for ops in run.ops])
    assert np.isin(kinds, OpKind.ENTER).sum() == (3 if how == "fork" else 0)
    sent = np.isin(kinds, [OpKind.SEND, OpKind.ISEND]).sum()
    got = np.isin(kinds, [OpKind.RECV, OpKind.IRECV]).sum()
    assert got - sent == (3 if how == "cancel" else 0)


def test_what_a_program_computes_and_sends(mpiexec, build):
    code, run = record([*mpiexec, "-n", "3", build("pipeline"), "10", "1e5"])
    assert code == 0
    first, middle, last = (ops[ops["kind"] != OpKind.PAUSE] for ops in run.ops)
    assert [OpKind(k).name for k in middle["kind"]] == ["RECV", "SEND"] * 10 + ["END"]
    assert (first["bytes"][:10:5] == 320_000).all()
    assert (first["peer"][:10] == 1).all()
    assert (last["peer"][:10] == 1).all()
    # the middle rank works twice as much; the median, because other programs run too
    assert np.median(middle["compute"][1:20:2]) > np.median(first["compute"][1:10])
    told = whole(run)
    assert told.time > 1e-9 * middle["compute"].sum()


def test_an_mpi4py_script_is_recorded_unchanged(mpiexec, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from mpi4py import MPI\n"
        "comm = MPI.COMM_WORLD\n"
        "data = comm.bcast({'a': 1} if comm.rank == 0 else None)\n"
        "got = comm.sendrecv([comm.rank], dest=(comm.rank + 1) % comm.size,\n"
        "                    source=(comm.rank - 1) % comm.size)\n"
        "if comm.rank == 0:\n"
        "    for _ in range(comm.size - 1): comm.recv()\n"
        "else: comm.send('x', 0)\n"
        "assert comm.allreduce(1) == comm.size\n"
    )
    run_file = tmp_path / "run"
    command = [sys.executable, "-m", "pylb", "record", "-o", run_file, "--", *mpiexec, "-n", "3"]
    done = subprocess.run(
        [*command, sys.executable, script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(pylb.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    assert "operations of 3 ranks" in done.stderr
    run = pylb.Recording.load(run_file)
    whole(run)
    wild = run.ops[0][run.ops[0]["flags"] & 2 > 0]
    assert sorted(wild["peer"][wild["kind"] == OpKind.PROBE]) == [1, 2]


def test_a_program_without_mpiexec_is_one_rank(build, mpiexec):
    code, run = record([build("stencil"), "10", "1e4"])
    assert code == 0
    assert run.n_ranks == 1
    whole(run)


def test_time_that_a_rank_sleeps_is_no_computing(mpiexec, build):
    _, run = record([*mpiexec, "-n", "2", build("everything"), "sleep"])
    for ops in run.ops:
        pauses = ops["bytes"][ops["kind"] == OpKind.PAUSE]
        assert len(pauses) >= 4
        assert pauses.sum() > 0.05e9
        assert ops["compute"].sum() + pauses.sum() < 1e9 * run.seconds
    assert whole(run).time > 0.05


def test_ranks_that_sleep_between_polls(mpiexec, build):
    _, run = record([*mpiexec, "-n", "2", build("everything"), "ask"])
    # half of a millisecond between polls; less or more where ranks wait for a core
    assert run.info["response"] > 0
    late, free = whole(run), pylb.whatif(run, network=(0.0, 0.0))
    assert late.target.alpha[0, 0] > run.info["response"]
    assert free.target.alpha[0, 0] == run.info["response"]
    assert free.target.period == 0  # a rank that sleeps uses up no share
    _, run = record([*mpiexec, "-n", "2", build("pipeline"), "10", "1e5"])
    assert "response" not in run.info  # a rank that waits within MPI does not poll
    assert whole(run).target.period == 0.005


def test_marked_procedures(mpiexec, build, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import functools\n"
        "from mpi4py import MPI\n"
        "import pylb\n"
        "@pylb.procedure\n"
        "def one(n): return sum(range(n))\n"
        "@pylb.procedure(name='second')\n"
        "def two(): one(10)\n"
        "pylb.procedure(functools.partial(two))  # an object without a name of its own\n"
        "if MPI.COMM_WORLD.rank: two()\n"
        "assert one(100_000) == 4999950000\n"
        "MPI.COMM_WORLD.barrier()\n"
    )
    path = str(Path(pylb.__file__).parents[1])
    one_thread = "OPENBLAS_NUM_THREADS=1"  # NumPy's threads would count as work in parallel
    variables = ["env", f"PYTHONPATH={path}", one_thread]
    code, run = record([*mpiexec, "-n", "2", *variables, sys.executable, str(script)])
    assert code == 0
    assert sorted(run.procedures) == ["one", "partial", "second"]
    marks = run.ops[1][np.isin(run.ops[1]["kind"], [OpKind.ENTER, OpKind.LEAVE])]
    names = [
        (OpKind(k).name, run.procedures[t])
        for k, t in zip(marks["kind"], marks["tag"], strict=True)
    ]
    assert names == [
        ("ENTER", "second"),
        ("ENTER", "one"),
        ("LEAVE", "one"),
        ("LEAVE", "second"),
        ("ENTER", "one"),
        ("LEAVE", "one"),
    ]
    assert marks["compute"][5] > 100_000  # the second call of one procedure
    whole(run)


def test_procedures_of_a_c_program(mpiexec, build, tmp_path):
    source, program = tmp_path / "marked.c", str(tmp_path / "marked")
    source.write_text(
        f'#include "{HERE.parent}/csrc/whatif/recorder/pylb_procedure.h"\n'
        f'#include "{HERE}/recorded/work.h"\n'
        "#include <mpi.h>\n"
        "void by_name(void) { work(1e5); }\n"
        'void by_macro(void) { PYLB_PROCEDURE("macro"); work(1e5); }\n'
        "int main(void) { MPI_Init(0, 0); by_name(); by_macro(); MPI_Finalize(); return 0; }\n"
    )
    words = [mpicc(), "-O1", "-finstrument-functions", "-rdynamic", source, "-o", program]
    subprocess.run(words, check=True)
    code, run = record([program], procedures=["by_name", "by_nmae"])
    assert code == 0
    (warning,) = [text for text in run.warnings if "by_n" in text]
    assert warning.startswith("procedure 'by_nmae' was never called")
    assert sorted(run.procedures) == ["by_name", "macro"]
    leave = run.ops[0][run.ops[0]["kind"] == OpKind.LEAVE]
    assert (leave["compute"] > 100_000).all()
    assert subprocess.run([program]).returncode == 0  # without the recorder


def test_predictions_while_the_program_runs(mpiexec, build):
    said = []
    aims = [{"placement": [0, 0]}, {"placement": [0, 1], "speed": [0.25, 0.25]}]
    command = [*mpiexec, "-n", "2", build("stencil"), "150", "4e6"]
    code, run = record(command, online=aims, say=said.append)
    assert code == 0
    so_far = [float(text.split()[6]) for text in said if "speed" in text]
    assert so_far[0] > 0
    assert so_far == sorted(so_far)
    assert so_far[-1] <= 1.01 * pylb.whatif(run, **aims[1]).time


@pytest.fixture(scope="session")
def mpifort(mpiexec):
    """Return the command of this MPI that compiles Fortran programs."""
    wrapper = Path(mpicc()).with_name("mpifort")
    if not wrapper.exists():
        pytest.skip("this MPI has no Fortran")
    return str(wrapper)


@pytest.fixture(scope="session")
def fortran(mpifort):
    """Return the command that compiles a Fortran program for this MPI."""
    folders = os.environ["PATH"].split(os.pathsep)
    found = [str(p) for folder in folders for p in sorted(Path(folder).glob("gfortran*"))]
    if not found:
        pytest.skip("no Fortran compiler")
    return ["env", f"OMPI_FC={found[0]}", f"MPICH_FC={found[0]}", mpifort, "-cpp"]


def record_ring(mpiexec, fortran, folder, *how):
    program = str(folder / "ring")
    source = str(HERE / "recorded" / "ring.f90")
    words = [*fortran, *(f"-D{name}" for name in how), source, "-o", program]
    done = subprocess.run(words, capture_output=True, text=True)
    if "module" in done.stderr:
        pytest.skip("modules of this MPI are of another Fortran compiler")
    assert done.returncode == 0, done.stderr
    code, run = record([*mpiexec, "-n", "3", program])
    assert code == 0
    return run


@pytest.mark.parametrize("how", ["MPI_F08", "MPI_HEADER"])
def test_a_program_in_fortran(mpiexec, fortran, tmp_path, how):
    run = record_ring(mpiexec, fortran, tmp_path, how)
    for rank, every in enumerate(run.ops):
        ops = every[every["kind"] != OpKind.PAUSE]  # pauses come from other programs
        names = " ".join(OpKind(k).name for k in ops["kind"])
        exchange = "IRECV ISEND WAIT WAIT"
        matched = "ISEND PROBE RECV WAIT ISEND PROBE IRECV WAIT WAIT"
        neighbours = "COLL IRECV IRECV ISEND ISEND WAIT WAIT WAIT WAIT"
        assert names == (
            f"COLL {exchange} {exchange} ISEND PROBE RECV WAIT {matched} {neighbours} COLL END"
        )
        assert ops["bytes"][ops["kind"] == OpKind.ISEND].tolist() == [8000, 8, 8, 16, 16, 8, 8]
        left = (rank - 1) % 3
        any_source = [3, 10, 11, 14, 15, 18, 19]
        assert (ops["peer"][any_source] == left).all()  # the recording names the sender
    whole(run)


def refused(run, calls):
    assert f"pylb whatif cannot simulate one-sided calls: {calls}" in run.warnings
    says = f"the recording has one-sided calls, which are not simulated: {re.escape(calls)}$"
    for ask in (pylb.whatif, pylb.prediction.procedures, pylb.prediction.critical_path):
        with pytest.raises(pylb.errors.DomainError, match=says):
            ask(run)


def test_one_sided_calls_are_refused_by_name(mpiexec, build, tmp_path):
    code, run = record([*mpiexec, "-n", "2", build("everything"), "one-sided"])
    assert code == 0
    run.save(tmp_path / "run")
    for one in (run, pylb.Recording.load(tmp_path / "run")):
        refused(one, "MPI_Win_allocate (2 times), MPI_Put (4 times), MPI_Accumulate (2 times)")


def test_one_sided_calls_in_fortran(mpiexec, fortran, tmp_path):
    run = record_ring(mpiexec, fortran, tmp_path, "MPI_F08", "ONE_SIDED")
    refused(run, "MPI_Win_create (3 times), MPI_Put (3 times)")


def test_recording_only_the_time(mpiexec, build):
    begin = time.perf_counter()
    _, run = record([*mpiexec, "-n", "2", build("stencil"), "10", "1e5"], only_time=True)
    assert run.n_ops == 0
    assert 0 < run.seconds < time.perf_counter() - begin


# --- what goes wrong ---


def test_a_rank_that_is_killed(mpiexec, build, capfd):
    code, run = record([*mpiexec, "-n", "3", build("everything"), "kill"])
    assert code != 0
    assert not run.closed[2]
    assert "rank 2: it ended without MPI_Finalize" in "\n".join(run.warnings)
    assert run.n_ops > 0
    with pytest.warns(UserWarning, match="rank"):
        told = pylb.whatif(run)
    assert not told.complete
    assert told.end[2] in ("cut", "stuck")  # the records of the other ranks may end earlier


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("no-finalize", "it never called MPI_Finalize"),
        ("threads", "rank 1: 1 MPI calls of other threads (MPI_THREAD_MULTIPLE)"),
    ],
)
def test_what_is_odd_is_named(mpiexec, build, capfd, how, says):
    _, run = record([*mpiexec, "-n", "2", build("everything"), how])
    assert says in "\n".join(run.warnings)


@needs_recorder
def test_a_program_without_mpi(capfd):
    code, run = record([sys.executable, "-c", "raise SystemExit(3)"])
    assert code == 3
    assert run.n_ranks == 0
    assert "no rank called MPI_Init" in run.warnings[0]


def test_bad_commands():
    with pytest.raises(pylb.errors.DomainError, match="command is empty"):
        loaded([], "address")


@pytest.fixture
def monitor():
    with contextlib.closing(RecordMonitor()) as made:
        yield made


def send(monitor, *parts, first=None):
    """Send the token, or `first`, and the parts in a connection of their own."""
    host, port = monitor.address.split(":")
    with socket.create_connection((host, int(port))) as sock:
        for part in (first or monitor.token.encode() + b"\n", *parts):
            sock.sendall(part)
    monitor.serve(5.0)
    while monitor.connected:
        monitor.serve(5.0)


def frame(kind, body, first=0):
    return HEAD.pack(ord(kind), len(body), first) + body


def test_the_monitor_takes_nothing_from_strangers(monitor):
    send(monitor, first=b"GET / HTTP/1.1\r\n\r\n" * 10)
    send(monitor, frame("H", b"{}"), first=b"x" * 32 + b"\n")
    send(monitor, frame("O", b"\0" * 48))
    send(monitor, frame("H", b"not json"))
    assert monitor.connected == 0
    run = monitor.recording(["prog"])
    assert run.n_ranks == 0
    assert sum("was not from the recorder" in text for text in run.warnings) >= 3


HELLO = {
    **{"rank": 0, "size": 2, "host": "far", "now": 1, "cores": 2, "core": 0},
    **{"delays": True, "library": "Open MPI"},
}
WORLD = np.array([0, 0, 2], np.int64).tobytes() + np.array([0, 1], np.int32).tobytes()


def say(**changed):
    return frame("H", json.dumps({**HELLO, **changed}).encode())


@pytest.mark.parametrize(
    "parts",
    [
        *([frame(kind, b"abc")] for kind in "OCLNEHZ"),
        [HEAD.pack(2**31, 0, 0)],
        [frame("L", b"[" * 100_000)],
        [frame("L", b'{"what": "x", "times": "y"}')],
        [frame("E", b"{}")],
        [frame("C", np.array([0, 0, 2**60], np.int64).tobytes())],
        [frame("O", bytes(48))],
    ],
)
def test_one_bad_connection_ends_alone(monitor, parts):
    """A connection that has the token but sends nonsense is closed; the other ranks continue."""
    send(monitor, say(), *parts)
    assert monitor.connected == 0
    send(monitor, say(rank=1), frame("C", WORLD), frame("O", bytes(96)))
    run = monitor.recording(["prog"])
    assert [len(ops) for ops in run.ops] == [0, 2]
    assert "was not from the recorder" in "\n".join(run.warnings)


@pytest.mark.parametrize(
    "first",
    [
        *({"size": size} for size in (10**9, 0, -1, None)),
        *({"rank": rank} for rank in (2, -1, "0", [])),
    ],
)
def test_a_world_that_cannot_be_is_refused(monitor, first):
    send(monitor, say(**first))
    assert (monitor.connected, monitor.size) == (0, 0)
    assert monitor.recording(["prog"]).n_ranks == 0


def test_ranks_that_never_come_are_counted(monitor):
    send(monitor, say(size=10**5))
    said = monitor.recording(["prog"]).warnings
    assert "99989 other ranks were not recorded" in said
    assert len(said) < 20


def test_the_token_is_in_no_command_line(build, mpiexec, monkeypatch):
    serve, tokens, lines = RecordMonitor.serve, [], []

    def served(monitor, seconds):
        serve(monitor, seconds)
        if monitor.ranks and not tokens:
            tokens.append(monitor.token.encode())
            for folder in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    lines.append((folder / "cmdline").read_bytes())

    monkeypatch.setattr(RecordMonitor, "serve", served)
    code, run = record([*mpiexec, "-n", "2", build("stencil"), "20", "1e5"])
    assert (code, run.n_ranks, len(tokens)) == (0, 2, 1)
    assert any(b"PYLB_RECORDER=127.0.0.1:" in line for line in lines)
    assert not any(tokens[0] in line for line in lines)


def test_lost_operations_and_clocks_that_differ_are_named(monitor):
    now = int(1e9 * time.monotonic())
    last = {"ops": 7, "ns": 10**8, "start": now, "now": now + 5 * 10**9, "beyond": 9 * 10**7}
    end = json.dumps({**last, "foreign": 0, "finalized": True}).encode()
    ops = np.zeros(3, pylb.prediction.recorder.recording.OP)
    ops["kind"] = OpKind.PAUSE
    parts = frame("C", WORLD), frame("O", ops.tobytes()), frame("O", ops[:1].tobytes(), first=5)
    send(monitor, say(now=now), *parts, frame("E", end))
    run = monitor.recording(["prog"])
    said = "\n".join(run.warnings)
    assert "rank 0: 2 operations were lost in transmission" in said
    assert "rank 0: its clock and the monitor's clock drifted apart" in said
    assert "rank 0: its threads used 0.09 s of processor time in parallel" in said
    assert "rank 1 was not recorded" in said
    assert not run.closed.any()


@pytest.mark.parametrize(("napped", "response"), [(1.5, 0.002 / 4), (0.9, None)])
def test_the_delay_of_ranks_that_poll(monitor, napped, response):
    """Half of the mean square of the time between polls, if ranks sleep for most of it."""
    asked = {"wall": 1.0, "square": 0.001, "napped": napped / 2}
    end = {"ops": 0, "ns": 10**9, "start": 0, "now": 10**9, "beyond": 0, "foreign": 0}
    last = json.dumps({**end, "finalized": True, "asked": asked}).encode()
    for rank in range(2):
        send(monitor, say(rank=rank), frame("C", WORLD), frame("E", last))
    assert monitor.recording(["prog"]).info.get("response") == response


def test_two_programs_in_one_command(build, mpiexec):
    program = build("stencil")
    code, run = record(["sh", "-c", f"{program} 10 1e4; {program} 20 1e4"])
    assert code == 0
    assert "more than one MPI program: only the first one is recorded" in "\n".join(run.warnings)
    assert run.closed.all()
    _, first = record([program, "10", "1e4"])
    calls, once = (np.concatenate(r.ops)["kind"] for r in (run, first))
    pause = OpKind.PAUSE  # comes at any time
    np.testing.assert_array_equal(calls[calls != pause], once[once != pause])


def test_a_bad_placement_ends_neither_program_nor_recording(build, mpiexec):
    said = []
    aims = [{"placement": [0, 0, 0]}]
    command = [*mpiexec, "-n", "2", build("stencil"), "300", "2e6"]
    code, run = record(command, online=aims, say=said.append)
    assert code == 0
    assert said == [
        "no more predictions while the program runs: placement has 3 entries: expected 2, one for "
        "each rank"
    ]
    assert run.closed.all()


def recording(output, *command):
    """Start ``pylb record`` as a shell does; yield it once its ranks compute."""
    words = [sys.executable, "-m", "pylb", "record", "--place", "0,1", "-o", str(output), "--"]
    child = subprocess.Popen(
        [*words, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},  # without the variables that MPI sets here
    )
    for line in child.stderr:
        if "s so far would take" in line:
            break
    return child


def test_a_recording_that_is_ended_early_is_kept(build, mpiexec, tmp_path):
    output = tmp_path / "run"
    command = [*mpiexec, "-n", "2", build("stencil"), "1000000", "1e5"]
    with recording(output, *command) as child:
        child.send_signal(signal.SIGTERM)
        said = child.stderr.read()
    assert child.returncode != 0, said
    assert "ended without MPI_Finalize" in said
    run = pylb.Recording.load(output)
    assert run.n_ranks == 2
    assert not run.closed.any()
    with pytest.warns(UserWarning, match="rank"):
        assert not pylb.whatif(run).complete


def test_a_signal_loses_no_frame_that_is_being_read(build, mpiexec, monkeypatch):
    """A signal handler that raised an exception lost the frame, or NumPy lost the exception."""
    frames = []

    def interrupted(self, rank, first, sent):
        frames.append(len(sent))
        if len(frames) == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        return operations(self, rank, first, sent)

    operations = RecordMonitor._operations
    monkeypatch.setattr(RecordMonitor, "_operations", interrupted)
    code, run = record([*mpiexec, "-n", "2", build("stencil"), "1000000", "1e5"])
    assert code != 0
    assert run.n_ops == sum(frames)
    assert not any("lost" in text or "recorder" in text for text in run.warnings), run.warnings


@pytest.mark.parametrize("moment", ["one_sided", "save"])
def test_a_signal_after_the_program_loses_no_recording(
    build, mpiexec, tmp_path, monkeypatch, capfd, moment
):
    def interrupted(*args):
        os.kill(os.getpid(), signal.SIGTERM)
        return usual(*args)

    owner = {"one_sided": launch, "save": pylb.Recording}[moment]
    usual = getattr(owner, moment)
    monkeypatch.setattr(owner, moment, interrupted)
    output = tmp_path / "run"
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("the signal was not caught"))
    try:
        words = ["record", "-o", str(output), "--", *mpiexec, "-n", "2", build("pipeline"), "9"]
        assert main([*words, "1e3"]) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert pylb.Recording.load(output).closed.all()


def test_the_program_survives_its_monitor(build, mpiexec, tmp_path):
    mark = tmp_path / "through"
    program = f"{shlex.join([*mpiexec, '-n', '2', build('stencil')])} 600 2e6 && touch {mark}"
    with recording(tmp_path / "run", "sh", "-c", program) as child:
        child.kill()
        said = child.stderr.read()  # also waits for the end of the program
    assert mark.exists(), said
    assert "rank 0 lost its monitor" in said
    assert not (tmp_path / "run").exists()


@needs_recorder
def test_where_a_recording_cannot_go_is_said_before_the_program_runs(tmp_path, capfd):
    mark, text = tmp_path / "ran", tmp_path / "prog.c"
    text.write_text("int main(void) { return 0; }")
    for output, says in [
        (tmp_path, "is a folder: expected a regular file, or a new one"),
        (text, "prog.c exists and is not a recording: it is not overwritten"),
        (tmp_path / "none" / "run", "no folder"),
        ("/dev/full", "/dev/full is a device"),
    ]:
        assert main(["record", "-o", str(output), "--", "touch", str(mark)]) == 2
        assert says in capfd.readouterr().err
    assert not mark.exists()
    assert text.read_text().startswith("int main")


def test_a_killed_recorder_leaves_nothing(build, tmp_path):
    """If the recorder is killed, the program goes on to its end, and no files are left."""
    mark = tmp_path / "mark"
    script = f"echo up; read line; {build('stencil')} 5 1e4 2>/dev/null; touch {mark}"
    words = [sys.executable, "-m", "pylb", "record", "-o", str(tmp_path / "run"), "--"]
    recorder = subprocess.Popen(
        [*words, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert recorder.stdout.readline() == b"up\n"
    recorder.kill()
    recorder.wait()
    recorder.communicate(b"\n")  # also waits for the end of the program
    assert [path.name for path in tmp_path.iterdir()] == ["mark"]


@needs_recorder
def test_a_full_disk_costs_no_recording(tmp_path, monkeypatch, capfd):
    save = pylb.Recording.save

    def full(self, path):
        if path == str(tmp_path / "run"):
            raise OSError(28, "No space left on device")
        save(self, path)

    monkeypatch.setattr(pylb.Recording, "save", full)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "other"))
    (tmp_path / "other").mkdir()
    (tmp_path / "run").touch()
    program = [sys.executable, "-c", "from mpi4py import MPI"]
    assert main(["record", "-o", str(tmp_path / "run"), "--", *program]) == 1
    said = capfd.readouterr().err
    assert "No space left on device" in said
    where = next((tmp_path / "other").glob("pylb-*/run"))
    assert f"{where}: " in said
    assert pylb.Recording.load(where).n_ranks == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "run"]  # no partial file is left


# ---- an allocation of the recorder fails: the program ends soon, with a message ----------------


EXPLORE = bool(os.environ.get("PYLB_EXPLORE"))


@pytest.mark.slow
def test_the_recorder_has_no_memory(mpiexec, no_malloc, tmp_path, monkeypatch, capfd):
    of_pypi = Path(mpiexec[0]).parent == Path(sys.executable).parent
    if of_pypi or not sys.platform.startswith("linux"):
        pytest.skip("no mpicc of this MPI, or not Linux with glibc")
    program = tmp_path / "program"
    source = HERE / "mpi" / "no_memory_recorded.c"
    subprocess.run(["mpicc", source, "-o", program, "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", no_malloc)
    monkeypatch.setenv("NO_MALLOC_IN", "pylb/_record")
    at, step, whole = 0, 1 if EXPLORE else 25, False
    while not whole:
        words = ["record", "-o", str(tmp_path / "run"), "--", *mpiexec, "-n", "2"]
        code = main([*words, str(program), str(at)])
        out, said = capfd.readouterr()
        whole = "whole" in out and "failed" not in out
        assert whole == (code == 0), out + said
        assert whole or "pylb record: out of memory: the program ends" in out + said
        at += step
    assert at > step
