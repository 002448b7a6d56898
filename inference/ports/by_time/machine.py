"""Basic sets of ports by time alone: issue width, filler, and classes of instructions that have a set in common.

1. Eliminated moves (or NOPs, where no move is eliminated) are the filler, in the length that is issued fastest. They
   show issue slots and the issue width.
2. A candidate has one slot, and n of it run per cycle: its set has n ports, fewer than the issue width.
3. Two candidates have the same set if each is confined to the other's, at two strengths of blocking.
4. A set is nested in a larger one if its instructions are confined to that one. A mix of two sets shows how many ports
   they have together. `diagram` makes ports of that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import ceil
from typing import TYPE_CHECKING

from generator.microbenchmark import Microbenchmark
from generator.operands.registers import family
from generator.sequences.blocking import CodeKind
from generator.sequences.filler import MOVE, NOP, RESULTS, SOURCE, SlotFiller, as_filler
from generator.sequences.renaming import is_move, may_be_eliminated
from inference.experiment import Procedure, Request
from inference.ports.by_time.blockers import proved_blockers
from inference.ports.by_time.diagram import SetRelations, consistent, named
from inference.ports.by_time.members import MEMORY, Member, MemberClass, domains, preference
from inference.ports.by_time.mixes import (
    CONFIRMS,
    FARTHEST,
    NOISE_FACTOR,
    Asked,
    MixFactory,
    Question,
    ask,
    cycles_of,
    issue_rate,
    strengths,
    undisturbed,
)
from inference.ports.by_time.published import published_names
from inference.ports.by_time.votes import ENOUGH_VOTES, REPRESENTATIVES, Places, lead, vote_of, vote_on_same, voted, won
from results.model import PortUsage
from xed_convert.errors import UopscopeError
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from generator.factory import InstructionFactory
    from inference.ports.blocking_instructions import Candidate
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant

LENGTHS = {MOVE: range(3, 9), NOP: range(3, 9)}
"""Bytes of filler that are tried. A move has three, and no front end delivers longer lines than these faster.

