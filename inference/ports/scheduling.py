"""How the core under test chooses among the free ports of a µop, as far as conclusions depend on it.

Inference may use three properties, but not every core has them. So each is tested once per machine.

- *A µop that runs rarely uses all of its ports in turn.* Otherwise a µop may have ports on which it never ran in
  isolation. The test is an instruction that runs rarely, among others that leave its ports idle.
- *A µop avoids busy ports, even if it depends on a µop that ran on one.* A core that chooses ports at dispatch sends
  the oldest µop first. When a µop has passed the queue of a busy port, the µops that depend on it are older than the
  rest of that queue. So they take the same port. The test is two instructions, one dependent on the other.
- *A few µops find free ports even if other ports have long queues.* In a small scheduler, µops that wait for busy ports
  take all entries. Then the queues of free ports soon are as long as those of busy ports, and µops stray. The test is
  instructions of a larger set after blocking instructions of a part of it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from generator.errors import GenerationError
from inference.experiment import Procedure, Request, Want
from inference.ports.blocking_instructions import Scheduling
from inference.ports.load import CLEAR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from generator.microbenchmark import Microbenchmark
    from inference.ports.alone.layout import PortLayout
    from inference.ports.blocking_instructions import BlockingInstruction, BlockingSet
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant

FAIR = Fraction(1, 2)
"""Share of an even load that each port gets at least if a core uses all ports of a µop by turns."""

RARELY = 12
"""Cycles per instance, in which nothing else uses its ports: enough even if several instances are issued in a burst."""

QUEUE = 20
"""Blocking instructions per port and copy: they last longer than the latencies of two instructions."""

FEW_WAITING = 12
"""µops that are tried: those of an instruction of eight that could go elsewhere, and half as many again. A scheduler of
36 entries (Nehalem) holds them beside blocking ones."""

MOST_TRIED = 6
"""Instructions, and pairs of them, that are tried: a few agree, and each costs a measurement."""


class Controls(Protocol):
    """Makes code of blocking instructions alone."""

    def mix(self, blockers: Sequence[tuple[InstructionVariant, int]]) -> Microbenchmark:
        """Return the code of some blocking instructions, each with its count, in turns."""

    def delay(self) -> Microbenchmark:
        """Return the code that `released` stores wait for."""

    def released(self, store: InstructionVariant, count: int) -> Microbenchmark:
        """Return `count` instances of a store that all wait for the same address and data."""

    def followed(
        self, blockers: tuple[InstructionVariant, int], first: InstructionVariant, second: InstructionVariant
    ) -> Microbenchmark:
        """Return some of one, then one instance of `first`, and one of `second` that reads its result."""

    def control(
        self, blockers: Sequence[tuple[InstructionVariant, int]], other: InstructionVariant, count: int
    ) -> Microbenchmark:
        """Return blocking instructions in turns, and `count` of another one after them."""


def observe_scheduling(blocking: BlockingSet, controls: Controls) -> Procedure[Scheduling]:
    """Test how the core chooses among free ports."""
    known = [blocking.instructions[ports] for ports in blocking.sets()]
    single = [one for one in known if one.usage.total == 1 and one.saturates]
    preferred = yield from _preferred(single, blocking.layout, controls)
    takes_turns = bool(preferred) and all(ports == preferred[ports] for ports in preferred)
    keeps_away = yield from _keeps_away(single, preferred, blocking.layout, controls)
    holds = yield from _holds(single, blocking.layout, blocking.width, controls)
    return Scheduling(takes_turns, takes_turns if keeps_away is None else keeps_away, holds)


def _holds(single: Sequence[BlockingInstruction], layout: PortLayout, width: int, controls: Controls) -> Procedure[int]:
    """Return how many µops find free ports beside long queues: as many as were tried, or 0."""
    requests: list[tuple[PortSet, int, Request]] = []
    for one in reversed(single):
        wider = [other for other in single if one.ports < other.ports]
        if not wider or len(one.ports) >= width or not layout.separable(one.ports):
            continue
        count = QUEUE * len(one.ports)
        other = min(wider, key=lambda each: (len(each.ports), sorted(each.ports)))
        try:
            benchmark = controls.control([(one.variant, count)], other.variant, FEW_WAITING)
        except GenerationError:
            continue
        requests.append((one.ports, count, Request(benchmark, Want.PORTS)))
    requests = requests[:MOST_TRIED]
    answers = yield [request for *_, request in requests]
    strays = [
        layout.on(ports, measured.values) - count
        for (ports, count, _), measured in zip(requests, answers, strict=True)
        if measured.ok
    ]
    return FEW_WAITING if strays and max(strays) < 1 - CLEAR else 0


def _preferred(
    single: Sequence[BlockingInstruction], layout: PortLayout, controls: Controls
) -> Procedure[dict[PortSet, PortSet]]:
    """Return, for some sets, the ports that their µops use when they run rarely; large sets come first."""
    requests: list[tuple[PortSet, Request]] = []
    for one in reversed(single):
        names = set(layout.touching(one.ports))
        others = [other for other in single if not names & set(layout.touching(other.ports))]
        if len(one.ports) == 1 or not others:
            continue
        counts = [(one.variant, 1), (others[0].variant, RARELY * len(others[0].ports))]
        try:
            requests.append((one.ports, Request(controls.mix(counts), Want.PORTS)))
        except GenerationError:
            continue
    requests = requests[:MOST_TRIED]
    found: dict[PortSet, PortSet] = {}
    for (ports, _), measured in zip(requests, (yield [request for _, request in requests]), strict=True):
        parts = {name: layout.counters[name] & ports for name in layout.touching(ports)}
        if measured.ok:
            fair = {name: FAIR * Fraction(len(part), len(ports)) for name, part in parts.items()}
            busy = (part for name, part in parts.items() if measured.values[name] >= fair[name])
            found[ports] = frozenset().union(*busy)
    return found


def _keeps_away(
    single: Sequence[BlockingInstruction],
    preferred: Mapping[PortSet, PortSet],
    layout: PortLayout,
    controls: Controls,
) -> Procedure[bool | None]:
    """Return whether µops that depend on a µop of busy ports keep away from these; None if it could not be tried.

    It is tried with µops that would prefer one of the busy ports if they were idle.
    """
    requests: list[tuple[PortSet, int, Request]] = []
    for busy, free in _pairs(single, preferred, layout):
        count = QUEUE * len(busy.ports)
        try:
            benchmark = controls.followed((busy.variant, count), busy.variant, free.variant)
        except GenerationError:
            continue
        requests.append((busy.ports, count, Request(benchmark, Want.PORTS)))
        if len(requests) == MOST_TRIED:
            break
    answers = yield [request for *_, request in requests]
    ran = [
        layout.on(ports, measured.values) - count - 1
        for (ports, count, _), measured in zip(requests, answers, strict=True)
        if measured.ok
    ]
    return max(ran) <= CLEAR if ran else None


def _pairs(
    single: Sequence[BlockingInstruction], preferred: Mapping[PortSet, PortSet], layout: PortLayout
) -> Iterator[tuple[BlockingInstruction, BlockingInstruction]]:
    """Yield pairs: an instruction that keeps ports busy, and one of a larger set that prefers these ports."""
    for one in single:
        for other in single:
            rest = other.ports - one.ports
            apart = not set(layout.touching(one.ports)) & set(layout.touching(rest))
            if one.ports < other.ports and apart and preferred.get(other.ports, frozenset()) & one.ports:
                yield one, other
