"""Data that describe the program and the machine.

In: arrays, strings, files, a communicator to measure.  Out: `Snapshot`, `Machine`, `Network`,
`SpeedModels`, `Metrics`.  Imports no other folder of pylb.
"""

from pylb.model.machine import Machine, Place
from pylb.model.metrics import Metrics, PhaseMetrics
from pylb.model.network import Network, measure_network
from pylb.model.snapshot import Edges, Multicasts, Snapshot
from pylb.model.speed_models import SpeedModels
from pylb.model.topology import Hops, Mapping, Torus, Tree, hops, map_ranks

__all__ = [
    "Edges",
    "Hops",
    "Machine",
    "Mapping",
    "Metrics",
    "Multicasts",
    "Network",
    "PhaseMetrics",
    "Place",
    "Snapshot",
    "SpeedModels",
    "Torus",
    "Tree",
    "hops",
    "map_ranks",
    "measure_network",
]
