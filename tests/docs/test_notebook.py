"""The notebook runs, and what it shows of models is what it shows in the repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.nonempty import some
from tests.shared import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK = CHECKOUT / "docs" / "notebook.ipynb"
OF_THIS_CPU = 'uopscope.measure("imul rax, rbx; add rax, rcx")'
"""The only cell that measures the CPU at hand."""


def texts(notebook: dict[str, Any]) -> dict[str, str]:
    """Return what each cell of code printed, by the cell; a picture is a text that says so."""
    return {
        "".join(cell["source"]): "".join(
            "".join(output.get("data", {}).get("text/plain", output.get("text", ""))) for output in cell["outputs"]
        )
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    }


@pytest.mark.slow
def test_the_notebook_shows_what_it_computes(tmp_path: Path) -> None:
    for package in ("nbconvert", "ipykernel", "matplotlib", "pandas"):
        pytest.importorskip(package, reason=f"pip install {package}")
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--stdout", str(NOTEBOOK)]
    variables = {**os.environ, "PYTHONPATH": str(CHECKOUT), "JUPYTER_CONFIG_DIR": str(tmp_path), "HOME": str(tmp_path)}
    # Else a slow machine says, among the outputs, that it makes a font cache
    subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], env=variables, check=True)
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    stored, found = texts(json.loads(NOTEBOOK.read_text())), texts(json.loads(done.stdout))
    assert "core_cycles" in found.pop(OF_THIS_CPU)
    assert "core_cycles" in stored.pop(OF_THIS_CPU)
    assert len([text for text in some(found.values(), 8) if text]) >= 7
    assert found == stored


def test_the_notebook_has_a_picture() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert sum("image/png" in output.get("data", {}) for cell in cells for output in cell.get("outputs", [])) == 1
