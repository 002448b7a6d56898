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
    """Its µops were not yet delivered, though there were issue slots and entries in the buffers."""
    BUFFER = "buffer"
    """The reorder buffer or the scheduler was full."""
    LOAD_QUEUE = "load queue"
    """The load queue was full."""
    OPERAND = "operand"
    """It had been issued, but an operand was not ready."""
    PORT = "port"
    """Its operands were ready, but its port or the divider was taken by another µop."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """Core cycles per iteration, and µops per iteration on each port.

    `page_cycles` are cycles for pages that each iteration uses for the first time; `cycles` contains them. `iterations`
    is the number of iterations in the mean.
    """

    cycles: Fraction
    ports: Mapping[str, Fraction]
    iterations: int
    page_cycles: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class UopTimes:
    """A µop on a port: the cycles in which its operands were ready, it was dispatched, and its result was ready."""

    port: str
    ready: int
    dispatched: int
    done: int


@dataclass(frozen=True, slots=True)
class InstanceTimes:
    """An instruction in one iteration: the cycles in which its last µop was issued, it had executed, and it retired.

    `position` is that of the instruction in the block. In cycle 0 the first instruction of all was issued.
    `dispatched` is when its first µop was dispatched to a port (None: it needs none).
    """

    position: int
    iteration: int
    issued: int
    dispatched: int | None
    executed: int
    retired: int
    uops: tuple[UopTimes, ...]


@dataclass(frozen=True, slots=True)
class InstructionTimes:
    """Means of one instruction over the iterations that were looked at.

    `ports` are µops on each port. `waits` are the cycles of the µop that waited longest, by cause. `caused` are cycles
    for which others waited because of it: for its result, its port, or its entry.
    """

    ports: Mapping[str, Fraction] = field(default_factory=dict)
    waits: Mapping[Wait, Fraction] = field(default_factory=dict)
    caused: Mapping[Wait, Fraction] = field(default_factory=dict)

    @property
    def made_wait(self) -> Fraction:
        """All cycles for which others waited because of it."""
        return sum(self.caused.values(), Fraction(0))


@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened to the instructions of a block: means of each, and the instances of a few iterations in order."""

    instructions: tuple[InstructionTimes, ...]
    timeline: tuple[InstanceTimes, ...]
