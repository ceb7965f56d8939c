"""Fixtures for all tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data():
    """The folder of real inputs: PYLB_DATA, else ../shared/data beside the checkout."""
    root = Path(__file__).resolve().parents[1]
    path = Path(os.environ.get("PYLB_DATA", root / ".." / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no folder {path}: set PYLB_DATA")
    return path
