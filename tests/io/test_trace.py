"""Recorded runs against a plain loader (json, dicts and loops)."""

import dataclasses
import json
import re
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from chance import examples
from each_case import dealt
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb.cli.main import main
from pylb.errors import DomainError, MissingFileError

brotli = pytest.importorskip("brotli")


def load(path):
    raw = Path(path).read_bytes()
    try:
        return json.loads(raw)
    except ValueError:
        return json.loads(brotli.decompress(raw))


class Twin:
    """A run as dicts and lists, by the description of the format."""

    def __init__(self, paths):
        self.ranks = [load(p) for p in paths]
        self.number = {}  # entity name to number
        self.phases = []
        for i in range(len(self.ranks[0]["phases"])):
            tasks, comms = [], []
            for rank in self.ranks:
                phase = rank["phases"][i]
                tasks += [t for t in phase.get("tasks", []) if not self.initial(phase, t)]
                comms += phase.get("communications", [])
            self.phases.append((tasks, comms))
        for tasks, _ in self.phases:
            for task in tasks:
                self.number.setdefault(self.name(task["entity"]), len(self.number))

    @staticmethod
    def name(entity):
        kind = next((k for k in ("id", "seq_id") if k in entity), None)
        return (entity["type"], kind, entity.get(kind))

    @staticmethod
    def initial(phase, task):
        """Say whether it is the task that vt appends to phase 0 of each rank."""
        entity = task["entity"]
        return (
            (phase["id"], task["time"], entity.get("id")) == (0, 0, 0)
            and not entity["migratable"]
            and not entity.keys() & {"collection_id", "objgroup_id"}
            and "user_defined" not in task
        )

    def edges(self, i):
        tasks, comms = self.phases[i]
        here = {self.name(t["entity"]) for t in tasks}
        for c in comms:
            ends = self.name(c["from"]), self.name(c["to"])
            if here.issuperset(ends):
                yield *(self.number[e] for e in ends), c["bytes"], c["messages"]

    def types(self, i):
        tasks, comms = self.phases[i]
        here = {self.name(t["entity"]) for t in tasks}
        known = set(pylb.Trace.COMM_TYPES)
        for c in comms:
            if here.issuperset([self.name(c["from"]), self.name(c["to"])]):
                yield c["type"] if c["type"] in known else "other"

    def moved(self, rank):
        """Return the files under another placement: first the objects that stay, then new ones."""
        out = [{**file, "phases": [dict(phase) for phase in file["phases"]]} for file in self.ranks]
        rank = iter(rank)
        for i in range(len(self.phases)):
            was, now, come = {}, {}, []
            for r, file in enumerate(self.ranks):
                stay = []
                for task in file["phases"][i].get("tasks", []):
                    node = task["node"]
                    if not self.initial(file["phases"][i], task):
                        node = next(rank)
                        was[self.name(task["entity"])] = r
                        now[self.name(task["entity"])] = r if node == task["node"] else node
                    to = r if node == task["node"] else node
                    (stay if to == r else come).append(("tasks", to, {**task, "node": node}))
                put(out[r]["phases"][i], "tasks", stay)
            for r, file in enumerate(self.ranks):
                stay = []
                for c in file["phases"][i].get("communications", []):
                    ends = [self.name(c["from"]), self.name(c["to"])]
                    ends = ends[::-1] if c["type"] == "Broadcast" else ends
                    to = next((now[e] for e in ends if was.get(e) == r), r)
                    (stay if to == r else come).append(("communications", to, c))
                put(out[r]["phases"][i], "communications", stay)
            for key, to, item in come:
                out[to]["phases"][i].setdefault(key, []).append(item)
        return out


def put(phase, key, items):
    if key in phase:
        phase[key] = [item for _, _, item in items]


def sizes(tasks, *names):
    """Return the bytes of each task: the value of the first of these keys that the task has."""
    defined = [t.get("user_defined", {}) for t in tasks]
    if not any(name in u for u in defined for name in names):
        return None
    return [next((u[name] for name in names if name in u), 0) for u in defined]


