"""Which parts of sets what computes on a load has: tried with forms of the sets' instructions that read memory."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from generator.operands.registers import VECTOR_PREFIX
from inference.ports.by_time.counterparts import register_form, time_alone
from inference.ports.by_time.infer import infer_by_time
from inference.ports.by_time.machine import KnownPart
from results.findings import Indistinguishable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from generator.factory import InstructionFactory
    from inference.experiment import Procedure
    from inference.ports.by_time.machine import TimedMachine
    from inference.ports.by_time.mixes import MixFactory
    from inference.ports.infer import PortConclusion
    from results.model import PortUsage
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant

MOST_EXAMPLES = 3
"""Forms of one set's instructions that are tried: the first one may wait for something else."""

_BITS = {prefix: bits for bits, prefix in VECTOR_PREFIX.items()}

_REGISTER = re.compile(r"(?<=[( ])(?:R(\d+)|([XY]MM))(?=[,)])")
"""A register operand in a variant's string: `R64`, `XMM`."""


def find_parts(machine: TimedMachine, mixes: MixFactory) -> Procedure[tuple[KnownPart, ...]]:
    """Return the parts of a machine's sets that its instructions have if they read memory.

    Of alike ports, the first part decides which are meant. A part of another set that would decide about some of these
    once more is left out.
    """
    found: list[KnownPart] = []
    chosen = set[str]()
    for one in machine.sets:
        whole = machine.public(one.ports)
        forms = (form for member in one.members for form in memory_forms(member, mixes.instructions))
        for form in islice(forms, MOST_EXAMPLES if len(whole) > 1 else 0):
            time = yield from time_alone(form, mixes.instructions)
            if time is None:
                continue
            usages, parts = alike_parts(machine, whole, (yield from infer_by_time(machine, mixes, form, time)))
            alike = frozenset[str]().union(*parts) - frozenset(whole).intersection(*parts)
            if parts and not alike & chosen:
                chosen |= alike
                part, usage = min(zip(parts, usages, strict=True), key=lambda pair: sorted(pair[0]))
                found.append(KnownPart(whole, part, form, usage))
                break
    return tuple(found)


def memory_forms(member: str, instructions: InstructionFactory) -> Iterator[InstructionVariant]:
    """Yield the variants that read memory where this one reads a register."""
    for match in _REGISTER.finditer(member):
        memory = f"M{match[1] or _BITS[match[2]]}"
        form = instructions.get(member[: match.start()] + memory + member[match.end() :])
        other = None if form is None else register_form(form, instructions)
        if form is not None and other is not None and other.string == member:
            yield form


def alike_parts(
    machine: TimedMachine, whole: PortSet, found: PortConclusion
) -> tuple[tuple[PortUsage, ...], list[PortSet]]:
    """Return the usages that were found for an instruction, and its part of a set in each; none if it is not alike.

    Parts that are sets themselves are not alike: instructions show them.
    """
    if not isinstance(found.failure, Indistinguishable):
        return (), []
    known = {machine.public(one.ports) for one in machine.sets}
    parts = [[ports for ports in usage.uops if ports <= whole] for usage in found.failure.usages]
    if not all(len(some) == 1 and some[0] not in known for some in parts):
        return (), []
    return found.failure.usages, [part for (part,) in parts]
