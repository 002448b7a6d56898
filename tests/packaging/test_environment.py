"""The Python environment of a checkout is completed after an interruption, and made anew only where pip is broken."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]

PYTHON = """#!/bin/sh
echo "$@" >>"{log}"
case "$*" in
    "-m pip --version") exit {pip} ;;
    "-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
    "- "*) echo lxml ;;
    "-c "*version_info*) echo 3.12 ;;
esac
"""
"""An interpreter that says its version, notes what it was asked, and copies itself where an environment is made."""


def interpreter(path: Path, log: Path, *, pip: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PYTHON.format(log=log, pip=0 if pip else 1))
    path.chmod(0o755)


@pytest.mark.parametrize("pip", [True, False])
def test_an_environment_whose_set_up_was_interrupted_is_completed_while_others_use_it(
    tmp_path: Path, *, pip: bool
) -> None:
    environment, log = tmp_path / "environment", tmp_path / "log"
    installed = environment / "lib" / "installed"
    interpreter(environment / "bin" / "python", log, pip=pip)
    interpreter(tmp_path / "python", log, pip=True)
    installed.parent.mkdir()
    installed.touch()
    subprocess.run(
        ["sh", "-c", f'here="{TOP}"; . "$here/packaging/environment.sh"; ensure_environment run'],
        env={**os.environ, "UOPSCOPE_VENV": str(environment), "PYTHON": str(tmp_path / "python")},
        check=True,
        capture_output=True,
    )
    assert installed.exists() == pip
    assert ("-m venv" in log.read_text()) != pip
    assert "pip install" in log.read_text()
    assert (environment / "complete-run.toml").read_bytes() == (TOP / "pyproject.toml").read_bytes()
