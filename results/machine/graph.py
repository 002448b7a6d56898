"""The data types of a machine model: µops, and what a variant does with them.

A µop has a set of ports that it may use (none: it is done at rename) and a latency. Its inputs are operands and earlier
µops of the same instruction, its outputs are operands. The latency of a pair of operands is the longest path between
them. All of it is data; `simulator.machines.notation` writes it as text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from fractions import Fraction
from operator import attrgetter
from typing import TYPE_CHECKING

from results.model import LatencyPart, PortUsage
from xed_convert.errors import UopscopeError
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from xed_convert.model import InstructionVariant, Operand

UNTRACKED_REGISTERS = frozenset({"RIP", "X87PUSH", "X87POP", "X87POP2", "TSC", "MSRS", "TSCAUX"})
"""Registers that carry no dependency worth modelling: program counter, stack movements, things read from outside."""

FLAGS = ("CF", "PF", "AF", "ZF", "SF", "OF", "DF", "FC0", "FC1", "FC2", "FC3")
"""The flags that are renamed each by itself; control flags (IF, IOPL, ...) are not modelled."""


VECTORS = ("XMM", "YMM", "ZMM", "MM")
"""How the names of vector registers begin."""

ADDRESS_PARTS = (LatencyPart.ADDRESS, LatencyPart.ADDRESS_INDEX)


class ModelError(UopscopeError):
    """A machine model cannot be read, or has nothing about what it is asked for."""


class UopKind(IntEnum):
    """What a µop does, as far as the core has to know."""

    COMPUTE = 0
    LOAD = 1
    STORE_ADDRESS = 2
    STORE_DATA = 3


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A value that enters or leaves an instruction: an operand, a part of a memory operand, or one flag."""

    operand: int
    part: LatencyPart = LatencyPart.NONE
    flag: str = ""


@dataclass(frozen=True, slots=True)
class Uop:
    """One µop. `inputs` holds endpoints and indices of earlier µops (from 0); latencies are in core cycles.

    `divider_cycles` is for how long a divider is occupied; `fast` is (latency, divider cycles) for operand values of
    the fast kind, None where values do not matter.
    """

    ports: frozenset[str]
    latency: int
    inputs: tuple[Endpoint | int, ...]
    outputs: tuple[Endpoint, ...] = ()
    kind: UopKind = UopKind.COMPUTE
    divider_cycles: int = 0
    fast: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Decoding:
    """What the front end does with an instruction.

    `decoded` µops come out of the decoders (fused ones count once), `microcoded` ones out of the microcode sequencer.
    `complex` says that only the first decoder takes it; `simple` is how many others can decode something in the same
    cycle (None: all of them).
    """

    decoded: int
    microcoded: int = 0
    complex: bool = False
    simple: int | None = None


class KnownShare(StrEnum):
    """Of how many µops the ports are known."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a machine's data say of a variant: anything at all, ports of how many µops, a latency.

    `by_time` says that the ports were inferred by time alone. If measurements lack the ports, µops and latency may be
    those of a model: `modelled` says which one.
    """

    anything: bool = True
    ports: KnownShare = KnownShare.ALL
    by_time: bool = False
    latency: bool = True
    modelled: str = ""


ALL_KNOWN = Knowledge()
NOTHING_KNOWN = Knowledge(anything=False, ports=KnownShare.NONE, latency=False)
"""The knowledge of a variant that the data lack."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The µops of a variant. `slots` are their fused-domain slots (issue, reorder buffer).

    `same_register` replaces it where all explicit register operands are one register, `indexed` where memory is
    addressed with an index (None: nothing is different). `eliminated_share` is (e, n): of n instances, e are done at
    rename without a port (move elimination). `occupies` is for how many core cycles an instance keeps the next one of
    the same variant from starting, whatever its ports are. The throughput is known then, but not its cause.

    `uneliminated` are the ports of a move that has none in `uops`, for where rename cannot eliminate it (none: it
    always can). `decoding` is None where a model says nothing of the front end. `fuses_with` are the
    mnemonics of the conditional jumps that it fuses with (None: the machine has a rule for all). `knowledge` is what
    the machine's data say; all else is made up.
    """

    uops: tuple[Uop, ...]
    slots: int
    same_register: Behaviour | None = None
    eliminated_share: tuple[int, int] = (0, 1)
    indexed: Behaviour | None = None
    occupies: Fraction = Fraction(0)
    decoding: Decoding | None = None
    fuses_with: frozenset[str] | None = None
    uneliminated: frozenset[str] = frozenset()
    knowledge: Knowledge = ALL_KNOWN

    @property
    def port_usage(self) -> PortUsage:
        """The number of µops per port set."""
        counts: dict[frozenset[str], int] = {}
        for uop in self.uops:
            if uop.ports:
                counts[uop.ports] = counts.get(uop.ports, 0) + 1
        return PortUsage(counts)


