"""The table of subcommands: what each does, its examples and arguments, and the function."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from pylb.cli import installed, programs, runs, steer
from pylb.cli.common import counts, floats, ints, pair, words
from pylb.partitioning import METHODS
from pylb.partitioning.libraries import APPROACHES

Argument = tuple[tuple[str, ...], dict[str, Any]]  # the arguments of `add_argument` of argparse


def arg(
    words: str, help: str, kind: Callable[[str], Any] = str, default: Any = None, **how: Any
) -> Argument:
    """Describe an argument: "--name" or "-n, --name", and what the help shows for its value.

    `kind` converts its text; bool: an option without a value.  The help ends with the default.
    """
    *short, word = words.split(", ")
    name, _, shown = word.partition(" ")
    if kind is bool:
        how["action"] = "store_true"
    else:
        how |= {"type": kind, "default": default} | ({"metavar": shown} if shown else {})
        help += " (default: %(default)s)" * isinstance(default, (int, float, str))
        help += "; may be repeated" * ("action" in how)
    return (*short, name), {**how, "help": help}


class Command(NamedTuple):
    """A subcommand."""

    run: Callable[[argparse.Namespace], int]  #: returns the exit code
    help: str
    examples: str
    arguments: tuple[Argument, ...]


RECORD = "a run record (.h5, or .json by pylb's C library), or vt's files: the folder or one file"
STEM = arg("--stem", "read the run STEM.RANK.json if the folder has several runs")
RUN = (arg("run RUN", RECORD), STEM)
REPEATED: dict[str, Any] = {"action": "append", "default": []}
IMPORT = arg(
    "--import MODULE",
    "a Python module, a name or FILE.py, to execute first: --strategy and --trigger can then name "
    "its functions",
    dest="imports",
    **REPEATED,
)
NAMED = "a name that pylb strategies lists; with parameters: 'RefineLB overload=1.1'"
SCHEDULE = (
    arg("--strategy", NAMED, default=runs.SCHEDULED),
    IMPORT,
    arg("--cost", "seconds of an LB step (default: the mean of the run's own LB steps)", float),
)
EVERY = arg("--every", "iterations from one LB step to the next", int)
TRIGGER = arg("--trigger", "when to rebalance: name of a trigger (default: auto)")
PRICES = (
    arg("--alpha", "seconds per message", float, 0.0),
    arg("--beta", "seconds per byte", float, 0.0),
)
RECORDING = arg("recording RUN", "file that pylb record wrote")
PROGRAM = arg("command", "after --: mpiexec ..., or any MPI program", nargs="+")
JSON = arg("--json", "print JSON", bool)
SUMMARY = arg("--json FILE", "write a summary as JSON (the program has the standard output)")


COMMANDS = {
    "info": Command(
        installed.info,
        "show versions, compiler, MPI and optional parts",
        """\
  pylb info
  pylb info --json
""",
        (JSON,),
    ),
    "demo": Command(
        runs.demo,
        "run a small program that balances itself on virtual ranks, and show what it gains",
        """\
  pylb demo
  pylb demo --save run.h5 --html run.html    (to look at the run: pylb report run.h5, pylb.explore)
  pylb demo --ranks 32 --objects 256 --strategy RefineLB --every 10
  pylb demo --json
""",
        (
            arg("--ranks", "number of virtual ranks", int, 8),
            arg("--objects", "number of objects", int, 128),
            arg("--iterations", "number of iterations", int, 200),
            arg("--strategy", NAMED, default="auto"),
            EVERY,
            TRIGGER,
            arg("--save FILE", "write the run record (.h5)"),
            arg("--html FILE", "write the report as a page (.html)"),
            JSON,
        ),
    ),
    "replay": Command(
        runs.replay,
        "replay a recorded run under other placements",
        """\
  pylb replay run/
  pylb replay run.h5 --strategy RefineLB --trigger auto,boulmier --cost 0.1
  pylb replay run/ --strategy unbalanced,GreedyLB,RefineLB --every 1,5
  pylb replay run/ --trigger metabalancer --cost 0.2 --json
  pylb replay run/ --strategy 'RefineLB,RefineLB overload=1.1' --trigger 'zhai reference=2'
  pylb replay run.h5 --unbalanced            (what rebalancing has saved in this run)
  pylb replay run/ --import mine.py --strategy my_strategy --foresight