def agree(trace, twin):
    every = [t for tasks, _ in twin.phases for t in tasks]
    assert trace.n_ranks == len(twin.ranks)
    assert trace.phase_id.tolist() == [p["id"] for p in twin.ranks[0]["phases"]]
    assert trace.task_ptr.tolist() == np.cumsum([0] + [len(t) for t, _ in twin.phases]).tolist()
    assert trace.entity_key.tolist() == [n[2] for n in twin.number]
    assert trace.task_entity.tolist() == [twin.number[twin.name(t["entity"])] for t in every]
    assert trace.task_rank.tolist() == [t["node"] for t in every]
    assert trace.task_load.tolist() == [t["time"] for t in every]  # to the last bit
    for name, expected in [
        ("task_bytes", sizes(every, "task_serialized_bytes", "task_footprint_bytes")),
        ("task_memory", sizes(every, "task_footprint_bytes", "task_working_bytes")),
    ]:
        given = getattr(trace, name)
        assert (None if given is None else given.tolist()) == expected
    for column, key, absent in [
        (trace.entity_migratable, "migratable", None),
        (trace.entity_home, "home", None),
        (trace.entity_collection, "collection_id", -1),
    ]:
        expected = [t["entity"].get(key, absent) for t in every]
        assert column[trace.task_entity].tolist() == expected
    for i in range(len(trace)):
        e = slice(trace.edge_ptr[i], trace.edge_ptr[i + 1])
        columns = trace.edge_src[e], trace.edge_dst[e], trace.edge_bytes[e], trace.edge_messages[e]
        assert list(zip(*(c.tolist() for c in columns), strict=True)) == list(twin.edges(i))
        types = [trace.COMM_TYPES[c] for c in trace.edge_type[e]]
        assert types == list(twin.types(i))
    n = sum(len(c) for _, c in twin.phases)
    assert trace.dangling_edges == n - len(trace.edge_src)


def paths_of(folder, stem):
    found = {}
    for p in Path(folder).glob("*.json"):
        match = re.fullmatch(re.escape(stem) + r"\.(\d+)\.json", p.name)
        if match:
            found[int(match[1])] = p
    return [found[r] for r in range(len(found))]


@cache
def real(folder, stem):
    return Twin(paths_of(folder, stem))


REAL = [
    ("nolb-8color-16nodes-data", "data"),
    ("nolb-8color-16nodes-11firstphases", "data"),
    ("synthetic-blocks", "synthetic-dataset-blocks"),
    ("synthetic-blocks", "synthetic-dataset-blocks-alpha0"),
]


@pytest.mark.parametrize(("folder", "stem"), REAL)
def test_real_runs_agree_with_the_plain_loader(data, folder, stem):
    trace = pylb.Trace.load(data / folder, stem=stem)
    agree(trace, real(data / folder, stem))


@pytest.mark.parametrize(("folder", "stem"), REAL)
def test_snapshots_of_real_runs(data, folder, stem):
    trace = pylb.Trace.load(data / folder / stem, threads=1)
    twin = real(data / folder, stem)
    for i, snap in enumerate(trace):
        tasks = twin.phases[i][0]
        assert snap.key.tolist() == [twin.name(t["entity"])[2] for t in tasks]
        assert snap.n_ranks == trace.n_ranks
        time = [0.0] * trace.n_ranks
        for t in tasks:
            time[t["node"]] += t["time"]
        assert snap.rank_times.tolist() == time
        number = [twin.number[twin.name(t["entity"])] for t in tasks]
        src, dst, nbytes, messages = snap.edges
        given = [
            (number[a], number[b], x, y)
            for a, b, x, y in zip(src, dst, nbytes.tolist(), messages.tolist(), strict=True)
        ]
        assert given == list(twin.edges(i))


# ---- generated runs -------------------------------------------------------------------------

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner,
                                                                max_size=2),
    max_leaves=4,
)  # fmt: skip
seconds = st.floats(0, 1e30) | st.sampled_from([0.0, 5e-324, 0.1, 1.0, 2.2080000121604826e-06])
number = st.integers(0, 5) | st.sampled_from([2**63 - 1, 4325376060])


@st.composite
def entities(draw, known):
    n = draw(number)
    out = {"type": "object", "seq_id" if n % 2 else "id": n}
    name = Twin.name(out)
    if name not in known:
        known[name] = {"home": draw(st.integers(0, 9)), "migratable": draw(st.booleans())}
        if draw(st.booleans()):
            known[name]["collection_id"] = draw(number)
    return {**out, **known[name], **draw(st.dictionaries(st.just("index"), anything))}


