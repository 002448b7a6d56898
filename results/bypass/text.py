"""Bypass delays for people: matrices, in which classes that behave alike share a row and a column."""

from __future__ import annotations

from itertools import combinations
from string import ascii_uppercase
from typing import TYPE_CHECKING

from results.text import cycles_text, machine_text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from fractions import Fraction

    from results.bypass.model import BypassCell, BypassMatrix, BypassReport, ClassLatency, FileMatrix, MeasuredRing

INDENT = "  "
UNKNOWN = "?"
"""A cell whose rings are not steady, or were not measured."""
LEGEND = {
    "-": "0-2: between 0 and 2 cycles, since rings tell only the sum there and back",
    "~": "~1.3: there and back; the share of each direction is not known",
    UNKNOWN: "?: rings of two lengths disagree, or were not measured",
}
"""What a character in a cell means."""


def lines_of(report: BypassReport, *, explain: bool = False) -> Iterator[str]:
    """Yield a report as lines; with `explain` every ring, too."""
    yield "bypass delay: core cycles that a result needs more to another class of instructions than to its own"
    known = [one.label for one in report.classes]
    for matrix in report.matrices:
        yield ""
        yield from _matrix_lines(matrix, known)
    for between in report.between_files:
        yield ""
        yield from _between_lines(between, known)
    yield ""
    yield from _latency_lines(report.classes)
    if explain:
        yield ""
        yield "rings: core cycles per turn, less the latencies of the classes"
        for ring in report.rings:
            yield from _ring_lines(ring)
    yield from (f"! {problem}" for problem in report.problems)
    yield machine_text(report.provenance)
    yield from (f"{INDENT}{caveat}" for caveat in report.provenance.caveats)


def _matrix_lines(matrix: BypassMatrix, known: Sequence[str]) -> Iterator[str]:
    """Yield the delays inside a register file."""
    cells = {(one.producer, one.consumer): one for one in matrix.cells}
    title = f"{matrix.file} registers"
    if all(one.is_exact and not one.least for one in matrix.cells):
        yield f"{title}: no bypass delay among {len(matrix.labels)} classes"
        return
    yield f"{title} (rows: producers, columns: consumers)"
    if matrix.problem:
        yield f"{INDENT}! no delays fit all rings: {matrix.problem}. Only sums are stated"
    groups = _grouped(matrix.labels, lambda one, other: _are_alike(cells, matrix.labels, one, other))
    names = dict(zip(_letters(len(groups)), groups, strict=True))
    for letter, group in names.items():
        yield f"{INDENT}{letter:3}{compact(group, known)}"
    texts = {
        (row, column): _cell_text(cells.get(_ends(producers, consumers)))
        for row, producers in names.items()
        for column, consumers in names.items()
    }
    yield from _table(list(names), list(names), texts)
    if matrix.reference:
        for (row, ones), (column, others) in combinations(names.items(), 2):
            cell = cells[ones[0], others[0]]
            if not cell.is_exact and cell.there_and_back is not None:
                yield f"{INDENT}{row} and {column}: {cycles_text(cell.there_and_back)} cycles there and back"


def _between_lines(between: FileMatrix, known: Sequence[str]) -> Iterator[str]:
    """Yield the sums between two files; classes of the same row or column are written once."""
    sums = {(one.one, one.other): one.cycles for one in between.sums}
    ones, others = (list(dict.fromkeys(pair[end] for pair in sums)) for end in (0, 1))
    here, there = between.files
    yield f"{here} registers to {there} registers and back, through {between.moves[0]} and {between.moves[1]}"
    yield f"{INDENT}(a sum with both moves, without the latencies of the classes; no ring tells the two ways apart)"
    rows = _grouped_by(ones, lambda one: tuple(sums[one, other] for other in others))
    columns = _grouped_by(others, lambda other: tuple(sums[one, other] for one in ones))
    if len(rows) == len(columns) == 1:
        yield f"{INDENT}{_sum_text(sums[ones[0], others[0]])} cycles for all {len(ones)} and {len(others)} classes"
        return
    letters = _letters(len(rows) + len(columns))
    for letter, group in zip(letters, [*rows, *columns], strict=True):
        yield f"{INDENT}{letter:3}{compact(group, known)}"
    names = dict(zip(letters, [*rows, *columns], strict=True))
    up, across = letters[: len(rows)], letters[len(rows) :]
    texts = {(row, column): _sum_text(sums[names[row][0], names[column][0]]) for row in up for column in across}
    yield from _table(up, across, texts)


