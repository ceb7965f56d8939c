"""The adapter for LAMMPS, without LAMMPS: which commands it gives.  tests/examples runs LAMMPS."""

import pytest

import pylb
from pylb.adapters import lammps
from pylb.errors import DomainError


class Recorded:
    """Keeps the commands that it gets."""

    def __init__(self):
        self.commands = []

    def command(self, text):
        self.commands.append(text)

    def extract_global(self, name):
        """Return the number of the time step."""
        assert name == "ntimestep"
        return sum(int(text.split()[1]) for text in self.commands if text.startswith("run "))

    commands_string = command


class Timed(pylb.Advisor):
    """An advisor that needs no clock."""

    def advise(self, **given):
        return super().advise(seconds=1.0, **given)


def test_pieces_and_lb_steps():
    lmp, lb = Recorded(), Timed(every=2)
    assert lammps.run(lmp, 45, "balance 1.0 rcb", piece=10, lb=lb) is lb
    piece, setup = "run 10 start 0 stop 45 pre no post no", "run 0 post no"
    both = [piece, piece, "balance 1.0 rcb", setup]
    assert lmp.commands == [setup, *both, *both, "run 5 start 0 stop 45 pre no post no"]
    piece = "run 10 start 45 stop 55 pre no post no"
    lammps.run(lmp, 10, "balance 1.0 rcb", piece=10, lb=lb)
    assert lmp.commands[-4:] == [setup, piece, "balance 1.0 rcb", setup]
    for wrong, message in [({"piece": 0}, "piece is 0"), ({"steps": -1}, "steps is -1")]:
        with pytest.raises(DomainError, match=message):
            lammps.run(lmp, **{"steps": 25, "balance": "", "lb": lb, **wrong})
