"""Which pipe a core takes for each µop, if two schedulers have two pipes each.

A core chooses when it issues a group of µops, and does not know which ones will follow. So it is slower than the linear
program, which chooses for all of them at once. `schedulers.tsv` has the numbers of known cores:

- Slots count in program order, six at a time. The first, third and fifth are for one scheduler, the others for the
  other one. A µop without a pipe there goes to the one that has it.
- A µop that can use all four pipes takes those of a scheduler in turns. Others that can use both take the pipe whose
  turn it is when the group begins. If an odd number of µops for all four follow in this scheduler's slots of the group,
  they take the other one. None takes a pipe with `within` µops more than the other.
- One pipe may have `apart` µops more than the pipe with the same place in the other scheduler. From then on, slots
  count no more: µops of each set of pipes take the schedulers in turns. All that can use both pipes of one take these
  in turns, too.
- If the pipe of a µop in the other scheduler has `aside` µops fewer, it goes there.
- Where a pipe has `entries` µops waiting, the next one for it is not issued, and nothing behind it.
- Of the instructions that write mask registers with a µop on these pipes, `masks` may be on their way. Each is until
  `retirement` cycles after the last µop up to it began.

Pipes are counted as the core sees them, some cycles late. Bursts on an idle core show the first three rules
(`benchmarks/predictions/bursts.py`): up to 120 instructions are off by 1.1% on average. Long loops show the others, and
for these the rules are a model: two µops on FP01 and one on FP12, again and again, take a cycle by them, and 1.2 in
truth.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from generator.facts import read_facts
from inference.ports.fitted.grouped import within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from inference.ports.fitted.grouped import IssuedInstruction
    from results.ports import PortSet

COLUMNS = ("cores", "pipes", "apart", "within", "aside", "entries", "masks", "retirement", "source")

SEEN_LATER = 2
"""Cycles from the issue of a µop until the next choices count it. Bursts of 80 kinds show it, together with `apart`."""

GONE_LATER = 3
"""Cycles from the begin of a µop's execution until choices no longer count it."""

LOOP_SLOTS = 96
"""Slots of the loop that stands for long code. A branch follows, so that slots of a copy do not stay the same."""

ITERATIONS = 15
"""Simulated iterations of that loop."""

WARM_UP = 5
"""Iterations at the start that do not count."""


