"""Names of ports that share a counter: no measurement says which of them is which, so inference may exchange them.

An answer is right if renaming ports that share a counter makes it the true one, or one of several that it names. The
same renaming must serve all answers about a machine.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import TYPE_CHECKING

from results.ports import renamed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from results.model import PortUsage

PortNames = dict[str, str]
"""The true name by the name that inference has given; ports that are not in it keep theirs."""


def all_names(groups: Iterable[str]) -> Iterator[PortNames]:
    """Yield every way to name the ports that share counters, the one that changes nothing first."""
    shared = [group for group in groups if len(group) > 1]
    for orders in product(*(permutations(group) for group in shared)):
        yield {
            old: new for group, order in zip(shared, orders, strict=True) for old, new in zip(group, order, strict=True)
        }


def best_names(groups: Iterable[str], answers: Sequence[tuple[Sequence[PortUsage], PortUsage]]) -> PortNames:
    """Return the names that make most answers right; of equals, those that change least.

    Args:
        groups: the ports of each counter.
        answers: the usage that is stated, or those that are named, beside the true one. What is stated comes first.
    """

    def right(names: PortNames) -> tuple[int, int, int]:
        fits = [any(renamed(one, names).uops == true.uops for one in given) for given, true in answers]
        stated = sum(fit and len(given) == 1 for fit, (given, _) in zip(fits, answers, strict=True))
        return stated, sum(fits), sum(old == new for old, new in names.items())

    return max(all_names(groups), key=right)
