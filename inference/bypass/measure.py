"""The experiments of the matrix: rings of one, two and three classes, and rings with moves to another register file.

Each ring is measured with 2 and with 4 instances of each class in a row. Both must show the same cycles beyond the
latencies of their classes, a whole number. If they do not, 3 and 5 instances are measured as well. If these disagree
too, the cause is contention or noise, and no value is stated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import TYPE_CHECKING, NamedTuple

from generator.sequences.bypass import FILES, BypassClass
from inference.bypass.solve import ContradictionError, DelayRange, reference_of, solve
from inference.experiment import Request
from inference.tolerances import AGREE
from results.bypass.model import BypassCell, BypassMatrix, ClassLatency, FileMatrix, FileSum, MeasuredRing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from generator.sequences.bypass import BypassCode, FileMove
    from inference.experiment import Measured, Procedure

    Ring = tuple[BypassClass | FileMove, ...]

LENGTHS = ((2, 4), (3, 5))
"""Instances of each class in a row: two rings that must agree, and two more if they do not. In a longer ring µops have
more time to wait for busy ports: what both show are delays, and no contention."""

WHOLE = Fraction(1, 16)
"""Cycles by which a latency may differ from a whole number. With four of a class in a ring, that is `AGREE`. A shuffle
of 512 bits takes 1.14 cycles on Zen 4, so bypass delays could not be told from its own."""


class RingSum(NamedTuple):
    """Core cycles beyond the latencies: of the longer ring, and as a whole number (None: it is none)."""

    cycles: Fraction
    whole: int | None


@dataclass(frozen=True, slots=True)
class BypassFindings:
    """What `measure_bypasses` found."""

    classes: tuple[ClassLatency, ...]
    matrices: tuple[BypassMatrix, ...]
    between_files: tuple[FileMatrix, ...]
    rings: tuple[MeasuredRing, ...]


@dataclass(slots=True)
class _Rings:
    """Measures rings, and keeps all of them in order."""

    code: BypassCode
    own: dict[str, Fraction] = field(default_factory=dict)
    done: list[MeasuredRing] = field(default_factory=list)

    def sums(self, rings: Iterable[Ring]) -> Procedure[dict[Ring, RingSum]]:
        """Return what rings take beyond the latencies of their classes; those that are not steady are left out."""
        found: dict[Ring, RingSum] = {}
        waiting = list(rings)
        for lengths in LENGTHS:
            wanted = [(ring, instances) for ring in waiting for instances in lengths]
            answers = yield from self._measured(wanted)
            pairs = zip(waiting, answers[::2], answers[1::2], strict=True)
            found |= {ring: known for ring, short, long in pairs if (known := _agreed(short, long)) is not None}
            waiting = [ring for ring in waiting if ring not in found or found[ring].whole is None]
            if not waiting:
                break
        return found

    def latencies(self, classes: Sequence[BypassClass]) -> Procedure[tuple[ClassLatency, ...]]:
        """Measure rings of one class; note and return the latencies."""
        for lengths in LENGTHS:
            waiting = [one for one in classes if one.label not in self.own]
            answers = yield from self._measured([((one,), instances) for one in waiting for instances in lengths])
            for one, *rings in zip(waiting, answers[::2], answers[1::2], strict=True):
                found = [ring.cycles / ring.instances for ring in rings if ring.cycles is not None]
                near = [round(cycles) for cycles in found if abs(cycles - round(cycles)) <= WHOLE]
                if len(near) == 2 and near[0] == near[1]:
                    self.own[one.label] = Fraction(near[0])
        last = {ring.members[0]: ring for ring in self.done}
        reasons = {one.label: "" if one.label in self.own else _failure(last[one.label]) for one in classes}
        return tuple(
            ClassLatency(one.label, one.file, self.code.line(one).text, self.own.get(one.label), reasons[one.label])
            for one in classes
        )

    def _measured(self, wanted: Sequence[tuple[Ring, int]]) -> Procedure[list[MeasuredRing]]:
        answers = (yield [Request(self.code.ring(*one), loop=True) for one in wanted]) if wanted else []
        found = [self._ring(*one, answer) for one, answer in zip(wanted, answers, strict=True)]
        self.done += found
        return found

    def _ring(self, members: Ring, instances: int, answer: Measured) -> MeasuredRing:
        labels = tuple(_label(one) for one in members)
        own = sum((self.own.get(label, Fraction(0)) for label in labels), Fraction(0)) * instances
        code = tuple(line.text for line in answer.request.benchmark.body)
        cycles = answer.cycles if answer.ok else None
        return MeasuredRing(labels, instances, code, cycles, answer.cycles_spread, own, _reason(answer))


def measure_bypasses(code: BypassCode, classes: Sequence[BypassClass]) -> Procedure[BypassFindings]:
    """Measure the delays between classes; those whose latency is not steady have none.

    Raises:
        EncodingError: the catalogue lacks an instruction that is needed.
    """
    rings = _Rings(code)
    latencies = yield from rings.latencies(classes)
    known = {file: [one for one in classes if one.file == file and one.label in rings.own] for file in FILES}
    matrices = []
    for file, members in known.items():
        if len(members) > 1:
            matrices.append((yield from _matrix(rings, file, members)))
    between_files = []
    for one, other in combinations(FILES, 2):
        if known[one] and known[other]:
            between_files += yield from _between(rings, known[one], known[other])
    return BypassFindings(latencies, tuple(matrices), tuple(between_files), tuple(rings.done))


def _matrix(rings: _Rings, file: str, members: Sequence[BypassClass]) -> Procedure[BypassMatrix]:
    """Measure rings of two classes, and of three if any of two shows a delay."""
    labels = tuple(one.label for one in members)
    both = yield from rings.sums(combinations(members, 2))
    pairs = {_ends(ring): one.whole for ring, one in both.items() if one.whole is not None}
    ranges = {pair: DelayRange(0, cycles) for pair, cycles in pairs.items() if not cycles}
    reference = problem = ""
    if any(pairs.values()):
        reference = reference_of(labels, pairs)
        first = next(one for one in members if one.label == reference)
        others = (one for one in members if one is not first)
        around = yield from rings.sums((first, *two) for two in combinations(others, 2))
        triples = {_ends(ring): one.whole for ring, one in around.items() if one.whole is not None}
        try:
            ranges = solve(labels, pairs, triples, reference)
        except ContradictionError as error:
            ranges, problem = {}, str(error)
    ranges = {**{(j, i): one for (i, j), one in ranges.items() if one.most == 0}, **ranges}
    back = {_ends(ring): _cycles(one) for ring, one in both.items()}
    back |= {(j, i): cycles for (i, j), cycles in back.items()}
    cells = tuple(_cell(pair, ranges.get(pair), back.get(pair)) for pair in permutations(labels, 2))
    return BypassMatrix(file, labels, cells, reference, problem)


def _cell(pair: tuple[str, str], delay: DelayRange | None, there_and_back: Fraction | None) -> BypassCell:
    least, most = delay or (None, None)
    return BypassCell(*pair, least, most, there_and_back)


def _between(rings: _Rings, ones: Sequence[BypassClass], others: Sequence[BypassClass]) -> Procedure[list[FileMatrix]]:
    """Measure delays between two register files: first moves alone, then pairs of classes with the fastest moves."""
    here, there = ones[0].file, others[0].file
    ways = list(product(rings.code.moves(here, there), rings.code.moves(there, here)))
    alone = yield from rings.sums(ways)
    if not alone:
        return []
    to, back = min(alone, key=lambda way: _cycles(alone[way]))  # the first of several in the table
    wanted = {(one, other): (one, to, other, back) for one, other in product(ones, others)}
    found = yield from rings.sums(wanted.values())
    cycles = {ring: _cycles(one) for ring, one in found.items()}
    sums = tuple(FileSum(one.label, other.label, cycles.get(ring)) for (one, other), ring in wanted.items())
    texts = (rings.code.line(to).text, rings.code.line(back).text)
    return [FileMatrix((here, there), texts, sums)]


def _cycles(one: RingSum) -> Fraction:
    """Return the cycles that are stated of a ring: the whole number, if it has one."""
    return one.cycles if one.whole is None else Fraction(one.whole)


def _agreed(short: MeasuredRing, long: MeasuredRing) -> RingSum | None:
    """Return the sum that two lengths of a ring show (None: they disagree, or one was not measured)."""
    one, other = short.beyond, long.beyond
    if one is None or other is None or abs(one - other) > AGREE:
        return None
    near = round(other)
    steady = max(abs(one - near), abs(other - near), short.spread, long.spread) <= AGREE
    return RingSum(other, near if steady else None)


def _ends(ring: Ring) -> tuple[str, str]:
    """Return the last two members of a ring: both of a pair, and those beside the reference of three."""
    return _label(ring[-2]), _label(ring[-1])


def _label(one: BypassClass | FileMove) -> str:
    return one.label if isinstance(one, BypassClass) else one.operation.instruction


def _failure(ring: MeasuredRing) -> str:
    """Return why the latency of a class is not known, by its last ring."""
    if ring.cycles is None:
        return ring.detail
    return f"{float(ring.cycles / ring.instances):.2f} is no whole number of cycles: contention"


def _reason(answer: Measured) -> str:
    return "" if answer.ok else answer.detail or answer.status.value
