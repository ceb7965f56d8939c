"""A recorded run under three strategies: how much would load balancing have saved?

usage: python examples/replay_demo.py [DATA]

DATA is a folder with recorded runs of real applications, each in a folder of its own.  Without it
the script generates a run in vt's LBDatafile format: blocks of a field with a moving hot spot.
"""

import json
import math
import sys
import tempfile
from pathlib import Path

from pylb.cli.main import main as pylb

RECORDED = "nolb-8color-16nodes-data"
RANKS, PHASES, BLOCKS = 16, 40, 512


def load(block: int, phase: int) -> float:
    """Return the seconds of a block: ten times more at the hot spot, which moves around once."""
    distance = abs(block / BLOCKS - phase / PHASES) % 1.0
    return 1e-3 * (1 + 9 * math.exp(-((min(distance, 1 - distance) / 0.05) ** 2)))


def generate(folder: Path) -> None:
    """Write one file for each rank; blocks are distributed in order."""
    for rank in range(RANKS):
        mine = range(rank * BLOCKS // RANKS, (rank + 1) * BLOCKS // RANKS)
        phases = [
            {
                "id": phase,
                "tasks": [
                    {
                        "entity": {"home": rank, "id": b, "migratable": True, "type": "object"},
                        "node": rank,
                        "resource": "cpu",
                        "time": load(b, phase),
                    }
                    for b in mine
                ],
            }
            for phase in range(PHASES)
        ]
        record = {"metadata": {"rank": rank, "type": "LBDatafile"}, "phases": phases}
        (folder / f"run.{rank}.json").write_text(json.dumps(record))


def replay(folder: Path) -> int:
    """Show the run unbalanced, as a Balancer would run it, and balanced after every phase."""
    print("A recorded run: unbalanced, as pylb would decide, balanced after every phase\n")
    return pylb(["replay", str(folder)])


def main(argv: list[str]) -> int:
    """Replay the recorded run of `DATA`, or a generated one."""
    recorded = Path(argv[0], RECORDED) if argv else None
    if recorded is not None and recorded.is_dir():
        return replay(recorded)
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        return replay(Path(folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
