"""The programs that a lab starts; this file is run by its path, without pylb, to start quickly.

Usage: ``python -I -S programs.py WHAT ...``, where WHAT is one of

``join BASES NAME LIMITS program arguments``
    Move this process into a control group, then become the program, which so has its limit from the
    first instruction on.  BASES: the lab's directories, separated by ``:``.  NAME: the group;
    ``rest`` has no limit, ``rank`` means ``rank<r>``, with the number of `RANK_VARIABLES`.  LIMITS:
    a JSON file with what to write to which files of the group, for each rank or host.  With hosts,
    the host of rank r is written to the file ``rank<r>`` beside it.
``beat CORE MICROSECONDS LAB``
    Make the kernel check often whether a process has used up its quota of processor time, until the
    process LAB ends.
``spin SECONDS``
    Compute, and print processor time / wall time.
``touch BYTES``
    Fill BYTES of memory; print how many bytes are in memory.
``serve``
    Print a port, and serve transfers until it is killed.
``transfer HOST PORT SECONDS``
    Print bits per second, and seconds one way.
"""

import contextlib
import json
import mmap
import os
import signal
import socket
import sys
import time

# ---- join ---------------------------------------------------------------------------------------

# Variables with the number of the rank: of Open MPI, of any launcher with PMIx, of MPICH's Hydra,
# and of the lab for a program without mpiexec.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PYLB_LAB_RANK")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _limits(path: str, rank: int) -> list[list[str]]:
    with open(path) as file:
        known = json.load(file)
    if "hosts" not in known:
        return list(known["ranks"][rank % len(known["ranks"])])
    host = socket.gethostname()
    _write(os.path.join(os.path.dirname(path), f"rank{rank}"), host)
    return list(known["hosts"][host])


def join(bases: str, name: str, limits: str, *command: str) -> None:
    try:
        control: list[list[str]] = []
        if name == "rank":
            rank = next((int(os.environ[v]) for v in RANK_VARIABLES if v in os.environ), None)
            if rank is None:
                sys.exit(
                    "pylb lab: expected OMPI_COMM_WORLD_RANK, PMIX_RANK or PMI_RANK from mpiexec"
                )
            name, control = f"rank{rank}", _limits(limits, rank)
        for group in (f"{base}/{name}" for base in bases.split(":")):
            os.makedirs(group, exist_ok=True)
            for file, value in control:
                if os.path.exists(f"{group}/{file}"):
                    _write(f"{group}/{file}", value)
            _write(f"{group}/cgroup.procs", str(os.getpid()))
    except OSError as error:
        sys.exit(f"pylb lab: cannot limit {command[0]!r} to its share: {error}")
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"pylb lab: cannot run {command[0]!r}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)  # as shells do


# ---- beat ---------------------------------------------------------------------------------------


def beat(core: str, microseconds: str, lab: str) -> None:
    """Wake often for an instant; end with code 1 if real-time priority is not permitted.

    The kernel compares a process's time with its quota when it interrupts the process: at the
    clock's tick, e.g. every 4 ms.  With a quota of 1.25 ms per 5 ms, a process then runs for up to
    4.2 ms and is stopped for up to 16 ms (measured), so that the quota is right only on average.
    Waking interrupts the process sooner.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the lab handles Ctrl-C
    try:
        os.sched_setaffinity(0, {int(core)})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        sys.exit(1)
    with contextlib.suppress(OSError):  # while this file is open, wake-ups are fast
        os.write(os.open("/dev/cpu_dma_latency", os.O_WRONLY), bytes(4))
    while os.getppid() == int(lab):  # when the lab has ended, this program has another parent
        time.sleep(1e-6 * int(microseconds))


# ---- measure the limits, in a control group or on a host ----------------------------------------

CHUNK = bytes(65_536)
PINGS = 20


def spin(seconds: str) -> None:
    start, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - start < float(seconds):
        pass
    print((time.process_time() - used) / (time.perf_counter() - start))


def touch(size: str) -> None:
    pages = mmap.mmap(-1, int(size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, int(size), mmap.PAGESIZE):
        pages[at] = 1
    with open("/proc/self/status") as status:  # RssAnon: memory without mapped files
        print(1024 * next(int(line.split()[1]) for line in status if line.startswith("RssAnon")))


def serve() -> None:
    with socket.create_server(("", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            line = server.accept()[0]
            with line:
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for _ in range(PINGS):
                    line.sendall(line.recv(1))
                while line.recv(1 << 20):
                    pass
                line.sendall(b"!")


def transfer(host: str, port: str, seconds: str) -> None:
    with socket.create_connection((host, int(port)), timeout=30) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        trips = []
        for _ in range(PINGS):
            start = time.perf_counter()
            line.sendall(b"?")
            line.recv(1)
            trips.append(time.perf_counter() - start)
        start, sent = time.perf_counter(), 0
        while time.perf_counter() - start < float(seconds):
            line.sendall(CHUNK)
            sent += len(CHUNK)
        line.shutdown(socket.SHUT_WR)
        line.recv(1)
        print(8 * sent / (time.perf_counter() - start), sorted(trips)[PINGS // 2] / 2)


if __name__ == "__main__":
    for program in (join, beat, spin, touch, serve, transfer):
        if program.__name__ == sys.argv[1]:
            program(*sys.argv[2:])
