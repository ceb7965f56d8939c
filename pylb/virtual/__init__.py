"""A parallel machine in one process, for what no machine at hand can show."""

from pylb.virtual.cluster import VirtualCluster
from pylb.virtual.comm import VirtualComm
from pylb.virtual.protocol import (
    ProtocolDecision,
    ProtocolRun,
    protocol_params,
    simulate_protocol,
)

__all__ = [
    "ProtocolDecision",
    "ProtocolRun",
    "VirtualCluster",
    "VirtualComm",
    "protocol_params",
    "simulate_protocol",
]
