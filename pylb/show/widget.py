"""The widget of the explorer, which needs anywidget."""

from __future__ import annotations

import base64
import dataclasses
import io
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anywidget
import traitlets

from pylb import optional
from pylb.console import plain
from pylb.decide.registry import triggers
from pylb.errors import MissingPartError, PylbError
from pylb.placing.registry import strategies
from pylb.replaying.replayed import Replay
from pylb.replaying.trace import Trace
from pylb.show import aggregate, page, settings
from pylb.show.objects import ObjectPicture, Objects
from pylb.show.settings import ExplorerSettings

GONE = (
    "This is the last picture of an explorer: without a kernel it cannot replay. Run the cell "
    "again to explore the run."
)


class Explorer(anywidget.AnyWidget):
    """The widget that `pylb.explore` returns.

    Attributes
    ----------
    trace : Trace
    replay, recorded : Replay
        `replay`: with the chosen settings.  `recorded`: the same, with the recorded placement.
    """

    _esm = page.static(*page.SHARED, "explorer.js")
    _css = page.static("style.css")

    choices = traitlets.Dict().tag(sync=True)
    settings = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)

    def __init__(
        self, trace: Trace, begin: ExplorerSettings, coords: Mapping[int, Any] | None = None
    ) -> None:
        self.trace = trace.compared()
        self.replay: Replay
        self._on_ranks = (trace.n_ranks, self.trace)  # n_ranks and trace of the last request
        self._recorded: OrderedDict[ExplorerSettings, Replay] = OrderedDict()
        super().__init__(
            choices={
                "strategies": ["auto", "unbalanced", *sorted(strategies())],
                "triggers": sorted(triggers().keys() - {"periodic"}),
                "n_ranks": trace.n_ranks,
                "edges": len(trace.edge_src) > 0,
            }
        )
        self._coords = coords
        self.ask(begin)
        self.on_msg(self._answer_message)

    @property
    def recorded(self) -> Replay:
        return self._as_recorded(ExplorerSettings.of(self.settings))

    def ask(self, asked: ExplorerSettings, number: int = 0) -> None:
        """Replay with these settings, and show the result."""
        start = time.perf_counter()
        self._run_of(asked)
        with ThreadPoolExecutor(1) as other:  # both replays run at the same time
            waiting = other.submit(self._as_recorded, asked)
            run = self._replayed(asked)
            recorded = waiting.result()
        shown = settings.shown(run, recorded)
        self.replay = run
        with self.hold_sync():
            self.settings = dataclasses.asdict(asked)
            self.answer = {
                "number": number,
                "picture": settings.picture(shown),
                "timeline": page.timeline(shown, settings.MOST_COLUMNS),
                "figures": plain(settings.figures(shown, recorded)),
                "columns": page.columns(),
                "decisions": plain(settings.decisions(run)),
                "milliseconds": 1e3 * (time.perf_counter() - start),
            }

    def _run_of(self, asked: ExplorerSettings) -> Trace:
        n_ranks = asked.n_ranks or self.trace.n_ranks
        if n_ranks != self._on_ranks[0]:
            self._on_ranks = (n_ranks, asked.on(self.trace))
        return self._on_ranks[1]

    def _replayed(self, asked: ExplorerSettings) -> Replay:
        return dataclasses.replace(asked, n_ranks=0).replay(self._run_of(asked))

    def _as_recorded(self, asked: ExplorerSettings) -> Replay:
        """Replay the recorded placement; the two most recent results are kept."""
        key = dataclasses.replace(asked, strategy="none", trigger="", every=1, cost=None)
        if key not in self._recorded:
            self._recorded[key] = self._replayed(key)
            if len(self._recorded) > 2:
                self._recorded.popitem(last=False)
        return self._recorded[key]

    def _answer_message(self, _: Any, message: Any, __: Any) -> None:
        try:
            kind = message.get("kind") if isinstance(message, dict) else None
            if kind == "hello":
                self.send({"kind": "hello"})
            elif kind == "receipt":
                details = settings.details(self.replay, int(message["index"]))
                self.send({"kind": "receipt", "told": plain(details)})
            elif kind == "objects":
                self.send({"kind": "objects", **self._objects(message)})
            elif kind == "replay":
                self.ask(ExplorerSettings.of(message["settings"]), int(message["number"]))
        except (PylbError, KeyError, TypeError, ValueError, OverflowError) as why:
            self.send({"kind": "error", "said": str(why)})

    def _objects(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the objects in an iteration and in the next one.

        If the message asks for it, also return the data that do not depend on the iteration.
        """
        found = ObjectPicture(Objects.of_replay(self.replay), self._coords)
        i = min(max(int(message["iteration"]), 0), len(self.replay.rank_times) - 1)
        follows = i + 1 < len(self.replay.rank_times)
        return {
            "base": page.coded(found.base()) if message.get("base") else None,
            "frame": page.coded(found.frame(i)),
            "next": page.coded(found.frame(i + 1)) if follows else None,
        }

    def __repr__(self) -> str:
        return f"<Explorer of {self.trace!r}: {self.replay!r}>"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return the widget, and its last picture with a note, for viewers without widgets."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, *rest = bundle if isinstance(bundle, tuple) else (bundle,)
        data = {**data, "text/html": f"{_still_image(self.replay)}<p>{GONE}</p>"}
        return (data, *rest) if rest else data


def _still_image(run: Replay) -> str:
    """Return an image of the loads of ranks (y) over phases (x); "" without matplotlib."""
    try:
        optional.require("matplotlib")
    except MissingPartError:
        return ""
    from matplotlib.image import imsave

    data = run.rank_times.T
    cells = aggregate.largest(data, *map(aggregate.step, data.shape, (96, 360)))
    file = io.BytesIO()
    top = aggregate.brightest(cells)
    imsave(file, cells, vmin=0.0, vmax=top or 1.0, cmap="cividis", origin="lower", format="png")
    code = base64.b64encode(file.getvalue()).decode()
    style = "width:360px;height:72px;image-rendering:pixelated"
    return f'<img alt="loads of the ranks" src="data:image/png;base64,{code}" style="{style}">'
