"""The table of subcommands: what each does, its examples and arguments, and the function."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from pylb.cli import installed, programs, runs, steer
from pylb.cli.common import DEFAULT_STRATEGY, counts, floats, ints, pair, words
from pylb.partitioning import METHODS
from pylb.partitioning.libraries import APPROACHES


class Argument(NamedTuple):
    """An argument: its names, and the options of `argparse`."""

    words: tuple[str, ...]
    how: dict[str, Any]


def arg(
    word: str, help: str, type: Callable[[str], Any] = str, short: str = "", **how: Any
) -> Argument:
    """Describe an argument; `word` is an option or a name, and the value that the help shows."""
    name, _, shown = word.partition(" ")
    if how.get("action") != "store_true":
        how |= {"type": type} | ({"metavar": shown} if shown else {})
    return Argument((short, name) if short else (name,), {**how, "help": help})


def flag(word: str, help: str) -> Argument:
    return arg(word, help, action="store_true")


class Command(NamedTuple):
    """A subcommand."""

    run: Callable[[argparse.Namespace], int]  #: returns the exit code
    help: str
    examples: str
    arguments: tuple[Argument, ...]


RECORD = "a run record (.h5, or .json by pylb's C library), or vt's files: the folder or one file"
STEM = arg("--stem", "read the run STEM.RANK.json if the folder has several runs")
RUN = (arg("run RUN", RECORD), STEM)
IMPORT = arg(
    "--import MODULE",
    "a Python module, a name or FILE.py, which is imported first, so that its code is "
    "executed; --strategy and --trigger can then name its functions. May be repeated",
    dest="imports",
    action="append",
    default=[],
)
SCHEDULE = (
    arg(
        "--strategy",
        "a name that pylb strategies lists; with parameters: 'RefineLB overload=1.1' "
        "(default: %(default)s)",
        default=DEFAULT_STRATEGY,
    ),
    IMPORT,
    arg("--cost", "seconds of an LB step (default: the mean of the run's own LB steps)", float),
)
PRICES = (
    arg("--alpha", "seconds per message (default: 0)", float, default=0.0),
    arg("--beta", "seconds per byte (default: 0)", float, default=0.0),
)
RECORDING = arg("recording RUN", "file that pylb record wrote")
JSON = flag("--json", "print one JSON object")


def json_file(what: str) -> Argument:
    help = f"write {what} as JSON (standard output belongs to the program that is run)"
    return arg("--json FILE", help)


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
            arg("--ranks", "number of virtual ranks (default: 8)", int, default=8),
            arg("--objects", "number of objects (default: 128)", int, default=128),
            arg("--iterations", "number of iterations (default: 200)", int, default=200),
            arg(
                "--strategy", "auto (default), or a name that pylb strategies lists", default="auto"
            ),
            arg("--every", "iterations from one LB step to the next", int),
            arg("--trigger", "when to rebalance: name of a trigger (default: auto)"),
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
                default=runs.STRATEGIES,
            ),
            IMPORT,
            flag("--unbalanced", "replay none and unbalanced, before the strategies of --strategy"),
            arg(
                "--every N,M,...",
                "iterations from one LB step to the next (default: 1; but with --trigger, or with "
                "strategy auto, the trigger decides)",
                counts,
            ),
            arg("--trigger A,B,...", "triggers by name", words),
            flag(
                "--foresight",
                "rebalance before each phase with the loads of this phase: a perfect prediction",
            ),
            arg(
                "--cost",
                "seconds of each LB step (default: as measured, if the recorded run did the same LB"
                " step; else from the cost model)",
                float,
            ),
            *PRICES,
            arg("--seed", "seed for strategies that draw random numbers", int, default=0),
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
        (
            arg("first A", RECORD),
            arg("second B", "another run"),
            JSON,
        ),
    ),
    "strategies": Command(
        runs.strategies,
        "list the strategies, or show the parameters of some",
        """\
  pylb strategies
  pylb strategies RefineLB GossipLB          (with their parameters)
  pylb strategies --json
