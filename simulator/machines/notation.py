"""Graphs of µops as text: the notation that tables use.

µops are separated by `;`, their parts by blanks: the port set (`-` for none), the latency, then any of

    <1  <2.addr  <2.index  <2.mem  <CF  <F  <u1  <*     inputs: operand 1; the base, the index, the content of the
                                                        memory operand 2; one flag; all flags that the variant
                                                        reads; µop 1 of the graph; everything that the variant reads
                                                        but memory operands
    >1  >2.mem  >CF  >F  >*                             outputs likewise
    div=10   fast=8/4                                   cycles on the divider; latency and cycles on the divider for
                                                        fast operand values

For example, `p0 3 <1 <2; p015 1 <u1 <F >*` is an instruction of two µops.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from results.machine.graph import (
    FLAGS,
    Endpoint,
    ModelError,
    Uop,
    UopKind,
    read_flags,
    value_inputs,
    value_outputs,
    written_flags,
)
from results.model import PORT_LETTERS, LatencyPart
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from xed_convert.model import InstructionVariant


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
    """Return the kind of a µop, which follows from the parts of memory operands that it uses."""
    addresses = any(isinstance(i, Endpoint) and i.part.startswith("addr") for i in inputs)
    if any(isinstance(i, Endpoint) and i.part is LatencyPart.MEMORY for i in inputs):
        return UopKind.LOAD
    if any(o.part is LatencyPart.MEMORY for o in outputs):
        return UopKind.STORE_ADDRESS if addresses else UopKind.STORE_DATA
    return UopKind.COMPUTE


def parse_graph(variant: InstructionVariant, text: str, where: str) -> tuple[Uop, ...]:
    """Read the notation of the module's docstring; `where` ("file:line") begins every error message.

    Raises:
        ModelError: the text is not of that form, or names an operand or flag that the variant does not have.
    """
    reader = _Reader(variant, text, where)
    return tuple(reader.uop(part, number) for number, part in enumerate(text.split(";")))
