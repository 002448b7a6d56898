"""Scalar instructions that need not wait for the register that they keep a part of, because that part is zero.

SQRTSD writes the lower 64 bits of a vector register and keeps the upper ones, so it waits for them. Some cores follow
which registers have zeros there: MOVSD from memory makes them, for example. They do not wait then:

    PXOR XMM0, XMM0; SQRTSD XMM0, XMM1          8.4 cycles each on a Zen 4, as the divider allows
    MOVUPS XMM0, [RSI]; SQRTSD XMM0, XMM1       21 cycles more, if they come one after another

`zero_uppers.tsv` has the instructions that make, copy and keep zeros, and those that gain by them. Every other write to
a vector register ends them. What the registers hold before the code is not known.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import resources
from typing import TYPE_CHECKING

from simulator.core.late_forms import CLEANING
from simulator.instructions.locations import VECTORS, location_of
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.core.compiler import Compiled, LocatedUop
    from xed_convert.model import Operand

LEAST_BITS = 32
"""Zeros begin at bit 32 or 64 of a register; behind a zero idiom at the former, too."""

CLEARED = tuple(f"ZMM{number}" for number in range(16))
"""What VZEROALL clears (Intel SDM volume 2C)."""

PASSES = 2
"""What one pass leaves in the registers is what the next one begins with. Each instruction decides alike in both."""


class Effect(StrEnum):
    """What an instruction does with the zeros in the upper part of its vector register."""

    CLEARS = "clears"
    """It makes them."""
    ZEROES = "zeroes"
    """It makes them if it waits for nothing: all its operands are one register then, and the result is zero."""
    COPIES = "copies"
    """It takes them from its source."""
    KEEPS = "keeps"
    """It keeps those of the register that it merges with."""
    MERGES = "merges"
    """It keeps them, and does not wait for that register where they are."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An effect, and the first bit that the instruction does not compute."""

    effect: Effect
    bits: int


@functools.cache
def rules() -> dict[tuple[str, str], Rule]:
    """Read `zero_uppers.tsv`: rules by mnemonic (without the V of VEX) and kind of the last operand."""
    text = resources.files("analysis").joinpath("block/zero_uppers.tsv").read_text(encoding="utf-8")
    found: dict[tuple[str, str], Rule] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        effect, bits, last, mnemonics, _ = line.split("\t")
        kinds = ("memory", "vector", "general") if last == "any" else (last,)
        found |= {(name, kind): Rule(Effect(effect), int(bits)) for name in mnemonics.split() for kind in kinds}
    return found


class ZeroUppers:
    """Follows the zeros through code, and replaces the instructions that need not wait."""

    def __init__(self) -> None:
        """Begin without replaced instructions. They are kept, since the same ones come again and again."""
        self._free: dict[tuple[Compiled, str], Compiled] = {}

    def without_waits(self, code: Sequence[Compiled | None]) -> list[Compiled | None]:
        """Return the instructions as they are if the code runs again and again (None: one that is not known)."""
        known: dict[str, int] = {}
        found: list[Compiled | None] = []
        for _ in range(PASSES):
            found = [self._executed(one, known) for one in code]
        return found

    def forget(self) -> None:
        """Drop the replaced instructions."""
        self._free.clear()

    def _executed(self, one: Compiled | None, known: dict[str, int]) -> Compiled | None:
        """Return an instruction as it is behind those before; `known` has the first bit of the zeros by register."""
        if one is None:
            known.clear()
            return one
        written, rule = _written(one), _rule_of(one)
        if one.variant.iclass in CLEANING:
            known |= dict.fromkeys(CLEARED, LEAST_BITS) if one.variant.iclass == "VZEROALL" else {}
            return one
        if not written:
            return one
        kept = _kept_register(one, rule) if rule is not None else ""
        zeros_at = known.get(kept)
        for register in written:
            known.pop(register, None)
        first = _first_zero(one, rule, zeros_at)
        if first is not None:
            known[written[0]] = first
        is_free = rule is not None and rule.effect is Effect.MERGES and zeros_at is not None and zeros_at <= rule.bits
        return self._without_wait(one, kept) if is_free else one

    def _without_wait(self, one: Compiled, register: str) -> Compiled:
        """Return an instruction that does not wait for a register (it does if that is another source, too)."""
        if register in _sources(one):
            return one
        key = (one, register)
        if key not in self._free:
            self._free[key] = replace(one, uops=tuple(_unread(uop, register) for uop in one.uops or ()))
        return self._free[key]


def _unread(uop: LocatedUop, register: str) -> LocatedUop:
    """Return a µop that does not read a register. One that only brings its value later has nothing to wait for."""
    if register not in uop.reads:
        return uop
    reads = tuple(place for place in uop.reads if place != register)
    brings = not uop.ports and not reads and not uop.results
    return replace(uop, reads=reads, latency=0 if brings else uop.latency)


def _first_zero(one: Compiled, rule: Rule | None, zeros_at: int | None) -> int | None:
    """Return from which bit on the result has zeros, None if that is not known."""
    if rule is None:
        return None
    if rule.effect is Effect.ZEROES:
        return rule.bits if one.uops and not any(uop.reads for uop in one.uops) else None
    if rule.effect is Effect.CLEARS:
        return rule.bits if "evex" not in one.variant.attributes else None
    return None if zeros_at is None else max(zeros_at, rule.bits)


def _rule_of(one: Compiled) -> Rule | None:
    """Return what the table says of an instruction with a result in an XMM register, and no write mask."""
    registers = [operand for operand in one.variant.explicit_registers if _is_vector(operand)]
    is_masked = any(operand.opmask for operand in one.variant.operands)
    if is_masked or not registers or not registers[0].written or not registers[0].registers[0].startswith("XMM"):
        return None
    last = _explicit(one)[-1]
    kind = "memory" if last.kind is OperandKind.MEMORY else "vector" if _is_vector(last) else "general"
    return rules().get((one.variant.iclass.removeprefix("V"), kind))


def _kept_register(one: Compiled, rule: Rule) -> str:
    """Return the register whose upper part goes into the result. A copy takes its source's."""
    explicit = _explicit(one)
    return _place(one, explicit[1 if rule.effect is Effect.COPIES else _merged_position(explicit)])


def _sources(one: Compiled) -> list[str]:
    """Return the registers of the sources behind the one that the result is merged with."""
    explicit = _explicit(one)
    return [_place(one, operand) for operand in explicit[_merged_position(explicit) + 1 :] if operand.registers]


def _merged_position(explicit: Sequence[Operand]) -> int:
    """Return which operand a result is merged with: the first source of three operands, else the result."""
    return 1 if len(explicit) > 2 else 0


def _explicit(one: Compiled) -> list[Operand]:
    return [operand for operand in one.variant.operands if operand.explicit and not _is_immediate(operand)]


def _written(one: Compiled) -> list[str]:
    """Return the vector registers that an instruction writes, the explicit ones first."""
    operands = [operand for operand in one.variant.operands if operand.written and _is_vector(operand)]
    return [_place(one, operand) for operand in operands]


def _place(one: Compiled, operand: Operand) -> str:
    value = one.values.get(operand.index)
    return location_of(str(value) if value is not None else operand.registers[0])


def _is_vector(operand: Operand) -> bool:
    return operand.kind is OperandKind.REGISTER and location_of(operand.registers[0]) in VECTORS


def _is_immediate(operand: Operand) -> bool:
    return operand.kind is OperandKind.IMMEDIATE
