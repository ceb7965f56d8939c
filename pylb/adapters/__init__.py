"""Other codes, which know nothing of pylb: a module for each."""

from pylb.adapters import dolfinx, lammps, petsc

__all__ = ["dolfinx", "lammps", "petsc"]
