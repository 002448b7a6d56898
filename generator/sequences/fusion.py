"""Pairs that may become one µop: an instruction that sets flags and the conditional jump after it (macro-fusion).

The same code is measured twice: with the jump right after the instruction, and with one of the fillers between them,
so that they cannot fuse. The difference, in µops or in time, is what fusion saves. Time shows it only if the saved
resource is the bottleneck, which one more filler tests. A fused pair may save an issue slot, or an ALU, or both. So
there are two kinds of fillers: moves that are eliminated at rename, and constants that need an ALU.

`fusion_candidates.tsv` has the classes that are tried. All jumps lead to the next line, taken or not. Each goes the
same way every time: registers get their values back.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

from generator.assemble import assemble
from generator.facts import read_facts
from generator.microbenchmark import Line, Microbenchmark
from generator.operands.allocation import independent_instances
from generator.operands.registers import register_class
from generator.operands.values import DEFAULT_VALUE, Values
from generator.sequences.throughput import setup_of
from generator.support.breakers import break_register
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.factory import InstructionFactory
    from xed_convert.model import Instance, InstructionVariant

JUMPS = (
    ("JZ", "JNZ"),
    ("JB", "JNB"),
    ("JBE", "JNBE"),
    ("JL", "JNL"),
    ("JLE", "JNLE"),
    ("JS", "JNS"),
    ("JO", "JNO"),
    ("JP", "JNP"),
)
"""The conditions, each with its inverse (one bit of the opcode). What fuses with any jump fuses with the first ones."""

INSTANCES = 4
"""Pairs in one copy, with registers of their own; two each of a jump and its inverse."""

FILLERS = 6
"""Fillers per pair: enough that issue is the limit, not the one or two jumps that a core takes per cycle."""

_TARGETS = ("R8", "R9", "R10", "R11")
_SOURCE = "R12"
"""Registers of the fillers; instances get others."""


class Filler(Enum):
    """What stands between the pairs: the string of the variant, and how its registers are named."""

    MOVES = "MOV_8B (R64, R64)"
    CONSTANTS = "MOV (R32, I32)"

    def lines(self, instructions: InstructionFactory, count: int) -> list[Line]:
        """Return `count` fillers, with different targets."""
        names = [_TARGETS[position % len(_TARGETS)] for position in range(count)]
        if self is Filler.MOVES:
            return [instructions.line(self.value, name, _SOURCE) for name in names]
        return [instructions.line(self.value, f"{name}D", 5) for name in names]


@cache
def _candidates() -> frozenset[str]:
    rows = read_facts("fusion_candidates.tsv", ("iclass", "reason", "source"), ("iclass",))
    return frozenset(row["iclass"] for row in rows)


def may_fuse(variant: InstructionVariant) -> bool:
    """Whether a variant is worth trying: of a class that fuses somewhere, and it writes all status flags."""
    writes = any(operand.flags.get("ZF", "").endswith("w") for operand in variant.operands)
    return variant.iclass in _candidates() and writes and variant.attributes.get("locked", "0") == "0"


def _again(instructions: InstructionFactory, instance: Instance) -> list[Line]:
    """Return the lines that put registers back, so that a jump goes the same way each time and is predicted."""
    written = [o for o in instance.variant.operands if o.kind is OperandKind.REGISTER and o.written]
    names = [str(instance.values.get(o.index, next(iter(o.registers), ""))) for o in written]
    lines = [break_register(instructions, name, DEFAULT_VALUE) for name in names if register_class(name) == "GPR"]
    return [line for line in lines if line is not None]


def pairs(
    instructions: InstructionFactory,
    variant: InstructionVariant,
    jumps: Sequence[str],
    filler: Filler,
    *,
    adjacent: bool,
    more: int = 0,
) -> Microbenchmark:
    """Return pairs of instances and jumps with fillers; `divisor` is how many pairs.

    Args:
        instructions: makes the lines.
        variant: what sets the flags.
        jumps: mnemonics of the jumps, in turns.
        filler: what stands between the pairs.
        adjacent: the jump right after the instance, else a filler between them.
        more: further fillers per pair.

    Raises:
        AllocationError: there are not enough registers.
        EncodingError: an instance cannot be encoded.
    """
    instances = independent_instances(variant, INSTANCES, (*_TARGETS, _SOURCE))
    body: list[Line] = []
    for position, instance in enumerate(instances):
        between, *rest = filler.lines(instructions, FILLERS + more)
        jump = instructions.line(f"{jumps[position % len(jumps)]} (Rel8)", 0)
        body += [
            assemble(instance),
            *((jump, between) if adjacent else (between, jump)),
            *rest,
            *_again(instructions, instance),
        ]
    where = "beside" if adjacent else "apart from"
    purpose = f"{variant.string} {where} {' and '.join(jumps)}, among {FILLERS + more} {filler.name.lower()}"
    return Microbenchmark(setup_of(instructions, instances, Values()), tuple(body), purpose, len(instances))
