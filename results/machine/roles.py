"""What the µops of a variant do: which of its ports load, store, and compute.

If the variant reads memory, µops on load ports load. If it writes memory, µops on the ports of store data and of store
addresses store. All others compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING

from results.model import port_order

if TYPE_CHECKING:
    from results.machine.constants import CoreConstants
    from results.model import PortUsage

MOST_UOPS = 500
"""µops of a variant that are made one by one; the reorder buffer of no core holds more."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The port sets of µops by what they do."""

    compute: list[frozenset[str]]
    loads: list[frozenset[str]]
    store_data: list[frozenset[str]]
    store_addresses: list[frozenset[str]]

    @property
    def total(self) -> int:
        """How many µops there are."""
        return len(self.compute) + len(self.loads) + len(self.store_data) + len(self.store_addresses)


def roles_of(usage: PortUsage | None, core: CoreConstants, *, reads: bool, writes: int) -> Roles:
    """Say what the µops do. A store's address goes to ports that only stores use, or to those of a load to spare."""
    rest = port_sets(usage)
    ports = core.ports
    store_data: list[frozenset[str]] = []
    addresses: list[frozenset[str]] = []
    if writes:
        store_data, rest = _split(rest, frozenset(ports.store_data))
        if store_data:
            able = [s for s in rest if s <= frozenset(ports.store_address)]
            pure = [s for s in able if not s <= frozenset(ports.load)]
            shared = [s for s in able if s <= frozenset(ports.load)][1 if reads else 0 :]
            addresses = [*pure, *shared][: len(store_data)]
            for one in addresses:
                rest.remove(one)
    loads: list[frozenset[str]] = []
    if reads:
        loads, rest = _split(rest, frozenset(ports.load))
    return Roles(rest, loads, store_data, addresses)


def _split(sets: list[frozenset[str]], ports: frozenset[str]) -> tuple[list[frozenset[str]], list[frozenset[str]]]:
    """Divide port sets into those that lie within some ports and the rest."""
    return [one for one in sets if one <= ports], [one for one in sets if not one <= ports]


def port_sets(usage: PortUsage | None) -> list[frozenset[str]]:
    """Return the port set of each µop, those with the fewest ports first."""
    if usage is None:
        return []
    ordered = sorted(usage.uops.items(), key=lambda item: (len(item[0]), sorted(map(port_order, item[0]))))
    return list(islice(chain.from_iterable(repeat(ports, count) for ports, count in ordered), MOST_UOPS))