@st.composite
def tasks(draw, known, rank):
    out = {"entity": draw(entities(known)), "node": rank, "time": draw(seconds)}
    if draw(st.booleans()):
        names = ["task_serialized_bytes", "task_footprint_bytes", "task_working_bytes", "x"]
        size = st.integers(0, 2**53)
        out["user_defined"] = draw(st.dictionaries(st.sampled_from(names), size))
    if draw(st.booleans()):  # a part of the time each; more than 8 are not used
        ids = draw(st.lists(st.integers(0, 20), max_size=12, unique=True))
        out["subphases"] = [{"id": i, "time": out["time"] / len(ids), "x": 1} for i in ids]
    return {**out, **draw(st.dictionaries(st.sampled_from(["\u20ac", ""]), anything))}


@st.composite
def comms(draw, known):
    ends = [draw(entities(known)) for _ in range(2)]
    if draw(st.integers(0, 5)) == 0:
        ends[0] = {"type": "node", "id": 0}
    types = st.sampled_from(["SendRecv", "Broadcast", "CollectionToNode", "new"])
    return {
        "type": draw(types),
        "from": ends[0],
        "to": ends[1],
        "bytes": draw(seconds),
        "messages": draw(st.integers(0, 2**40)),
    }


@st.composite
def runs(draw):
    """Return the files of a run as dicts."""
    n_ranks = draw(st.integers(1, 3))
    ids = sorted(draw(st.sets(st.integers(0, 1) | st.integers(0, 2**40), max_size=2)))
    known = {}
    ranks = [{"phases": [{"id": i} for i in ids]} for _ in range(n_ranks)]
    for i, _ in enumerate(ids):
        seen = set()
        for r, file in enumerate(ranks):
            phase = file["phases"][i]
            if draw(st.booleans()):
                drawn = draw(st.lists(tasks(known, r), max_size=4))
                names = [Twin.name(t["entity"]) for t in drawn]
                phase["tasks"] = [
                    t for t, n in zip(drawn, names, strict=True) if not (n in seen or seen.add(n))
                ]
            if draw(st.booleans()):
                phase["communications"] = draw(st.lists(comms(known), max_size=3))
            if phase["id"] == 0 and draw(st.booleans()):
                entity = {"type": "object", "id": 0, "home": 0, "migratable": False}
                initial = {"entity": entity, "node": r, "resource": "cpu", "time": 0.0}
                if not any(t["entity"].get("id") == 0 for t in phase.get("tasks", [])):
                    phase.setdefault("tasks", []).append(initial)
    if draw(st.booleans()):
        for r, file in enumerate(ranks):
            file["metadata"] = {"rank": r, **draw(st.dictionaries(st.just("attributes"), anything))}
    return ranks


def dump(ranks, folder, style, stem="data"):
    for r, file in enumerate(ranks):
        text = json.dumps(file, **style).encode()
        (Path(folder) / f"{stem}.{r}.json").write_bytes(text)


styles = st.sampled_from(
    [
        {"separators": (",", ":")},
        {"indent": 2, "ensure_ascii": False},
        {"sort_keys": True},
        {"indent": "\t", "sort_keys": True, "separators": (" , ", " : ")},
    ]
)


@examples(40)
@given(runs(), styles)
def test_generated_runs_agree_with_the_plain_loader(ranks, style):
    with tempfile.TemporaryDirectory() as folder:
        dump(ranks, folder, style)
        trace = pylb.Trace.load(folder)
        agree(trace, Twin(paths_of(folder, "data")))
        assert len(trace) == len(list(trace))


@examples(40)
@given(runs(), styles, st.data())
def test_generated_runs_under_another_placement(ranks, style, data):
    with tempfile.TemporaryDirectory() as folder:
        dump(ranks, folder, style)
        trace = pylb.Trace.load(folder)
        drawn = data.draw(st.lists(st.integers(0, trace.n_ranks - 1), min_size=len(trace.task_rank),
                                   max_size=len(trace.task_rank)))  # fmt: skip
        free = trace.entity_migratable[trace.task_entity]
        rank = np.where(free, np.array(drawn, int), trace.task_rank)
        written = trace.save(Path(folder, "out"), "moved", rank=rank)
        assert [load(p) for p in written] == Twin(paths_of(folder, "data")).moved(rank.tolist())
        again = trace.save(Path(folder, "out"), "same")
        sources = paths_of(folder, "data")
        assert [p.read_bytes() for p in again] == [p.read_bytes() for p in sources]


