"""The terminal while a program runs: `pylb watch` and the progress bar, on a pseudo-terminal."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from each_case import in_blocks

import pylb
from pylb.show import course, live

pyte = pytest.importorskip("pyte")
pytest.importorskip("rich")
pytest.importorskip("h5py")


class Terminal:
    """A command on a terminal with this many columns and lines."""

    def __init__(self, words, columns, lines, cwd):
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        environment["TERM"] = "xterm-256color"
        self.process = subprocess.Popen(
            [str(word) for word in words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=environment,
        )
        os.close(slave)

    def until(self, pattern, seconds=400, sure=True):
        """Wait at most `seconds` until the screen shows the pattern; `sure`: it must appear."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not re.search(pattern, self.text):
            ready, _, _ = select.select([self._master], [], [], 0.2)
            with contextlib.suppress(OSError):  # the terminal is closed
                data = os.read(self._master, 65536) if ready else b""
                self._stream.feed(data)
        assert not sure or re.search(pattern, self.text), self.text
        return self.screen.display

    def interrupted(self, seconds=400):
        """Return the exit code after Ctrl-C; read the output meanwhile, so that nothing blocks."""
        self.process.send_signal(signal.SIGINT)
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            self.until("nothing in particular", seconds=0.1, sure=False)
        return self.process.wait(1)

    @property
    def text(self):
        return "\n".join(self.screen.display)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(400)
        os.close(self._master)


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def start(words, columns, lines):
        opened.append(Terminal(words, columns, lines, tmp_path))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


ROW = r" *\d+ +[\d.]+ [mµn]?s +[\d.]+ +[▁-█]+ *$"
WATCH = [sys.executable, "-m", "pylb", "watch", "run.h5", "--interval", "0.1"]


@pytest.mark.parametrize(("n_ranks", "shown"), [(2, 2), (5, 5), (100, 24)])
def test_watch_fits_the_terminal(n_ranks, shown, terminal, tmp_path):
    pylb.demo.run(n_ranks, 4 * n_ranks, 20, save=tmp_path / "run.h5", every=5)
    for columns, lines in ((80, 24), (200, 50)):
        watched = terminal(WATCH, columns, lines)
        display = watched.until(r"(?s)recent iterations.*After iteration")
        assert re.match(r"\d.* (faster|as fast), .* saved: |It did not help", display[0])
        begins = f"20 iterations of {4 * n_ranks} objects on {n_ranks} ranks"
        assert any(line.startswith(begins) for line in display)
        assert any(
            re.search(r"rank +last iteration +/ mean +recent iterations", x) for x in display
        )
        least, most = (shown, shown) if lines == 50 else (min(n_ranks, 5), n_ranks)
        drawn = []
        for _ in range(60):  # the screen may be incomplete when it is read
            rows = [x for x in display if re.match(ROW, x)]
            more = re.findall(r"and ([\d,]+) ranks? that", watched.text)
            hidden = int(more[0].replace(",", "")) if more else 0
            drawn.append((len(rows), hidden))
            if len(rows) + hidden == n_ranks and least <= len(rows) <= most:
                break
            display = watched.until("a screen later", seconds=0.5, sure=False)
        else:
            raise AssertionError(f"{drawn[-1]}\n{watched.text}")
        assert watched.interrupted() == 0


PROGRAM = """
import os, sys, time, pylb
from mpi4py import MPI
lb = pylb.Balancer(MPI.COMM_WORLD, record="run.h5", every=10)
for key in range(lb.rank, 8, lb.n_ranks):
    lb.add(key, key)
for it in lb.iterate(200, progress=True):
    for key, _ in lb.local():
        time.sleep(0.0002 * (1 + key % 4))
    for _ in range(6000):  # wait until the test has seen the running program
        if it != 150 or os.path.exists("seen"):
            break
        time.sleep(0.01)
"""


def test_bar_and_watch_of_a_program_under_mpiexec(terminal, mpiexec, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    watched = terminal(WATCH, 80, 24)
    watched.until("run.h5: nothing yet")
    program = terminal([*mpiexec, "-n", 2, sys.executable, "program.py"], 80, 24)
    first = watched.until(r"\d+ iterations of 8 objects on 2 ranks")
    begun = next(line for line in first if " iterations of 8 objects" in line)
    assert int(begun.split()[0]) < 200  # printed while the program runs
    (tmp_path / "seen").touch()
    program.until(r"200/200 .*max/mean \d\.\d\d, \d+ LB steps?")
    assert program.process.wait(400) == 0
    bars = [x for x in program.screen.display if x.startswith("iterations ━")]
    assert len(bars) == 1  # one bar for both ranks, always drawn at the same place
    watched.until("200 iterations of 8 objects on 2 ranks")


def test_what_goes_into_a_file_is_lines(mpiexec, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM.replace("200", "20"))
    words = [*mpiexec, "-n", "2", sys.executable, "program.py"]
    env = {**os.environ}  # without the variables that MPI sets here
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert re.search(r"^pylb: iteration 20 of 20, max/mean ", done.stderr, re.MULTILINE)
    assert "━" not in done.stderr


def test_the_seconds_of_lb_steps_mean_the_same_everywhere(tmp_path):
    """The iterations after an LB step are slow: this is part of its cost, not of its seconds."""
    path = tmp_path / "run.h5"

    def program(comm):
        lb = pylb.Balancer(comm, strategy="GreedyLB", every=10)
        in_blocks(lb, 4 * comm.size)
        for it in lb.iterate(40):
            comm.elapse(0.5 if it % 10 == 0 else 0.0)
            for key, _ in lb.local():
                comm.elapse(0.1 + 0.1 * key)
        lb.save(path)
        return lb.report()

    report = pylb.VirtualCluster(2, clock="none", network=(1e-3, 0.0)).run(program)[0]
    now = live.state(course.of(path))
    assert report.lb_cost > report.lb_seconds + 1.0
    assert now["lb_cost"] == pytest.approx(report.lb_cost)
    for name in ("none", "GreedyLB"):
        replay = pylb.Trace.load(path).replay(name, every=None if name == "none" else 10)
        assert replay.lb_seconds == pytest.approx(report.lb_seconds)
    assert now["lb_seconds"] == pytest.approx(report.lb_seconds)
    assert replay.iteration_seconds == pytest.approx(report.iteration_seconds)
    assert "slow iterations after them" in str(report)
