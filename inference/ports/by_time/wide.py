"""Sets of ports in code with 512-bit instructions, by time alone.

Such code may leave narrower vectors other ports than they have alone. On Emerald Rapids, port 1 then takes no vectors:
`VANDPS (XMM, XMM, XMM)` of p015 is confined to p05, and `VMAXPS (XMM, XMM, XMM)` goes to p05 instead of p01. So

1. 512-bit instructions are grouped by their sets, like others before;
2. if they slow narrower vectors, sets of several ports that these have count no more;
3. each group is placed among the ports that are known: by the sets that it is confined to, and by those that are
   confined to it. What fits several places is left out;
4. 512-bit loads are compared with the known sets of loads alone: they show whether these take 512 bits, too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from math import prod
from typing import TYPE_CHECKING

from generator.sequences.blocking import CodeKind, fits, is_wide, is_wide_load
from inference.ports.by_time.blockers import proved_blockers
from inference.ports.by_time.machine import TimedMachine, TimedSet
from inference.ports.by_time.members import MemberClass
from inference.ports.by_time.votes import ENOUGH_VOTES, vote_of, vote_on_same, voted, won

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from inference.experiment import Procedure
    from inference.ports.blocking_instructions import Candidate
    from inference.ports.by_time.machine import Discovery
    from inference.ports.by_time.members import Member
    from inference.ports.by_time.mixes import Asked
    from inference.ports.by_time.votes import Places
    from results.ports import PortSet

VECTORS = "VEC"
"""The register file of which 512-bit code may change the sets."""

MOST_PLACINGS = 4096
"""Ways to place all groups that are looked at, to bound the work."""


def find_wide_sets(
    discovery: Discovery, machine: TimedMachine, candidates: Sequence[Candidate]
) -> Procedure[TimedMachine | None]:
    """Return what is known of 512-bit code, None if its sets are those of other code, or not known.

    Args:
        discovery: what found the sets of other code.
        machine: these sets.
        candidates: instructions that may stand in 512-bit code.
    """
    if not machine.sets:
        return None
    discovery = replace(discovery, most_often={})  # of 512-bit instructions only
    computing = [one for one in candidates if is_wide(one.variant) and not one.variant.accesses_memory]
    members = yield from discovery.members_of(computing)
    wide = yield from discovery.classes_of(members)
    if not wide:
        return None
    search = _WideSearch(discovery, [_in_wide_code(one) for one in discovery.classes], machine.sets, wide)
    yield from search.ask()
    placed = search.placed()
    if not placed or (not search.changes and set(placed.values()) <= {one.ports for one in machine.sets}):
        return None
    loads = [one for one in candidates if is_wide_load(one.variant)]
    beside = replace(discovery, most_often={})  # what loads is no measure of what computes
    yield from search.add_loads((yield from beside.members_of(loads)))
    classes, ports = search.in_all(placed)
    proved = yield from proved_blockers(classes, ports, discovery.answers)
    sets = tuple(
        TimedSet(one, found.strings, {CodeKind.WIDE: blockers[CodeKind.WIDE]}, _files(found))
        for one, found, blockers in zip(ports, classes, proved, strict=True)
        if CodeKind.WIDE in blockers
    )
    return replace(machine, sets=sets, blockable=discovery.blockable(sets), alternatives=(), parts=())


def _in_wide_code(found: MemberClass) -> MemberClass:
    """Return the instructions of a class that may stand in 512-bit code."""
    return replace(found, members=[one for one in found.members if fits(one.variant, CodeKind.WIDE)])


def _files(found: MemberClass) -> frozenset[str]:
    """Return the register files of a set's instructions. Loads of narrow vectors do not show those of 512 bits."""
    return found.files if any(is_wide(one.variant) for one in found.members) else found.files - {VECTORS}


