"""Small pictures of objects for notebooks: inline HTML without script, of a few kilobytes."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pylb.model.snapshot import F64
from pylb.show import aggregate

if TYPE_CHECKING:
    from pylb.decide.receipts import Receipt
    from pylb.io.run_record import RunRecord
    from pylb.model.machine import Machine
    from pylb.model.snapshot import Snapshot
    from pylb.place.placement import Placement
    from pylb.replay.replayed import Replay
    from pylb.replay.trace import Trace
    from pylb.run.rows import RowPartition

BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "#666666"  # Okabe and Ito
CIVIDIS = np.array(
    [
        (0, 34, 78),
        (18, 53, 112),
        (59, 73, 108),
        (87, 93, 109),
        (112, 113, 115),
        (138, 134, 120),
        (165, 156, 116),
        (195, 179, 105),
        (225, 204, 85),
        (254, 232, 56),
    ],
    np.float64,
)
WIDTH, HEIGHT = 360, 72  # pixels
MOST_BARS = 120


def figure(picture: str, caption: str) -> str:
    """A picture and what it is of; the caption is plain text."""
    return (
        f'<figure style="margin:4px 0;max-width:60em">{picture}'
        f'<figcaption style="font-size:90%">{escape(caption)}</figcaption></figure>'
    )


# ---- pictures -------------------------------------------------------------------------------


def heat(times: F64, label: str) -> str:
    """(m, p) seconds as a heat map: iterations to the right, ranks upwards."""
    data = times.T
    rows, columns = (aggregate.step(n, most) for n, most in zip(data.shape, (96, 360), strict=True))
    cells = aggregate.largest(data, rows, columns)
    level = cells / (float(cells.max()) or 1.0) * (len(CIVIDIS) - 1)
    below = np.minimum(level.astype(int), len(CIVIDIS) - 2)
    part = (level - below)[..., None]
    colour = CIVIDIS[below] * (1 - part) + CIVIDIS[below + 1] * part
    data_uri = base64.b64encode(png(colour[::-1].round().astype(np.uint8))).decode()
    return (
        f'<img alt="{escape(label)}" src="data:image/png;base64,{data_uri}" '
        f'style="width:{WIDTH}px;height:{HEIGHT}px;image-rendering:pixelated">'
    )


def png(pixels: Any) -> bytes:
    """(h, w, 3) uint8 as PNG."""
    h, w, _ = pixels.shape
    lines = np.zeros((h, 1 + 3 * w), np.uint8)  # each line begins with its filter: none
    lines[:, 1:] = pixels.reshape(h, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def lines(series: Sequence[tuple[F64, str]], label: str) -> str:
    """Curves from zero up, each with its colour."""
    high = max(float(values.max(initial=0.0)) for values, _ in series) or 1.0
    drawn = []
    for values, colour in series:
        shown = aggregate.largest(values[None], 1, aggregate.step(len(values), WIDTH))[0]
        x = np.linspace(0, WIDTH, len(shown)) if len(shown) > 1 else np.array([0.0])
        y = HEIGHT - 2 - (HEIGHT - 6) * shown / high
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
        drawn.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        )
    return _svg("".join(drawn), label)


def bars(values: F64, label: str, colours: Sequence[str] | None = None) -> str:
    """A bar each, or the largest of neighbours as one; above the mean they are red, else blue."""
    step = aggregate.step(len(values), MOST_BARS)
    shown = aggregate.largest(values[None], 1, step)[0] if len(values) else np.zeros(1)
    high, mean = float(shown.max()) or 1.0, float(values.mean()) if len(values) else 0.0
    wide = min(WIDTH / len(shown), 40.0)
    drawn = []
    for i, value in enumerate(shown.tolist()):
        tall = (HEIGHT - 6) * value / high
        colour = colours[i] if colours else VERMILLION if value > mean * (1 + 1e-9) else BLUE
        drawn.append(
            f'<rect x="{i * wide:.2f}" y="{HEIGHT - tall:.2f}" width="{max(wide - 1, 0.5):.2f}" '
            f'height="{tall:.2f}" fill="{colour}"/>'
        )
    y = HEIGHT - (HEIGHT - 6) * mean / high
    if not colours:
        drawn.append(
            f'<line x1="0" x2="{wide * len(shown):.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="black" '
            f'stroke-dasharray="4 2"/>'
        )
    return _svg("".join(drawn), label)


def _svg(inside: str, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(label)}" '
        f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'style="background:white;display:block">{inside}</svg>'
    )


# ---- objects --------------------------------------------------------------------------------


def of_trace(trace: Trace) -> str:
    """Loads of the ranks as recorded."""
    if not len(trace):
        return figure("", repr(trace))
    # Evenly chosen phases where there are more than pixels: a glance need not read all.
    chosen = trace[:: aggregate.step(len(trace), WIDTH)]
    return figure(heat(_times(chosen, chosen.task_rank), "loads of the ranks"), repr(trace))


def of_record(run: RunRecord) -> str:
    """Loads of the ranks, the slowest one and the mean."""
    if not run.n_iterations:
        return figure("", repr(run))
    curves = [(run.max, VERMILLION), (run.mean, BLUE)]
    label = "slowest rank (red) and mean (blue) of each iteration"
    chosen = run.trace[:: aggregate.step(run.n_iterations, WIDTH)]
    picture = heat(_times(chosen, chosen.task_rank), "loads of the ranks")
    return figure(picture + lines(curves, label), repr(run))


def _times(trace: Trace, rank: Any) -> F64:
    out = np.zeros((len(trace), trace.n_ranks))
    for i, (first, end) in enumerate(pairwise(trace.task_ptr.tolist())):
        out[i] = np.bincount(rank[first:end], trace.task_load[first:end], trace.n_ranks)
    return out


def of_replay(run: Replay) -> str:
    """Loads of the ranks, the slowest one and the mean."""
    if not len(run.trace):
        return ""
    curves = [(run.metrics["max"], VERMILLION), (run.metrics["mean"], BLUE)]
    return heat(run.rank_times, "loads of the ranks") + lines(
        curves, "slowest rank (red) and mean (blue) of each phase"
    )


def of_snapshot(snapshot: Snapshot) -> str:
    """Seconds of each rank."""
    return figure(bars(snapshot.rank_times, "seconds of each rank"), repr(snapshot))


def of_placement(plan: Placement) -> str:
    """Slowest rank and mean, before and after."""
    values = np.array([plan.before.max, plan.before.mean, plan.after.max, plan.after.mean])
    picture = bars(
        values,
        "slowest rank and mean, before and after",
        [VERMILLION, GREY, BLUE, GREY],
    )
    return figure(picture, f"{plan!r} Bars: slowest rank and mean before, the same after.")


def of_receipt(receipt: Receipt) -> str:
    """max/mean before, as it was to be, and as it was; and the sentences."""
    known = [receipt.max_over_mean if receipt.max == receipt.max else receipt.before]
    known += [receipt.predicted, receipt.realised]
    values = np.array([x if x == x else 0.0 for x in known])
    if not receipt.balanced or not values.any():
        return figure("", receipt.explain())
    picture = bars(values, "max/mean before, predicted and realised", [VERMILLION, GREY, BLUE])
    return figure(picture, f"{receipt.explain()} Bars: max/mean before, as predicted, as it was.")


def of_rows(part: RowPartition) -> str:
    """Rows of each rank."""
    return figure(bars(np.asarray(part.counts, np.float64), "rows of each rank"), repr(part))


def of_machine(machine: Machine) -> str:
    """Processing power of each rank."""
    return figure(bars(machine.speed, "speed of each rank"), repr(machine).splitlines()[0])
