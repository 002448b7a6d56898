"""Sequences of accesses to lines of one cache set, in a small language, and the code that carries them out.

    A B C D A? B?        lines are named; the accesses with ? are to be told as hits or misses
    A! A?                A is flushed from all caches before
    3*(A B) C?           repeated

All lines belong to the same set: they are `stride_bytes` apart. The accesses are a chain of loads through RAX, whose
memory holds zero. For a second level each access is followed by accesses to other lines that take the line out of the
first level again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.errors import GenerationError
from generator.memory.forwarding import PAGE_BYTES
from generator.microbenchmark import Microbenchmark
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from generator.factory import InstructionFactory
    from generator.microbenchmark import Line

MOST_STEPS = 1000
"""Of a sequence: their loads fit into an instruction cache."""
_TOKEN = re.compile(r"\s*(?:(\d+)\s*\*\s*\(|([A-Za-z_]\w*)([?!]?)|(\)))")


class SequenceError(GenerationError):
    """A sequence that cannot be read; the message says where."""


@dataclass(frozen=True, slots=True)
class AccessStep:
    """An access to a line, or its flush; `asked`: whether it hits is wanted."""

    line: str
    asked: bool = False
    flush: bool = False


def parse(text: str) -> tuple[AccessStep, ...]:
    """Read a sequence.

    Raises:
        SequenceError: it is none, or has too many steps.
    """
    steps, at = _parse(text, 0, nested=False)
    if at != len(text):
        raise SequenceError(f"{text[:60]!r}: unexpected {text[at : at + 10]!r} at character {at + 1}")
    if not steps:
        raise SequenceError("the sequence has no access", hint="for example: A B C A?")
    return tuple(steps)


def _parse(text: str, at: int, *, nested: bool) -> tuple[list[AccessStep], int]:
    steps: list[AccessStep] = []
    while found := _TOKEN.match(text, at):
        times, name, sign, closed = found.groups()
        if closed and not nested:
            break
        at = found.end()
        if closed:
            return steps, at
        if times:
            inner, at = _parse(text, at, nested=True)
            steps += _repeated(inner, int(times[:9]))
        else:
            steps.append(AccessStep(name, asked=sign == "?", flush=sign == "!"))
        if len(steps) > MOST_STEPS:
            raise SequenceError(f"more than {MOST_STEPS} accesses")
    if nested:
        raise SequenceError(f"{text[:60]!r}: a parenthesis is not closed")
    return steps, len(text) if not text[at:].strip() else at


def _repeated(steps: list[AccessStep], times: int) -> list[AccessStep]:
    if len(steps) * times > MOST_STEPS:
        raise SequenceError(f"more than {MOST_STEPS} accesses")
    return steps * times


@dataclass(frozen=True, slots=True)
class SetLines:
    """Where lines of one set are: `begin_bytes` from R14 on, every `stride_bytes`; and lines that evict them.

    `evictors` lines of the same set of the first level follow each access (0: none), to take its line out of there.
    """

    stride_bytes: int
    begin_bytes: int = 0
    evictors: int = 0

    def place(self, number: int) -> MemoryAddress:
        """Return the address of a line; RAX is zero."""
        return MemoryAddress("R14", "RAX", 1, self.begin_bytes + number * self.stride_bytes)

    def evicting(self) -> Iterator[MemoryAddress]:
        """Yield the addresses of lines that are in another set of the second level, each in one of its own."""
        first = self.begin_bytes + PAGE_BYTES
        yield from (MemoryAddress("R14", "RAX", 1, first + number * PAGE_BYTES) for number in range(self.evictors))


class SequenceCode:
    """Makes the code of sequences in a set."""

    def __init__(self, instructions: InstructionFactory, where: SetLines) -> None:
        """Take instructions from there."""
        self._make, self._where = instructions.line, where

    def chain(self, steps: Sequence[AccessStep]) -> Microbenchmark:
        """Return the code of a sequence; the names of lines are numbered in the order of their first access."""
        numbers = {name: number for number, name in enumerate(dict.fromkeys(step.line for step in steps))}
        body: list[Line] = []
        for step in steps:
            place = self._where.place(numbers[step.line])
            if step.flush:
                body += [self._make("CLFLUSH (M512)", place), self._make("MFENCE")]
                continue
            body.append(self._load(place))
            body += [self._load(one) for one in self._where.evicting()]
        places = [*map(self._where.place, numbers.values()), *self._where.evicting()]
        return Microbenchmark(self._zeros(places), tuple(body), f"cache: {text_of(steps)}")

    def _load(self, place: MemoryAddress) -> Line:
        return self._make("MOV (R64, M64)", "RAX", place)

    def _zeros(self, places: Iterable[MemoryAddress]) -> tuple[Line, ...]:
        """Return what makes all memory zero that is loaded; RAX is zero already."""
        return tuple(self._make("MOV (M64, R64)", place, "RAX") for place in places)


def text_of(steps: Iterable[AccessStep]) -> str:
    """Write a sequence."""
    return " ".join(f"{step.line}{'?' if step.asked else ''}{'!' if step.flush else ''}" for step in steps)


def of_numbers(lines: Iterable[int]) -> tuple[AccessStep, ...]:
    """Return a sequence of lines by their numbers."""
    return tuple(AccessStep(f"L{number}") for number in lines)
