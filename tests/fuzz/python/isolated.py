"""Run numbered cases in a process of their own, with limits of time and memory."""

import os
import resource
import signal
from collections.abc import Callable

READ, REFUSED, FAILED = range(3)  # kinds of outcomes


def batch(
    cases: range, one: Callable[[int], tuple[int, str]], *, seconds: int, wait: int, memory: int
) -> tuple[int, list[tuple[int, int, str]]]:
    """Run cases until one ends the process.

    Parameters
    ----------
    cases : range
        Numbers of the cases.
    one : callable
        Runs a case; returns its kind, and what went wrong if this is FAILED.
    seconds, wait : int
        Seconds of processor time, and elapsed seconds, that a case may take.
    memory : int
        Bytes of address space that the process may use.

    Returns
    -------
    tuple
        The case with which to go on, and (case, kind, what went wrong) of each case.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for case in cases:
            os.write(write, f"{case} ".encode())
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.setitimer(signal.ITIMER_REAL, wait)
            kind, said = one(case)
            line = said.replace("\n", " ")[:400]
            os.write(write, f"{kind} {line}\n".encode(errors="replace"))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, errors="replace") as said:
        rows = [line.split(" ", 2) for line in said.read().splitlines()]
    status = os.waitpid(pid, 0)[1]
    done = [(int(row[0]), int(row[1]), row[2]) for row in rows if len(row) == 3]
    if status == 0:
        return cases.stop, done
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    hangs = {signal.SIGPROF: f"computes for {seconds} s", signal.SIGALRM: f"waits for {wait} s"}
    why = hangs.get(number, signal.Signals(number).name) if number else f"exit code {status}"
    last = int(rows[-1][0])
    return last + 1, [*done, (last, FAILED, why)]
