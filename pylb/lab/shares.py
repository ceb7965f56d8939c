"""Shares of a core as the kernel's limits: so many microseconds in each period."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pylb.errors import DomainError
from pylb.lab import units

# The kernel's bounds (kernel/sched/core.c: min_cfs_quota_period, max_cfs_quota_period), in us.
LEAST = 1_000
MOST = 1_000_000

PERIOD_US = 5_000
"""Default period.  A rank that spins in MPI burns its quota and then stands still for the rest of
the period, and whoever waits for it waits as long: a short period keeps that to milliseconds."""

SLACK = 2**28
"""Bytes that a group of version 1 may have for moments above its rank's memory."""


class Limit(NamedTuple):
    """What a rank is held to: `quota_us` microseconds of processor time in every `period_us`, and
    `memory` bytes, or None."""

    quota_us: int
    period_us: int
    memory: int | None = None

    @property
    def share(self) -> float:
        """Cores."""
        return self.quota_us / self.period_us

    def control(self) -> list[tuple[str, str]]:
        """Files of a group and what is written to them, in order; those of versions 1 and 2."""
        quota, period = str(self.quota_us), str(self.period_us)
        out = [
            ("cpu.max", f"{quota} {period}"),
            ("cpu.cfs_period_us", period),
            ("cpu.cfs_quota_us", quota),
        ]
        if self.memory is not None:
            out.append(("memory.max", str(self.memory)))
            out.append(("memory.limit_in_bytes", str(self.memory + SLACK)))  # keeper.py says why
        return out


class Usage(NamedTuple):
    """What one rank was allowed and what it took.

    Attributes
    ----------
    rank : int
    limit : Limit
    cpu_seconds : float
        Processor time of the rank with all its threads and children.
    periods, throttled : int
        Periods in which it wanted to run, and those in which it was stopped at its quota.
    throttled_seconds : float
        For how long it was stopped.
    host : str
        Where it ran, in a lab with hosts.
    memory : int or None
        Most bytes that it had in memory, where that is counted.
    paged : int or None
        Pages that it had to wait for from swap or a file.
    killed : int
        Processes that the kernel ended for want of memory.
    """

    rank: int
    limit: Limit
    cpu_seconds: float
    periods: int
    throttled: int
    throttled_seconds: float
    host: str = ""
    memory: int | None = None
    paged: int | None = None
    killed: int = 0


def parse_shares(text: str) -> list[float]:
    """``"0.25,0.5"`` as [0.25, 0.5].

    Raises
    ------
    DomainError
        Something between the commas is no number.
    """
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise DomainError(
            f"share is {text!r}: expected numbers with commas between, as 0.25,0.5"
        ) from None


def parse_period(text: str) -> int:
    """``"5ms"`` as 5000 microseconds.

    Raises
    ------
    DomainError
        No number with us, ms or s.
    """
    return round(1e6 * units.quantity(units.PERIOD, "period", text))


def limits(shares: Iterable[float], cores: int, period_us: int | None = None) -> list[Limit]:
    """The limit of each share.

    Parameters
    ----------
    shares : iterable of float
        Cores for each rank; cyclic, so one share serves all ranks.
    cores : int
        How many this machine has: no share can be more.
    period_us : int, optional
        Default: 5 ms, longer where the kernel's least quota of 1 ms asks for it.

    Raises
    ------
    DomainError
        No share, a share out of range, or a period that is out of the kernel's range or too short
        for a share.
    """
    if period_us is not None and not LEAST <= period_us <= MOST:
        raise DomainError(
            f"period is {period_us / 1e3:.7g} ms: expected {LEAST / 1e3:g} ... {MOST / 1e3:g} ms"
        )
    out = [_limit(share, cores, period_us) for share in shares]
    if not out:
        raise DomainError("shares is empty: expected at least one share of a core")
    return out


def _limit(share: float, cores: int, period_us: int | None) -> Limit:
    least = LEAST / MOST
    if not least <= share <= cores:
        raise DomainError(f"share is {share:g}: expected {least:g} ... {cores} cores")
    shortest = LEAST / share
    if period_us is None:
        period_us = max(PERIOD_US, min(MOST, round(shortest)))
    quota_us = round(share * period_us)
    if quota_us < LEAST:
        raise DomainError(
            f"period is {period_us / 1e3:g} ms: a share of {share:g} needs at least "
            f"{shortest / 1e3:g} ms, as the kernel's least quota is {LEAST / 1e3:g} ms"
        )
    return Limit(quota_us, period_us)
