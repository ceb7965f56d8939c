"""The widgets that `pylb.explore` and `pylb.watch` return; they need anywidget."""

from __future__ import annotations

import base64
import dataclasses
import functools
import io
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from typing import Any

import anywidget
import numpy as np
import traitlets

from pylb import optional
from pylb.console import plain
from pylb.decide.registry import triggers
from pylb.errors import DomainError, MissingPartError, PylbError
from pylb.partitioning import libraries
from pylb.placing.registry import strategies
from pylb.replaying.replayed import BASELINES, Replay, replay
from pylb.replaying.trace import Trace
from pylb.show import course, page
from pylb.show.course import Course
from pylb.show.objects import Objects
from pylb.show.served import SHARE, RunFile
from pylb.threads import stoppable

HEARTBEAT = 0.5  # seconds from one message "computing" to the next
ENDED = 10.0  # seconds: a run has ended if its planned iterations are done and its file is this old
GONE = "This is the last picture: without a kernel it cannot {}. Run the cell again for that."
MOST_ROWS, MOST_COLUMNS = 128, 512  # largest numbers of rows and columns of the heat map
MOST_DECISIONS = 400  # largest number of decisions in the list


@dataclass(frozen=True)
class ExplorerSettings:
    """The settings of the explorer, which a user can change."""

    strategy: str = "none"  # as recorded
    trigger: str = "auto"  # name of the trigger; empty: use `every`
    every: int = 10  # iterations from one LB step to the next
    n_ranks: int = 0  # 0: as many as recorded
    alpha: float = 0.0  # seconds per message
    beta: float = 0.0  # seconds per byte
    cost: float | None = None  # seconds of an LB step; None: as in `pylb.replay`
    rank: int = 0  # the rank whose speed is changed
    speed: float = 1.0  # factor on the speed of this rank; the other ranks keep their speed

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ExplorerSettings:
        """Check settings given by a browser or a caller; missing ones get their defaults."""
        known = dataclasses.asdict(cls(cost=0.0))  # a value of the right type for each name
        if not isinstance(given, Mapping):
            raise DomainError(f"settings are {given!r}: expected a value for each name")
        out: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                raise DomainError(f"no setting {name}: expected one of {', '.join(known)}")
            kind = type(known[name])
            try:
                out[name] = None if name == "cost" and value is None else kind(value)
            except (TypeError, ValueError, OverflowError):
                raise DomainError(f"{name} is {value!r}: expected {kind.__name__}") from None
        return cls(**out)

    def on(self, trace: Trace) -> Trace:
        """Return the run on the number of ranks of these settings."""
        return trace if self.n_ranks in (0, trace.n_ranks) else trace.on_ranks(self.n_ranks)

    def replay(self, trace: Trace) -> Replay:
        """Replay the run with these settings; its errors are those of `pylb.replay`."""
        run = self.on(trace)
        how: dict[str, Any] = {k: getattr(self, k) for k in ("cost", "alpha", "beta")}
        if self.strategy not in BASELINES:
            how |= {"trigger": self.trigger} if self.trigger else {"every": self.every}
        if self.speed != 1.0:
            if not 0 <= self.rank < run.n_ranks:
                raise DomainError(f"rank is {self.rank}: expected 0 ... {run.n_ranks - 1}")
            how["speed"] = np.ones(run.n_ranks) if run.speed is None else run.speed.copy()
            how["speed"][self.rank] *= self.speed
        return replay(run, self.strategy, **how)


class Widget(anywidget.AnyWidget):
    """A widget that a viewer without widgets, e.g. of a stored notebook, shows as a picture."""

    _css = page.static("style.css")
    _does = ""  # what the widget does while there is a kernel

    def _course(self) -> Course | None:
        """Return the run that the widget shows; None if there is none yet."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return the widget, and its last picture with a note; no picture without matplotlib."""
        bundle, shown, image = super()._repr_mimebundle_(**kwargs), self._course(), ""
        if bundle is None or shown is None:
            return bundle
        with suppress(MissingPartError):
            optional.require("matplotlib")
            from matplotlib.figure import Figure

            from pylb.show import plots

            figure, file = Figure(figsize=(8.0, 3.6), layout="constrained"), io.BytesIO()
            plots.timeline(shown, ax=figure.subplots())
            figure.savefig(file, format="png", dpi=100)
            code = base64.b64encode(file.getvalue()).decode()
            image = f'<img alt="{escape(shown.verdict)}" src="data:image/png;base64,{code}">'
        data, *rest = bundle if isinstance(bundle, tuple) else (bundle,)
        head = f"<p><b>{escape(shown.verdict)}.</b></p>"
        data = {**data, "text/html": f"{head}{image}<p>{GONE.format(self._does)}</p>"}
        return (data, *rest) if rest else data


