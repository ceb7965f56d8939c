"""Opening files: regular ones are read; a new one appears complete or not at all."""

import os
import socket
import stat
import subprocess
import sys

import pytest

from pylb import files
from pylb.errors import DomainError, FormatError, MissingFileError


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket"))
    for name, said in (("pipe", "a pipe"), ("socket", "a socket"), ("", "a folder")):
        with pytest.raises(FormatError, match=f"is {said}: expected a regular file"):
            files.descriptor(tmp_path / name)
    with pytest.raises(FormatError, match="/dev/zero is a device"):
        files.reading("/dev/zero")
    for none in ("none", "pipe/none", "a\0b"):
        with pytest.raises(MissingFileError, match=r"no such file|null"):
            files.reading(f"{tmp_path}/{none}")
    for read in (files.reading, files.text, files.json_of):
        with pytest.raises(DomainError, match="path is 3: expected a path"):
            read(3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[" * 100_000, "JSON: it is nested too deeply"),
        (b'{"a": 1,\n "b" 2}', "JSON: Expecting ':' delimiter: line 2 column 6"),
        (b'"\xff"', "byte 1 is not UTF-8 text"),
        (b"9" * 10_000, "not JSON: Exceeds the limit"),
    ],
)
def test_errors_of_json_have_file_and_place(tmp_path, text, said):
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(FormatError, match=said) as caught:
        files.json_of(tmp_path / "a.json")
    assert str(tmp_path / "a.json") in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.fixture(params=["unnamed", "named"])
def folder(request, tmp_path, monkeypatch):
    """Return a folder on a file system that can make files without a name, or cannot."""
    if request.param == "named":
        # open() then fails with EISDIR, as in Linux 3.10.
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY, raising=False)
    return tmp_path


def test_a_file_appears_when_it_is_complete(folder):
    path = folder / "a"
    with files.writing(path) as file:
        file.write(b"whole")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    with pytest.raises(TypeError), files.writing(path) as file:
        file.writelines([b"half", "of another type"])
    assert path.read_bytes() == b"whole"
    assert os.listdir(folder) == ["a"]


def test_modes_and_links_of_the_user_are_kept(folder):
    path = folder / "a"
    files.write_text(path, "new")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    (folder / "link").symlink_to(path)
    files.write_text(folder / "link", "by the link")
    assert (folder / "link").is_symlink()
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("by the link", 0o640)


def test_a_link_with_a_guessed_name_is_not_followed(folder, monkeypatch):
    """If a link already has the temporary name, the file to which it points stays as it is."""
    (folder / "victim").write_text("precious")
    monkeypatch.setattr(files.os, "urandom", bytes)
    (folder / f".pylb-{'00' * 8}.part").symlink_to(folder / "victim")
    with pytest.raises(FileExistsError) as caught:
        files.write_text(folder / "a", "new")
    assert caught.value.filename == str(folder / "a")
    assert (folder / "victim").read_text() == "precious"


@pytest.mark.parametrize("name", ["none/a", "file/a", "/dev/full", "folder", "loop"])
def test_an_error_names_the_path_of_the_user(folder, name):
    (folder / "file").touch()
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to("loop")
    path = folder / name
    with pytest.raises(OSError) as caught:  # noqa: PT011
        files.write_text(path, "text")
    assert str(path) in str(caught.value)
    assert sorted(os.listdir(folder)) == ["file", "folder", "loop"]
    assert (folder / "loop").is_symlink()


def test_a_device_is_written_directly(capfd):
    files.write_text("/dev/stderr", "some")
    assert capfd.readouterr().err == "some"
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    files.write_text("/dev/null", "some")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


KILLED = """
import os, signal, sys
from pylb import files
with files.writing(sys.argv[1]) as file:
    file.write(bytes(10000))
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_leaves_nothing(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a")], check=False)
    assert os.listdir(tmp_path) == []
