"""Types for measurements of a machine's memory: store forwarding, times of loads and stores, levels of cache.

Cycles are core cycles, in hundredths (`Fraction`). Sizes and offsets are in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results.model import Provenance


class LineCrossing(StrEnum):
    """Where store and load are: both in one line, or at least one of them in two lines, or in two pages."""

    LINE = "line"
    LINES = "lines"
    PAGES = "pages"


class Addressing(StrEnum):
    """How store and load name the place; all registers in it have been ready for long.

    SAME: both as [R14+d]. BASE: the load as [RSI+d]. INDEX: both as [R14+R13+d]. OTHER_INDEX: the load as [R14+R12+d].
    """

    SAME = "same"
    BASE = "base"
    INDEX = "index"
    OTHER_INDEX = "other_index"


class ForwardingOutcome(StrEnum):
    """How a load gets what a store has just written.

    RENAMED: at once, the load takes the register that was stored. FORWARDED: from the store buffer. FAILED: only after
    the store is done. UNKNOWN: not measured.
    """

    RENAMED = "renamed"
    FORWARDED = "forwarded"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AccessSize:
    """A store or load: `name` as in `memory_accesses.tsv` (r64, x128), its bytes, and the registers that it moves."""

    name: str
    size_bytes: int
    file: str


@dataclass(frozen=True, slots=True)
class ForwardingRow:
    """One store and one load at all offsets: `cycles[i]` is that of `first_offset + i` bytes from store to load.

    Cycles are those from the stored register to the loaded one; None: not measured. Between the general and the vector
    registers they are a sum less half of the way there and back (see docs/memory.md).
    """

    store: AccessSize
    load: AccessSize
    place: LineCrossing
    addressing: Addressing
    first_offset: int
    cycles: tuple[Fraction | None, ...]
    outcomes: tuple[ForwardingOutcome, ...]

    def at(self, offset: int) -> tuple[Fraction | None, ForwardingOutcome] | None:
        """Return cycles and outcome at an offset, None where there is no such case."""
        index = offset - self.first_offset
        return (self.cycles[index], self.outcomes[index]) if 0 <= index < len(self.cycles) else None

    def runs(self) -> list[tuple[int, int, Fraction | None, ForwardingOutcome]]:
        """Return (first offset, last offset, cycles, outcome) of offsets in a row that are alike to half a cycle.

        The cycles of a run are those of its first offset.
        """
        found: list[tuple[int, int, Fraction | None, ForwardingOutcome]] = []
        for offset, (cycles, outcome) in enumerate(zip(self.cycles, self.outcomes, strict=True), self.first_offset):
            if found and found[-1][3] is outcome and _near(found[-1][2], cycles):
                found[-1] = (found[-1][0], offset, *found[-1][2:])
            else:
                found.append((offset, offset, cycles, outcome))
        return found


def _near(one: Fraction | None, other: Fraction | None) -> bool:
    if one is None or other is None:
        return one is other
    return 2 * abs(one - other) <= 1


@dataclass(frozen=True)
class ForwardingMatrix:
    """The whole matrix of store forwarding."""

    rows: tuple[ForwardingRow, ...]

    @cached_property
    def sizes(self) -> tuple[AccessSize, ...]:
        """The stores and loads, each once, in their order."""
        return tuple(dict.fromkeys(row.store for row in self.rows))

    def row(
        self, store: str, load: str, place: LineCrossing = LineCrossing.LINE, addressing: Addressing = Addressing.SAME
    ) -> ForwardingRow | None:
        """Return the row of a store and a load, None where there is none."""
        return self._by_name.get((store, load, place, addressing))

    @cached_property
    def _by_name(self) -> dict[tuple[str, str, LineCrossing, Addressing], ForwardingRow]:
        return {(row.store.name, row.load.name, row.place, row.addressing): row for row in self.rows}

    def penalty(self, file: str = "general") -> Fraction | None:
        """Return the additional cycles of a load that waits until the store is done, compared with a forwarded one.

        Both are medians over the cases inside a line, of stores and loads of one register file: those that fail,
        and those that are forwarded. None: nothing fails, or nothing is forwarded.

        Of the general registers it is what LLVM calls `StoreLoadForwardingPenalty` (llvm-project, pull request 199606:
        the stall of each load that a store cannot be forwarded to, in cycles).
        """
        failed, forwarded = (
            self._cycles(file, outcome) for outcome in (ForwardingOutcome.FAILED, ForwardingOutcome.FORWARDED)
        )
        return median(failed) - median(forwarded) if failed and forwarded else None

    def _cycles(self, file: str, wanted: ForwardingOutcome) -> list[Fraction]:
        rows = (
            row
            for row in self.rows
            if row.place is LineCrossing.LINE
            and row.addressing is Addressing.SAME
            and {row.store.file, row.load.file} == {file}
        )
        pairs = (pair for row in rows for pair in zip(row.cycles, row.outcomes, strict=True))
        return [cycles for cycles, outcome in pairs if cycles is not None and outcome is wanted]


@dataclass(frozen=True, slots=True)
class Time:
    """The latency of a load or store, or the time of each of several; `parameters` say which, in order."""

    kind: str
    parameters: tuple[tuple[str, str], ...]
    cycles: Fraction

    @classmethod
    def read(cls, kind: str, parameters: Iterable[tuple[str, str]], cycles: Fraction) -> Time:
        """Return a time that was read from a file, under the words of today."""
        return cls(kind, tuple((name, RENAMED.get((kind, name, value), value)) for name, value in parameters), cycles)


RENAMED = {
    ("flush", "line", "not cached"): "always the same, not cached",
    ("flush", "line", "just written"): "always the same, just written",
}
"""What values of parameters are called, by kind, name and the value in older files.

