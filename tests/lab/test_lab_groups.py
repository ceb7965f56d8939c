"""Labs with the control groups of this machine: limits are really enforced, and nothing is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pylb.errors import DomainError, NotAllowedError
from pylb.lab import Change, Lab, run, state
from pylb.lab.run import PROGRAM

pytestmark = pytest.mark.lab
BUSY = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


@pytest.fixture(scope="module")
def where():
    """Return the directories in which labs are created; check that none is left afterwards."""
    try:
        with Lab([0.5]) as lab:
            folders = [base.parent for base in lab._groups.bases]
    except NotAllowedError as error:
        pytest.skip(str(error))
    yield folders
    assert left(folders) == []


def left(folders):
    return [path for folder in folders for path in folder.glob(f"{state.PREFIX}*")]


def pylb_lab(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "pylb", "lab", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def idle():
    """Return the ticks of all cores in which they had nothing to do; see proc(5)."""
    return sum(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[4:6]))


def shares_used(command, given, attempts=3):
    """Return how many cores each rank used, in the best of some runs: the machine may be busy.

    The kernel guarantees only an upper bound, which holds in every run. A period in which a rank
    was stopped gave it its whole share, unless a part of it stayed on a core that others used: so
    the lower bound holds only while some core had nothing to do.
    """
    best, fair, busy = [], False, False
    for _ in range(attempts):
        before, start = idle(), time.monotonic()
        with Lab(given) as lab:
            assert lab.run(command) == 0
            usage = lab.usage()
        assert [use.rank for use in usage] == list(range(len(usage)))
        used = [use.cpu_seconds / lab.seconds for use in usage]
        for use, cores in zip(usage, used, strict=True):
            assert use.limit.share == given[use.rank % len(given)]
            assert cores < use.limit.share + 0.05
        best = max(best, used, key=sum)
        ticks = os.sysconf("SC_CLK_TCK") * (time.monotonic() - start)
        busy |= idle() - before < 0.2 * ticks
        fair |= all(
            cores > use.limit.share * use.throttled / max(use.periods, 1) - 0.05
            for use, cores in zip(usage, used, strict=True)
        )
        if all(c > use.limit.share - 0.05 for use, c in zip(usage, used, strict=True)):
            break
    else:
        if busy:
            pytest.skip("no core had nothing to do, so only the upper bounds hold")
    assert fair
    return best, usage


def test_a_busy_loop_gets_its_share(where):
    share = 0.25
    used, (use,) = shares_used([sys.executable, "-S", "-c", BUSY.format(2)], [share])
    assert used[0] > 0.5 * share
    assert use.throttled > 0.2 * use.periods > 0
    assert use.throttled_seconds > 0.2 * (1 - share) * 2


RUNS = """
import time
first = start = last = time.perf_counter()
longest = 0.0
while last - first < 1.0:
    now = time.perf_counter()
    if now - last > 5e-4:  # it was stopped meanwhile
        longest, start = max(longest, last - start), now
    last = now
