"""Bypass delays between classes of instructions, with the rings that show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

    from results.model import Provenance


@dataclass(frozen=True, slots=True)
class MeasuredRing:
    """A ring: its classes and moves in order, and how many instances of each class stand in a row.

    `cycles` and `spread` are core cycles per turn (None: not measured, `detail` says why). `own` are the latencies of
    its classes, alone. For a ring of one class it is 0.
    """

    members: tuple[str, ...]
    instances: int
    code: tuple[str, ...]
    cycles: Fraction | None
    spread: Fraction
    own: Fraction
    detail: str = ""

    @property
    def beyond(self) -> Fraction | None:
        """Core cycles beyond the latencies of its classes."""
        return None if self.cycles is None else self.cycles - self.own


@dataclass(frozen=True, slots=True)
class ClassLatency:
    """A class with the latency of an instance among others of its class, in core cycles (None: not known)."""

    label: str
    file: str
    instruction: str
    cycles: Fraction | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class BypassCell:
    """From a producer to a consumer in the same register file, in core cycles.

    `least` and `most` delays fit all rings (None: not known). `there_and_back` is the sum with the way back, a whole
    number where both lengths show it (None: it is not steady, or not measured).
    """

    producer: str
    consumer: str
    least: int | None
    most: int | None
    there_and_back: Fraction | None

    @property
    def is_exact(self) -> bool:
        """Whether it is a bypass delay, and no range."""
        return self.least is not None and self.least == self.most


@dataclass(frozen=True, slots=True)
class BypassMatrix:
    """The delays inside a register file; `reference` is the class in every ring of three ("": none was needed).

    `problem`: why no delays fit the rings ("": they do).
    """

    file: str
    labels: tuple[str, ...]
    cells: tuple[BypassCell, ...]
    reference: str = ""
    problem: str = ""

    def cell(self, producer: str, consumer: str) -> BypassCell | None:
        """Return a cell, None for a class and itself."""
        return next((one for one in self.cells if (one.producer, one.consumer) == (producer, consumer)), None)


@dataclass(frozen=True, slots=True)
class FileSum:
    """Core cycles from a class of one file through a move to a class of another file, and back (None: not steady)."""

    one: str
    other: str
    cycles: Fraction | None


@dataclass(frozen=True, slots=True)
class FileMatrix:
    """The sums between two register files, through the fastest move there and the fastest one back."""

    files: tuple[str, str]
    moves: tuple[str, str]
    sums: tuple[FileSum, ...]


@dataclass(frozen=True, slots=True)
class BypassReport:
    """All delays of a machine, and where they come from. `problems` are sentences."""

    provenance: Provenance
    classes: tuple[ClassLatency, ...]
    matrices: tuple[BypassMatrix, ...]
    between_files: tuple[FileMatrix, ...]
    rings: tuple[MeasuredRing, ...]
    problems: tuple[str, ...] = ()
