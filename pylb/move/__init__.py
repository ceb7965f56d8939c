"""Data services: plans of communication, a distributed directory, migration."""

from pylb.move.directory import Directory, Found
from pylb.move.migrate import migrate, plan_between
from pylb.move.plan import Pending, Plan

__all__ = ["Directory", "Found", "Pending", "Plan", "migrate", "plan_between"]
