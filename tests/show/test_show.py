"""Room show: courses (a run's figures over time), pages, tables, timelines, explorer settings."""

import base64
import csv
import dataclasses
import hashlib
import json
import math
import re
from itertools import pairwise

import numpy as np
import pytest
from each_case import dealt, in_blocks, loop
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb import console
from pylb.console import clip, plain, script_json
from pylb.decide.receipts import History, Receipt
from pylb.errors import DomainError, FormatError
from pylb.run import progress
from pylb.show import aggregate, course, efficiency, exports, live, page

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "<!-- ",
    "]]>",
    "\u2028\u2029 \u202e \ud800 \x00 \N{SNOWMAN}",
    "&lt;b&gt; ' \" ` ${1}",
    "x" * 10_000,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("h5py")
    out = tmp_path_factory.mktemp("run")
    pylb.demo.run(4, 32, 60, save=out / "run.h5", report=out / "run.html", every=10)
    return out


@pytest.fixture(scope="module")
def record(folder):
    return pylb.RunRecord.load(folder / "run.h5")


def data_of(html):
    (text,) = re.findall(r'<script type="application/json" id="run">(.*?)</script>', html, re.S)
    return json.loads(text)


# ---- courses ----


def test_the_course_of_a_record_is_that_of_its_loads(record):
    c = course.of(record)
    assert (c.n_ranks, c.n_objects, c.n_iterations) == (4, 32, 60)
    np.testing.assert_allclose(c.max, record.max, rtol=1e-12)
    np.testing.assert_allclose(c.mean, record.mean, rtol=1e-12)
    assert np.all(c.elapsed >= c.max)
    assert c.lb_step_iterations == [9, 19, 29, 39, 49]
    moved = {m.iteration: int(m.objects.sum()) for m in c.moves}
    assert moved == {r.iteration: r.migrations for r in record.history.lb_steps if r.migrations}
    assert sum(c.after_each("cost")) == pytest.approx(sum(r.cost for r in c.history.lb_steps))


def test_a_new_object_with_the_key_of_another_one_has_not_moved(tmp_path):
    def main(comm):
        lb = pylb.Balancer(comm, mode="off")
        if comm.rank == 0:
            lb.add(7, "old")
        for it in lb.iterate(4):
            for key, _ in lb.local():
                comm.elapse(1.0 + key)
            if it == 1 and comm.rank == 0:
                lb.remove(7)
            if it == 1 and comm.rank == 1:
                lb.add(7, "new")
        lb.save(tmp_path / "run.h5")

    pylb.VirtualCluster(2, clock="none").run(main)
    assert course.of(tmp_path / "run.h5").moves == []


def test_the_course_of_a_replay_has_its_moves(trace):
    run = trace.replay("GreedyLB", every=7)
    c = course.of(run)
    np.testing.assert_array_equal(c.times, run.rank_times)
    moved = [(m.iteration, m.objects.sum(), m.nbytes.sum()) for m in c.moves]
    assert moved == [(r.iteration, r.migrations, r.nbytes) for r in run.lb_steps]
    for m in c.moves:
        assert np.all(m.source != m.target)
        found = course.moves_after(run, m.iteration)
        assert all(np.array_equal(a, b) for a, b in zip(m[1:], found[1:], strict=True))
    assert course.moves_after(run, 0) is None


def test_rank_times_are_exact_sums(trace):
    for options in ({"every": 3}, {"every": 3, "foresight": True}, {"every": 3, "alpha": 1e-3}):
        run = trace.replay("GreedyLB", **options)
        plainly = [
            [math.fsum(trace.task_load[a:b][run.rank[a:b] == r]) for r in range(trace.n_ranks)]
            for a, b in zip(trace.task_ptr, trace.task_ptr[1:], strict=False)
        ]
        np.testing.assert_array_equal(run.rank_times, plainly)


def test_heaviest_objects_come_first_with_their_names(record):
    c = course.of(record, names={3: "core"})
    loads = {key: seconds for key, _, seconds, *_ in c.heaviest}
    assert list(loads.values()) == sorted(loads.values(), reverse=True)
    assert {name for _, name, *_ in c.heaviest} <= {"", "core"}


# ---- cells ----


