"""Labs with hosts, memory limits and changes, with real effects, as root."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pylb.errors import NotAllowedError
from pylb.lab import (
    Change,
    Host,
    Lab,
    LabPlan,
    Link,
    Profile,
    announce,
    state,
)
from pylb.lab import network as network_module
from pylb.lab.plan import SLACK

pytest.importorskip("yaml")
pytestmark = pytest.mark.lab

TWO = LabPlan(
    hosts=(
        Host("fast", 2, Profile(0.5), Link(2e7, 1e-3)),
        Host("slow", 1, Profile(0.2), Link(2e7, 1e-3)),
    )
)


@pytest.fixture(scope="module")
def hosts():
    """Skip if hosts cannot be created; check that none is left afterwards."""
    try:
        Lab(TWO).close()
    except NotAllowedError as error:
        pytest.skip(str(error))
    yield
    assert left() == []


@pytest.fixture
def swap():
    """Skip if memory cannot be limited, or if there is no swap."""
    try:
        Lab(LabPlan((Profile(memory=2**26),))).close()
    except NotAllowedError as error:
        pytest.skip(str(error))
    yield
    assert left() == []


def left(pid=None):
    """Return all folders and files of the labs of a process; default: this process."""
    name = f"{state.PREFIX}{pid or os.getpid()}-"
    places = (state.home(), Path("/run/netns"), Path("/var/tmp"))
    return [path.name for place in places if place.is_dir() for path in place.glob(f"{name}*")]


RANK = """
import os, socket, sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
mine = (comm.rank, socket.gethostname(), os.listdir("/proc/sys/net/ipv4/conf"))
every = comm.gather(mine)
data = bytes(500_000)
comm.Barrier()
start = MPI.Wtime()
if comm.rank == 0:
    comm.Send(data, 2)
    comm.Recv(bytearray(1), 2)
elif comm.rank == 2:
    comm.Recv(bytearray(len(data)), 0)
    comm.Send(b"!", 0)
if comm.rank == 0:
    print([(rank, host, "eth0" in devices, len(devices)) for rank, host, devices in every])
    print(8 * len(data) / (MPI.Wtime() - start))
"""


def test_messages_between_hosts_use_their_network(hosts, mpiexec, capfd):
    version = subprocess.run([mpiexec[0], "--version"], capture_output=True, text=True).stdout
    if "HYDRA" in version:
        pytest.skip("MPICH speaks through memory wherever it can")
    with Lab(TWO) as lab:
        code = lab.run([*mpiexec, "-n", "3", sys.executable, "-c", RANK])
        usage = lab.usage()
        notes = lab.notes
    out, said = capfd.readouterr()
    assert code == 0, said
    where, bandwidth = out.splitlines()[-2:]
    # Each host sees its own devices: all, default, lo, eth0.
    assert where == str([(0, "fast", True, 4), (1, "fast", True, 4), (2, "slow", True, 4)])
    assert 0.3e7 < float(bandwidth) < 2.6e7  # the first 64 kB pass at once (token bucket)
    assert [use.host for use in usage] == ["fast", "fast", "slow"]
    assert [use.limit.share for use in usage] == [0.5, 0.5, 0.2]
    assert all("netem" in note for note in notes)


def test_what_hosts_enforce_is_measured(hosts):
    for _ in range(3):
        with Lab(TWO) as lab:
            held, joined = lab.measure()
            assert lab.usage() == []
        # A rank gets less time on a busy machine, and more if the kernel stops it late.
        shares = [one.share for one in held]
        if all(x < limit.share + 0.1 for x, limit in zip(shares, lab.limits, strict=True)):
            break
    for limit, share in zip(lab.limits, shares, strict=True):
        assert 0.05 * limit.share < share < limit.share + 0.1
    assert [(one.source, one.target) for one in joined] == [("fast", "slow"), ("slow", "fast")]
    for one in joined:
        assert 0.3e7 < one.bandwidth < 2.6e7


def next_undoes_a_killed_lab(words):
    """Kill a lab; return whether it leaves all, and the next one says that it removes all."""
    command = [sys.executable, "-m", "pylb", "lab", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        pid = int(killed.stdout.readline())
        made = left(killed.pid)
        assert len(made) == 5  # the lab's folder, two hosts, the switch, the swap file
        killed.kill()
        killed.wait()
        untouched = left(killed.pid) == made
        with Lab([1.0]) as lab:
            said = " ".join(lab.notes)
        assert left(killed.pid) == []
        assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text()
    return untouched and all(f"removed {kind}" in said for kind in ("group", "namespace", "swap"))


def test_a_killed_lab_is_undone_by_the_next_one(hosts, swap, tmp_path):
    (tmp_path / "lab.yaml").write_text(
        "hosts: {a: {memory: 64 MiB}, b: {}}\nswap: 16 MiB\nnetwork: {bandwidth: 1 Gbit/s}"
    )
    prog = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    # Two hosts need an mpiexec; here it is a shell script.
    fake = tmp_path / "mpiexec"
    fake.write_text('#!/bin/sh\nexport PMI_RANK=0\nexec "$@"\n')
    fake.chmod(0o755)
    words = ["--lab", str(tmp_path / "lab.yaml"), "--quiet", "--"]
    words += [str(fake), sys.executable, "-c", prog]
    # The lab of another test that runs at the same time can be the next one.
    assert any(next_undoes_a_killed_lab(words) for _ in range(3))


def test_an_interrupted_lab_leaves_nothing(hosts, tmp_path):
    (tmp_path / "lab.yaml").write_text("hosts: {a: {}}")
    words = [sys.executable, "-m", "pylb", "lab", "--lab", str(tmp_path / "lab.yaml"), "--quiet"]
    words += ["--", "sh", "-c", "echo up; hostname; sleep 60"]
    lab = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert [lab.stdout.readline() for _ in range(2)] == ["up\n", "a\n"]
    lab.send_signal(signal.SIGTERM)
    lab.communicate(timeout=30)
    assert lab.returncode == 128 + signal.SIGTERM
    assert left(lab.pid) == []


def test_a_missing_tool_is_named(monkeypatch):
    if os.geteuid() == 0:
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(NotAllowedError, match="hosts need ip: apt-get install -y iproute2"):
            Lab(TWO)
    monkeypatch.setattr(network_module.os, "geteuid", lambda: 1000)
    with pytest.raises(NotAllowedError, match=r"hosts need .*: run as root"):
        network_module._check_tools()


PAGING = """
import resource, sys
data = bytearray(160 * 2**20)
for sweep in range(int(sys.argv[1])):
    for at in range(0, len(data), 4096):
        data[at] = 1
    if resource.getrusage(resource.RUSAGE_SELF).ru_majflt > 2000:
        break