class Explorer(Widget):
    """The widget that `pylb.explore` returns."""

    _esm = page.static(*page.SHARED, "explorer.js")
    _does = "replay"

    choices = traitlets.Dict().tag(sync=True)
    settings = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)

    def __init__(
        self, trace: Trace, begin: ExplorerSettings, coords: Mapping[int, Any] | None = None
    ) -> None:
        self.trace, self._coords = trace, coords
        self._objects: Objects | None = None  # of `replay`, after the first request
        self.replay: Replay
        self._on = functools.lru_cache(1)(lambda asked: asked.on(self.trace))
        self._replay_once = functools.lru_cache(1)(self._replayed)
        needs = {name: one.library for name, one in strategies().items() if name != "none"}
        missing = {name for name, of in needs.items() if of and not libraries.available(of)}
        super().__init__(
            choices={
                "strategies": [
                    ("none", "as recorded", False),
                    *((name, name, False) for name in ("unbalanced", "auto")),
                    *((name, name, name in missing) for name in sorted(needs)),
                ],
                "triggers": sorted(triggers().keys() - {"periodic"}),
                "n_ranks": trace.n_ranks,
                "edges": len(trace.edge_src) > 0,
            }
        )
        self.ask(begin)
        self.on_msg(self._answer_message)

    @property
    def recorded(self) -> Replay:
        return self._as_recorded(ExplorerSettings.of(self.settings))

    def ask(self, asked: ExplorerSettings, number: int = 0) -> None:
        """Replay with these settings; show "computing" until the result is there."""
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
        shown = course.of_replay(run, recorded)
        times = {"recorded": recorded.time, "unbalanced": recorded.unbalanced.time}
        told = {"facts": page.facts(shown), "verdict": shown.verdict}
        return run, {
            "picture": page.loads(shown, MOST_ROWS, MOST_COLUMNS),
            "timeline": page.timeline(shown, MOST_COLUMNS),
            "figures": plain({**shown.figures(), **told, **times}),
            "columns": page.columns(),
            "decisions": plain([page.listed(r) for r in run.decisions[:MOST_DECISIONS]]),
            "milliseconds": 1e3 * (time.perf_counter() - start),
        }

    def _replayed(self, asked: ExplorerSettings) -> Replay:
        run = self._on(ExplorerSettings(n_ranks=asked.n_ranks))
        return dataclasses.replace(asked, n_ranks=0).replay(run)

    def _as_recorded(self, asked: ExplorerSettings) -> Replay:
        """Replay the recorded placement; the most recent result is stored for the next call."""
        return self._replay_once(
            dataclasses.replace(asked, strategy="none", trigger="", every=1, cost=None)
        )

    def _answer_message(self, _: Any, message: Any, __: Any) -> None:
        kind = message.get("kind") if isinstance(message, dict) else None
        try:
            if kind == "hello":
                self.send({"kind": "hello"})
            elif kind == "receipt":
                chosen = self.replay.decisions[int(message["index"])]
                told = page.decision(chosen, course.moves_after(self.replay, chosen.iteration))
                self.send({"kind": "receipt", "told": plain(told)})
            elif kind == "objects":
                self.send({"kind": "objects", **self._frames(message)})
            elif kind == "replay":
                self.ask(ExplorerSettings.of(message["settings"]), int(message["number"]))
        except (PylbError, LookupError, TypeError, ValueError, OverflowError) as why:
            self.send({"kind": "error", "said": str(why), "replay": kind == "replay"})

    def _frames(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the objects in an iteration and in the next one, and if asked, their places."""
        run, m = self.replay, len(self.replay.rank_times)
        if self._objects is None:
            self._objects = Objects(course.stretches(run), run.trace.n_ranks)
        found, i = self._objects, min(max(int(message["iteration"]), 0), m - 1)
        return {
            "base": found.base(self._coords) if message.get("base") else None,
            "frame": found.frame(i),
            "next": found.frame(i + 1) if i + 1 < m else None,
        }

    def __repr__(self) -> str:
        return f"<Explorer of {self.trace!r}: {self.replay!r}>"

    def _course(self) -> Course:
        return course.of_replay(self.replay, self.recorded)


class Watch(Widget):
    """The widget that `pylb.watch` returns."""

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
            before = self.run["seen"]
            self._look()
            if self.run["seen"] != before:
                changed = time.monotonic()
            elif self.run.get("ended") and time.monotonic() - changed > ENDED:
                self._stop.set()

    def _look(self) -> None:
        news = self._file.news(self.run["seen"])
        if news["seen"] != self.run["seen"]:
            self.run = news

    @property
    def ended(self) -> bool:
        """Whether the widget has stopped following the file."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Read the file a last time, and stop following it."""
        self._stop.set()
        self._thread.join()
        self._file.due = 0.0
        self._look()

    def _course(self) -> Course | None:
        return course.of(self._path) if "picture" in self.run else None

    def __repr__(self) -> str:
        return f"<Watch: {self.run['said']}>"