@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 9), st.integers(1, 9), st.integers(0, 99)
)
def test_a_cell_is_the_largest_of_its_block(m, p, rows, columns, seed):
    data = np.random.default_rng(seed).random((m, p))
    cells = aggregate.largest(data, rows, columns)
    for (i, j), cell in np.ndenumerate(cells):
        block = data[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
        assert cell == block.max()


def test_means_of_neighbours():
    np.testing.assert_allclose(aggregate.mean(np.arange(7.0), 3), [1.0, 4.0, 6.0])


# ---- the page ----


def test_the_page_has_the_right_numbers_and_needs_no_network(folder, record):
    html = (folder / "run.html").read_text("ascii")
    found = data_of(html)
    assert not re.findall(r"(?:src|href|url\()\s*=?\s*['\"]?(?:https?:)?//", html)
    p = found["picture"]
    assert (p["n_ranks"], p["n_iterations"], p["rows"], p["columns"]) == (4, 60, 4, 60)
    np.testing.assert_allclose(p["max"], record.max, rtol=1e-3)
    assert p["balanced"] == [9, 19, 29, 39, 49]
    assert [d["iteration"] for d in found["decisions"]] == [r.iteration for r in record.history]
    first = next(d for d in found["decisions"] if d["migrations"])
    assert sum(f[2] for f in first["flows"]) == first["migrations"]
    assert "the most loaded rank worked for" in first["said"]


def test_a_column_of_a_long_run_shows_one_lb_step_at_its_place():
    run = pylb.replaying.hotspot(n_ranks=2, n_objects=4, n_phases=1700).replay(
        "GreedyLB", every=1, foresight=True
    )
    picture = page.loads(course.of(run))
    width = picture["iteration_step"]
    assert width > 2
    shown = picture["balanced"]
    assert shown[0] == -1  # before the first iteration
    assert set(shown) <= set(run.lb_step_iterations)
    assert [i // width for i in shown] == sorted({i // width for i in run.lb_step_iterations})


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_data_and_nothing_else(name, record):
    key = int(record.stretches[0].key[-1])
    names = dict.fromkeys(range(key + 1), name)
    html = page.html(course.of(record, title=name, names=names))
    assert html.isascii()
    assert html.count("<script") == 2
    assert html.count("</script>") == 2
    assert "onerror" not in re.sub(r'<script type="application/json".*?</script>', "", html)
    found = data_of(html)
    assert found["title"] == clip(name)
    assert {row[1] for row in found["heaviest"]} == {clip(name)}
    assert len(html) < 200_000


@given(st.text())
def test_json_for_a_script_cannot_end_it_and_says_the_same(text):
    written = script_json({"a": [text, 1.5, None]})
    assert not set("<>&") & set(written)
    assert written.isascii()
    assert json.loads(written) == {"a": [text, 1.5, None]}


def test_a_policy_allows_the_pages_own_script_only(folder):
    html = (folder / "run.html").read_text("ascii")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_a_million_events_are_a_page_of_less_than_two_megabytes(tmp_path):
    rng = np.random.default_rng(0)
    m, p = 2000, 500  # a million loads of ranks, and a receipt after every iteration
    words = "balance", "the ideal period is over " + "x" * 500, "auto"
    known = {"max": 2.0, "mean": 1.0, "before": 2.0, "predicted": 1.1, "migrations": 100}
    known |= {"strategy": "RefineLB", "moved": True}
    history = History(Receipt(i, *words, **known, cost=float(rng.random())) for i in range(m))
    moves = [
        course.Migrations(
            *(i, *rng.integers(0, p, (2, 300)).astype(np.int32), *rng.integers(1, 9, (2, 300))),
            rng.random(300),
        )
        for i in range(m)
    ]
    times = rng.random((m, p)), np.ones(m), np.ones(m)
    run = course.Course("big", p, 10_000, *times, history, moves)
    out = page.write(run, tmp_path / "big.html")
    assert out.stat().st_size < 2e6
    found = data_of(out.read_text("ascii"))
    assert found["decisions_in_all"] == m
    assert len(found["regions"]) == page.MOST_REGIONS
    assert found["regions_in_all"] == m + (m < run.n_iterations) + 1  # and the whole run
    costs = sorted((r.cost for r in history), reverse=True)[: page.MOST_RECEIPTS]
    assert {d["cost"] for d in found["decisions"]} == set(costs)


def test_lb_report_of_a_run_that_is_recorded_to_a_file(tmp_path):
    pytest.importorskip("h5py")

    def main(comm):
        lb = pylb.Balancer(comm, strategy="GreedyLB", every=5, record=tmp_path / "run.h5")
        in_blocks(lb, 8, lambda key: key)
        for _ in lb.iterate(12):
            for key, _ in lb.local():
                comm.elapse(1e-3 * (1 + key))
        coords = {key: (key % 2, key // 2) for key in range(8)}
        names = {7: "<script>"}
        return lb.report(tmp_path / "run.html", title="<b>", names=names, coords=coords)

    report = pylb.VirtualCluster(2, clock="none").run(main)[0]
    found = data_of((tmp_path / "run.html").read_text("ascii"))
    assert found["picture"]["n_iterations"] == 12
    assert report.migrations > 0
    assert found["title"] == "<b>"
    assert found["heaviest"][0][:2] == ["7", "<script>"]
    assert (found["objects"]["how"], len(found["objects"]["frames"])) == ("coordinates", 12)
    assert sum(flow[2] for flow in found["groups"]) == report.migrations


def test_a_report_of_a_file_is_a_page_or_efficiencies(folder, tmp_path):
    out = pylb.report(folder / "run.h5", tmp_path / "page.html", names={0: "first"})
    assert data_of(out.read_text("ascii"))["title"] == "run.h5"
    found = json.loads(pylb.report(folder / "run.h5", tmp_path / "run.json").read_text())
    assert set(found["Application"]["Global"]) >= {"parallelEfficiency", "mpiLoadBalance"}
    assert found["pylb"]["title"] == "run.h5"
    pylb.report(folder / "run.h5", tmp_path / "run.json", title="Monday")
    assert json.loads((tmp_path / "run.json").read_text())["pylb"]["title"] == "Monday"
    for extra in ({"names": {0: "first"}}, {"coords": {0: (0.0,)}}):
        with pytest.raises(DomainError, match=f"{next(iter(extra))} without a page: expected"):
            pylb.report(folder / "run.h5", tmp_path / "run.json", **extra)
    with pytest.raises(DomainError, match=r"expected a suffix \.html or \.json"):
        pylb.report(folder / "run.h5", tmp_path / "run.csv")


def test_every_argument_of_lb_report_is_heeded_or_refused(tmp_path):
    lb = pylb.Balancer()
    lb.add(0, None)
    list(lb.iterate(2))
    assert str(lb.report()).startswith("Run: No LB step took place, because ")
    assert str(lb.report(title="Monday")).startswith("Monday: No LB step")
    for suffix in ("txt", "json", "html"):
        lb.report(tmp_path / f"run.{suffix}", title="Monday")
        assert "Monday" in (tmp_path / f"run.{suffix}").read_text()
    for path in (None, tmp_path / "run.txt", tmp_path / "run.json"):
        for extra in ({"names": {0: "first"}}, {"coords": {0: (0.0,)}}):
            with pytest.raises(DomainError, match=f"{next(iter(extra))} without a page: expected"):
                lb.report(path, **extra)


def test_lb_report_writes_a_page_also_of_a_balancer_without_a_record(tmp_path):
    lb = pylb.Balancer(every=2, record=False)
    loop(dealt(lb, range(4), lambda key: key), 6)
    lb.report(tmp_path / "run.html")
    found = data_of((tmp_path / "run.html").read_text("ascii"))
    assert found["picture"]["n_iterations"] == 6
    with pytest.raises(DomainError, match=r"\.html, \.json, \.txt"):
        lb.report(tmp_path / "run.pdf")


# ---- figures, tables, timelines ----


@pytest.mark.parametrize(
    ("parameters", "longest"), [({}, 4), ({"lag": 2}, 5), ({"advisor": True}, 5)]
)
def test_a_wait_belongs_to_one_iteration(record, parameters, longest):
    """Only a `Balancer` without a lag counts the wait at an iteration's end in the next one."""
    idle = np.zeros(record.n_iterations)
    idle[5] = 100.0
    known = {**record.parameters, **parameters}
    elapsed = course.of(dataclasses.replace(record, idle=idle, parameters=known)).elapsed
    assert elapsed.argmax() == longest
    assert np.sort(elapsed)[-2] < 100.0


def test_a_step_of_an_advisor_takes_its_time(tmp_path):
    """The time of an advisor's step includes the waits in it."""

    def main(comm):
        lb = pylb.Advisor(comm, mode="off")
        for step in lb.iterate(6):
            comm.elapse(1.0)
            if step == 3:  # rank 0 computes, the other one waits
                comm.elapse(20.0 * (comm.rank == 0))
            lb.advise(seconds=1.0 + 20.0 * (step == 3 and comm.rank == 0))
        lb.save(tmp_path / "run.h5")
        return lb._course("run", {})

    pytest.importorskip("h5py")
    made = pylb.VirtualCluster(2, clock="none").run(main)[0]
    read = pylb.RunRecord.load(tmp_path / "run.h5")
    assert read.parameters["advisor"]
    for c in (made, course.of(read)):
        np.testing.assert_allclose(c.elapsed, read.time, rtol=1e-12)


def test_efficiencies_are_those_of_pop(record):
    c = course.of(record)
    regions = efficiency.regions(c)
    assert regions[0]["name"] == "Global"
    assert [r["first"] for r in regions[1:]] == [0, 10, 20, 30, 40, 50]
    assert sum(r["iterations"] for r in regions[1:]) == 60
    useful, total = c.times.sum(axis=0), c.seconds
    assert total >= c.elapsed.sum() + c.step_seconds.sum()
    assert regions[0]["parallel_efficiency"] == pytest.approx(useful.mean() / total)
    assert regions[0]["load_balance"] == pytest.approx(useful.mean() / useful.max())
    for r in regions:
        both = r["load_balance"] * r["communication_efficiency"]
        assert r["parallel_efficiency"] == pytest.approx(both)
        assert 0 < r["parallel_efficiency"] <= 1
    found = efficiency.talp(c)["Application"]
    assert list(found) == [r["name"] for r in regions]
    assert found["Global"]["elapsedTime"] == round(total * 1e9)
    assert found["Global"]["mpiLoadBalance"] == regions[0]["load_balance"]


def test_tables_have_every_iteration_rank_decision_and_move(record, tmp_path):
    c = course.of(record)
    files = exports.write_tables(c, tmp_path / "out")
    rows = {f.stem: list(csv.DictReader(f.read_text().splitlines())) for f in files}
    assert [float(r["max"]) for r in rows["iterations"]] == c.max.tolist()
    assert [float(r["seconds"]) for r in rows["ranks"]] == c.times.ravel().tolist()
    assert len(rows["decisions"]) == len(record.history)
    moved = sum(r.migrations for r in record.history)
    assert sum(int(r["objects"]) for r in rows["moves"]) == moved


def nanoseconds(micros):
    """Convert microseconds to nanoseconds, which must be an integer, 0 or more."""
    out = micros * 1000
    assert out == int(out) >= 0
    return int(out)


NEEDED = {  # by the trace event format, for the events that Perfetto reads
    "X": {"name", "pid", "tid", "ts", "dur", "args"},
    "M": {"name", "pid", "tid", "args"},
    "C": {"name", "pid", "ts", "args"},
    "i": {"name", "pid", "tid", "ts", "s", "args"},
    "s": {"name", "cat", "id", "pid", "tid", "ts", "args"},
    "f": {"name", "cat", "id", "pid", "tid", "ts", "bp", "args"},
}


def checked_timeline(path):
    """Return the events of a Chrome trace, after checks of the format's rules."""
    whole = json.loads(path.read_text("ascii"), parse_constant=pytest.fail)
    assert set(whole) == {"displayTimeUnit", "traceEvents"}
    assert whole["displayTimeUnit"] == "ms"
    threads = {}
    for e in whole["traceEvents"]:
        assert e.keys() - {"ph"} == NEEDED[e["ph"]]
        assert isinstance(e["name"], str)
        assert all(type(e.get(k, 1)) is int and e.get(k, 1) > 0 for k in ("pid", "tid", "id"))
        assert e["ph"] != "C" or all(isinstance(x, (int, float)) for x in e["args"].values())
        if e["ph"] == "X":
            begin = nanoseconds(e["ts"])
            slices = threads.setdefault((e["pid"], e["tid"]), [])
            slices.append((begin, begin + nanoseconds(e["dur"])))
    for slices in threads.values():  # slices must not overlap
        slices.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(slices))
    for e in whole["traceEvents"]:  # an arrow begins and ends in a slice
        if e["ph"] in "sf":
            at = nanoseconds(e["ts"])
            assert any(a <= at < b for a, b in threads[e["pid"], e["tid"]])
    return whole["traceEvents"]


@pytest.mark.parametrize("kind", ["record", "replay"])
def test_the_timeline_is_a_chrome_trace(kind, record, trace, tmp_path):
    run = record if kind == "record" else trace.replay("GreedyLB", every=7, cost=1 / 3000)
    c = course.of(run, title='<b>"')
    events = checked_timeline(exports.write_timeline(c, tmp_path / "run.json"))
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert list(named.values()) == [f"rank {r}" for r in range(c.n_ranks)]
    compute = [e for e in events if e["name"] == "compute"]
    found = np.zeros_like(c.times)
    for e in compute:
        rank = int(named[e["pid"], e["tid"]].split()[1])
        found[e["args"]["iteration"], rank] += e["dur"]
    np.testing.assert_allclose(found, 1e6 * c.times, atol=0.125)
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert all(starts[i]["ts"] <= ends[i]["ts"] for i in starts)
    moved = sum(int(m.objects.sum()) for m in c.moves)
    assert sum(e["args"]["objects"] for e in starts.values()) == moved > 0
    balanced = [e for e in events if e["name"].startswith("balance: ")]
    assert len(balanced) == c.n_ranks * len(c.lb_step_iterations)


def test_slower_first_iterations_count_once_on_the_timeline(trace):
    c = course.of(trace.replay("GreedyLB", every=7, cost=1 / 3000))
    slower = [dataclasses.replace(r, cost=r.cost + 0.1, seconds_warm_up=0.1) for r in c.history]
    slower.append(dataclasses.replace(c.lb_steps[0], iteration=-1))
    c = dataclasses.replace(c, history=History(slower))
    assert exports.begins(c)[-1] == pytest.approx(c.seconds)
    steps = [e for e in exports.events(c) if e["name"].startswith("balance: ") and e["tid"] == 1]
    seconds = [r.step_seconds for r in c.lb_steps]
    np.testing.assert_allclose([1e-6 * e["dur"] for e in steps], seconds, atol=1e-6)


def test_what_is_not_known_is_absent(trace, tmp_path):
    unsized = dataclasses.replace(trace, task_bytes=None).replay("GreedyLB", every=7)
    c = course.of(unsized)
    talp = efficiency.talp(c)
    known = talp["Application"]["Global"].keys()
    assert not {"cycles", "instructions", "numMpiCalls", "dlbVersion"} & (known | talp.keys())
    exports.write_tables(c, tmp_path)
    moves = csv.DictReader((tmp_path / "moves.csv").read_text().splitlines())
    assert {row["bytes"] for row in moves} == {""}
    assert all(e["args"].keys() == {"objects"} for e in exports.events(c) if e["ph"] in "sf")


def test_numbers_are_said_as_they_are_read():
    assert [console.seconds(x) for x in (0.9999, 3.47e-18, 9.999e-4)] == ["1 s", "0 s", "1 ms"]
    assert console.size(999_900) == "1 MB"
    assert [console.seconds(x) for x in (math.nan, math.inf)] == ["nan s", "inf s"]
    assert [console.size(x) for x in (math.nan, math.inf)] == ["nan bytes", "inf GB"]


def test_plain_values():
    given = {"a": np.float64("nan"), "b": (np.int32(1), [np.inf]), "c": np.arange(2)}
    assert plain(given) == {"a": None, "b": [1, [None]], "c": [0, 1]}


# ---- replays ----


def test_the_picture_of_a_replay(trace):
    run = trace.replay("GreedyLB", every=5)
    p = page.loads(course.of_replay(run, trace.replay("none")))
    cells = np.frombuffer(base64.b64decode(p["cells"]), "<u2").reshape(p["rows"], p["columns"])
    np.testing.assert_allclose(cells * p["top"] / 65535, run.rank_times.T, atol=p["top"] / 65535)
    told = page.decision(run.decisions[1], course.moves_after(run, run.decisions[1].iteration))
    assert told["said"] == run.decisions[1].explain()
    assert sum(f[2] for f in told["flows"]) <= told["migrations"]


# ---- live ----


def test_how_a_run_stands(record):
    now = live.state(course.of(record))
    assert (now["iterations"], now["n_ranks"], now["n_lb_steps"]) == (60, 4, 5)
    assert now["decision"] == record.history[-1].headline
    assert len(live.ranks(now)) == 2 + 4  # below the headings
    assert "60 iterations of 32 objects on 4 ranks" in live.head(now)
    alone = live.head({**now, "n_ranks": 1, "n_objects": 1})
    assert alone.startswith("60 iterations of 1 object on 1 rank in ")
    assert f", {console.seconds(record.trace.replay('none').saved)} saved: " in now["verdict"]
    now = live.state(dataclasses.replace(course.of(record), gained=None))
    assert now["saved"] is None
    assert now["verdict"] == "Whether LB steps helped is not known"
    assert live.spark([0.0, 0.5, 1.0], 1.0) == "▁▅█"


@pytest.mark.parametrize(
    ("strategy", "gain"), [("", 0.25), ("RefineLB", 0.125), ("GreedyLB", None), ("MetisLB", 0.25)]
)
def test_the_expected_gain_is_that_of_the_chosen_strategy(record, strategy, gain):
    gains = {"GreedyLB": math.nan, "RefineLB": 0.125, "MetisLB": 0.25}
    known = tuple(pylb.decide.Alternative(name, x, 1.0) for name, x in {"": 0.0, **gains}.items())
    last = dataclasses.replace(record.history[-1], strategy=strategy, alternatives=known)
    now = live.state(dataclasses.replace(course.of(record), history=History([last])))
    assert now["expected_gain"] == gain
    assert ("An LB step would gain" in live.foot(now)) == bool(gain)


def test_progress_on_one_rank_says_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    lb = pylb.Balancer(every=4)
    lb.add(0, "x")
    seen = []
    for it in lb.iterate(20, progress=True):
        seen.append(it)
        for _ in lb.local():
            pass
    said = capsys.readouterr().err.splitlines()
    assert seen == list(range(20))
    assert len(said) == 10
    assert said[-1].startswith("pylb: iteration 20 of 20, max/mean 1.00, ")


def test_progress_of_a_loop_without_iterations(capsys):
    lb = pylb.Balancer()
    assert list(lb.iterate(0, progress=True)) == []
    assert capsys.readouterr().err == ""


# ---- reprs ----


def test_everything_shows_itself_in_a_few_words(record, trace):
    run = trace.replay("GreedyLB", every=5)
    snapshot = trace[3]
    things = [
        trace,
        record,
        run,
        snapshot,
        pylb.place(snapshot, "GreedyLB"),
        run.decisions[0],
        pylb.RowPartition(None, 100),
        pylb.Machine.parse("node:2[speed=1,0.5] rank:2"),
    ]
    for thing in things:
        assert repr(thing).startswith(f"<{type(thing).__name__}")
        assert any(c.isdigit() for c in repr(thing))
        assert len(repr(thing)) < 400


# ---- records ----


def test_a_notebook_shows_a_line_and_bars(record, trace):
    run = trace.replay("GreedyLB", every=7)
    snapshot = trace[0]
    plan = pylb.place(snapshot, "GreedyLB")
    part = pylb.partition(([0, 1, 3, 5, 6], [1, 0, 2, 1, 3, 2]), 2, method="block")
    lb = pylb.Balancer()
    lb.add(0, None)
    list(lb.iterate(3))
    shown = {
        snapshot: (trace.n_ranks, snapshot),
        plan: (2, plan),
        part: (2, part),
        trace: (len(trace), trace),
        run: (2 + len(trace), run),
        record: (record.n_iterations, record),
        lb: (3, lb),
        pylb.Advisor(): (0, None),
    }
    for one, (bars, name) in shown.items():
        html = one._repr_html_()
        assert html.count("<rect") == bars
        assert "<script" not in html
        assert name is None or repr(one)[1:-1].replace(">", "&gt;") in html
    report = lb.report()
    assert report.verdict in report._repr_html_()
    assert repr(report) == f"<Report: {report.verdict}>"
    receipt = run.decisions[0]
    assert receipt.headline in receipt._repr_html_()
    assert f"<summary>why</summary>{receipt.explain()[:20]}" in receipt._repr_html_()
    assert snapshot.metrics._repr_html_().count("<rect") == 3
    many = console.card("<b>", {"x": np.arange(1000.0)})
    assert "&lt;b&gt;" in many
    assert many.count("<rect") <= 64


def test_a_record_cut_short_makes_a_page_up_to_its_last_complete_iteration(folder, tmp_path):
    whole = (folder / "run.h5").read_bytes()
    found = []
    for part in (0.3, 0.6, 0.9):
        path = tmp_path / f"cut{part}.h5"
        path.write_bytes(whole[: int(part * len(whole))])
        try:
            found.append(course.of(path).n_iterations)
            page.html(course.of(path))
        except (DomainError, FormatError):
            found.append(0)
    assert found == sorted(found)
    assert found[-1] > 0
