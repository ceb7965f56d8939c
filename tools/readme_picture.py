"""Draw README's picture: its first program under mpiexec, without pylb and balanced by pylb.

usage: python tools/readme_picture.py [RANKS]      (default: 2)

Loads are CPU times here, so that other programs on the machine do not change the picture.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import pylb

ROOT = Path(__file__).parents[1]
TITLES = {"off": "without pylb", "on": "balanced by pylb"}


def loads(mode: str, ranks: int, folder: Path) -> np.ndarray:
    """Run README's first program in a mode; return CPU seconds of shape (iterations, ranks)."""
    text = (ROOT / "README.md").read_text()
    program = re.search(r"```python\n(.*?)```", text, re.S)[1]
    (folder / "script.py").write_text(program)
    words = ["mpiexec", "-n", str(ranks), sys.executable, "script.py"]
    quiet = {"cwd": folder, "stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    env = {**os.environ, "PYLB_MODE": mode, "PYLB_CLOCK": "cpu"}
    subprocess.run(words, env=env, check=True, **quiet)
    trace = pylb.Trace.load(folder / "run.h5")
    phases = np.repeat(np.arange(trace.n_phases), np.diff(trace.task_ptr))
    out = np.zeros((trace.n_phases, ranks))
    np.add.at(out, (phases, trace.task_rank), trace.task_load)
    return out


def main(ranks: int) -> None:
    """Run twice, draw, and print the gain."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 2.8), sharey=True, layout="constrained")
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for ax, (mode, title) in zip(axes, TITLES.items(), strict=True):
            times = loads(mode, ranks, Path(folder))
            seconds[mode] = times.max(axis=1).sum()
            for rank in range(ranks):
                ax.plot(1e3 * times[:, rank], lw=1.2, label=f"rank {rank}")
            ax.set_title(f"{title}: {seconds[mode]:.3g} s of the slowest rank", fontsize=10)
            ax.set_xlabel("iteration")
    axes[0].set_ylabel("CPU time, ms")
    axes[0].set_ylim(bottom=0)
    axes[0].legend(frameon=False)
    figure.savefig(ROOT / "docs" / "images" / "readme.png", dpi=160)
    print(f"{ranks} ranks: {seconds['off']:.3g} s without pylb, {seconds['on']:.3g} s with pylb")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
