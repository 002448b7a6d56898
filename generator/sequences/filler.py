"""Filler: code that takes issue slots and uses no port, each line padded to a length.

    3E 3E 48 89 DA   MOV RDX, RBX    padded to five bytes: the prefixes have no effect here

The speed of the front end depends on the length of instructions. A Zen 5 issues 7.0 moves of three bytes per cycle, and
7.8 of five. So filler has the length that is issued fastest, and code is compared with filler of the same lengths
(`as_filler`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.microbenchmark import Line, Microbenchmark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.factory import InstructionFactory

MOVE, SHORT_MOVE, NOP = "MOV_89 (R64, R64)", "MOV_89 (R32, R32)", "NOP"
"""What filler is made of: a move that is eliminated uses no port. The short one has no REX prefix. NOPs are second
choice, since they may be issued two at a time (Zen 4)."""

PREFIX = b"\x3e"
"""The DS prefix. Instructions without a memory operand ignore it (AMD64 Architecture Programmer's Manual volume 3,
section 1.2.4)."""

SHORT_LENGTH = 2
"""Bytes of a short move."""

SOURCE, RESULTS = "RBX", ("RDX", "RCX", "RAX", "R8", "R9", "R10")
"""Registers of moves: nothing writes the source, so that no move waits."""

SHORT_SOURCE, SHORT_RESULTS = "EBX", ("EDX", "ECX", "EAX")
"""Registers of short moves."""


@dataclass(frozen=True, slots=True)
class SlotFiller:
    """Filler: the string of what it is made of, and the bytes of a line (0: as short as it is)."""

    string: str
    length_bytes: int = 0

    def lines(self, instructions: InstructionFactory, lengths: Sequence[int]) -> list[Line]:
        """Return a line of each of these lengths in bytes (0: any), or the shortest one where nothing is as short.

        Raises:
            UopscopeError: the catalogue lacks the instruction.
        """
        return [self._line(instructions, place, length) for place, length in enumerate(lengths)]

    def _line(self, instructions: InstructionFactory, place: int, length: int) -> Line:
        if self.string == NOP:
            return padded(instructions.line(NOP), length)
        if 0 < length <= SHORT_LENGTH:  # in the place of a single byte, too: a NOP may take no slot of its own
            return instructions.line(SHORT_MOVE, SHORT_RESULTS[place % len(SHORT_RESULTS)], SHORT_SOURCE)
        return padded(instructions.line(self.string, RESULTS[place % len(RESULTS)], SOURCE), length)


def padded(line: Line, length_bytes: int) -> Line:
    """Return a line with so many prefixes that it has this length, or itself where it is as long already."""
    missing = length_bytes - len(line.code)
    return Line(PREFIX * missing + line.code, f"{'DS ' * missing}{line.text}") if missing > 0 else line


def as_filler(instructions: InstructionFactory, filler: SlotFiller, code: Microbenchmark) -> Microbenchmark:
    """Return filler in the place of each line of code, as long as that line.

    Raises:
        UopscopeError: the catalogue lacks the filler's instruction.
    """
    lines = filler.lines(instructions, [len(line.code) for line in code.body])
    return Microbenchmark((), tuple(lines), f"filler in the place of: {code.purpose}", code.divisor)
