"""Scalar instructions that need not wait for the register that they keep a part of, because that part is zero.

SQRTSD writes the lower 64 bits of a vector register and keeps the upper ones, so it waits for them. Some cores follow
which registers have zeros there: MOVSD from memory makes them, for example. They do not wait then:

    PXOR XMM0, XMM0; SQRTSD XMM0, XMM1          8.4 cycles each on a Zen 4, as the divider allows
    MOVUPS XMM0, [RSI]; SQRTSD XMM0, XMM1       21 cycles more, if they come one after another

`zero_uppers.tsv` has the instructions that make, copy and keep zeros, and those that gain by them. Every other write to
a vector register ends them. What the registers hold before the code is not known, but for measured blocks: zero.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import resources
from typing import TYPE_CHECKING

from analysis.block.repeated import in_repeated
from simulator.instructions.locations import is_vector, location_of
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.block.code import Item
    from simulator.core.compiler import Compiled, LocatedUop
    from xed_convert.model import Operand

LEAST_BITS = 32
"""Zeros begin at bit 32 or 64 of a register; behind a zero idiom at the former, too."""

EVERY = tuple(f"ZMM{number}" for number in range(32))

CLEARED = EVERY[:16]
"""What VZEROALL clears (Intel SDM volume 2C)."""


class Effect(StrEnum):
    """What an instruction does with the zeros in the upper part of its vector register."""

    CLEARS = "clears"
    """It makes them, in all registers that it clears if it names none."""
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


@dataclass(frozen=True, slots=True)
class _Role:
    """What an instruction does with zeros: the vector registers that it writes, and what the table says of `results`.

    The upper part of `kept` goes into the result. `is_free` says that no other source is the same register.
    """

    written: tuple[str, ...]
    rule: Rule | None = None
    results: tuple[str, ...] = ()
    kept: str = ""
    is_free: bool = False


class ZeroUppers:
    """Follows the zeros through code, and replaces the instructions that need not wait."""

    def __init__(self, *, from_zero: bool = False) -> None:
        """Begin without instructions. What is known of them is kept, since the same ones come again and again.

        `from_zero`: all vector registers are zero before the code.
        """
        self._initial = dict.fromkeys(EVERY, LEAST_BITS) if from_zero else {}
        self._roles: dict[Item, _Role] = {}
        self._free: dict[Item, Item] = {}

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        """Return the instructions as they are if the code runs again and again."""
        known = self._initial.copy()
        return in_repeated(items, lambda item: self._executed(item, known))

    def _executed(self, item: Item, known: dict[str, int]) -> Item:
        """Return an instruction as it is behind those before; `known` has the first bit of the zeros by register."""
        if item.compiled is None:
            known.clear()
            return item
        role = self._roles.get(item)
        if role is None:
            role = self._roles[item] = _role_of(item.compiled)
        if not role.written:
            return item
        zeros_at = known.get(role.kept)
        for register in role.written:
            known.pop(register, None)
        first = _first_zero(item.compiled, role.rule, zeros_at)
        if first is not None:
            known |= dict.fromkeys(role.results, first)
        return self._without_wait(item, item.compiled, role.kept) if _may_skip(role, zeros_at) else item

    def _without_wait(self, item: Item, one: Compiled, register: str) -> Item:
        """Return an instruction that does not wait for the register that it is merged with."""
        if item not in self._free:
            self._free[item] = item.in_form(replace(one, uops=tuple(_unread(uop, register) for uop in one.uops or ())))
        return self._free[item]


def _role_of(one: Compiled) -> _Role:
    """Work out what an instruction does with zeros."""
    written = tuple(location_of(one.register_of(o)) for o in one.variant.operands if o.written and is_vector(o))
    rule = _rule_of(one)
    if rule is None:
        return _Role(written)
    explicit = _explicit(one)
    if not explicit:
        return _Role(CLEARED, rule, CLEARED)
    places = [location_of(one.register_of(operand)) for operand in explicit]
    merged = 1 if len(explicit) > 2 or rule.effect is Effect.COPIES else 0  # the first source of three operands
    return _Role(written, rule, written[:1], places[merged], places[merged] not in places[merged + 1 :])


def _may_skip(role: _Role, zeros_at: int | None) -> bool:
    """Whether an instruction need not wait for the register that it is merged with, whose zeros begin there."""
    if role.rule is None or zeros_at is None:
        return False
    return role.rule.effect is Effect.MERGES and role.is_free and zeros_at <= role.rule.bits


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
    """Return what the table says of an instruction without operands, or with a result in an unmasked XMM register."""
    explicit = _explicit(one)
    if not explicit:
        return rules().get((_stem(one), "none"))
    registers = [operand for operand in one.variant.explicit_registers if is_vector(operand)]
    is_masked = any(operand.opmask for operand in one.variant.operands)
    if is_masked or not registers or not registers[0].written or not registers[0].registers[0].startswith("XMM"):
        return None
    last = explicit[-1]
    kind = "memory" if last.kind is OperandKind.MEMORY else "vector" if is_vector(last) else "general"
    return rules().get((_stem(one), kind))


def _stem(one: Compiled) -> str:
    """Return the mnemonic without the V of VEX."""
    return one.variant.iclass.removeprefix("V")


def _explicit(one: Compiled) -> list[Operand]:
    return [operand for operand in one.variant.operands if operand.explicit and not _is_immediate(operand)]


def _is_immediate(operand: Operand) -> bool:
    return operand.kind is OperandKind.IMMEDIATE
