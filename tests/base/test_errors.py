"""Python's errors are those of the C table, and each has a readable message."""

import builtins
import re
from pathlib import Path

import pytest

from pylb import _core, errors
from pylb.comm import plan

ROOT = Path(__file__).parents[2]
ROW = re.compile(r'^\s*X\((\w+), (-\d+), "(\w+)", "[^"]+"\)', re.M)


def table():
    """Return {code: (name, class)} of PLB_ERRORS."""
    found = ROW.findall((ROOT / "csrc/base/base.h").read_text())
    return {int(code): (name, kind) for name, code, kind in found}


def test_each_code_has_its_class():
    codes = table()
    assert sorted(codes, reverse=True) == list(range(-1, -1 - len(codes), -1))
    assert len({name for name, _ in codes.values()}) == len(codes) > 10
    for _, kind in codes.values():
        own = getattr(errors, kind, None)
        assert issubclass(
            own or getattr(builtins, kind), errors.PylbError if own else BaseException
        )


def test_codes_become_classes():
    with pytest.raises(errors.MissingPartError, match="nothing has not been loaded"):
        _core.partition("nothing", 1, 1)


def test_arguments_after_a_star_are_keyword_only():
    with pytest.raises(TypeError, match="at most 3 positional arguments, not 4"):
        _core.partition(None, 1, 1, 1, part=[0])
    with pytest.raises(TypeError, match="missing argument: n_ranks"):
        _core.Decider(1)


def kinds():
    return [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Exception)]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_error_is_also_one_of_pythons_own(kind):
    assert issubclass(kind, errors.PylbError | Warning)
    own = {base for base in kind.__mro__ if base.__module__ == "builtins"}
    assert kind is errors.PylbError or own > {Exception, BaseException, object}
    assert str(kind("what is wrong")) == "what is wrong"


def test_tags_are_those_of_the_c_core():
    text = (ROOT / "csrc/comm/comm.h").read_text()
    tag = {name: int(value) for name, value in re.findall(r"PLB_TAG_(\w+) = (\d+)", text)}
    assert tag["ITEMS"] == plan.LOWEST_TAG
    assert tag["MOST"] == plan.LOWEST_TAG + plan.TAGS - 1


def test_near_names_are_suggested():
    assert errors.nearest("greedylb", ["GreedyLB", "none"]) == "; did you mean GreedyLB?"
    assert errors.nearest("zzz", ["GreedyLB"]) == ""


def test_ranks_with_the_same_message_share_a_line():
    said = errors.by_rank(["no", "no", "yes", *["no"] * 4])
    assert said == "rank 0, 1, 3, 4 ...: no; rank 2: yes"
