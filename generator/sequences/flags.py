"""Code that shows what rename does with flags of which an instruction writes only some.

TEST RBX, RBX; SETBE DL; MOVSX RBX, DL              the flags of TEST, read
TEST RBX, RBX; INC RCX; SETBE DL; MOVSX RBX, DL     SETBE needs CF of TEST and ZF of INC
TEST RBX, RBX; INC RCX; SETZ DL; MOVSX RBX, DL      SETZ needs flags of INC alone
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.errors import AllocationError
from generator.microbenchmark import Microbenchmark
from generator.operands.effects import effects_of
from generator.operands.places import STATUS_FLAGS
from generator.operands.registers import part
from generator.operands.reserved import harness_registers
from generator.operands.values import Values
from generator.sequences.throughput import SequenceShape, setup_of
from generator.support.initial import constant
from generator.support.prologue import with_prologue
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from generator.microbenchmark import Line
    from generator.sequences.throughput import ThroughputFactory

READERS = {
    "SETBE (R8l)": frozenset({"CF", "ZF"}),
    "SETLE (R8l)": frozenset({"ZF", "SF", "OF"}),
    "SETL (R8l)": frozenset({"SF", "OF"}),
}
"""Instructions that read flags of several groups, with these flags (Intel SDM volume 2B, SETcc)."""

SINGLE = {"CF": "SETB (R8l)", "ZF": "SETZ (R8l)", "SF": "SETS (R8l)", "OF": "SETO (R8l)"}
"""Instructions that read one flag."""

_TESTED = frozenset({"CF", "ZF", "SF", "OF"})
"""Flags that TEST writes and that readers read."""

_TEMPORARIES = ("RBX", "RDX", "RCX", "R8", "R9", "R10", "R11", "R12")


@dataclass(frozen=True, slots=True)
class PartialFlags:
    """A read of flags that TEST wrote, alone and with an instance between; and a read of those of the instance."""

    whole: Microbenchmark
    both: Microbenchmark
    own: Microbenchmark


def written_flags(factory: ThroughputFactory) -> tuple[frozenset[str], frozenset[str]]:
    """Return the status flags that a variant surely writes, and those that it leaves as they are.

    Both are empty if it reads flags, or writes some only on a condition.
    """
    access = {
        flag: how
        for operand in factory.variant.operands
        if operand.kind is OperandKind.FLAGS
        for flag, how in operand.flags.items()
        if flag in STATUS_FLAGS
    }
    if set(access.values()) - {"w", "undef"}:
        return frozenset(), frozenset()
    written = frozenset(flag for flag, how in access.items() if how == "w")
    return written, STATUS_FLAGS - access.keys()


def partial_flags(factory: ThroughputFactory) -> PartialFlags | None:
    """Return the code for a variant that writes some flags and keeps others (None: it does not, or nothing reads both).

    Raises:
        AllocationError: there are not enough registers.
        EncodingError: an instance cannot be encoded.
    """
    written, kept = written_flags(factory)
    reader = next((name for name, read in READERS.items() if read & written and read & kept & _TESTED), None)
    stored = any(o.kind is OperandKind.MEMORY and o.written for o in factory.variant.operands)
    single = next((SINGLE[flag] for flag in SINGLE if flag in written), None)
    if reader is None or single is None or stored or factory.has_prologue:
        return None
    (instance,) = factory.instances(SequenceShape(1))
    used = effects_of(instance).touched | harness_registers()
    free = [name for name in _TEMPORARIES if name not in used]
    if len(free) < 2:
        raise AllocationError(f"{factory.variant.string}: no two registers are left")
    chained, byte = free[:2]
    make = factory.instructions.line
    first = make("TEST (R64, R64)", chained, chained)
    last = make("MOVSX (R64, R8l)", chained, part(byte, 8))
    alone = (constant(factory.instructions, chained, 1), constant(factory.instructions, byte, 1))
    setup = (*alone, *setup_of(factory.instructions, [instance], Values()))
    own = tuple(with_prologue(factory.instructions, instance))

    def code(before: tuple[Line, ...], between: tuple[Line, ...], read: str) -> Microbenchmark:
        purpose = f"flags of {factory.variant.string if between else 'TEST'}, read by {read}"
        body = (first, *between, make(read, part(byte, 8)), last)
        return Microbenchmark(before, body, purpose, 1, bool(between) and factory.variant.cpl == 0)

    return PartialFlags(code(alone, (), reader), code(setup, own, reader), code(setup, own, single))
