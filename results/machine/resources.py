"""Gives letters to resources that a file names and the core's constants do not: ports that were inferred by time.

Which of them load and store follows from the file, too: a variant with one µop that reads memory loads, one that writes
memory stores.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from results.model import PORT_LETTERS, is_by_time, port_order
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results.machine.constants import CoreConstants
    from results.model import PortUsage
    from xed_convert.model import InstructionVariant

FEWEST_VARIANTS = 3
"""Variants that show that a set of ports loads or stores: a single one may be stated wrongly."""


def with_resources(
    core: CoreConstants, usages: Iterable[tuple[InstructionVariant, PortUsage]], parts: Iterable[PortUsage] = ()
) -> CoreConstants:
    """Return a core with letters for the resources `r0`, ..., as many as there are letters left.

    Args:
        core: the constants of the core.
        usages: port usages by variant, which also show which resources load and store.
        parts: usages of which only some µops are known; they name resources.
    """
    known = list(usages)
    named = (*(usage for _, usage in known), *parts)
    there = {port for usage in named for ports in usage.uops for port in ports}
    unnamed = sorted((port for port in there if is_by_time(port) and port not in core.ports.resources), key=port_order)
    free = [letter for letter in PORT_LETTERS if letter not in core.ports.all]
    letters = dict(zip(unnamed, free, strict=False))
    if not letters:
        return core
    loads, stores = _roles(known)
    ports = replace(
        core.ports,
        all=core.ports.all + "".join(letters.values()),
        resources={**core.ports.resources, **letters},
        load=core.ports.load + "".join(letters[port] for port in letters if port in loads),
        store_data=core.ports.store_data + "".join(letters[port] for port in letters if port in stores),
    )
    return replace(core, ports=ports)


def _roles(usages: Iterable[tuple[InstructionVariant, PortUsage]]) -> tuple[set[str], set[str]]:
    """Return the resources that load, and those that store."""
    loads: Counter[frozenset[str]] = Counter()
    stores: Counter[frozenset[str]] = Counter()
    for variant, usage in usages:
        places = [operand for operand in variant.operands if operand.kind is OperandKind.MEMORY]
        if usage.total != 1 or len(places) != 1 or not all(map(is_by_time, *usage.uops)):
            continue
        (ports,) = usage.uops
        (place,) = places
        if place.written != place.read:
            (stores if place.written else loads)[ports] += 1
    return _common(loads), _common(stores)


def _common(found: Counter[frozenset[str]]) -> set[str]:
    return {port for ports, count in found.items() if count >= FEWEST_VARIANTS for port in ports}
