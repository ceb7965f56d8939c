"""Mark functions, so that the recorder measures their times."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

Function = TypeVar("Function", bound=Callable[..., Any])


@functools.lru_cache(maxsize=1)
def _recorder() -> ctypes.CDLL | None:
    """Return the recorder, if it is loaded into this process."""
    program = ctypes.CDLL(None)
    return program if hasattr(program, "pylb_procedure_enter") else None


@overload
def procedure(function: Function, /) -> Function: ...
@overload
def procedure(*, name: str) -> Callable[[Function], Function]: ...
def procedure(function: Any = None, /, *, name: str | None = None) -> Any:
    """Mark a function, so that `pylb record` measures its time.

    Without the recorder, the function is returned unchanged.  In C, use the macro
    ``PYLB_PROCEDURE`` of ``csrc/whatif/recorder/pylb_procedure.h``, or compile with
    ``-finstrument-functions`` and name the functions: ``pylb record --procedures serve,...``.

    Parameters
    ----------
    function : callable
    name : str, optional
        Default: the function's name with its class, e.g. ``Server.answer``.

    Examples
    --------
    >>> @pylb.procedure
    ... def serve(request):
    ...     return request
    >>> serve("a request")
    'a request'
    """
    if function is None:
        return functools.partial(_mark, name)
    return _mark(name, function)


def _mark(name: str | None, function: Function) -> Function:
    recorder = _recorder()
    if recorder is None:
        return function
    known = getattr(function, "__qualname__", type(function).__qualname__)  # an object has none
    number = recorder.pylb_procedure((name or known).encode())
    enter, leave = recorder.pylb_procedure_enter, recorder.pylb_procedure_leave

    @functools.wraps(function)
    def marked(*args: Any, **kwargs: Any) -> Any:
        enter(number)
        try:
            return function(*args, **kwargs)
        finally:
            leave(number)

    return cast(Function, marked)
