"""Draw the operations of recorded ranks over time."""

from __future__ import annotations

import numpy as np

from pylb.errors import DomainError
from pylb.model.snapshot import F64
from pylb.show.plots.common import BLUE, ORANGE, Axes, axes, legend
from pylb.whatif.factors import CriticalPath
from pylb.whatif.prediction import Prediction
from pylb.whatif.recorder.recording import Recording

MOST_RANKS = 64
MOST_OPS = 20_000  # largest number of operations of a rank that a picture can show


def timeline(
    run: Recording,
    prediction: Prediction,
    path: CriticalPath | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw when each rank computes and waits in a prediction, and the critical path.

    Parameters
    ----------
    run : Recording
    prediction : Prediction
        A prediction for that run, made with ``steps=True``.
    path : CriticalPath, optional
        The critical path, drawn as a line over the ranks, at the times of the prediction.

    Examples
    --------
    >>> run = pylb.Recording.read("run")
    >>> axes = pylb.plots.timeline(run, pylb.whatif(run, placement=[0, 1, 2, 3], steps=True))
    """
    if prediction.steps is None:
        raise DomainError("the prediction has no steps: expected whatif(..., steps=True)")
    if run.n_ranks > MOST_RANKS or max(map(len, run.ops), default=0) > MOST_OPS:
        raise DomainError(
            f"the run has {run.n_ranks} ranks with up to {max(map(len, run.ops))} operations: "
            f"expected at most {MOST_RANKS} ranks and {MOST_OPS} operations of each"
        )
    ax = axes(ax)
    for rank, steps in enumerate(prediction.steps):
        begin, end = steps["begin"], steps["end"]
        met = _begins_waiting(run, prediction, rank)
        spans = {
            "computes": (BLUE, np.stack([begin, met - begin], axis=1)[met > begin]),
            "waits for a rank": (ORANGE, np.stack([met, end - met], axis=1)[end > met]),
        }
        for name, (colour, bars) in spans.items():
            label = name if rank == 0 else None
            ax.broken_barh(
                bars.tolist(), (rank - 0.35, 0.7), color=colour, linewidth=0, label=label
            )
    if path is not None:
        at, who = _line(run, path, prediction)
        ax.plot(at, who, color="black", linewidth=1.4, label="critical path")
    ax.set(
        xlabel="seconds", ylabel="rank", xlim=(0.0, prediction.time), ylim=(-0.6, run.n_ranks - 0.4)
    )
    ax.set_yticks(range(0, run.n_ranks, max(1, run.n_ranks // 8)))
    legend(ax)
    return ax


def _begins_waiting(run: Recording, prediction: Prediction, rank: int) -> F64:
    """Return, for each operation, when the rank stops computing and begins to wait."""
    assert prediction.steps is not None
    steps, ops = prediction.steps[rank], run.ops[rank]
    speed = prediction.target.speed[prediction.target.placement[rank]]
    computed = steps["begin"] + ops["compute"] * 1e-9 / speed
    met: F64 = np.where(steps["cause_rank"] < 0, steps["end"], np.minimum(computed, steps["end"]))
    return met


def _line(run: Recording, path: CriticalPath, prediction: Prediction) -> tuple[F64, F64]:
    """Return times and ranks of the corners of the path: begin and end of each of its segments."""
    assert prediction.steps is not None
    met = [_begins_waiting(run, prediction, rank) for rank in range(run.n_ranks)]
    at, who = [], []
    for rank, first, last, _ in path.stretches.tolist():
        if first <= last:
            at += [prediction.steps[rank]["begin"][first], met[rank][last]]
            who += [rank] * 2
    return np.array(at, float), np.array(who, float)
