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

from simulator.core.late_forms import CLEANING
from simulator.instructions.locations import is_vector, location_of
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.core.compiler import Compiled, LocatedUop
    from xed_convert.model import Operand

LEAST_BITS = 32
"""Zeros begin at bit 32 or 64 of a register; behind a zero idiom at the former, too."""

EVERY = tuple(f"ZMM{number}" for number in range(32))

CLEARED = EVERY[:16]
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


@dataclass(frozen=True, slots=True)
class _Role:
    """What an instruction does with zeros: the vector registers that it writes, and what the table says of the first.

    The upper part of `kept` goes into the result. `is_free` says that no other source is the same register.
    """

    written: tuple[str, ...]
    rule: Rule | None
    kept: str = ""
    is_free: bool = False


class ZeroUppers:
    """Follows the zeros through code, and replaces the instructions that need not wait."""

    def __init__(self, *, from_zero: bool = False) -> None:
        """Begin without instructions. What is known of them is kept, since the same ones come again and again.

        `from_zero`: all vector registers are zero before the code.
        """
        self._initial = dict.fromkeys(EVERY, LEAST_BITS) if from_zero else {}
        self._roles: dict[Compiled, _Role] = {}
        self._free: dict[Compiled, Compiled] = {}

    def without_waits(self, code: Sequence[Compiled | None]) -> list[Compiled | None]:
        """Return the instructions as they are if the code runs again and again (None: one that is not known)."""
        known = self._initial.copy()
        found: list[Compiled | None] = []
        for _ in range(PASSES):
            found = [self._executed(one, known) for one in code]
        return found

    def forget(self) -> None:
        """Drop what is known of instructions."""
        self._roles.clear()
        self._free.clear()

    def _executed(self, one: Compiled | None, known: dict[str, int]) -> Compiled | None:
        """Return an instruction as it is behind those before; `known` has the first bit of the zeros by register."""
        if one is None:
            known.clear()
            return one
        role = self._roles.get(one)
        if role is None:
            role = self._roles[one] = _role_of(one)
        if one.variant.iclass in CLEANING:
            known |= dict.fromkeys(CLEARED, LEAST_BITS) if one.variant.iclass == "VZEROALL" else {}
            return one
        if not role.written:
            return one
        zeros_at = known.get(role.kept)
        for register in role.written:
            known.pop(register, None)
        first = _first_zero(one, role.rule, zeros_at)
        if first is not None:
            known[role.written[0]] = first
        return self._without_wait(one, role.kept) if _may_skip(role, zeros_at) else one

    def _without_wait(self, one: Compiled, register: str) -> Compiled:
        """Return an instruction that does not wait for the register that it is merged with."""
        if one not in self._free:
            self._free[one] = replace(one, uops=tuple(_unread(uop, register) for uop in one.uops or ()))
        return self._free[one]


def _role_of(one: Compiled) -> _Role:
    """Work out what an instruction does with zeros."""
    written = tuple(location_of(one.register_of(o)) for o in one.variant.operands if o.written and is_vector(o))
    rule = _rule_of(one) if written else None
    if rule is None:
        return _Role(written, None)
    explicit = _explicit(one)
    places = [location_of(one.register_of(operand)) for operand in explicit]
    merged = 1 if len(explicit) > 2 or rule.effect is Effect.COPIES else 0  # the first source of three operands
    return _Role(written, rule, places[merged], places[merged] not in places[merged + 1 :])


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
    """Return what the table says of an instruction with a result in an XMM register, and no write mask."""
    registers = [operand for operand in one.variant.explicit_registers if is_vector(operand)]
    is_masked = any(operand.opmask for operand in one.variant.operands)
    if is_masked or not registers or not registers[0].written or not registers[0].registers[0].startswith("XMM"):
        return None
    last = _explicit(one)[-1]
    kind = "memory" if last.kind is OperandKind.MEMORY else "vector" if is_vector(last) else "general"
    return rules().get((one.variant.iclass.removeprefix("V"), kind))


def _explicit(one: Compiled) -> list[Operand]:
    return [operand for operand in one.variant.operands if operand.explicit and not _is_immediate(operand)]


def _is_immediate(operand: Operand) -> bool:
    return operand.kind is OperandKind.IMMEDIATE
