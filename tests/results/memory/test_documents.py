"""A report as JSON and back, as text, and as a picture."""

import json
import lzma
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from results.memory.documents import MemoryDocumentError, decode, encode, read_document
from results.memory.heat_map import grid, svg
from results.memory.model import (
    AccessSize,
    Addressing,
    ForwardingMatrix,
    ForwardingOutcome,
    ForwardingRow,
    LineCrossing,
    MemoryReport,
    StoreRates,
    Time,
)
from results.memory.text import lines_of
from results.model import Provenance
from results.shipped import shipped_memory
from tests.nonempty import some
from tests.results.memory.strategies import reports

R8, R64 = AccessSize("r8", 1, "general"), AccessSize("r64", 8, "general")
WHERE = (LineCrossing.LINE, Addressing.SAME)
F, X, R = ForwardingOutcome.FORWARDED, ForwardingOutcome.FAILED, ForwardingOutcome.RENAMED


def row(store: AccessSize, load: AccessSize, first: int, *cells: tuple[int | None, ForwardingOutcome]) -> ForwardingRow:
    cycles = tuple(None if one is None else Fraction(one) for one, _ in cells)
    return ForwardingRow(store, load, *WHERE, first, cycles, tuple(one for _, one in cells))


MATRIX = ForwardingMatrix(
    (
        row(R8, R8, 0, (6, F)),
        row(R8, R64, -7, *8 * [(19, X)]),
        row(R64, R8, 0, *8 * [(6, F)]),
        row(R64, R64, -7, *7 * [(19, X)], (0, R), *6 * [(20, X)], (None, ForwardingOutcome.UNKNOWN)),
    )
)
PROVENANCE = Provenance("ZEN4", "a CPU", "19-11-1", "", "6.1", "tsc", "1", "2026-01-01T00:00:00Z", caveats=("a clock",))
REPORT = MemoryReport(PROVENANCE, MATRIX, ("1 case was not measured: SIGSEGV",))


@given(reports)
def test_json_gives_back_what_was_written(report: MemoryReport) -> None:
    assert decode(json.loads(json.dumps(encode(report)))) == report


def test_flushes_in_older_files_have_the_labels_of_today() -> None:
    old = Time("flush", (("instruction", "CLFLUSH"), ("line", "not cached")), Fraction(300))
    other = Time("gather", (("line", "not cached"),), Fraction(9))
    new = replace(old, parameters=(("instruction", "CLFLUSH"), ("line", "always the same, not cached")))
    assert decode(encode(replace(REPORT, times=(old, other)))).times == (new, other)
    for name in ("ICX", "ZEN3", "ZEN4"):
        path = shipped_memory(name)
        assert path is not None
        lines = {dict(one.parameters)["line"] for one in some(read_document(path).times) if one.kind == "flush"}
        assert lines == {"always the same, not cached", "always the same, just written"}


def test_a_file_gives_it_back_packed_or_not(tmp_path: Path) -> None:
    text = json.dumps(encode(REPORT)).encode()
    for name, data in (("plain.json", text), ("packed.json.xz", lzma.compress(text))):
        (tmp_path / name).write_bytes(data)
        assert read_document(tmp_path / name) == REPORT


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.pop(name)


def set_row(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["store_forwarding"]["rows"][0].update({name: value})


@pytest.mark.parametrize(
    "change",
    [
        without("form"),
        without("provenance"),
        without("store_forwarding"),
        set_row("store", "r4096"),
        set_row("place", "nowhere"),
        set_row("cycles", [1e300]),
        set_row("cycles", ["1"]),
        set_row("cycles", [-1]),
        set_row("outcomes", "q"),
        set_row("outcomes", "ff"),
        set_row("first_offset", "0"),
    ],
)
def test_a_document_of_another_form_is_refused(change: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    data = encode(REPORT)
    change(data)
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(data))
    with pytest.raises(MemoryDocumentError, match=r"wrong\.json: not what"):
        read_document(path)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"form": 1}'])
def test_garbage_is_refused(data: bytes, tmp_path: Path) -> None:
    for name in ("wrong.json", "wrong.json.xz"):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(MemoryDocumentError):
            read_document(tmp_path / name)


def test_the_penalty_is_between_the_medians() -> None:
    assert MATRIX.penalty() == 19 - 6
    assert MATRIX.penalty("vector") is None


def test_the_rate_of_stores_is_told_from_their_times() -> None:
    times = tuple(
        Time("store throughput", (("access", name), ("bytes apart", apart)), cycles)
        for name, apart, cycles in (
            ("r64", "8", Fraction(1, 2)),
            ("r64", "64", Fraction(1)),
            ("r8", "64", Fraction(3)),
        )
    )
    report = replace(REPORT, times=times)
    assert report.stores_per_cycle == StoreRates(Fraction(2), Fraction(1))
    assert encode(report)["stores_per_cycle"] == {"same_line": 2.0, "other_line": 1.0}
    assert "64-bit stores per cycle: 2.00 side by side in a line, 1.00 to a line each" in lines_of(report)
    assert replace(REPORT, times=times[:1]).stores_per_cycle is None


def test_the_text_shows_the_same_address_and_with_every_offset_ranges() -> None:
    lines = list(lines_of(REPORT))
    assert any(line.split() == ["r8", "6.0", "19.0!"] for line in lines)
    assert any(line.split() == ["r64", "6.0", "0.0="] for line in lines)
    assert any("13.0 cycles more, general registers (LLVM's StoreLoadForwardingPenalty)" in line for line in lines)
    assert "! 1 case was not measured: SIGSEGV" in lines
    assert any("ZEN4 (a CPU), backend tsc" in line for line in lines)
    assert "  r64 → r64  -7..-1: 19.0!  0: 0.0=  1..6: 20.0!" in lines_of(REPORT, every_offset=True)


def test_the_grid_of_the_picture_has_a_cell_for_each_case() -> None:
    lines, middles = grid(MATRIX, *WHERE)
    assert len(lines) == 2
    assert len(set(map(len, lines))) == 1
    shown = sorted(cell for line in lines for cell in line if not math.isnan(cell))
    assert shown == sorted(float(one) for row in MATRIX.rows for one in row.cycles if one is not None)
    assert middles[0] < middles[1] < len(lines[0])


def test_the_picture_is_an_svg_with_the_names_and_always_the_same() -> None:
    pytest.importorskip("matplotlib")
    picture = svg(MATRIX, "ZEN4")
    assert picture == svg(MATRIX, "ZEN4")
    assert picture.lstrip().startswith(b"<?xml")
    for text in (b"ZEN4: cycles from the stored register", b"inside a line", b">r64<"):
        assert text in picture
