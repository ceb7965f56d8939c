"""Measure the limits that a lab enforces, with programs that try to use more."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pylb.errors import StateError
from pylb.lab.network import HostNetwork
from pylb.lab.shares import Limit

PROBE = Path(__file__).with_name("probe.py")
SECONDS = 0.4  # duration of a busy loop, and of a transfer
BEYOND = 1.25  # bytes that a program writes, as a multiple of its memory limit
MOST_TOUCHED = 2**29  # largest number of bytes to write; a limit that needs more is not tested
PATIENCE = 60.0  # seconds to wait for a measuring program


class Held(NamedTuple):
    """The measured limits of a rank or host: cores, and bytes of memory (None: not tested)."""

    share: float
    memory: int | None


class Joined(NamedTuple):
    """The measured connection between two hosts: bits per second, and seconds one way."""

    source: str
    target: str
    bandwidth: float
    latency: float


def held(limits: Sequence[Limit], commands: Sequence[Sequence[str]]) -> list[Held]:
    """Measure each limit; `commands[i]` starts a program in the group with `limits[i]`.

    As many programs measure their shares at the same time as the cores allow.
    """
    cores = len(os.sched_getaffinity(0))
    shares: list[float] = []
    while len(shares) < len(limits):
        first, stop, total = len(shares), len(shares), 0.0
        while stop < len(limits) and (stop == first or total + limits[stop].share <= cores):
            total += limits[stop].share
            stop += 1
        shares += _run_together([[*c, "spin", str(SECONDS)] for c in commands[first:stop]])
    return [
        Held(share, _memory(limit, command))
        for share, limit, command in zip(shares, limits, commands, strict=True)
    ]


def _memory(limit: Limit, command: Sequence[str]) -> int | None:
    if limit.memory is None or BEYOND * limit.memory > MOST_TOUCHED:
        return None
    return round(_run_together([[*command, "touch", str(round(BEYOND * limit.memory))]])[0])


def joined(network: HostNetwork) -> list[Joined]:
    """Measure the connection from the first host to each other host, and back."""
    first, *others = [host.name for host in network.hosts]
    return [
        _transfer(network, *pair) for other in others for pair in ((first, other), (other, first))
    ]


def _transfer(network: HostNetwork, source: str, target: str) -> Joined:
    python = [sys.executable, "-I", "-S", str(PROBE)]
    with subprocess.Popen(
        network.entered(target, [*python, "serve"]), stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            words = [*python, "transfer", target, port, str(SECONDS)]
            out = _output_of(_start(network.entered(source, words)))
        finally:
            server.kill()
    bandwidth, latency = map(float, out.split())
    return Joined(source, target, bandwidth, latency)


def _start(words: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _run_together(commands: Sequence[Sequence[str]]) -> list[float]:
    """Run programs at the same time; return the number that each of them prints."""
    children = [_start(words) for words in commands]
    return [float(_output_of(child)) for child in children]


def _output_of(child: subprocess.Popen[str]) -> str:
    with child:
        try:
            out, complaint = child.communicate(timeout=PATIENCE)
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        why = complaint.strip() or f"the program ended with code {child.returncode}"
        raise StateError(f"a limit could not be measured: {why}")
    return out
