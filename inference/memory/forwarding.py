"""Store forwarding: the time of each case of the matrix, and whether it was renamed, forwarded, or failed.

A case is a chain of store, load and link. The link is measured alone, and its time subtracted. Time tells three
outcomes apart:

- **renamed**: less than `RENAMED_CYCLES` in two measurements, since no store buffer can be read that fast;
- **failed**: slower than the middle of two medians, both of cases inside a cache line. One is of loads that certainly
  are forwarded: the same bytes, loaded as they were stored. If all of these are renamed, any load of a part of the
  stored bytes counts instead. The other is of loads that reach beyond the store. A wide load did not fail if it takes
  hardly longer than the same load at the store's address inside a line;
- **forwarded**: all others.

If the two medians differ by less than `LEAST_STALL` cycles, the core seems to combine several sources for one load, and
no case counts as failed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

from generator.memory.accesses import WITHOUT_AVX
from generator.memory.forwarding import ForwardingCase, ForwardingCode
from inference.experiment import Request
from results.memory.model import (
    AccessSize,
    Addressing,
    ForwardingMatrix,
    ForwardingOutcome,
    ForwardingRow,
    LineCrossing,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from generator.factory import InstructionFactory
    from generator.memory.accesses import AccessInstructions, File
    from inference.experiment import Measured, Procedure

RENAMED_CYCLES = Fraction(2)
"""Core cycles: the fastest load from a store buffer takes 4 (Fog, "Microarchitecture", store forwarding)."""
LEAST_STALL = 3
"""Core cycles: a load that waits for the store to be done takes about 10 more (Fog, likewise)."""
HUNDREDTHS = 100
"""Parts of a cycle to which times are rounded: finer than any difference between two runs."""
MOST_PROBLEMS = 5
"""Reasons of failures that are reported."""

Files = tuple["File", "File"]
Pair = tuple[str, str]
"""The names of a store and a load."""


def measure_forwarding(
    instructions: InstructionFactory, cells: Sequence[ForwardingCase]
) -> Procedure[tuple[ForwardingMatrix, tuple[str, ...]]]:
    """Measure the cases, which are ordered by pair and offset; return the matrix, and what went wrong.

    Raises:
        EncodingError: the catalogue lacks an instruction that is needed.
    """
    code = ForwardingCode(instructions)
    links = yield from _links(code, cells)
    answers = yield [Request(code.chain(cell), loop=True) for cell in cells]
    cycles = dict(
        zip(cells, (_cycles(cell, found, links) for cell, found in zip(cells, answers, strict=True)), strict=True)
    )
    yield from _again(code, cycles, links)
    reasons = Counter(found.detail or found.status.value for found in answers if not found.ok)
    problems = [f"{count} cases were not measured: {reason}" for reason, count in reasons.most_common(MOST_PROBLEMS)]
    bounds = limits(cycles)
    return ForwardingMatrix(tuple(_rows(cycles, bounds, forwarded(cycles, bounds)))), tuple(problems)


def _again(
    code: ForwardingCode, cycles: dict[ForwardingCase, Fraction | None], links: Mapping[Files, Fraction]
) -> Procedure[None]:
    """Measure the cases that seem to be renamed once more, with two copies; the longer of both times counts.

    One disturbed repetition of thousands may look like renaming.
    """
    seen = {cell: took for cell, took in cycles.items() if took is not None and took < RENAMED_CYCLES}
    answers = (yield [Request(code.chain(cell, 2), loop=True) for cell in seen]) if seen else []
    for (cell, took), found in zip(seen.items(), answers, strict=True):
        again = _cycles(cell, found, links, 2)
        if again is not None:
            cycles[cell] = max(took, again)


def _links(code: ForwardingCode, cells: Iterable[ForwardingCase]) -> Procedure[dict[Files, Fraction]]:
    """Measure the links from the register of a load to that of the next store, by their register files."""
    wanted: dict[Files, Request] = {}
    for cell in cells:
        files = (cell.load.file, cell.store.file)
        if files not in wanted:
            wanted[files] = Request(code.reference(cell.load, cell.store), loop=True)
    answers = yield list(wanted.values())
    ways = ((files, found, 1 if files[0] is files[1] else 2) for files, found in zip(wanted, answers, strict=True))
    return {files: found.cycles / ways for files, found, ways in ways if found.ok}


def _cycles(cell: ForwardingCase, found: Measured, links: Mapping[Files, Fraction], copies: int = 1) -> Fraction | None:
    """Return the time without the link, at least 0 (None: not known)."""
    link = links.get((cell.load.file, cell.store.file))
    if not found.ok or link is None:
        return None
    return max(Fraction(0), Fraction(round((found.cycles / copies - link) * HUNDREDTHS), HUNDREDTHS))


def limits(cycles: Mapping[ForwardingCase, Fraction | None]) -> dict[Files, Fraction]:
    """Return for each pair of register files the core cycles above which forwarding has failed."""
    sure: dict[Files, list[Fraction]] = defaultdict(list)
    parts: dict[Files, list[Fraction]] = defaultdict(list)
    never: dict[Files, list[Fraction]] = defaultdict(list)
    for cell, found in cycles.items():
        if (
            found is None
            or found < RENAMED_CYCLES
            or cell.place is not LineCrossing.LINE
            or cell.addressing is not Addressing.SAME
        ):
            continue
        files = (cell.store.file, cell.load.file)
        if not cell.offset_bytes and cell.store.size_bytes == cell.load.size_bytes:
            sure[files].append(found)
        elif cell.contained:
            parts[files].append(found)
        else:
            never[files].append(found)
    known = {**parts, **sure}
    middles = {files: (median(known[files]), median(never[files])) for files in known if files in never}
    return {files: (low + high) / 2 for files, (low, high) in middles.items() if high - low >= LEAST_STALL}


def forwarded(
    cycles: Mapping[ForwardingCase, Fraction | None], limits: Mapping[Files, Fraction]
) -> dict[Pair, Fraction]:
    """Return the core cycles of loads at the address of the store inside a line, for pairs that are forwarded there."""
    found: dict[Pair, Fraction] = {}
    for cell, took in cycles.items():
        plain = cell.place is LineCrossing.LINE and cell.addressing is Addressing.SAME and not cell.offset_bytes
        if plain and took is not None and took <= limits.get((cell.store.file, cell.load.file), took):
            found[cell.store.name, cell.load.name] = took
    return found


def outcome(
    cell: ForwardingCase,
    cycles: Fraction | None,
    limits: Mapping[Files, Fraction],
    forwarded: Mapping[Pair, Fraction],
) -> ForwardingOutcome:
    """Return how the load got its bytes."""
    if cycles is None:
        return ForwardingOutcome.UNKNOWN
    if cycles < RENAMED_CYCLES:
        return ForwardingOutcome.RENAMED
    limit = limits.get((cell.store.file, cell.load.file))
    plain = forwarded.get((cell.store.name, cell.load.name), Fraction(0))
    waited = limit is not None and cycles > limit and cycles - plain >= LEAST_STALL
    return ForwardingOutcome.FAILED if waited else ForwardingOutcome.FORWARDED


def _rows(
    cycles: Mapping[ForwardingCase, Fraction | None],
    limits: Mapping[Files, Fraction],
    forwarded: Mapping[Pair, Fraction],
) -> Iterable[ForwardingRow]:
    """Yield the cases of one store and one load together; offsets without a case between others are unknown."""
    for (store, load, place, addressing), group in groupby(
        cycles, lambda one: (one.store, one.load, one.place, one.addressing)
    ):
        found = {cell.offset_bytes: cell for cell in group}
        first, last = min(found), max(found)
        row = [
            (found.get(offset), cycles.get(found[offset]) if offset in found else None)
            for offset in range(first, last + 1)
        ]
        outcomes = (
            ForwardingOutcome.UNKNOWN if cell is None else outcome(cell, took, limits, forwarded) for cell, took in row
        )
        values = tuple(took for _, took in row)
        yield ForwardingRow(size_of(store), size_of(load), place, addressing, first, values, tuple(outcomes))


def size_of(access: AccessInstructions) -> AccessSize:
    """Return an access as results name it: SSE and AVX alike."""
    return AccessSize(access.name.removesuffix(WITHOUT_AVX), access.size_bytes, access.file.value)