def _table(rows: Sequence[str], columns: Sequence[str], texts: dict[tuple[str, str], str]) -> Iterator[str]:
    """Yield a table with the meaning of what stands in its cells."""
    width = max(len(text) for text in (*texts.values(), *columns)) + 2
    yield f"{INDENT}{'':3}" + "".join(f"{column:>{width}}" for column in columns)
    for row in rows:
        yield f"{INDENT}{row:3}" + "".join(f"{texts[row, column]:>{width}}" for column in columns)
    seen = "".join(texts.values())
    yield from (f"{INDENT}{meaning}" for mark, meaning in LEGEND.items() if mark in seen)


def _latency_lines(classes: Sequence[ClassLatency]) -> Iterator[str]:
    """Yield which instruction stands for a class, and its latency in a ring of its own."""
    yield "latency of each class in a ring of its own"
    for one in classes:
        cycles = UNKNOWN if one.cycles is None else cycles_text(one.cycles)
        yield f"{INDENT}{one.label:22}{cycles:>7}  {one.instruction}" + (f"  ({one.detail})" if one.detail else "")


def _ring_lines(ring: MeasuredRing) -> Iterator[str]:
    what = f"{' → '.join(ring.members)}, {ring.instances} of each"
    if ring.cycles is None or ring.beyond is None:
        yield f"{INDENT}{what}: not measured: {ring.detail}"
    else:
        took = f"{float(ring.cycles):.2f} ± {float(ring.spread):.2f}"
        rest = f" - {float(ring.own):.2f} = {float(ring.beyond):.2f}" if ring.own else ""
        yield f"{INDENT}{what}: {took}{rest}"
    yield f"{INDENT * 2}{'; '.join(ring.code)}"


def compact(labels: Sequence[str], known: Sequence[str]) -> str:
    """Write labels with their widths together; without widths where all known ones of a name are meant."""
    found = []
    for name in dict.fromkeys(label.partition("/")[0] for label in labels):
        mine, every = (
            [one.partition("/")[2] for one in some if one.startswith(f"{name}/")] for some in (labels, known)
        )
        found.append(name if mine == every else f"{name}/{'+'.join(mine)}")
    return ", ".join(found)


def _cell_text(cell: BypassCell | None) -> str:
    """Write a cell; a class and itself have no delay."""
    if cell is None:
        return "0"
    if cell.least is not None:
        return str(cell.least) if cell.is_exact else f"{cell.least}-{cell.most}"
    return _sum_text(cell.there_and_back, "~")


def _sum_text(cycles: Fraction | None, mark: str = "") -> str:
    if cycles is None:
        return UNKNOWN
    return f"{mark}{int(cycles)}" if cycles.denominator == 1 else f"~{float(cycles):.1f}"


def _ends(producers: Sequence[str], consumers: Sequence[str]) -> tuple[str, str]:
    """Return a producer and a consumer of two groups, not the same one if a group has several."""
    return producers[0], consumers[-1]


def _are_alike(cells: dict[tuple[str, str], BypassCell], labels: Sequence[str], one: str, other: str) -> bool:
    """Whether two classes have no delay between them, and the same ones from and to all others."""
    between = (cells[one, other], cells[other, one])
    if not all(cell.is_exact and not cell.least for cell in between):
        return False
    rest = [label for label in labels if label not in {one, other}]
    return all(
        _figures(cells[one, label]) == _figures(cells[other, label])
        and _figures(cells[label, one]) == _figures(cells[label, other])
        for label in rest
    )


def _figures(cell: BypassCell) -> tuple[int | None, int | None, Fraction | None]:
    return cell.least, cell.most, cell.there_and_back


def _grouped(labels: Sequence[str], alike: Callable[[str, str], bool]) -> list[list[str]]:
    """Put labels that are alike together, in the order of their first."""
    groups: list[list[str]] = []
    for label in labels:
        group = next((group for group in groups if alike(group[0], label)), None)
        if group is None:
            groups.append([label])
        else:
            group.append(label)
    return groups


def _grouped_by(labels: Sequence[str], key: Callable[[str], Hashable]) -> list[list[str]]:
    return _grouped(labels, lambda one, other: key(one) == key(other))


def _letters(count: int) -> list[str]:
    """Return so many short names: A, B, ..., Z, A1, ..."""
    return [ascii_uppercase[n % 26] + (str(n // 26) if n >= 26 else "") for n in range(count)]