def number_text(digits, exponent, form):
    """Return a number as JSON may write it."""
    text = f"{digits}"
    if form == ".":
        text = text.rjust(max(1, -exponent) + 1, "0")
        text = f"{text[: -max(1, -exponent)]}.{text[-max(1, -exponent) :]}"
    elif form.endswith("+"):
        text += f"{form}{abs(exponent)}"
    else:
        text += f"{form}{exponent}"
    return re.sub(r"^0+(?=\d)", "", text)


numbers = st.builds(
    number_text,
    st.integers(0, 10**40) | st.integers(0, 2**64),
    st.integers(-60, 45),
    st.sampled_from(["e", "E", "e+", ".", "0e", "00.00e"]),
)


def read_times(texts, folder):
    path = Path(folder, "one.json")
    task = '{{"entity": {{"type": "object", "id": {}, "home": 0, "migratable": true}}, "node": 0, '
    tasks = [f'{task.format(i)}"time": {text}}}' for i, text in enumerate(texts)]
    path.write_text(f'{{"phases": [{{"id": 0, "tasks": [{", ".join(tasks)}]}}]}}')
    assert load(path)
    return pylb.Trace.load(path).task_load.tolist()


@examples(40)
@given(st.lists(numbers, min_size=10, max_size=10))
def test_numbers_are_rounded_as_python_does(texts):
    small = [text for text in texts if float(text) <= 1e30]
    with tempfile.TemporaryDirectory() as folder:
        assert read_times(small, folder) == [float(text) for text in small]
        for text in texts:
            if text not in small:
                with pytest.raises(pylb.errors.FormatError, match=r"one\.json"):
                    read_times([text], folder)


# ---- writing --------------------------------------------------------------------------------


def plain(path):
    raw = path.read_bytes()
    try:
        return brotli.decompress(raw)
    except brotli.error:
        return raw


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(("folder", "stem"), REAL)
def test_real_runs_are_written_to_the_byte(data, tmp_path, folder, stem, compress):
    trace = pylb.Trace.load(data / folder, stem=stem)
    written = trace.save(tmp_path, stem, compress=compress)
    sources = paths_of(data / folder, stem)
    assert [plain(p) for p in written] == [plain(p) for p in sources]
    assert compress == (written[0].read_bytes() != plain(written[0]))
    agree(pylb.Trace.load(tmp_path), real(data / folder, stem))


@pytest.mark.parametrize(("folder", "stem"), REAL)
def test_real_runs_under_another_placement(data, tmp_path, folder, stem):
    trace = pylb.Trace.load(data / folder, stem=stem)
    twin = real(data / folder, stem)
    draw = np.random.default_rng(1).integers(0, trace.n_ranks, len(trace.task_rank))
    rank = np.where(trace.entity_migratable[trace.task_entity], draw, trace.task_rank)
    written = trace.save(tmp_path, rank=rank)
    assert [load(p) for p in written] == twin.moved(rank.tolist())
    moved = pylb.Trace.load(tmp_path)
    assert moved.dangling_edges == trace.dangling_edges
    for before, after in zip(trace, moved, strict=True):
        assert sorted(before.load) == sorted(after.load)
        assert after.n_edges == before.n_edges
    there = trace.task_ptr[1]
    assert np.allclose(trace[0].with_rank(rank[:there]).rank_times, moved[0].rank_times)


def test_writing_over_what_was_read(data, tmp_path):
    source = data / "nolb-8color-16nodes-data"
    for compress in (False, True):  # plain text is read without a copy
        pylb.Trace.load(source).save(tmp_path, compress=compress)
        trace = pylb.Trace.load(tmp_path)
        trace.save(tmp_path, compress=compress)
        assert [plain(p) for p in paths_of(tmp_path, "data")] == [
            plain(p) for p in paths_of(source, "data")
        ]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in source.iterdir())


def test_part_of_a_run(data, tmp_path):
    source = data / "nolb-8color-16nodes-11firstphases"
    trace = pylb.Trace.load(source)
    twin = real(source, "data")
    for part in (slice(3, 7), slice(0, None, 4), slice(10, None), slice(5, 5)):
        cut = trace[part]
        assert len(cut) == len(range(11)[part])
        expected = [{**file, "phases": file["phases"][part]} for file in twin.ranks]
        written = cut.save(tmp_path)
        assert [load(p) for p in written] == expected
        for a, b in zip(cut, pylb.Trace.load(tmp_path), strict=True):
            assert a.load.tolist() == b.load.tolist()
            assert a.edges.src.tolist() == b.edges.src.tolist()
        assert cut.dangling_edges == (62 if part.start == 0 else 0)


