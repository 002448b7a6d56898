"""From bytes to what is executed: decoding, control flow, repetitions.

The trace of a program is a list of segments. A segment ends with a serializing instruction, before which everything
must have retired, so it starts with a drained core and what happens in it depends on nothing before it. Repetitions
(copies of one body, loops that count R15 down) are kept as such.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from simulator.branches import Follower, branch_target, is_indirect, returns
from simulator.compiler import FUSED_SLOTS_WITHOUT_MICROCODE, compile_instruction
from simulator.errors import SimulatedFaultError, SimulatedHangError
from simulator.places import place_of
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simulator.compiler import Compiled
    from simulator.machine import MachineModel
    from xed_convert.model import InstructionVariant, OperandValue

ENTRY_OFFSET = 8
"""Where code begins: offset 0 holds an address."""

SERIALIZING = frozenset(
    {"LFENCE", "CPUID", "SERIALIZE", "IRET", "IRETD", "IRETQ", "RSM", "WBINVD", "INVD", "INVLPG", "WRMSR"}
)
"""Instructions before which all earlier ones complete (Intel SDM volume 3A, section 9.3; LFENCE: volume 2A)."""

COUNTER_READS = frozenset({"RDPMC", "RDTSC", "RDTSCP"})

LONGEST_STRETCH = 1_000_000
"""Instructions of the inside of a loop, loops in it written out."""

LONGEST_TRACE = 50_000
"""Runs of straight code, repetitions counted once: what runs longer is taken to hang."""

CHUNK_INSTRUCTIONS = 16
MOST_RUNS = 50_000
MOST_REMEMBERED = 256
"""Bodies and heads of programs that are kept; those with other numbers of copies come next."""


class DecodedInstruction(Protocol):
    """What a decoder returns."""

    @property
    def variant(self) -> InstructionVariant:
        """The variant."""

    @property
    def values(self) -> Mapping[int, OperandValue]:
        """Values of the explicit operands."""

    @property
    def length_bytes(self) -> int:
        """The size of the instruction."""


class DecodesInstructions(Protocol):
    """A decoder of bytes, such as `xed_convert.decoder.Decoder`."""

    def decode(self, data: bytes, offset: int = 0) -> DecodedInstruction:
        """Decode one instruction."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Where in the code copies of one body stand; that they do is checked before they are taken as a repetition."""

    offset: int
    size_bytes: int
    count: int

    @property
    def end(self) -> int:
        """The offset after the last copy."""
        return self.offset + self.size_bytes * self.count


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
        """Whether what it takes depends on operand values."""
        return any(one.fast_form is not None for one in self.code)

    @property
    def serializes(self) -> bool:
        """Whether the last instruction serializes (no other one does)."""
        return self.code[-1].variant.iclass in SERIALIZING


@dataclass(frozen=True, slots=True)
class Repetition:
    """A stretch of the trace so many times."""

    runs: tuple[Run | Repetition, ...]
    count: int


Segment = tuple[Run | Repetition, ...]

STATIC = ("instructions", "uops_issued", "uops_retire_slots", "uops_MITE", "uops_MS")
"""Counters that depend on which instructions there were, not on when."""


FUSED_EVENTS = (1, 0, 0, 0, 0)
"""The `STATIC` counters of a jump that is fused with the instruction before it."""


def static_events(one: Compiled) -> tuple[int, ...]:
    """Return the `STATIC` counters of one instruction."""
    microcoded = one.slots > FUSED_SLOTS_WITHOUT_MICROCODE
    return (1, one.slots, one.slots, 0 if microcoded else one.slots, one.slots if microcoded else 0)


