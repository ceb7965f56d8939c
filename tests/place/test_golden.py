"""Strategies, partitioners and triggers give the stored answers of golden.json.

After a wanted change, ``python tests/place/golden.py`` writes the file again.
"""

import json

import golden
import pytest

import pylb
from pylb.partitioning.libraries import METHODS

KEPT = json.loads(golden.FILE.read_text())


@pytest.mark.parametrize("room", golden.ROOMS)
def test_answers_are_those_of_the_golden_file(room):
    assert golden.ROOMS[room]() == KEPT[room]


def test_the_golden_file_has_everything_of_pylb():
    own = {row.name for row in pylb.strategies().values() if not (row.library or row.call)}
    assert {name.partition(",")[0] for name in KEPT["place"]} == own
    own = {name for name, method in METHODS.items() if method.library == "pylb"}
    assert {name.partition(",")[0] for name in KEPT["partition"]} == own
    assert set(pylb.triggers()) <= KEPT["decide"].keys()


def test_the_cases_tell_strategies_apart():
    """Otherwise one strategy could be mistaken for another."""
    answers = {}
    for name, answer in KEPT["place"].items():
        answers.setdefault(name.partition(",")[0], []).append(answer)
    assert len({tuple(each) for each in answers.values()}) == len(answers)
    assert all(KEPT["decide"].values())


def test_the_steered_programs_have_every_kind_of_decision():
    told = "\n".join(line for lines in KEPT["steer"].values() for line in lines)
    for kind in ("hold", "off", "balance"):
        assert told.count(f"choice {kind}") > 3
    assert "but better estimates of the ranks' speeds show" in told
