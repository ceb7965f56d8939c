"""The lab: shares, command lines, and where control groups go."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylb.comm.mpiexec import insert_before_programs, is_mpiexec, n_ranks
from pylb.errors import DomainError, FormatError, MissingFileError, NotAllowedError
from pylb.lab import Change, Host, LabPlan, Limit, Link, Profile, caps, cgroup, plan, state, units
from pylb.lab.run import changing

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
    assert plan.limit_of(0.25, 2) == Limit(1250, 5000)
    assert plan.limit_of(1.5, 2) == Limit(7500, 5000)
    # the kernel refuses a quota below 1 ms, so the period grows instead
    assert plan.limit_of(0.1, 2) == Limit(1000, 10_000)
    assert plan.limit_of(0.001, 2) == Limit(1000, 1_000_000)
    assert plan.limit_of(0.5, 2, 20_000) == Limit(10_000, 20_000)


@pytest.mark.parametrize(
    ("given", "period", "said"),
    [
        (0.0, None, r"share is 0: expected 0.001 ... 2 cores"),
        (-1.0, None, "share is -1"),
        (2.5, None, "share is 2.5"),
        (float("nan"), None, "share is nan"),
        (float("inf"), None, "share is inf"),
        (0.5, 999, r"period is 0.999 ms: expected 1 ... 1000 ms"),
        (0.5, 1_000_001, "period is 1000.001 ms"),
        (0.1, 5000, r"period is 5 ms: a share of 0.1 needs at least 10 ms"),
    ],
)
def test_limits_out_of_range(given, period, said):
    with pytest.raises(DomainError, match=said):
        plan.limit_of(given, 2, period)


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


def test_a_group_that_exists_is_refused_and_left(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "home", lambda: tmp_path)
    lab, other = state.State(), tmp_path / "groups"
    (other / lab.name).mkdir(parents=True)
    with pytest.raises(NotAllowedError, match="exists: expected no group"):
        cgroup.Groups(lab, [other])
    assert lab.remove() == []
    assert (other / lab.name).is_dir()


def test_version_2_without_delegation_is_refused(tmp_path):
    info = version_2(
        tmp_path, ("user", "memory", "memory", ""), ("user/shell", "memory", "", "1\n")
    )
    with pytest.raises(NotAllowedError, match=r"user/shell upwards.*Delegate=yes"):
        cgroup.parents(info, "0::/user/shell\n")


# ---- plans of labs: quantities, caps, the YAML file, changes; no limit is enforced here --------


def load(tmp_path, text):
    (tmp_path / "lab.yaml").write_text(text)
    return LabPlan.load(tmp_path / "lab.yaml")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (units.TIME, "5 ms", 0.005),
        (units.TIME, 2, 2.0),
        (units.POWER, "23W", 23.0),
        (units.BYTES, "64MiB", 2**26),
        (units.BYTES, "1.5 GB", 1.5e9),
        (units.RATE, "100 Mbit/s", 1e8),
    ],
)
def test_quantities(kind, text, value):
    assert units.quantity(kind, "x", text) == pytest.approx(value)


@given(
    value=st.floats(1e-90, 1e20) | st.integers(0, 10**20),
    unit=st.sampled_from([*units.TIME.units, ""]),
    how=st.sampled_from(["{}", "{:e}", "{:E}"]),
)
def test_every_number_that_yaml_reads_is_a_quantity(value, unit, how):
    yaml = pytest.importorskip("yaml")
    text = f"{how.format(value)}{unit}"
    expected = pytest.approx(float(how.format(value)) * units.TIME.units.get(unit, 1.0), rel=1e-12)
    assert units.quantity(units.TIME, "latency", text) == expected
    assert units.quantity(units.TIME, "latency", yaml.safe_load(text)) == expected


@pytest.mark.parametrize("text", ["", "W", "-3 W", "3 w", "3 kg", "1..2 W", True, None, [3], "inf"])
def test_texts_that_are_not_quantities(text):
    with pytest.raises(DomainError, match=r"cap is .*expected a power with its unit \(W\), e.g."):
        units.quantity(units.POWER, "cap", text)


def test_bandwidth_needs_its_unit():
    with pytest.raises(DomainError, match="Mbit/s"):
        units.quantity(units.RATE, "bandwidth", 100)


def test_caps_widen_the_spread_as_they_fall():
    nodes = range(len(caps.NODES))
    before = 0.0
    for watts in (60, 27, 26, 25, 24, 23):
        speeds = [caps.speed(watts, node) for node in nodes]
        spread = (max(speeds) - min(speeds)) / (max(speeds) + min(speeds))
        assert max(speeds) <= 1.0
        assert spread > before
        assert speeds[:2] == [max(speeds), min(speeds)]
        before = spread
    assert before == pytest.approx(0.4)  # 35 s and 15 s at 23 W, figure 8
    assert sum(speeds) / len(speeds) == pytest.approx(0.5)
    assert caps.speed(60, 1) == pytest.approx(1.0, abs=1e-6)
    for watts in (22.9, 96, float("nan")):
        with pytest.raises(DomainError, match=r"expected 23 ... 95 W"):
            caps.speed(watts, 0)


def test_a_file(tmp_path):
    plan = load(
        tmp_path,
        """
        share: 0.5
        ranks:
          - {memory: 64 MiB}
          - {cap: 23 W, share: 1}
        swap: 100 MB
        period: 10 ms
        changes:
          - {at: 2 s, cap: 24 W, ranks: 1}
          - {when: half, share: 0.25}
        """,
    )
    assert plan.profiles == (Profile(0.5, None, 2**26), Profile(1.0, 23.0, None))
    assert (plan.swap, plan.period_us) == (100_000_000, 10_000)
    assert plan.changes == (
        Change(2.0, None, (1,), None, {"cap": 24.0}),
        Change(None, "half", None, None, {"share": 0.25}),
    )
    assert [str(c) for c in plan.changes] == ["rank 1: cap 24 W", "all: share 0.25"]
    ended = Change(at=3.0, values={"share": None, "memory": None})
    assert str(ended) == "all: share an equal part, memory no limit"
    # The second of the nodes is the slowest under a cap: 1/2 (1 - 0.4).
    assert plan.limits(2)[:2] == [Limit(5000, 10_000, 2**26), Limit(3000, 10_000)]
    assert plan.needs_memory


def test_hosts(tmp_path):
    plan = load(
        tmp_path,
        """
        hosts:
          fast: {ranks: 3, share: 0.5}
          slow: {share: 0.2, bandwidth: 10 Mbit/s}
        network: {bandwidth: 1 Gbit/s, latency: 1 ms}
        changes: [{at: 1, hosts: slow, bandwidth: 100 Mbit/s}]
        """,
    )
    assert plan.hosts == (
        Host("fast", 3, Profile(0.5), Link(1e9, 1e-3)),
        Host("slow", 1, Profile(0.2), Link(1e7, 1e-3)),
    )
    assert [limit.share for limit in plan.limits()] == [0.5, 0.2]
    later = plan.after(plan.changes[0])
    assert [host.link.bandwidth for host in later.hosts] == [1e9, 1e8]


def test_ranks_without_a_share_get_equal_parts():
    plan = LabPlan((Profile(), Profile(0.1)))
    assert [limit.share for limit in plan.limits(8, cores=2)] == [0.25, 0.1]
    assert [limit.share for limit in plan.limits(1, cores=2)] == [1.0, 0.1]
    capped = LabPlan((Profile(cap=23.0),)).limits(4, cores=2)
    assert [limit.share for limit in capped] == pytest.approx(
        [0.35, 0.15, 0.25 * 3.4 / 3, 0.65 / 3], rel=1e-3
    )


def test_changes_of_some_ranks_take_a_profile_for_each():
    plan = LabPlan(
        (Profile(0.5), Profile(0.25)), changes=(Change(at=1.0, ranks=(2,), values={"share": 1.0}),)
    )
    wide = plan.expanded(4)
    assert [p.share for p in wide.profiles] == [0.5, 0.25, 0.5, 0.25]
    assert [p.share for p in wide.after(plan.changes[0]).profiles] == [0.5, 0.25, 1.0, 0.25]
    assert [p.share for p in plan.profiles] == [0.5, 0.25]


def test_a_change_that_fails_is_reported(tmp_path):
    plan = LabPlan((Profile(0.5),), period_us=2000)

    def apply(change):
        plan.after(change).limits(8, cores=2)

    changes = [Change(at=0.0, values={"share": share}) for share in (None, 0.6)]
    with changing(changes, tmp_path / "moments", apply) as done:
        deadline = time.monotonic() + 30
        while len(done) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    first, second = (one.failed for one in done)
    assert first.startswith("period is 2 ms: a share of 0.25 needs at least 4 ms")
    assert second == ""


def test_changes_are_made_in_order_of_time(tmp_path):
    changes = [Change(at=at, values={"share": 0.5}) for at in (2e-9, 0.0, 1e-9)]
    with changing(changes, tmp_path / "moments", lambda change: None) as done:
        while len(done) < 3:
            time.sleep(0.01)
    assert [one.change.at for one in done] == [0.0, 1e-9, 2e-9]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sahre: 0.5", r"lab\.yaml: the file: key 'sahre' is unknown.*did you mean share\?"),
        ("ranks: [{memry: 1}]", r"ranks\[0\]: key 'memry' is unknown.*did you mean memory\?"),
        ("hosts: {a: {rank: 1}}", r"hosts\.a: key 'rank' is unknown.*did you mean ranks\?"),
        ("0.5", "the file is 0.5: expected keys"),
        ("", "the file is None"),
        ("ranks: 4", r"ranks is 4: expected a list"),
        ("ranks: []", r"ranks is \[\]: expected a list with items"),
        ("share: half", "share is 'half': expected cores"),
        ("share: -1", "share is -1"),
        ("share: 1000", "share is 1000: expected 0.001 ..."),
        ("cap: 5 W", r"cap is 5 W: expected 23 ... 95 W"),
        ("memory: 3 kB", "memory is 3000 B: expected at least 1 MiB"),
        ("memory: 0", "memory is 0 B: expected at least 1 MiB"),
        ("period: 5", "period is '5': expected a time with its unit"),
        ("network: {bandwidth: 1 Gbit/s}", "network is given without hosts"),
        ("hosts: {a: {}}\nranks: [{}]", "ranks and hosts are both given: expected one"),
        ("hosts: {A_1: {}}", r"hosts\.A_1: expected a host name"),
        ("hosts: {a: {ranks: 0}}", r"hosts\.a\.ranks is 0"),
        ("hosts: {a: {bandwidth: 100}}", r"hosts\.a\.bandwidth is 100: expected a bandwidth"),
        ("hosts: {a: {}}\nchanges: [{at: 1, hosts: b, share: 1}]", "'b' is unknown"),
        ("hosts: {a: {}}\nchanges: [{at: 1, ranks: 0, share: 1}]", "this lab has hosts; use"),
        ("changes: [{at: 1, bandwidth: 1 Mbit/s}]", "no hosts and no network"),
        ("changes: [{share: 1}]", r"changes\[0\]: expected either at"),
        ("changes: [{at: 1, when: x, share: 1}]", r"changes\[0\]: expected either at"),
        ("changes: [{at: 1}]", r"changes\[0\] changes nothing"),
        ("changes: [{at: 1, ranks: [-1], share: 1}]", "ranks is -1"),
        ("changes: [{at: 1, share: 99999}]", "share is 99999"),
        ("changes: {at: 1}", "changes is"),
    ],
)
def test_files_that_are_wrong(tmp_path, text, says):
    with pytest.raises(DomainError, match=says):
        load(tmp_path, text)


HALF = Profile(0.5)
ALL = {"values": {"share": 0.25}}


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (LabPlan(()), "profiles is empty"),
        (LabPlan((Profile("0.5"),)), "share is '0.5'"),
        (LabPlan((Profile(cap="25 W"),)), "cap is '25 W'"),
        (LabPlan((Profile(memory=6.4e7),)), "memory is 64000000.0"),
        (LabPlan(swap=-1), "swap is -1"),
        (LabPlan((HALF,), changes=(Change(**ALL),)), r"changes\[0\]: expected either at"),
        (LabPlan((HALF,), changes=(Change(1.0, "half", **ALL),)), "expected either at"),
        (LabPlan((HALF,), changes=(Change(-1.0, **ALL),)), r"changes\[0\].at is -1"),
        (LabPlan((HALF,), changes=(Change(1.0, values={"shar": 1}),)), "did you mean share"),
        (LabPlan((HALF,), changes=(Change(1.0, ranks=1, **ALL),)), "ranks is 1: expected ranks"),
        (LabPlan((HALF,), changes=(Change(1.0, ranks=(-1,), **ALL),)), "ranks is -1"),
        (LabPlan(hosts=(Host("a b"),)), "hosts.a b: expected a host name"),
        (LabPlan(hosts=(Host("a"), Host("a"))), "hosts.a: expected each name once"),
        (LabPlan(hosts=(Host("a", 0),)), "hosts.a.ranks is 0"),
        (LabPlan(hosts=(Host("a", link=Link(0)),)), "hosts.a.bandwidth is 0"),
        (LabPlan(hosts=(Host("a", link=Link(latency=-1.0)),)), "hosts.a.latency is -1"),
        (
            LabPlan(hosts=(Host("a"),), changes=(Change(1.0, values={"bandwidth": -1.0}),)),
            r"changes\[0\].bandwidth is -1",
        ),
    ],
)
def test_plans_that_are_wrong(plan, says):
    with pytest.raises(DomainError, match=says):
        plan.check()


def test_files_that_are_not_plans(tmp_path):
    with pytest.raises(FormatError, match=r"lab\.yaml: not YAML: .*line 1"):
        load(tmp_path, "share: [")
    with pytest.raises(MissingFileError, match=r"nowhere\.yaml: no such file"):
        LabPlan.load(tmp_path / "nowhere.yaml")


ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join(f'*a{i - 1}' for _ in range(9))}]\n" for i in range(1, 8)
)


@pytest.mark.parametrize(
    "text",
    [
        ALIASES,
        ALIASES.replace("a7:", "share:"),
        ALIASES.replace("a7:", "memory:"),
        ALIASES.replace("a7:", "ranks:"),
        ALIASES.replace("a7:", "hosts:"),
        "share: &a [*a]",
        "ranks: " + "[" * 5000,
        "ranks: " + "{a: " * 5000,
        "ranks:\n" + "- " * 5000,
        "memory: " + "9" * 400,
        "memory: 1" + "0" * 5000,
        "share: 1" + "0" * 400,
        "share: .nan",
        "swap: 2001-99-99",
        "changes: [{at: 1s, ranks: 100000000, share: 0.5}]",
        "\0",
    ],
)
def test_made_files_get_short_errors(tmp_path, text):
    (tmp_path / "lab.yaml").write_text(text)
    with pytest.raises((FormatError, DomainError), match=r"lab\.yaml: ") as caught:
        LabPlan.load(tmp_path / "lab.yaml")
    assert len(str(caught.value)) < 500
