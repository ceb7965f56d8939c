"""What Python says again of the C core's tables: error classes, tags."""

import builtins

import pytest

from pylb import _core, errors
from pylb.comm.exchange import LOWEST_TAG, TAGS


@pytest.mark.parametrize("name", _core.ERRORS)
def test_class_of_each_code(name):
    kind = getattr(errors, name, None) or getattr(builtins, name)
    assert issubclass(kind, BaseException)
    if kind.__module__ == "pylb.errors":
        assert issubclass(kind, errors.PylbError)
    else:
        assert name in ("MemoryError", "KeyboardInterrupt")


def test_codes_become_classes():
    with pytest.raises(errors.MissingPartError, match="nothing has not been loaded"):
        _core.partition("nothing", 1, 1)


def test_tags_of_exchanges():
    mpi = pytest.importorskip("pylb._mpi")
    assert (LOWEST_TAG, LOWEST_TAG + TAGS - 1) == mpi.TAGS
