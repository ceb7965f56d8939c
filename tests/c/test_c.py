"""The unit tests in tests/c: built and run under the sanitizers."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HARNESSES = sorted(
    p.stem.removeprefix("fuzz_") for p in (HERE.parent / "fuzz" / "c").glob("fuzz_*.c")
)
ROOMS = sorted(p.stem.removeprefix("test_") for p in HERE.glob("test_*.c"))


@pytest.fixture(scope="session")
def make():
    """Call make in tests/c, which keeps what it builds in build/c; skip if tools are missing."""
    if shutil.which("make") is None or shutil.which("cc") is None:
        pytest.skip("no make or no C compiler: apt install build-essential")
    probe = subprocess.run(
        ["cc", "-fsanitize=address,undefined", "-x", "c", "-", "-o", os.devnull, "-lcmocka"],
        input="int main(void) { return 0; }",
        capture_output=True,
        text=True,
    )
    if probe.returncode != 0:
        pytest.skip(
            f"no cmocka or no sanitizers: apt install libcmocka-dev ({probe.stderr[-200:]})"
        )

    def run(target, room, folder=HERE, *more):
        # without numbers of lines, it compiles in two thirds of the time
        command = ["make", "-C", str(folder), "-j2", target, f"T={room}", "DEBUG=-g0", *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    return run


@pytest.mark.parametrize("room", ROOMS)
def test_room_under_the_sanitizers(make, room):
    done = make("asan", room)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "[  PASSED  ]" in done.stdout + done.stderr


def test_the_library_under_the_sanitizers(make):
    done = make("library", "")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "0 failures\n" in done.stdout


@pytest.mark.parametrize("name", HARNESSES)
def test_fuzz_harness_on_what_was_found_and_a_few_random_inputs(make, name):
    """`make fuzz` runs the same harnesses (tests/fuzz/c) for longer."""
    done = make("replay", name, HERE.parent / "fuzz" / "c", "RUNS=150")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "150 random inputs: ok" in done.stdout
