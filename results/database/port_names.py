"""Which ports of one run are which of another, where ports have no names of their own.

Ports that are inferred by time are called r0, r1 and so on. A run that finds a set more, or one less, may call a port
something else. An example:

    POPCNT   1*r0123   1*r029A
    SHLX     1*r01     1*r02        so r2 of the second run is r1 of the first, and r9A are r23
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results.model import PortUsage

OTHER = "OTHER_"
"""What the name of a port begins with that is none of the first run's: no port by time is called so."""


def port_names(pairs: Iterable[tuple[PortUsage, PortUsage]], ports: Iterable[str] = ()) -> dict[str, str]:
    """Return the names of the first run by those of the second.

    Two ports are likely the same if the same instructions can use both. So the pair of ports comes first of which the
    fewest instructions can use only one. Of equal pairs, those of the same name come first. A port that is left over
    gets a name that no port of the first run has, such as OTHER_5 for r5. If it kept its own, it could be taken for a
    renamed one.

    Args:
        pairs: the port usages of an instruction in the first and in the second run, for many instructions.
        ports: further ports of the second run.
    """
    first, second, both = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for one, other in pairs:
        ours, theirs = (frozenset().union(*usage.uops) for usage in (one, other))
        first.update(ours)
        second.update(theirs)
        both.update((port, name) for port in ours for name in theirs)

    def order(pair: tuple[str, str]) -> tuple[Fraction, bool, str, str]:
        port, name = pair
        either = first[port] + second[name] - both[pair]
        return -Fraction(both[pair], either), port != name, port, name

    names: dict[str, str] = {}
    for port, name in sorted(both, key=order):
        if name not in names and port not in names.values():
            names[name] = port
    return {name: OTHER + name.removeprefix("r") for name in {*second, *ports}} | names
