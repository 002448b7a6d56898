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

The last two are counted. Where counts are off by chance, the mean of several is taken. Ports of which the mean says too
little are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from generator.errors import GenerationError
from inference.experiment import Procedure, Request, Want
from inference.ports.alone.accuracy import root
from inference.ports.alone.isolation import MOST_OFF
from inference.ports.blocking_instructions import Scheduling
from inference.ports.load import CLEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from generator.microbenchmark import Microbenchmark
    from inference.ports.alone.accuracy import Accuracy
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


AT_ONCE = 8
"""Further measurements of a trial at once, where counts are off by chance."""

MOST_MEAN = 48
"""The number of these measurements at most: with the first one they are 49, which leave a seventh of an error."""


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
    keeps_away = yield from _keeps_away(single, preferred, blocking, controls)
    holds = yield from _holds(single, blocking, controls)
    return Scheduling(takes_turns, takes_turns if keeps_away is None else keeps_away, holds)


@dataclass(frozen=True, slots=True)
class _Trial:
    """Code that keeps `ports` busy for some cycles with µops of its own, of which `besides` are no blocking ones."""

    ports: PortSet
    code: Callable[[int], Microbenchmark]
    besides: int = 0


def _counted(trials: Sequence[_Trial], blocking: BlockingSet) -> Procedure[list[tuple[Fraction, Fraction]]]:
    """Return how many other µops ran on the ports of each trial, and by how much that may be wrong.

    The error is 0 unless errors are by chance: nothing is known of others. Trials with a large error are left out.
    """
    counts: dict[int, list[Fraction]] = {place: [] for place in range(len(trials))}

    def off(place: int) -> Fraction:
        return _off(blocking.accuracy, QUEUE * len(trials[place].ports), len(counts[place]))

    rounds = [range(1), *(range(first, first + AT_ONCE) for first in range(1, MOST_MEAN, AT_ONCE))]
    for more in rounds if blocking.accuracy.mean_counts is not None else rounds[:1]:
        unsure = [place for place, ran in counts.items() if not ran or off(place) > CLEAR]
        asked = [(place, QUEUE + cycles) for place in unsure for cycles in more]
        measured = yield [Request(trials[place].code(cycles), Want.PORTS) for place, cycles in asked]
        for (place, cycles), answer in zip(asked, measured, strict=True):
            if answer.ok:
                one = trials[place]
                own = cycles * len(one.ports) + one.besides
                counts[place].append(blocking.layout.on(one.ports, answer.values) - own)
    means = [(sum(ran, Fraction(0)) / len(ran), off(place)) for place, ran in counts.items() if ran]
    return [(ran, error) for ran, error in means if error <= MOST_OFF]


def _off(accuracy: Accuracy, size: int, number: int) -> Fraction:
    """Return by how much the mean of a number of counts is off, an estimate (0: not by chance).

    `size` are the µops of the first one. Later ones have more, but `accuracy.counts` is more than they are usually off.
    """
    if accuracy.mean_counts is None:
        return Fraction(0)
    return root(((accuracy.counts * size) ** 2 / number) + (accuracy.mean_counts * size) ** 2)


def _holds(single: Sequence[BlockingInstruction], blocking: BlockingSet, controls: Controls) -> Procedure[int]:
    """Return how many µops find free ports beside long queues: as many as were tried, or 0."""
    trials: list[_Trial] = []
    for one in reversed(single):
        wider = [other for other in single if one.ports < other.ports]
        if not wider or len(one.ports) >= blocking.width or not blocking.layout.separable(one.ports):
            continue
        other = min(wider, key=lambda each: (len(each.ports), sorted(each.ports)))
        code = partial(_waiting, controls, one, other)
        if _can_be_made(code):
            trials.append(_Trial(one.ports, code))
    strays = yield from _counted(trials[:MOST_TRIED], blocking)
    return FEW_WAITING if strays and all(ran < 1 - CLEAR - error for ran, error in strays) else 0


def _waiting(controls: Controls, one: BlockingInstruction, other: BlockingInstruction, cycles: int) -> Microbenchmark:
    """Return µops of a set behind those that keep a part of it busy."""
    return controls.control([(one.variant, cycles * len(one.ports))], other.variant, FEW_WAITING)


def _following(controls: Controls, busy: BlockingInstruction, free: BlockingInstruction, cycles: int) -> Microbenchmark:
    """Return a µop that depends on a µop of busy ports."""
    return controls.followed((busy.variant, cycles * len(busy.ports)), busy.variant, free.variant)


def _can_be_made(code: Callable[[int], Microbenchmark]) -> bool:
    """Whether there are enough registers, and results that can be read."""
    try:
        code(QUEUE)
    except GenerationError:
        return False
    return True


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
    blocking: BlockingSet,
    controls: Controls,
) -> Procedure[bool | None]:
    """Return whether µops that depend on a µop of busy ports keep away from these; None if it could not be tried.

    It is tried with µops that would prefer one of the busy ports if they were idle.
    """
    pairs = _pairs(single, preferred, blocking.layout)
    codes = ((busy.ports, partial(_following, controls, busy, free)) for busy, free in pairs)
    made = (_Trial(ports, code, besides=1) for ports, code in codes if _can_be_made(code))
    trials = list(islice(made, MOST_TRIED))
    ran = yield from _counted(trials, blocking)
    if not ran:
        return None if not trials or blocking.accuracy.mean_counts is None else False
    return all(number <= CLEAR + error for number, error in ran)


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
