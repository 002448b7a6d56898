"""Gives letters to resources that a file names and the core's constants do not: ports that were inferred by time.

Which of them load and store follows from the file, too: a variant with one µop that reads memory loads, one that writes
memory stores. A core of twelve ports by time has twelve resources, and twelve ports of its own in the constants. There
are not so many letters, so those of ports that the file does not name are taken, too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from results.model import PORT_LETTERS, is_by_time, port_order
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results.machine.constants import CoreConstants, Ports
    from results.model import PortUsage
    from xed_convert.model import InstructionVariant

FEWEST_VARIANTS = 3
"""Variants that show that a set of ports loads or stores: a single one may be stated wrongly."""


def with_resources(
    core: CoreConstants, usages: Iterable[tuple[InstructionVariant, PortUsage]], parts: Iterable[PortUsage] = ()
) -> CoreConstants:
    """Return a core with letters for the resources `r0`, ...: free ones first, then those of ports that nothing names.

    Args:
        core: the constants of the core.
        usages: port usages by variant, which also show which resources load and store.
        parts: usages of which only some µops are known; they name resources.
    """
    known = list(usages)
    named = (*(usage for _, usage in known), *parts)
    there = {port for usage in named for ports in usage.uops for port in ports}
    unnamed = sorted((port for port in there if is_by_time(port) and port not in core.ports.resources), key=port_order)
    if not unnamed:
        return core
    free = [letter for letter in PORT_LETTERS if letter not in core.ports.all]
    spare = _spare(core.ports, there)[: max(0, len(unnamed) - len(free))]
    own = _without(core.ports, spare)
    letters = dict(zip(unnamed, [*free, *spare], strict=False))
    loads, stores = _roles(known)
    ports = replace(
        own,
        all=own.all + "".join(letters.values()),
        resources={**own.resources, **letters},
        load=own.load + "".join(letters[port] for port in letters if port in loads),
        store_data=own.store_data + "".join(letters[port] for port in letters if port in stores),
    )
    return replace(core, ports=ports)


def _spare(ports: Ports, there: Iterable[str]) -> list[str]:
    """Return the ports that no usage names, those without a role first: what only loads or stores is missed more."""
    used = {ports.resources.get(port, port) for port in there}
    of_memory = ports.load + ports.store_address + ports.store_data
    return sorted((letter for letter in ports.all if letter not in used), key=lambda letter: letter in of_memory)


def _without(ports: Ports, gone: Iterable[str]) -> Ports:
    """Return ports without some, which have no role then."""
    table = str.maketrans("", "", "".join(gone))
    return replace(
        ports,
        all=ports.all.translate(table),
        load=ports.load.translate(table),
        store_address=ports.store_address.translate(table),
        store_data=ports.store_data.translate(table),
        alternating=" ".join(ports.alternating.translate(table).split()),
        shared_counters=tuple(filter(None, (group.translate(table) for group in ports.shared_counters))),
        no_index=ports.no_index.translate(table),
        not_taken=ports.not_taken.translate(table),
        resources={name: letter for name, letter in ports.resources.items() if letter not in gone},
    )


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