# ---- what the format has beyond tasks -------------------------------------------------------


def entity(number, **more):
    return {"type": "object", "id": number, "home": 0, "migratable": True, **more}


def task(number, time=1.0, node=0, **more):
    return {"entity": entity(number), "node": node, "resource": "cpu", "time": time, **more}


def test_phases_that_repeat_the_one_before(tmp_path):
    listed = {
        "skipped": {"list": [9], "range": [[20, 22]]},
        "identical_to_previous": {"list": [4], "range": [[6, 7], [3, 4]]},
    }
    phases = [{"id": 2, "tasks": [task(1)]}, {"id": 5, "tasks": [task(1, 3.0)]}]
    file = {"metadata": {"phases": listed}, "phases": phases}
    dump([file, {**file, "phases": [{"id": 2}, {"id": 5}]}], tmp_path, {})
    trace = pylb.Trace.load(tmp_path)
    assert trace.phase_id.tolist() == [2, 3, 4, 5, 6, 7]
    assert trace.task_load.tolist() == [1, 1, 1, 3, 3, 3]
    assert trace.skipped == (9, 20, 21, 22)
    written = trace.save(tmp_path / "out", rank=[0, 0, 0, 1, 1, 1])
    assert [len(load(p)["phases"][1].get("tasks", [])) for p in written] == [0, 1]
    assert pylb.Trace.load(tmp_path / "out").task_rank.tolist() == [0, 0, 0, 1, 1, 1]
    with pytest.raises(pylb.errors.DomainError, match="copy of phase 2"):
        trace.save(tmp_path / "out", rank=[0, 1, 0, 0, 0, 0])
    with pytest.raises(pylb.errors.DomainError, match="expected all of its phases"):
        trace[2:].save(tmp_path / "out")


def test_the_task_that_vt_appends(tmp_path):
    initial = {**task(0, 0.0), "entity": entity(0, migratable=False)}
    files = [
        {"phases": [{"id": 0, "tasks": [task(r + 1, 2.0, r), {**initial, "node": r}]}]}
        for r in range(2)
    ]
    dump(files, tmp_path, {})
    trace = pylb.Trace.load(tmp_path)
    assert trace.entity_key.tolist() == [1, 2]
    written = trace.save(tmp_path / "out", rank=[1, 0])
    assert [len(load(p)["phases"][0]["tasks"]) for p in written] == [2, 2]


def test_ids_of_64_bits(tmp_path):
    numbers = [2**64 - 1, 2**63, 2**63 - 1, -5]
    dump([{"phases": [{"id": 0, "tasks": [task(n) for n in numbers]}]}], tmp_path, {})
    assert pylb.Trace.load(tmp_path).entity_key.tolist() == [-1, -(2**63), 2**63 - 1, -5]


def test_every_way_to_name_a_run(data):
    folder = data / "synthetic-blocks"
    stems = ["synthetic-dataset-blocks", "synthetic-dataset-blocks-alpha0"]
    assert pylb.Trace.stems(folder) == stems
    with pytest.warns(UserWarning, match="stem='synthetic-dataset-blocks-alpha0'") as caught:
        short = pylb.Trace.load(folder)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in (folder / stems[1], folder / f"{stems[1]}.2.json"):
            assert pylb.Trace.load(path)._run.texts[0][:40] != short._run.texts[0][:40] or (
                b"rank_alpha" in pylb.Trace.load(path)._run.texts[0][:100]
            )
        one = pylb.Trace.load(folder, stem=stems[0])
    assert one.task_load.tolist() == short.task_load.tolist()


def test_arrays_are_views_and_read_only(data):
    trace = pylb.Trace.load(data / "nolb-8color-16nodes-data")
    for name, value in vars(trace).items():
        if isinstance(value, np.ndarray) and not name.startswith("_"):
            assert not value.flags.writeable, name
    assert trace.edge_bytes.base is not None
    part = trace[2:4]
    assert np.shares_memory(part.task_load, trace.task_load)
    assert np.shares_memory(part[0].load, trace.task_load)


