"""All errors of pylb; each class also derives from a built-in error of Python.

The C core returns a code and a message; ``csrc/base/base.h`` names the class of each code.
"""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class PylbError(Exception):
    """Base of all errors of pylb."""


class DomainError(PylbError, ValueError):
    """A value is out of its domain: NaN, negative, not in the allowed range."""


class OutOfRangeError(PylbError, IndexError, ValueError):
    """An index, most often a rank, is out of range."""


class UnknownKeyError(PylbError, KeyError):
    """The key is not in the run, on the rank or in the directory; or no procedure has this name."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class DuplicateKeyError(PylbError, ValueError):
    """Two objects have the same key or id; most messages name the key, and the ranks if known."""


class InfeasibleError(PylbError, ValueError):
    """No placement satisfies the constraints; the message says how much is lacking."""


class FormatError(PylbError, ValueError):
    """A file or a text does not have the expected format, e.g. because it is truncated."""


class MissingFileError(PylbError, FileNotFoundError):
    """A folder or a file does not exist, or a run lacks the files of some ranks."""


class MPIError(PylbError, RuntimeError):
    """MPI reported an error."""


class StateError(PylbError, RuntimeError):
    """A call is not possible in this state, e.g. after the loop has ended."""


class UnknownStrategyError(PylbError, ValueError):
    """No strategy has this name; the message suggests the nearest names."""


class UnknownTriggerError(PylbError, ValueError):
    """No trigger has this name; the message suggests the nearest names."""


class StrategyError(PylbError, RuntimeError):
    """A strategy written in Python has raised an error, or has not returned a placement."""


class SerializationError(PylbError, TypeError):
    """An object or a message cannot be pickled, written or restored; no object has moved."""


class RemoteError(PylbError, RuntimeError):
    """Another rank has failed or ended; the message names the rank and the reason, if known."""


class DeadlockError(PylbError, RuntimeError):
    """No rank of a virtual cluster can continue; the message says what each one waits for."""


class NotAllowedError(PylbError, PermissionError):
    """The operating system does not permit an operation; the message says what would help."""


class MissingPartError(PylbError, ImportError):
    """An optional part of pylb is absent; the message has the command that installs it."""


class PartitionerError(PylbError, RuntimeError):
    """A partitioning library failed, or did not return a partition."""


class PartitionerWarning(UserWarning):
    """A partitioner ignores a part of its input."""


def told(error: BaseException) -> tuple[str, str]:
    """Return what a rank reports to the others about its error: the class and the message."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # the user's own class
        text = "<exception str() failed>"  # as in Python's tracebacks
    return name, text if isinstance(error, PylbError) else f"{name}: {text}"


def of_rank(rank: int, name: str, text: str) -> Exception:
    """Return the error of another rank, of the same class if it is pylb's, else RemoteError."""
    known = globals().get(name)
    ours = isinstance(known, type) and issubclass(known, PylbError)
    return (known if ours else RemoteError)(f"rank {rank}: {text}")  # type: ignore[misc]


def by_rank(texts: Iterable[str]) -> str:
    """Group ranks with equal texts in one line, e.g. 'rank 0, 2: this; rank 1: that'."""
    ranks: dict[str, list[int]] = {}
    for rank, text in enumerate(texts):
        ranks.setdefault(text, []).append(rank)
    shown = [
        f"rank {', '.join(map(str, who[:4]))}{' ...' if len(who) > 4 else ''}: {text}"
        for text, who in list(ranks.items())[:4]
    ]
    return "; ".join(shown) + ("; ..." if len(ranks) > 4 else "")


def differing(texts: Iterable[str]) -> str:
    """Group ranks like `by_rank`, without the arguments (``name=value, ...``) that all share."""
    every = [re.split(r", (?=\w+=)", text) for text in texts]
    shared = set[str]().union(*every).intersection(*every)
    own = [", ".join(part for part in parts if part not in shared) for parts in every]
    return by_rank(own if all(own) else map(", ".join, every))


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown name, with all known names and the nearest ones."""
    names = list(known)
    return f"no {what} {name!r}: there are {', '.join(names)}{nearest(name, names)}"


def nearest(word: str, words: Iterable[str], cutoff: float = 0.5) -> str:
    """Return '; did you mean ...?' with the nearest names, or ''."""
    import difflib  # not at the top: it slows `import pylb`

    lower = {w.lower(): w for w in words}
    close = difflib.get_close_matches(word.lower(), lower, n=2, cutoff=cutoff)
    return f"; did you mean {' or '.join(lower[c] for c in close)}?" if close else ""


def suggesting(call: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function: its error for an unknown keyword suggests the nearest known keywords."""

    @functools.wraps(call)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except TypeError as error:
            found = re.search(r"unexpected keyword argument '(\w+)'$", str(error))
            known = list(inspect.signature(call).parameters)
            if found is None or found[1] not in kwargs or found[1] in known:
                raise
            raise TypeError(f"{error}{nearest(found[1], known)}") from None

    return wrapper


def warn(text: str, kind: type[Warning] = UserWarning) -> None:
    """Warn, and name the line of the program that has called pylb, at any depth of calls."""
    frame, depth = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "pylb":
        frame, depth = frame.f_back, depth + 1
    warnings.warn(text, kind, stacklevel=depth)