The throughput of an instruction that flushes is of many lines in turn: a line that is not cached was meant by both.
"""


@dataclass(frozen=True, slots=True)
class Chased:
    """The time of a load whose address is the result of the one before, in an area of `size_bytes`.

    `cycles` is with a pointer in every line. `page_cycles` is the part that is due to the pages: the time of a load
    with one pointer in every page, less its time with the same number of pointers in adjoining lines.
    """

    size_bytes: int
    cycles: Fraction
    page_cycles: Fraction

    @property
    def cache_cycles(self) -> Fraction:
        """What is left without the pages."""
        return max(Fraction(0), self.cycles - self.page_cycles)


@dataclass(frozen=True, slots=True)
class MeasuredLevel:
    """A level of cache: the largest size that it seems to hold, and what a load from it takes, without misses of TLBs.

    `is_last`: it reaches the largest size that was measured, so it is memory, or a cache larger than that.
    """

    size_bytes: int
    cycles: Fraction
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Replacement:
    """Ways and replacement policy of a level of cache: names that predict the same, or a reason why none is known."""

    level: str
    ways: int | None
    policies: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Everything about the memory of one machine, and where it comes from. `problems` are sentences."""

    provenance: Provenance
    forwarding: ForwardingMatrix | None = None
    problems: tuple[str, ...] = ()
    times: tuple[Time, ...] = ()
    chased: tuple[Chased, ...] = ()
    levels: tuple[MeasuredLevel, ...] = ()
    replacements: tuple[Replacement, ...] = ()

    @property
    def stores_per_cycle(self) -> StoreRates | None:
        """Return how many 64-bit stores the core commits per cycle; None if that was not measured."""
        cycles = {dict(one.parameters).get("bytes apart"): one.cycles for one in self.times if _is_store(one)}
        same, other = cycles.get("8"), cycles.get("64")
        return StoreRates(1 / same, 1 / other) if same and other else None


STORED = "r64"
"""The access whose rate is stated."""


def _is_store(one: Time) -> bool:
    return one.kind == "store throughput" and ("access", STORED) in one.parameters


class StoreRates(NamedTuple):
    """64-bit stores that are committed per cycle: one beside the other in a line, and each to a line of its own."""

    same_line: Fraction
    other_line: Fraction


@dataclass(frozen=True, slots=True)
class MemoryAgreement:
    """How alike several runs of the matrix are, as shares of the cases: within a cycle, and of the same outcome."""

    cases: int
    within_a_cycle: Fraction
    same_outcome: Fraction
    middle_distance: Fraction


def agreement(runs: Iterable[ForwardingMatrix]) -> MemoryAgreement:
    """Compare runs case by case: the greatest less the least cycles. `middle_distance` is the median of these.

    Raises:
        ValueError: fewer than two runs, they have other cases, or nothing was measured.
    """
    every = [[pair for row in run.rows for pair in zip(row.cycles, row.outcomes, strict=True)] for run in runs]
    if len(every) < 2:
        raise ValueError("at least two runs can be compared")
    distances: list[Fraction] = []
    same = 0
    for case in zip(*every, strict=True):
        if all(outcome is ForwardingOutcome.UNKNOWN for _, outcome in case):
            continue
        cycles = [one for one, _ in case if one is not None]
        distances.append(max(cycles) - min(cycles) if len(cycles) == len(case) else Fraction(1_000_000))
        same += len({outcome for _, outcome in case}) == 1
    count = len(distances)
    near = sum(distance <= 1 for distance in distances)
    if not count:
        raise ValueError("no case was measured")
    return MemoryAgreement(count, Fraction(near, count), Fraction(same, count), median(distances))
