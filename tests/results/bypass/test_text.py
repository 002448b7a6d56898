"""Bypass delays as text and JSON."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest

from results.bypass.documents import encode
from results.bypass.model import (
    BypassCell,
    BypassMatrix,
    BypassReport,
    ClassLatency,
    FileMatrix,
    FileSum,
    MeasuredRing,
)
from results.bypass.text import compact, lines_of
from results.model import Provenance

PROVENANCE = Provenance("ZEN4", "a CPU", "19-11-1", "", "6.1", "tsc", "1", "2026-01-01T00:00:00Z", caveats=("a clock",))
LABELS = ("a/128", "a/256", "b/128", "c/128", "d/128")
Figures = tuple[int | None, int | None, Fraction | None]
FIGURES: dict[tuple[str, str], Figures] = {
    ("b", "a"): (0, 2, Fraction(2)),
    ("a", "b"): (0, 2, Fraction(2)),
    ("a", "c"): (1, 1, Fraction(1)),
    ("d", "a"): (None, None, Fraction(5, 4)),
    ("a", "d"): (None, None, Fraction(5, 4)),
    ("c", "d"): (None, None, None),
}
ZERO: Figures = (0, 0, Fraction(0))
MATRIX = BypassMatrix(
    "vector",
    LABELS,
    tuple(BypassCell(one, other, *FIGURES.get((one[0], other[0]), ZERO)) for one, other in permutations(LABELS, 2)),
    "a/128",
)
QUIET = BypassMatrix(
    "mask",
    ("k/16", "l/16"),
    tuple(BypassCell(one, other, *ZERO) for one, other in permutations(("k/16", "l/16"), 2)),
)
RINGS = (
    MeasuredRing(("a/128", "b/128"), 2, ("A", "A", "B", "B"), Fraction(12), Fraction(1, 100), Fraction(10)),
    MeasuredRing(("c/128",), 2, ("C", "C"), None, Fraction(0), Fraction(0), "SIGILL"),
)
REPORT = BypassReport(
    PROVENANCE,
    (
        *(ClassLatency(label, "vector", "V XMM0", Fraction(4)) for label in LABELS),
        ClassLatency("g/64", "general", "G RAX", Fraction(1)),
        ClassLatency("e/128", "vector", "E XMM0", None, "SIGILL"),
    ),
    (MATRIX, QUIET),
    (
        FileMatrix(
            ("general", "vector"),
            ("TO", "BACK"),
            (FileSum("g/64", "a/128", Fraction(6)), FileSum("g/64", "b/128", Fraction(25, 4))),
        ),
    ),
    RINGS,
    ("1 rings were not measured: SIGILL",),
)


def test_classes_that_behave_alike_share_a_row_and_a_column() -> None:
    lines = list(lines_of(REPORT))
    start = lines.index("vector registers (rows: producers, columns: consumers)")
    assert lines[start + 1 : start + 14] == [
        "  A  a",
        "  B  b",
        "  C  c",
        "  D  d",
        "          A     B     C     D",
        "  A       0   0-2     1  ~1.2",
        "  B     0-2     0     0     0",
        "  C       0     0     0     ?",
        "  D    ~1.2     0     0     0",
        "  0-2: between 0 and 2 cycles, since rings tell only the sum there and back",
        "  ~1.3: there and back; the share of each direction is not known",
        "  ?: rings of two lengths disagree, or were not measured",
        "  A and B: 2 cycles there and back",
    ]
    assert "mask registers: no bypass delay among 2 classes" in lines
    assert lines[-3:] == [
        "! 1 rings were not measured: SIGILL",
        "ZEN4: a CPU (19-11-1), backend tsc",
        "  a clock",
    ]


def test_sums_between_files_are_said_to_be_sums() -> None:
    lines = list(lines_of(REPORT))
    start = lines.index("general registers to vector registers and back, through TO and BACK")
    assert "a sum with both moves" in lines[start + 1]
    assert lines[start + 2 : start + 8] == [
        "  A  g",
        "  B  a/128",
        "  C  b",
        "          B     C",
        "  A       6  ~6.2",
        "  ~1.3: there and back; the share of each direction is not known",
    ]


def test_rings_that_no_delays_explain_are_said() -> None:
    cells = tuple(BypassCell(*pair, None, None, Fraction(3)) for pair in permutations(("a/128", "b/128"), 2))
    failed = BypassMatrix("vector", ("a/128", "b/128"), cells, "a/128", "the rings through a and b")
    text = "\n".join(lines_of(BypassReport(PROVENANCE, (), (failed,), (), ())))
    assert "! no delays fit all rings: the rings through a and b. Only sums are stated" in text
    assert "  A     0  ~3" in text


def test_rings_are_explained() -> None:
    lines = list(lines_of(REPORT, explain=True))
    start = lines.index("rings: core cycles per turn, less the latencies of the classes")
    assert lines[start + 1 : start + 5] == [
        "  a/128 → b/128, 2 of each: 12.00 ± 0.01 - 10.00 = 2.00",
        "    A; A; B; B",
        "  c/128, 2 of each: not measured: SIGILL",
        "    C; C",
    ]
    assert "  e/128                       ?  E XMM0  (SIGILL)" in lines


@pytest.mark.parametrize(
    ("labels", "text"),
    [(("a/128", "a/256"), "a"), (("a/256", "b/128"), "a/256, b"), (LABELS, "a, b, c, d")],
)
def test_widths_are_written_together(labels: tuple[str, ...], text: str) -> None:
    assert compact(labels, LABELS) == text


def test_json_has_all_figures() -> None:
    document = encode(REPORT)
    vector, mask = document["delays"]
    assert vector["reference"] == "a/128"
    assert mask["reference"] is None
    cell = next(one for one in vector["cells"] if (one["producer"], one["consumer"]) == ("a/256", "b/128"))
    assert cell == {"producer": "a/256", "consumer": "b/128", "least": 0, "most": 2, "there_and_back": 2}
    assert len(vector["cells"]) == 20
    assert document["between_files"][0]["sums"][1] == {"classes": ["g/64", "b/128"], "there_and_back": 6.25}
    assert [one["beyond"] for one in document["rings"]] == [2, None]
    assert document["classes"][-1] == {"class": "e/128", "file": "vector", "instruction": "E XMM0", "latency": None}
    assert document["provenance"]["architecture"] == "ZEN4"
