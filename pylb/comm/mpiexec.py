"""Find the program in an mpiexec command line."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Sequence
from pathlib import PurePath

from pylb.errors import DomainError

# Options, without their dashes, of mpiexec in Open MPI (4 and 5) and in MPICH (Hydra): those with
# two values, with one value, with a file that names the programs, and without a value.
TWO_VALUES = frozenset("mca gmca omca pmca prtemca pmixmca genv env".split())
ONE_VALUE = frozenset(
    # Open MPI and Hydra
    "n np c host hosts H hostfile machinefile wdir wd path map-by bind-to timeout "
    # Open MPI
    "N npernode npersocket x prefix rank-by cpu-set cpu-list cpus-per-proc cpus-per-rank am tune "
    "output-filename output stdin report-uri server-wait-time max-restarts rf rankfile slot-list "
    "s preload-files ompi-server default-hostfile dvm personality runtime-options display "
    # Hydra
    "f genvlist envlist launcher launcher-exec bootstrap bootstrap-exec membind rmk ppn perhost "
    "iface outfile-pattern errfile-pattern prepend-pattern demux nameserver arch ranks-per-proc "
    "usize topolib localhost order-nodes gpus-per-proc gpu-subdevs-per-proc "
    "ckpointlib ckpoint-prefix ckpoint-num ckpoint-interval".split()
)
FROM_FILE = frozenset("app configfile file".split())
FLAGS = frozenset(
    "oversubscribe nooversubscribe use-hwthread-cpus v verbose q quiet tag-output timestamp-output "
    "display-map display-allocation report-bindings allow-run-as-root l prepend-rank genvall "
    "genvnone envall envnone nolocal rr hybrid-hosts info print-all-exitcodes "
    "disable-auto-cleanup disable-hostname-propagation".split()
)


def is_mpiexec(word: str) -> bool:
    """Return whether a command starts MPI ranks: mpiexec, mpirun, mpiexec.hydra, ..."""
    return (
        re.fullmatch(r"(mpiexec|mpirun|orterun|prterun)(\.\w+)?", PurePath(word).name) is not None
    )


def n_ranks(command: Sequence[str]) -> int | None:
    """Return the number of ranks that an mpiexec command starts; None: it does not say so."""
    asked = 0
    for part in _parts(command):
        words = part[: _program(part)]
        counts = [
            word.partition("=")[2] or after
            for word, after in itertools.pairwise([*words, ""])
            if word.startswith("-") and word.lstrip("-").partition("=")[0] in ("n", "np", "c")
        ]
        if not counts or not counts[-1].isdecimal():
            return None
        asked += int(counts[-1])
    return asked


def _parts(command: Sequence[str]) -> list[list[str]]:
    """Split the words after mpiexec at each ``:``; each part has options and a program."""
    out: list[list[str]] = [[]]
    for word in command[1:]:
        if word == ":":
            out.append([])
        else:
            out[-1].append(word)
    return out


def insert_before_programs(command: Sequence[str], launcher: Sequence[str]) -> list[str]:
    """Return the mpiexec command with `launcher` inserted before each of its programs.

    Raises DomainError if there is no program, if a file names the programs, or if the supposed
    program may be the value of an unknown option.

    >>> from pylb.comm.mpiexec import insert_before_programs
    >>> insert_before_programs("mpiexec -n 2 ./a : -n 1 ./b".split(), ["hold"])
    ['mpiexec', '-n', '2', 'hold', './a', ':', '-n', '1', 'hold', './b']
    """
    out = [command[0]]
    for i, part in enumerate(_parts(command)):
        program = _program(part)
        out += [*([":"] if i else []), *part[:program], *launcher, *part[program:]]
    return out


def _program(words: Sequence[str]) -> int:
    """Return the index of the program in one part of the command line."""
    i, unknown = 0, ""
    while i < len(words) and words[i].startswith("-"):
        name, equals, _ = words[i].lstrip("-").partition("=")
        if name in FROM_FILE:
            raise DomainError(f"{words[i]} takes the programs from a file: expected a program")
        if not (equals or name in ONE_VALUE or name in TWO_VALUES or name in FLAGS):
            unknown = words[i]
        i += 1
        if not equals:
            i += (name in ONE_VALUE) + 2 * (name in TWO_VALUES)
    if i >= len(words):
        raise DomainError(f"no program in {' '.join(words)!r}: expected one after the options")
    if unknown and shutil.which(words[i]) is None:
        value = f"if it is the value of {unknown}, write {unknown}={words[i]}"
        raise DomainError(f"{words[i]!r} is not a program: {value}")
    return i
