"""What a machine does with one instruction variant: a graph of µops.

A µop has a set of ports that it may use (none: it is done at rename), a latency, inputs (operands and earlier µops of
the same instruction) and outputs (operands). The latency of a pair of operands is the longest path between them.

Graphs are written in a notation that tables use. µops are separated by `;`, their parts by blanks: the port set (`-`
for none), the latency, then any of

    <1  <2.addr  <2.index  <2.mem  <CF  <F  <u1  <*     inputs: operand 1; the base, the index, the content of the
                                                        memory operand 2; one flag; all flags that the variant
                                                        reads; µop 1 of the graph; everything that the variant reads
                                                        that is no part of a memory operand
    >1  >2.mem  >CF  >F  >*                             outputs likewise
    div=10   fast=8/4                                   occupies the divider so many cycles; latency and occupancy
                                                        when the values are fast

so that `p0 3 <1 <2; p015 1 <u1 <F >*` is an instruction of two µops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from results.model import PORT_LETTERS, LatencyPart, PortUsage, port_set_name
from xed_convert.errors import UopscopeError
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from xed_convert.model import InstructionVariant, Operand

UNTRACKED_REGISTERS = frozenset({"RIP", "X87PUSH", "X87POP", "X87POP2", "TSC", "MSRS", "TSCAUX"})
"""Registers that carry no dependency worth modelling: program counter, stack movements, things read from outside."""

FLAGS = ("CF", "PF", "AF", "ZF", "SF", "OF", "DF", "FC0", "FC1", "FC2", "FC3")
"""The flags that are renamed each by itself; control flags (IF, IOPL, ...) are not modelled."""


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
class Behaviour:
    """The µops of a variant. `slots` is how many places in the fused domain they take (issue, reorder buffer).

    `same_register` replaces the µops where all explicit register operands are one register. `eliminated_share` is
    (e, n): of n instances, e are done at rename without a port (move elimination).
    """

    uops: tuple[Uop, ...]
    slots: int
    same_register: Behaviour | None = None
    eliminated_share: tuple[int, int] = (0, 1)

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
    addressed = {one.operand for one in uop.inputs if isinstance(one, Endpoint) and one.part in ADDRESS_PARTS}
    if uop.kind is not UopKind.STORE_ADDRESS or not addressed & set(indexed):
        return uop
    return replace(uop, ports=uop.ports - set(no_index) or uop.ports)


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
    found: list[Endpoint] = []
    for operand in variant.operands:
        if operand.kind is OperandKind.FLAGS:
            found += [Endpoint(operand.index, flag=flag) for flag in read_flags(operand)]
        elif tracked(operand) and (operand.read or operand.conditional_write):
            found.append(Endpoint(operand.index))
    return tuple(found)


def value_outputs(variant: InstructionVariant) -> tuple[Endpoint, ...]:
    """Everything that is written but memory: registers and single flags."""
    found: list[Endpoint] = []
    for operand in variant.operands:
        if operand.kind is OperandKind.FLAGS:
            found += [Endpoint(operand.index, flag=flag) for flag in written_flags(operand)]
        elif tracked(operand) and (operand.written or operand.conditional_write):
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


class _Reader:
    """Reads the notation for one variant."""

    def __init__(self, variant: InstructionVariant, text: str, where: str) -> None:
        self.variant, self.text, self.where = variant, text, where
        self.flags_operand = next((o for o in variant.operands if o.kind is OperandKind.FLAGS), None)

    def fail(self, what: str) -> ModelError:
        return ModelError(f"{self.where}: {what} in the graph {self.text!r} of {self.variant.string}")

    def endpoints(self, name: str, *, written: bool) -> Iterator[Endpoint]:
        if name == "*":
            yield from value_outputs(self.variant) if written else value_inputs(self.variant)
        elif name == "F" or name in FLAGS:
            yield from self._flags(name, written=written)
        else:
            number, _, part = name.partition(".")
            parts = {"": "", "addr": "addr", "index": "addr_index", "mem": "mem"}
            if not number.isdigit() or part not in parts or int(number) not in {o.index for o in self.variant.operands}:
                raise self.fail(f"{name!r} is no operand")
            yield Endpoint(int(number), LatencyPart(parts[part]))

    def _flags(self, name: str, *, written: bool) -> Iterator[Endpoint]:
        if self.flags_operand is None:
            raise self.fail("the variant has no flags, but they are named")
        has = written_flags(self.flags_operand) if written else read_flags(self.flags_operand)
        if name != "F" and name not in has:
            raise self.fail(f"{name} is named, but the variant does not {'write' if written else 'read'} it")
        yield from (Endpoint(self.flags_operand.index, flag=flag) for flag in has if name in ("F", flag))

    def uop(self, text: str, earlier: int) -> Uop:
        ports, latency, *rest = [*text.split(), "", ""][: max(2, len(text.split()))]
        if not latency.isdigit() or not (ports == "-" or (ports[:1] == "p" and set(ports[1:]) <= set(PORT_LETTERS))):
            raise self.fail(f"{text.strip()!r} does not begin with ports and a latency")
        uop = Uop(frozenset(ports[1:]) if ports != "-" else frozenset(), int(latency), ())
        inputs: list[Endpoint | int] = []
        outputs: list[Endpoint] = []
        for word in rest:
            if word[:2] == "<u" and word[2:].isdigit() and 1 <= int(word[2:]) <= earlier:
                inputs.append(int(word[2:]) - 1)
            elif word[:1] == "<":
                inputs += self.endpoints(word[1:], written=False)
            elif word[:1] == ">":
                outputs += self.endpoints(word[1:], written=True)
            else:
                uop = self._option(uop, word)
        return replace(uop, inputs=tuple(inputs), outputs=tuple(outputs), kind=_kind(inputs, outputs))

    def _option(self, uop: Uop, word: str) -> Uop:
        name, _, value = word.partition("=")
        if name == "div" and value.isdigit():
            return replace(uop, divider_cycles=int(value))
        latency, _, cycles = value.partition("/")
        if name == "fast" and latency.isdigit() and cycles.isdigit():
            return replace(uop, fast=(int(latency), int(cycles)))
        raise self.fail(f"{word!r} is not understood")


def _kind(inputs: Iterable[Endpoint | int], outputs: Iterable[Endpoint]) -> UopKind:
    """Say what a µop does; it follows from the memory parts that it touches."""
    addresses = any(isinstance(i, Endpoint) and i.part.startswith("addr") for i in inputs)
    if any(isinstance(i, Endpoint) and i.part is LatencyPart.MEMORY for i in inputs):
        return UopKind.LOAD
    if any(o.part is LatencyPart.MEMORY for o in outputs):
        return UopKind.STORE_ADDRESS if addresses else UopKind.STORE_DATA
    return UopKind.COMPUTE


def parse_graph(variant: InstructionVariant, text: str, where: str) -> tuple[Uop, ...]:
    """Read the notation of the module's docstring; `where` ("file:line") begins every error message.

    Raises:
        ModelError: the text is not of that form, or names what the variant does not have.
    """
    reader = _Reader(variant, text, where)
    return tuple(reader.uop(part, number) for number, part in enumerate(text.split(";")))


def describe(uops: Iterable[Uop]) -> str:
    """Write µops for people: ports, latency, and what they depend on."""
    return "; ".join(
        f"{port_set_name(uop.ports) if uop.ports else '-'} {uop.latency}"
        + "".join(f" <u{i + 1}" if isinstance(i, int) else f" <{_name(i)}" for i in uop.inputs)
        + "".join(f" >{_name(o)}" for o in uop.outputs)
        for uop in uops
    )


def _name(endpoint: Endpoint) -> str:
    part = {LatencyPart.ADDRESS: ".addr", LatencyPart.ADDRESS_INDEX: ".index", LatencyPart.MEMORY: ".mem"}
    return endpoint.flag or f"{endpoint.operand}{part.get(endpoint.part, '')}"
