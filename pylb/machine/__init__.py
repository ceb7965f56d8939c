"""The machine that a program runs on: what a message costs."""

from pylb.machine.network import Network, measure_network

__all__ = ["Network", "measure_network"]
