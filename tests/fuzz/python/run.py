"""Fuzz the readers of pylb: a changed file must be read or refused.

Usage: ``python tests/fuzz/python/run.py SECONDS [FIRST_SEED [TARGET...]]``

Each case is a small valid file with some random changes, drawn by a seed; HDF5 files are cut short,
or lack a part.  It runs in a process
with limits of time and memory.  An error that is not pylb's own, a signal or a hang is a failure;
its file is kept in the folder `failed`, beside this one.
"""

import random
import re
import struct
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from isolated import FAILED, READ, REFUSED, batch
from targets import Target, made

from pylb.errors import PylbError
from pylb.io.hdf5 import SIGNATURE

LIMITS = {"seconds": 5, "wait": 60, "memory": 3 << 30}
BATCH = 40  # cases that a process runs, one after the other, if none fails
KEPT = Path(__file__).with_name("failed")
WORDS = [b"null", b"-1", b"1e400", b"NaN", b"1" + b"0" * 30, b"[]", b"{}", b'""', b"[" * 3000]
EDGES = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1]
OUTCOMES = ("read", "refused", "failed")


def unfinished(data: bytearray, draw: random.Random) -> bytes:
    """Cut a file short, or replace a part that was not written to the disk by zeros."""
    at, size = draw.randrange(len(data)), draw.choice([64, 512, 4096, len(data)])
    if draw.random() < 0.5:
        return bytes(data[:at])
    return bytes(data[:at]) + bytes(min(size, len(data) - at)) + bytes(data[at + size :])


def mutant(seeds: list[bytes], draw: random.Random) -> bytes:
    """Change one of the files a little, or a lot."""
    data = bytearray(draw.choice(seeds))
    if data.startswith(SIGNATURE):  # libhdf5 is not safe against every change
        return unfinished(data, draw)
    for _ in range(draw.choice([1, 1, 1, 1, 2, 3, 8])):
        at = draw.randrange(max(1, len(data)))
        size = draw.choice([1, 2, 4, 8, 64])
        kind = draw.randrange(8)
        if kind == 0:
            data[at : at + 1] = bytes([data[at] ^ 1 << draw.randrange(8)]) if data else b"x"
        elif kind == 1:
            data[at : at + size] = draw.randbytes(size)
        elif kind == 2:
            value = draw.choice(EDGES) & (1 << 8 * min(size, 8)) - 1
            data[at : at + min(size, 8)] = struct.pack("<Q", value)[: min(size, 8)]
        elif kind == 3:
            del data[at : at + size]
        elif kind == 4:
            other = draw.choice(seeds)
            start = draw.randrange(len(other))
            data[at:at] = other[start : start + draw.choice([8, 64, 512])]
        elif kind == 5 and draw.random() < 0.3:
            del data[at:]
        elif kind == 6:
            data[at:at] = draw.choice(WORDS)
        else:  # replace a number by another one
            numbers = list(re.finditer(rb"-?\d[\d.e+-]*", data[:20_000]))
            if numbers:
                span = draw.choice(numbers).span()
                data[span[0] : span[1]] = draw.choice(WORDS)
    return bytes(data)


def file_of(target: Target, seed: int) -> bytes:
    """Return the file of a seed."""
    return mutant(target.seeds, random.Random(f"{target.name} {seed}"))


def outcome(target: Target, path: Path) -> tuple[int, str]:
    """Return the case's kind, and its error if it is a failure."""
    try:
        target.call(path)
    except PylbError as why:
        long = len(str(why)) > 2000
        return (FAILED, f"a message of {len(str(why))} characters") if long else (REFUSED, "")
    except OSError as why:  # the system may refuse a path
        return (REFUSED, "") if why.filename else (FAILED, repr(why))
    except BaseException as why:
        return FAILED, f"{type(why).__name__}: {why}"
    return READ, ""


def fuzz(seconds: float, first: int = 0, only: tuple[str, ...] = ()) -> dict[str, Counter[str]]:
    """Run all targets in turn until the time is over, each for at least one batch."""
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="pylb-fuzz-") as folder:
        targets = [one for one in made(Path(folder)) if not only or one.name in only]
        start, seed = time.monotonic(), first
        while seed == first or time.monotonic() - start < seconds:
            for target in targets:

                def one(case: int, target: Target = target) -> tuple[int, str]:
                    path = Path(folder) / target.name
                    path.unlink(missing_ok=True)  # to write over a file waits for the disk
                    path.write_bytes(file_of(target, case))
                    return outcome(target, path)

                at, counted = seed, counts.setdefault(target.name, Counter())
                while at < seed + BATCH:
                    at, some = batch(range(at, seed + BATCH), one, **LIMITS)
                    for case, kind, said in some:
                        counted[OUTCOMES[kind]] += 1
                        if said:
                            keep(target, case, said)
            seed += BATCH
    return counts


def keep(target: Target, seed: int, said: str) -> None:
    """Report a failure, and keep its file."""
    KEPT.mkdir(exist_ok=True)
    path = KEPT / f"{seed}-{target.name}"
    path.write_bytes(file_of(target, seed))
    print(f"{target.name}, seed {seed}: {said}: {path}", file=sys.stderr, flush=True)


def main(argv: list[str]) -> int:
    """Fuzz, and print a table; return 1 if there was a failure."""
    seconds, first = float(argv[0]), int(argv[1]) if len(argv) > 1 else 0
    counts = fuzz(seconds, first, tuple(argv[2:]))
    print(f"{'file':12} {'cases':>9} " + " ".join(f"{name:>9}" for name in OUTCOMES))
    for name, some in counts.items():
        figures = [sum(some.values()), *(some[kind] for kind in OUTCOMES)]
        print(f"{name:12} " + " ".join(f"{n:9}" for n in figures))
    return int(any(some["failed"] for some in counts.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