more strategies: auto chooses a strategy for each LB step and, by default, also when to rebalance;
unbalanced leaves every object on its first rank; none repeats the recorded placements and LB steps
""",
        (
            *RUN,
            arg(
                "--strategy A,B,...",
                "strategies of 'pylb strategies', or auto, unbalanced, none (as recorded) "
                f"(default: {','.join(runs.STRATEGIES)})",
                words,
                runs.STRATEGIES,
            ),
            IMPORT,
            arg("--unbalanced", "replay none and unbalanced, before those of --strategy", bool),
            arg("--every N,M,...", "iterations per LB step (default: 1 without --trigger)", counts),
            arg("--trigger A,B,...", "triggers by name", words),
            arg("--foresight", "rebalance before each phase, with the loads of this phase", bool),
            arg("--cost", "seconds of an LB step (default: as recorded, else as modelled)", float),
            *PRICES,
            arg("--seed", "seed for strategies that draw random numbers", int, 0),
            JSON,
        ),
    ),
    "compare": Command(
        runs.compare,
        "compare two recorded runs: where their time went, and their LB steps",
        """\
  pylb demo --save auto.h5
  pylb demo --every 10 --strategy RefineLB --save every10.h5
  pylb compare auto.h5 every10.h5
  pylb compare auto.h5 every10.h5 --json
""",
        (arg("first A", RECORD), arg("second B", "another run"), JSON),
    ),
    "strategies": Command(
        runs.strategies,
        "list the strategies, or show the parameters of some",
        """\
  pylb strategies
  pylb strategies RefineLB GossipLB          (with their parameters)
  pylb strategies --json
""",
        (arg("name NAME", "only these strategies (default: all)", nargs="*"), JSON),
    ),
    "triggers": Command(
        runs.triggers,
        "list the triggers, or compare them with the best schedule found for a recorded run",
        """\
  pylb triggers
  pylb triggers run/ --strategy GreedyLB --cost 0.05
  pylb triggers run.h5 --trigger auto,boulmier,metabalancer --json
""",
        (
            arg("run RUN", RECORD, nargs="?"),
            STEM,
            arg("--trigger A,B,...", "only these triggers (default: all)", words),
            *SCHEDULE,
            JSON,
        ),
    ),
    "experience": Command(
        runs.experience,
        "show what the runs of programs have learned: the file of experience=path",
        """\
  pylb experience app.pylb
  pylb experience app.pylb --json
""",
        (arg("experience FILE", "the file"), JSON),
    ),
    "optimum": Command(
        runs.optimum,
        "find the best schedule of LB steps for a recorded run",
        """\
  pylb optimum run/ --cost 0.05
  pylb optimum run.h5 --strategy RefineLB --json

