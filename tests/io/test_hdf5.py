"""HDF5 files: a full disk does not end a run; files of another form are refused."""

import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest

import pylb
from pylb.errors import FormatError
from pylb.prediction.recorder.recording import Recording

h5py = pytest.importorskip("h5py")
from pylb.io import h5, hdf5  # noqa: E402

FULL = 300_000  # bytes; with a larger file, the disk counts as full

RUN = """
import logging, os, resource, sys
import numpy as np
import pylb
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
record = sys.argv[1] if sys.argv[3] == "record" else True
lb = pylb.Balancer(every=30, record=record, load=lambda key, block: 1.0 + key)
for key in range(500):
    lb.add(key, key)
for it in lb.iterate(400):
    for key, block in lb.local():
        pass
if sys.argv[3] == "save":
    try:
        lb.save(sys.argv[1])
    except OSError as why:
        print(type(why).__name__, why)
print("done", it)
"""


def run(path, size, how):
    words = [sys.executable, "-c", RUN, str(path), str(size), how]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_a_full_disk_stops_the_recording_and_not_the_run(tmp_path):
    done = run(tmp_path / "run.h5", FULL, "record")
    assert (done.returncode, done.stdout) == (0, "done 399\n"), done.stderr
    assert done.stderr.count("the recording stops, and the run goes on") == 1
    assert str(tmp_path / "run.h5") in done.stderr
    found = pylb.RunRecord.load(tmp_path / "run.h5")
    assert 0 < found.n_iterations < 400
    assert found.trace[0].load.tolist() == [1.0 + key for key in range(500)]


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, FULL])
def test_save_onto_a_full_disk_is_an_oserror(tmp_path, size):
    (tmp_path / "run.h5").write_text("as before")
    done = run(tmp_path / "run.h5", size, "save")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"OSError [Errno 27] File too large: '{tmp_path / 'run.h5'}'\ndone 399\n"
    assert [p.name for p in tmp_path.iterdir()] == ["run.h5"]
    assert (tmp_path / "run.h5").read_text() == "as before"


@pytest.mark.parametrize("size", range(0, 40_000, 4_000))
def test_a_writer_may_meet_the_end_of_the_disk_anywhere(tmp_path, size):
    """Wherever the disk becomes full, the file can be closed, and it is then read or refused."""
    path = tmp_path / "run.h5"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    rows = np.random.default_rng(0).random((200, 64))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        with pytest.raises(OSError, match="File too large") as caught:  # noqa: PT012
            out = hdf5.Output(path)
            out.text("format", "some")
            out.h5.create_dataset("x", (0, 64), "f8", maxshape=(None, 64), chunks=(4, 64))
            for i in range(200):
                out.h5["x"].resize(i + 1, axis=0)
                out.h5["x"][i] = rows[i]
                if i % 10 == 9:
                    out.flush()
        assert caught.value.filename == str(path)
        with pytest.raises(OSError, match="File too large"):
            out.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.stat().st_size <= size


# ---- files of another form --------------------------------------------------------------------


def with_old_head(path):
    """Return a file with texts of variable length, in a global heap, as old versions wrote them."""
    with h5py.File(path, "w") as file:
        file.attrs["format"] = h5.FORMAT
        file.attrs["parameters"] = '{"seed": 1}'
        file.attrs.update(version=2, n_ranks=1)
    return path.read_bytes()


def test_an_old_file_cut_short_hangs_nobody(tmp_path):
    path = tmp_path / "run.h5"
    whole = with_old_head(path)
    with pytest.raises(FormatError, match="version 2: expected a run record of version 8"):
        pylb.RunRecord.load(path)
    heap = whole.index(b"GCOL")
    signal.alarm(60)
    for size in range(heap - 64, heap + 400, 3):
        path.write_bytes(whole[:size] + bytes(0 if size % 2 else len(whole) - size))
        with pytest.raises(FormatError, match=r"run\.h5: "):
            pylb.RunRecord.load(path)
    signal.alarm(0)


@pytest.mark.parametrize("name", ["run.h5", "run"])
def test_a_pipe_is_no_record(tmp_path, name):
    os.mkfifo(tmp_path / name)
    signal.alarm(20)
    with pytest.raises((FormatError, FileNotFoundError), match=name):
        pylb.Trace.load(tmp_path / name)
    signal.alarm(0)


def test_an_old_recording_is_refused(tmp_path):
    Recording.of([[{"kind": "END"}]]).save(tmp_path / "run")
    with h5py.File(tmp_path / "run", "a") as file:
        file.attrs["format"] = np.bytes_("pylb operations 1")
    with pytest.raises(FormatError, match="'pylb operations 1': expected 'pylb operations 3'"):
        Recording.load(tmp_path / "run")


@pytest.mark.parametrize(("name", "value"), [("eager", -1), ("overhead", "long")])
def test_numbers_of_a_recording_are_checked(tmp_path, name, value):
    Recording.of([[{"kind": "END"}]], **{name: value}).save(tmp_path / "run")
    with pytest.raises(FormatError, match=f"{name} is {value!r}: expected a number"):
        Recording.load(tmp_path / "run")
