"""Rings of instructions by class, which show bypass delays: each reads what the one before wrote, the last leads back.

    VPAND XMM0, XMM0, XMM1; VPAND XMM0, XMM0, XMM1; VADDPS XMM0, XMM0, XMM1; VADDPS XMM0, XMM0, XMM1

A ring of one class alone takes its latencies. A ring of several takes their delays around it as well. Between two files
of registers the ring has moves. All values are zero: they stay zero in every class, so none is denormal.

`bypass_classes.tsv` has the classes, `bypass_moves.tsv` the moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from generator.errors import FactError
from generator.facts import read_facts
from generator.microbenchmark import Microbenchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from generator.factory import InstructionFactory
    from generator.microbenchmark import Line
    from xed_convert.model import InstructionVariant

CLASS_COLUMNS = ("class", "file", "width", "instruction", "operands", "reason", "source")
MOVE_COLUMNS = ("from", "to", "instruction", "operands", "reason", "source")
FILES = ("general", "vector", "mask")
"""Of registers. Every class of a file reads and writes RAX, ZMM0 or K1; other sources are RBX, ZMM1 and K2."""
ZEROS = {
    "general": (("XOR_31 (R32, R32)", ("EAX", "EBX")),),
    "vector": (("VPXOR (XMM, XMM, XMM)", ("XMM0", "XMM1")), ("PXOR (XMM, XMM)", ("XMM0", "XMM1"))),
    "mask": (("KXORW (K, K, K)", ("K1", "K2")),),
}
"""How registers become zero, by file; the first instruction that the CPU has."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction of the catalogue with its operands: registers by name, and immediates."""

    instruction: str
    operands: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class BypassClass:
    """A class of instructions that read and write the same file of registers."""

    name: str
    file: str
    width_bits: int
    operation: Operation

    @property
    def label(self) -> str:
        """Its name with the width: float_add/256."""
        return f"{self.name}/{self.width_bits}"

    def is_called(self, word: str) -> bool:
        """Whether a word names it, alone or together with others: its label, name, width, or file."""
        return word in {self.label, self.name, str(self.width_bits), self.file}


@dataclass(frozen=True, slots=True)
class FileMove:
    """A move from one file of registers to another."""

    source: str
    target: str
    operation: Operation


@cache
def classes() -> tuple[BypassClass, ...]:
    """Return the rows of `bypass_classes.tsv`, the preferred one of a label first.

    Raises:
        FactError: a row names another file of registers, or no width.
    """
    rows = read_facts("bypass_classes.tsv", CLASS_COLUMNS, ("instruction",))
    return tuple(_class(row) for row in rows)


@cache
def moves() -> tuple[FileMove, ...]:
    """Return the rows of `bypass_moves.tsv`.

    Raises:
        FactError: a row names another file of registers.
    """
    rows = read_facts("bypass_moves.tsv", MOVE_COLUMNS, ("instruction",))
    return tuple(FileMove(_file(row["from"]), _file(row["to"]), _operation(row)) for row in rows)


def _class(row: dict[str, str]) -> BypassClass:
    if not row["width"].isdigit():
        raise FactError(f"bypass_classes.tsv: {row['instruction']}: {row['width']} is no width in bits")
    return BypassClass(row["class"], _file(row["file"]), int(row["width"]), _operation(row))


def _file(name: str) -> str:
    if name not in FILES:
        raise FactError(f"no file of registers {name}", hint=f"there are: {', '.join(FILES)}")
    return name


def _operation(row: dict[str, str]) -> Operation:
    words = row["operands"].split()
    return Operation(row["instruction"], tuple(int(word) if word.isdigit() else word for word in words))


class BypassCode:
    """Makes the rings that a CPU can run."""

    def __init__(self, instructions: InstructionFactory, lacks: Callable[[InstructionVariant], str]) -> None:
        """Take instructions from there.

        Args:
            instructions: where variants are looked up.
            lacks: the reason why a variant does not run ("": it does).
        """
        self._instructions = instructions
        self._lacks = lacks

    def classes(self) -> tuple[BypassClass, ...]:
        """Return the classes that the CPU has."""
        found: dict[str, BypassClass] = {}
        for one in classes():
            if one.label not in found and self._has(one.operation.instruction):
                found[one.label] = one
        return tuple(found.values())

    def missing(self, one: BypassClass) -> str:
        """Return the reason why the CPU does not have a class ("": it does)."""
        return self._lacks(self._instructions.variant(one.operation.instruction))

    def moves(self, source: str, target: str) -> tuple[FileMove, ...]:
        """Return the moves from one file to another that the CPU has."""
        known = (one for one in moves() if (one.source, one.target) == (source, target))
        return tuple(one for one in known if self._has(one.operation.instruction))

    def ring(self, members: Sequence[BypassClass | FileMove], instances: int) -> Microbenchmark:
        """Return a ring through classes and moves, with `instances` of each class in a row."""
        body: list[Line] = []
        for one in members:
            line = self.line(one)
            body += [line] * (instances if isinstance(one, BypassClass) else 1)
        names = ", ".join(one.label if isinstance(one, BypassClass) else one.operation.instruction for one in members)
        files = {one.file for one in members if isinstance(one, BypassClass)}
        files |= {file for one in members if isinstance(one, FileMove) for file in (one.source, one.target)}
        files |= {"mask"} if any("K2" in one.operation.operands for one in members) else set()
        return Microbenchmark(self._zeros(files), tuple(body), f"bypass ring: {names}; {instances} of each class")

    def line(self, one: BypassClass | FileMove) -> Line:
        """Return the instruction of a class or move.

        Raises:
            EncodingError: the operands cannot be encoded.
        """
        return self._instructions.line(one.operation.instruction, *one.operation.operands)

    def _zeros(self, files: set[str]) -> tuple[Line, ...]:
        found: list[Line] = []
        for file in FILES:
            if file not in files:
                continue
            instruction, registers = next(one for one in ZEROS[file] if self._has(one[0]))
            count = instruction.count(",") + 1
            found += [self._instructions.line(instruction, *[register] * count) for register in registers]
        return tuple(found)

    def _has(self, instruction: str) -> bool:
        return not self._lacks(self._instructions.variant(instruction))