The µop caches of Intel's cores up to Cascade Lake do not hold code with more than 18 µops in 32 bytes (Intel's
Optimization Reference Manual, section on the decoded ICache). Where decoders deliver such code, an instruction of two
µops is the first of a group, so that it seems to have a slot more. So NOPs have no less than three bytes.
"""

FASTER = Fraction(102, 100)
"""Factor: longer filler is taken if it is issued this many times as fast. Less may be noise."""

ELIMINATED = Fraction(3, 2)
"""Dependent moves are eliminated if they take no more than this many times as long as independent ones."""

UNDER_A_CYCLE = Fraction(3, 4)
"""Cycles. A move that needs a port takes a whole cycle in a chain."""

SLOWEST, FASTEST = Fraction(92, 100), Fraction(104, 100)
"""Shares of n per cycle: an instruction with n ports runs that often, because of idle ports and of noise."""

TOO_MANY = Fraction(1, 20)
"""Instances per cycle beyond n that an instruction with n ports may have, because of noise. On Zen 5, `BSWAP` is done
5.17 times per cycle: it leaves some of six ports idle, and has no five."""

NOT_ISSUED = Fraction(96, 100)
"""Share of the issue rate. An instruction that is done as often as filler of its lengths is issued waits for no port.
"""

FIRST_NOISE = Fraction(1, 100)
"""The share by which times may be off as long as nothing is known of the machine."""

LEAST_NOISE, MOST_NOISE = Fraction(2, 1000), Fraction(3, 100)
"""Shares of a time: the noise of a machine is taken to lie between them. Less may be chance, and more is not noise."""

TOO_NOISY = Fraction(4, 100)
"""Share of a time. If times seem to be off by more, nothing is concluded. On simulated machines, all measurements of
which are off by up to 1%, the estimate is 2.8% to 3.0%; with 2% it is 5.4% and more, and wrong sets are found."""

MOST_TIMES = Fraction(19, 20)
"""Share of all times that the noise has to explain: the rest may be something else."""

MOVES = 12
"""Moves or NOPs in the sequences that show the issue width: each of six registers is written twice."""

SLOTS_OF_ONE = Fraction(1, 3)
"""Slots by which the count may be off, if a candidate has one slot: neither 0 nor 2 is as near."""

INSTANCES = 6
"""Instances of a candidate among filler: their slots make up a cycle on any core."""

WAITED = Fraction(95, 100)
"""Share of a candidate's reciprocal throughput. If instances with equal registers wait for each other for so long, the
chain, not the ports, may limit its throughput."""

LONGEST_CHAIN = 8
"""Cycles. A longer chain of its own needs so many blocking instructions that noise hides the answer."""

DOUBTFUL = Fraction(1, 3)
"""Share of unclear answers. An instruction with more of them blocks no set well."""

ENOUGH_TESTS = 3
"""Answers that are needed to judge an instruction by `DOUBTFUL`: of fewer, one is a third already."""

MANY_MORE = Fraction(3, 2)
"""Factor: another pool of candidates is taken if this many times as many of them can be used, so that chance does not
choose."""

VECTOR_BITS = 128
"""Width from which on an operand is a vector."""

DELAYS = 2
"""Sets. An instruction with one slot that seems to have several µops on this many sets delays instructions that share
no port with it."""

OWN_CYCLES = (0, 1)
"""Cycles by which mixes of a candidate with itself last longer than needed, in the first and the second attempt.
One cycle is enough to make another mix of it, whose time is measured anew."""

TOGETHER_CYCLES = (6, 9)
"""Cycles for which each of two sets is busy in the two mixes that show how many ports both have together. There are two
mixes, so that chance in one does not decide. Each further attempt lasts a cycle longer."""

SHOW_MOST = 2
"""Mixes of two sets that have to show so many ports together: one may be too fast by mistake."""

NEAR = Fraction(6, 100)
"""Share of its time by which a mix of two sets may be off the prediction for a number of common ports. One port more
among eight makes twice that."""


@dataclass(frozen=True, slots=True)
class TimedSet:
    """A basic set of ports, the instructions found to have it, and that to block with in each kind of code.

    `files` are the register files of these instructions.
    """

    ports: PortSet
    members: tuple[str, ...]
    blockers: Mapping[CodeKind, InstructionVariant]
    files: frozenset[str] = frozenset()

    @property
    def takes_vectors(self) -> bool:
        """Whether instructions with vector registers have it."""
        return any(
            (operand.width_bits or 0) >= VECTOR_BITS and operand.registers
            for blocker in self.blockers.values()
            for operand in blocker.operands
        )

    @property
    def is_of_memory(self) -> bool:
        """Whether its instructions access memory."""
        return all(
            any(operand.memory is not None for operand in blocker.operands) for blocker in self.blockers.values()
        )

    @property
    def is_of_loads(self) -> bool:
        """Whether its instructions load. Moves between register files may use the ports of a store's value."""
        accesses = [[o for o in blocker.operands if o.memory is not None] for blocker in self.blockers.values()]
        return bool(accesses) and all(some and not any(o.written for o in some) for some in accesses)


@dataclass(frozen=True, slots=True)
class KnownPart:
    """A part of a `whole` set that no blocking instruction has, and an example with its usage: `find_parts`.

    All ports have their public names.
    """

    whole: PortSet
    part: PortSet
    example: InstructionVariant
    usage: PortUsage


