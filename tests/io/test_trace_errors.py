"""Errors for files that are not a recorded run: every message names the file."""

import os
import sys

import numpy as np
import pytest

import pylb
from pylb.errors import (
    DomainError,
    DuplicateKeyError,
    FormatError,
    MissingFileError,
    MissingPartError,
    OutOfRangeError,
    StateError,
)

brotli = pytest.importorskip("brotli")

ENTITY = '{"type": "object", "id": %d, "home": 0, "migratable": true}'


def task(key=5, node=0, time="1.5", entity=None, more=""):
    entity = ENTITY % key if entity is None else entity
    return f'{{"entity": {entity}, "node": {node}, "resource": "cpu", "time": {time}{more}}}'


def phase(*tasks, number=0, more=""):
    return f'{{"id": {number}, "tasks": [{", ".join(tasks)}]{more}}}'


def text(*phases, head='"type": "LBDatafile"'):
    return f'{{{head}, "phases": [{", ".join(phases)}]}}'


def put(folder, *texts, stem="data"):
    for r, t in enumerate(texts):
        data = t.encode() if isinstance(t, str) else t
        (folder / f"{stem}.{r}.json").write_bytes(data)
    return folder


GOOD = text(phase(task()))
COMM = (
    ', "communications": [{"type": "SendRecv", "bytes": 1.0, "messages": 1, "from": %s, "to": %s}]'
)


def test_the_good_file_is_good(tmp_path):
    assert pylb.Trace.load(put(tmp_path, GOOD)).task_load.tolist() == [1.5]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n", "neither JSON nor"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "neither JSON nor"),
        (b"<!DOCTYPE html><html></html>", "neither JSON nor"),
        (b"[1, 2, 3]", "neither JSON nor"),
        (b"{}", "missing required field `phases`"),
        (b'{"name": "x", "version": 1}', "missing required field `phases`"),
        (b'{"phases": {}}', "`$.phases`: Expected `array`, got `object`"),
        (b'{"phases": []} x', "trailing characters (byte 16)"),
        (b'{"type": "LBStatsfile", "phases": []}', "`$.type`: Invalid enum value 'LBStatsfile'"),
        (b'{"metadata": {"type": "x"}, "phases": []}', "`$.metadata.type`: Invalid enum value"),
        (b'{"metadata": {"rank": 3}, "phases": []}', "metadata.rank is 3: expected 0"),
        (b'{"phases": [{"tasks": []}]}', "`$.phases[0]`: Object missing required field `id`"),
        (b'{"phases": [{"id": 1}, {"id": 1}]}', "increasing ids"),
        (b'{"phases": [{"id": 1.0}]}', "`$.phases[0].id`: Expected `int`, got `float`"),
        (b'{"a": ' + b"[" * 99999 + b"]" * 99999 + b"}", "nested too deep"),
        (b'{"a": "\xff"}', "expected UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "expected UTF-8"),
        (b'{"a": nul, "phases": []}', "invalid character (byte 7)"),
        (text(phase(task(time="-1.0"))), "tasks[0].time`: Expected `float` >= 0.0"),
        (text(phase(task(time="NaN"))), "invalid character (byte "),
        (text(phase(task(time="1e999"))), "tasks[0].time`: Number out of range"),
        (text(phase(task(time='"1"'))), "tasks[0].time`: Expected `float`, got `str`"),
        (text(phase(task(node=1))), "task node is 1: expected 0 ... 0, a rank of the run"),
        (text(phase(task(node=-1))), "tasks[0].node`: Expected `int` >= 0"),
        (text(phase('{"node": 0, "time": 1.0}')), "tasks[0]`: Object missing required field"),
        (text(phase(task(entity='{"type": "object"}'))), "missing required field `home`"),
        (
            text(phase(task(entity='{"type": "object", "home": 0, "migratable": true}'))),
            "without 'id' or 'seq_id'",
        ),
        (text(phase(task(entity=ENTITY.replace("true", "1") % 2))), "migratable`: Expected `bool`"),
        (
            text(phase(task(entity=ENTITY.replace("%d", "2.5")))),
            "entity.id`: Expected `int | null`",
        ),
        (text(phase(task(entity=ENTITY.replace("%d", "9" * 20)))), "an integer of 64 bits"),
        (text(phase(task(), task())), "object 5 with home 0 occurs twice in one phase"),
        (
            text(phase(task(more=', "user_defined": {"task_serialized_bytes": -1.0}'))),
            "task_serialized_bytes`: Expected `float` >= 0.0",
        ),
        (
            text(phase(task(more=', "user_defined": {"task_serialized_bytes": 1e19}'))),
            "expected below 2**63",
        ),
        (
            text(phase(task(), more=', "communications": [{}]')),
            "[0]`: Object missing required field",
        ),
        (text(phase(task(), more=COMM % ("{}", "{}"))), "[0].from`: Object missing required"),
    ],
)
def test_one_file(tmp_path, content, said):
    with pytest.raises(FormatError) as info:
        pylb.Trace.load(put(tmp_path, content))
    assert said in str(info.value)
    assert "data.0.json" in str(info.value) or "below 2**63" in said


