"""How much longer µops take than their ports allow: a table of contention, fitted to times of mixes.

The linear program knows which port each µop will need. A scheduler does not. If a set of ports and a larger
one around it are both full, µops of the larger set must keep away from the smaller one. Some go there nevertheless,
and other ports are idle then. An example of Zen 4: two multiplications on FP01 and a shuffle on FP12 could take one
cycle, if the shuffle always ran on FP2. They take 1.20.

The table has a share for each such pair of sets. The full share applies where both sets are as full as the fullest one.
It falls to nothing where one of them is full to `FREE` of that.

The table stands beside the ports and does not change them. What it predicts is a model, fitted to a part of the mixes
of one CPU.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from inference.ports.by_time.hypotheses import components
from inference.ports.solver import silent_solver

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from results.model import PortUsage
    from results.ports import PortSet

    NestedSets: TypeAlias = tuple[PortSet, PortSet]
    """A set of ports, and a larger one that contains it."""

FREE = 0.75
"""Load of a set as a share of the highest load. A set that is no fuller has enough free time. Of 0.70, 0.75 and 0.80,
fitted to either half of a Zen 4's mixes, all predict the other half alike (91.0, 90.9 and 89.3% within 5 %)."""

FEWEST_MIXES = 8
"""Mixes with a pair of sets that are needed to say something about it: fewer are noise."""

LEAST_SHARE = 0.01
"""Share of the time. Less is the spread of a stable measurement, and left out."""


@dataclass(frozen=True, slots=True)
class TimedUsage:
    """The port usage of a mix, the cycles that all its µops need to be issued, and its measured cycles."""

    usage: PortUsage
    issue_cycles: float
    cycles: float


@dataclass(frozen=True, slots=True)
class Contention:
    """By which share of the time of full ports µops take longer, for pairs of a set and a larger one around it."""

    shares: Mapping[NestedSets, float]

    def cycles(self, usage: PortUsage, issue_cycles: float = 0.0) -> float:
        """Return the cycles of a mix: of its fullest ports with what contention adds, or of issue if that takes longer.

        Args:
            usage: the µops of the mix.
            issue_cycles: cycles in which the mix can be issued.
        """
        return max([issue_cycles, *(one.cycles * (1 + self._added(one)) for one in _groups(usage))])

    def _added(self, group: _Group) -> float:
        return sum(self.shares.get(pair, 0.0) * weight for pair, weight in group.weights.items())


@dataclass(frozen=True, slots=True)
class _Group:
    """Connected ports: the cycles of their fullest set, and a weight for each pair of nested sets.

    The weight says how full the less full one is: 0 at `FREE` of those cycles, 1 at all of them.
    """

    cycles: float
    weights: Mapping[NestedSets, float]


def fit(mixes: Iterable[TimedUsage]) -> Contention:
    """Return the table with the least sum of errors, each as a share of its mix's time.

    Only mixes count that a single group of ports limits. Shares are never negative.
    """
    rows = [row for mix in mixes for row in _rows(mix)]
    often = Counter(pair for weights, _ in rows for pair in weights)
    pairs = sorted((pair for pair, count in often.items() if count >= FEWEST_MIXES), key=_order)
    shares = _least_errors([([weights.get(pair, 0.0) for pair in pairs], longer) for weights, longer in rows])
    return Contention({pair: share for pair, share in zip(pairs, shares, strict=False) if share >= LEAST_SHARE})


def _rows(mix: TimedUsage) -> Iterator[tuple[Mapping[NestedSets, float], float]]:
    """Yield how full nested sets are, and by which share the mix takes longer than its ports allow."""
    groups = _groups(mix.usage)
    cycles = max([mix.issue_cycles, *(one.cycles for one in groups)])
    full = [one for one in groups if one.cycles > cycles * FREE and one.weights]
    if len(full) == 1 and full[0].cycles == cycles:
        yield full[0].weights, mix.cycles / cycles - 1


def _groups(usage: PortUsage) -> list[_Group]:
    """Divide the ports into groups, so that no µop can use ports of two groups."""
    sets = [ports for ports, count in usage.uops.items() if count and ports]
    return [_group(usage, part.basic) for part in components(sets)]


def _group(usage: PortUsage, sets: Sequence[PortSet]) -> _Group:
    loads = {
        union: sum(usage.uops[one] for one in sets if one <= union) / len(union) for union in _connected_unions(sets)
    }
    cycles = max(loads.values())
    weights = {
        (inner, outer): (min(loads[inner], loads[outer]) / cycles - FREE) / (1 - FREE)
        for inner in loads
        for outer in loads
        if inner < outer and min(loads[inner], loads[outer]) > cycles * FREE
    }
    return _Group(cycles, weights)


def _connected_unions(sets: Sequence[PortSet]) -> set[PortSet]:
    """Return the unions of sets that common ports connect."""
    found, newest = set(sets), set(sets)
    while newest:
        newest = {one | other for one in newest for other in sets if one & other} - found
        found |= newest
    return found


def _order(pair: NestedSets) -> tuple[list[str], list[str]]:
    inner, outer = pair
    return sorted(inner), sorted(outer)


def _least_errors(rows: Sequence[tuple[Sequence[float], float]]) -> list[float]:
    """Return numbers from 0 on, one for each column of the rows, so that sums come nearest to the rows' values.

    The sum of absolute errors is the least, since a few mixes are slow for other reasons.

    Args:
        rows: the factors of the numbers, and the value.
    """
    import highspy  # noqa: PLC0415 - loading the solver takes longer than all the rest of a start

    columns = len(rows[0][0]) if rows else 0
    if not columns:
        return []
    solver = silent_solver()
    infinite = highspy.kHighsInf
    for _ in range(columns):
        solver.addVar(0.0, infinite)
    for number, (factors, value) in enumerate(rows):
        above, below = columns + 2 * number, columns + 2 * number + 1
        for error in (above, below):
            solver.addVar(0.0, infinite)
            solver.changeColCost(error, 1.0)
        entries = [(at, factor) for at, factor in enumerate(factors) if factor] + [(above, -1.0), (below, 1.0)]
        solver.addRow(value, value, len(entries), [at for at, _ in entries], [factor for _, factor in entries])
    solver.run()
    return [float(one) for one in list(solver.getSolution().col_value)[:columns]]
