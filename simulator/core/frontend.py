"""Decodes bytes for one machine, with caches of instructions, runs, heads, and bodies of programs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from simulator.core.branches import BranchFollower
from simulator.core.compiler import compile_instruction
from simulator.core.runs import FUSED_EVENTS, STATIC, Run, add, cut, static_events
from simulator.errors import SimulatedFaultError
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.core.compiler import Compiled
    from simulator.core.runs import Read, Repetition
    from simulator.machines.machine import MachineModel
    from xed_convert.model import InstructionVariant, OperandValue

MOST_RUNS = 50_000
"""Runs that are cached: some hundred bytes each, a few for every microbenchmark."""

MOST_REMEMBERED = 256
"""Bodies and heads of programs that are cached: the same program soon comes again with other numbers of copies."""


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
    """A decoder of bytes, such as `xed_convert.encoding.decoder.Decoder`."""

    def decode(self, data: bytes, offset: int = 0) -> DecodedInstruction:
        """Decode one instruction."""


@dataclass(frozen=True, slots=True)
class TracedChunk:
    """Bytes that were traced before: straight code that ends with a serializing instruction or a RIP-relative address.

    `constants` are those known after it (None: the value is unknown).
    """

    data: bytes
    run: Run
    constants: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True, slots=True)
class Head:
    """What was executed from the beginning up to the copies: the trace, and the constants known after it."""

    history: tuple[tuple[int, Run | Repetition], ...]
    constants: Mapping[str, int | None]


class Frontend:
    """Decodes for one machine; an instruction that was seen before is recognized by its bytes."""

    def __init__(self, machine: MachineModel, decoder: DecodesInstructions) -> None:
        """Keep the machine and the decoder."""
        self.machine, self.decoder = machine, decoder
        self._known: dict[bytes, Compiled] = {}
        self._lengths: defaultdict[bytes, list[int]] = defaultdict(list)
        self._runs: dict[tuple[tuple[Compiled, ...], tuple[tuple[int, Read], ...]], Run] = {}
        self._chunks: defaultdict[tuple[bytes, bool], list[TracedChunk]] = defaultdict(list)
        self._bodies: dict[bytes, tuple[Run, ...] | None] = {}
        self._heads: dict[bytes, Head] = {}
        self.memory_forms: dict[tuple[Compiled, object], Compiled] = {}
        """Instructions with what their loads and stores wait for (see `simulator.core.memory`)."""

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
        code = data[offset : offset + decoded.length_bytes]
        one = self._known[code] = compile_instruction(decoded.variant, decoded.values, self.machine, code)
        if one.size_bytes not in lengths:
            lengths.append(one.size_bytes)
        return one

    def run_of(self, code: tuple[Compiled, ...], reads: tuple[tuple[int, Read], ...] = ()) -> Run:
        """Return the run of some instructions; the same instructions give the same object."""
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
            found = BranchFollower(lambda offset: self.at(code, offset), len(code)).executed()
            self._bodies[code] = None if found is None else tuple(self.run_of(part) for part in cut(found))
        return self._bodies[code]

    def head(self, code: bytes) -> Head | None:
        """Return the trace of the code before the copies, if the same bytes were traced before."""
        return self._heads.get(code)

    def remember_head(self, code: bytes, head: Head) -> None:
        """Keep the trace of the code before the copies: other numbers of copies have the same."""
        if len(self._heads) >= MOST_REMEMBERED:
            self._heads.clear()
        self._heads[code] = head

    def chunk(self, data: bytes, offset: int, *, after: bool) -> TracedChunk | None:
        """Return the cached chunk at an offset, if there is one."""
        for chunk in self._chunks[data[offset : offset + 12], after]:
            if data.startswith(chunk.data, offset):
                return chunk
        return None

    def remember(self, chunk: TracedChunk, *, after: bool) -> None:
        """Keep a chunk."""
        chunks = self._chunks[chunk.data[:12], after]
        if len(chunks) < 8 and len(chunk.data) >= 12:
            chunks.append(chunk)
