"""Run a program under mpiexec, mostly one of this folder."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pylb

# pylb prints this line if ranks share cores; tests ignore it.
SHARED_CORES = re.compile(r"^pylb: .*\bcores\b.*\n", re.MULTILINE)
HERE = Path(__file__).parent
PYLB = Path(pylb.__file__).resolve().parents[1]  # the ranks import the same pylb as this process


def launch(mpiexec, ranks, *words, **environment):
    """Run a program under mpiexec; it is killed after 900 s, more than a busy machine needs."""
    path = os.pathsep.join([str(PYLB), str(HERE), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [*mpiexec, "-n", str(ranks), sys.executable, "-W", "error", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
    ) as process:
        try:
            out, said = process.communicate(timeout=900)
        finally:
            process.kill()
    return process.returncode, out, SHARED_CORES.sub("", said)


def printed(mpiexec, ranks, *words):
    """Run a program that must succeed; return what it prints."""
    code, out, said = launch(mpiexec, ranks, *words)
    assert code == 0, said
    return out


def answers_of(mpiexec, program, *words):
    """Return a function of the number of ranks, which runs a program once and keeps its answers."""

    @cache
    def answers(ranks):
        return json.loads(printed(mpiexec, ranks, HERE / program, *words).splitlines()[-1])

    return answers
