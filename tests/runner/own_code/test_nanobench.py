"""Each option of nanoBench has its row in docs/measure.md, and what we have for it runs.

The options are those of nanoBench's README; they and our arguments are in `tests/data/nanobench.tsv`. A row without
arguments is about what is not offered, or needs a PMU (`test_counters.py` reads nanoBench's configuration files).
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from runner.backend import BackendError
from runner.backends.registry import open_backend
from tests.attempts import undisturbed
from tests.nonempty import some
from tests.runner.cli.commands import command_of
from tests.shared import CHECKOUT, DATA

if TYPE_CHECKING:
    from pathlib import Path

with (DATA / "nanobench.tsv").open(encoding="utf-8", newline="") as table:
    LISTED = {row["option"]: row for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)}

COPIES = {"-no_normalization": 10}
"""The value is that of so many copies."""
CYCLES, DIFFERENCE = 3, 0.15
"""Of an IMUL, and what a value may differ by beyond its spread."""


def test_every_option_has_its_row() -> None:
    section = (
        (CHECKOUT / "docs" / "measure.md").read_text().partition("## nanoBench's options")[2].partition("\n## ")[0]
    )
    named = set(re.findall(r"`(-\w+)`", section))
    assert named >= {name for name in LISTED if name.startswith("-")}
    assert r"`\|n`" in section
    assert "PAUSE_COUNTING" in section
    assert len(LISTED) == 31


@pytest.mark.parametrize("option", [name for name, row in LISTED.items() if row["arguments"]])
def test_what_we_have_for_it_runs(option: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """IMUL takes three cycles, whatever is around it, within what the result says that it may be off by."""
    try:
        open_backend("tsc").close()
    except BackendError as error:
        pytest.skip(str(error))
    raw = tmp_path / "code.bin"
    raw.write_bytes(bytes.fromhex("480fafc3"))
    cpu = max(os.sched_getaffinity(0))
    arguments = shlex.split(LISTED[option]["arguments"].format(raw=raw, cpu=cpu))
    backend = ("--backend", "sim", "--arch", "SKL") if option == "-fixed_counters" else ("--backend", "tsc")

    def found() -> list[tuple[float, float]]:
        assert command_of("measure", [*arguments, *backend, "--json", "-"]) == 0
        modes = json.loads(capfd.readouterr().out)["results"].values()
        counts = [mode["counters"]["core_cycles"] for mode in some(modes)]
        return [tuple(one[name] / COPIES.get(option, 1) for name in ("value", "spread")) for one in counts]

    undisturbed(found, lambda values: all(abs(value - CYCLES) <= spread + DIFFERENCE for value, spread in values))
