"""From bytes to executed instructions: control flow and repetitions.

The trace of a program is a list of runs. Repetitions (copies of one body, loops that count a register down) are not
written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.core.branches import branch_target, is_indirect, returns
from simulator.core.frontend import Head, TracedChunk
from simulator.core.runs import SERIALIZING, Read, Repetition, Run
from simulator.errors import SimulatedFaultError, SimulatedHangError
from simulator.instructions.locations import location_of, width_of
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.core.compiler import Compiled
    from simulator.core.frontend import Frontend

ENTRY_OFFSET = 8
"""Where code begins: offset 0 holds an address."""

COUNTER_READS = frozenset({"RDPMC", "RDTSC", "RDTSCP"})

LONGEST_LOOP = 1 << 32
"""Iterations of a loop: a loop with more is taken to hang. On a real CPU it would run for seconds."""

LONGEST_TRACE = 50_000
"""Runs of straight code, with repetitions counted once: longer code is taken to hang. Measured code has about ten."""

CHUNK_INSTRUCTIONS = 16
"""Instructions in a piece of straight code that is cached: longer pieces are seldom the same in two programs."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Where in the code the copies of one body are; this is checked before they are taken as a repetition."""

    offset: int
    size_bytes: int
    count: int

    @property
    def end(self) -> int:
        """The offset after the last copy."""
        return self.offset + self.size_bytes * self.count


class Tracer:
    """Follows the control flow of one program."""

    def __init__(self, frontend: Frontend, data: bytes, copies: Copies | None) -> None:
        """Take a program's bytes and where its copies are (None: not known)."""
        self.frontend, self.data = frontend, data
        self.copies = copies or Copies(len(data), 0, 0)
        self.told = copies is not None
        self.history: list[tuple[int, Run | Repetition]] = []
        self.constants: dict[str, int | None] = {}
        self.returns: list[int] = []
        self.body = self._body()

    def _body(self) -> tuple[Run, ...] | None:
        """Return the instructions of the body if the copies are straight code."""
        copies = self.copies
        body = self.data[copies.offset : copies.offset + copies.size_bytes]
        if copies.count < 1 or not body or self.data[copies.offset : copies.end] != body * copies.count:
            return None
        return self.frontend.body(body)

    def run(self) -> list[Run | Repetition]:
        """Return the trace of the whole program.

        Raises:
            SimulatedFaultError: the code faults.
            SimulatedHangError: the code does not end.
        """
        offset: int | None = self._take_head()
        while offset is not None:
            if len(self.history) > LONGEST_TRACE:
                raise SimulatedHangError("the code does not come to an end")
            if self.body is not None and offset == self.copies.offset:
                self._keep_head()
                self.history.append((offset, Repetition(self.body, self.copies.count)))
                offset = self.copies.end
            else:
                offset = self._take_chunk(offset) or self._take(offset)
        return [one for _, one in self.history]

    def _take_head(self) -> int:
        """Execute all code before the copies at once if it was executed before; return the offset to go on."""
        known = self.frontend.head(self.data[: self.copies.offset]) if self.told and self.body is not None else None
        if known is None:
            return ENTRY_OFFSET
        self.history += known.history
        self.constants.update(known.constants)
        return self.copies.offset

    def _keep_head(self) -> None:
        """Cache the trace up to the copies, if it depends only on the bytes before them."""
        straight = all(offset < self.copies.offset for offset, _ in self.history)
        if self.told and straight and not self.returns:
            head = Head(tuple(self.history), dict(self.constants))
            self.frontend.remember_head(self.data[: self.copies.offset], head)

    def _take_chunk(self, offset: int) -> int | None:
        """Execute straight code that was seen before; return the offset to go on, None if there is none here."""
        copies = self.copies
        chunk = self.frontend.chunk(self.data, offset, after=self._after_copies(offset))
        if chunk is None or offset < copies.offset < offset + len(chunk.data) or copies.offset <= offset < copies.end:
            return None
        self.history.append((offset, chunk.run))
        self.constants.update(chunk.constants)
        return offset + len(chunk.data)

    def _take(self, start: int) -> int | None:
        """Execute straight code up to a branch, a serializing instruction, the copies, or the end of a piece.

        Return the offset to go on, None at the end of the program.
        """
        code: list[Compiled] = []
        reads: list[tuple[int, Read]] = []
        known: dict[str, int | None] = {}
        whole = True
        offset = start
        while True:
            one = self._fetch(offset)
            read = self._read(one, offset)
            if read is not None:
                whole = whole and (read.index < 0 or "RCX" in known)
                reads.append((len(code), read))
            code.append(one)
            whole = self._note_constants(one, known) and whole
            following = offset + one.size_bytes
            if is_indirect(one):
                raise SimulatedFaultError(f"{one.variant.string} leads to no known address of the code")
            if returns(one) or branch_target(one, offset) not in (None, following):
                self.history.append((start, self.frontend.run_of(tuple(code), tuple(reads))))
                return self._branch(code, offset)
            if self._ends_chunk(code, following):
                break
            offset = following
        run = self.frontend.run_of(tuple(code), tuple(reads))
        self.history.append((start, run))
        if whole and not self.copies.offset <= start < self.copies.end:
            chunk = TracedChunk(self.data[start:following], run, tuple(known.items()))
            self.frontend.remember(chunk, after=self._after_copies(start))
        return following

    def _after_copies(self, offset: int) -> bool:
        return self.told and offset >= self.copies.end

    def _fetch(self, offset: int) -> Compiled:
        if not ENTRY_OFFSET <= offset < len(self.data):
            raise SimulatedFaultError(f"a jump out of the code, to offset {offset:#x}")
        return self.frontend.at(self.data, offset)

    def _ends_chunk(self, code: Sequence[Compiled], following: int) -> bool:
        """Whether a piece ends with this instruction: later ones may be elsewhere in other programs."""
        last = code[-1]
        if following == self.copies.offset or last.variant.iclass in SERIALIZING:
            return True
        return last.relative or (len(code) >= CHUNK_INSTRUCTIONS and last.variant.iclass != "MOV")

    def _read(self, one: Compiled, offset: int) -> Read | None:
        if one.variant.iclass not in COUNTER_READS or self.copies.offset <= offset < self.copies.end:
            return None
        index = (self.constants.get("RCX") or 0) & 0xFFFFFFFF if one.variant.iclass == "RDPMC" else -1
        return Read(index, self._after_copies(offset))

    def _note_constants(self, one: Compiled, known: dict[str, int | None]) -> bool:
        """Note registers that MOV sets and that are counted down, until something else is written to them.

        Return whether that depends only on `known`, the constants that the same piece of code set before.
        """
        alone = True
        for location in _written(one):
            value = _constant(one)
            if location == _counted_down(one):
                alone = alone and location in known
                before = self.constants.get(location)
                value = None if before is None else (before - 1) % (1 << 64)
            known[location] = self.constants[location] = value
        return alone

    def _branch(self, code: Sequence[Compiled], offset: int) -> int | None:
        """Return the offset after a branch (None: the program ends); conditional ones are taken in counted loops."""
        one = code[-1]
        following = offset + one.size_bytes
        if returns(one):
            return self.returns.pop() if self.returns else None
        target = branch_target(one, offset)
        assert target is not None
        if one.variant.category == "CALL":
            self.returns.append(following)
            return target
        if one.variant.category == "UNCOND_BR":
            if target < following:
                raise SimulatedHangError("a loop without an end")
            return target
        counter = self._loop_counter(code) if target < following else None
        left = self.constants.get(counter) if counter is not None else None
        if counter is not None and left:
            if left >= LONGEST_LOOP:
                raise SimulatedHangError(f"a loop that {counter} counts down from {left + 1}")
            changed = _written_in(self._repeat_from(target, left + 1).runs)
            self.constants |= dict.fromkeys(changed) | {counter: 0}
        return following

    def _loop_counter(self, code: Sequence[Compiled]) -> str | None:
        """Return the counter of a loop: RCX of LOOP, or the register of the DEC before JNZ (None: it has none)."""
        if code[-1].variant.iclass == "LOOP":
            return "RCX"
        before = code[-2] if len(code) > 1 else None
        return _counted_down(before) if before is not None and code[-1].variant.iclass == "JNZ" else None

    def _repeat_from(self, target: int, count: int) -> Repetition:
        """Make a repetition of the trace since `target`; return it."""
        start = max((n for n, (offset, _) in enumerate(self.history) if offset <= target), default=-1)
        if start < 0:
            raise SimulatedFaultError(f"a jump out of the code, to offset {target:#x}")
        offset, first = self.history[start]
        runs = [one for _, one in self.history[start:]]
        del self.history[start:]
        if offset < target and isinstance(first, Run):
            before, runs[0] = self._split(first, offset, target)
            self.history.append((offset, before))
        loop = Repetition(tuple(runs), count)
        self.history.append((target, loop))
        return loop

    def _split(self, run: Run, offset: int, target: int) -> tuple[Run, Run]:
        """Cut a run in two at an offset."""
        for number, one in enumerate(run.code):
            if offset == target:
                before = tuple((n, read) for n, read in run.reads if n < number)
                after = tuple((n - number, read) for n, read in run.reads if n >= number)
                return self.frontend.run_of(run.code[:number], before), self.frontend.run_of(run.code[number:], after)
            offset += one.size_bytes
        raise SimulatedFaultError(f"a jump into the middle of an instruction, at offset {target:#x}")


