"""Make the kernel check the quotas often.  Runs by path, without pylb, to start quickly.

Usage: ``python -I -S metronome.py CORE MICROSECONDS``

The kernel accounts for a process's time when it interrupts it: at the clock's tick, every 4 ms if
there are 250 ticks a second.  With a quota of 1.25 ms in 5 ms, a process then runs for up to 4.2 ms
at a time and is stopped for up to 16 ms (measured), which is right only on average.  A process of
real-time priority that wakes for an instant interrupts it sooner.

It ends with the process that started it, or at once, with code 1, if it may not have that priority.
"""

import contextlib
import os
import signal
import sys
import time


def main(argv: list[str]) -> None:
    """Wake again and again on one core."""
    core, seconds, lab = int(argv[0]), 1e-6 * int(argv[1]), os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the lab handles it
    try:
        os.sched_setaffinity(0, {core})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        sys.exit(1)
    with contextlib.suppress(OSError):  # holds as long as the file is open
        os.write(os.open("/dev/cpu_dma_latency", os.O_WRONLY), bytes(4))
    while os.getppid() == lab:
        time.sleep(seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
