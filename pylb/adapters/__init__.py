"""Other codes, which know nothing of pylb: a module for each."""

from pylb.adapters import lammps

__all__ = ["lammps"]
