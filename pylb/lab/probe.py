"""Measure the limits of a lab, in a control group or on a host.

This file is run by its path and does not import pylb.  It prints its results on one line.

Usage: ``python -I -S probe.py ...``
       ``spin SECONDS``                 computes, and prints processor time / wall time
       ``touch BYTES``                  fills BYTES of memory; prints how many bytes are in memory
       ``serve``                        prints a port, and serves transfers until it is killed
       ``transfer HOST PORT SECONDS``   prints bits per second, and seconds one way
"""

import mmap
import socket
import sys
import time

CHUNK = bytes(65_536)
PINGS = 20


def spin(seconds: float) -> None:
    start, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        pass
    print((time.process_time() - used) / (time.perf_counter() - start))


def touch(size: int) -> None:
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, size, mmap.PAGESIZE):
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


def transfer(host: str, port: str, seconds: float) -> None:
    with socket.create_connection((host, int(port)), timeout=30) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        trips = []
        for _ in range(PINGS):
            start = time.perf_counter()
            line.sendall(b"?")
            line.recv(1)
            trips.append(time.perf_counter() - start)
        start, sent = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            line.sendall(CHUNK)
            sent += len(CHUNK)
        line.shutdown(socket.SHUT_WR)
        line.recv(1)
        print(8 * sent / (time.perf_counter() - start), sorted(trips)[PINGS // 2] / 2)


def main(argv: list[str]) -> None:
    what, *rest = argv
    if what == "spin":
        spin(float(*rest))
    elif what == "touch":
        touch(int(*rest))
    elif what == "serve":
        serve()
    else:
        transfer(rest[0], rest[1], float(rest[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