def with_index(uop: Uop, indexed: Iterable[int], no_index: str) -> Uop:
    """Return a µop as it is where the addresses of those operands have an index register.

    A store's address is then formed on other ports than `no_index` (on the same, if there are no others).
    """
    if uop.kind is not UopKind.STORE_ADDRESS or not _addressed(uop) & set(indexed):
        return uop
    return replace(uop, ports=uop.ports - set(no_index) or uop.ports)


def with_later_loads(uop: Uop, operands: Container[int], cycles: int) -> Uop:
    """Return a µop as it is where loads from the addresses of those operands take some cycles longer.

    One µop in each way from an address to a result waits for that address.
    """
    if uop.kind is UopKind.STORE_ADDRESS or not any(operand in operands for operand in _addressed(uop)):
        return uop
    return replace(uop, latency=uop.latency + cycles)


def _addressed(uop: Uop) -> set[int]:
    """Return the operands of whose addresses a µop reads a register."""
    return {one.operand for one in uop.inputs if isinstance(one, Endpoint) and one.part in ADDRESS_PARTS}


def tracked(operand: Operand) -> bool:
    """Whether a register operand carries a dependency."""
    return operand.kind is OperandKind.REGISTER and not (
        len(operand.registers) == 1 and operand.registers[0] in UNTRACKED_REGISTERS
    )


def read_flags(operand: Operand) -> list[str]:
    """Return the flags that the operand reads, conditional writes included: they keep what they do not write."""
    return [flag for flag in FLAGS if any(word in operand.flags.get(flag, "").split("/") for word in ("r", "cw"))]


def written_flags(operand: Operand) -> list[str]:
    """Return the flags that the operand writes; undefined ones are written too, with anything."""
    return [
        flag for flag in FLAGS if any(word in operand.flags.get(flag, "").split("/") for word in ("w", "cw", "undef"))
    ]


def value_inputs(variant: InstructionVariant) -> tuple[Endpoint, ...]:
    """Everything that is read but memory and addresses: registers and single flags."""
    return _values(variant, read_flags, attrgetter("read"))


def value_outputs(variant: InstructionVariant) -> tuple[Endpoint, ...]:
    """Everything that is written but memory: registers and single flags."""
    return _values(variant, written_flags, attrgetter("written"))


def _values(
    variant: InstructionVariant, flags: Callable[[Operand], Iterable[str]], is_used: Callable[[Operand], bool]
) -> tuple[Endpoint, ...]:
    """Return the flags of the flags operand, and registers that are used. A conditional write does both."""
    found: list[Endpoint] = []
    for operand in variant.operands:
        if operand.kind is OperandKind.FLAGS:
            found += [Endpoint(operand.index, flag=flag) for flag in flags(operand)]
        elif tracked(operand) and (is_used(operand) or operand.conditional_write):
            found.append(Endpoint(operand.index))
    return tuple(found)


def address_inputs(operand: Operand) -> tuple[Endpoint, ...]:
    """Return the registers of an address: base and index, apart (none where the code holds the address itself)."""
    if operand.memory is not None and operand.memory.moffs:
        return ()
    return (
        Endpoint(operand.index, LatencyPart.ADDRESS),
        Endpoint(operand.index, LatencyPart.ADDRESS_INDEX),
    )


def handing_on(variant: InstructionVariant) -> Behaviour:
    """Return one µop without a port that writes all results at once when all that is read is there."""
    places = [operand for operand in variant.operands if operand.kind in (OperandKind.MEMORY, OperandKind.AGEN)]
    addresses = [endpoint for operand in places for endpoint in address_inputs(operand)]
    loaded = [Endpoint(operand.index, LatencyPart.MEMORY) for operand in variant.read_memory]
    stored = [Endpoint(operand.index, LatencyPart.MEMORY) for operand in places if is_memory_result(operand)]
    inputs, outputs = (*value_inputs(variant), *addresses, *loaded), (*value_outputs(variant), *stored)
    return Behaviour((Uop(frozenset(), 0, inputs, outputs),), 1, knowledge=NOTHING_KNOWN)


def address_updates(variant: InstructionVariant) -> Iterator[Endpoint]:
    """Yield the registers that are written because an implicit address goes through them (RSP of PUSH)."""
    bases = {o.memory.base for o in variant.operands if o.memory is not None and o.memory.base}
    for operand in variant.operands:
        if operand.suppressed and operand.written and len(operand.registers) == 1 and operand.registers[0] in bases:
            yield Endpoint(operand.index)


def is_memory_result(operand: Operand) -> bool:
    """Whether an operand is in memory and may be written."""
    return operand.kind is OperandKind.MEMORY and (operand.written or operand.conditional_write)


def uses_vectors(variant: InstructionVariant) -> bool:
    """Whether a vector register is an operand."""
    return any(o.registers and o.registers[0].startswith(VECTORS) for o in variant.operands if tracked(o))
