"""`pylb.report`: write a recorded run as a page, or as efficiencies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pylb import files
from pylb.console import json_text
from pylb.errors import DomainError
from pylb.show import course, efficiency, page

SUFFIXES = (".html", ".json")


def report(
    run: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    names: Mapping[int, str] | None = None,
    coords: Mapping[int, Any] | None = None,
    stem: str | None = None,
) -> Path:
    """Write a file that shows a recorded run; for a running program see `Balancer.report`.

    Parameters
    ----------
    run : RunRecord, Trace, Replay or path
    path : path
        ``.html``: one interactive page, which needs no network.  ``.json``: efficiencies of the
        whole run, and of the iterations between LB steps, in the format of TALP.
    title : str, optional
        Title of the page, or of the run.  Default: the file's name, or the kind of run.
    names : mapping from int to str, optional
        Names of objects by key.  Any text is safe, because it is shown as text.
    coords : mapping from int to 1 ... 3 floats, optional
        Coordinates of the objects by key, at which the page draws them.  Default: objects that
        communicate are drawn close to each other.
    stem : str, optional
        Selects one of several runs in a folder, see `Trace.load`.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> pylb.report("run.h5", "run.html", names={12: "core"}).name
    'run.html'
    >>> pylb.report(trace.replay("RefineLB", every=10), "refined.html").name
    'refined.html'
    """
    out = Path(files.named(path))
    if out.suffix not in SUFFIXES:
        raise DomainError(f"path is {str(out)!r}: expected a suffix {' or '.join(SUFFIXES)}")
    page.check_used(out.suffix == ".html", names=names, coords=coords)
    shown = course.of(run, title=title, names=names, coords=coords, stem=stem)
    if out.suffix == ".html":
        return page.write(shown, out)
    files.write_text(out, json_text(efficiency.talp(shown), indent=2) + "\n")
    return out
