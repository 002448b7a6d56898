"""Sets of ports, and what a port usage implies: arithmetic that inference, simulator and analysis share.

The formulas are those of Abel and Reineke, ASPLOS 2019, §5.1.2 (µops confined to a set) and §5.3.2 (throughput from
port usage). Port sets are `frozenset`s of one-letter port names, as in `results.model`.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache, lru_cache, reduce
from itertools import combinations
from math import ceil
from operator import or_
from typing import TYPE_CHECKING, TypeAlias

from results.model import PORT_LETTERS, PortUsage, port_set_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PortSet: TypeAlias = frozenset[str]
"""A set of ports, each one letter of `PORT_LETTERS`."""

CLOSED_FORM_SETS = 14
"""Port sets.

Up to this number the closed form looks at all their unions (16,384 at most); above it, maximum flows are quicker.
"""


def confined(usage: PortUsage, ports: PortSet) -> int:
    """Return how many µops can use no port outside of the set."""
    return sum(count for able, count in usage.uops.items() if able <= ports)


def joined(one: PortUsage, other: PortUsage) -> PortUsage:
    """Return the µops of both."""
    return PortUsage({ports: one.uops.get(ports, 0) + other.uops.get(ports, 0) for ports in {**one.uops, **other.uops}})


def scaled(usage: PortUsage, times: int) -> PortUsage:
    """Return the µops of several instances."""
    return PortUsage({ports: count * times for ports, count in usage.uops.items()})


def moved(usage: PortUsage, source: PortSet, target: PortSet, count: int) -> PortUsage:
    """Return a usage in which `count` µops of one set have another one instead."""
    uops = {**usage.uops, source: usage.uops[source] - count, target: usage.uops.get(target, 0) + count}
    return PortUsage({ports: n for ports, n in uops.items() if n})


def renamed(usage: PortUsage, names: Mapping[str, str]) -> PortUsage:
    """Return a usage with its ports renamed; ports that are not in `names` keep theirs."""
    counts: Counter[PortSet] = Counter()
    for ports, count in usage.uops.items():
        counts[frozenset(names.get(port, port) for port in ports)] += count
    return PortUsage(dict(counts))


def common_part(usages: Iterable[PortUsage]) -> PortUsage:
    """Return the µops that each of several usages has.

    A µop may have other ports in each, as long as some are the same, or a set of a usage has all of them. Then it is
    certain that it uses one of all these. So `1*p23`, `1*p2` and `1*p237` have `1*p237` in common, and `1*p0+1*p1` and
    `2*p01` have `2*p01`.
    """
    listed = list(usages)
    known = {ports for usage in listed for ports in usage.uops}
    return reduce(lambda one, other: _common(one, other, known), listed)


def _common(one: PortUsage, other: PortUsage, known: Iterable[PortSet]) -> PortUsage:
    """Pair the µops of two usages so that each pair has few ports, the same sets first."""
    left, right = (Counter({ports: n for ports, n in usage.uops.items() if ports}) for usage in (one, other))
    found: Counter[PortSet] = Counter()
    pairs = [(a, b) for a in left for b in right if a & b or any(a | b <= ports for ports in known)]
    for a, b in sorted(pairs, key=lambda pair: (pair[0] != pair[1], len(pair[0] | pair[1]), *map(sorted, pair))):
        count = min(left[a], right[b])
        left[a], right[b] = left[a] - count, right[b] - count
        found[a | b] += count
    return PortUsage({ports: count for ports, count in found.items() if count})


ISSUE_NOISE = Fraction(21, 20)
"""Factor by which a measured throughput may be too short: values have two decimals, and noise."""


def is_issued_in(slots: int, cycles: Fraction, width: int) -> bool:
    """Whether so many slots can be issued in a measured throughput, at `width` per cycle."""
    return slots <= cycles * ISSUE_NOISE * width


def least_ports(cycles: Fraction) -> int:
    """Return how many ports a µop can choose from at least, if it uses any and is done once in so many cycles.

    Instances that follow each other need `cycles` times so many ports. Noise may only make the number smaller.
    """
    return ceil(1 / (cycles * ISSUE_NOISE)) if cycles > 0 else 1


def least_choice(times: Iterable[Fraction | None]) -> int | None:
    """Return the `least_ports` of the fastest of some times, those that are known; None if there may be no choice."""
    ports = max((least_ports(time) for time in times if time is not None), default=1)
    return ports if ports > 1 else None


def throughput_of(usage: PortUsage) -> Fraction:
    """Return the least cycles per instruction that the ports allow, exactly.

    This is the optimum of the linear program of §5.3.2. By max-flow/min-cut it equals the highest load of any set of
    ports: |µops confined to it| / |ports in it|. Only unions of the µops' own sets can be the highest.
    """
    sets = tuple(sorted((able for able, count in usage.uops.items() if count), key=sorted))
    if len(sets) > CLOSED_FORM_SETS:
        return throughput_by_flow(usage)
    counts = tuple(usage.uops[able] for able in sets)
    return _closed_form(sets, counts)


@lru_cache(maxsize=65536)
def _closed_form(sets: tuple[PortSet, ...], counts: tuple[int, ...]) -> Fraction:
    mask = _masks(sets)
    return _fullest_union([(mask[ports], count) for ports, count in zip(sets, counts, strict=True)])[0]


def _masks(sets: Iterable[PortSet]) -> dict[PortSet, int]:
    """Return sets as integers with a bit per port, whatever the ports are called."""
    every = list(sets)
    places = {port: place for place, port in enumerate(sorted(frozenset().union(*every)))}
    return {ports: sum(1 << places[port] for port in ports) for ports in every}


def _fullest_union(uops: Sequence[tuple[int, int]]) -> tuple[Fraction, int]:
    """Return the highest load of any union of sets, and that union."""
    most, ports, full = 0, 1, 0
    for union in mask_unions([mask for mask, _ in uops]):
        inside = sum([count for mask, count in uops if not mask & ~union])
        size = union.bit_count()
        if inside * ports > most * size:
            most, ports, full = inside, size, union
    return Fraction(most, ports), full


def fullest(uops: Mapping[int, int]) -> tuple[Fraction, int]:
    """Return the highest load of any ports, in cycles, and these ports.

    Args:
        uops: the number of µops by the ports that they can use; ports are bits of any numbering.
    """
    if len(uops) > CLOSED_FORM_SETS:
        return _by_flow(uops)
    return _fullest_union([(mask, count) for mask, count in uops.items() if mask and count])


def distribution(uops: Mapping[int, int]) -> dict[int, dict[int, Fraction]]:
    """Return on which ports the µops of each set run if all ports are loaded as evenly as possible.

    The fullest ports take what can run nowhere else; what can also run elsewhere does. Then the next fullest follow.

    Args:
        uops: the number of µops by the ports that they can use, as for `fullest`.

    Returns:
        for each set the µops on each of its ports (a bit); their sum is the number of µops.
    """
    left = {able: able for able, count in uops.items() if able and count}
    found: dict[int, dict[int, Fraction]] = {}
    while left:
        counts: Counter[int] = Counter()
        for able, rest in left.items():
            counts[rest] += uops[able]
        load, full = fullest(counts)
        inside = {rest: count for rest, count in counts.items() if not rest & ~full}
        placed = _Distribution(inside, load)
        assert not placed.overloaded()
        for able, rest in [pair for pair in left.items() if pair[1] in inside]:
            part = Fraction(uops[able], inside[rest] * load.denominator)
            found[able] = {bit: part * on[rest] for bit, on in placed.on.items() if on[rest]}
            del left[able]
        left = {able: rest & ~full for able, rest in left.items()}
    return found


@cache
def mask_of(ports: PortSet) -> int:
    """Return a set as an integer with a bit per port, which is quicker to unite and to compare."""
    return sum(1 << PORT_LETTERS.index(port) for port in ports)


@cache
def ports_of(mask: int) -> PortSet:
    """Return the set that `mask_of` turned into this integer."""
    return frozenset(port for number, port in enumerate(PORT_LETTERS) if mask >> number & 1)


def mask_unions(masks: Iterable[int]) -> list[int]:
    """Return every union of one or more sets, as `mask_of` writes them, without duplicates."""
    found: set[int] = set()
    for one in masks:
        found |= {one | other for other in found}
        found.add(one)
    return list(found)


def throughput_by_flow(usage: PortUsage) -> Fraction:
    """Return the same as `throughput_of`, by maximum flows, however many sets there are.

    The first load tried is the average over all ports. If the µops do not fit into the ports in that time, some ports
    are too full. Their own average is higher, and is tried next (Dinkelbach's method).
    """
    mask = _masks(usage.uops)
    return _by_flow({mask[able]: count for able, count in usage.uops.items()})[0]


def _by_flow(counts: Mapping[int, int]) -> tuple[Fraction, int]:
    """Return the highest load, and its ports."""
    uops = {able: count for able, count in counts.items() if able and count}
    load, full, fullest_ports = Fraction(0), reduce(or_, uops, 0), 0
    while full:
        load, fullest_ports = (
            Fraction(sum(count for able, count in uops.items() if not able & ~full), full.bit_count()),
            full,
        )
        full = _Distribution(uops, load).overloaded()
    return load, fullest_ports


class _Distribution:
    """µops put on ports, each port for a given time at most; in units of a cycle by the load's denominator."""

    def __init__(self, uops: Mapping[int, int], load: Fraction) -> None:
        self.demands = {able: count * load.denominator for able, count in uops.items()}
        self.left = dict.fromkeys(_bits(reduce(or_, uops, 0)), load.numerator)
        self.on: dict[int, Counter[int]] = {bit: Counter() for bit in self.left}
        """How much of which set is on each port."""

    def overloaded(self) -> int:
        """Return ports that are too few for the µops confined to them; 0 if all µops fit."""
        for able, demand in self.demands.items():
            done = 0
            while done < demand:
                came_from, end = self._search(able)
                if end is None:
                    return sum(came_from)
                done += self._put(able, demand - done, came_from, end)
        return 0

    def _search(self, able: int) -> tuple[dict[int, tuple[int, int] | None], int | None]:
        """Return the ports that can be reached from a set, and the first one with time left (None: all are full).

        Beside each port stands what makes room for it: from which port a µop moves there, and of which set.
        """
        came_from: dict[int, tuple[int, int] | None] = dict.fromkeys(_bits(able))
        waiting = list(came_from)
        for bit in waiting:
            if self.left[bit]:
                return came_from, bit
            for other in +self.on[bit]:
                for free in _bits(other):
                    if free not in came_from:
                        came_from[free] = bit, other
                        waiting.append(free)
        return came_from, None

    def _put(self, able: int, demand: int, came_from: Mapping[int, tuple[int, int] | None], end: int) -> int:
        """Put as much of a set on the ports as one path allows, and move what is in its way; return how much."""
        moves, bit = [], end
        while step := came_from[bit]:
            moves.append((*step, bit))
            bit = step[0]
        amount = min([demand, self.left[end], *(self.on[source][other] for source, other, _ in moves)])
        for source, other, target in moves:
            self.on[source][other] -= amount
            self.on[target][other] += amount
        self.on[bit][able] += amount
        self.left[end] -= amount
        return amount


def _bits(mask: int) -> list[int]:
    return [1 << at for at in range(mask.bit_length()) if mask >> at & 1]


def describe(sets: Iterable[PortSet]) -> str:
    """Write port sets for people, smaller ones first: `p0, p06, p0156`."""
    return ", ".join(port_set_name(one) for one in sorted(sets, key=lambda one: (len(one), port_set_name(one))))


def pairs_of(sets: Sequence[PortSet]) -> list[tuple[PortSet, PortSet]]:
    """Return all pairs of sets neither of which contains the other."""
    return [(one, other) for one, other in combinations(sets, 2) if not (one <= other or other <= one)]


def threes_of(sets: Sequence[PortSet]) -> list[tuple[PortSet, PortSet, PortSet]]:
    """Return all triples of pairwise disjoint sets."""
    return [(one, two, three) for one, two, three in combinations(sets, 3) if not (one & two or (one | two) & three)]