print(longest)
"""


def real_time():
    """Say whether this process may give real-time priority."""
    code = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"
    return subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode == 0


def test_a_quota_is_not_overrun_for_long(where):
    if not real_time():
        pytest.skip("no process may have real-time priority here")
    for _ in range(10):  # other programs may occupy the core that the metronome needs
        with pylb_lab("--quiet", "--share", "0.25", "--", sys.executable, "-S", "-c", RUNS) as lab:
            longest = float(lab.communicate(timeout=60)[0])
        if longest < 2.5e-3:
            break
    assert longest < 2.5e-3  # the quota is 1.25 ms; without the metronome, it may run for 4 ms


def test_children_share_one_limit(where):
    prog = (
        "import os, subprocess, sys\n"
        f"busy = [sys.executable, '-S', '-c', {BUSY.format(1.5)!r}]\n"
        "a, b = subprocess.Popen(busy), subprocess.Popen(busy)\na.wait(), b.wait()"
    )
    used, _ = shares_used([sys.executable, "-S", "-c", prog], [0.3])
    assert used[0] > 0.15


def test_the_commands_exit_code_and_output_are_its_own(where):
    prog = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    lab = pylb_lab("--share", "1", "--quiet", "--", sys.executable, "-c", prog)
    assert lab.communicate(timeout=60) == ("out\n", "err\n")
    assert lab.returncode == 7
    lab = pylb_lab("--share", "1", "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    out, err = lab.communicate(timeout=60)
    assert (lab.returncode, out) == (128 + 9, "")
    assert err.startswith("pylb lab: ")
    assert left(where) == []


def test_a_program_that_does_not_exist(where):
    lab = pylb_lab("--share", "1", "--quiet", "--", "./no-such-program")
    out, err = lab.communicate(timeout=60)
    assert (lab.returncode, out) == (127, "")
    assert err == "pylb lab: cannot run './no-such-program': No such file or directory\n"


def test_several_shares_need_mpiexec(where):
    lab = pylb_lab("--share", "1,0.5", "--", "true")
    out, err = lab.communicate(timeout=60)
    assert (lab.returncode, out) == (2, "")
    assert err.startswith("pylb: 2 limits for 'true'")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_everything(where, number):
    # the program starts another one in its own session, and both ignore the first signal
    deaf = "import signal, time\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n"
    prog = deaf + (
        "import subprocess, sys, os\n"
        f"other = subprocess.Popen([sys.executable, '-c', {deaf + 'time.sleep(60)'!r}],"
        " start_new_session=True)\n"
        "print(os.getpid(), other.pid, flush=True)\ntime.sleep(60)"
    )
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)}
    lab = pylb_lab("--share", "1", "--quiet", "--", sys.executable, "-c", prog, **heard)
    pids = [int(word) for word in lab.stdout.readline().split()]
    assert len(pids) == 2
    lab.send_signal(number)
    time.sleep(0.1)
    lab.send_signal(number)  # the second signal kills
    assert lab.communicate(timeout=30) == ("", "")
    assert lab.returncode == 128 + number
    assert not any(map(alive, pids))
    assert left(where) == []


def test_nohup(where):
    """The lab caught SIGHUP also if its caller had told it to ignore this signal."""
    words = ["--share", "1", "--quiet", "--", "sh", "-c", "echo up; read line; echo $line"]
    deaf = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    lab = pylb_lab(*words, stdin=subprocess.PIPE, **deaf)
    assert lab.stdout.readline() == "up\n"
    lab.send_signal(signal.SIGHUP)
    time.sleep(0.3)  # the old lab ended the command at once
    assert lab.communicate("through\n", timeout=60)[0] == "through\n"
    assert lab.returncode == 0


def test_a_program_that_obeys_ends_at_once(where):
    prog = "import time; print('up', flush=True); time.sleep(60)"
    patient = (  # if the lab waited for the end of the grace period, this would take ten minutes
        "import sys; from pylb.cli.main import main; from pylb.lab import run; run.GRACE = 600.0; "
        "sys.exit(main(sys.argv[1:]))"
    )
    words = ["lab", "--share", "1", "--quiet", "--", sys.executable, "-c", prog]
    lab = subprocess.Popen(
        [sys.executable, "-c", patient, *words], stdout=subprocess.PIPE, text=True
    )
    assert lab.stdout.readline() == "up\n"
    lab.terminate()
    lab.communicate(timeout=60)
    assert lab.returncode == 128 + signal.SIGTERM


def test_what_the_program_leaves_behind_is_killed(where):
    prog = (
        "import subprocess, sys\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\nprint(other.pid)"
    )
    lab = pylb_lab("--share", "1", "--quiet", "--", sys.executable, "-c", prog)
    out, err = lab.communicate(timeout=30)
    assert (lab.returncode, err) == (0, "")
    assert not alive(int(out))


def test_an_error_of_the_lab_leaves_nothing(where, monkeypatch):
    def fails(child, *args):
        children.append(child)
        if len(children) > 1:
            return wait(child, *args)
        raise OSError("no more descriptors")

    children, wait = [], run.subprocess.Popen.wait
    monkeypatch.setattr(run.subprocess.Popen, "wait", fails)
    start = time.monotonic()
    with Lab([1.0]) as lab, pytest.raises(OSError, match="no more descriptors"):
        lab.run([sys.executable, "-c", "import time; time.sleep(60)"])
    assert not alive(children[0].pid)
    assert time.monotonic() - start < 30


def test_a_change_of_one_rank_leaves_the_others(where):
    with Lab([0.5]) as lab:
        lab.change(Change(ranks=(1,), values={"share": 0.25}))
        assert [limit.share for limit in lab.limits] == [0.5, 0.25]
        lab.change(Change(ranks=(0,), values={"share": 1.0}))
        assert [limit.share for limit in lab.limits] == [1.0, 0.25]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (Change(hosts=("a",), values={"share": 0.25}), "this lab has no hosts"),
        (Change(values={"bandwidth": 1e6}), "this lab has no hosts and no network"),
        (Change(values={"shar": 0.25}), "'shar' is unknown.*did you mean share"),
        (Change(values={"memory": 2**26}), "this lab began without memory limits"),
    ],
)
def test_changes_that_do_not_fit_the_lab(where, change, says):
    with Lab([0.5]) as lab:
        with pytest.raises(DomainError, match=says):
            lab.change(change)
        assert [limit.share for limit in lab.limits] == [0.5]


def test_labs_and_commands_that_are_none(where):
    for shares, says in [([], "profiles is empty"), (0.5, "plan is 0.5"), ("0.5", "share is '0'")]:
        with pytest.raises(DomainError, match=says):
            Lab(shares)
    with pytest.raises(DomainError, match=r"period_us is 2\.5"):
        Lab([0.5], period_us=2.5)
    with Lab([0.5]) as lab, pytest.raises(DomainError, match="command is 'true'"):
        lab.run("true")


def test_limits_can_change_before_the_command(where):
    with Lab([1.0]) as lab:
        lab.change(Change(values={"share": 0.5}))
        assert lab.run(["true"]) == 0
        assert lab.usage()[0].limit.share == 0.5
        with pytest.raises(DomainError, match="share is 0"):
            lab.change(Change(values={"share": 0.0}))
        assert lab.plan.profiles[0].share == 0.5


def test_the_end_of_a_lab_takes_no_time(where):
    """With Python 3.10, it took minutes: each file of the kernel was "removed" for 5 s."""
    lab = Lab([0.5])
    assert lab.run(["true"]) == 0
    begin = time.monotonic()
    lab.close()
    assert time.monotonic() - begin < 60.0


WAITS = "import time, os; print(os.getpid(), flush=True); time.sleep(60)"


def test_a_killed_lab_leaves_nothing(where):
    """A guard process removes what a killed lab has made, before the next lab starts."""
    killed = pylb_lab("--share", "1", "--", sys.executable, "-c", WAITS)
    pid = int(killed.stdout.readline())
    folders = [state.home(), *where]

    def remains():
        mine = f"{state.PREFIX}{killed.pid}-*"
        return [path for folder in folders for path in folder.glob(mine)] + [pid] * alive(pid)

    assert len(remains()) == len(folders) + 1
    killed.kill()
    killed.wait()
    deadline = time.monotonic() + 30
    while remains() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert remains() == []
    killed.communicate()


def test_the_next_lab_removes_what_a_killed_one_left(where):
    """The next lab cleans up even if the guard, which normally does, was also killed."""
    alone = (
        "import subprocess, sys; from pylb.cli.main import main; from pylb.lab import state; "
        "state.WAIT = 'read line'; sys.exit(main(sys.argv[1:]))"
    )
    words = ["lab", "--share", "1", "--", sys.executable, "-c", WAITS]
    killed = subprocess.Popen([sys.executable, "-c", alone, *words], stdout=subprocess.PIPE)
    pid = int(killed.stdout.readline())
    killed.kill()
    killed.wait()
    assert alive(pid)
    stale = left(where)
    assert stale
    living = Lab([1.0])
    with Lab([0.5]):  # the new lab must not remove the one that runs
        assert living._groups.bases[0].exists()
    assert not any(path.exists() for path in stale)
    assert not alive(pid)
    living.close()
    living.close()
    killed.communicate()


def test_a_metronome_ends_if_its_lab_was_killed_before_it_began():
    """It would keep the lab's output open, and a reader of it would wait forever."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    command = [*PROGRAM, "beat", "0", "500", str(gone.pid)]
    assert subprocess.run(command, timeout=30).returncode in (0, 1)  # 1: no real-time priority


def test_each_rank_is_limited_to_its_own_share(where, mpiexec):
    command = [*mpiexec, "-n", "3", sys.executable, "-S", "-c", BUSY.format(3)]
    used, usage = shares_used(command, [0.2, 0.4])
    assert [use.limit.share for use in usage] == [0.2, 0.4, 0.2]
    # Shares look smaller: mpiexec takes time to start, and the machine may be busy.
    assert used[1] > 1.4 * max(used[0], used[2])
    assert min(used) > 0.1
