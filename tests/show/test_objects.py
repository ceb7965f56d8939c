"""The objects of a run on a page, their places, the savings of LB steps, and the page's server."""

import base64
import itertools
import socket
import threading
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import pylb
from pylb.errors import DomainError
from pylb.show import aggregate, course, objects, served


@pytest.fixture(scope="module")
def server_of_nothing(tmp_path_factory):
    with served.Server(tmp_path_factory.mktemp("served") / "run.h5") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def run(trace):
    return trace.replay("GreedyLB", every=7, cost=1e-3)


def objects_of(run):
    return objects.Objects(course.stretches(run), run.trace.n_ranks)


def decoded(frame):
    rank, load = (base64.b64decode(frame[name]) for name in ("rank", "load"))
    return np.frombuffer(rank, "<u4").astype(int) - 1, np.frombuffer(load, np.uint8) / 255


def test_frames_are_ranks_and_loads_of_the_objects(run):
    shown = objects_of(run)
    base, trace = shown.base(), run.trace
    assert (base["n"], base["step"], base["keys"]) == (60, 1, None)
    assert base["how"] == "communication graph"
    frames = shown.frames([])
    assert [f["iteration"] for f in frames] == list(range(30))
    for i, frame in enumerate(frames):
        rank, root = decoded(frame)
        tasks = slice(*trace.task_ptr[i : i + 2])
        np.testing.assert_array_equal(rank[trace.task_entity[tasks]], run.rank[tasks])
        loads = np.minimum(trace.task_load[tasks], base["top"])
        np.testing.assert_allclose(
            root[trace.task_entity[tasks]] ** 2 * base["top"], loads, atol=base["top"] / 200
        )
    moved = [
        np.count_nonzero(decoded(a)[0] != decoded(b)[0]) for a, b in itertools.pairwise(frames)
    ]
    assert sum(moved) == run.migrations


def test_a_record_has_the_frames_of_its_trace(tmp_path):
    pytest.importorskip("h5py")
    pylb.demo.run(4, 24, 20, save=tmp_path / "run.h5", every=5)
    record = pylb.RunRecord.load(tmp_path / "run.h5")
    kinds = [course.of(record).objects, objects_of(record.trace.replay("none"))]
    assert kinds[0].frames([]) == kinds[1].frames([])
    assert kinds[0].edges(3)[0].tolist() == kinds[1].edges(3)[0].tolist()


def test_of_too_many_frames_those_around_lb_steps_remain(run, monkeypatch):
    monkeypatch.setattr(objects, "MOST_CELLS", 60 * 6)
    shown = objects_of(run)
    found = [f["iteration"] for f in shown.frames([13, 6])]
    assert len(found) == 6
    assert {6, 7, 13, 14} < set(found)
    monkeypatch.setattr(objects, "MOST_OBJECTS", 20)
    thinned = objects_of(run)
    assert (thinned.base()["n"], thinned.base()["step"]) == (20, 3)
    assert len(decoded(thinned.frame(0))[0]) == 20


def test_coordinates_of_one_to_three_axes():
    key = np.array([3, 5])
    assert objects.of_coordinates({3: (1, 2), 5: [3, 4]}, key).tolist() == [[1, 2], [3, 4]]
    assert objects.of_coordinates({3: 1.5, 5: 2}, key).tolist() == [[1.5, 0], [2, 0]]
    above = objects.of_coordinates({3: (1, 1, 0), 5: (1, 1, 4)}, key)
    assert above[0, 0] == above[1, 0] == 0
    assert above[1, 1] > above[0, 1]
    for bad, said in [
        ({3: 1}, "no object 5"),
        ({3: (1, 2), 5: (1,)}, "expected 1 ... 3 numbers"),
        ({3: "x", 5: "y"}, "expected 1 ... 3 numbers"),
        ({3: (1, np.nan), 5: (1, 2)}, "finite"),
        ({3: (1, 2, 3, 4), 5: (1, 2, 3, 4)}, "1 ... 3"),
    ]:
        with pytest.raises(DomainError, match=said):
            objects.of_coordinates(bad, key)


def test_an_outlying_position_leaves_the_others_apart(run):
    of = objects_of(run)
    n = len(of.key)
    coords = {int(key): (i, i % 7) for i, key in enumerate(of.key)}
    even = of.base(coords)
    coords[int(of.key[0])] = (100 * n, 3)
    base = of.base(coords)
    assert (even["clipped"], base["clipped"]) == (0, 1)
    x = np.frombuffer(base64.b64decode(base["place"]), "<u2").reshape(-1, 2)[:, 0]
    assert x[0] == 65535
    assert np.ptp(x[1:]) > 40_000


