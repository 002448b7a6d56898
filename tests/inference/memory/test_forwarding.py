"""What inference makes of the matrix of a machine whose rules are known."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.factory import InstructionFactory
from generator.memory.accesses import AccessInstructions, File, accesses_of
from generator.memory.forwarding import ForwardingCase, ForwardingCode, cells
from inference.experiment import Measured, Request
from inference.memory.forwarding import measure_forwarding
from results.memory.model import Addressing, ForwardingMatrix, ForwardingOutcome, LineCrossing, agreement
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

    def outcome(self, cell: ForwardingCase) -> ForwardingOutcome:
        if not cell.contained or (cell.place is LineCrossing.PAGES and self.pages_fail):
            return ForwardingOutcome.FAILED
        same = cell.offset_bytes == 0 and cell.store == cell.load and cell.addressing is Addressing.SAME
        renamed = self.renames and same and cell.store.size_bytes >= 4 and cell.store.file is File.GENERAL
        return ForwardingOutcome.RENAMED if renamed else ForwardingOutcome.FORWARDED

    def cycles(self, cell: ForwardingCase) -> int:
        return {
            ForwardingOutcome.RENAMED: 0,
            ForwardingOutcome.FORWARDED: self.forwarded,
            ForwardingOutcome.FAILED: self.failed,
        }[self.outcome(cell)]

    def link(self, load: AccessInstructions, store: AccessInstructions) -> Fraction:
        if load.file is not store.file:
            return Fraction(self.there_and_back, 2)
        return Fraction(self.product if load.file is File.GENERAL else self.shuffles)


def concluded(
    rules: Rules, chosen: Sequence[ForwardingCase] = CELLS, noise: Callable[[int], Fraction] | None = None
) -> ForwardingMatrix:
    """Answer as a machine of these rules would, and return what is concluded."""
    return run(rules, chosen, noise)[0]


def run(
    rules: Rules, chosen: Sequence[ForwardingCase], noise: Callable[[int], Fraction] | None = None, faulty: int = -1
) -> tuple[ForwardingMatrix, tuple[str, ...]]:
    code = ForwardingCode(INSTRUCTIONS)
    times = {
        code.chain(cell, copies).id: copies * (rules.cycles(cell) + rules.link(cell.load, cell.store))
        for cell in chosen
        for copies in (1, 2)
    }
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
            found: tuple[ForwardingMatrix, tuple[str, ...]] = end.value
            return found


def cases(
    forwarding: ForwardingMatrix,
) -> dict[tuple[str, str, int, LineCrossing, Addressing], tuple[Fraction | None, ForwardingOutcome]]:
    return {
        (row.store.name, row.load.name, offset, row.place, row.addressing): pair
        for row in forwarding.rows
        for offset, pair in enumerate(zip(row.cycles, row.outcomes, strict=True), row.first_offset)
        if pair[1] is not ForwardingOutcome.UNKNOWN
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
    forwarding = concluded(rules, [cell for cell in CELLS if cell.place is LineCrossing.LINE])
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


def test_a_disturbed_repetition_renames_nothing() -> None:
    """One case of all comes out 4 cycles too fast: it is measured again."""
    chosen = [cell for cell in CELLS if cell.place is LineCrossing.LINE]
    number = next(
        number
        for number, cell in enumerate(chosen)
        if Rules(renames=False).outcome(cell) is ForwardingOutcome.FORWARDED
    )
    batches: list[int] = []

    def noise(position: int) -> Fraction:
        batches.extend([position] if position == 0 else [])
        return Fraction(-4 if len(batches) == 2 and position == number else 0)  # links come first

    found = cases(concluded(Rules(renames=False), chosen, noise))
    assert len(batches) == 3
    assert ForwardingOutcome.RENAMED not in {outcome for _, outcome in some(found.values(), 100)}


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
    assert {outcome for _, outcome in some(found.values(), 1000)} == {
        ForwardingOutcome.RENAMED,
        ForwardingOutcome.FORWARDED,
    }


def test_a_wide_load_that_is_slow_everywhere_does_not_wait_in_two_lines() -> None:
    """As on Zen 5: 64 bytes take 11 cycles, and 12 in two lines, where smaller ones take 9 and what fails 15."""

    class Wide(Rules):
        def cycles(self, cell: ForwardingCase) -> int:
            slow = cell.contained and cell.store.size_bytes == 16 and cell.place is not LineCrossing.PAGES
            return self.forwarded + 4 + (cell.place is LineCrossing.LINES) if slow else super().cycles(cell)

    rules = Wide(forwarded=7, failed=14, renames=False)
    found = cases(concluded(rules))
    slow = [how for key, (cycles, how) in found.items() if key[:2] == ("x128", "x64") and cycles == rules.forwarded + 5]
    assert set(some(slow, 3)) == {ForwardingOutcome.FORWARDED}
    assert found["x64", "x128", 0, LineCrossing.LINES, Addressing.SAME][1] is ForwardingOutcome.FAILED
    assert found["x128", "x64", 0, LineCrossing.PAGES, Addressing.SAME][1] is ForwardingOutcome.FAILED


def test_where_the_same_bytes_are_always_renamed_other_parts_tell_what_is_forwarded() -> None:
    """As on Golden Cove, where stores and loads of all sizes at the same address are."""

    class Renames(Rules):
        def outcome(self, cell: ForwardingCase) -> ForwardingOutcome:
            plain = super().outcome(cell)
            same = cell.offset_bytes == 0 and cell.store.size_bytes == cell.load.size_bytes
            return ForwardingOutcome.RENAMED if plain is ForwardingOutcome.FORWARDED and same else plain

    rules = Renames()
    found = cases(concluded(rules))
    key = ("r64", "r8", 3, LineCrossing.LINE, Addressing.SAME)
    assert found[key] == (Fraction(5), ForwardingOutcome.FORWARDED)
    assert found["r8", "r64", 0, LineCrossing.LINE, Addressing.SAME] == (Fraction(14), ForwardingOutcome.FAILED)


def test_a_case_that_faults_is_unknown_and_said() -> None:
    forwarding, problems = run(Rules(), CELLS, faulty=10)
    assert problems == ("1 cases were not measured: SIGSEGV",)
    outcomes = [one for row in forwarding.rows for one in row.outcomes]
    known = len(cases(forwarding))
    assert known == len(CELLS) - 1
    assert outcomes.count(ForwardingOutcome.UNKNOWN) >= 1


def test_everything_is_measured_as_a_loop() -> None:
    procedure = measure_forwarding(INSTRUCTIONS, CELLS[:3])
    first: Sequence[Request] = next(procedure)
    assert [request.loop for request in some(first, 1)] == [True]
