"""Convert shares of a core to limits for the kernel: microseconds in each period."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pylb.errors import DomainError

# The kernel's bounds, in microseconds: the smallest quota and period, and the largest period
# (kernel/sched/core.c: min_cfs_quota_period, max_cfs_quota_period).
LEAST = 1_000
MOST = 1_000_000

PERIOD_US = 5_000
"""Default period in microseconds.  A rank that spins while it waits in MPI uses up its quota; then
it is stopped until the period ends, and delays ranks that wait for it.  So the period is short."""

SLACK = 2**28
"""Bytes by which a group of version 1 may briefly exceed the memory limit (see `run.keeping`)."""


class Limit(NamedTuple):
    """The limits of a rank: `quota_us` microseconds of processor time in every `period_us`
    microseconds, and `memory` bytes (None: no limit).

    Examples
    --------
    >>> pylb.lab.Limit(quota_us=2500, period_us=5000).quota_us
    2500
    """

    quota_us: int
    period_us: int
    memory: int | None = None

    @property
    def share(self) -> float:
        """Number of cores: quota / period."""
        return self.quota_us / self.period_us


class Usage(NamedTuple):
    """The limit of a rank, and what it used.

    Examples
    --------
    >>> pylb.lab.Usage(0, pylb.lab.Limit(2500, 5000), 1.2, 400, 10, 0.02).cpu_seconds
    1.2
    """

    rank: int
    limit: Limit
    cpu_seconds: float  #: Processor time of the rank with all its threads and children.
    #: Number of periods in which the rank was ready to run, and number of periods in which it used
    #: up its quota.
    periods: int
    throttled: int
    throttled_seconds: float  #: Time for which the rank was stopped because its quota was used up.
    host: str = ""  #: The host where the rank ran; empty in a lab without hosts.
    #: Largest number of bytes that the rank had in memory; None: not counted.
    memory: int | None = None
    #: Number of pages from swap or a file for which the rank had to wait; None: not counted.
    paged: int | None = None
    killed: int = 0  #: Number of processes that the kernel killed because memory was full.


def limits(shares: Iterable[float], cores: int, period_us: int | None = None) -> list[Limit]:
    """Return the limit for each share, on a machine with this number of cores.

    The default period is 5 ms, or longer if the quota would be below the kernel's minimum of 1 ms.
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
            f"{shortest / 1e3:g} ms, because the kernel's minimum of a quota is {LEAST / 1e3:g} ms"
        )
    return Limit(quota_us, period_us)
