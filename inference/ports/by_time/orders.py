"""Times of the same code in several orders, where single times are off by too much.

A time may be off in a way that no repetition shows: by how lines of code lie in memory, for example. The same lines in
another order have another such error, and need the same ports. So each request is measured with its lines in several
orders, each of which begins further on, and the mean of the middle times counts.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from inference.experiment import measured_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.experiment import Measured, Procedure, Request

ORDERS = 5
"""Orders of each code. The mean of the middle three is off by half as much, and one disturbed time does not matter."""


Result = TypeVar("Result")


def in_orders(procedure: Procedure[Result], count: int = ORDERS) -> Procedure[Result]:
    """Run a procedure on times of its code in up to `count` orders (1: just as it is)."""
    if count == 1:
        return procedure

    def measure(requests: Sequence[Request]) -> Procedure[Sequence[Measured]]:
        each = [_orders(one, count) for one in requests]
        answers = iter((yield [one for orders in each for one in orders]))
        return [_middle(one, [next(answers) for _ in orders]) for one, orders in zip(requests, each, strict=True)]

    return measured_by(procedure, measure)


def _orders(request: Request, count: int) -> list[Request]:
    """Return a request with its lines in several orders, in the given one first; each code once."""
    body = request.benchmark.body
    starts = sorted({len(body) * number // count for number in range(count)})
    bodies = dict.fromkeys((*body[start:], *body[:start]) for start in starts)
    return [replace(request, benchmark=replace(request.benchmark, body=one)) for one in bodies]


def _middle(request: Request, measured: Sequence[Measured]) -> Measured:
    """Return what was measured, with the mean of the middle times: without the quarter of them on either side.

    If an order failed, so has the request.
    """
    failed = next((one for one in measured if not one.ok), None)
    if failed is not None:
        return replace(failed, request=request)
    fastest_first = sorted(measured, key=lambda one: one.cycles)
    aside = len(measured) // 4
    middle = fastest_first[aside : len(measured) - aside]
    found = middle[len(middle) // 2]
    cycles = sum((one.cycles for one in middle), Fraction()) / len(middle)
    return replace(found, request=request, values={**found.values, "core_cycles": cycles})
