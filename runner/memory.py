"""Measures memory on a backend's machine: store forwarding, loads, stores, caches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from generator.factory import InstructionFactory
from generator.memory.accesses import WITHOUT_AVX, accesses_of
from generator.memory.forwarding import ForwardingCase, cells
from generator.memory.sequences import SequenceCode, SequenceError, SetLines, of_numbers, parse
from generator.memory.times import TimingCode
from inference.experiment import Request
from inference.memory.asked import RESET, measure_asked
from inference.memory.forwarding import measure_forwarding
from inference.memory.levels import levels, measure_levels
from inference.memory.replacement import measure_replacement
from inference.memory.times import measure_times
from results.memory.model import Addressing, LineCrossing, MemoryReport, Replacement
from runner.backend import lacks_of
from runner.measuring.protocol import Measurer, Options
from runner.measuring.session import Limits, Session
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from fractions import Fraction

    from generator.memory.accesses import AccessInstructions
    from inference.experiment import Procedure
    from inference.memory.asked import AskedAccess
    from results.memory.model import MeasuredLevel
    from runner.backend import Backend
    from runner.measuring.session import Progress
    from xed_convert.catalogue.catalogue import Catalogue

QUICK = Options(repetitions=6, rounds=2, enough_quiet=3, survey_looks=5, patience_seconds=2.0, patience_ratio=0.5)
"""Chains are steadier than throughputs, and there are twelve thousand: few repetitions, and little waiting."""


class MemoryUnknownError(UopscopeError):
    """A measurement that is not possible here."""


STEADY = Options(repetitions=20, rounds=8, enough_quiet=8, survey_looks=5, patience_seconds=2.0, patience_ratio=0.5)
"""Loads that miss caches: they are few, and others use the same caches."""


class MemoryPart(StrEnum):
    """What can be measured: store forwarding, times of loads and stores, levels of cache, replacement policies."""

    FORWARDING = "forwarding"
    TIMES = "times"
    LEVELS = "levels"
    POLICIES = "policies"


@dataclass(frozen=True, slots=True)
class WantedMemory:
    """What to measure: parts; of forwarding, stores and loads by name (r64, x128), places, and addressings.

    None: all that there are.
    """

    parts: tuple[MemoryPart, ...] = ()
    names: tuple[str, ...] = ()
    places: tuple[LineCrossing, ...] = ()
    addressings: tuple[Addressing, ...] = ()
    options: Options = field(default=QUICK)


def measure_memory(
    backend: Backend,
    catalogue: Catalogue,
    wanted: WantedMemory | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> MemoryReport:
    """Measure what is wanted of a machine's memory.

    Raises:
        MemoryUnknownError: the CPU has none of the stores and loads that are wanted, or the machine has no caches.
        BackendError: the backend broke down.
    """
    asked = wanted or WantedMemory()
    info = backend.info()
    if not info.has_memory:
        name = info.provenance.architecture
        raise MemoryUnknownError(
            f"{name} is a model without caches and store buffers", hint="--arch SKX:memory has some"
        )
    parts = asked.parts or tuple(part for part in MemoryPart if not info.is_model or part is MemoryPart.FORWARDING)
    instructions = InstructionFactory(catalogue)
    known = _chosen(accesses_of(instructions, lacks_of(backend)), asked.names)
    report = MemoryReport(info.provenance)
    session = _session(backend, asked.options, on_progress)
    if MemoryPart.FORWARDING in parts:
        forwarding, problems = session.run_one(measure_forwarding(instructions, _cells(known, asked)))
        report = replace(report, forwarding=forwarding, problems=problems)
    if MemoryPart.TIMES in parts:
        cases = list(TimingCode(instructions, lacks_of(backend)).cases(known))
        times, problems = session.run_one(measure_times(cases))
        report = replace(report, times=times, problems=(*report.problems, *problems))
    if MemoryPart.LEVELS in parts or MemoryPart.POLICIES in parts:
        steady = _session(backend, STEADY, on_progress)
        chased = steady.run_one(measure_levels(instructions, min(MOST_BYTES, info.area_bytes // 2)))
        known_levels, problems = levels(chased)
        report = replace(report, chased=chased, levels=known_levels, problems=(*report.problems, *problems))
        if MemoryPart.POLICIES in parts:
            found = _replacements(steady, instructions, report.levels, info.area_bytes)
            report = replace(report, replacements=tuple(found))
    return report


def _replacements(
    session: Session, instructions: InstructionFactory, levels: Sequence[MeasuredLevel], area_bytes: int
) -> Iterator[Replacement]:
    """Yield the policies of the first two levels, as far as there is a further level to tell misses by."""
    for name, where, near, far in zip(("L1", "L2"), (FIRST_LEVEL, SECOND_LEVEL), levels, levels[1:], strict=False):
        if where.begin_bytes + MOST_LINES * where.stride_bytes > area_bytes // 2:
            yield Replacement(name, None, (), "the backend's memory is too small for lines of one set")
        else:
            yield session.run_one(measure_replacement(instructions, where, name, far.cycles - near.cycles))


def ask_sequence(backend: Backend, catalogue: Catalogue, text: str) -> tuple[AskedAccess, ...]:
    """Return which accesses with ? of a sequence hit the first level of cache.

    Raises:
        SequenceError: the sequence cannot be read, or asks about no access.
        MemoryUnknownError: hits and misses cannot be told apart here.
    """
    steps = parse(text)
    if not any(step.asked for step in steps):
        raise SequenceError("no access is asked about", hint="put ? behind it: A B A?")
    info = backend.info()
    if not info.has_memory:
        raise MemoryUnknownError(f"{info.provenance.architecture} is a model without caches")
    instructions = InstructionFactory(catalogue)
    session = _session(backend, STEADY, None)
    code = SequenceCode(instructions, FIRST_LEVEL)
    answers = session.run_one(_alone(code))
    hit, miss = answers
    if miss < hit + LEAST_MISS:
        raise MemoryUnknownError("a load that misses takes no longer here than one that hits")
    return session.run_one(measure_asked(instructions, FIRST_LEVEL, steps, hit, miss))


def _alone(code: SequenceCode) -> Procedure[tuple[Fraction, Fraction]]:
    """Measure a load that always hits, and loads of more lines of a set than it holds, which all miss."""
    rounds = [code.chain(of_numbers(range(count))) for count in (1, 2 * RESET)]
    few, many = yield [Request(one, loop=True) for one in rounds]
    if not (few.ok and many.ok):
        raise MemoryUnknownError(f"not measured: {few.detail or many.detail}")
    return few.cycles, many.cycles / (2 * RESET)


LEAST_MISS = 3
"""Core cycles: a miss takes at least this many more than a hit."""
FIRST_LEVEL = SetLines(stride_bytes=4096, begin_bytes=64)
"""Lines of one set: first levels choose it by bits of the address within a page."""
SECOND_LEVEL = SetLines(stride_bytes=256 << 10, begin_bytes=(32 << 20) + 64, evictors=16)
"""Lines of one set, too, since a way of a second level has fewer bytes. They are in pages of 2 MiB if there are any."""
MOST_LINES = 32
"""Lines of a set: some more than `inference.memory.replacement` asks for."""


MOST_BYTES = 64 << 20
"""Of memory that pointers are followed through."""


def _session(backend: Backend, options: Options, on_progress: Callable[[Progress], None] | None) -> Session:
    return Session(Measurer(backend, options), limits=Limits(keep_raw=False), on_progress=on_progress)


def _cells(known: Sequence[AccessInstructions], asked: WantedMemory) -> list[ForwardingCase]:
    """Return the cases that are wanted.

    Raises:
        MemoryUnknownError: there is none.
    """
    chosen = [
        cell
        for cell in cells(known)
        if (not asked.places or cell.place in asked.places)
        and (not asked.addressings or cell.addressing in asked.addressings)
    ]
    if not chosen:
        raise MemoryUnknownError(
            "no case is left", hint="other addressings than `same` are measured inside a line only"
        )
    return chosen


def _chosen(known: Sequence[AccessInstructions], names: Sequence[str]) -> list[AccessInstructions]:
    """Return the accesses of these names, in the order of their sizes."""
    there = {one.name.removesuffix(WITHOUT_AVX): one for one in known}
    unknown = [name for name in names if name not in there]
    if unknown:
        raise MemoryUnknownError(f"no store and load {unknown[0]!r} here", hint=f"there are: {', '.join(there)}")
    return [one for name, one in there.items() if not names or name in names]
