"""How inference asks for measurements: procedures yield requests and are sent the results.

A procedure is a Python generator. It yields a batch of `Request`s and is sent as many `Measured`, in the same order. It
repeats that until it can return a conclusion. This has four advantages:

- Inference never sees a backend.
- The next request may depend on the last result.
- The batches of many variants can be run together.
- Inference can be repeated on stored samples, without hardware.

    def isolated_uops(variant) -> Procedure[int]:
        (measured,) = yield [Request(benchmark, PORTS)]
        return round(measured.values["uops_executed"])
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from results.model import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.microbenchmark import Microbenchmark
    from results.model import Measurement


class Want(Enum):
    """Which counters a request needs; a backend gives those of them that it has."""

    CYCLES = "cycles"
    PORTS = "ports"
    ALL = "all"


@dataclass(frozen=True)
class Request:
    """A microbenchmark to be measured: unrolled at two sizes, or as a loop around unrolled copies.

    What was measured for another number `again` does not count (`repeated`).
    """

    benchmark: Microbenchmark
    want: Want = Want.CYCLES
    loop: bool = False
    again: int = 0

    @cached_property
    def key(self) -> str:
        """Identity of the experiment: the same key means that a stored measurement can be used again."""
        again = f":{self.again}" if self.again else ""
        return f"{self.benchmark.id}:{self.want.value}:{'loop' if self.loop else 'unrolled'}{again}"


@dataclass(frozen=True, slots=True)
class Measured:
    """What a request gave: robust aggregates per copy of the body (not divided by `divisor`).

    - `values`: by counter name (`runner.backend`), the value per copy. If the status is OK, `core_cycles` is there.
    - `spread`: half the distance between the quartiles, per copy.
    - `measurement`: the raw samples behind it.
    - `slower`: core cycles per copy in slower rhythms, which the core fell into in other repetitions.
    - `over`: by how many core cycles the longest loop's time per copy exceeds the value, which is the difference of two
      loops. If the shorter one is in a slower rhythm, the value is too low by that at most (0: no clock or no loop).
    """

    request: Request
    status: Status
    values: Mapping[str, Fraction]
    spread: Mapping[str, Fraction]
    measurement: Measurement | None = None
    detail: str = ""
    slower: tuple[Fraction, ...] = ()
    over: Fraction = Fraction(0)

    @property
    def ok(self) -> bool:
        """Whether there are values."""
        return self.status is Status.OK

    def without_samples(self) -> Measured:
        """Return the same without the raw samples."""
        return replace(self, measurement=None)

    @property
    def cycles(self) -> Fraction:
        """Core cycles per copy."""
        return self.values["core_cycles"]

    @property
    def cycles_each(self) -> Fraction:
        """Core cycles per instance, of which a copy has `divisor`."""
        return self.cycles / self.request.benchmark.divisor

    def each(self, counter: str) -> Fraction | None:
        """Return a counter's value per instance (None: it was not counted)."""
        value = self.values.get(counter)
        return None if value is None else value / self.request.benchmark.divisor

    @property
    def cycles_spread(self) -> Fraction:
        """Half the distance between the quartiles of the core cycles, per copy (0: it is not known)."""
        return self.spread.get("core_cycles", Fraction(0))


Result = TypeVar("Result")
Procedure: TypeAlias = Generator[Sequence[Request], Sequence[Measured], Result]
"""A generator that asks for measurements and returns a conclusion (a plain alias: Python 3.11 has no `type`)."""


MOST_AGAIN = 4
"""Measurements of one request that a procedure may ask for by numbers `again` of its own, from 0 on."""


def repeated(procedure: Procedure[Result], number: int) -> Procedure[Result]:
    """Run a procedure on measurements of its own: none that was made for another number counts."""

    def again(requests: Sequence[Request]) -> Procedure[Sequence[Measured]]:
        return (yield [replace(one, again=number * MOST_AGAIN + one.again) for one in requests])

    return measured_by(procedure, again)


def measured_by(
    procedure: Procedure[Result], measure: Callable[[Sequence[Request]], Procedure[Sequence[Measured]]]
) -> Procedure[Result]:
    """Run a procedure, each batch of which is measured by another one."""
    try:
        requests = next(procedure)
        while True:
            requests = procedure.send((yield from measure(requests)))
    except StopIteration as finished:
        result: Result = finished.value
        return result
