"""Make the kernel check often whether a process has used up its quota of processor time.

This file is run by its path and does not import pylb, so that it starts quickly.

Usage: ``python -I -S metronome.py CORE MICROSECONDS LAB``

The kernel compares a process's time with its quota when it interrupts the process: at the clock's
tick, e.g. every 4 ms.  With a quota of 1.25 ms per 5 ms, a process then runs for up to 4.2 ms and
is stopped for up to 16 ms (measured), so that the quota is right only on average.  This program has
real-time priority and wakes often for an instant, which interrupts the process sooner.

LAB is the id of the process that starts this program.  When LAB has ended, this program has another
parent, and ends.  (LAB is an argument, because LAB can end before this program asks for its
parent.)  Without permission for real-time priority, this program ends with code 1.
"""

import contextlib
import os
import signal
import sys
import time


def main(argv: list[str]) -> None:
    core, seconds, lab = int(argv[0]), 1e-6 * int(argv[1]), int(argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the lab handles Ctrl-C
    try:
        os.sched_setaffinity(0, {core})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        sys.exit(1)
    with contextlib.suppress(OSError):  # while this file is open, wake-ups are fast
        os.write(os.open("/dev/cpu_dma_latency", os.O_WRONLY), bytes(4))
    while os.getppid() == lab:
        time.sleep(seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
