"""What inference makes of the matrix of a machine whose rules are known."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.factory import InstructionFactory
from generator.memory.accesses import Access, File, accesses_of
from generator.memory.forwarding import Cell, ForwardingCode, cells
from inference.experiment import Measured, Request
from inference.memory.forwarding import measure_forwarding
from results.memory.model import Addressing, Forwarding, Outcome, Place, agreement
from results.model import Status
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INSTRUCTIONS = InstructionFactory(Catalogue.load())
KNOWN = [one for one in accesses_of(INSTRUCTIONS, lambda _: "") if one.name in {"r8", "r64", "x64", "x128"}]
CELLS = list(cells(KNOWN))


@dataclass(frozen=True)
class Rules:
    """A machine: what it takes by outcome, what links take, and which loads are renamed."""

    forwarded: int = 5
    failed: int = 14
    product: int = 3
    shuffles: int = 4
    there_and_back: int = 5
    renames: bool = True
    pages_fail: bool = True

    def outcome(self, cell: Cell) -> Outcome:
        if not cell.contained or (cell.place is Place.PAGES and self.pages_fail):
            return Outcome.FAILED
        same = cell.offset_bytes == 0 and cell.store == cell.load and cell.addressing is Addressing.SAME
        renamed = self.renames and same and cell.store.size_bytes >= 4 and cell.store.file is File.GENERAL
        return Outcome.RENAMED if renamed else Outcome.FORWARDED

    def cycles(self, cell: Cell) -> int:
        return {Outcome.RENAMED: 0, Outcome.FORWARDED: self.forwarded, Outcome.FAILED: self.failed}[self.outcome(cell)]

    def link(self, load: Access, store: Access) -> Fraction:
        if load.file is not store.file:
            return Fraction(self.there_and_back, 2)
        return Fraction(self.product if load.file is File.GENERAL else self.shuffles)


def concluded(
    rules: Rules, chosen: Sequence[Cell] = CELLS, noise: Callable[[int], Fraction] | None = None
) -> Forwarding:
    """Answer as a machine of these rules would, and return what is concluded."""
    return run(rules, chosen, noise)[0]


def run(
    rules: Rules, chosen: Sequence[Cell], noise: Callable[[int], Fraction] | None = None, faulty: int = -1
) -> tuple[Forwarding, tuple[str, ...]]:
    code = ForwardingCode(INSTRUCTIONS)
    times = {code.chain(cell).id: rules.cycles(cell) + rules.link(cell.load, cell.store) for cell in chosen}
    for one in KNOWN:
        for other in KNOWN:
            ways = 1 if one.file is other.file else 2
            times[code.reference(one, other).id] = ways * rules.link(one, other)
    procedure = measure_forwarding(INSTRUCTIONS, chosen)
    requests = next(procedure)
    while True:
        answers = []
        for number, request in enumerate(requests):
            more = noise(number) if noise else Fraction(0)
            status = Status.FAULTED if number == faulty and len(requests) > 4 else Status.OK
            values = {"core_cycles": times[request.benchmark.id] + more}
            answers.append(Measured(request, status, values, {}, detail="" if status is Status.OK else "SIGSEGV"))
        try:
            requests = procedure.send(answers)
        except StopIteration as end:
            found: tuple[Forwarding, tuple[str, ...]] = end.value
            return found


def cases(forwarding: Forwarding) -> dict[tuple[str, str, int, Place, Addressing], tuple[Fraction | None, Outcome]]:
    return {
        (row.store.name, row.load.name, offset, row.place, row.addressing): pair
        for row in forwarding.rows
        for offset, pair in enumerate(zip(row.cycles, row.outcomes, strict=True), row.first_offset)
        if pair[1] is not Outcome.UNKNOWN
    }


MACHINES = st.builds(
    Rules,
    forwarded=st.integers(3, 8),
    failed=st.integers(12, 40),
    product=st.integers(3, 5),
    shuffles=st.integers(4, 8),
    there_and_back=st.integers(2, 12),
    renames=st.booleans(),
    pages_fail=st.booleans(),
)


@settings(max_examples=6)
@given(MACHINES)
def test_what_is_concluded_is_what_the_machine_does(rules: Rules) -> None:
    found = cases(concluded(rules))
    assert len(found) == len(CELLS)
    for cell in some(CELLS, 1000):
        key = (cell.store.name, cell.load.name, cell.offset_bytes, cell.place, cell.addressing)
        assert found[key] == (Fraction(rules.cycles(cell)), rules.outcome(cell))


@settings(max_examples=6)
@given(MACHINES)
def test_the_penalty_is_the_distance_of_failing_from_forwarding(rules: Rules) -> None:
    forwarding = concluded(rules, [cell for cell in CELLS if cell.place is Place.LINE])
    assert forwarding.penalty() == forwarding.penalty("vector") == rules.failed - rules.forwarded


def test_noise_changes_no_outcome_and_runs_agree() -> None:
    rules = Rules()
    noises = (lambda n: Fraction(n % 7, 20), lambda n: -Fraction(n % 5, 20), lambda n: Fraction(n % 3, 10))
    runs = [concluded(rules, CELLS, noise) for noise in noises]
    found = agreement(runs)
    assert found.cases == len(CELLS)
    assert found.same_outcome == 1
    assert found.within_a_cycle == 1
    assert 0 < found.middle_distance < 1


def test_runs_that_differ_are_seen_to() -> None:
    found = agreement([concluded(Rules()), concluded(Rules(forwarded=7, renames=False))])
    assert found.within_a_cycle < 1
    assert found.same_outcome < 1


def test_runs_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ValueError, match="at least two"):
        agreement([concluded(Rules(), CELLS[:20])])
    with pytest.raises(ValueError, match="zip"):
        agreement([concluded(Rules(), CELLS[:20]), concluded(Rules(), CELLS[:15])])


def test_a_core_that_puts_loads_together_fails_nowhere() -> None:
    found = cases(concluded(Rules(forwarded=5, failed=7, pages_fail=False)))
    assert {outcome for _, outcome in some(found.values(), 1000)} == {Outcome.RENAMED, Outcome.FORWARDED}


def test_where_the_same_bytes_are_always_renamed_other_parts_tell_what_is_forwarded() -> None:
    """As on Golden Cove, where stores and loads of all sizes at the same address are."""

    class Renames(Rules):
        def outcome(self, cell: Cell) -> Outcome:
            plain = super().outcome(cell)
            same = cell.offset_bytes == 0 and cell.store.size_bytes == cell.load.size_bytes
            return Outcome.RENAMED if plain is Outcome.FORWARDED and same else plain

    rules = Renames()
    found = cases(concluded(rules))
    key = ("r64", "r8", 3, Place.LINE, Addressing.SAME)
    assert found[key] == (Fraction(5), Outcome.FORWARDED)
    assert found["r8", "r64", 0, Place.LINE, Addressing.SAME] == (Fraction(14), Outcome.FAILED)


def test_a_case_that_faults_is_unknown_and_said() -> None:
    forwarding, problems = run(Rules(), CELLS, faulty=10)
    assert problems == ("1 cases were not measured: SIGSEGV",)
    outcomes = [one for row in forwarding.rows for one in row.outcomes]
    known = len(cases(forwarding))
    assert known == len(CELLS) - 1
    assert outcomes.count(Outcome.UNKNOWN) >= 1


def test_everything_is_measured_as_a_loop() -> None:
    procedure = measure_forwarding(INSTRUCTIONS, CELLS[:3])
    first: Sequence[Request] = next(procedure)
    assert [request.loop for request in some(first, 1)] == [True]
