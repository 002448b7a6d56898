"""Which sequences are measured for throughput, of a machine that answers from a table."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, cast

import pytest

from generator.microbenchmark import Line, Microbenchmark
from generator.operands.values import ValueKind
from inference.experiment import Measured, Want
from inference.throughput import (
    OTHER_COUNTS,
    Search,
    confirm,
    derivation_of,
    search_as_plain,
    search_form_in_loop,
    search_loop,
    search_others,
    search_unrolled,
    settle,
)
from results.model import SPECIAL_FORMS, Form, Status
from results.sentences import lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.sequences.throughput import SequenceShape, ThroughputFactory
    from inference.experiment import Procedure, Request


class Sequences:
    """Makes a sequence of any shape. Instances read what they write, and take turns with `registers` registers."""

    def __init__(self, registers: int = 16) -> None:
        self.registers = registers

    def even(self, most: int) -> int:
        return most // self.registers * self.registers if most > self.registers else most

    def carried(self) -> frozenset[str]:
        return frozenset()

    def instances(self, shape: SequenceShape) -> list[str]:
        return ["own"] * shape.count

    def own(self, instance: str) -> frozenset[str]:
        return frozenset({instance})

    def waiting_less(self, _shape: SequenceShape) -> list[SequenceShape]:
        return []

    def elsewhere(self, _shape: SequenceShape) -> list[SequenceShape]:
        return []

    def sequence(self, shape: SequenceShape) -> Microbenchmark:
        return Microbenchmark((), (Line(b"\x90", "NOP"),) * shape.count, str(shape), shape.count * shape.repeats)


def run(procedure: Procedure[None], cycles: Mapping[tuple[int, bool], str]) -> list[tuple[int, bool]]:
    """Answer with cycles per instance by number of instances and whether in a loop; return what was asked for."""
    asked: list[tuple[int, bool]] = []
    try:
        requests = next(procedure)
        while True:
            asked += map(key_of, requests)
            requests = procedure.send([answered(request, cycles) for request in requests])
    except StopIteration:
        return asked


def key_of(request: Request) -> tuple[int, bool]:
    """Return the number of instances, negative if what they write is renewed, and whether in a loop."""
    renewed = "renewed=True" in request.benchmark.purpose
    return request.benchmark.divisor * (-1 if renewed else 1), request.loop


def answered(request: Request, cycles: Mapping[tuple[int, bool], str]) -> Measured:
    total = Fraction(cycles[key_of(request)]) * request.benchmark.divisor
    return Measured(request, Status.OK, {"core_cycles": total}, {})


def searched(form: Form = Form.PLAIN, registers: int = 16) -> Search:
    factory = cast("ThroughputFactory", Sequences(registers))
    return Search(factory, ValueKind.ANY, form)


def test_a_loop_that_is_slower_than_unrolled_is_tried_with_other_lengths() -> None:
    search = searched()
    run(search.measure([search.shape(8)], Want.CYCLES), {(8, False): "0.5"})
    asked = run(search_loop(search), {(8, True): "0.56", (16, True): "0.5", (12, True): "0.53"})
    assert asked == [(8, True), *((count, True) for count in OTHER_COUNTS)]
    assert min(one.cycles for one in search.looped) == Fraction(1, 2)


@pytest.mark.parametrize("looped", ["0.5", "0.505", "0.4"])
def test_a_loop_that_is_as_fast_is_not(looped: str) -> None:
    search = searched()
    run(search.measure([search.shape(8)], Want.CYCLES), {(8, False): "0.5"})
    assert run(search_loop(search), {(8, True): looped}) == [(8, True)]


@pytest.mark.parametrize("form", SPECIAL_FORMS)
def test_so_is_another_form_and_the_least_counts(form: Form) -> None:
    plain, other = searched(), searched(form)
    run(plain.measure([plain.shape(16)], Want.CYCLES), {(16, False): "0.5"})
    run(other.measure([other.shape(8)], Want.CYCLES), {(8, False): "0.53"})
    asked = run(search_others(other, plain.best()), {(16, False): "0.51", (12, False): "0.55"})
    assert asked == [(count, False) for count in OTHER_COUNTS]
    assert all(one.shape.form is form for one in other.unrolled)
    best = other.best()
    assert best is not None
    assert best.cycles == Fraction(51, 100)


@pytest.mark.parametrize("form", SPECIAL_FORMS)
def test_another_form_is_measured_in_the_loop_that_was_fastest(form: Form) -> None:
    plain, other = searched(), searched(form)
    run(plain.measure([plain.shape(8)], Want.CYCLES), {(8, False): "0.5"})
    run(search_loop(plain), {(8, True): "0.56", (16, True): "0.5", (12, True): "0.53"})
    run(other.measure([other.shape(8)], Want.CYCLES), {(8, False): "0.6"})
    asked = run(search_form_in_loop(other, plain.best(), plain.least(plain.looped)), {(16, True): "0.505"})
    assert asked == [(16, True)]
    assert other.looped[0].shape.form is form


@pytest.mark.parametrize("form", SPECIAL_FORMS)
def test_another_form_is_measured_in_the_unrolled_sequence_that_was_fastest(form: Form) -> None:
    plain, other = searched(), searched(form)
    run(plain.measure([plain.shape(16, breakers=True)], Want.CYCLES), {(16, False): "0.25"})
    run(other.measure([other.shape(8)], Want.CYCLES), {(8, False): "1"})
    assert run(search_as_plain(other, plain.best()), {(16, False): "0.25"}) == [(16, False)]
    assert run(search_as_plain(other, plain.best()), {}) == []
    best = other.best()
    assert best is not None
    assert best.cycles == Fraction(1, 4)
    assert best.shape == other.shape(16, breakers=True)


def test_an_index_makes_nothing_faster_unless_a_longer_window_agrees() -> None:
    plain, other = searched(), searched(Form.INDEXED)
    run(plain.measure([plain.shape(4)], Want.CYCLES), {(4, False): "2"})
    run(search_loop(plain), {(4, True): "2"})
    run(other.measure([other.shape(4)], Want.CYCLES), {(4, False): "1.9"})
    procedure = search_form_in_loop(other, plain.best(), plain.least(plain.looped))
    assert run(procedure, {(4, True): "2", (16, False): "2"}) == [(4, True), (16, False)]
    best = other.best()
    assert best is not None
    assert best.cycles == 2


def test_what_could_not_be_measured_is_not_compared() -> None:
    assert run(search_others(searched(), None), {}) == []


def test_the_longest_sequence_uses_each_register_equally_often() -> None:
    search = searched(registers=14)
    times = {(8, False): "0.625", (4, False): "1.25", (14, False): "0.5"}
    assert run(search_unrolled(search, Fraction(1, 2), Want.CYCLES), times) == list(times)


def test_where_registers_are_too_few_they_are_renewed() -> None:
    search = searched(registers=9)
    times = {(8, False): "12.5", (4, False): "25", (9, False): "11.1", (-8, False): "1.1"}
    assert run(search_unrolled(search, Fraction(1, 4), Want.CYCLES), times) == list(times)
    best = search.best()
    assert best is not None
    assert best.shape.renewed
    assert best.cycles == Fraction("1.1")


class Carrying(Sequences):
    """Instances pass on flags, as ADC does."""

    def carried(self) -> frozenset[str]:
        return frozenset({"CF"})


def fewer(times: Mapping[str, str], bound: str = "0.25") -> tuple[Search, list[str]]:
    """Search where breakers stand after each instance ("1"; as idioms "1i"), after every so many, or nowhere ("-")."""
    search = Search(cast("ThroughputFactory", Carrying()), ValueKind.ANY)
    asked: list[str] = []
    procedure = search_unrolled(search, Fraction(bound), Want.CYCLES)
    answers: list[Measured] | None = None
    while True:
        try:
            requests = procedure.send(answers)  # type: ignore[arg-type]
        except StopIteration:
            return search, asked
        answers = []
        for request in requests:
            purpose = request.benchmark.purpose
            key = purpose.partition("every=")[2].partition(",")[0].rstrip(")") if "breakers=True" in purpose else "-"
            key += "i" if "idiom=True" in purpose else ""
            asked.append(key)
            cycles = Fraction(times.get(key, "9")) * request.benchmark.divisor
            answers.append(Measured(request, Status.OK, {"core_cycles": cycles}, {}))


@pytest.mark.parametrize(
    ("times", "asked", "every"),
    [
        ({"-": "1", "1": "0.47", "4": "0.3", "8": "0.25"}, ["-", "1", "1i", "4", "8"], 8),  # what the ports allow
        ({"-": "1", "1": "0.47", "4": "0.3", "8": "0.26", "16": "0.6"}, ["-", "1", "1i", "4", "8", "16"], 8),
        ({"-": "1", "1": "0.47", "4": "0.3", "8": "0.3"}, ["-", "1", "1i", "4", "8"], 4),
        ({"-": "1", "1": "0.5", "1i": "0.34", "4i": "0.25"}, ["-", "1", "1i", "4i"], 4),  # ADC on Zen 4
    ],
)
def test_fewer_breakers_are_tried_as_long_as_that_is_faster(
    times: Mapping[str, str], asked: list[str], every: int
) -> None:
    search, found = fewer(times)
    best = search.best()
    assert found == asked
    assert best is not None
    assert best.shape.every == every
    assert search.shape(8).every == 1


def test_breakers_that_take_no_time_stay_and_those_that_do_not_help_go() -> None:
    assert fewer({"-": "1", "1": "0.5", "4": "0.6"})[1][:4] == ["-", "1", "1i", "4"]
    assert "4" not in fewer({"-": "1", "1": "1.2"})[1]


def settled(
    unrolled: Mapping[int, str], looped: Mapping[int, str], again: Mapping[tuple[int, bool], str]
) -> tuple[Search, list[tuple[int, bool]]]:
    """Settle a search on a clock that found these times; `again` are those of sequences of twice the length."""
    search = searched()
    search.balanced = True
    for times, loop in ((unrolled, False), (looped, True)):
        shapes = [search.shape(count) for count in times]
        run(search.measure(shapes, Want.CYCLES, loop=loop), {(count, loop): times[count] for count in times})
    return search, run(settle(search), again)


@pytest.mark.parametrize(
    ("unrolled", "looped"),
    [
        ({8: "0.5", 4: "0.52"}, {8: "0.7", 16: "0.72"}),
        ({8: "0.5"}, {8: "0.51"}),
        ({8: "0.7", 4: "0.5"}, {8: "0.5"}),
    ],
)
def test_what_came_out_twice_counts(unrolled: Mapping[int, str], looped: Mapping[int, str]) -> None:
    search, asked = settled(unrolled, looped, {})
    assert asked == []
    assert not search.mistakes


def test_what_no_other_sequence_comes_near_is_measured_again_and_may_be_a_mistake() -> None:
    search, asked = settled({8: "0.5", 4: "0.19", 16: "0.5"}, {4: "0.5"}, {(8, False): "0.5"})
    assert asked == [(8, False)]
    best = search.best()
    assert best is not None
    assert best.cycles == Fraction(1, 2)
    derivation = derivation_of("TP_unrolled", search.unrolled, search)
    assert "too fast: measured again, it takes 0.50" in "\n".join(lines(derivation))


def test_what_comes_out_again_counts_alone() -> None:
    search, asked = settled({8: "0.5", 4: "0.27"}, {8: "0.5"}, {(8, False): "0.28"})
    assert asked == [(8, False)]
    best = search.best()
    assert best is not None
    assert best.cycles == Fraction(27, 100)


def test_a_lucky_loop_is_a_mistake_too() -> None:
    search, asked = settled({8: "0.5", 4: "0.5"}, {8: "0.19"}, {(16, True): "0.5"})
    assert asked == [(16, True)]
    least = search.least(search.looped)
    assert least is not None
    assert least.cycles == Fraction(1, 2)


def test_another_form_may_be_as_fast_as_the_plain_one_was() -> None:
    plain, other = searched(), searched(Form.INDEXED)
    plain.balanced = other.balanced = True
    for search in (plain, other):
        run(search.measure([search.shape(8)], Want.CYCLES), {(8, False): "0.5"})
    assert run(settle(other, [plain.best(), None]), {}) == []


def test_counters_need_nothing_again() -> None:
    search = searched()
    run(search.measure([search.shape(8)], Want.CYCLES), {(8, False): "0.5"})
    assert run(settle(search), {}) == []


def test_loops_are_not_tried_with_registers_used_unequally() -> None:
    search = searched(registers=9)
    run(search.measure([search.shape(9)], Want.CYCLES), {(9, False): "0.34"})
    assert run(search_loop(search), {(9, True): "0.36"}) == [(9, True)]


BURSTS = {(8, False): "2.02", (4, False): "1.98", (1, False): "1.84", (2, False): "1.98", (16, True): "2"}
"""What a model of Golden Cove takes for VDIVPH: µops take turns on a port."""


def burst(loop: str, window: str, bound: str | None = None) -> tuple[Search, list[tuple[int, bool]]]:
    """Search among bursts, with a time of a loop around one instance and one of a long window of it."""
    search = searched()
    run(search.measure([search.shape(count) for count in (8, 4, 1, 2)], Want.CYCLES), BURSTS)
    run(search_loop(search), {**BURSTS, (1, True): loop, (16, True): loop, (12, True): loop})
    limit = None if bound is None else Fraction(bound)
    return search, run(confirm(search, limit), {(16, False): window})


def test_a_time_that_a_longer_window_and_a_loop_refute_does_not_count() -> None:
    search, asked = burst("2", "1.9975")
    assert asked == [(16, False)]
    best, looped = search.best(), search.least(search.looped)
    assert best is not None
    assert best.cycles == Fraction("1.98")
    assert looped is not None
    assert looped.cycles == 2
    derivation = derivation_of("TP", search.unrolled, search)
    assert "1.84 cycles / 1 = 1.84; too fast: a longer window and a loop both take 2.00" in "\n".join(lines(derivation))


@pytest.mark.parametrize(
    ("loop", "window", "asked"),
    [
        ("1.86", "2", []),  # the loop is as fast
        ("2", "1.85", [(16, False)]),  # the longer window is, too: what makes the loop slow is the loop
        ("2", "2.3", [(16, False)]),  # the longer window is slow for another reason, such as the front end
    ],
)
def test_a_time_that_both_do_not_refute_counts(loop: str, window: str, asked: list[tuple[int, bool]]) -> None:
    search, found = burst(loop, window)
    assert found == asked
    best = search.best()
    assert best is not None
    assert best.cycles == Fraction("1.84")


def test_a_clock_is_asked_for_a_longer_window_of_fast_code_too() -> None:
    """PSHUFW on Zen 4: ends of short windows look fast."""
    search = searched()
    search.balanced = True
    unrolled = {(8, False): "0.32", (1, False): "0.28", (2, False): "0.30", (16, False): "0.332"}
    run(search.measure([search.shape(count) for count, _ in unrolled], Want.CYCLES), unrolled)
    run(search_loop(search), {(1, True): "0.333", (16, True): "0.333", (12, True): "0.333"})
    assert run(confirm(search, None), {(16, False): "0.334"}) == [(16, False)]
    best = search.best()
    assert best is not None
    assert best.cycles == Fraction("0.332")


def test_a_longer_window_that_a_front_end_limits_says_nothing() -> None:
    search = searched()
    run(search.measure([search.shape(2)], Want.CYCLES), {(2, False): "0.125"})
    run(search_loop(search), {(2, True): "0.14", (16, True): "0.15", (12, True): "0.15"})
    assert run(confirm(search, None), {(16, False): "0.25"}) == [(16, False)]
    best = search.best()
    assert best is not None
    assert best.cycles == Fraction("0.125")


@pytest.mark.parametrize("count", [12, 16, 32])
def test_long_sequences_are_confirmed_like_short_ones(count: int) -> None:
    search = searched()
    run(search.measure([search.shape(count), search.shape(8)], Want.CYCLES), {(count, False): "1.84", (8, False): "2"})
    times = {(length, True): "2" for length in (count, 16, 12)}
    run(search_loop(search), times)
    assert run(confirm(search, None), {(2 * count, False): "1.99"}) == [(2 * count, False)]
    best = search.best()
    assert best is not None
    assert best.cycles >= Fraction("1.99")


def test_a_time_that_ports_explain_needs_no_confirmation() -> None:
    assert burst("2", "2", bound="1.84")[1] == []
