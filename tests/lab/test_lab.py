"""The lab: shares, command lines, and where control groups go."""

import os
from pathlib import Path

import pytest

from pylb.comm.mpiexec import insert_before_programs, is_mpiexec, n_ranks
from pylb.errors import DomainError, NotAllowedError
from pylb.lab import Limit, cgroup, plan, units

# --- shares ---------------------------------------------------------------------------------


def test_shares_and_periods_are_read():
    assert plan.values_of("share", "0.25,0.5, 1") == [0.25, 0.5, 1.0]
    periods = [units.microseconds("period", t) for t in ("5ms", "2500us", "0.1s")]
    assert periods == [5000, 2500, 100000]


@pytest.mark.parametrize("text", ["", "a", "0.5;0.5", "0.5,"])
def test_shares_that_are_not_numbers(text):
    with pytest.raises(DomainError, match="share is"):
        plan.values_of("share", text)


@pytest.mark.parametrize("text", ["", "5", "ms", "5 min", "-5ms"])
def test_periods_without_number_or_unit(text):
    with pytest.raises(DomainError, match=r"period is .*expected a time with its unit"):
        units.microseconds("period", text)


def test_shares_become_limits_that_the_kernel_accepts():
    assert plan.limits([0.25, 1.5], 2) == [Limit(1250, 5000), Limit(7500, 5000)]
    # the kernel refuses a quota below 1 ms, so the period grows instead
    assert plan.limits([0.1, 0.001], 2) == [Limit(1000, 10_000), Limit(1000, 1_000_000)]
    assert plan.limits([0.5], 2, 20_000) == [Limit(10_000, 20_000)]


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
        plan.limits(given, 2, period)


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
