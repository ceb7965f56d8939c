"""tests/stuck_mpiexec.py ends an mpiexec that hangs after its ranks have ended."""

import os
import subprocess
import sys
import time

from stuck_mpiexec import PATIENCE, Watch, processes, sleeps


def test_only_an_mpiexec_that_had_ranks_is_stuck():
    asleep = {2}
    watch = Watch(1, asleep.__contains__)
    with_ranks = {1: ("pytest", 0), 2: ("mpiexec", 1), 3: ("python", 2), 4: ("mpiexec", 9)}
    without = {1: ("pytest", 0), 2: ("mpiexec", 1), 5: ("mpiexec", 1)}
    assert watch.stuck(with_ranks, 0.0) == []
    assert watch.stuck(without, PATIENCE / 2) == []
    assert watch.stuck(without, 2 * PATIENCE) == [2]
    asleep.clear()  # it waits for a core
    assert watch.stuck(without, 3 * PATIENCE) == []
    assert watch.stuck({1: ("pytest", 0)}, 9 * PATIENCE) == []


def test_processes_knows_names_and_parents():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        found = processes()
        while not sleeps(child.pid):  # it starts up
            time.sleep(0.01)
        child.communicate(b"\n")
        zombie = os.fork()
        if zombie == 0:
            os._exit(0)
        os.waitid(os.P_PID, zombie, os.WEXITED | os.WNOWAIT)
        assert zombie not in processes()
        os.waitpid(zombie, 0)
    assert not sleeps(os.getpid())
    assert found[child.pid][1] == os.getpid()
    assert found[child.pid][0].startswith("python")