def test_the_place_of_an_error_is_given(tmp_path):
    bad = '{"phases": [\n  {"id": 0,\n   "tasks": 7}]}'
    with pytest.raises(FormatError, match=r"data\.0\.json, `\$\.phases\[0\]\.tasks`: Expected"):
        pylb.Trace.load(put(tmp_path, bad))
    cut = bad.replace("7", "[]")[:-3]
    with pytest.raises(FormatError, match=rf"data\.0\.json: .* after {len(cut)} bytes"):
        pylb.Trace.load(put(tmp_path, cut))


def test_names_of_files(tmp_path):
    folder = tmp_path / ("long" * 50)
    folder.mkdir()
    with pytest.raises(FormatError, match=r"longlong/data\.0\.json: .*\(byte 2\)"):
        pylb.Trace.load(put(folder, "{ 7"))
    strange = tmp_path / "\udcff.json"  # not UTF-8
    strange.write_text("{ 7")
    with pytest.raises(FormatError, match=r"\ufffd\.json: .*byte 2"):
        pylb.Trace.load(strange)


def test_truncated_files(tmp_path, data):
    packed = (data / "nolb-8color-16nodes-data" / "data.7.json").read_bytes()
    plain = brotli.decompress(packed)
    for whole in (packed, plain):
        cuts = range(0, len(whole), len(whole) // 40)
        for cut in [*cuts, len(whole) - 1]:
            (tmp_path / "cut.json").write_bytes(whole[:cut])
            with pytest.raises(FormatError, match=r"cut\.json"):
                pylb.Trace.load(tmp_path / "cut.json")


# ---- several files --------------------------------------------------------------------------


def test_no_folder_no_run(tmp_path):
    with pytest.raises(MissingFileError, match="nowhere: no such folder, file or run"):
        pylb.Trace.load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="no LBDatafile in it"):
        pylb.Trace.load(tmp_path)
    put(tmp_path, GOOD)
    with pytest.raises(MissingFileError, match="did you mean data"):
        pylb.Trace.load(tmp_path, stem="date")
    with pytest.raises(DomainError, match="stem"):
        pylb.Trace.load(tmp_path / "data.0.json", stem="data")
    with pytest.raises(DomainError, match="threads is 0"):
        pylb.Trace.load(tmp_path, threads=0)


def test_missing_ranks_are_named(tmp_path):
    put(tmp_path, GOOD, GOOD, GOOD, GOOD)
    (tmp_path / "data.2.json").unlink()
    with pytest.raises(MissingFileError, match=r"3 of 4 files: rank 2 missing"):
        pylb.Trace.load(tmp_path)
    (tmp_path / "data.4000000000.json").write_text(GOOD)
    with pytest.raises(MissingFileError, match=r"4 of 4000000001 files: rank 2 missing"):
        pylb.Trace.load(tmp_path)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (text(phase(number=0), phase(number=1)), "data.1.json has 2 phases, .*data.0.json has 1"),
        (
            text(phase(number=4)),
            r"data.1.json has 1 phases, \[4\], .*data.0.json has 1 phases, \[0\]",
        ),
        (text(), "data.1.json has 0"),
        (
            text(phase(task())),
            "object 5 with home 0 occurs twice in one phase: in .*0.json and .*1.json",
        ),
        (
            text(
                phase(),
                head='"metadata": {"phases": {"skipped": {"list": [7], "range": []}}}',
            ),
            "metadata.phases of .*data.1.json and of .*data.0.json differ",
        ),
    ],
)
def test_ranks_that_disagree(tmp_path, other, said):
    with pytest.raises(FormatError, match=said):
        pylb.Trace.load(put(tmp_path, GOOD, other))


@pytest.mark.parametrize(
    "phases",
    [
        "7",
        '{"skipped": 7}',
        '{"skipped": {"list": ["a"], "range": []}}',
        '{"skipped": {"list": [-1], "range": []}}',
        '{"skipped": {"list": [1e400], "range": []}}',
        '{"identical_to_previous": {"list": [], "range": [[1]]}}',
        '{"identical_to_previous": {"list": [], "range": [[1, 9999999999]]}}',
        '{"identical_to_previous": {"list": [1], "range": []}}',
    ],
)
def test_bad_lists_of_phases(tmp_path, phases):
    file = text(phase(number=3), head=f'"metadata": {{"phases": {phases}}}')
    with pytest.raises(FormatError, match=r"data\.0\.json.*metadata\.phases"):
        pylb.Trace.load(put(tmp_path, file))


