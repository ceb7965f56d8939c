"""The cost of pages: their size, the time to make them, and what a live page's server uses.

usage: python benchmarks/pages.py
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pylb
from pylb.show import course, page, served

SPIN = """
import os, sys
from pylb.show.served import step_back
os.sched_setaffinity(0, {int(sys.argv[1])})
print(step_back(), flush=True)
while True:
    pass
"""


# Moves the slider to 40 iterations; returns the milliseconds until each is drawn.
FRAMES = """async () => {
  const slider = document.querySelector("[aria-label=Iteration]"), out = [];
  for (let k = 0; k < 40; k += 1) {
    const begin = performance.now();
    slider.value = Math.floor(k * slider.max / 40);
    slider.dispatchEvent(new Event("input"));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    out.push(performance.now() - begin);
  }
  return out.sort((a, b) => a - b);
}"""


def browsing(path: Path) -> str:
    """Measure in headless Chromium how long the page takes to open, and to show an iteration."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return "not opened: no playwright"
    with sync_playwright() as p:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page()
        begin = time.perf_counter()
        tab.goto(path.as_uri())
        tab.wait_for_selector(".decisions")
        opened = time.perf_counter() - begin
        frames = tab.evaluate(FRAMES)
        browser.close()
    return (
        f"open after {opened:.2f} s, an iteration shown after {frames[20]:.0f} ms (median), "
        f"{frames[-1]:.0f} ms (at most)"
    )


def making(n_ranks: int, n_objects: int, n_phases: int) -> None:
    """Measure how long it takes to write the page of a replay, and to open it."""
    trace = pylb.replaying.hotspot(n_ranks=n_ranks, n_objects=n_objects, n_phases=n_phases, seed=1)
    run = course.of(trace.replay("GreedyLB", every=5))
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        path = page.write(run, Path(folder, "run.html"))
        seconds = time.process_time() - begin
        print(
            f"{n_ranks:6,} ranks, {n_objects:7,} objects, {n_phases:5,} iterations: "
            f"{path.stat().st_size / 1e6:5.2f} MB in {seconds:5.2f} s of CPU time; {browsing(path)}"
        )


def reading(iterations: int) -> None:
    """Measure how long the server of a live page takes to read a run record."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.h5")
        pylb.demo.run(8, 128, iterations, save=path)
        begin = time.process_time()
        served.RunFile(path, 0.0, 1.0).news("")
        seconds = time.process_time() - begin
        print(
            f"live page of {iterations:,} iterations: {1e3 * seconds:.0f} ms of CPU time per read"
        )


def beside(seconds: float = 8.0) -> None:
    """Measure the share of a core that the server gets if another process computes on that core.

    A process with the server's scheduling policy stands for the server.
    """
    core = min(os.sched_getaffinity(0))
    command = [sys.executable, "-c", SPIN, str(core)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        policy = other.stdout.readline().strip()
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {core})
        mine, its = time.process_time(), used(other.pid)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        mine, its = time.process_time() - mine, used(other.pid) - its
        os.sched_setaffinity(0, before)
        other.kill()
    print(f"server on a rank's core (SCHED_IDLE: {policy}): {100 * its / (mine + its):.2f} % of it")


def used(pid: int) -> float:
    """Return the CPU seconds of a process."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


if __name__ == "__main__":
    for size in ((8, 128, 1000), (64, 2000, 200), (10_000, 10_000, 100), (512, 100_000, 20)):
        making(*size)
    for n in (200, 2000):
        reading(n)
    beside()
