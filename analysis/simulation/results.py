"""What comes out of a simulation. Cycles are core cycles; means are per iteration of the block."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Wait(StrEnum):
    """What an instruction can wait for."""

    FRONT_END = "front end"
    """Its µops were not yet delivered, while there were issue slots and entries in the buffers."""
    BUFFER = "buffer"
    """Reorder buffer or scheduler were full."""
    OPERAND = "operand"
    """It had been issued, and a value that it reads was not there."""
    PORT = "port"
    """Its operands were there, and its port, or the divider, was taken by another µop."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """Core cycles per iteration, and µops per iteration on each port.

    `page_cycles` are cycles for pages that each iteration uses first; `cycles` contains them. `iterations` is over how
    many the mean is.
    """

    cycles: Fraction
    ports: Mapping[str, Fraction]
    iterations: int
    page_cycles: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class UopTimes:
    """A µop on a port, in cycles: when its operands were there, when it began there, and when its result was there."""

    port: str
    ready: int
    dispatched: int
    done: int


@dataclass(frozen=True, slots=True)
class InstanceTimes:
    """An instruction in one iteration: when it was issued (its last µop), had executed, and was retired.

    `position` is that of the instruction in the block. Cycle 0 is that in which the first one of all was issued.
    `dispatched` is when its first µop began on a port (None: it needs none).
    """

    position: int
    iteration: int
    issued: int
    dispatched: int | None
    executed: int
    retired: int
    uops: tuple[UopTimes, ...]


@dataclass(frozen=True, slots=True)
class LineTimes:
    """Means of one instruction over the iterations that were looked at.

    `ports` are µops on each port. `waits` are the cycles of its longest waiting µop, by cause. `caused` are cycles for
    which others waited because of it: for its result, its port, or its entry.
    """

    ports: Mapping[str, Fraction] = field(default_factory=dict)
    waits: Mapping[Wait, Fraction] = field(default_factory=dict)
    caused: Mapping[Wait, Fraction] = field(default_factory=dict)

    @property
    def made_wait(self) -> Fraction:
        """All cycles that others waited for it."""
        return sum(self.caused.values(), Fraction(0))


@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened to the instructions of a block: means of each, and the instances of a few iterations in order."""

    lines: tuple[LineTimes, ...]
    timeline: tuple[InstanceTimes, ...]
