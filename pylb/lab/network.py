"""Hosts on one machine: network namespaces connected by a switch, with MPI between them.

Each host is a namespace with one interface, ``eth0``, and a name of its own (a UTS namespace for
each process that enters it).  The interfaces lead to a bridge in a separate namespace.  A token
bucket (tc-tbf) at each end limits the bandwidth in both directions; tc-netem adds half of the
latency at each end.  MPI's launcher enters a host's namespace instead of using ssh.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from pylb.errors import NotAllowedError
from pylb.lab.plan import Host, Link
from pylb.lab.state import State, attempt, must

TOOLS = {"iproute2": ("ip", "tc"), "util-linux": ("nsenter", "unshare"), "mount": ("mount",)}
NETWORK = "10.77.0."
LONGEST_QUEUE = "50ms"
LEAST_BURST = 65_536  # bytes: the largest segment that the kernel passes to a network card
TICK = 0.004  # seconds; a bucket smaller than the data of one tick would limit the rate further

# A host has the machine's file systems, but its own host name and its own /etc/hosts.
ENTER = """\
#!/bin/sh
# enter HOST COMMAND...: become the command on that host of the lab
here=$(dirname "$0") host=$1
shift
exec nsenter --net="/run/netns/$(basename "$here").$host" unshare --mount --uts sh -c '
mount --bind "$0/hosts" /etc/hosts && hostname "$1" && shift && exec "$@"' "$here" "$host" "$@"
"""
AGENT = """\
#!/bin/sh
# like rsh: agent [options] HOST COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec "$(dirname "$0")/enter" "$host" sh -c "$*"
"""


class HostNetwork:
    """The connected hosts of a lab; `notes` says what this machine cannot provide."""

    def __init__(self, state: State, hosts: Sequence[Host]) -> None:
        _check_tools()
        self._state, self.hosts = state, tuple(hosts)
        self.notes: list[str] = []
        self._links: dict[str, Link] = {}
        folder, slots = state.folder, "".join(f"{h.name} slots={h.ranks}\n" for h in self.hosts)
        names = [f"{NETWORK}{i + 1} {host.name}" for i, host in enumerate(self.hosts)]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
        (folder / "hostfile").write_text(slots)
        (folder / "hostfile.hydra").write_text(slots.replace(" slots=", ":"))
        for name, text in (("enter", ENTER), ("agent", AGENT)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o700)
        self._add_namespace("switch.")
        _do(f"ip -n {self._space('switch.')} link add switch type bridge forward_delay 0")
        _do(f"ip -n {self._space('switch.')} link set switch up")
        for i, host in enumerate(self.hosts):
            self._add_namespace(host.name)
            inside, switch = self._space(host.name), self._space("switch.")
            _do(f"ip -n {inside} link set lo up")
            _do(f"ip -n {switch} link add port{i} type veth peer name eth0 netns {inside}")
            _do(f"ip -n {switch} link set port{i} master switch up")
            _do(f"ip -n {inside} address add {NETWORK}{i + 1}/24 dev eth0")
            _do(f"ip -n {inside} link set eth0 up")
            self.shape(host.name, host.link)

    def _space(self, name: str) -> str:
        return f"{self._state.name}.{name}"

    def _add_namespace(self, name: str) -> None:
        self._state.will("namespace", self._space(name))
        _do(f"ip netns add {self._space(name)}")

    def shape(self, name: str, link: Link) -> None:
        """Limit the host's connection from now on."""
        if self._links.get(name, Link()) == link:
            return
        self._links[name] = link
        i = [host.name for host in self.hosts].index(name)
        for space, device in ((name, "eth0"), ("switch.", f"port{i}")):
            where = f"-n {self._space(space)} qdisc"
            attempt(f"tc {where} del dev {device} root".split())  # fails if there is no limit yet
            parent = "root"
            if link.bandwidth is not None:
                burst = max(LEAST_BURST, round(link.bandwidth / 8 * TICK))
                _do(
                    f"tc {where} add dev {device} root handle 1: tbf rate {link.bandwidth:.0f}bit "
                    f"burst {burst}b latency {LONGEST_QUEUE}"
                )
                parent = "parent 1:1"
            if link.latency:
                delay = f"delay {5e5 * link.latency:.0f}us limit 100000"
                failed = attempt(f"tc {where} add dev {device} {parent} netem {delay}".split())
                note = f"no latency: this kernel has no netem ({failed})"
                if failed and note not in self.notes:
                    self.notes.append(note)

    def entered(self, name: str, command: Sequence[str]) -> list[str]:
        """Return the command line that starts `command` on a host."""
        return [str(self._state.folder / "enter"), name, *command]

    def environment(self) -> dict[str, str]:
        """Return variables that make mpiexec start ranks on the hosts, connected by TCP."""
        folder = self._state.folder
        agent, hostfile = str(folder / "agent"), str(folder / "hostfile")
        # Ranks are not bound to cores: each host would bind them to the same first cores.
        open_mpi = {
            "pml": "ob1",
            "btl": "self,vader,tcp",
            "btl_tcp_if_include": "eth0",
            "oob_tcp_if_include": "eth0",
            "plm_rsh_agent": agent,
            "orte_default_hostfile": hostfile,
            "hwloc_base_binding_policy": "none",
        }
        prrte = {
            "plm_ssh_agent": agent,
            "prte_default_hostfile": hostfile,
            "prte_if_include": "eth0",
            "hwloc_default_binding_policy": "none",
            "rmaps_default_mapping_policy": "slot:oversubscribe",  # fill one host after the other
        }
        return {
            **{f"OMPI_MCA_{key}": value for key, value in open_mpi.items()},
            **{f"PRTE_MCA_{key}": value for key, value in prrte.items()},
            "HYDRA_LAUNCHER": "rsh",
            "HYDRA_LAUNCHER_EXEC": agent,
            "HYDRA_HOST_FILE": f"{hostfile}.hydra",
            "HYDRA_IFACE": "eth0",
        }


def _check_tools() -> None:
    if os.geteuid() != 0:
        raise NotAllowedError("hosts need namespaces and network devices: run as root")
    for package, tools in TOOLS.items():
        for tool in tools:
            if shutil.which(tool) is None:
                raise NotAllowedError(f"hosts need {tool}: apt-get install -y {package}")
    if not Path("/proc/self/ns/net").exists():
        raise NotAllowedError("hosts need a kernel with network namespaces")


def _do(command: str) -> None:
    try:
        must(command.split())
    except OSError as why:
        raise NotAllowedError(f"{why}; hosts need the right to make namespaces") from None
