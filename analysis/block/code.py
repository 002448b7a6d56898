"""Bytes to the instructions of a block, as a machine executes them.

Instructions that the machine's file lacks stay in the block: they take an issue slot, have no µops on ports and pass on
no value. `Block.unknown` lists them, since a prediction without them is too low.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from iced_x86 import Decoder as IcedDecoder

from analysis.block.effects import InstructionEffects, effects_of, merging
from analysis.block.high_bytes import HighBytes
from analysis.block.zero_uppers import ZeroUppers
from analysis.errors import AnalysisError
from results.machine.graph import Decoding, ModelError
from simulator.core.compiler import BRANCHES, compile_instruction
from simulator.instructions.locations import GENERAL, location_of
from xed_convert.assembly.formatting import format_instance
from xed_convert.errors import DecodingError
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from simulator.core.compiler import Compiled
    from simulator.machines.machine import MachineModel
    from xed_convert.encoding.decoder import Decoder

NOPS = frozenset({"NOP", "ENDBR64"})
"""Mnemonics of instructions that fuse with the one before, on cores where NOPs do."""

UNFUSED = frozenset({*BRANCHES, "PREFETCH"})
"""Categories of instructions with which no NOP fuses. Nor does a NOP fuse with instructions that use vectors or the x87
stack, have an immediate of 64 bits, or an address relative to RIP. Measured on a Zen 4, with rows of instructions and
NOPs."""

LONGEST_IMMEDIATE = 32
"""Bits of an immediate that leaves room for a NOP."""

MOST_REMEMBERED = 200_000
"""Instructions that are kept, by their bytes. Each takes some hundred bytes of memory."""

MOST_INSTRUCTIONS = 150_000
"""Instructions of a block. An analysis takes some kilobytes and half a millisecond for each."""

LONGEST = 15
"""Bytes of an instruction (Intel SDM volume 2A, section 2.3.11)."""


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One instruction, by its bytes. `compiled` is None if the bytes are no instruction of the catalogue."""

    data: bytes
    compiled: Compiled | None
    effects: InstructionEffects

    @property
    def known(self) -> bool:
        """Whether the machine says what it does."""
        return self.compiled is not None and self.compiled.uops is not None

    @property
    def text(self) -> str:
        """Assembly text in Intel syntax."""
        if self.compiled is None:
            return f"(bytes {self.data.hex(' ')})"
        text = format_instance(self.compiled.variant, self.compiled.values)
        return text.partition("} ")[2] if text.startswith("{") else text  # `{store} MOV`: which of two encodings

    @property
    def name(self) -> str:
        """The variant as the catalogue writes it, or the bytes."""
        return self.text if self.compiled is None else self.compiled.variant.string


@dataclass(frozen=True)
class Block:
    """Instructions that run one after another, again and again."""

    items: tuple[Item, ...]

    @cached_property
    def size_bytes(self) -> int:
        """The size of the code."""
        return sum(len(item.data) for item in self.items)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each instruction begins."""
        found, offset = [], 0
        for item in self.items:
            found.append(offset)
            offset += len(item.data)
        return tuple(found)

    @cached_property
    def unknown(self) -> tuple[Item, ...]:
        """The instructions of which the machine says nothing."""
        return tuple(item for item in self.items if not item.known)

    @cached_property
    def is_wide(self) -> bool:
        """Whether a load or store is wider than what a port moves in a cycle, or its port is not known."""
        return any(item.compiled is not None and item.compiled.is_wide for item in self.items)

    @cached_property
    def fused(self) -> tuple[bool, ...]:
        """Say for each instruction whether it is one µop with the conditional jump after it."""
        compiled = [item.compiled for item in self.items]
        pairs = zip(compiled, [*compiled[1:], None], strict=True)
        return tuple(bool(one and one.fuses and jump and one.fuses_with(jump)) for one, jump in pairs)

    @cached_property
    def port_masks(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The µops of each instruction by port set.

        Of an instruction that is fused with a jump, the computing µop is the jump's, if the jump's ports are known. By
        time alone they are not: then the pair has those of the computing µop.
        """
        effects = [item.effects for item in self.items]
        pairs = zip(effects, self.fused, [*effects[1:], None], strict=True)
        return tuple(
            own.fused_masks if fused and jump is not None and jump.port_masks else own.port_masks
            for own, fused, jump in pairs
        )

    @property
    def uops_by_ports(self) -> Counter[int]:
        """How many µops each port set has, in all instructions."""
        found: Counter[int] = Counter()
        for mask, count in chain.from_iterable(self.port_masks):
            found[mask] += count
        return found

    @cached_property
    def is_loop(self) -> bool:
        """Whether the last instruction jumps back."""
        last = self.items[-1].effects.fetched if self.items else None
        return last is not None and last.jumps_bytes is not None and last.jumps_bytes < 0


