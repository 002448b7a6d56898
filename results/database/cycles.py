"""Numbers of cycles among the attributes of latencies: exact values and upper bounds.

    {"min_cycles": "1", "max_cycles": "5", "max_cycles_is_upper_bound": "1"}    exact: nothing; at most 5

An upper bound is never taken for a value: where one exceeds the greatest exact number, the longest latency is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from results.database.reader import LatencyRow

SAME_REGISTER = "_same_reg"
UPPER_BOUND = "_is_upper_bound"


def latency_cycles(values: Mapping[str, str]) -> list[float]:
    """Return all numbers of cycles among a latency's attributes, upper bounds among them; no minima and no spreads."""
    return [cycles for _, cycles, _ in _greatest(values)]


def range_cycles(values: Mapping[str, str], *, exact: bool = False) -> list[float]:
    """Return all numbers of cycles with minima (of fast operand values, of single flags); `exact`: no upper bounds."""
    return [cycles for _, cycles, bounded in _numbers(values) if not (exact and bounded)]


def exact_cycles(values: Mapping[str, str]) -> list[float]:
    """Return the numbers of cycles among a latency's attributes that are exact; no minima and no spreads."""
    return [cycles for _, cycles, bounded in _greatest(values) if not bounded]


def longest(rows: Iterable[LatencyRow]) -> float | None:
    """Return the longest latency of different registers, in cycles; None if it is not known.

    It is unknown where an upper bound exceeds the greatest exact number: it may be anything between the two.
    """
    found = longest_known(rows)
    return None if isinstance(found, AtMost) else found


class AtMost(float):
    """An upper bound of a number of cycles."""


def longest_known(rows: Iterable[LatencyRow]) -> float | None:
    """Return the longest latency like `longest`, or where it is not known an upper bound (None: neither is known)."""
    found = [one for row in rows for one in _greatest(row.values) if not one[0].endswith(SAME_REGISTER)]
    exact = max((cycles for _, cycles, bounded in found if not bounded), default=None)
    most = max((cycles for _, cycles, _ in found), default=None)
    return exact if most is None or exact == most else AtMost(most)


def _greatest(values: Mapping[str, str]) -> Iterator[tuple[str, float, bool]]:
    """Yield (attribute, cycles, whether they are an upper bound) without minima."""
    return (one for one in _numbers(values) if not one[0].startswith("min_"))


def _numbers(values: Mapping[str, str]) -> Iterator[tuple[str, float, bool]]:
    """Yield (attribute, cycles, whether they are an upper bound)."""
    for name, text in values.items():
        if "cycles" not in name or name.endswith(UPPER_BOUND):
            continue
        try:
            yield name, float(text), name + UPPER_BOUND in values
        except ValueError:
            continue
