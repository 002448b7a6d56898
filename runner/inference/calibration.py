"""Latency and throughput of the chain instructions on the machine, measured before anything is subtracted.

A link that closes a chain by itself is measured directly. A chain of several links tells only their sum; where the sum
is one cycle per link, each takes one, since none takes less (links are chosen so that no CPU does them at rename).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from generator.calibration import calibration_cycle, closed_chain, independent_links
from runner.experiment import Request
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from generator.kit import Kit
    from generator.microbenchmark import Microbenchmark
    from runner.experiment import Measured, Procedure

SNAP = Fraction(1, 20)
"""A link's latency within 5 % of an integer is that integer: measurement noise must not add up over links."""


@dataclass(frozen=True, slots=True)
class LinkTime:
    """What a link takes in core cycles. If it is not exact, `latency` is a lower bound.

    `throughput` is the reciprocal throughput. `ok` is false where the CPU or the catalogue does not have it.
    """

    latency: Fraction
    exact: bool
    throughput: Fraction
    experiment: str = ""
    ok: bool = True


MISSING = LinkTime(Fraction(1), exact=False, throughput=Fraction(1), ok=False)


@dataclass(slots=True)
class Calibrations:
    """The link times of one machine, found when they are first needed and shared between all variants.

    `loop` says whether chains are measured in a loop: on a clock that is more exact, since a chain goes on through
    iterations, while unrolled code is drained at its ends.
    """

    kit: Kit
    loop: bool = False
    times: dict[str, LinkTime] = field(default_factory=dict)

    def need(self, names: Iterable[str]) -> Procedure[None]:
        """Measure those of these links that have not been measured yet, with all that their chains are closed by."""
        wanted = self._closure(names)
        requests = {name: self._requests(name) for name in wanted}
        available = {name: pair for name, pair in requests.items() if pair}
        if available:
            answers = yield [request for pair in available.values() for request in pair]
            measured = dict(zip(available, zip(answers[::2], answers[1::2], strict=True), strict=True))
            self._conclude(measured)
        for name in wanted:
            self.times.setdefault(name, MISSING)

    def request(self, benchmark: Microbenchmark) -> Request:
        """Return the request to measure a chain on this machine."""
        return Request(benchmark, loop=self.loop)

    def _closure(self, names: Iterable[str]) -> list[str]:
        """Return the links that are missing, and those in their calibration chains."""
        found: dict[str, None] = {}
        pending = list(dict.fromkeys(names))
        while pending:
            name = pending.pop(0)
            if name not in found and name not in self.times:
                found[name] = None
                pending += [link.name for link in calibration_cycle(name)]
        return list(found)

    def _requests(self, name: str) -> tuple[Request, Request] | None:
        """Return the closed chain and the independent copies of a link (None: the catalogue lacks it)."""
        try:
            return self.request(closed_chain(self.kit, name)), self.request(independent_links(self.kit, name))
        except UopscopeError:
            return None

    def _conclude(self, measured: dict[str, tuple[Measured, Measured]]) -> None:
        """Solve for the links, those in the shortest chains first."""
        for name in sorted(measured, key=lambda name: (len(calibration_cycle(name)), name)):
            closed, independent = measured[name]
            if not closed.ok or not independent.ok:
                self.times[name] = MISSING
                continue
            throughput = independent.cycles / independent.request.benchmark.divisor
            latency, exact = self._solve(name, snapped(closed.cycles))
            self.times[name] = LinkTime(latency, exact, throughput, closed.request.benchmark.id)

    def _solve(self, name: str, total: Fraction) -> tuple[Fraction, bool]:
        """Return a link's share of its closed chain, and whether that is exact."""
        others = [link.name for link in calibration_cycle(name) if link.name != name]
        known = [self.times[other] for other in others if other in self.times and self.times[other].exact]
        rest = total - sum(time.latency for time in known)
        unknown = 1 + len(others) - len(known)
        if unknown == 1:
            return rest, True
        return Fraction(1), rest == unknown


def snapped(cycles: Fraction) -> Fraction:
    """Return the nearest integer if the cycles are within 5 % of it, else the cycles themselves."""
    nearest = Fraction(round(cycles))
    return nearest if nearest and abs(cycles - nearest) <= SNAP * nearest else cycles