def test_tasks_as_a_frame(data):
    pytest.importorskip("pandas")
    trace = pylb.Trace.load(data / "synthetic-blocks", stem="synthetic-dataset-blocks")
    twin = real(data / "synthetic-blocks", "synthetic-dataset-blocks")
    frame = trace.tasks()
    rows = [t for tasks, _ in twin.phases for t in tasks]
    assert frame["load"].tolist() == [t["time"] for t in rows]
    assert frame["key"].tolist() == [t["entity"]["seq_id"] for t in rows]
    for name in ("shared_id", "shared_bytes", "home_rank"):
        assert frame[name].tolist() == [t["user_defined"][name] for t in rows]
    assert np.shares_memory(frame["load"].to_numpy(), trace.task_load)
    assert repr(trace) == "<Trace: 1 phase on 4 ranks, 9 objects, 9 tasks, 8 edges>"


def test_communications_as_a_frame(data):
    pytest.importorskip("pandas")
    source = data / "nolb-8color-16nodes-11firstphases"
    trace = pylb.Trace.load(source)
    twin = Twin(paths_of(source, "data"))
    for phase in (0, -1):
        frame = trace.communications(phase)
        rows = twin.phases[phase][1]
        assert frame["type"].tolist() == [c["type"] for c in rows]
        assert frame["from"].tolist() == [c["from"]["id"] for c in rows]
        assert frame["to_type"].tolist() == [c["to"]["type"] for c in rows]
        assert frame["messages"].tolist() == [c["messages"] for c in rows]
        assert set(frame["phase"]) == {phase % 11}
    assert (trace.communications()[["src", "dst"]] < 0).any(axis=1).sum() == 62
    assert len(trace[::5].communications()) == sum(len(twin.phases[i][1]) for i in (0, 5, 10))


# ---- traces that nobody recorded ------------------------------------------------------------


def made():
    draw = np.random.default_rng(5)
    out = []
    for i in range(3):
        n = 6 + i
        edges = draw.integers(0, n, 9), draw.integers(0, n, 9), draw.random(9), draw.random(9) * 8
        out.append(
            pylb.Snapshot(
                load=draw.random(n),
                rank=draw.integers(0, 3, n),
                n_ranks=3,
                key=draw.permutation(20)[:n],
                edges=None if i == 1 else edges,
                nbytes=None if i == 2 else draw.integers(0, 99, n),
                memory=draw.integers(0, 99, n),
                speed=[1.0, 2.0, 3.0],
            )
        )
    return out


def test_snapshots_come_back_out_of_a_trace():
    snaps = made()
    trace = pylb.Trace.from_snapshots(iter(snaps))
    assert trace.phase_id.tolist() == [0, 1, 2]
    for a, b in zip(snaps, trace, strict=True):
        for name in ("load", "rank", "key", "memory", "speed"):
            assert getattr(a, name).tolist() == getattr(b, name).tolist()
        assert b.nbytes.tolist() == ([0] * b.n_objects if a.nbytes is None else a.nbytes.tolist())
        if a.edges is not None:
            assert [c.tolist() for c in a.edges] == [c.tolist() for c in b.edges]
    assert trace.tasks()["memory"].tolist() == trace.task_memory.tolist()
    assert trace.communications(1).empty


@pytest.mark.parametrize("compress", [False, True])
def test_made_traces_are_written_and_read(tmp_path, compress):
    trace = pylb.Trace.from_snapshots(made())
    for rank in (None, (trace.task_rank + 1) % 3):
        written = trace.save(tmp_path, compress=compress, rank=rank)
        again = pylb.Trace.load(tmp_path)
        agree(again, Twin(written))
        where = trace.task_rank if rank is None else rank
        for i, (a, b) in enumerate(zip(trace, again, strict=True)):
            moved = a.with_rank(where[trace.task_ptr[i] : trace.task_ptr[i + 1]])
            assert rows_of(moved) == rows_of(b)
        again.save(tmp_path / "again", compress=compress)


def rows_of(snap):
    columns = snap.key, snap.load, snap.rank, snap.nbytes, snap.memory, snap.migratable
    objects = sorted(zip(*(c.tolist() for c in columns), strict=True))
    src, dst, nbytes, messages = snap.edges
    written = np.maximum(np.rint(messages), messages > 0)  # vt's are integers
    columns = snap.key[src], snap.key[dst], nbytes, written
    return objects, sorted(zip(*(c.tolist() for c in columns), strict=True))


