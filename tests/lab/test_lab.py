"""The lab: shares, command lines, and ranks whose limits are really enforced."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pylb.comm.mpiexec import insert_before_programs, is_mpiexec, n_ranks
from pylb.errors import DomainError, NotAllowedError
from pylb.lab import Lab, Limit, cgroup, plan, shares, state, units

BUSY = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


# --- shares ---------------------------------------------------------------------------------


def test_shares_and_periods_are_read():
    assert plan.values_of("share", "0.25,0.5, 1") == [0.25, 0.5, 1.0]
    periods = [units.microseconds("period", t) for t in ("5ms", "2500us", "0.1s")]
    assert periods == [5000, 2500, 100000]


@pytest.mark.parametrize("text", ["", "a", "0.5;0.5", "0.5,"])
def test_shares_that_are_not_numbers(text):
    with pytest.raises(DomainError, match="share is"):
        plan.values_of("share", text)


@pytest.mark.parametrize("text", ["", "5", "ms", "5 min", "-5ms", "5e3us"])
def test_periods_without_number_or_unit(text):
    with pytest.raises(DomainError, match=r"period is .*expected a time with its unit"):
        units.microseconds("period", text)


def test_shares_become_limits_that_the_kernel_accepts():
    assert shares.limits([0.25, 1.5], 2) == [Limit(1250, 5000), Limit(7500, 5000)]
    # the kernel refuses a quota below 1 ms, so the period grows instead
    assert shares.limits([0.1, 0.001], 2) == [Limit(1000, 10_000), Limit(1000, 1_000_000)]
    assert shares.limits([0.5], 2, 20_000) == [Limit(10_000, 20_000)]


@pytest.mark.parametrize(
    ("given", "period", "said"),
    [
        ([], None, "shares is empty"),
        ([0.0], None, r"share is 0: expected 0.001 ... 2 cores"),
        ([-1.0], None, "share is -1"),
        ([2.5], None, "share is 2.5"),
        ([float("nan")], None, "share is nan"),
        ([float("inf")], None, "share is inf"),
        ([0.5], 999, r"period is 0.999 ms: expected 1 ... 1000 ms"),
        ([0.5], 1_000_001, "period is 1000.001 ms"),
        ([0.1], 5000, r"period is 5 ms: a share of 0.1 needs at least 10 ms"),
    ],
)
def test_limits_out_of_range(given, period, said):
    with pytest.raises(DomainError, match=said):
        shares.limits(given, 2, period)


# --- command lines --------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["mpiexec", "/usr/bin/mpirun", "mpiexec.hydra", "mpirun.openmpi"])
def test_mpiexec_is_recognised(word):
    assert is_mpiexec(word)


@pytest.mark.parametrize("word", ["python", "./mpiexec_test", "mpiexecutor", "run-mpiexec"])
def test_other_programs_are_not_mpiexec(word):
    assert not is_mpiexec(word)


@pytest.mark.parametrize(
    "command",
    [
        "mpiexec @ ./a",
        "mpiexec -n 8 @ python prog.py -n 3",
        "mpirun --oversubscribe --map-by core -np 2 @ ./a x",
        "mpirun --mca btl self,tcp -x PATH --bind-to none @ ./a",
        "mpirun --map-by=node --np 4 @ ./a --mca not ours",
        "mpiexec -genv A 1 -env B 2 -l -ppn 2 -launcher fork @ ./a",
        "mpiexec -n 2 @ ./a : -n 1 -host h @ ./b c : @ ./d",
        "mpiexec -n 2 --new-option @ sh prog.sh",
        "mpiexec -n 2 --new-option=value @ python prog.py",
    ],
)
def test_the_launcher_stands_before_each_program(command):
    words = command.split()
    expected = [part for word in words for part in (["hold", "it"] if word == "@" else [word])]
    given = [word for word in words if word != "@"]
    assert insert_before_programs(given, ["hold", "it"]) == expected


@pytest.mark.parametrize(
    ("command", "n"),
    [
        ("mpiexec ./a -n 3", None),
        ("mpiexec -n 8 ./a", 8),
        ("mpirun -np=2 ./a : --n 3 ./b", 5),
        ("mpirun -np 2 ./a : ./b", None),
    ],
)
def test_ranks_are_counted(command, n):
    assert n_ranks(command.split()) == n


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("mpiexec", "no program"),
        ("mpiexec -n 2", "no program"),
        ("mpiexec -n 2 ./a :", "no program"),
        ("mpiexec -configfile f", "takes the programs from a file"),
        ("mpirun --app f", "takes the programs from a file"),
        ("mpiexec --new-option no-such-program a", "write --new-option=no-such-program"),
    ],
)
def test_commands_whose_program_cannot_be_found(command, said):
    with pytest.raises(DomainError, match=said):
        insert_before_programs(command.split(), ["hold"])


# --- where the groups go --------------------------------------------------------------------

V1 = """\
30 20 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw
"""


def test_version_1_together_and_apart():
    own = "4:cpu,cpuacct:/user\n3:memory:/x\n0::/y\n"
    both = [Path("/sys/fs/cgroup/cpu,cpuacct/user"), Path("/sys/fs/cgroup/memory/x")]
    assert cgroup.parents(V1, own) == both[:1]  # without a memory limit
    assert cgroup.parents(V1, own, memory=True) == both
    apart = (
        "31 30 0:27 /docker/7 /cg/cpu rw - cgroup cgroup rw,cpu\n"
        "32 30 0:28 / /cg/cpuacct rw - cgroup cgroup rw,cpuacct\n"
    )
    own = "4:cpu:/docker/7\n3:cpuacct:/a\n"
    assert cgroup.parents(apart, own) == [Path("/cg/cpu"), Path("/cg/cpuacct/a")]
    hidden = "4:cpu:/host/9\n3:cpuacct:/\n"
    assert cgroup.parents(apart, hidden) == [Path("/cg/cpu"), Path("/cg/cpuacct")]


@pytest.mark.parametrize("mountinfo", ["", V1.splitlines(keepends=True)[2]])
def test_no_hierarchy_with_the_processor(mountinfo):
    with pytest.raises(NotAllowedError, match="run as root, or in a delegated cgroup v2"):
        cgroup.parents(mountinfo, "3:memory:/x\n")


def version_2(top, *groups):
    """Make a delegated tree; groups: path, controllers, subtree_control, processes."""
    for path, controllers, children, processes in groups:
        folder = top / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.subtree_control").write_text(children)
        (folder / "cgroup.procs").write_text(processes)
        (folder / "cgroup.type").write_text("domain\n")
    return f"33 30 0:29 / {top} rw - cgroup2 cgroup2 rw\n"


def test_version_2_takes_the_nearest_group_that_is_divided(tmp_path):
    info = version_2(
        tmp_path,
        ("user", "cpu memory", "cpu memory", ""),
        ("user/app", "cpu memory", "cpu", ""),
        ("user/app/shell", "cpu", "", f"1\n{os.getpid()}\n"),
    )
    assert cgroup.parents(info, "0::/user/app/shell\n") == [tmp_path / "user/app"]


def test_version_2_divides_a_group_of_its_own(tmp_path):
    info = version_2(tmp_path, ("scope", "cpu", "", f"{os.getpid()}\n"))
    assert cgroup.parents(info, "0::/scope\n") == [tmp_path / "scope"]
    assert (tmp_path / "scope/cgroup.subtree_control").read_text() == "+cpu"
    assert (tmp_path / "scope/pylb/cgroup.procs").read_text() == str(os.getpid())


def test_version_2_with_memory(tmp_path):
    info = version_2(tmp_path, ("scope", "cpu memory", "cpu", ""), ("scope/app", "cpu", "", ""))
    assert cgroup.parents(info, "0::/scope/app\n") == [tmp_path / "scope"]
    assert cgroup.parents(info, "0::/scope\n", memory=True) == [tmp_path / "scope"]
    assert (tmp_path / "scope/cgroup.subtree_control").read_text() == "+cpu +memory"


def test_a_controller_that_is_not_there():
    with pytest.raises(NotAllowedError, match="no cgroup hierarchy with the controller memory"):
        cgroup.parents(V1.replace("rw,memory", "rw,pids"), "4:cpu,cpuacct:/\n", memory=True)


def test_version_2_without_delegation_is_refused(tmp_path):
    info = version_2(
        tmp_path, ("user", "memory", "memory", ""), ("user/shell", "memory", "", "1\n")
    )
    with pytest.raises(NotAllowedError, match=r"user/shell upwards.*Delegate=yes"):
        cgroup.parents(info, "0::/user/shell\n")


# --- with the control groups of this machine ------------------------------------------------


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


def shares_used(command, given, attempts=3):
    """Return how many cores each rank used, in the best of some runs: the machine may be busy.

    The kernel guarantees only an upper bound, which holds in every run. A period in which a rank
    was stopped gave it its whole share.
    """
    best = []
    for _ in range(attempts):
        with Lab(given) as lab:
            assert lab.run(command) == 0
            usage = lab.usage()
        assert [use.rank for use in usage] == list(range(len(usage)))
        used = [use.cpu_seconds / lab.seconds for use in usage]
        for use, cores in zip(usage, used, strict=True):
            assert use.limit.share == given[use.rank % len(given)]
            assert cores < use.limit.share + 0.05
            assert cores > use.limit.share * use.throttled / max(use.periods, 1) - 0.05
        best = max(best, used, key=sum)
        if all(c > use.limit.share - 0.05 for use, c in zip(usage, used, strict=True)):
            break
    return best, usage


@pytest.mark.parametrize("share", [0.25, 0.1])
def test_a_busy_loop_gets_its_share(where, share):
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
    assert err.startswith("pylb: 2 shares for 'true'")


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
    lab = pylb_lab("--share", "1", "--quiet", "--", sys.executable, "-c", prog)
    pids = [int(word) for word in lab.stdout.readline().split()]
    assert len(pids) == 2
    lab.send_signal(number)
    time.sleep(0.1)
    lab.send_signal(number)  # the second signal kills
    assert lab.communicate(timeout=30) == ("", "")
    assert lab.returncode == 128 + number
    assert not any(map(alive, pids))
    assert left(where) == []


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
        "import subprocess, sys; from pylb.cli.main import main; from pylb.lab import guard; "
        "guard.WAIT = 'read line'; sys.exit(main(sys.argv[1:]))"
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


def test_each_rank_is_limited_to_its_own_share(where, mpiexec):
    command = [*mpiexec, "-n", "3", sys.executable, "-S", "-c", BUSY.format(3)]
    used, usage = shares_used(command, [0.2, 0.4])
    assert [use.limit.share for use in usage] == [0.2, 0.4, 0.2]
    # Shares look smaller: mpiexec takes time to start, and the machine may be busy.
    assert used[1] > 1.4 * max(used[0], used[2])
    assert min(used) > 0.1
