"""Connect pylb to other codes, which need no changes: a module for each code."""

from pylb.adapters import dolfinx, lammps, petsc, yade

__all__ = ["dolfinx", "lammps", "petsc", "yade"]
