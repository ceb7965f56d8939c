"""Communication between ranks: agreement, exchange, directory and migration."""

from pylb.comm.directory import Directory, Found
from pylb.comm.migrate import migrate, plan_between
from pylb.comm.plan import Pending, Plan

__all__ = ["Directory", "Found", "Pending", "Plan", "migrate", "plan_between"]
