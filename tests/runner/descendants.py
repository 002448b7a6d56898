"""Processes that a test started, and theirs: all have a mark in their environment."""

import os
import uuid
from pathlib import Path

import pytest

VARIABLE = "UOPSCOPE_TEST_MARK"


def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """Give what is started from here on a mark of its own, and return it."""
    found = uuid.uuid4().hex
    monkeypatch.setenv(VARIABLE, found)
    return found


def marked(mark: str) -> set[int]:
    """Return the processes that have the mark, without this one."""
    wanted, found = f"{VARIABLE}={mark}".encode(), set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environment = (path / "environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0") and int(path.name) != os.getpid():
            found.add(int(path.name))
    return found
