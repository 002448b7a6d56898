"""Facts that hold for all code on a machine: latency and throughput of the chain instructions, and the issue width.

A link that closes a chain by itself is measured directly, by a clock at least twice: on Emerald Rapids, 512-bit
instructions were slow for a moment although nothing disturbed the contention probe. VPORQ then seemed to take 1.16
cycles, and 14 cycles of a chain with 13 of them seemed to be less than these take alone. A chain of several links gives
only the sum of their latencies. If the sum is one cycle per link, each takes one: none takes less, since no CPU
eliminates links at rename.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

from generator.chains.calibration import calibration_cycles, closed_chain, independent_links, nops
from generator.chains.links import link_named
from inference.experiment import Request, Want
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from generator.chains.links import Link
    from generator.factory import InstructionFactory
    from generator.microbenchmark import Microbenchmark
    from inference.experiment import Measured, Procedure

SNAP = Fraction(1, 20)
"""Share of a link's latency in cycles. Within this much of an integer it is that integer, so that noise does not add up
over links. A clock may drift by 3 %, which is less. A link that takes a cycle more every tenth time is off by 10 %,
which is more."""

COUNTER = "uops_issued"
"""The counter that shows whether several NOPs are issued as one."""

LEAST_WIDTH = 1
"""µops per cycle that any core issues."""


@dataclass(frozen=True, slots=True)
class LinkTime:
    """The latency of a link in core cycles. If it is not exact, `latency` is a lower bound.

    `throughput` is the reciprocal throughput. `ok` is false if the CPU or the catalogue lacks the link.
    """

    latency: Fraction
    exact: bool
    throughput: Fraction
    experiment: str = ""
    ok: bool = True


MISSING = LinkTime(Fraction(1), exact=False, throughput=Fraction(1), ok=False)
"""A link that the CPU or the catalogue lacks."""


@dataclass(slots=True)
class Calibrations:
    """The link times of one machine, found when they are first needed and shared between all variants.

    - `flags`: pairs of a link and a flag for which its time is known; another flag may come earlier or later.
    - `loop`: chains are measured in a loop. If a clock measures them, that is more exact: a chain goes on through
      iterations, and unrolled code is drained at its ends.
    - `off`: the largest share by which a closed chain was off the whole cycles that it counts as.
    - `width`: a lower bound of the µops issued per cycle (0: not yet measured).
    """

    instructions: InstructionFactory
    loop: bool = False
    times: dict[str, LinkTime] = field(default_factory=dict)
    flags: set[tuple[str, str]] = field(default_factory=set)
    off: Fraction = Fraction(0)
    width: int = 0

    def latency_of(self, links: Iterable[str]) -> Fraction:
        """Return the cycles of links one after another."""
        return sum((self.times[name].latency for name in links), Fraction(0))

    def need_width(self) -> Procedure[int]:
        """Return how many µops the core issues per cycle, measured when first asked for."""
        self.width = self.width or (yield from find_width(self.instructions))
        return self.width

    def need(self, names: Iterable[str]) -> Procedure[None]:
        """Measure the links that have not been measured yet, and the links that close their chains."""
        wanted = self._closure(names)
        requests = {name: self._requests(name) for name in wanted}
        remaining = iter((yield from self._least([request for some in requests.values() for request in some])))
        measured = {name: [next(remaining) for _ in some] for name, some in requests.items() if some}
        self._conclude(measured)
        for name in wanted:
            self.times.setdefault(name, MISSING)

    def _least(self, requests: Sequence[Request]) -> Procedure[list[Measured]]:
        """Measure chains; by a clock several times, of which the least counts.

        All latencies that a link is subtracted from would be too low if it seemed to take too long.
        """
        found = yield requests
        if not self.loop or not requests:
            return list(found)
        again = yield [replace(one, again=1) for one in requests]
        both = list(zip(found, again, strict=True))
        least = [_faster(*pair) for pair in both]
        apart = [number for number, pair in enumerate(both) if _are_apart(*pair)]
        more = (yield [replace(requests[number], again=2) for number in apart]) if apart else []
        for number, one in zip(apart, more, strict=True):
            least[number] = _faster(least[number], one)
        return least

    def is_exact(self, link: Link) -> bool:
        """Whether it is known what a link takes, for the flag that it reads or writes."""
        if not link.calibrations or link.name not in self.times:
            return False
        return self.times[link.name].exact and (not link.flag or (link.name, link.flag) in self.flags)

    def excess(self, links: Iterable[Link]) -> Fraction:
        """Return the cycles that links may take less than their times: all but one, for a flag that is not known."""
        unsure = [link for link in links if link.calibrations and not self.is_exact(link)]
        return sum((self.times[link.name].latency - 1 for link in unsure), Fraction(0))

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
                pending += [link.name for cycle in calibration_cycles(name) for link in cycle]
        return list(found)

    def _requests(self, name: str) -> list[Request]:
        """Return the closed chains of a link and its independent copies (none: the catalogue lacks an instruction)."""
        try:
            chains = [closed_chain(self.instructions, cycle) for cycle in calibration_cycles(name)]
            return [self.request(benchmark) for benchmark in (*chains, independent_links(self.instructions, name))]
        except UopscopeError:
            return []

    def _conclude(self, measured: Mapping[str, Sequence[Measured]]) -> None:
        """Solve for the links, those in the shortest chains first, until no known link makes another one known."""
        left = sorted(measured, key=lambda name: (min(map(len, calibration_cycles(name))), name))
        while left:
            for name in left:
                self.times[name] = self._time(name, measured[name])
            unknown = [name for name in left if self.times[name].ok and not self.times[name].exact]
            if len(unknown) == len(left):
                break
            left = unknown

    def _time(self, name: str, measured: Sequence[Measured]) -> LinkTime:
        """Return what a link takes: the least exact time of its closed chains, else a lower bound."""
        *closed, independent = measured
        if not independent.ok:
            return MISSING
        throughput = independent.cycles_each
        for chain in closed:
            if chain.ok and (whole := snapped(chain.cycles)).denominator == 1:
                self.off = max(self.off, abs(chain.cycles - whole) / whole)
        found = [
            (LinkTime(*self._solve(name, cycle, snapped(chain.cycles)), throughput, chain.request.benchmark.id), cycle)
            for cycle, chain in zip(calibration_cycles(name), closed, strict=True)
            if chain.ok
        ]
        least = min((time for time, _ in found), key=lambda time: (not time.exact, time.latency), default=MISSING)
        for time, cycle in found:
            if time.exact and time.latency == least.latency:
                self.flags |= {(name, link.flag) for link in cycle if link.name == name}
        return least

    def _solve(self, name: str, cycle: Sequence[Link], total: Fraction) -> tuple[Fraction, bool]:
        """Return a link's share of a closed chain, and whether that is exact.

        A link between register files is known only if it takes one cycle: its way back may have a bypass delay. The
        same holds if either of two links may slow the chain: TEST may write CF later than ZF, or SETB may be slow.
        """
        others = [link for link in cycle if link.name != name]
        known = [self.times[other.name] for other in others if self.is_exact(other)]
        rest = total - sum(time.latency for time in known)
        own, unknown = len(cycle) - len(others), len(others) - len(known)
        if not unknown and not link_named(name).cross_domain:
            return rest / own, True
        return Fraction(1), rest == own + unknown


def find_width(instructions: InstructionFactory) -> Procedure[int]:
    """Return a lower bound of the µops that the core issues per cycle, from NOPs: something else may hold these up."""
    try:
        request = Request(nops(instructions), Want.ALL)
    except UopscopeError:
        return LEAST_WIDTH
    (measured,) = yield [request]
    if not measured.ok:
        return LEAST_WIDTH
    given = Fraction(request.benchmark.divisor)
    issued = min(measured.values.get(COUNTER, given), given)
    return max(LEAST_WIDTH, floor(issued / measured.cycles * (1 + SNAP)))


def _faster(one: Measured, other: Measured) -> Measured:
    """Return the measurement with fewer cycles; that which ran, if the other did not."""
    return min(one, other, key=lambda each: (not each.ok, each.cycles if each.ok else 0))


def _are_apart(one: Measured, other: Measured) -> bool:
    """Whether two measurements of a chain differ by more than noise."""
    return one.ok and other.ok and abs(one.cycles - other.cycles) > SNAP * min(one.cycles, other.cycles)


def snapped(cycles: Fraction) -> Fraction:
    """Return the nearest integer if the cycles are within 5 % of it, else the cycles themselves."""
    nearest = Fraction(round(cycles))
    return nearest if nearest and abs(cycles - nearest) <= SNAP * nearest else cycles
