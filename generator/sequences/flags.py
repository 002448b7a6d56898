"""Partial flag writes: chains through flags that two instructions write.

| chain | what it shows |
|---|---|
| `TEST RBX, RBX; SETBE DL; MOVSX RBX, DL` | the flags of TEST, read |
| `TEST RBX, RBX; INC RCX; SETBE DL; MOVSX RBX, DL` | SETBE needs CF of TEST and ZF of INC |
| `TEST RBX, RBX; INC RCX; SETZ DL; MOVSX RBX, DL` | SETZ needs flags of INC alone |
| `TEST RBX, RBX; CLC; CMC; SETB DL; MOVSX RBX, DL` | CMC reads CF, which CLC has written early |
| `TEST RBX, RBX; SHL RAX, CL; SETZ DL; MOVSX RBX, DL` | SHL keeps the flags of TEST if CL is 0, which it is not |
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

FRESH = {frozenset[str](): (), frozenset({"CF"}): ("CLC",)}
"""Instructions that write only the flags that are read (Intel SDM volume 2A, CLC). None writes OF alone."""

_TESTED = frozenset({"CF", "ZF", "SF", "OF"})
"""Flags that TEST writes and that readers read."""

_TEMPORARIES = ("RBX", "RDX", "RCX", "R8", "R9", "R10", "R11", "R12")


@dataclass(frozen=True, slots=True)
class PartialFlags:
    """Reads of flags that TEST wrote, without and with an instance between, and of flags that the instance wrote.

    `both` is None where the instance keeps flags only on a condition: then it writes all that a read needs. `fresh`:
    another instruction writes the flags that the instance reads.
    """

    whole: Microbenchmark
    both: Microbenchmark | None
    own: Microbenchmark
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class FlagAccess:
    """The status flags that a variant reads, always writes, writes on a condition, and leaves as they are."""

    read: frozenset[str]
    written: frozenset[str]
    conditional: frozenset[str]
    kept: frozenset[str]


def flag_access(factory: ThroughputFactory) -> FlagAccess:
    """Return what a variant does with status flags."""
    access = {
        flag: frozenset(how.split("/"))
        for operand in factory.variant.operands
        if operand.kind is OperandKind.FLAGS
        for flag, how in operand.flags.items()
        if flag in STATUS_FLAGS
    }
    read, written, conditional = (
        frozenset(flag for flag, how in access.items() if kind in how) for kind in ("r", "w", "cw")
    )
    kept = STATUS_FLAGS - access.keys() | (read - written - conditional)
    return FlagAccess(read, written, conditional, kept)


def partial_flags(factory: ThroughputFactory) -> PartialFlags | None:
    """Return the code for a variant that keeps some flags, always or on a condition (None: it does not).

    None, too, where nothing reads what is needed, or writes early what the variant reads.

    Raises:
        AllocationError: there are not enough registers.
        EncodingError: an instance cannot be encoded.
    """
    access = flag_access(factory)
    changed = access.written | access.conditional
    both = next((name for name, read in READERS.items() if read & changed and read & access.kept & _TESTED), "")
    single = next((SINGLE[flag] for flag in SINGLE if flag in changed), "")
    stored = any(o.kind is OperandKind.MEMORY and o.written for o in factory.variant.operands)
    if not (single and (both or access.conditional)) or access.read not in FRESH or stored or factory.has_prologue:
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
    own = (*map(make, FRESH[access.read]), *with_prologue(factory.instructions, instance))

    def code(before: tuple[Line, ...], between: tuple[Line, ...], read: str) -> Microbenchmark:
        purpose = f"flags of {factory.variant.string if between else 'TEST'}, read by {read}"
        body = (first, *between, make(read, part(byte, 8)), last)
        return Microbenchmark(before, body, purpose, 1, bool(between) and factory.variant.cpl == 0)

    merged = code(setup, own, both) if both else None
    return PartialFlags(code(alone, (), both or single), merged, code(setup, own, single), fresh=bool(access.read))