""",
        (
            arg("name NAME", "only these strategies (default: all)", nargs="*"),
            JSON,
        ),
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
        (arg("command", "after --: mpiexec ..., or any MPI program", nargs="+"),),
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
            json_file("a summary"),
            arg("command", "after --: mpiexec ..., or any MPI program", nargs="+"),
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
            arg("--output FILE", "the recording to write", required=True, short="-o"),
            arg(
                "--host",
                "address of this machine, to which the ranks connect (default: 127.0.0.1, which is "
                "enough if all ranks are on this machine)",
                default="127.0.0.1",
            ),
            arg(
                "--procedures F,...",
                "functions to record, in a program compiled with -finstrument-functions",
                words,
                default=[],
            ),
            arg(
                "--place Q,...",
                "processor of each rank: predict the time with this placement while the program "
                "runs; may be repeated",
                ints,
                action="append",
                default=[],
            ),
            arg("--speed X,...", "speed of each processor, for --place", floats),
            json_file("a summary of the recording"),
            arg("command", "after --: mpiexec ..., or any MPI program", nargs="+"),
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
            arg(
                "--place Q,...",
                "processor of each rank; may be repeated (default: each rank has its own)",
                ints,
                action="append",
                default=[],
            ),
            arg(
                "--speed X,...",
                "speed of each processor, or one number for all; 1: as fast as the recorded ones",
                floats,
            ),
            arg("--share X,...", "available fraction of each processor, as in pylb lab", floats),
            arg(
                "--period", "share period (default: 5ms; 0ms if waiting ranks slept when recorded)"
            ),
            arg("--node N,...", "node of each processor (default: all on one)", ints),
            arg("--alpha", "seconds per message (default: as measured with the recording)", float),
            arg("--beta", "seconds per byte (default: as measured with the recording)", float),
            arg("--overhead", "processor seconds of an MPI call", float),
            arg(
                "--eager", "largest message in bytes that is sent before its receive is posted", int
            ),
            arg(
                "--suggest N",
                "search for the N changes of the last --place that save the most time",
                int,
            ),
            flag("--ranks", "show a row for each rank"),
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
            arg("--html FILE", "write the page (if nothing else is written: RUN.html)", short="-o"),
            arg("--csv FOLDER", "write tables of comma-separated values"),
            arg("--chrome FILE", "write a Chrome trace, for Perfetto"),
            flag("--json", "print the efficiencies in the JSON format of TALP"),
            arg("--title", "title of the page (default: the file's name)"),
            arg("--names FILE", 'names of the objects, a JSON file: {"KEY": "name", ...}'),
            arg(
                "--coords FILE",
                'positions of the objects for drawing them, a JSON file: {"KEY": [x, y, z], ...}',
            ),
            arg("--strategy", "replay the run with this strategy, and show the replay"),
            IMPORT,
            arg("--every", "in the replay: iterations from one LB step to the next", int),
            arg("--trigger", "in the replay: name of the trigger (default: auto)"),
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
            arg(
                "--interval",
                "seconds between two checks of the file (default: 1)",
                float,
                default=1.0,
            ),
            flag("--once", "show the present state once"),
            arg(
                "--serve PORT",
                "serve a page for a browser on this host (default of PORT: any free port)",
                int,
                nargs="?",
                const=0,
            ),
            flag("--json", "print JSON, one object per line"),
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
            flag("--compress", "compress vt's files by Brotli"),
            flag("--json", "print the names of the written files as JSON"),
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
            arg("--parts K", "number of parts (default: 2)", int, default=2),
            arg(
                "--method A,B,...",
                f"one or more of {', '.join(METHODS)}; --out gets the parts of smallest volume",
                words,
            ),
            arg("--coords FILE.npy", "positions of the objects, for rcb, rib and hsfc"),
            arg("--old FILE", "present part of each object: one per line, or .npy"),
            arg(
                "--approach",
                "default: repartition with --old, partition without",
                choices=APPROACHES,
            ),
            arg(
                "--ratio",
                "number of halo exchanges between two repartitions (default: 1)",
                float,
                default=1.0,
            ),
            arg(
                "--imbalance",
                "largest allowed ratio of a part's weight to its share (default: %(default)s)",
                float,
                default=1.03,
            ),
            arg("--seed", "seed of the method (default: %(default)s)", int, default=0),
            flag(
                "--symmetrize",
                "add the other direction of edges that are given in one direction only",
            ),
            arg(
                "-P NAME=VALUE",
                "a parameter of the library, by the library's own name",
                pair,
                dest="params",
                action="append",
                default=[],
            ),
            arg("--out FILE", "write the part of each object: one per line, or .npy"),
            flag("--json", "print JSON"),
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
            arg(
                "--share CORES,...",
                "cores for each rank; a short list is repeated (default: equal parts)",
            ),
            arg(
                "--cap WATTS,...",
                "power caps, 23W ... 95W: shares that imitate the nodes of Dasgupta 2013",
            ),
            arg("--memory SIZE,...", "memory of each rank; what is above it is swapped out"),
            arg("--lab FILE", "read the description of the lab from a YAML file"),
            arg(
                "--period TIME",
                "period in which a rank gets its share (default: 5ms; longer for shares < 0.2)",
            ),
            flag("--check", "first measure what the lab enforces"),
            json_file("the limits and the usage of each rank"),
            flag("--quiet", "print no table of usage; with --lab, skip the measurement"),
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