def add(first: tuple[int, ...], second: tuple[int, ...], times: int = 1) -> tuple[int, ...]:
    """Add up two rows of counts, the second so many times."""
    return tuple([a + times * b for a, b in zip(first, second, strict=True)])


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes that were traced before: straight code that ends with a serializing instruction or an address of its own.

    `constants` are those known after it.
    """

    data: bytes
    run: Run
    constants: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Head:
    """What was executed from the beginning up to the copies: the trace, and the constants known after it."""

    history: tuple[tuple[int, Run | Repetition], ...]
    constants: Mapping[str, int]


class Frontend:
    """Decodes for one machine; an instruction that was seen before is recognized by its bytes."""

    def __init__(self, machine: MachineModel, decoder: DecodesInstructions) -> None:
        """Keep the machine and the decoder."""
        self.machine, self.decoder = machine, decoder
        self._known: dict[bytes, Compiled] = {}
        self._lengths: defaultdict[bytes, list[int]] = defaultdict(list)
        self._runs: dict[tuple[tuple[Compiled, ...], tuple[tuple[int, Read], ...]], Run] = {}
        self._chunks: defaultdict[tuple[bytes, bool], list[Chunk]] = defaultdict(list)
        self._bodies: dict[bytes, tuple[Run, ...] | None] = {}
        self._heads: dict[bytes, Head] = {}

    def at(self, data: bytes, offset: int) -> Compiled:
        """Return the instruction at an offset.

        Raises:
            SimulatedFaultError: the bytes are no instruction.
        """
        lengths = self._lengths[data[offset : offset + 2]]
        for length in lengths:
            found = self._known.get(data[offset : offset + length])
            if found is not None:
                return found
        try:
            decoded = self.decoder.decode(data, offset)
        except UopscopeError as error:
            raise SimulatedFaultError(f"no instruction at offset {offset:#x}: {error.message}") from error
        one = compile_instruction(decoded.variant, decoded.values, self.machine, decoded.length_bytes)
        self._known[data[offset : offset + one.size_bytes]] = one
        if one.size_bytes not in lengths:
            lengths.append(one.size_bytes)
        return one

    def run_of(self, code: tuple[Compiled, ...], reads: tuple[tuple[int, Read], ...] = ()) -> Run:
        """Return the one object for a row of instructions."""
        key = (code, reads)
        found = self._runs.get(key)
        if found is None:
            if len(self._runs) > MOST_RUNS:
                self._runs.clear()
            static = (0,) * len(STATIC)
            for before, one in zip((None, *code), code, strict=False):
                fused = before is not None and before.fuses_with(one)
                static = add(static, FUSED_EVENTS if fused else static_events(one))
            found = self._runs[key] = Run(code, reads, static)
        return found

    def body(self, code: bytes) -> tuple[Run, ...] | None:
        """Return the runs of one copy of a body, None if it is not the same in every copy."""
        if code not in self._bodies:
            if len(self._bodies) >= MOST_REMEMBERED:
                self._bodies.clear()
            found = Follower(lambda offset: self.at(code, offset), len(code)).executed()
            self._bodies[code] = None if found is None else tuple(self.run_of(part) for part in _cut(found))
        return self._bodies[code]

    def head(self, code: bytes) -> Head | None:
        """Return the trace of what was executed before the copies when it was the same bytes, if it was."""
        return self._heads.get(code)

    def remember_head(self, code: bytes, head: Head) -> None:
        """Keep the trace of what stands before the copies: other numbers of copies have the same."""
        if len(self._heads) >= MOST_REMEMBERED:
            self._heads.clear()
        self._heads[code] = head

    def chunk(self, data: bytes, offset: int, *, after: bool) -> Chunk | None:
        """Return the chunk of before that stands at an offset, if there is one."""
        for chunk in self._chunks[data[offset : offset + 12], after]:
            if data.startswith(chunk.data, offset):
                return chunk
        return None

    def remember(self, chunk: Chunk, *, after: bool) -> None:
        """Keep a chunk."""
        chunks = self._chunks[chunk.data[:12], after]
        if len(chunks) < 8 and len(chunk.data) >= 12:
            chunks.append(chunk)


class Tracer:
    """Follows the control flow of one program."""

    def __init__(self, frontend: Frontend, data: bytes, copies: Copies | None) -> None:
        """Check where the copies stand."""
        self.frontend, self.data = frontend, data
        self.copies = copies or Copies(len(data), 0, 0)
        self.told = copies is not None
        self.history: list[tuple[int, Run | Repetition]] = []
        self.constants: dict[str, int] = {}
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
        """Execute all that stands before the copies if it was executed before; return where to go on."""
        known = self.frontend.head(self.data[: self.copies.offset]) if self.told and self.body is not None else None
        if known is None:
            return ENTRY_OFFSET
        self.history += known.history
        self.constants.update(known.constants)
        return self.copies.offset

    def _keep_head(self) -> None:
        """Remember how the copies were reached, if nothing but the bytes before them had a part in it."""
        straight = all(offset < self.copies.offset for offset, _ in self.history)
        if self.told and straight and not self.returns:
            head = Head(tuple(self.history), dict(self.constants))
            self.frontend.remember_head(self.data[: self.copies.offset], head)

    def _take_chunk(self, offset: int) -> int | None:
        """Execute straight code that was seen before; return where to go on, None if there is none here."""
        copies = self.copies
        chunk = self.frontend.chunk(self.data, offset, after=self._after_copies(offset))
        if chunk is None or offset < copies.offset < offset + len(chunk.data) or copies.offset <= offset < copies.end:
            return None
        self.history.append((offset, chunk.run))
        self.constants.update(chunk.constants)
        return offset + len(chunk.data)

    def _take(self, start: int) -> int | None:
        """Execute straight code up to a branch, a serializing instruction, the copies, or so many instructions."""
        code: list[Compiled] = []
        reads: list[tuple[int, Read]] = []
        known: dict[str, int] = {}
        whole = True
        offset = start
        while True:
            one = self._fetch(offset)
            read = self._read(one, offset)
            if read is not None:
                whole = whole and (read.index < 0 or "RCX" in known)
                reads.append((len(code), read))
            code.append(one)
            self._note_constants(one, known)
            following = offset + one.size_bytes
            if is_indirect(one):
                raise SimulatedFaultError(f"{one.variant.string} goes to where nothing in the code has pointed it to")
            if returns(one) or branch_target(one, offset) not in (None, following):
                self.history.append((start, self.frontend.run_of(tuple(code), tuple(reads))))
                return self._branch(code, offset)
            if self._ends_chunk(code, following):
                break
            offset = following
        run = self.frontend.run_of(tuple(code), tuple(reads))
        self.history.append((start, run))
        if whole and not self.copies.offset <= start < self.copies.end:
            chunk = Chunk(self.data[start:following], run, tuple(known.items()))
            self.frontend.remember(chunk, after=self._after_copies(start))
        return following

    def _after_copies(self, offset: int) -> bool:
        return self.told and offset >= self.copies.end

    def _fetch(self, offset: int) -> Compiled:
        if not ENTRY_OFFSET <= offset < len(self.data):
            raise SimulatedFaultError(f"a jump out of the code, to offset {offset:#x}")
        return self.frontend.at(self.data, offset)

    def _ends_chunk(self, code: Sequence[Compiled], following: int) -> bool:
        """Whether to stop after this instruction: what comes next may be elsewhere in other programs."""
        last = code[-1]
        if following == self.copies.offset or last.variant.iclass in SERIALIZING:
            return True
        return last.relative or (len(code) >= CHUNK_INSTRUCTIONS and last.variant.iclass != "MOV")

    def _read(self, one: Compiled, offset: int) -> Read | None:
        if one.variant.iclass not in COUNTER_READS or self.copies.offset <= offset < self.copies.end:
            return None
        index = self.constants.get("RCX", 0) if one.variant.iclass == "RDPMC" else -1
        return Read(index, self._after_copies(offset))

    def _note_constants(self, one: Compiled, known: dict[str, int]) -> None:
        """Know R15 and RCX as far as the harness sets them by MOV."""
        if one.variant.iclass != "MOV":
            return
        values = list(one.values.values())
        if len(values) == 2 and isinstance(values[0], str) and isinstance(values[1], int):
            place = place_of(values[0])
            if place in ("R15", "RCX"):
                known[place] = self.constants[place] = values[1] & 0xFFFFFFFF

    def _branch(self, code: Sequence[Compiled], offset: int) -> int | None:
        """Go on after a branch; conditional ones that do not count a loop down are not taken."""
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
        if target < following and len(code) > 1 and _counts_down(code[-2]) and self.constants.get("R15", 0) > 0:
            self._repeat_from(target, self.constants["R15"])
        return following

    def _repeat_from(self, target: int, count: int) -> None:
        """Make a repetition of all since `target`."""
        start = max((n for n, (offset, _) in enumerate(self.history) if offset <= target), default=-1)
        if start < 0:
            raise SimulatedFaultError(f"a jump out of the code, to offset {target:#x}")
        offset, first = self.history[start]
        runs = [one for _, one in self.history[start:]]
        del self.history[start:]
        if offset < target and isinstance(first, Run):
            before, runs[0] = self._split(first, offset, target)
            self.history.append((offset, before))
        self.history.append((target, Repetition(tuple(runs), count)))

    def _split(self, run: Run, offset: int, target: int) -> tuple[Run, Run]:
        """Cut a run in two at an offset."""
        for number, one in enumerate(run.code):
            if offset == target:
                before = tuple((n, read) for n, read in run.reads if n < number)
                after = tuple((n - number, read) for n, read in run.reads if n >= number)
                return self.frontend.run_of(run.code[:number], before), self.frontend.run_of(run.code[number:], after)
            offset += one.size_bytes
        raise SimulatedFaultError(f"a jump into the middle of an instruction, at offset {target:#x}")


def _counts_down(one: Compiled) -> bool:
    return one.variant.iclass == "DEC" and "R15" in one.values.values()


def _cut(code: Sequence[Compiled]) -> Iterator[tuple[Compiled, ...]]:
    """Cut straight code after each serializing instruction."""
    part: list[Compiled] = []
    for one in code:
        part.append(one)
        if one.variant.iclass in SERIALIZING:
            yield tuple(part)
            part = []
    if part:
        yield tuple(part)


def segments(runs: Sequence[Run | Repetition]) -> list[tuple[Segment, int]]:
    """Cut a trace after each serializing instruction; a repetition with one in it becomes repeated segments."""
    splitter = _Splitter()
    splitter.feed(runs, 1)
    if splitter.current:
        splitter.found.append((tuple(splitter.current), 1))
    return splitter.found


class _Splitter:
    def __init__(self) -> None:
        self.found: list[tuple[Segment, int]] = []
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
                    self.feed(run.runs, times * (run.count - 1))


def values_matter(runs: Sequence[Run | Repetition]) -> bool:
    """Whether what a trace takes depends on operand values."""
    return any(values_matter(run.runs) if isinstance(run, Repetition) else run.values_matter for run in runs)


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
