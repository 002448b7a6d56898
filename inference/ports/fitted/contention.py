"""How much longer µops take than their ports allow: a table of contention, fitted to times of mixes.

The linear program knows which port each µop will need. A scheduler does not. If a set of ports and a larger
one around it are both full, µops of the larger set must keep away from the smaller one. Some go there nevertheless,
and other ports are idle then. An example of Zen 4: two multiplications on FP01 and a shuffle on FP12 could take one
cycle, if the shuffle always ran on FP2. They take 1.20.

The table has a share for each such pair of sets. The full share applies where both sets are as full as the fullest one.
It falls, with the square, to nothing where one of them is full to `FREE` of that.

Other causes are known rules, and depend on the order of the code. A core may issue instructions whole (`grouped`), or
choose a scheduler for each µop (`schedulers`). The mixes show which of these hold. The table is fitted to those that no
rule makes slower than ports do, and the largest prediction counts.

The table stands beside the ports and does not change them. What it predicts is a model, fitted to a part of the mixes
of one CPU.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from inference.ports.by_time.hypotheses import components
from inference.ports.fitted.grouped import issue_cycles
from inference.ports.fitted.schedulers import known_schedulers
from inference.ports.solver import silent_solver

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from inference.ports.fitted.grouped import IssuedInstruction
    from inference.ports.fitted.schedulers import Schedulers
    from results.model import PortUsage
    from results.ports import PortSet

    NestedSets: TypeAlias = tuple[PortSet, PortSet]
    """A set of ports, and a larger one that contains it."""

FREE = 0.55
"""Load of a set as a share of the highest load. A set that is no fuller has enough free time. Tables were fitted to
half of the mixes of two Zen 4, a Zen 3 and an Emerald Rapids. With 0.50, 0.55, 0.60 and 0.65 these predict 90.1, 90.6,
90.3 and 90.3% of the other halves within 5%."""

FEWEST_MIXES = 8
"""Mixes with a pair of sets that are needed to say something about it: fewer are noise."""

LEAST_SHARE = 0.01
"""Share of the time. Less is the spread of a stable measurement: it is left out of the table. A mix that issue makes
slower by less counts as limited by ports."""

TOO_FAST = 0.03
"""Share of the predicted time by which a mix may take less, by noise."""

NOTICED = 0.05
"""Share of the predicted time by which a mix has to be slower in groups, so that its time tells."""

REFUTES = 0.05
"""Share of the mixes. If more of those that would be issued more slowly in groups are faster than that, ports take any
number of µops per cycle. On a Zen 3 it was none of 31, on an Emerald Rapids 130 of 132."""


@dataclass(frozen=True, slots=True)
class TimedUsage:
    """The port usage of a mix, the cycles in which it is issued, and its measured cycles.

    `code` are its instructions in program order, if they are known.
    """

    usage: PortUsage
    issue_cycles: float
    cycles: float
    code: tuple[IssuedInstruction, ...] = ()

    def issued(self, ports: PortSet, schedulers: Schedulers | None = None) -> float:
        """Return in how many cycles it is issued.

        Args:
            ports: each of these takes one µop per cycle.
            schedulers: what chooses pipes for µops when they are issued (None: nothing is known of that).
        """
        if not self.code or not (ports or schedulers):
            return self.issue_cycles
        width = round(sum(one.slots for one in self.code) / self.issue_cycles)
        whole = float(issue_cycles(self.code, width, ports)) if ports else 0.0
        return max(self.issue_cycles, whole, schedulers.cycles(self.code, width) if schedulers else 0.0)


@dataclass(frozen=True, slots=True)
class Contention:
    """What makes mixes slower than their ports allow.

    `shares` say by which share of the time of full ports µops take longer, for pairs of a set and a larger one around
    it. Of `grouped` ports each takes one µop per cycle, and instructions are issued whole. `schedulers` choose a pipe
    for each µop.
    """

    shares: Mapping[NestedSets, float]
    grouped: PortSet = frozenset()
    schedulers: Schedulers | None = None

    def cycles(self, mix: TimedUsage) -> float:
        """Return the cycles that are predicted: of the fullest ports with what contention adds, or of issue."""
        issued = mix.issued(self.grouped, self.schedulers)
        return max([issued, *(one.cycles * (1 + self._added(one)) for one in _groups(mix.usage))])

    def _added(self, group: _Group) -> float:
        return sum(self.shares.get(pair, 0.0) * weight for pair, weight in group.weights.items())


PORTS_ALONE = Contention({})
"""The linear program."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Connected ports: the cycles of their fullest set, and a weight for each pair of nested sets.

    The weight says how full the less full one is: 0 at `FREE` of those cycles, 1 at all of them, a square in between.
    """

    cycles: float
    weights: Mapping[NestedSets, float]


def fit(mixes: Sequence[TimedUsage]) -> Contention:
    """Return the table with the least sum of errors, each as a share of its mix's time.

    Only mixes count for it that a single group of ports limits. Shares are never negative.
    """
    grouped = _grouped(mixes)
    schedulers, issued = _best_issue(mixes, grouped)
    rows = [row for mix, cycles in zip(mixes, issued, strict=True) for row in _rows(mix, cycles)]
    often = Counter(pair for weights, _ in rows for pair in weights)
    pairs = sorted((pair for pair, count in often.items() if count >= FEWEST_MIXES), key=_order)
    shares = _least_errors([([weights.get(pair, 0.0) for pair in pairs], longer) for weights, longer in rows])
    found = {pair: share for pair, share in zip(pairs, shares, strict=False) if share >= LEAST_SHARE}
    return Contention(found, grouped, schedulers)


def _best_issue(mixes: Sequence[TimedUsage], grouped: PortSet) -> tuple[Schedulers | None, list[float]]:
    """Return the known schedulers with which mixes are predicted best, and the cycles in which each mix is issued.

    None is returned if mixes are predicted as well without.
    """
    used = frozenset[str]().union(*(ports for mix in mixes for ports in mix.usage.uops))
    known = [one for one in known_schedulers().values() if one.ports <= used and all(mix.code for mix in mixes)]
    plain = [mix.issued(grouped) for mix in mixes]
    if not known:
        return None, plain
    tried = [(None, plain), *((one, [mix.issued(grouped, one) for mix in mixes]) for one in known)]
    return min(tried, key=lambda one: _error(mixes, one[1]))


def _error(mixes: Sequence[TimedUsage], issued: Sequence[float]) -> float:
    """Return the sum of errors of ports and issue, each as a share of its mix's time."""
    predicted = (max(PORTS_ALONE.cycles(mix), cycles) for mix, cycles in zip(mixes, issued, strict=True))
    return sum(abs(cycles / mix.cycles - 1) for mix, cycles in zip(mixes, predicted, strict=True))


