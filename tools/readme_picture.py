"""Draw the picture of the README and of the documentation's first page, and print its verdict.

usage: python tools/readme_picture.py [RANKS]      (default: 2)

The run is the README's first program under mpiexec; above, the run without LB steps is its replay.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import pylb
from pylb.show import course

ROOT = Path(__file__).parents[1]


def main(ranks: int) -> None:
    """Run the program, and draw the timeline of its record."""
    program = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "script.py").write_text(program)
        words = ["mpiexec", "-n", str(ranks), sys.executable, "script.py"]
        subprocess.run(words, cwd=folder, env={**os.environ}, check=True, stdin=subprocess.DEVNULL)
        run = course.of(Path(folder) / "run.h5")
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
    pylb.plots.timeline(run, ax=ax)
    figure.savefig(ROOT / "docs" / "images" / "readme.png", dpi=130)
    print(f"{run.verdict}.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
