"""The widgets that `pylb.explore` and `pylb.watch` return; they need anywidget."""

from __future__ import annotations

import base64
import dataclasses
import io
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import wait
from html import escape
from typing import Any

import anywidget
import traitlets

from pylb import optional
from pylb.console import plain
from pylb.decide.registry import triggers
from pylb.errors import MissingPartError, PylbError
from pylb.partitioning import libraries
from pylb.placing.registry import Strategy, strategies
from pylb.replaying.replayed import Replay
from pylb.replaying.trace import Trace
from pylb.show import course, page, settings
from pylb.show.course import Course
from pylb.show.objects import ObjectPicture, Objects
from pylb.show.served import SHARE, RunFile
from pylb.show.settings import ExplorerSettings
from pylb.threads import stoppable

HEARTBEAT = 0.5  # seconds from one message "computing" to the next
ENDED = 10.0  # a run has ended if its planned iterations are done, and its file stays for so long
GONE = "This is the last picture: without a kernel it cannot {}. Run the cell again for that."


class Widget(anywidget.AnyWidget):
    """A widget that a viewer without widgets, e.g. of a stored notebook, shows as a picture."""

    _css = page.static("style.css")
    _does = ""  # what the widget does while there is a kernel

    def _course(self) -> Course | None:
        """Return what the widget shows; None: nothing yet."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return the widget, and its last picture with a note."""
        bundle, shown = super()._repr_mimebundle_(**kwargs), self._course()
        if bundle is None or shown is None:
            return bundle
        data, *rest = bundle if isinstance(bundle, tuple) else (bundle,)
        head = f"<p><b>{escape(shown.verdict)}.</b></p>"
        data = {**data, "text/html": f"{head}{_still_image(shown)}<p>{GONE.format(self._does)}</p>"}
        return (data, *rest) if rest else data


class Explorer(Widget):
    """The widget that `pylb.explore` returns.

    Attributes
    ----------
    trace : Trace
    replay, recorded : Replay
        `replay`: with the chosen settings.  `recorded`: the same, with the recorded placement.
    """

    _esm = page.static(*page.SHARED, "explorer.js")
    _does = "replay"

    choices = traitlets.Dict().tag(sync=True)
    settings = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)

    def __init__(
        self, trace: Trace, begin: ExplorerSettings, coords: Mapping[int, Any] | None = None
    ) -> None:
        self.trace = trace.compared()
        self._objects: Objects | None = None  # of `replay`, after the first request
        self.replay: Replay
        self._on_ranks = (trace.n_ranks, self.trace)  # n_ranks and trace of the last request
        self._recorded: tuple[Any, Any] = (None, None)  # settings and result of `_as_recorded`
        known = {name: one for name, one in strategies().items() if name != "none"}
        super().__init__(
            choices={
                "strategies": [
                    ("none", "as recorded", False),
                    *((name, name, False) for name in ("unbalanced", "auto")),
                    *((name, name, _is_missing(one)) for name, one in sorted(known.items())),
                ],
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
        """Replay with these settings, and show the result; meanwhile, say that it is computed."""
        with stoppable(1) as pool:
            work = pool.submit(self._answered, asked)
            while wait([work], HEARTBEAT).not_done:
                self.send({"kind": "computing"})
            self.replay, answer = work.result()
            self._objects = None
        with self.hold_sync():
            self.settings = dataclasses.asdict(asked)
            self.answer = {"number": number, **answer}

    def _answered(self, asked: ExplorerSettings) -> tuple[Replay, dict[str, Any]]:
        start = time.perf_counter()
        run, recorded = self._replayed(asked), self._as_recorded(asked)
        shown = settings.shown(run, recorded)
        return run, {
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
        """Replay the recorded placement; the most recent result is kept."""
        key = dataclasses.replace(asked, strategy="none", trigger="", every=1, cost=None)
        if key != self._recorded[0]:
            self._recorded = (key, self._replayed(key))
        replay: Replay = self._recorded[1]
        return replay

    def _answer_message(self, _: Any, message: Any, __: Any) -> None:
        kind = message.get("kind") if isinstance(message, dict) else None
        try:
            if kind == "hello":
                self.send({"kind": "hello"})
            elif kind == "receipt":
                details = settings.details(self.replay, int(message["index"]))
                self.send({"kind": "receipt", "told": plain(details)})
            elif kind == "objects":
                self.send({"kind": "objects", **self._frames(message)})
            elif kind == "replay":
                self.ask(ExplorerSettings.of(message["settings"]), int(message["number"]))
        except (PylbError, KeyError, TypeError, ValueError, OverflowError) as why:
            self.send({"kind": "error", "said": str(why), "replay": kind == "replay"})

    def _frames(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the objects in an iteration and in the next one.

        If the message asks for it, also return the data that do not depend on the iteration.
        """
        if self._objects is None:
            phases = course.stretches(self.replay)
            self._objects = Objects.of_stretches(phases, self.replay.trace.n_ranks)
            assert self._objects is not None
        found = ObjectPicture(self._objects, self._coords)
        i = min(max(int(message["iteration"]), 0), len(self.replay.rank_times) - 1)
        follows = i + 1 < len(self.replay.rank_times)
        return {
            "base": page.coded(found.base()) if message.get("base") else None,
            "frame": page.coded(found.frame(i)),
            "next": page.coded(found.frame(i + 1)) if follows else None,
        }

    def __repr__(self) -> str:
        return f"<Explorer of {self.trace!r}: {self.replay!r}>"

    def _course(self) -> Course:
        return settings.shown(self.replay, self.recorded)


class Watch(Widget):
    """The widget that `pylb.watch` returns.

    Attributes
    ----------
    ended : bool
        Whether the widget follows the file no more: the run has ended, or `stop` was called.
    """

    _esm = page.static(*page.SHARED, "report.js", "watch.js")
    _does = "follow the run"

    run = traitlets.Dict().tag(sync=True)

    def __init__(self, path: str | os.PathLike[str], interval: float) -> None:
        self._path, self._file = path, RunFile(path, interval, SHARE[False])
        super().__init__(run=self._file.news(""))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, args=(interval,), daemon=True)
        self._thread.start()

    def _follow(self, interval: float) -> None:
        changed = time.monotonic()
        while not self._stop.wait(interval):
            if self._look():
                changed = time.monotonic()
            elif self.run.get("ended") and time.monotonic() - changed > ENDED:
                self._stop.set()

    def _look(self) -> bool:
        """Show what is new in the file; return whether something was."""
        news = self._file.news(self.run["seen"])
        if news["seen"] == self.run["seen"]:
            return False
        self.run = news
        return True

    @property
    def ended(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        """Stop to follow the file, after a last look at it."""
        self._stop.set()
        self._thread.join()
        self._file.due = 0.0
        self._look()

    def _course(self) -> Course | None:
        return course.of(self._path) if "picture" in self.run else None

    def __repr__(self) -> str:
        return f"<Watch: {self.run['said']}>"


def _is_missing(strategy: Strategy) -> bool:
    return strategy.library is not None and not libraries.available(strategy.library)


def _still_image(run: Course) -> str:
    """Return the timeline of a run as an image; "" without matplotlib."""
    try:
        optional.require("matplotlib")
    except MissingPartError:
        return ""
    from matplotlib.figure import Figure

    from pylb.show import plots

    figure, file = Figure(figsize=(8.0, 3.6), layout="constrained"), io.BytesIO()
    plots.timeline(run, ax=figure.subplots())
    figure.savefig(file, format="png", dpi=100)
    code = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{escape(run.verdict)}" src="data:image/png;base64,{code}">'