def _grouped(mixes: Sequence[TimedUsage]) -> PortSet:
    """Return the ports that take one µop per cycle: no mix is faster than that allows, but for a few by noise."""
    found: PortSet = frozenset()
    for one in components(ports for mix in mixes for ports, count in mix.usage.uops.items() if count and ports):
        more = found.union(*one.basic)
        if _is_issued_in_groups(mixes, more):
            found = more
    return found


def _is_issued_in_groups(mixes: Sequence[TimedUsage], ports: PortSet) -> bool:
    times = ((mix.cycles, PORTS_ALONE.cycles(mix), mix.issued(ports)) for mix in mixes)
    too_fast = [cycles < issued * (1 - TOO_FAST) for cycles, before, issued in times if issued > before * (1 + NOTICED)]
    return len(too_fast) >= FEWEST_MIXES and sum(too_fast) <= REFUTES * len(too_fast)


def _rows(mix: TimedUsage, issued: float) -> Iterator[tuple[Mapping[NestedSets, float], float]]:
    """Yield how full nested sets are, and by which share the mix takes longer than its ports allow."""
    groups = _groups(mix.usage)
    cycles = max([issued, *(one.cycles for one in groups)])
    full = [one for one in groups if one.cycles > cycles * FREE and one.weights]
    if len(full) == 1 and full[0].cycles >= cycles * (1 - LEAST_SHARE):
        yield full[0].weights, mix.cycles / full[0].cycles - 1


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
        (inner, outer): ((min(loads[inner], loads[outer]) / cycles - FREE) / (1 - FREE)) ** 2
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
