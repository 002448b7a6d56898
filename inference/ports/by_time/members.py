"""Instructions that show a set of ports: what is known of each, and how well it blocks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from generator.sequences.blocking import register_files
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from xed_convert.model import InstructionVariant

MEMORY = "memory"
"""The domain of what accesses memory; register files are the other domains."""

RANKS = ("GPR", MEMORY, "K", "VEC", "MMX", "X87")
"""Domains in the order in which their ports are named."""

SHARES = Fraction(7, 10)
"""µops on a set, of an instruction that has one: with more it is confined to the set."""


MOST_SOURCES = 2
"""Registers that every port can read for a µop. A third one may come by a way that ports share. On Zen 4 VBLENDVPD
reads three. VANDNPD with a merging mask waits for it, although other ports are free."""


@dataclass(frozen=True, slots=True)
class Member:
    """An instruction with one slot: the number of its ports; its own chain and its reciprocal throughput in cycles."""

    variant: InstructionVariant
    size: int
    chain: Fraction
    cycles: Fraction


@dataclass
class MemberClass:
    """Instructions that were found to have one set. The first one blocked others in `tests`; `doubts` were unclear."""

    members: list[Member]
    doubts: int = 0
    tests: int = 0

    @property
    def first(self) -> Member:
        """The member that was tried first."""
        return self.members[0]

    @property
    def strings(self) -> tuple[str, ...]:
        """The strings of its instructions."""
        return tuple(one.variant.string for one in self.members)

    @property
    def files(self) -> frozenset[str]:
        """The register files of its instructions."""
        return frozenset().union(*(register_files(one.variant) for one in self.members))

    def without_other_uops(self) -> MemberClass:
        """Return the members of one µop: if others need no memory, one that does has a µop elsewhere, too.

        A slot may hold both. On Zen 5 vector stores and moves to general registers leave by the same two pipes, and
        all stores share two others.
        """
        pure = [one for one in self.members if not one.variant.accesses_memory]
        return MemberClass(pure or self.members, self.doubts, self.tests)

    def may_need_both(self, larger: MemberClass) -> bool:
        """Whether its instructions may have a µop on the ports of a larger set besides the one on their own ports.

        That is so if each of them belongs to two domains, and the larger set only to one of these. On Zen 5 a store
        needs an ALU for its value, and a move from a vector to a general register for its result.
        """
        return all(larger.may_hold_another_of(one) for one in self.members)

    def may_hold_another_of(self, smaller: Member) -> bool:
        """Return the same of one instruction: whether it may have a µop on these ports besides the one on its own."""
        own = domains(smaller.variant)
        here = frozenset[str]().union(*(domains(one.variant) for one in self.members))
        return len(own) > 1 and not own <= here and MEMORY not in own & here

    @property
    def rank(self) -> int:
        """The place of its domain in `RANKS`: memory if any member accesses it, else the last of all domains."""
        own = frozenset[str]().union(*(domains(one.variant) for one in self.members))
        return RANKS.index(MEMORY) if MEMORY in own else max(map(_rank, own), default=len(RANKS))

    def at(self, place: int) -> Member:
        """Return the member at a place; after the last one the first ones come again."""
        return self.members[place % len(self.members)]


def domains(variant: InstructionVariant) -> frozenset[str]:
    """Return the register files of a variant, and `MEMORY` if it accesses any. Flags are with general registers."""
    found = set(register_files(variant)) - {"OTHER"}
    found |= {MEMORY} if variant.accesses_memory else set()
    found |= {"GPR"} if any(operand.kind is OperandKind.FLAGS for operand in variant.operands) else set()
    return frozenset(found)


def _rank(domain: str) -> int:
    return RANKS.index(domain) if domain in RANKS else len(RANKS)


def preference(member: Member) -> tuple[bool, bool, bool, Fraction, bool]:
    """Order instructions by how well they block.

    The best access no memory, do not read what they write, read no third register, and have short chains.
    """
    operands = member.variant.operands
    return (
        member.variant.accesses_memory,
        any(one.explicit and one.read and one.written for one in operands),
        sum(one.read for one in operands if one.registers) > MOST_SOURCES,
        Fraction(round(member.chain)),
        member.variant.attributes.get("vex") != "1",
    )