@pytest.mark.parametrize("n", [40, 3000])
def test_objects_that_communicate_are_close(n):
    i = np.arange(n)
    place = objects.of_graph(n, i, (i + 1) % n)  # a ring
    apart = np.linalg.norm(place - np.roll(place, -1, axis=0), axis=1)
    whole = np.linalg.norm(place - place.mean(axis=0), axis=1)
    assert apart.max() < 20 * whole.max() / n
    assert whole.min() > 0.2 * whole.max()  # a ring has a hole in the middle
    np.testing.assert_array_equal(place, objects.of_graph(n, (i + 1) % n, i))


@given(st.integers(1, 30), st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29))))
def test_the_layout_of_any_graph_is_finite(n, edges):
    src, dst = np.array([(a % n, b % n) for a, b in edges], int).reshape(-1, 2).T
    place = objects.of_graph(n, src, dst)
    assert place.shape == (n, 2)
    assert np.isfinite(place).all()


def test_the_recorded_run_lies_below_the_replayed_one(run):
    assert course.of(run).recorded.tolist() == run.trace.replay("none").metrics["max"].tolist()
    assert course.of(run.trace).recorded is None


@pytest.mark.parametrize(
    ("cells", "end"),
    [
        ([[1.0] * 99 + [50.0]], 1.25),
        ([[1.0] * 9 + [50.0]], 50.0),
        ([[1.0, 1.9]], 1.9),
        ([[0.0] * 99 + [1.0]], 1.0),
    ],
)
def test_colours_end_where_most_cells_are(cells, end):
    assert aggregate.brightest(np.array(cells)) == end


def test_a_file_is_read_as_seldom_as_promised(run, tmp_path, monkeypatch):
    pytest.importorskip("h5py")
    path = tmp_path / "run.h5"
    file = served.RunFile(path, 0.0, 0.001)
    assert file.news("") == {"said": "run.h5: nothing yet", "seen": ""}
    pylb.demo.run(2, 8, 12, save=path, every=4)
    now = file.news("")
    deadline = time.monotonic() + 400
    while "picture" not in now and time.monotonic() < deadline:
        time.sleep(0.02)
        now = file.news("")
    assert now["said"].startswith("12 iterations of 8 objects on 2 ranks")
    assert file.news(now["seen"]) == {"said": now["said"], "seen": now["seen"]}
    path.unlink()
    monkeypatch.setattr(served, "_shown", pytest.fail)  # the file must not be read again so soon
    assert file.news("") is now
    file.due = 0.0
    assert file.news("") is now


def test_receipts_that_are_missing_while_a_file_is_written_are_waited_for(tmp_path, monkeypatch):
    file = served.RunFile(tmp_path / "run.h5", 0.0, 1e9)
    told = iter([(64, 9), (128, 0), (192, 20), (256, 3), (10, 1)])

    def shown(_):
        m, decisions = next(told)
        return {"said": f"{m}", "picture": {"n_iterations": m}, "decisions_in_all": decisions}

    monkeypatch.setattr(served, "_shown", shown)
    said = []
    for size in (1, 2, 3, 4, 5):
        (tmp_path / "run.h5").write_bytes(bytes(size))
        said.append(file.news("")["said"])
    assert said == ["64", "64", "192", "192", "10"]  # the last file is a new run


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(target=st.text(st.characters(min_codepoint=33, max_codepoint=255), min_size=1))
@example(target="run.json")
@example(target="//[")
@example(target="*")
@example(target="http://[::1/")
def test_every_request_gets_an_answer(target, server_of_nothing, capfd):
    """Whatever follows GET, e.g. a target without "/": status 4xx, and no traceback."""
    with socket.create_connection(("127.0.0.1", server_of_nothing.server_port), 10) as s:
        request = f"GET {target} HTTP/1.0\r\nHost: localhost:1\r\n\r\n"
        s.sendall(request.encode("latin-1"))
        answer = b"".join(iter(lambda: s.recv(4096), b""))
    assert answer.split()[1] in (b"400", b"404")
    assert capfd.readouterr().err == ""


def test_a_port_in_use_is_named(tmp_path):
    with (
        served.Server(tmp_path / "x.h5") as server,
        pytest.raises(DomainError, match=f"port is {server.server_port}: "),
    ):
        served.Server(tmp_path / "x.h5", server.server_port)


def test_a_browser_that_leaves_is_no_error(tmp_path, capsys):
    with served.Server(tmp_path / "run.h5") as server:
        for error, said in ((BrokenPipeError(), False), (ValueError("really"), True)):
            try:
                raise error
            except (BrokenPipeError, ValueError):
                server.handle_error(None, ("127.0.0.1", 1))
            assert ("really" in capsys.readouterr().err) == said
