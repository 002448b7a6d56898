"""Sets of ports, and what a port usage implies: arithmetic that inference, simulator and analysis share.

The formulas are those of Abel and Reineke, ASPLOS 2019, §5.1.2 (µops confined to a set) and §5.3.2 (throughput from
port usage). Port sets are `frozenset`s of one-letter port names, as in `results.model`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from results.model import PORT_LETTERS, PortUsage, port_set_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PortSet: TypeAlias = frozenset[str]
"""A set of ports, each one letter of `PORT_LETTERS`."""

CLOSED_FORM_SETS = 14
"""Port sets.

Up to this number the closed form looks at all their unions (16,384 at most); above it, the linear program is quicker.
"""


def confined(usage: PortUsage, ports: PortSet) -> int:
    """Return how many µops can use no port outside of the set."""
    return sum(count for able, count in usage.uops.items() if able <= ports)


def joined(one: PortUsage, other: PortUsage) -> PortUsage:
    """Return the µops of both."""
    return PortUsage({ports: one.uops.get(ports, 0) + other.uops.get(ports, 0) for ports in {**one.uops, **other.uops}})


def moved(usage: PortUsage, source: PortSet, target: PortSet, count: int) -> PortUsage:
    """Return a usage in which `count` µops of one set have another one instead."""
    uops = {**usage.uops, source: usage.uops[source] - count, target: usage.uops.get(target, 0) + count}
    return PortUsage({ports: n for ports, n in uops.items() if n})


def throughput_of(usage: PortUsage) -> Fraction:
    """Return the least cycles per instruction that the ports allow, exactly.

    This is the optimum of the linear program of §5.3.2. By max-flow/min-cut it equals the highest load of any set of
    ports, |µops confined to it| / |ports in it|, and only unions of the µops' own sets can be the highest.
    """
    sets = tuple(sorted((able for able, count in usage.uops.items() if count), key=sorted))
    if len(sets) > CLOSED_FORM_SETS:
        return throughput_by_linear_program(usage)
    counts = tuple(usage.uops[able] for able in sets)
    return _closed_form(sets, counts)


@lru_cache(maxsize=65536)
def _closed_form(sets: tuple[PortSet, ...], counts: tuple[int, ...]) -> Fraction:
    masks = [mask_of(ports) for ports in sets]
    load = Fraction(0)
    for union in mask_unions(masks):
        inside = sum([count for mask, count in zip(masks, counts, strict=True) if not mask & ~union])
        size = union.bit_count()
        if inside * load.denominator > load.numerator * size:
            load = Fraction(inside, size)
    return load


@cache
def mask_of(ports: PortSet) -> int:
    """Return a set as an integer with a bit per port, which is quicker to unite and to compare."""
    return sum(1 << PORT_LETTERS.index(port) for port in ports)


@cache
def ports_of(mask: int) -> PortSet:
    """Return the set of which `mask_of` returns the integer."""
    return frozenset(port for number, port in enumerate(PORT_LETTERS) if mask >> number & 1)


def mask_unions(masks: Iterable[int]) -> list[int]:
    """Return every union of one or more sets, as `mask_of` writes them, without duplicates."""
    found: set[int] = set()
    for one in masks:
        found |= {one | other for other in found}
        found.add(one)
    return list(found)


def throughput_by_linear_program(usage: PortUsage) -> Fraction:
    """Return the same as `throughput_of` by the linear program itself, solved by HiGHS.

    The result is rounded to the nearest fraction that a port count can give, so that it is exact.
    """
    import numpy as np  # noqa: PLC0415 - loading the solver takes longer than all the rest of a start
    from scipy.optimize import linprog  # noqa: PLC0415

    sets = [able for able, count in usage.uops.items() if count]
    if not sets:
        return Fraction(0)
    ports = sorted(frozenset().union(*sets))
    pairs = [(row, ports.index(port)) for row, able in enumerate(sets) for port in sorted(able)]
    cost = np.zeros(len(pairs) + 1)
    cost[-1] = 1.0
    sums = np.zeros((len(sets), len(pairs) + 1))
    loads = np.zeros((len(ports), len(pairs) + 1))
    loads[:, -1] = -1.0
    for column, (row, port) in enumerate(pairs):
        sums[row, column] = 1.0
        loads[port, column] = 1.0
    counts = np.array([usage.uops[able] for able in sets], dtype=float)
    solution = linprog(cost, A_ub=loads, b_ub=np.zeros(len(ports)), A_eq=sums, b_eq=counts, method="highs")
    assert solution.fun is not None
    return Fraction(float(solution.fun)).limit_denominator(len(ports))


def describe(sets: Iterable[PortSet]) -> str:
    """Write port sets for people, smaller ones first: `p0, p06, p0156`."""
    return ", ".join(port_set_name(one) for one in sorted(sets, key=lambda one: (len(one), port_set_name(one))))


def pairs_of(sets: Sequence[PortSet]) -> list[tuple[PortSet, PortSet]]:
    """Return all pairs of sets neither of which contains the other."""
    return [(one, other) for one, other in combinations(sets, 2) if not (one <= other or other <= one)]