@dataclass(frozen=True, slots=True)
class TimedMachine:
    """What is known of a machine's ports by time alone.

    - `width`: issue width in slots per cycle.
    - `off`: share by which times seem to be off.
    - `names`: published names of ports; results call all others `r` and the letter.
    - `alternatives`: the ports of `sets` in other diagrams that fit the answers as well.
    - `blockable`: register files whose instructions all run no faster than the largest set of the file allows. µops of
      other files may use ports that nothing keeps busy.
    - `parts`: parts of sets that were found, with an example of each.
    - `wide`: the same of code with 512-bit instructions (None: its sets are these, or not known).
    - `orders`: in how many orders the lines of each code are measured (1: only in one), as times of one are too noisy.
    """

    width: int
    filler: SlotFiller
    off: Fraction
    sets: tuple[TimedSet, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    blockable: frozenset[str] = frozenset()
    alternatives: tuple[tuple[PortSet, ...], ...] = ()
    parts: tuple[KnownPart, ...] = ()
    wide: TimedMachine | None = None
    orders: int = 1

    def in_code(self, kind: CodeKind) -> TimedMachine:
        """Return what is known of a kind of code."""
        return self.wide if self.wide is not None and kind is CodeKind.WIDE else self

    @property
    def noise(self) -> Fraction:
        """The share by which a time may be off, as long as it is noise."""
        return noise_of(self.off)

    @property
    def is_noisy(self) -> bool:
        """Whether times are off by so much that they say nothing of ports."""
        return self.off > TOO_NOISY

    def public(self, ports: PortSet) -> PortSet:
        """Return a set with the names that results have for its ports: `r0` and so on, or published ones."""
        return frozenset(self.names.get(port, f"r{port}") for port in ports)

    def usage(self, usage: PortUsage) -> PortUsage:
        """Return a usage with the names that results have."""
        return PortUsage({self.public(ports): count for ports, count in usage.uops.items()})


@dataclass
class Discovery:
    """Finds the sets of a machine, and keeps what it has found so far.

    `most_often` is the highest throughput of each register file's instructions, in instructions per cycle.
    `classes` are the instructions of each set that was found.
    """

    mixes: MixFactory
    architecture: str = ""
    width: int = 0
    filler: SlotFiller | None = None
    noise: Fraction = FIRST_NOISE
    residuals: list[Fraction] = field(default_factory=list)
    issue_residuals: list[Fraction] = field(default_factory=list)
    most_often: dict[str, Fraction] = field(default_factory=dict)
    classes: list[MemberClass] = field(default_factory=list)

    @property
    def instructions(self) -> InstructionFactory:
        """What makes lines of code."""
        return self.mixes.instructions

    def run(self, pools: Sequence[Sequence[Candidate]]) -> Procedure[TimedMachine | None]:
        """Return what is known of the machine, None if not even its issue width is.

        Of several pools of candidates the first counts, unless clearly more candidates of a later one can be used.
        """
        yield from self._find_filler()
        if self.filler is None or self.width < 2:
            return None
        members: list[Member] = []
        for candidates in pools:
            found = yield from self.members_of(candidates)
            members = found if len(found) > len(members) * MANY_MORE else members
        classes = yield from self.classes_of(members)
        # Both have other causes besides noise: µops that delay others, lines that suit the front end. Less is nearer
        off = min(_off(self.residuals), _off(self.issue_residuals))
        if off > TOO_NOISY:
            return TimedMachine(self.width, self.filler, off, ())
        self.noise = noise_of(off)
        classes.sort(key=lambda one: (one.first.size, min(one.strings)))
        classes, relations = yield from self._relations(classes)
        fitting, _, left_out = consistent(relations)
        self.classes = classes = [one for number, one in enumerate(classes) if number not in left_out]
        ports, *others = (tuple(named(cells, [one.rank for one in classes])) for cells in fitting)
        proved = yield from proved_blockers(classes, ports, self.answers)
        sets = [
            TimedSet(one, found.strings, blockers, found.files)
            for one, found, blockers in zip(ports, classes, proved, strict=True)
        ]
        names = published_names(self.architecture, {one.ports: one.members for one in sets})
        return TimedMachine(self.width, self.filler, off, tuple(sets), names, self.blockable(sets), tuple(others))

    def blockable(self, sets: Sequence[TimedSet]) -> frozenset[str]:
        """Return the register files whose instructions all run no faster than the largest set of the file allows."""
        return frozenset(
            file
            for file, rate in self.most_often.items()
            if rate <= FASTEST * max((len(one.ports) for one in sets if file in one.files), default=0)
        )

    def _find_filler(self) -> Procedure[None]:
        """Find filler, its best length, and the issue width: how much of it is issued per cycle."""
        lines = self.instructions.line
        try:
            chain = tuple(lines(MOVE, *pair) for pair in ((SOURCE, RESULTS[0]), (RESULTS[0], SOURCE))) * (MOVES // 2)
            tried = [SlotFiller(string, length) for string, lengths in LENGTHS.items() for length in lengths]
            codes = [chain, *(tuple(one.lines(self.instructions, [one.length_bytes] * MOVES)) for one in tried)]
        except UopscopeError:
            return
        purposes = ("a chain of moves", *(f"{one.string} of {one.length_bytes} bytes" for one in tried))
        benchmarks = [Microbenchmark((), code, text, len(code)) for code, text in zip(codes, purposes, strict=True)]
        measured = yield [Request(one, loop=True) for one in benchmarks]
        times = [cycles_of(one) for one in measured]
        chained, *each = (None if cycles is None else cycles / MOVES for cycles in times)
        known = [(cycles, one) for cycles, one in zip(each, tried, strict=True) if cycles is not None]
        moves, nops = ([pair for pair in known if pair[1].string == string] for string in (MOVE, NOP))
        fastest = min((cycles for cycles, _ in moves), default=None)
        is_move = chained is not None and fastest is not None and chained <= min(ELIMINATED * fastest, UNDER_A_CYCLE)
        found = moves if is_move else nops
        if not found:
            return
        fastest = min(cycles for cycles, _ in found)
        self.filler = next(one for cycles, one in found if cycles <= fastest * FASTER)
        self.width = round(1 / fastest)

    def members_of(self, candidates: Sequence[Candidate]) -> Procedure[list[Member]]:
        """Return the candidates with one slot whose throughput is that of a set of ports."""
        assert self.filler is not None
        fitting = yield from self._with_rate_of_ports(candidates)
        requests: list[Request] = []
        planned = []
        count = INSTANCES * (self.width + 1)
        for candidate, size, cycles in fitting:
            variant = candidate.variant
            try:
                filled = self.mixes.among(self.filler, count, [(variant, INSTANCES)], None)
                requests += [*filled, self.mixes.request([], variant)]
            except UopscopeError:
                continue
            planned.append((candidate, size, cycles))
        answers = iter((yield requests) if requests else [])
        found = []
        for candidate, size, cycles in planned:
            filled_cycles, rate = (
                cycles_of(next(answers)),
                undisturbed(issue_rate(next(answers), self.width), self.width),
            )
            chain = cycles_of(next(answers))
            if filled_cycles is None or chain is None or chain > LONGEST_CHAIN or _waits(candidate, chain, cycles):
                continue
            slots = (filled_cycles * rate - count) / INSTANCES
            if abs(slots - 1) <= SLOTS_OF_ONE:
                self.issue_residuals.append(abs(slots - 1) * INSTANCES / (filled_cycles * rate))
                found.append(Member(candidate.variant, size, chain, cycles))
        return found

    def _with_rate_of_ports(self, candidates: Sequence[Candidate]) -> Procedure[list[tuple[Candidate, int, Fraction]]]:
        """Return the candidates that are done n times per cycle, with n and their reciprocal throughputs.

        That is not a number of ports if filler of their lengths is not issued faster.
        """
        assert self.filler is not None
        measured = yield [Request(one.benchmark, loop=True) for one in candidates]
        fitting = []
        for candidate, one in zip(candidates, measured, strict=True):
            if not one.ok or one.cycles <= 0:
                continue
            rate = one.request.benchmark.divisor / one.cycles
            if not is_move(candidate.variant):  # eliminated ones need no port
                for file in domains(candidate.variant) - {MEMORY}:
                    self.most_often[file] = max(self.most_often.get(file, rate), rate)
            size = round(rate)
            if may_be_eliminated(candidate.variant):
                continue
            if 1 <= size < self.width and SLOWEST * size <= rate <= min(FASTEST * size, size + TOO_MANY):
                fitting.append((candidate, size, rate))
        twins = [as_filler(self.instructions, self.filler, one.benchmark) for one, *_ in fitting]
        issued = iter((yield [Request(one, loop=True) for one in twins]) if twins else [])
        return [
            (candidate, size, 1 / rate)
            for candidate, size, rate in fitting
            if rate * len(candidate.benchmark.body)
            < NOT_ISSUED * candidate.benchmark.divisor * issue_rate(next(issued), self.width)
        ]

    def answers(self, pairs: Sequence[tuple[Member, Member]], more_cycles: int = 0) -> Procedure[list[Asked]]:
        """Ask of each pair (subject, blocker) how many µops of the subject are confined to the blocker's set.

        The blocking instructions last `more_cycles` longer than they need to.
        """
        questions = []
        for subject, blocker in pairs:
            chain = max(subject.chain, blocker.chain)
            counts = tuple(
                count + more_cycles * blocker.size for count in strengths(blocker.size, self.width, 1, chain)
            )
            questions.append(Question(subject.variant, blocker.variant, blocker.size, counts, subject.chain))
        found = yield from ask(self.mixes, questions, self.noise)
        for one in found:
            if one.answer is not None and one.answer.uops is not None:
                self.residuals += [
                    abs(cycles * one.question.size - count - one.answer.uops) / (cycles * one.question.size)
                    for count, cycles in one.times
                ]
        return found

    def both_ways(self, pairs: Sequence[tuple[Member, Member]]) -> Procedure[list[tuple[Asked, Asked]]]:
        """Ask of each pair how many µops of either are confined to the other's set."""
        answers = iter((yield from self.answers([way for one, two in pairs for way in ((one, two), (two, one))])))
        return [(next(answers), next(answers)) for _ in pairs]

    def classes_of(self, members: Sequence[Member]) -> Procedure[list[MemberClass]]:
        """Group members by their sets, smaller sets first."""
        steady = yield from self._steady(members)
        # Each of them has its own µop on its own set, so that these times show noise first
        self.noise = max(self.noise, noise_of(_off(self.residuals)))
        found: list[MemberClass] = []
        for size in sorted({one.size for one in steady}):
            left = sorted((one for one in steady if one.size == size), key=preference)
            while left:
                first, *rest = left
                asked = (yield from self.both_ways([(one, first) for one in rest])) if rest else []
                group, left = MemberClass([first]), []
                for member, ways in zip(rest, asked, strict=True):
                    both = [one.uops for one in ways]
                    group.tests += 1
                    if both == [1, 1]:
                        group.members.append(member)
                    else:
                        group.doubts += both != [0, 0]
                        left.append(member)
                if group.tests >= ENOUGH_TESTS and group.doubts > DOUBTFUL * group.tests:
                    left = sorted([*left, *group.members[1:]], key=preference)
                else:
                    found.append(group.without_other_uops())
        return (yield from self._merged(found))

    def _steady(self, members: Sequence[Member]) -> Procedure[list[Member]]:
        """Return the members that wait for others of their own kind as one µop does.

        One that does not is asked again with other mixes. It may be the only one that shows its set, and then a single
        disturbed time would lose the set.
        """
        steady: set[str] = set()
        for more_cycles in OWN_CYCLES:
            left = [one for one in members if one.variant.string not in steady]
            own = yield from self.answers([(one, one) for one in left], more_cycles)
            steady |= {
                member.variant.string
                for member, asked in zip(left, own, strict=True)
                if asked.answer is not None and asked.answer.uops == 1 and max(asked.answer.values) <= 1 + FARTHEST
            }
        return [one for one in members if one.variant.string in steady]

    def _merged(self, classes: Sequence[MemberClass]) -> Procedure[list[MemberClass]]:
        """Merge classes that have the same set, but were kept apart by one disturbed answer about their first members.

        Members vote for one set if each is confined to the other's, against it if one is not. If both always wait for
        more than a µop, what they have in common is not known, and the class of fewer members is dropped. On Zen 5,
        `PDEP` and `RORX` take longer side by side than one after the other.
        """
        waits = Counter[Places]()

        def of_one_set(
            open_: Sequence[Places], members: Sequence[tuple[Member, Member]]
        ) -> Procedure[list[bool | None]]:
            both = yield from self.both_ways(members)
            waits.update(places for places, ways in zip(open_, both, strict=True) if all(map(_waits_longer, ways)))
            return [vote_on_same(ways) for ways in both]

        pairs = [
            (i, o) for i, o in combinations(range(len(classes)), 2) if classes[i].first.size == classes[o].first.size
        ]
        votes = yield from voted(classes, pairs, of_one_set)
        contested = [pair for pair, count in waits.items() if not votes[pair] and count >= ENOUGH_VOTES]
        dropped = {min(pair, key=lambda number: len(classes[number].members)) for pair in contested}
        heads = _heads_of(classes, votes, dropped)
        for number, head in heads.items():
            if number != head:
                classes[head].members += classes[number].members
        return (yield from self._of_own_sets(classes, heads, votes))

    def _of_own_sets(
        self, classes: Sequence[MemberClass], heads: Mapping[int, int], votes: Mapping[Places, Sequence[bool]]
    ) -> Procedure[list[MemberClass]]:
        """Return the merged classes, without those that may have the set of another one.

        Two have sets of their own by votes, or if mixes of both run faster than the ports of one allow. Else nothing is
        known of the smaller class: where a busy neighbour slowed most mixes, loads of a Cascade Lake had three sets.
        """
        apart = {
            frozenset((heads[i], heads[o]))
            for (i, o), each in votes.items()
            if i in heads and o in heads and lead(each) <= -ENOUGH_VOTES
        }
        kept = sorted(set(heads.values()), key=lambda number: (-len(classes[number].members), number))
        open_ = [pair for pair in votes if set(pair) <= set(kept) and frozenset(pair) not in apart]
        together = yield from self._together(classes, open_)
        doubtful = {frozenset(pair) for pair in open_ if together.get(pair, (0, 0))[0] <= classes[pair[0]].first.size}
        found: list[int] = []
        for number in kept:
            if not any(frozenset((number, larger)) in doubtful for larger in found):
                found.append(number)
        return [classes[number] for number in sorted(found)]

    def _relations(self, classes: Sequence[MemberClass]) -> Procedure[tuple[list[MemberClass], SetRelations]]:
        """Find which sets are nested, and how many ports pairs of others have together; return the sets that count.

        An instruction with one slot that seems to have several µops on other sets delays instructions with which it
        shares no port. On Zen 4, a move from a vector to a general register keeps some instructions from all ALUs for a
        cycle.
        """
        delays: dict[int, set[int]] = defaultdict(set)

        def nested_in(
            open_: Sequence[Places], members: Sequence[tuple[Member, Member]]
        ) -> Procedure[list[bool | None]]:
            found: list[bool | None] = []
            answers = yield from self.answers(members)
            for (inner, outer), (member, _), one in zip(open_, members, answers, strict=True):
                vote = vote_of(one)
                if vote is not None and one.has_several_uops:
                    delays[inner].add(outer)
                found.append(None if vote and classes[outer].may_hold_another_of(member) else vote)
            return found

        pairs = [
            (i, o) for i, o in combinations(range(len(classes)), 2) if classes[i].first.size < classes[o].first.size
        ]
        votes = yield from voted(classes, pairs, nested_in)
        kept = [number for number in range(len(classes)) if len(delays[number]) < DELAYS]
        places = {old: new for new, old in enumerate(kept)}
        left = [classes[number] for number in kept]
        nested = {
            (i, o): False for i, o in combinations(range(len(left)), 2) if left[i].first.size == left[o].first.size
        }
        nested |= {
            (places[i], places[o]): won(each)
            for (i, o), each in votes.items()
            if i in places and o in places and (lead(each) or classes[i].may_need_both(classes[o]))
        }
        together = yield from self._together(
            left, [pair for pair in combinations(range(len(left)), 2) if not nested.get(pair)]
        )
        return left, SetRelations(tuple(one.first.size for one in left), nested, together)

    def _together(
        self, classes: Sequence[MemberClass], pairs: Sequence[Places]
    ) -> Procedure[dict[Places, tuple[int, int]]]:
        """Return of pairs the least and the most ports that both sets can have together, as mixes of both show.

        A mix that something else slows down seems to have fewer ports. So further mixes are made, of other members
        where there are any, until two show that no port is common. Of sets of one size they have to show that there are
        two. Of all, the second most counts: the one that shows most may be the luckiest mistake. On Emerald Rapids,
        `MOV (R64, M64)` and `VMOVQ (XMM, M64)` seemed to have six ports once, and not three.
        """
        found: dict[Places, list[tuple[int, int]]] = defaultdict(list)
        left = list(pairs)
        for place in range(REPRESENTATIVES):
            if not left:
                break
            shown = yield from self._mixed(classes, left, place)
            for pair, ports in shown.items():
                found[pair] = sorted([*found[pair], ports], reverse=True)
            left = [
                (i, o)
                for i, o in left
                if not _are_apart(found.get((i, o), []), classes[i].first.size, classes[o].first.size)
            ]
        return {pair: _sure(shown) for pair, shown in found.items()}

    def _mixed(
        self, classes: Sequence[MemberClass], pairs: Sequence[Places], place: int
    ) -> Procedure[dict[Places, tuple[int, int]]]:
        """Return the least and the most ports that mixes of the members at a place show for each pair of classes."""
        assert self.filler is not None
        lasting = [cycles + place for cycles in TOGETHER_CYCLES]
        requests, planned = [], []
        for pair in pairs:
            one, other = (classes[number].at(place) for number in pair)
            try:
                made = [
                    self.mixes.among(
                        self.filler, 0, [(one.variant, n * one.size), (other.variant, n * other.size)], None
                    )
                    for n in lasting
                ]
            except UopscopeError:
                continue
            requests += [request for each in made for request in each]
            planned.append((pair, one.size, other.size))
        answers = iter((yield requests) if requests else [])
        found = {}
        for pair, one_size, other_size in planned:
            times = [(n, cycles_of(next(answers)), issue_rate(next(answers), self.width)) for n in lasting]
            shares = [(cycles / n, issued) for n, cycles, issued in times if cycles is not None]
            if len(shares) < len(times):
                continue
            both = one_size + other_size
            # A mix is never faster than its ports allow, so that each time is a lower bound of the ports together
            shortest = min(share for share, _ in shares)
            least = min(both, self.width, ceil(both / max(Fraction(1), shortest * (1 + NEAR))))
            fitting = [
                ports
                for ports in range(max(one_size, other_size), both + 1)
                if all(
                    abs(share / max(both / min(Fraction(ports), issued), Fraction(1)) - 1) <= NEAR
                    for share, issued in shares
                )
            ]
            if fitting:
                found[pair] = (fitting[0], fitting[-1])
            else:
                found[pair] = (least, both)
        return found


def _waits(candidate: Candidate, chain: Fraction, cycles: Fraction) -> bool:
    """Whether instances with equal registers wait for each other for as long as they take.

    Only what reads what it writes has a chain. Any other instruction takes as long in one register as in several. No
    instruction waits for the instruction pointer.
    """
    own = [one for one in candidate.variant.operands if one.read and one.written]
    if not any(one.kind is OperandKind.FLAGS or any(family(name) != "RIP" for name in one.registers) for one in own):
        return False
    instances = max(Counter(line.code for line in candidate.benchmark.body).values())
    return instances * chain >= WAITED * cycles * candidate.benchmark.divisor


def noise_of(off: Fraction) -> Fraction:
    """Return the share of a time that is noise, from the share by which times seem to be off."""
    return min(MOST_NOISE, max(LEAST_NOISE, off))


def _off(residuals: Sequence[Fraction]) -> Fraction:
    """Return the share by which times may be off, from the shares by which times with known answers were."""
    if not residuals:
        return FIRST_NOISE
    return sorted(residuals)[int(len(residuals) * MOST_TIMES)] * NOISE_FACTOR


def _heads_of(
    classes: Sequence[MemberClass], votes: Mapping[Places, Sequence[bool]], dropped: Container[int]
) -> dict[int, int]:
    """Return for each class that is not dropped the first one that won the vote for one set, or itself."""
    heads: dict[int, int] = {}
    for number in range(len(classes)):
        if number not in dropped:
            earlier = (head for head, own in heads.items() if head == own and won(votes.get((head, number), [])))
            heads[number] = next(earlier, number)
    return heads


def _are_apart(shown: Sequence[tuple[int, int]], one: int, other: int) -> bool:
    """Whether enough mixes of two sets may have used as many ports as both have, and are no mixes of one set.

    Args:
        shown: the least and the most ports that mixes show, those that show most first.
        one: the number of ports of a set.
        other: the same of the other set.
    """
    if len(shown) < SHOW_MOST:
        return False
    least, most = _sure(shown)
    return most >= one + other and (one != other or least > one)


def _sure(shown: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the ports that enough mixes show, those that show most first; with fewer mixes, what all show."""
    return shown[:SHOW_MOST][-1]


def _waits_longer(asked: Asked) -> bool:
    """Whether a member waits longer than for one µop, however many instances there are."""
    answer = asked.answer
    return answer is not None and answer.bound is not None and min(*answer.values, answer.bound) > 1 + CONFIRMS