def test_changed_tasks_are_not_written_as_recorded(data, tmp_path):
    trace = pylb.Trace.load(data / "nolb-8color-16nodes-data")
    changed = dataclasses.replace(trace, task_load=trace.task_load * 2)
    with pytest.raises(pylb.errors.DomainError, match="task_load is not as recorded"):
        changed.save(tmp_path)
    pylb.Trace.from_snapshots(changed).save(tmp_path)
    doubled = pylb.Trace.load(tmp_path)
    assert sorted(doubled.task_load) == sorted(changed.task_load)


def test_arguments_of_read_hold_for_every_kind_of_run(tmp_path, capsys):
    record, folder = tmp_path / "run.h5", tmp_path / "vt"
    pylb.demo.run(2, 4, 3, save=record)
    pylb.Trace.load(record).save(folder)
    for path in (record, folder / "data.0.json"):
        with pytest.raises(DomainError, match=r"stem is 'x': it selects a run in a folder"):
            pylb.Trace.load(path, stem="x")
    for path in (record, folder):
        for threads in (0, 1.5, "2"):
            with pytest.raises(DomainError, match=r"threads is .*: expected a number of files"):
                pylb.Trace.load(path, threads=threads)
    with pytest.raises(MissingFileError, match=r"stem is 3: .* has 'data'"):
        pylb.Trace.load(folder, stem=3)
    assert main(["replay", str(record), "--stem", "x"]) == 2
    assert "stem is 'x'" in capsys.readouterr().err


# ---- objects of one number ---------------------------------------------------------------------


def seq(number, home, migratable=True, **more):
    entity = {"type": "object", "seq_id": number, "home": home, "migratable": migratable}
    return entity | {"collection_id": 7} | more


def placed(node, time, *of, **more):
    return {"entity": seq(*of, **more), "node": node, "resource": "cpu", "time": time}


def message(sender, receiver, size):
    return {"type": "SendRecv", "bytes": size, "messages": 1, "from": sender, "to": receiver}


def test_one_number_on_two_homes_is_two_objects(tmp_path):
    """vt identifies an object by its number, its home, and whether it may migrate."""
    short = {"type": "object", "seq_id": 4}
    comms = [
        message(seq(4, 0), seq(4, 1), 1.0),
        message(seq(4, 1), seq(9, 0), 2.0),
        message(seq(4, 2), seq(9, 0), 3.0),  # no task has this home
        message(short, seq(9, 0), 4.0),  # which of the two it is cannot be known
        message({"type": "object", "seq_id": 9}, seq(4, 1, True), 5.0),
    ]
    first = [placed(0, 1.0, 4, 0), placed(0, 2.0, 4, 1), placed(0, 4.0, 9, 0)]
    phases = [{"id": 0, "tasks": first, "communications": comms}]
    dump([{"phases": phases}, {"phases": [{"id": 0, "tasks": []}]}], tmp_path, {})
    trace = pylb.Trace.load(tmp_path)
    assert trace.task_load.tolist() == [1.0, 2.0, 4.0]
    assert trace.entity_home.tolist() == [0, 1, 0]
    keys = [(number << 18) + (home << 2) + 3 for number, home in ((4, 0), (4, 1), (9, 0))]
    assert trace.entity_key.tolist() == trace[0].key.tolist() == keys
    ends = list(zip(trace.edge_src, trace.edge_dst, trace.edge_bytes, strict=True))
    assert ends == [(0, 1, 1.0), (1, 2, 2.0), (2, 1, 5.0)]
    assert trace.dangling_edges == 2
    written = trace.save(tmp_path / "out", rank=[0, 1, 0])
    moved = [load(path)["phases"][0] for path in written]
    assert moved[1]["tasks"] == [placed(1, 2.0, 4, 1)]
    assert moved[1]["communications"] == [comms[1]]
    again = pylb.Trace.load(tmp_path / "out")
    assert sorted(again.entity_key) == sorted(keys)
    assert sorted(again.edge_bytes) == [1.0, 2.0, 5.0]


def test_one_number_that_may_and_may_not_migrate(tmp_path):
    both = [placed(0, 1.0, 4, 0), placed(0, 2.0, 4, 0, False)]
    comms = [message(seq(4, 0, False), seq(4, 0, True), 1.0)]
    dump([{"phases": [{"id": 0, "tasks": both, "communications": comms}]}], tmp_path, {})
    trace = pylb.Trace.load(tmp_path)
    assert trace.entity_migratable.tolist() == [True, False]
    assert (trace.edge_src.tolist(), trace.edge_dst.tolist()) == ([1], [0])
    assert len(set(trace.entity_key.tolist())) == 2


