"""Ports by time of an instruction with memory, compared with those of its form with registers.

    VPMULUDQ (YMM, YMM, M256)   1*p15+1*p23B     asked again: there is another µop besides the load
    VPMULUDQ (YMM, YMM, YMM)    1*p01

Most forms with memory have the µops of the form with registers, and loads. If a stated usage differs otherwise, it is
inferred once more, from measurements of its own. It is stated if it came out again. On an Emerald Rapids 232 of 4,014
forms with memory differ, nearly all in fact: a conversion from memory needs no shuffle, a broadcast no µop besides its
load.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from generator.errors import GenerationError
from generator.operands.registers import VECTOR_PREFIX
from generator.sequences.blocking import vector_bits
from generator.sequences.throughput import SequenceShape, ThroughputFactory
from inference.experiment import Request, repeated
from inference.ports.by_time.infer import infer_by_time
from inference.ports.by_time.mixes import cycles_of
from inference.ports.by_time.orders import in_orders
from results.findings import Indistinguishable, Note, Remark
from xed_convert.errors import EncodingError
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from fractions import Fraction

    from generator.factory import InstructionFactory
    from inference.experiment import Procedure
    from inference.ports.by_time.machine import TimedMachine
    from inference.ports.by_time.mixes import MixFactory
    from inference.ports.infer import PortConclusion
    from results.model import PortUsage
    from xed_convert.model import InstructionVariant

SHAPES = (SequenceShape(8), SequenceShape(8, breakers=True), SequenceShape(16, breakers=True, every=8))
"""Sequences whose fastest is taken for the throughput."""

SECOND = 1
"""The number of the measurements for a second inference."""

_MEMORY = re.compile(r"(?<=[( ])M\d\w*")
"""A memory operand in a variant's string: `M256`, `M32_1to8`."""


def infer_beside_registers(
    machine: TimedMachine, mixes: MixFactory, variant: InstructionVariant, cycles: Fraction, slower: Fraction
) -> Procedure[PortConclusion]:
    """Infer the port usage of a variant (see `infer_by_time`), once more if its form with registers contradicts it."""
    found = yield from in_orders(_infer(machine, mixes, variant, cycles, slower), machine.orders)
    return found if machine.orders == 1 else replace(found, steps=(Remark(Note.SEVERAL_ORDERS), *found.steps))


def _infer(
    machine: TimedMachine, mixes: MixFactory, variant: InstructionVariant, cycles: Fraction, slower: Fraction
) -> Procedure[PortConclusion]:
    found = yield from infer_by_time(machine, mixes, variant, cycles, slower)
    other = register_form(variant, mixes.instructions)
    if found.usage is None or other is None:
        return found
    time = yield from time_alone(other, mixes.instructions)
    if time is None:
        return found
    usage = (yield from infer_by_time(machine, mixes, other, time)).usage
    if usage is None or loads_more(machine, found.usage, usage):
        return found
    again = yield from repeated(infer_by_time(machine, mixes, variant, cycles, slower), SECOND)
    steps = (*found.steps, Remark(Note.UNLIKE_REGISTERS), *again.steps)
    again = replace(again, steps=steps, experiments=(*found.experiments, *again.experiments))
    if again.usage is None or again.usage == found.usage:
        return again
    return replace(again, usage=None, failure=Indistinguishable((found.usage, again.usage)))


def register_form(variant: InstructionVariant, instructions: InstructionFactory) -> InstructionVariant | None:
    """Return the variant that has a register where this one reads memory; None if there is none, or it writes there."""
    memory = [one for one in variant.operands if one.kind is OperandKind.MEMORY]
    if len(memory) != 1 or memory[0].written or len(_MEMORY.findall(variant.string)) != 1:
        return None
    names = _registers(vector_bits(memory[0]), first_general="(R" in variant.string or " R" in variant.string)
    found = (instructions.get(_MEMORY.sub(name, variant.string)) for name in names)
    return next((one for one in found if one is not None), None)


def _registers(bits: int, *, first_general: bool) -> list[str]:
    """Return the names of registers that may stand for so much memory."""
    vector = next((name for size, name in VECTOR_PREFIX.items() if bits <= size), "ZMM")
    general = f"R{bits}"
    return [general, vector, "MM"] if first_general else [vector, "MM", general]


def loads_more(machine: TimedMachine, usage: PortUsage, of_registers: PortUsage) -> bool:
    """Whether a usage has the µops of the form with registers, and beside these nothing but loads."""
    more = {ports: count - of_registers.uops.get(ports, 0) for ports, count in usage.uops.items()}
    memory = [machine.public(one.ports) for one in machine.sets if one.is_of_memory]
    return of_registers.uops.keys() <= usage.uops.keys() and all(
        count == 0 or (count > 0 and any(ports <= one for one in memory)) for ports, count in more.items()
    )


def time_alone(variant: InstructionVariant, instructions: InstructionFactory) -> Procedure[Fraction | None]:
    """Measure how long an instance takes among others of its kind, in core cycles; None if nothing ran."""
    factory = ThroughputFactory(instructions, variant)
    requests = []
    for shape in SHAPES:
        try:
            requests.append(Request(factory.sequence(shape), loop=True))
        except (GenerationError, EncodingError):
            continue
    measured = (yield requests) if requests else []
    times = [cycles / one.request.benchmark.divisor for one in measured if (cycles := cycles_of(one)) is not None]
    return min(times, default=None)
