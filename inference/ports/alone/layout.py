"""The counters that count µops per port, and which ports they can tell apart."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from results.model import PORT_LETTERS, PortUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from results.ports import PortSet


@dataclass(frozen=True)
class PortLayout:
    """The counters that count µops per port: `{"p0": {0}, "p23": {2, 3}}`; ports that share a counter share a name.

    `kind` is the only kind of ports that is counted ("FP", "INT"; "": all are). Then nothing is known of other µops,
    and port names begin with it: port 0 is FP0.
    """

    counters: Mapping[str, PortSet]
    kind: str = ""

    @classmethod
    def of(cls, names: Iterable[str], kind: str = "") -> PortLayout:
        """Read counter names as a backend gives them ("p0", "p23").

        Raises:
            ValueError: a name is not `p` and port letters, or a port is counted twice.
        """
        counters = {name: frozenset(name.removeprefix("p")) for name in names}
        letters = [letter for ports in counters.values() for letter in ports]
        bad = [name for name, ports in counters.items() if not ports or not ports <= set(PORT_LETTERS)]
        if bad or len(letters) != len(set(letters)):
            raise ValueError(f"not a list of port counters: {' '.join(counters)}")
        return cls(counters, kind)

    def named(self, usage: PortUsage) -> PortUsage:
        """Return a usage with port names that begin with the kind."""
        if not self.kind:
            return usage
        return PortUsage({frozenset(self.kind + port for port in ports): n for ports, n in usage.uops.items()})

    @cached_property
    def ports(self) -> PortSet:
        """All ports that any counter counts."""
        return frozenset().union(*self.counters.values()) if self.counters else frozenset()

    @property
    def shares_counters(self) -> bool:
        """Whether any counter counts the µops of several ports together."""
        return any(len(counted) > 1 for counted in self.counters.values())

    def touching(self, ports: PortSet) -> tuple[str, ...]:
        """Return the counters that count any of the ports."""
        return tuple(name for name, counted in self.counters.items() if counted & ports)

    def separable(self, ports: PortSet) -> bool:
        """Whether counters can tell these ports from all others: no counter counts some of them and others too."""
        return all(counted <= ports for counted in self.counters.values() if counted & ports)

    def on(self, ports: PortSet, uops: Mapping[str, Fraction]) -> Fraction:
        """Return how many µops the counters that touch these ports have counted."""
        return sum((uops[name] for name in self.touching(ports)), Fraction(0))

    def first(self, counters: Mapping[str, int]) -> PortSet:
        """Return the first ports of each counter, as many as given: so ports with a shared counter are named."""
        chosen: list[str] = []
        for name, count in counters.items():
            chosen += sorted(self.counters[name], key=PORT_LETTERS.index)[:count]
        return frozenset(chosen)