def test_numbers_that_no_key_can_hold_are_refused(tmp_path):
    both = [placed(0, 1.0, 2**50, 0), placed(0, 2.0, 2**50, 1)]
    dump([{"phases": [{"id": 0, "tasks": both}]}], tmp_path, {})
    with pytest.raises(pylb.errors.FormatError, match="have the same id, and object"):
        pylb.Trace.load(tmp_path)


# ---- pylb's files follow vt's LBDatafile schema (DARMA-tasking/vt, scripts/) -------------------


IDS = {"id?": int, "seq_id?": int, "collection_id?": int, "index?": [int], "objgroup_id?": int}
ENTITY = {"type": str, "home": int, "migratable": bool, **IDS}
END = {"type": str, "home?": int, "migratable?": bool, **IDS}
LISTS = {"list": [int], "range": [[int]]}
FILE = {
    "type?": "LBDatafile",
    "metadata?": {
        "type?": "LBDatafile",
        "rank?": int,
        "shared_node?": {"id": int, "size": int, "rank": int, "num_nodes": int},
        "phases?": {"count?": int, "skipped": LISTS, "identical_to_previous": LISTS},
        "attributes?": dict,
    },
    "phases": [
        {
            "id": int,
            "tasks": [
                {
                    "entity": ENTITY,
                    "node": int,
                    "resource": str,
                    "time": float,
                    "subphases?": [{"id": int, "time": float}],
                    "user_defined?": dict,
                    "attributes?": dict,
                }
            ],
            "communications?": [
                {"type": str, "from": END, "to": END, "messages": int, "bytes": float}
            ],
            "user_defined?": dict,
        }
    ],
}


def check(value, schema, path="file"):
    if isinstance(schema, dict):
        assert type(value) is dict, path
        names = {name.rstrip("?"): part for name, part in schema.items()}
        needed = {name for name in schema if not name.endswith("?")}
        assert needed <= value.keys() <= names.keys(), (path, value.keys())
        for name, part in value.items():
            check(part, names[name], f"{path}.{name}")
        if "seq_id?" in schema:
            assert "id" in value or "seq_id" in value, path
            assert "collection_id" in value or not (value.get("migratable") and "seq_id" in value)
    elif isinstance(schema, list):
        assert type(value) is list, path
        for i, part in enumerate(value):
            check(part, schema[0], f"{path}[{i}]")
    elif isinstance(schema, str):
        assert value == schema, path
    else:
        assert type(value) is schema, (path, value)


def written(trace, folder, **options):
    return [json.loads(path.read_bytes()) for path in trace.save(folder, **options)]


def test_a_generated_run(tmp_path):
    trace = pylb.replaying.hotspot(4, 12, 5)
    for file in written(trace, tmp_path):
        check(file, FILE)


def test_a_run_of_the_runtime_with_means_of_messages(tmp_path):
    """A message in every third iteration is a third of a message on average."""
    pytest.importorskip("h5py")

    def main(comm):
        lb = dealt(pylb.Balancer(comm, every=4), range(6), lambda key: key, memory=100)
        for it in lb.iterate(10):
            for key, _ in lb.local():
                comm.elapse(1e-3 * (1 + key))
                if it % 3 == 0:
                    lb.send((key + 1) % 6, key, b"hello")
        lb.save(tmp_path / "run.h5")

    pylb.VirtualCluster(2, clock="none").run(main)
    trace = pylb.Trace.load(tmp_path / "run.h5")
    assert np.any(trace.edge_messages != np.rint(trace.edge_messages))
    files = written(trace, tmp_path / "vt")
    for file in files:
        check(file, FILE)
    back = pylb.Trace.load(tmp_path / "vt")
    assert len(back.edge_src) == len(trace.edge_src)
    assert np.all(back.edge_messages >= 1)
    np.testing.assert_array_equal(back.edge_bytes.sum(), trace.edge_bytes.sum())


def test_a_recorded_run_under_another_placement(data, tmp_path):
    trace = pylb.Trace.load(data / "nolb-8color-16nodes-data")[:2]
    run = trace.replay("GreedyLB", every=1)
    for file in written(trace, tmp_path, rank=run.rank):
        check(file, FILE)