@dataclass(frozen=True, slots=True)
class Schedulers:
    """Two schedulers and what decides between their pipes. `pipes` are those of each; see above for the numbers."""

    pipes: tuple[tuple[str, str], tuple[str, str]]
    apart: int
    within: int
    aside: int
    entries: int
    masks: int
    retirement: int

    @property
    def ports(self) -> PortSet:
        """All pipes."""
        return frozenset(self.pipes[0] + self.pipes[1])

    def cycles(self, code: Sequence[IssuedInstruction], width: int) -> float:
        """Return the cycles of a copy of repeated code, of which only these pipes and the slots count.

        Args:
            code: the instructions in program order, one at least.
            width: slots that are issued per cycle.
        """
        copies = max(1, LOOP_SLOTS // sum(one.slots for one in code))
        branch = _Slot(frozenset(), masks=False)
        loop = [slot for one in code for slot in self._slots(one)] * copies + [branch]
        ahead = loop + loop[: width - 1]
        core = _Core(self, width)
        ends = []
        for _ in range(ITERATIONS):
            for place in range(len(loop)):
                core.issue(ahead, place)
            ends.append(core.end)
        return (ends[-1] - ends[WARM_UP - 1]) / (ITERATIONS - WARM_UP) / copies

    def burst(self, code: Sequence[IssuedInstruction], width: int, turns: Sequence[int] = (0, 0)) -> list[int]:
        """Return in which cycle all µops up to each instruction are begun, on a core that had nothing to do.

        Cycles count from 1.

        Args:
            code: the instructions in program order.
            width: slots that are issued per cycle.
            turns: which pipe of each scheduler has its turn first.
        """
        core = _Core(self, width, turns)
        each = [self._slots(one) for one in code]
        slots = [slot for own in each for slot in own]
        begun = []
        for place in range(len(slots)):
            core.issue(slots, place)
            begun.append(core.begun)
        return [begun[last - 1] for last in accumulate(map(len, each))]

    def _slots(self, instruction: IssuedInstruction) -> list[_Slot]:
        """Return the slots of an instruction. Masks count once, in the first slot."""
        own = within(instruction.usage, self.ports).uops.items()
        uops = [ports for ports, count in own for _ in range(count)]
        uops += [frozenset()] * (instruction.slots - len(uops))
        return [_Slot(ports, instruction.masks and not place) for place, ports in enumerate(uops)]


class _Slot(NamedTuple):
    """The pipes that the µop of a slot can use (empty: there is no such µop). Whether its instruction writes masks."""

    ports: PortSet
    masks: bool


class _Core:
    """Issues µops in program order, and knows when their execution begins."""

    def __init__(self, schedulers: Schedulers, width: int, turns: Sequence[int] = (0, 0)) -> None:
        self._schedulers, self._width = schedulers, width
        self._cycle, self._issued, self._left = 0, 0, width
        self._scheduler_of = {pipe: number for number, pair in enumerate(schedulers.pipes) for pipe in pair}
        self._seen = dict.fromkeys(self._scheduler_of, 0)
        self._waiting = dict.fromkeys(self._scheduler_of, 0)
        self._next_begin = dict.fromkeys(self._scheduler_of, 0)
        self._changes: defaultdict[int, list[tuple[dict[str, int], str, int]]] = defaultdict(list)
        self._turns = list(turns)
        self._turns_before = tuple(turns)
        self._in_turns = False
        self._next_scheduler: dict[PortSet, int] = {}
        self._masks: deque[int] = deque()
        self._retired = 0
        self.begun = 0
        """The cycle in which the last µop begins, counted from 1."""

    @property
    def end(self) -> int:
        """The cycle in which the last µop begins or is issued, whichever is later."""
        return max(self.begun, self._cycle)

    def issue(self, code: Sequence[_Slot], place: int) -> None:
        """Issue the slot at a place of code, which goes on as far as slots may be issued with it."""
        if not self._left:
            self._next_cycle()
        while (pipe := self._room_for(code, place)) is None:
            self._next_cycle()
        self._left -= 1
        self._issued += 1
        if pipe:
            self._take(pipe, code[place])

    def _next_cycle(self) -> None:
        self._cycle, self._left = self._cycle + 1, self._width
        self._turns_before = tuple(self._turns)
        for counts, pipe, more in self._changes.pop(self._cycle, ()):
            counts[pipe] += more
        while self._masks and self._masks[0] <= self._cycle:
            self._masks.popleft()
        self._in_turns = self._in_turns or any(
            abs(self._seen[one] - self._seen[other]) >= self._schedulers.apart
            for one, other in zip(*self._schedulers.pipes, strict=True)
        )

    def _room_for(self, code: Sequence[_Slot], place: int) -> str | None:
        """Return the pipe for a µop ("": it needs none), None if it cannot be issued in this cycle."""
        slot = code[place]
        if not slot.ports:
            return ""
        if slot.masks and len(self._masks) >= self._schedulers.masks:
            return None
        scheduler = self._preferred(slot.ports)
        own, other = self._pipe(scheduler, code, place), self._pipe(1 - scheduler, code, place)
        pipe = own or other
        if own and other and self._seen[own] - self._seen[other] >= self._schedulers.aside and self._is_free(other):
            pipe = other
        return pipe if self._is_free(pipe) else None

    def _preferred(self, ports: PortSet) -> int:
        """Return the scheduler whose turn it is."""
        by_slot = self._issued % self._width % 2
        if not self._in_turns:
            return by_slot
        return self._next_scheduler.setdefault(ports, 1 - by_slot)

    def _pipe(self, scheduler: int, code: Sequence[_Slot], place: int) -> str:
        """Return the pipe that a µop would take in a scheduler ("": it has none there)."""
        ports = code[place].ports
        possible = [pipe for pipe in self._schedulers.pipes[scheduler] if pipe in ports]
        if len(possible) < 2:
            return possible[0] if possible else ""
        turn = self._turns[scheduler] if self._takes_turns(ports) else self._turn_of_three(scheduler, code, place)
        pipe, other = possible if not turn else reversed(possible)
        return other if self._seen[pipe] - self._seen[other] >= self._schedulers.within else pipe

    def _takes_turns(self, ports: PortSet) -> bool:
        """Whether µops for these pipes take both of a scheduler in turns."""
        return self._in_turns or ports >= self._schedulers.ports

    def _turn_of_three(self, scheduler: int, code: Sequence[_Slot], place: int) -> int:
        """Return which pipe of a scheduler is for a µop that can use both, but not all of the other scheduler."""
        group = enumerate(code[place + 1 : place + self._left], self._issued + 1)
        of_four = [number % self._width % 2 for number, one in group if one.ports >= self._schedulers.ports]
        return self._turns_before[scheduler] ^ of_four.count(scheduler) % 2

    def _is_free(self, pipe: str) -> bool:
        return self._waiting[pipe] < self._schedulers.entries

    def _take(self, pipe: str, slot: _Slot) -> None:
        ports = slot.ports
        scheduler = self._scheduler_of[pipe]
        if self._in_turns:
            self._next_scheduler[ports] = 1 - self._next_scheduler[ports]
        if self._takes_turns(ports) and ports.issuperset(self._schedulers.pipes[scheduler]):
            self._turns[scheduler] ^= 1
        begin = max(self._next_begin[pipe], self._cycle)
        self._next_begin[pipe] = begin + 1
        self._waiting[pipe] += 1
        for at, counts, more in self._later(begin):
            self._changes[at].append((counts, pipe, more))
        self.begun = max(self.begun, begin + 1)
        self._retired = max(self._retired, begin + self._schedulers.retirement)
        if slot.masks:
            self._masks.append(self._retired)

    def _later(self, begin: int) -> Iterator[tuple[int, dict[str, int], int]]:
        """Yield when which counts change because of a µop that begins in a cycle."""
        yield self._cycle + SEEN_LATER, self._seen, 1
        yield begin + GONE_LATER, self._seen, -1
        yield begin + 1, self._waiting, -1


@cache
def known_schedulers() -> Mapping[str, Schedulers]:
    """Return the schedulers of all cores whose numbers are known (`schedulers.tsv`), by the cores' names."""
    return {
        row["cores"]: Schedulers(_pipes(row["pipes"]), *(int(row[one]) for one in COLUMNS[2:-1]))
        for row in read_facts("schedulers.tsv", COLUMNS, ("cores",))
    }


def _pipes(text: str) -> tuple[tuple[str, str], tuple[str, str]]:
    (a, b), (c, d) = (one.split() for one in text.split(", "))
    return (a, b), (c, d)
