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


def test_the_commands_of_a_run():
    lmp = Recorded()
    lb = pylb.Advisor(every=2)
    with pytest.raises(DomainError, match="the step has no seconds"):
        lammps.run(lmp, 25, "balance 1.0 rcb", piece=10, lb=lb)
    assert lmp.commands == ["run 0 post no", "run 10 start 0 stop 25 pre no post no"]
    with pytest.raises(DomainError, match="piece is 0"):
        lammps.run(lmp, 25, "balance 1.0 rcb", piece=0, lb=lb)
    with pytest.raises(DomainError, match="steps is -1"):
        lammps.run(lmp, -1, "balance 1.0 rcb", lb=lb)


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