"exact" means the best of all 2^(m-1) schedules for m iterations; "found" means the best schedule
that the search found.  No schedule takes less time than the bound.  A trigger cannot know the best
schedule in advance; pylb triggers RUN shows how much time each trigger loses.
""",
        (*RUN, *SCHEDULE, JSON),
    ),
    "run": Command(
        programs.run,
        "run an MPI program with a clock that does not count waits within MPI",
        """\
  pylb run -- mpiexec -n 4 python prog.py     (for pylb.Advisor: its clock "auto" is then "mpi")
  pylb run -- mpiexec -n 4 ./a.out            (the same for pylb's C library)
""",
        (PROGRAM,),
    ),
    "steer": Command(
        steer.steer,
        "run an MPI program that knows nothing of pylb, and call commands that balance it",
        """\
  pylb steer steer.yaml -- mpiexec -n 4 ./a.out
  pylb steer - -- mpiexec -n 4 ./a.out        (only measure what balancing would save)

steer.yaml, for a program that redistributes when there is a file, and deletes it afterwards:
redistribute: touch balance; while [ -e balance ]; do sleep 0.1; done
for a program that can only be started again, from a file that it has written:
stop: touch stop
start: mpiexec -n 4 ./a.out --restart
""",
        (
            arg("plan FILE", "a file that says which commands redistribute; -: none, only measure"),
            SUMMARY,
            PROGRAM,
        ),
    ),
    "record": Command(
        programs.record,
        "run an MPI program and record its operations, for pylb whatif",
        """\
  pylb record -o run -- mpiexec -n 4 python prog.py
  pylb record -o run -- mpiexec -n 4 ./a.out
  pylb record -o run --place 0,0,1,1 -- mpiexec -n 4 ./a.out   (predicts while the program runs)
  pylb whatif run --place 0,0,1,1
""",
        (
            arg("-o, --output FILE", "the recording to write", required=True),
            arg("--host", "address of this machine, for ranks elsewhere", default="127.0.0.1"),
            arg("--procedures F,...", "functions to record: -finstrument-functions", words, []),
            arg(
                "--place Q,...",
                "predict the time for these processors of the ranks",
                ints,
                **REPEATED,
            ),
            arg("--speed X,...", "speed of each processor, for --place", floats),
            SUMMARY,
            PROGRAM,
        ),
    ),
    "whatif": Command(
        programs.whatif,
        "predict the time of a recorded MPI program under other placements",
        """\
  pylb whatif run --place 0,0,1,1
  pylb whatif run --place 0,1,0,1 --place 0,0,0,1 --speed 1,0.5
  pylb whatif run --place 0,1,0,1 --share 0.9,0.45     (under pylb lab --share 0.9,0.45)
  pylb whatif run --place 0,0,1,1 --suggest 3
  pylb whatif run --place 0,1,2,3 --node 0,0,1,1 --alpha 2e-6 --beta 1e-9 --json
""",
        (
            RECORDING,
            arg("--place Q,...", "processor of each rank (default: its own)", ints, **REPEATED),
            arg("--speed X,...", "speed of each processor, or of all; 1: as recorded", floats),
            arg("--share X,...", "available fraction of each processor, as in pylb lab", floats),
            arg("--period", "share period (default: 5ms; 0ms if ranks slept while they waited)"),
            arg("--node N,...", "node of each processor (default: all on one)", ints),
            arg("--alpha", "seconds per message (default: as measured with the recording)", float),
            arg("--beta", "seconds per byte (default: as measured with the recording)", float),
            arg("--overhead", "processor seconds of an MPI call", float),
            arg("--eager", "largest message, in bytes, that is sent before its receive", int),
            arg("--suggest N", "find the N best changes of the last --place", int),
            arg("--ranks", "show a row for each rank", bool),
            JSON,
        ),
    ),
    "procedures": Command(
        programs.procedures,
        "show the time saved if a procedure ran on the rank at the other end of its messages",
        """\
  pylb procedures run
  pylb procedures run --from 0 --to 2
  pylb procedures run --json
""",
        (
            RECORDING,
            arg("--from RANK", "only procedures of this rank", int, dest="source"),
            arg("--to RANK", "only moves to this rank", int, dest="target"),
            *PRICES,
            JSON,
        ),
    ),
    "report": Command(
        runs.report,
        "show a recorded run: an interactive page, efficiencies, tables, a timeline",
        """\
  pylb report run.h5                         (writes run.html)
  pylb report run.h5 --html page.html --title 'Monday, 64 nodes'
  pylb report run/ --strategy RefineLB --every 10 --html refined.html
  pylb report run.h5 --json                  (efficiencies of the run, in the format of TALP)
  pylb report run.h5 --csv tables/ --chrome run.json    (run.json opens in ui.perfetto.dev)

A truncated run record is shown up to its last complete iteration.
""",
        (
            *RUN,
            arg("-o, --html FILE", "write the page (if nothing else is written: RUN.html)"),
            arg("--csv FOLDER", "write tables of comma-separated values"),
            arg("--chrome FILE", "write a Chrome trace, for Perfetto"),
            arg("--json", "print the efficiencies in the JSON format of TALP", bool),
            arg("--title", "title of the page (default: the file's name)"),
            arg("--names FILE", 'names of the objects, a JSON file: {"KEY": "name", ...}'),
            arg("--coords FILE", 'positions of the objects, a JSON file: {"KEY": [x, y, z], ...}'),
            arg("--strategy", "replay the run with this strategy, and show the replay"),
            IMPORT,
            EVERY,
            TRIGGER,
        ),
    ),
    "watch": Command(
        runs.watch,
        "watch a run while its program writes it (Balancer(record='run.h5'))",
        """\
  pylb watch run.h5
  pylb watch run.h5 --serve                  (a page for a browser on this host)
  pylb watch run.h5 --once                   (the present state, once)
  pylb watch run.h5 --json --interval 5      (a line of JSON whenever the file changes)

Ctrl-C ends the command.  The program writes after 64 iterations or a second, whichever is earlier.
""",
        (
            arg("run FILE", "the file that the program writes"),
            arg("--interval", "seconds between two checks of the file", float, 1.0),
            arg("--once", "show the present state once", bool),
            arg("--serve PORT", "serve a page on this host (PORT: any)", int, nargs="?", const=0),
            arg("--json", "print JSON, one object per line", bool),
        ),
    ),
    "convert": Command(
        runs.convert,
        "convert a run: pylb's HDF5, vt's LBDatafile JSON, Chrome trace, CSV",
        """\
  pylb convert run/ run.h5                   (vt's files into a run record)
  pylb convert run.h5 vt/ --to vt            (for LBAF and vt-tv; --compress: with Brotli)
  pylb convert run.h5 run.json               (a Chrome trace, for ui.perfetto.dev)
  pylb convert run.h5 tables/ --to csv

Without --to, the suffix of TARGET decides (.h5, .hdf5: run record; .json: Chrome trace).  Only a
run record keeps complete receipts.
""",
        (
            *RUN,
            arg("target TARGET", "file or folder to write"),
            arg("--to", "format (default: by TARGET's suffix)", choices=runs.FORMATS),
            arg("--compress", "compress vt's files by Brotli", bool),
            JSON,
        ),
    ),
    "partition": Command(
        programs.partition,
        "divide a graph, a hypergraph or points into parts",
        """\
  pylb partition 4elt.graph --parts 8
  pylb partition 4elt.graph --parts 8 --method metis,scotch,graph --json
  pylb partition ibm01.hgr --parts 4 --method zoltan --out ibm01.part
  pylb partition points.npy --parts 16 --method hsfc --out parts.npy
  pylb partition mesh.graph --parts 8 --method graph --old mesh.part --ratio 100
  pylb partition mesh.graph --parts 8 --method metis -P NITER=20

files: METIS (.graph), hMETIS (.hgr), Matrix Market (.mtx), NumPy points (.npy) or arrays by name
(.npz: start, to, edge_weight, net_start, pin, net_weight, coords, weight, old, fixed_part, nbytes,
tree, shares)
""",
        (
            arg("file FILE", "the graph, hypergraph or points"),
            arg("--parts K", "number of parts", int, 2),
            arg(
                "--method A,B,...",
                f"one or more of {', '.join(METHODS)}; --out gets the parts of smallest volume",
                words,
            ),
            arg("--coords FILE.npy", "positions of the objects, for rcb, rib and hsfc"),
            arg("--old FILE", "present part of each object: one per line, or .npy"),
            arg(
                "--approach", "default: repartition with --old, else partition", choices=APPROACHES
            ),
            arg("--ratio", "number of halo exchanges between two repartitions", float, 1.0),
            arg("--imbalance", "largest ratio of a part's weight to its share", float, 1.03),
            arg("--seed", "seed of the method", int, 0),
            arg("--symmetrize", "add the missing direction of edges given in only one", bool),
            arg("-P NAME=VALUE", "a parameter of the library", pair, dest="params", **REPEATED),
            arg("--out FILE", "write the part of each object: one per line, or .npy"),
            JSON,
        ),
    ),
    "lab": Command(
        programs.lab,
        "run a command with limits for each MPI rank: share of a core, memory, network",
        """\
  pylb lab --share 0.25 -- mpiexec -n 8 python prog.py
  pylb lab --share 0.5,0.25 -- mpiexec -n 4 python prog.py    (ranks 0, 2: half a core)
  pylb lab --cap 23W -- mpiexec -n 4 python prog.py           (nodes under a power cap)
  pylb lab --memory 64MiB,256MiB -- mpiexec -n 2 python prog.py    (more memory is swapped out)
  pylb lab --lab caps.yaml -- mpiexec -n 4 python prog.py     (hosts, network, changes)
  pylb lab --lab caps.yaml --check                            (measure what the lab enforces)
  pylb lab --share 0.1 --json used.json -- python serial.py
""",
        (
            arg("--share CORES,...", "cores of each rank, a cyclic list (default: equal parts)"),
            arg("--cap WATTS,...", "power caps of the nodes, 23W ... 95W (Dasgupta 2013)"),
            arg("--memory SIZE,...", "memory of each rank; what is above it is swapped out"),
            arg("--lab FILE", "read the description of the lab from a YAML file"),
            arg("--period TIME", "period of the shares (default: 5ms; longer for shares < 0.2)"),
            arg("--check", "first measure what the lab enforces", bool),
            SUMMARY,
            arg("--quiet", "print no table of usage; with --lab, skip the measurement", bool),
            arg("command", "after --: mpiexec ..., or any program", nargs="*"),
        ),
    ),
    "completion": Command(
        installed.completion,
        "print a script that makes your shell complete the words of pylb commands",
        """\
  eval "$(pylb completion bash)"
  pylb completion zsh > ~/.zfunc/_pylb       (or another folder in $fpath)
  pylb completion fish > ~/.config/fish/completions/pylb.fish
  pylb completion bash > ~/.local/share/bash-completion/completions/pylb
""",
        (arg("shell", "the shell", choices=["bash", "zsh", "fish", "tcsh"]),),
    ),
}
