"""Bad command lines and bad calls: one line that names the argument, code 2, nothing written."""

from pathlib import Path

import pytest

import pylb
from pylb.cli import main as cli

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
    "watch run.h5 --once --interval 0": "interval",
    "watch run.h5 --serve 99999": "--serve",
    "watch .": "folder",
    "watch text.json": "no run record",
    "watch text.json --serve": "no run record",
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
}
SNAP = pylb.Snapshot([1.0, 2.0, 3.0], [0, 0, 1], n_ranks=2)
PAIR = ([0, 1, 2], [1, 0])  # a graph of two vertices and an edge
CALLS = {
    "snapshot is [1, 2, 3]": lambda: pylb.place([1, 2, 3], "GreedyLB"),
    "snapshot is 5": lambda: pylb.evaluate(5),
    "machine is 0": lambda: pylb.Monitor(0),
    "strategy is None": lambda: pylb.place(SNAP, None),
    "mean GreedyLB": lambda: pylb.place(SNAP, "GredyLB"),
    "mean overload": lambda: pylb.place(SNAP, "RefineLB", overlod=1.1),
    "overload is 'x'": lambda: pylb.place(SNAP, "RefineLB", overload="x"),
    "rank[1] is 5": lambda: pylb.Snapshot([1.0, 2], [0, 5], n_ranks=2),
    "rank has shape": lambda: pylb.Snapshot([1.0, 2], [0], n_ranks=2),
    "load[1] is nan": lambda: pylb.Snapshot([1.0, float("nan")], [0, 1], n_ranks=2),
    "mean n_ranks": lambda: pylb.Snapshot([1.0], [0], nranks=2),
    "comm is 5": lambda: pylb.Balancer(5),
    "mean strategy": lambda: pylb.Balancer(stragety="GreedyLB"),
    "mean menon": lambda: pylb.Balancer(trigger="menno"),
    "every is 1.5": lambda: pylb.Balancer(every=1.5),
    "every is 2 and trigger is 'auto'": lambda: pylb.Balancer(every=2, trigger="auto"),
    "mode is 'shadwo'": lambda: pylb.Balancer(mode="shadwo"),
    "lag is -1": lambda: pylb.Balancer(lag=-1),
    "mean clock": lambda: pylb.Advisor(clok="wall"),
    "comm is 'x'": lambda: pylb.Advisor("x"),
    "absent.h5": lambda: pylb.Trace.read("absent.h5"),
    "cut.h5": lambda: pylb.Trace.read("cut.h5"),
    "mean every": lambda: pylb.Trace.read("run.h5").replay("GreedyLB", evry=2),
    "cost is -1": lambda: pylb.Trace.read("run.h5").replay("GreedyLB", cost=-1),
    "cost is nan": lambda: pylb.Trace.read("run.h5").optimum(cost=float("nan")),
    "parts is 0": lambda: pylb.partition(graph=PAIR, parts=0),
    "mean metis": lambda: pylb.partition(graph=PAIR, parts=2, method="mtis"),
    "'part'": lambda: pylb.partition(graph=PAIR, part=2),
    "graph.indices[1] is 7": lambda: pylb.partition(graph=([0, 1, 2], [1, 7]), parts=2),
    "run is int": lambda: pylb.report(5, "page.html"),
    "page.pdf": lambda: pylb.report("run.h5", "page.pdf"),
    "p is 0": lambda: pylb.VirtualCluster(0),
    "family is 'x'": lambda: pylb.strategy(lambda snapshot: 1, family="x"),
    "graph is a int": lambda: pylb.color(5),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a run, a run that was cut short, a text and a graph."""
    pytest.importorskip("h5py")
    out = tmp_path_factory.mktemp("bad")
    pylb.demo.run(2, 8, 12, save=out / "run.h5", every=4)
    (out / "cut.h5").write_bytes((out / "run.h5").read_bytes()[:3000])
    (out / "text.json").write_text("no JSON\n")
    (out / "square.graph").write_text("4 4\n2 3\n1 4\n1 4\n2 3\n")
    return out


@pytest.fixture(autouse=True)
def nothing_written(folder, monkeypatch):
    """Run the test in the folder; check that the folder has the same files afterwards."""
    monkeypatch.chdir(folder)
    before = sorted(Path().rglob("*"))
    yield
    assert sorted(Path().rglob("*")) == before


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
