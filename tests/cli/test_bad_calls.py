"""Bad command lines and bad calls: one line that names the argument, code 2, nothing written."""

from pathlib import Path

import numpy as np
import pytest

import pylb
from pylb.cli import main as cli
from pylb.errors import DomainError

# Arguments after `pylb`, and a text that the error message must contain.
LINES = {
    "": "command",
    "replya run.h5": "did you mean replay",
    "replay": "RUN",
    "replay absent.h5": "absent.h5",
    "replay run.h5 --stratgy auto": "did you mean --strategy",
    "replay run.h5 --strategy Gredy": "did you mean GreedyLB",
    "replay run.h5 --strategy": "--strategy",
    "replay run.h5 --strategy ,": "--strategy",
    "replay run.h5 --strategy GreedyLB,,auto": "--strategy",
    "replay run.h5 --trigger ,": "--trigger",
    "replay run.h5 --every 1,,2": "--every",
    "replay run.h5 --trigger menno": "did you mean menon",
    "replay run.h5 --every 0": "--every",
    "replay run.h5 --every 1.5": "--every",
    "replay run.h5 --every -3": "--every",
    "replay run.h5 --cost -1": "cost",
    "replay run.h5 --cost nan": "cost",
    "replay run.h5 --cost much": "--cost",
    "replay run.h5 --alpha -1": "alpha",
    "replay run.h5 --seed x": "--seed",
    "replay cut.h5": "cut.h5",
    "replay text.json": "text.json",
    "replay run.h5 --strategy mine.py:f": "--import mine.py",
    "triggers run.h5 --trigger menno --cost 1": "did you mean menon",
    "triggers --trigger menno": "did you mean menon",
    "triggers run.h5 --cost inf": "cost",
    "optimum run.h5 --strategy Gredy": "did you mean GreedyLB",
    "optimum run.h5 --cost -1": "cost",
    "strategies Gredy": "did you mean GreedyLB",
    "compare run.h5": "B",
    "compare run.h5 absent.h5": "absent.h5",
    "compare run.h5 cut.h5": "cut.h5",
    "report run.h5 --html nowhere/page.html": "nowhere/page.html",
    "report run.h5 --every 5": "--every",
    "report run.h5 --strategy GreedyLB --every 0": "every",
    "report run.h5 --names text.json": "text.json",
    "report cut.h5": "cut.h5",
    "convert run.h5 out.xyz": "out.xyz",
    "convert run.h5 nowhere/out.h5": "nowhere/out.h5",
    "convert run.h5 out.h5 --compress": "--compress",
    "convert run.h5 out --to xml": "--to",
    "watch absent.h5 --once": "absent.h5",
    "watch run.h5 --serve --once": "--serve with --once or --json: expected only one of them",
    "watch run.h5 --serve --json": "--serve with --once or --json: expected only one of them",
    "watch absent.h5 --interval 0": "interval",
    "watch run.h5 --once --interval 0": "interval",
    "watch .": "not a run record",
    "triggers absent.h5": "absent.h5",
    "experience absent.pylb": "absent.pylb",
    "optimum absent.h5": "absent.h5",
    "report absent.h5": "absent.h5",
    "convert absent.h5 out.h5": "absent.h5",
    "run -- no-such-program": "no-such-program",
    "steer absent.yaml -- true": "absent.yaml",
    "watch text.json": "not a run record",
    "demo --ranks 0": "ranks",
    "demo --ranks many": "--ranks",
    "demo --objects 0": "objects",
    "demo --iterations -1": "iterations",
    "demo --strategy Gredy": "did you mean GreedyLB",
    "demo --trigger menno": "did you mean menon",
    "demo --every 0": "every",
    "demo --save nowhere/run.h5": "nowhere/run.h5",
    "demo --save run.txt": "run.txt",
    "demo --html page.pdf": "page.pdf",
    "partition absent.graph": "absent.graph",
    "partition text.json": "text.json",
    "partition square.graph --parts 0": "parts",
    "partition square.graph --method mtis": "did you mean metis",
    "partition square.graph -P NITER": "-P",
    "partition square.graph --imbalance 0.5": "imbalance",
    "partition square.graph --old absent.part": "absent.part",
    "whatif absent": "absent",
    "whatif run.h5 --suggest 0": "--suggest",
    "whatif run.h5": "run.h5",
    "procedures absent": "absent",
    "record -- true": "-o",
    "record -o ops": "command",
    "record -o ops -- nosuchprogram": "nosuchprogram",
    "record -o nowhere/ops -- true": "nowhere",
    "lab": "command",
    "lab --share 7 -- true": "share",
    "lab --share x -- true": "share",
    "lab -- true": "--share",
    "completion ksh": "bash",
    "completion bash zsh": "'zsh'",
    "replay run.h5 run.h5": "unexpected 'run.h5'",
    "replay run.h5 --every 99999999999999999999": "every is",
    "replay run.h5 --every 1e3": "--every",
    "replay run.h5 --beta nan": "beta is nan",
    "replay run.h5 --import absent.py --strategy f": "absent.py",
    "replay empty.h5": "empty.h5",
    "replay /dev/null": "/dev/null",
    "report run.h5 --html .": "expected the suffix .html",
    "report run.h5 --html page.txt": "--html is 'page.txt'",
    "report run.h5 --html run.h5": "overwrite",
    "report run.h5 --json --names names.json": "--names without a page",
    "report run.h5 --json --coords coords.json": "--coords without a page",
    "report link --html run.h5": "overwrite",
    "report vt --chrome vt/data.0.json": "overwrite",
    "convert run.h5 run.h5": "overwrite",
    "convert vt/data.0.json ./vt/data.0.json": "overwrite",
    "convert vt vt/data.0.json": "overwrite",
    "partition square.graph --out square.graph": "overwrite",
    "convert run.h5": "TARGET",
    "compare run.h5 run.h5 run.h5": "unexpected",
    "watch empty.h5 --once": "empty.h5",
    "watch run.h5 --once --interval nan": "interval is nan",
    "demo --ranks 99999999": "--ranks is 99999999",
    "triggers --cost 1": "there is no RUN",
    "triggers --strategy RefineLB": "there is no RUN",
    "demo --iterations 1e9": "--iterations",
    "demo --html run.h5": "--html is 'run.h5'",
    "demo extra": "unexpected 'extra'",
    "partition empty.graph --parts 2": "empty.graph",
    "partition square.graph --parts 99999999999": "parts is 99999999999",
    "partition square.graph --imbalance nan": "imbalance is nan",
    "partition square.graph -P =": "-P: '='",
    "procedures run.h5": "run.h5",
    "record -o run.h5 -- true": "run.h5",
    "lab --share nan -- true": "share is nan",
    "lab --memory 5potatoes -- true": "5potatoes",
    "lab --lab absent.yaml -- true": "absent.yaml",
}
SNAP = pylb.Snapshot([1.0, 2.0, 3.0], [0, 0, 1], n_ranks=2)
PAIR = ([0, 1, 2], [1, 0])  # a graph of two vertices and an edge
CALLS = {
    "snapshot is [1, 2, 3]": lambda: pylb.place([1, 2, 3], "GreedyLB"),
    "snapshot is 5": lambda: pylb.evaluate(5),
    "machine is 0": lambda: pylb.measure.Monitor(0),
    "strategy is None": lambda: pylb.place(SNAP, None),
    "overload is 'x'": lambda: pylb.strategy("RefineLB", overload="x"),
    "n_ranks": lambda: pylb.Snapshot([1.0], [0], nranks=2),
    "comm is 5": lambda: pylb.Balancer(5),
    "strategy": lambda: pylb.Balancer(stragety="GreedyLB"),
    "every is 2 and trigger is 'auto'": lambda: pylb.Balancer(every=2, trigger="auto"),
    "mode is 'shadwo'": lambda: pylb.Balancer(mode="shadwo"),
    "clock": lambda: pylb.Advisor(clok="wall"),
    "comm is 'x'": lambda: pylb.Advisor("x"),
    "absent.h5": lambda: pylb.Trace.load("absent.h5"),
    "cut.h5": lambda: pylb.Trace.load("cut.h5"),
    "mean every": lambda: pylb.Trace.load("run.h5").replay("GreedyLB", evry=2),
    "cost is nan": lambda: pylb.Trace.load("run.h5").optimum(cost=float("nan")),
    "'part'": lambda: pylb.partition(graph=PAIR, part=2),
    "run is int": lambda: pylb.report(5, "page.html"),
    "page.pdf": lambda: pylb.report("run.h5", "page.pdf"),
    "n_ranks is 0": lambda: pylb.VirtualCluster(0),
    "family is 'x'": lambda: pylb.register_strategy(lambda snapshot: 1, family="x"),
    "graph is 5: expected a scipy.sparse matrix": lambda: pylb.partitioning.color(5),
    # Strange types: strings, None, arrays without an axis, dicts, generators, complex numbers.
    "load: expected an array": lambda: pylb.Snapshot({"a": 1.0}, [0]),
    "not 'generator'": lambda: pylb.Snapshot((1.0 for _ in range(3)), [0, 0, 0]),
    "dtype is complex128": lambda: pylb.Snapshot([1j], [0]),
    "load: expected an array of float64; it has no axis": lambda: pylb.Snapshot(np.array(1.0), 0),
    "n_ranks is '2'": lambda: pylb.Snapshot([1.0], [0], n_ranks="2"),
    "n_ranks is nan": lambda: pylb.Snapshot([1.0], [0], n_ranks=float("nan")),
    "edges is 'x'": lambda: pylb.Snapshot([1.0], [0], edges="x"),
    "edges is 5": lambda: pylb.Snapshot([1.0], [0], edges=5),
    "(src, dst, nbytes[, messages])": lambda: pylb.Snapshot([1.0], [0], edges=([0], [0])),
    "multicasts is ([0],)": lambda: pylb.Snapshot([1.0], [0], multicasts=([0],)),
    "seed is 'x'": lambda: pylb.place(SNAP, "GreedyLB", seed="x"),
    "seed is 1.5": lambda: pylb.Balancer(seed=1.5),
    "path is 3: expected a path": lambda: pylb.Balancer(record=3),
    "without a zero byte": lambda: pylb.Advisor(record="\0.h5"),
    "speed is 1000": lambda: pylb.Balancer(speed=10**400),
    "background is 1000": lambda: pylb.Balancer(background=10**400),
    "seed is None": lambda: pylb.Advisor(seed=None),
    "network: fast: no such file: expected (alpha, beta)": lambda: pylb.Balancer(network="fast"),
    "network has shape (3,)": lambda: pylb.Advisor(network=(1, 2, 3)),
    "network[1] is nan": lambda: pylb.VirtualCluster(2, network=(0, float("nan"))),
    "speed: expected an array of numbers": lambda: pylb.VirtualCluster(2, speed="x"),
    "main is 5": lambda: pylb.VirtualCluster(2).run(5),
    "i is 'x'": lambda: pylb.Balancer().explain("x"),
    "key is None": lambda: pylb.Balancer().add(None, 1),
    "key is 1.5": lambda: pylb.Balancer().add(1.5, 1),
    "coords are 'x'": lambda: pylb.Balancer().add(1, 2, coords="x"),
    "n is nan": lambda: pylb.Balancer().iterate(float("nan")),
    "seconds is 'x'": lambda: pylb.Advisor().advise(seconds="x"),
    "other is 5": lambda: pylb.Trace.load("run.h5").replay("GreedyLB").speedup_over(5),
    "call is 5": lambda: pylb.register_strategy(5),
    "name is 5": lambda: pylb.register_strategy(lambda snapshot: 1, name=5),
    "name is 'auto'": lambda: pylb.register_strategy(lambda snapshot: 1, name="auto"),
    "name is 'unbalanced'": lambda: pylb.register_strategy(lambda snapshot: 1, name="unbalanced"),
    "name is 'RefineLB'": lambda: pylb.register_strategy(lambda snapshot: 1, name="RefineLB"),
    "destination has shape ()": lambda: pylb.Plan(None, np.array(0)),
    "n_objects is 2.5": lambda: pylb.demo.run(2, 2.5),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a run, also as a link and as vt's files, a text, a graph, and so on."""
    pytest.importorskip("h5py")
    out = tmp_path_factory.mktemp("bad")
    pylb.demo.run(2, 8, 12, save=out / "run.h5", every=4)
    (out / "link").symlink_to("run.h5")
    pylb.Trace.load(out / "run.h5").save(out / "vt")
    (out / "cut.h5").write_bytes((out / "run.h5").read_bytes()[:3000])
    (out / "text.json").write_text("no JSON\n")
    (out / "empty.h5").touch()
    (out / "empty.graph").touch()
    (out / "square.graph").write_text("4 4\n2 3\n1 4\n1 4\n2 3\n")
    return out


def contents():
    return {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")}


@pytest.fixture(autouse=True)
def nothing_written(folder, monkeypatch):
    """Run the test in the folder; check that the folder has the same files afterwards."""
    monkeypatch.chdir(folder)
    before = contents()
    yield
    assert contents() == before


def test_every_subcommand_is_tried():
    assert {line.split()[0] for line in LINES if line} >= cli.COMMANDS.keys() - {"info"}


@pytest.mark.parametrize("line", LINES)
def test_a_bad_command_line(line, capfd):
    assert cli.main(line.split()) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("pylb: ")
    assert err.count("\n") == 1
    assert LINES[line] in err


@pytest.mark.parametrize("said", CALLS)
def test_a_bad_call(said):
    with pytest.raises((pylb.errors.PylbError, TypeError)) as caught:
        CALLS[said]()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- arguments that are True or False: other values, e.g. "no", are errors and not True --------


GRAPH = [[0, 1, 2], [1, 0]]


def balancer():
    lb = pylb.Balancer()
    lb.add(1, "an object")
    return lb


def trace():
    return pylb.Trace.from_snapshots([pylb.Snapshot(np.ones(8), np.arange(8) % 2)])


FLAGS = {
    "partition": ("symmetrize", lambda v: pylb.partition(GRAPH, parts=2, symmetrize=v)),
    "color": ("symmetrize", lambda v: pylb.partitioning.color(GRAPH, symmetrize=v)),
    "order": ("symmetrize", lambda v: pylb.partitioning.order(GRAPH, symmetrize=v)),
    "reverse": ("add", lambda v: pylb.Plan(None, [0]).reverse(np.zeros(1), add=v)),
    "measure": ("network", lambda v: pylb.Machine.measure(seconds=0.001, network=v)),
    "find": ("missing", lambda v: pylb.Directory(None).find([], missing=v)),
    "add": ("migratable", lambda v: balancer().add(2, "another", migratable=v)),
    "update": ("migratable", lambda v: balancer().update(1, migratable=v)),
    "send": ("copy", lambda v: balancer().send(1, 1, "data", copy=v)),
    "multicast": ("copy", lambda v: balancer().multicast([1], 1, "data", copy=v)),
    "iterate": ("progress", lambda v: balancer().iterate(1, progress=v)),
    "checkpoint": ("pickled", lambda v: balancer().checkpoint("nowhere", pickled=v)),
    "pause_if_useless": ("pause_if_useless", lambda v: pylb.Balancer(pause_if_useless=v)),
    "learn_speeds": ("learn_speeds", lambda v: pylb.Balancer(learn_speeds=v)),
    "tell": ("tell", lambda v: trace().replay("GreedyLB", tell=v)),
    "foresight": ("foresight", lambda v: trace().replay("GreedyLB", foresight=v)),
    "relative": ("relative", lambda v: pylb.plots.rank_loads(np.ones((2, 2)), relative=v)),
}


@pytest.mark.parametrize("value", ["no", 2, 0.5, [], np.zeros(2)], ids=str)
@pytest.mark.parametrize("call", FLAGS)
def test_only_true_and_false(call, value):
    name, action = FLAGS[call]
    with pytest.raises(DomainError, match=f"{name} is .*: expected True"):
        action(value)
    if call == "relative":
        pytest.importorskip("matplotlib.pyplot").close("all")


@pytest.mark.parametrize("value", [True, False, 1, 0, np.True_, np.int8(0)])
def test_numbers_and_numpys_own_are_flags(value):
    assert len(pylb.partition(GRAPH, parts=2, symmetrize=value).part) == 2
    with pytest.raises(DomainError, match="migratable is None"):
        balancer().add(2, "another", migratable=None)
