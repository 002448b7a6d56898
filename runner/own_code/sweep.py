"""Measures code for every value of its parameters.

    N=0..64:4       0, 4, 8 ... 64
    N=1..8          1, 2 ... 8
    N=1,2,4,0x10    just these

Several parameters make every combination. A combination that cannot be assembled or measured is a row with a reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from results.model import Status
from results.rows import Rows
from runner.backend import BackendError
from runner.own_code.code import MeasureError
from runner.own_code.measure import benchmark_of, measure
from xed_convert.assembly.syntax import parse_number
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from runner.backend import Backend
    from runner.own_code.measure import CodeRequest, Measurers, Result
    from runner.own_code.template import Template

MOST_POINTS = 10_000
ERROR = "error"
"""The status of a combination that cannot be assembled or measured."""
CYCLES = "core_cycles"
SPREAD = "_spread"

_PARAMETER = re.compile(r"([A-Za-z_]\w*)=(.+)")
_RANGE = re.compile(r"([^.:]+)\.\.([^.:]+)(?::([^.:]+))?")


class SweepError(UopscopeError):
    """A parameter cannot be read, or nothing depends on it."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A name in the code, and the values that it takes one after the other."""

    name: str
    values: tuple[int, ...]

    @classmethod
    def read(cls, text: str) -> Parameter:
        """Read `N=0..64:4` or `N=1,2,4`.

        Raises:
            SweepError: it is neither, or has no values or too many.
        """
        found = _PARAMETER.fullmatch(text.strip())
        if not found:
            raise SweepError(f"--sweep {text}: not NAME=VALUES", hint="for example: --sweep N=0..64:4")
        try:
            return cls(found[1], _values(found[2]))
        except ValueError as error:
            raise SweepError(f"--sweep {text}: {error}", hint="N=0..64:4, N=1..8 or N=1,2,4") from error


def _values(text: str) -> tuple[int, ...]:
    """Return the values of a range or a list.

    Raises:
        ValueError: it is neither.
    """
    span = _RANGE.fullmatch(text)
    if not span:
        return tuple(map(_number, text.split(",")))
    first, last, step = map(_number, (span[1], span[2], span[3] or "1"))
    if step < 1:
        raise ValueError(f"the step {step} is not positive")
    found = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if len(found) > MOST_POINTS:
        raise ValueError(f"more than {MOST_POINTS:,} values")
    return tuple(found)


def _number(text: str) -> int:
    try:
        return parse_number(text.strip())
    except ValueError:
        raise ValueError(f"{text.strip()!r} is no number") from None


def points(template: Template, parameters: Sequence[Parameter]) -> list[dict[str, int]]:
    """Return every combination of values, the last parameter changing fastest.

    Raises:
        SweepError: a parameter is named twice, nothing depends on it, or there are too many combinations.
    """
    names = [one.name for one in parameters]
    texts = template.with_texts()
    for name in names:
        if names.count(name) > 1:
            raise SweepError(f"the parameter {name} is swept twice")
        if not texts.uses(name):
            hint = f"write {{{name}}} or ${name} into it; offset, unroll and loop set the options of these names"
            raise SweepError(f"the code does not use {name}", hint=hint)
    if not 0 < prod(len(one.values) for one in parameters) <= MOST_POINTS:
        raise SweepError(f"not between 1 and {MOST_POINTS:,} combinations")
    return [dict(zip(names, values, strict=True)) for values in product(*(one.values for one in parameters))]


def sweep(
    template: Template, wanted: Sequence[Mapping[str, int]], backend: Backend, known: Container[int] = ()
) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the place and the row of each combination that is not known yet.

    Raises:
        UopscopeError: none of them is code that can be measured (says why the first is not), or the backend breaks.
    """
    texts = template.with_texts()
    requests = [_request(texts, values) for values in wanted]
    errors = [one for one in requests if isinstance(one, UopscopeError)]
    if len(errors) == len(requests):
        raise errors[0]
    measurers: Measurers = {}
    for place, (values, request) in enumerate(zip(wanted, requests, strict=True)):
        if place in known:
            continue
        if isinstance(request, UopscopeError):
            yield place, {**values, "status": ERROR, "reason": request.message}
        else:
            yield place, {**values, **_measured(request, backend, measurers)}


def _request(template: Template, values: Mapping[str, int]) -> CodeRequest | UopscopeError:
    try:
        request = template.request(values)
        benchmark_of(request)
    except UopscopeError as error:
        return error
    return request


def _measured(request: CodeRequest, backend: Backend, measurers: Measurers) -> dict[str, object]:
    try:
        result = measure(request, backend, measurers)
    except BackendError:
        raise
    except UopscopeError as error:
        return {"status": ERROR, "reason": error.message}
    return {**dict(_cells(result)), "status": _status(result), "reason": "; ".join(result.problems)}


def _cells(result: Result) -> Iterator[tuple[str, float]]:
    """Yield values by the names of their columns: the counter, and the mode where there are two."""
    for mode, found in result.modes.items():
        for counter, value in found.values.items():
            name = counter if len(result.modes) == 1 else f"{counter}_{mode}"
            yield name, float(value.value)
            yield name + SPREAD, float(value.spread)


def _status(result: Result) -> str:
    return next((mode.status.value for mode in result.modes.values() if not mode.ok), Status.OK.value)


def rows_of(found: Iterable[Mapping[str, object]], parameters: Sequence[str]) -> Rows:
    """Return the table of a sweep: parameters, cycles, other counters, status and reason."""
    rows = list(found)
    names = dict.fromkeys(name for row in rows for name in row if name not in {"status", "reason"})
    ordered = sorted(names, key=lambda name: (name not in parameters, not name.startswith(CYCLES)))
    return Rows.of(rows, [*ordered, "status", "reason"])


def cycle_columns(rows: Rows) -> list[str]:
    """Return the columns with core cycles.

    Raises:
        MeasureError: there is none, since nothing could be measured.
    """
    found = [name for name in rows.columns if name.startswith(CYCLES) and not name.endswith(SPREAD)]
    if not found:
        reasons = dict.fromkeys(str(reason) for reason in rows["reason"])
        raise MeasureError("no combination gave core cycles", hint="; ".join(reasons)[:300])
    return found