"""


@pytest.mark.parametrize(("memory", "sweeps", "pages"), [(2**26, 5000, True), (2**28, 2, False)])
def test_memory_beyond_the_limit_pages(swap, memory, sweeps, pages):
    """The lab enforces the limit now and then, so the program sweeps until it has paged.

    On a busy machine, two sweeps may end before the lab has looked once.
    """
    with Lab(LabPlan((Profile(1.0, memory=memory),))) as lab:
        assert lab.run([sys.executable, "-S", "-c", PAGING, str(sweeps)]) == 0
        (use,) = lab.usage()
    assert use.memory <= memory + SLACK
    assert (use.paged > 1000) == pages
    assert use.killed == 0


def test_changes_come_at_their_time_and_at_their_moment(capfd):
    prog = (
        "import time\nfrom pylb.lab import announce\n"
        "def used(seconds):\n"
        "    start, before = time.perf_counter(), time.process_time()\n"
        "    while time.perf_counter() - start < seconds: pass\n"
        "    return (time.process_time() - before) / (time.perf_counter() - start)\n"
        "print(used(0.5))\n"
        "print(announce('half'), announce('half'), announce('never'))\n"
        "print(used(1.0))\n"
    )
    plan = LabPlan(
        (Profile(0.8),),
        changes=(
            Change(when="half", values={"share": 0.2}),
            Change(at=60.0, values={"share": 1.0}),
            Change(at=0.01, values={"share": 0.7}),
        ),
    )
    most = 0.0
    for _ in range(3):  # other programs may use the core meanwhile
        try:
            lab = Lab(plan)
        except NotAllowedError as error:
            pytest.skip(str(error))
        with lab:
            assert lab.run([sys.executable, "-c", prog]) == 0
            assert lab.usage()[0].limit.share == 0.2
        first, said, then = capfd.readouterr().out.splitlines()
        assert said == "True False False"
        assert float(then) < 0.3
        assert [done.change.values["share"] for done in lab.done] == [0.7, 0.2]
        assert not any(done.failed for done in lab.done)
        most = max(most, float(first))
        if most > 0.35:
            break
    assert most > 0.35


def test_moments_outside_of_a_lab_have_no_effect(monkeypatch):
    monkeypatch.delenv("PYLB_LAB_MOMENTS", raising=False)
    assert announce("half") is False


def test_the_command_line_says_what_it_measured(hosts, tmp_path):
    (tmp_path / "lab.yaml").write_text(
        "hosts: {a: {share: 0.3}, b: {share: 0.2}}\nnetwork: {bandwidth: 50 Mbit/s, latency: 1ms}"
    )
    made = subprocess.run(
        [sys.executable, "-m", "pylb", "lab", "--lab", str(tmp_path / "lab.yaml"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (made.returncode, made.stdout) == (0, ""), made.stderr
    assert "limits, measured with programs that try to use more" in made.stderr
    assert "50 Mbit/s" in made.stderr
