"""The core has computed arrays, but Python has no memory for the objects that shall own them.

Every allocation of Python in such a call fails once; then the call must raise MemoryError, and free
each array once.
"""

import _testcapi
import math
from functools import partial
from unittest import mock

import numpy as np

import pylb
from pylb import _core

N = 50_000  # the C library notices a double free of arrays that are so large


def captured(name, call):
    """Return the call of the core's function `name` that `call` makes."""
    with mock.patch.object(_core, name, side_effect=getattr(_core, name)) as watched:
        call()
    return partial(getattr(_core, name), *watched.call_args.args, **watched.call_args.kwargs)


def replay():
    trace = pylb.replaying.hotspot(N // 4, 4, 4)
    core = _core.Replay(n_ranks=trace.n_ranks, as_recorded=True, keep_times=True)
    core.loop(0, trace.n_phases, math.nan)
    core.feed(trace)
    return core.take


def functions():
    """Return calls of functions of the core that return arrays which the core has allocated."""
    trace = pylb.replaying.hotspot(2, N, 3)
    return {
        "route": partial(_core.route, (np.arange(N) % 7)[::-1].astype(np.int32), 7),
        "trace_optimum": captured("trace_optimum", lambda: trace.optimum(cost=1e-3)),
    }


def without_memory(name, prepare):
    """Let each allocation of Python fail once in the call that `prepare` returns."""
    failed = n = passed = 0
    while passed < 30:  # Python survives the failure of some allocations
        call, why = prepare(), None
        _testcapi.set_nomemory(n, n + 1)
        try:
            call()
        except MemoryError as error:
            _testcapi.remove_mem_hooks()
            why = error
        _testcapi.remove_mem_hooks()
        failed += why is not None
        passed = 0 if why is not None else passed + 1
        n += 1
    assert failed, name
    print(name, failed)


without_memory("Replay.take", replay)
for name, call in functions().items():
    without_memory(name, lambda call=call: call)
print("done")
