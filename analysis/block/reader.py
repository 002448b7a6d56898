"""Bytes to the instructions of a block, as a machine executes them between their neighbours (`CodeReader`).

What an instruction does may depend on those before it. Each such rule is an object that takes all instructions of the
code, and returns them as they are in their places. Rules keep what they make of an instruction, as the reader does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from iced_x86 import Decoder as IcedDecoder

from analysis.block.code import Block, Item
from analysis.block.effects import effects_of
from analysis.block.fused_nops import FusedNops
from analysis.block.high_bytes import HighBytes
from analysis.block.zero_uppers import ZeroUppers
from analysis.errors import AnalysisError
from results.machine.graph import ModelError
from simulator.core.compiler import BRANCHES, compile_instruction, compile_unknown
from xed_convert.errors import DecodingError

if TYPE_CHECKING:
    from collections.abc import Container

    from simulator.machines.machine import MachineModel, Parameters
    from xed_convert.encoding.decoder import Decoder

MOST_REMEMBERED = 200_000
"""Instructions that are kept, by their bytes. Each takes some hundred bytes of memory."""

MOST_INSTRUCTIONS = 150_000
"""Instructions of a block. An analysis takes some kilobytes and half a millisecond for each."""

LONGEST = 15
"""Bytes of an instruction (Intel SDM volume 2A, section 2.3.11)."""

Rule = Callable[[list[Item]], list[Item]]
"""Returns instructions as they are in their places."""


class CodeReader:
    """Reads code for one machine; instructions seen before are recognized by their bytes."""

    def __init__(self, machine: MachineModel, decoder: Decoder, *, zero_vectors: bool = False) -> None:
        """Keep the machine and the decoder of the catalogue.

        `zero_vectors`: all vector registers are zero before the code (else nothing is known of them).
        """
        self.machine, self.decoder, self._zero_vectors = machine, decoder, zero_vectors
        core, names = machine.parameters.front, machine.parameters.ports
        self._quiet_ports = tuple(sorted(map(names.index, core.ports.not_taken))) if core is not None else ()
        self._begin()

    def _begin(self) -> None:
        """Begin without instructions, or forget all of them."""
        self._known: dict[bytes, Item] = {}
        self._lengths: dict[bytes, list[int]] = {}
        self._not_taken: dict[Item, Item] = {}
        self._rules = _rules_of(self.machine.parameters, zero_vectors=self._zero_vectors)

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
        for rule in self._rules:
            items = rule(items)
        return Block(tuple(items))

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
            self._not_taken[item] = item.in_form(replace(one, uops=(*others, replace(last, ports=self._quiet_ports))))
        return self._not_taken[item]

    def _at(self, code: bytes, offset: int) -> Item:
        beginning = code[offset : offset + 3]
        for length in self._lengths.get(beginning, ()):
            found = self._known.get(code[offset : offset + length])
            if found is not None:
                return found
        item = self._read(code, offset)
        if len(self._known) >= MOST_REMEMBERED:
            self._begin()
        self._known[item.data] = item
        lengths = self._lengths.setdefault(beginning, [])
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
            if compiled.uops is None:
                compiled = compile_unknown(decoded.variant, decoded.values, self.machine, data)
        except ModelError as error:
            raise AnalysisError(f"offset {offset}: {error.message}") from error
        if decoded.variant.category in BRANCHES:
            # Measured throughputs are those of branches to the next instruction, which are predicted worse than others
            compiled = replace(compiled, unit_ticks=0)
        return Item(data, compiled, effects_of(compiled, data))

    def _foreign(self, code: bytes, offset: int, error: DecodingError) -> Item:
        """Return an instruction that the catalogue does not have: only its length is known."""
        decoder = IcedDecoder(64, code[offset : offset + LONGEST])
        found = decoder.decode()
        if found.is_invalid:
            raise AnalysisError(f"the code is no sequence of instructions: {error.message}") from error
        data = code[offset : offset + found.len]
        return Item(data, None, effects_of(None, data))


def _rules_of(parameters: Parameters, *, zero_vectors: bool) -> list[Rule]:
    """Return the rules of a machine, in the order in which they are applied."""
    core = parameters.front
    found: list[Rule] = []
    if core is not None and core.merge_optimization is not None and core.merge_optimization.enabled:
        found.append(ZeroUppers(from_zero=zero_vectors))
    if parameters.merging:
        found.append(HighBytes(sum(1 << number for number in parameters.merging)))
    if core is not None and core.fusion.nops:
        found.append(FusedNops())
    return found