class CodeReader:
    """Reads code for one machine; instructions seen before are recognized by their bytes."""

    def __init__(self, machine: MachineModel, decoder: Decoder, *, zero_vectors: bool = False) -> None:
        """Keep the machine and the decoder of the catalogue.

        `zero_vectors`: all vector registers are zero before the code (else nothing is known of them).
        """
        self.machine, self.decoder = machine, decoder
        self._known: dict[bytes, Item] = {}
        self._not_taken: dict[Item, Item] = {}
        self._riding: dict[Item, Item] = {}
        self._forms: dict[Compiled, Item] = {}
        core, names = machine.parameters.front, machine.parameters.ports
        self._quiet_ports = tuple(sorted(map(names.index, core.ports.not_taken))) if core is not None else ()
        self._nops_fuse = core is not None and core.fusion.nops
        zeros = core.merge_optimization if core is not None else None
        self._zero_uppers = ZeroUppers(from_zero=zero_vectors) if zeros is not None and zeros.enabled else None
        self._merge_ports = sum(1 << number for number in machine.parameters.merging)
        self._high_bytes = HighBytes() if self._merge_ports else None
        self._merging: dict[tuple[Item, tuple[str, ...]], Item] = {}
        self._lengths: dict[bytes, list[int]] = {}

    def block(self, code: bytes, taken: Container[int] = ()) -> Block:
        """Take code apart.

        Args:
            code: its bytes.
            taken: offsets of the ends of the forward conditional jumps that are taken; all others are not taken.

        Raises:
            AnalysisError: there is no code or far too much, or bytes are no instruction that any decoder knows.
        """
        if not code:
            raise AnalysisError("there is no instruction to analyze")
        items: list[Item] = []
        offset = 0
        while offset < len(code):
            item = self._at(code, offset)
            offset += len(item.data)
            items.append(item if offset in taken else self._passed(item))
            if len(items) > MOST_INSTRUCTIONS:
                message = f"the code has more than {MOST_INSTRUCTIONS:,} instructions"
                raise AnalysisError(message, hint="mark the part that matters, or name its function")
        if self._zero_uppers is not None:
            free = self._zero_uppers.without_waits([item.compiled for item in items])
            items = [self._replaced(item, one) for item, one in zip(items, free, strict=True)]
        if self._high_bytes is not None:
            items = self._with_high_bytes(items, self._high_bytes)
        return Block(tuple(self._with_nops(items)) if self._nops_fuse else tuple(items))

    def _replaced(self, item: Item, one: Compiled | None) -> Item:
        """Return an instruction in another form; the same one if it is its form already."""
        if one is None or one is item.compiled:
            return item
        if one not in self._forms:
            self._forms[one] = Item(item.data, one, effects_of(one, item.data))
        return self._forms[one]

    def _with_high_bytes(self, items: list[Item], high_bytes: HighBytes) -> list[Item]:
        """Return the instructions with the µops that merge high bytes, on a core that renames these apart."""
        followed = high_bytes.followed([item.compiled for item in items])
        if followed is None:
            return items
        pairs = zip(items, followed, strict=True)
        return [self._merged(self._replaced(item, one), registers) for item, (one, registers) in pairs]

    def _merged(self, item: Item, registers: tuple[str, ...]) -> Item:
        """Return an instruction before which registers are merged with their high bytes."""
        if not registers:
            return item
        key = item, registers
        if key not in self._merging:
            self._merging[key] = replace(item, effects=merging(item.effects, registers, self._merge_ports))
        return self._merging[key]

    def _with_nops(self, items: Sequence[Item]) -> Iterator[Item]:
        """Yield the instructions; a NOP that fuses with the one before takes no slot."""
        free = False
        for item in items:
            rides = free and _mnemonic(item) in NOPS
            free = not rides and _takes_nop(item)
            yield self._without_place(item) if rides else item

    def _without_place(self, nop: Item) -> Item:
        """Return a NOP that takes no slot in the fused domain."""
        if nop not in self._riding:
            one, fetched = nop.compiled, nop.effects.fetched
            seen = None if fetched is None else replace(fetched, decoding=Decoding(0))
            other = None if one is None else replace(one, uops=(), slots=0, unit_ticks=0, fetched=seen)
            effects = replace(nop.effects, port_masks=(), fused_masks=(), slots=0, occupies=Fraction(0), fetched=seen)
            self._riding[nop] = Item(nop.data, other, effects)
        return self._riding[nop]

    def _passed(self, item: Item) -> Item:
        """Return an instruction as it is if control falls through: a jump that is not taken has more ports."""
        one = item.compiled
        if one is None or not one.uops or one.variant.category != "COND_BR" or not self._quiet_ports:
            return item
        *others, last = one.uops
        leads_back = one.fetched is not None and one.fetched.jumps_bytes is not None
        if leads_back or not last.ports or not set(last.ports) < set(self._quiet_ports):
            return item
        if item not in self._not_taken:
            other = replace(one, uops=(*others, replace(last, ports=self._quiet_ports)))
            self._not_taken[item] = Item(item.data, other, effects_of(other, item.data))
        return self._not_taken[item]

    def _at(self, code: bytes, offset: int) -> Item:
        lengths = self._lengths.setdefault(code[offset : offset + 3], [])
        for length in lengths:
            found = self._known.get(code[offset : offset + length])
            if found is not None:
                return found
        item = self._read(code, offset)
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
            self._not_taken.clear()
            self._riding.clear()
            self._forms.clear()
            self._merging.clear()
            if self._high_bytes is not None:
                self._high_bytes.forget()
            if self._zero_uppers is not None:
                self._zero_uppers.forget()
        self._known[item.data] = item
        if len(item.data) not in lengths:
            lengths.append(len(item.data))
        return item

    def _read(self, code: bytes, offset: int) -> Item:
        try:
            decoded = self.decoder.decode(code, offset)
        except DecodingError as error:
            return self._foreign(code, offset, error)
        data = code[offset : offset + decoded.length_bytes]
        try:
            compiled = compile_instruction(decoded.variant, decoded.values, self.machine, data)
        except ModelError as error:
            raise AnalysisError(f"offset {offset}: {error.message}") from error
        return Item(data, compiled, effects_of(compiled, data))

    def _foreign(self, code: bytes, offset: int, error: DecodingError) -> Item:
        """Return an instruction that the catalogue does not have: only its length is known."""
        decoder = IcedDecoder(64, code[offset : offset + LONGEST])
        found = decoder.decode()
        if found.is_invalid:
            raise AnalysisError(f"the code is no sequence of instructions: {error.message}") from error
        data = code[offset : offset + found.len]
        return Item(data, None, effects_of(None, data))


def _mnemonic(item: Item) -> str:
    """Return the mnemonic, "" if it is not known."""
    return "" if item.compiled is None else item.compiled.variant.iclass


def _takes_nop(item: Item) -> bool:
    """Whether a NOP after it fuses with it, where NOPs fuse."""
    one = item.compiled
    if one is None or one.uops is None or one.variant.category in UNFUSED or one.relative:
        return False
    operands = one.variant.operands
    if any(o.kind is OperandKind.IMMEDIATE and (o.width_bits or 0) > LONGEST_IMMEDIATE for o in operands):
        return False
    names = {location_of(name) for o in operands if o.kind is OperandKind.REGISTER for name in o.registers}
    return names.issubset(GENERAL)