def test_brotli_is_optional(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "brotli", None)
    assert len(pylb.Trace.load(put(tmp_path, GOOD))) == 1
    with pytest.raises(MissingPartError, match=r"Brotli is missing.*pip install "):
        pylb.Trace.load(tmp_path).save(tmp_path / "new", compress=True)
    assert not (tmp_path / "new").exists()
    put(tmp_path, b"\x0b\x02\x80")
    with pytest.raises(MissingPartError, match=r"data\.0\.json.*Brotli is missing.*pip install "):
        pylb.Trace.load(tmp_path)


def test_pandas_is_optional(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    trace = pylb.Trace.load(put(tmp_path, GOOD))
    for ask in (trace.tasks, trace.communications):
        with pytest.raises(MissingPartError, match="pip install pandas"):
            ask()


# ---- using a trace --------------------------------------------------------------------------


def two_ranks(folder):
    pinned = ENTITY.replace("true", "false") % 6
    return put(folder, text(phase(task(5), task(6, entity=pinned))), text(phase()))


def test_bad_placements_and_phases(tmp_path):
    trace = pylb.Trace.load(two_ranks(tmp_path))
    for bad in ([0], [0.0, 1.0], [[0, 1]], "01"):
        with pytest.raises(DomainError, match="expected \\(2,\\) integers"):
            trace.save(tmp_path / "out", rank=bad)
    with pytest.raises(OutOfRangeError, match=r"rank\[0\] is 2: expected 0 \.\.\. 1"):
        trace.save(tmp_path / "out", rank=[2, 0])
    with pytest.raises(DomainError, match="object 6 may not migrate from rank 0"):
        trace.save(tmp_path / "out", rank=[0, 1])
    assert not (tmp_path / "out").exists()
    for ask in (trace.__getitem__, trace.tasks, trace.communications):
        with pytest.raises(OutOfRangeError, match="phase is 1: expected 0"):
            ask(1)
    with pytest.raises(DomainError, match="expected 1"):
        trace[::-1]


def test_bad_targets_and_files_that_changed(tmp_path):
    trace = pylb.Trace.load(two_ranks(tmp_path))
    put(tmp_path / "..", stem="x")
    for bad in ("", "a/b"):
        with pytest.raises(DomainError, match="stem"):
            trace.save(tmp_path, bad)
    (tmp_path / "data.2.json").write_text(GOOD)
    with pytest.raises(DomainError, match="with rank 2: a run of 2 ranks with the same name"):
        trace.save(tmp_path)
    (tmp_path / "data.1.json").write_text("")
    with pytest.raises(StateError, match="a different size"):
        trace.save(tmp_path / "out")


def test_bad_snapshots():
    snap = pylb.Snapshot([1.0, 2.0], [0, 1])
    with pytest.raises(DomainError, match="empty"):
        pylb.Trace.from_snapshots([])
    for other, said in [
        (pylb.Snapshot([[1.0, 2.0]], [0]), r"snapshots\[1\] has 2 loads"),
        (pylb.Snapshot([1.0], [2]), r"snapshots\[1\] has 3 ranks: expected 2"),
        (pylb.Snapshot([1.0], [1], speed=np.ones(2)), "different speed"),
    ]:
        with pytest.raises(DomainError, match=said):
            pylb.Trace.from_snapshots([snap, other])
    with pytest.raises(DuplicateKeyError, match=r"snapshots\[0\] has the key 4 more than once"):
        pylb.Trace.from_snapshots([pylb.Snapshot([1.0, 2.0], [0, 0], key=[4, 4])])


def test_a_little_brotli_that_holds_much(tmp_path):
    brotli = pytest.importorskip("brotli")
    packed = brotli.compress(b'{"type": "LBDatafile", "phases": [' + b" " * 2**27, quality=5)
    assert len(packed) < 1000
    (tmp_path / "data.0.json").write_bytes(packed)
    with pytest.raises(FormatError, match=f"{len(packed)} bytes of Brotli hold more than 67"):
        pylb.Trace.load(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_files_of_a_folder_are_regular(tmp_path, kind):
    path = tmp_path / "data.0.json"
    if kind == "pipe":
        os.mkfifo(path)  # opening it would wait forever
    elif kind == "link":
        path.symlink_to("/etc/hostname")
    else:
        path.mkdir()
    with pytest.raises(FormatError, match=f"data.0.json is a {kind}: expected a regular file"):
        pylb.Trace.load(tmp_path)
