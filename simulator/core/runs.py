"""The parts of a trace: runs of instructions, repetitions of them, and segments.

A segment ends with a serializing instruction, before which everything must have retired, so the next one starts with a
drained core. It depends on earlier segments only through the order in which ports were last chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.core.compiler import FUSED_SLOTS_WITHOUT_MICROCODE
from simulator.errors import SimulatedHangError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from simulator.core.compiler import Compiled

SERIALIZING = frozenset(
    {"LFENCE", "CPUID", "SERIALIZE", "IRET", "IRETD", "IRETQ", "RSM", "WBINVD", "INVD", "INVLPG", "WRMSR"}
)
"""Instructions before which all earlier ones complete (Intel SDM volume 3A, section 9.3; LFENCE: volume 2A)."""

LONGEST_STRETCH = 1_000_000
"""Instructions of a loop's body, with the loops in it written out."""


@dataclass(frozen=True, slots=True)
class Read:
    """A read of a counter: the RDPMC index (-1: RDTSC), and whether it stands after the copies."""

    index: int
    after: bool


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Instructions that are executed one after another; the front end makes one object of the same instructions.

    `reads` are the reads of counters in it: (index of the instruction, read). `static` sums up the `static_events`.
    """

    code: tuple[Compiled, ...]
    reads: tuple[tuple[int, Read], ...]
    static: tuple[int, ...]

    @property
    def values_matter(self) -> bool:
        """Whether its time depends on operand values."""
        return any(one.fast_form is not None for one in self.code)

    @property
    def has_high_bytes(self) -> bool:
        """Whether it uses a high byte that is renamed separately from its register."""
        return any(one.partial is not None and one.partial.high for one in self.code)

    @property
    def serializes(self) -> bool:
        """Whether the last instruction serializes (no other one does)."""
        return self.code[-1].variant.iclass in SERIALIZING


@dataclass(frozen=True, slots=True)
class Repetition:
    """A stretch of the trace, `count` times."""

    runs: tuple[Run | Repetition, ...]
    count: int


Segment = tuple[Run | Repetition, ...]


def executed(
    runs: Iterable[Run | Repetition], execute: Callable[[Run], Run], state: Callable[[], Hashable], most_copies: int
) -> list[Run | Repetition]:
    """Execute a trace, run by run; once the state repeats, the same copies are repeated.

    Args:
        runs: the trace.
        execute: changes the state as a run does, and returns the form of the run in that state.
        state: returns the state: all that the forms of later runs depend on.
        most_copies: how many copies of a repetition are executed. If no state has repeated by then, the last one stands
            for all that follow.
    """
    found: list[Run | Repetition] = []
    for run in runs:
        if isinstance(run, Run):
            found.append(execute(run))
        else:
            found += _executed_repetition(run, execute, state, most_copies)
    return found


def _executed_repetition(
    repetition: Repetition, execute: Callable[[Run], Run], state: Callable[[], Hashable], most_copies: int
) -> list[Run | Repetition]:
    """Execute copies until the state repeats."""
    seen: dict[Hashable, int] = {}
    copies: list[Segment] = []
    while (now := state()) not in seen and len(copies) < min(repetition.count, most_copies):
        seen[now] = len(copies)
        copies.append(tuple(executed(repetition.runs, execute, state, most_copies)))
    start = seen.get(now, len(copies) - 1)
    if all(copy == copies[0] for copy in copies):
        return [Repetition(copies[0], repetition.count)]
    if len(copies) == repetition.count:
        return [run for copy in copies for run in copy]
    period = copies[start:]
    times, rest = divmod(repetition.count - start, len(period))
    found = [run for copy in copies[:start] for run in copy]
    found.append(Repetition(tuple(run for copy in period for run in copy), times))
    return found + [run for copy in period[:rest] for run in copy]


@dataclass(frozen=True, slots=True)
class Sequel:
    """Segments in a row, each with its count, that are repeated together. None of them reads a counter."""

    parts: tuple[tuple[Segment | Sequel, int], ...]


STATIC = ("instructions", "uops_issued", "uops_retire_slots", "uops_MITE", "uops_MS")
"""Counters that depend on the executed instructions only, not on time."""

FUSED_EVENTS = (1, 0, 0, 0, 0)
"""The `STATIC` counters of a jump that is fused with the instruction before it."""


def static_events(one: Compiled) -> tuple[int, ...]:
    """Return the `STATIC` counters of one instruction."""
    microcoded = one.slots > FUSED_SLOTS_WITHOUT_MICROCODE
    return (1, one.slots, one.slots, 0 if microcoded else one.slots, one.slots if microcoded else 0)


def add(first: tuple[int, ...], second: tuple[int, ...], times: int = 1) -> tuple[int, ...]:
    """Return the sum of two rows of counts, the second one `times` times."""
    return tuple([a + times * b for a, b in zip(first, second, strict=True)])


def cut(code: Sequence[Compiled]) -> Iterator[tuple[Compiled, ...]]:
    """Cut straight code after each serializing instruction."""
    part: list[Compiled] = []
    for one in code:
        part.append(one)
        if one.variant.iclass in SERIALIZING:
            yield tuple(part)
            part = []
    if part:
        yield tuple(part)


def segments(runs: Sequence[Run | Repetition]) -> list[tuple[Segment | Sequel, int]]:
    """Cut a trace after each serializing instruction; a repetition with one in it becomes repeated segments."""
    splitter = _Splitter()
    splitter.feed(runs, 1)
    if splitter.current:
        splitter.found.append((tuple(splitter.current), 1))
    return splitter.found


class _Splitter:
    def __init__(self) -> None:
        self.found: list[tuple[Segment | Sequel, int]] = []
        self.current: list[Run | Repetition] = []

    def feed(self, runs: Sequence[Run | Repetition], times: int) -> None:
        for run in runs:
            if isinstance(run, Run):
                self.current.append(run)
                if run.serializes:
                    self.found.append((tuple(self.current), times))
                    self.current = []
            elif not _serializes(run.runs):
                self.current.append(run)
            else:
                self.feed(run.runs, times)
                if run.count > 1:
                    self._again(run, times * (run.count - 1))

    def _again(self, run: Repetition, times: int) -> None:
        """Add the further copies of a repetition: their first segment begins with the rest of the copy before."""
        if reads((run,)):
            self.feed(run.runs, times)
            return
        found, self.found = self.found, []
        self.feed(run.runs, 1)
        self.found = [*found, (Sequel(tuple(self.found)), times)]


def reads(segment: Segment) -> bool:
    """Whether a counter is read in it."""
    return any(reads(run.runs) if isinstance(run, Repetition) else run.reads for run in segment)


def values_matter(runs: Sequence[Run | Repetition]) -> bool:
    """Whether the time of a trace depends on operand values."""
    return any(values_matter(run.runs) if isinstance(run, Repetition) else run.values_matter for run in runs)


def has_high_bytes(segment: Segment) -> bool:
    """Whether a high byte that is renamed separately from its register is used in it."""
    return any(has_high_bytes(run.runs) if isinstance(run, Repetition) else run.has_high_bytes for run in segment)


def _serializes(runs: Sequence[Run | Repetition]) -> bool:
    return any(_serializes(run.runs) if isinstance(run, Repetition) else run.serializes for run in runs)


def flat(runs: Sequence[Run | Repetition]) -> list[Compiled]:
    """Return the instructions of a stretch with all repetitions written out.

    Raises:
        SimulatedHangError: they are too many.
    """
    found: list[Compiled] = []
    for run in runs:
        if isinstance(run, Run):
            found += run.code
        else:
            inner = flat(run.runs)
            if len(inner) * run.count > LONGEST_STRETCH:
                raise SimulatedHangError("loops within loops that run for too long")
            found += inner * run.count
    return found
