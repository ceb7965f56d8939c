"""`pylb.report`: a recorded run, shown in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pylb.errors import DomainError
from pylb.show import course, efficiency, page
from pylb.show.plain import plain

SUFFIXES = (".html", ".json")


def report(
    run: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    names: Mapping[int, str] | None = None,
    stem: str | None = None,
) -> Path:
    """Show a recorded run in a file; for a running program see `Balancer.report`.

    Parameters
    ----------
    run : RunRecord, Trace, Replay or path
    path : path
        ``.html``: one page to look around in, which needs no network.  ``.json``: efficiencies of
        the run and of the stretches between balancings, in the shape of TALP's.
    title : str, optional
        Default: the file's name, or what kind of run it is.
    names : mapping from int to str, optional
        Of objects, by key.  Any text: it is shown as text.
    stem : str, optional
        Which run of a folder.

    Returns
    -------
    Path
        What was written.

    Raises
    ------
    DomainError
        Another suffix; no run; no complete iteration in it.

    Examples
    --------
    >>> pylb.report("run.h5", "run.html", names={12: "core"})
    >>> pylb.report(trace.replay("RefineLB", every=10), "refined.html")
    """
    out = Path(path)
    if out.suffix not in SUFFIXES:
        raise DomainError(f"path is {str(out)!r}: expected a suffix of {', '.join(SUFFIXES)}")
    shown = course.of(run, title=title, names=names, stem=stem)
    if out.suffix == ".html":
        return page.write(shown, out)
    out.write_text(json.dumps(plain(efficiency.talp(shown)), indent=2, allow_nan=False) + "\n")
    return out