@dataclass
class _WideSearch:
    """What is asked about groups of 512-bit instructions: `wide`, behind the `known` ones in `classes`.

    `confined` are votes about pairs: whether the first one's instructions are confined to the second one's set.
    `asked` counts how often a known set was asked about, and `slowed` how often its instructions were slowed then.
    `halved` counts how often a 512-bit instruction had two µops in its slot.
    """

    discovery: Discovery
    known: list[MemberClass]
    sets: tuple[TimedSet, ...]
    wide: list[MemberClass]
    confined: dict[Places, list[bool]] = field(default_factory=dict)
    slowed: Counter[int] = field(default_factory=Counter)
    asked: Counter[int] = field(default_factory=Counter)
    halved: Counter[int] = field(default_factory=Counter)

    @property
    def classes(self) -> list[MemberClass]:
        """All classes: known ones, then those of 512-bit instructions."""
        return [*self.known, *self.wide]

    @property
    def wide_places(self) -> range:
        """The places of 512-bit instructions among all classes."""
        return range(len(self.known), len(self.known) + len(self.wide))

    @property
    def changes(self) -> bool:
        """Whether 512-bit instructions change how narrower vectors run."""
        vectors = (place for place in self.asked if self._has_vectors(place))
        return any(2 * self.slowed[place] > self.asked[place] for place in vectors)

    def _has_vectors(self, place: int) -> bool:
        return VECTORS in self.sets[place].files and not self.sets[place].is_of_memory

    def _may_change(self, place: int) -> bool:
        return self.changes and self._has_vectors(place)

    def is_valid(self, place: int) -> bool:
        """Whether a known set is the same in 512-bit code: that of vectors may not be, unless it has only one port."""
        return bool(self.known[place].members) and (len(self.sets[place].ports) == 1 or not self._may_change(place))

    def size(self, place: int) -> int:
        """Return how many ports a class has."""
        return len(self.sets[place].ports) if place < len(self.known) else self.classes[place].first.size

    def ask(self) -> Procedure[None]:
        """Ask which classes are confined to which, if either is of 512-bit instructions."""
        among_known = [
            (one, place) for one in self.wide_places for place, found in enumerate(self.known) if found.members
        ]
        self.confined = yield from voted(self.classes, among_known, self._ballot)
        of_known = [(place, one) for one, place in among_known if self.is_valid(place)]
        pairs = [*of_known, *combinations(self.wide_places, 2)]
        further = [(i, o) for i, o in pairs if self.size(i) <= self.size(o)]
        self.confined |= yield from voted(self.classes, further, self._ballot)

    def add_loads(self, loads: Sequence[Member]) -> Procedure[None]:
        """Add those of these 512-bit loads to a known set of loads that have this set and no other.

        Each is asked about alone. They are no groups to be placed, since a wrong vote about one would lose all places.
        """
        sets = [place for place, one in enumerate(self.sets) if one.is_of_loads and self.known[place].members]
        classes = [*self.known, *(MemberClass([one]) for one in loads)]
        pairs = [
            (number, place)
            for number, one in enumerate(loads, len(self.known))
            for place in sets
            if one.size == self.size(place)
        ]
        votes = yield from voted(classes, pairs, self._ballot_on_same)
        for (number, place), each in votes.items():
            if len(each) >= ENOUGH_VOTES and won(each):
                self.known[place].members += classes[number].members

    def _ballot_on_same(
        self, _: Sequence[Places], members: Sequence[tuple[Member, Member]]
    ) -> Procedure[list[bool | None]]:
        return [vote_on_same(ways) for ways in (yield from self.discovery.both_ways(members))]

    def _ballot(
        self, open_: Sequence[Places], members: Sequence[tuple[Member, Member]]
    ) -> Procedure[list[bool | None]]:
        answers = yield from self.discovery.answers(members)
        return [self._vote(pair, one) for pair, one in zip(open_, answers, strict=True)]

    def _vote(self, pair: Places, asked: Asked) -> bool | None:
        """Note what an answer tells besides, and return its vote."""
        inner, outer = pair
        if asked.answer is not None and outer < len(self.known):
            self.asked[outer] += 1
            self.slowed[outer] += asked.slows
        if asked.slows:
            return None
        self.halved[inner] += asked.has_several_uops
        return vote_of(asked)

    def placed(self) -> dict[int, PortSet]:
        """Return the ports of each class of 512-bit instructions that fits only one place among the known ports."""
        ports = sorted(frozenset().union(*(one.ports for one in self.sets)))
        fitting: dict[int, list[PortSet]] = {}
        for one in self.wide_places:
            if self.halved[one] >= ENOUGH_VOTES:
                continue  # a pair of halves runs half as often, on twice as many ports
            fitting[one] = [
                place for some in combinations(ports, self.size(one)) if self._fits(one, place := frozenset(some))
            ]
        fitting = {one: places for one, places in fitting.items() if places}
        together = list(self._together(fitting))
        return {one: places.pop() for one in fitting if len(places := {each[one] for each in together}) == 1}

    def _fits(self, one: int, ports: PortSet) -> bool:
        """Whether a class of 512-bit instructions may have these ports, by all votes about known sets."""
        known = {place: own.ports for place, own in enumerate(self.sets) if self.is_valid(place)}
        return self._agrees({**known, one: ports})

    def _agrees(self, ports: Mapping[int, PortSet]) -> bool:
        """Whether the ports of these classes agree with all votes about pairs of them."""
        return all(
            not votes or (ports[inner] <= ports[outer]) == won(votes)
            for (inner, outer), votes in self.confined.items()
            if inner in ports and outer in ports
        )

    def _together(self, fitting: Mapping[int, list[PortSet]]) -> Iterator[Mapping[int, PortSet]]:
        """Yield the ways to place all classes that agree with the votes about pairs of them; none if too many."""
        if prod(map(len, fitting.values())) > MOST_PLACINGS:
            return
        placings = (dict(zip(fitting, chosen, strict=True)) for chosen in product(*fitting.values()))
        yield from filter(self._agrees, placings)

    def in_all(self, placed: Mapping[int, PortSet]) -> tuple[list[MemberClass], list[PortSet]]:
        """Return all classes of 512-bit code and their ports; of vectors that change those of 512-bit instructions."""
        by_ports: dict[PortSet, MemberClass] = {}
        for one, ports in placed.items():
            found = by_ports.setdefault(ports, MemberClass([]))
            found.members += self.classes[one].members
        for place, (own, known) in enumerate(zip(self.sets, self.known, strict=True)):
            if not self.is_valid(place):
                continue
            if own.ports in by_ports:
                by_ports[own.ports].members += known.members
            elif not self._may_change(place):
                by_ports[own.ports] = known
        return list(by_ports.values()), list(by_ports)