def _written(one: Compiled) -> list[str]:
    """Return the locations of the general-purpose registers that an instruction writes."""
    registers = [
        one.values.get(operand.index, next(iter(operand.registers), ""))
        for operand in one.variant.operands
        if operand.written and operand.kind is OperandKind.REGISTER
    ]
    return [location_of(register) for register in registers if isinstance(register, str) and width_of(register)]


def _written_in(runs: Sequence[Run | Repetition]) -> set[str]:
    inner = [_written_in(run.runs) for run in runs if isinstance(run, Repetition)]
    return {location for run in runs if isinstance(run, Run) for one in run.code for location in _written(one)}.union(
        *inner
    )


def _constant(one: Compiled) -> int | None:
    """Return the number that MOV writes to a whole general-purpose register, None if the code does not show it."""
    values = list(one.values.values())
    if one.variant.iclass != "MOV" or len(values) != 2 or not isinstance(values[1], int):
        return None
    bits = width_of(values[0]) if isinstance(values[0], str) else 0
    return values[1] % (1 << bits) if bits >= 32 else None


def _counted_down(one: Compiled) -> str | None:
    """Return the location of the whole register that an instruction decrements."""
    if one.variant.iclass == "LOOP":
        return "RCX"
    register = next(iter(one.values.values()), None) if one.variant.iclass == "DEC" else None
    return location_of(register) if isinstance(register, str) and width_of(register) >= 32 else None
