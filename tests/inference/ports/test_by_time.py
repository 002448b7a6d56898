"""Ports by time alone are found again on machines whose counters are hidden, up to the names of ports."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import ceil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.factory import InstructionFactory
from generator.microbenchmark import Line, Microbenchmark
from generator.sequences.blocking import CodeKind, is_wide
from generator.sequences.filler import NOP, SlotFiller
from inference.characterizer import Characterizer
from inference.experiment import Measured, Request
from inference.ports.blocking_instructions import Candidate
from inference.ports.by_time.blockers import proved_blockers
from inference.ports.by_time.conclude import conclude, doubt
from inference.ports.by_time.diagram import SetRelations, consistent, diagrams, named, ports_in
from inference.ports.by_time.hypotheses import UopBounds, components
from inference.ports.by_time.infer import _ask_largest, _with_slots, infer_by_time
from inference.ports.by_time.machine import LENGTHS, Discovery, TimedMachine, TimedSet, _heads_of, _waits
from inference.ports.by_time.members import Member, MemberClass, preference
from inference.ports.by_time.mixes import (
    MANY,
    MOST_BLOCKERS,
    ROUNDING,
    Asked,
    Many,
    MixAnswer,
    MixFactory,
    Question,
    ask,
    is_settled,
    issue_rate,
    judge,
    strengths,
    undisturbed,
)
from inference.ports.by_time.parts.unions import told_of_unions
from inference.ports.by_time.published import published_names
from inference.ports.by_time.slots import FURTHER_MIXES, slots_among_filler, slots_of
from inference.ports.by_time.timed_probe import TimedProbe
from inference.ports.by_time.votes import REPRESENTATIVES
from inference.ports.infer import PortConclusion
from results.findings import Confined, Indistinguishable, OnlyBounds, Unplaced, WaitsForItself
from results.machine.constants import core_names, core_of
from results.model import PortUsage, Status, port_set_name
from results.ports import joined, throughput_of
from results.sentences import failure
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from runner.verification.by_time import Verdict, renaming_of, run
from simulator.machines.noise import CounterNoise
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from inference.experiment import Procedure
    from results.machine.constants import UopCache
    from results.ports import PortSet

PORTS = "012345"
DUMMY = Catalogue.load().by_string("NOP")
SETS = st.lists(st.sets(st.sampled_from(PORTS), min_size=1).map(frozenset), min_size=1, max_size=6, unique=True)


def relations(sets: list[frozenset[str]]) -> SetRelations:
    """Return what a perfect experiment says of sets."""
    pairs = list(combinations(range(len(sets)), 2))
    nested = {(i, o): sets[i] < sets[o] for i, o in pairs}
    together = {(i, o): (len(sets[i] | sets[o]),) * 2 for i, o in pairs}
    return SetRelations(tuple(map(len, sets)), nested, together)


@given(SETS)
@settings(max_examples=60, deadline=None)
def test_diagrams_of_real_sets_agree_with_their_sizes_and_unions(found: list[frozenset[str]]) -> None:
    sets = sorted(found, key=len)
    fitting, against = diagrams(relations(sets))
    assert against == 0
    for cells in fitting:
        drawn = named(cells, [0] * len(sets))
        assert [len(one) for one in drawn] == [len(one) for one in sets]
        for (one, other), (mine, yours) in zip(combinations(sets, 2), combinations(drawn, 2), strict=True):
            assert len(one | other) == len(mine | yours)
            assert (one < other) == (mine < yours)


WHOLE = {frozenset("0123"): 0, frozenset("456"): 1, frozenset("78"): 2}
"""ALUs, loads and vector pipes, with the ranks of their domains."""

PARTS = {frozenset("01"): 0, frozenset("0"): 0, frozenset("23"): 0, frozenset("45"): 1}
"""Sets in these."""


@given(st.sets(st.sampled_from(sorted(PARTS, key=sorted))))
def test_a_set_that_was_not_found_changes_no_name_elsewhere(lacking: set[frozenset[str]]) -> None:
    ranks = WHOLE | {ports: rank for ports, rank in PARTS.items() if ports not in lacking}
    sets = sorted(ranks, key=lambda one: (len(one), sorted(one)))
    (cells, *_), _ = diagrams(relations(sets))
    names = dict(zip(sets, named(cells, [ranks[one] for one in sets]), strict=True))
    assert {one: names[one] for one in WHOLE} == {one: one for one in WHOLE}
    assert all(names[one] <= whole for one in names for whole in WHOLE if one <= whole)


def test_a_diagram_shares_no_port_unless_that_was_seen() -> None:
    (cells,), against = diagrams(SetRelations((2, 2), {(0, 1): False}, {}))
    assert (ports_in(cells), against) == (4, 0)


@pytest.mark.parametrize(
    ("sizes", "lacking"),
    [((4, 5, 5, 6), []), ((4, 5, 6, 6), [0]), ((2, 3, 5, 5, 6), [0]), ((9, 9, 9, 9), [0, 1]), ((21,), [0])],
)
def test_sets_are_left_out_until_every_port_has_a_letter(sizes: tuple[int, ...], lacking: list[int]) -> None:
    pairs = list(combinations(range(len(sizes)), 2))
    apart = {(one, other): (sizes[one] + sizes[other],) * 2 for one, other in pairs}
    fitting, against, left_out = consistent(SetRelations(sizes, dict.fromkeys(pairs, False), apart))
    assert (left_out, against) == (lacking, 0)
    kept = [size for place, size in enumerate(sizes) if place not in lacking]
    for cells in some(fitting):
        assert [len(ports) for ports in named(cells, [0] * len(kept))] == kept


def test_a_set_that_contradicts_others_is_left_out() -> None:
    apart = {(0, 1): (3, 3), (0, 2): (3, 3), (1, 2): (4, 4)}
    nested = {(0, 1): True, (0, 2): True, (1, 2): False}
    fitting, against, left_out = consistent(SetRelations((1, 2, 2), nested, apart))
    assert (left_out, against, [ports_in(cells) for cells in fitting]) == ([0], 0, [4])


@given(st.integers(1, 5), st.integers(0, 3), st.sampled_from([Fraction(0), Fraction(1, 100)]))
def test_times_of_a_set_that_limits_a_mix_give_the_confined_uops(size: int, uops: int, noise: Fraction) -> None:
    counts = strengths(size, 6, max(1, uops), Fraction(1))
    assert judge([(count, Fraction(count + uops, size)) for count in counts], size, noise).uops == uops


@given(st.integers(1, 5), st.integers(0, 3), st.fractions(-1, 1), st.fractions(-1, 1))
def test_times_that_settle_a_number_are_near_enough(size: int, uops: int, one: Fraction, other: Fraction) -> None:
    """However noise varies within its share, settled times say the number of µops."""
    noise = Fraction(1, 100)
    counts = (4 * size, 6 * size)
    times = [
        (count, Fraction(count + uops, size) * (1 + error * noise))
        for count, error in zip(counts, (one, other), strict=True)
    ]
    assert not is_settled(times, size, noise) or judge(times, size, noise).uops == uops


def test_further_mixes_are_asked_only_in_doubt(catalogue: Catalogue) -> None:
    mixes = MixFactory(InstructionFactory(catalogue))
    subject, blocker = (catalogue.by_string(name) for name in ("IMUL (R64, R64)", "SHLX (R64, R64, R64)"))
    counts = strengths(2, 6, 1, Fraction(1))

    def cycles(count: int, error: Fraction) -> Fraction:
        return Fraction(count, 2) * (1 + error)

    for errors, expected in (
        ((Fraction(0), Fraction(0)), 2),
        ((Fraction(6, 100), Fraction(0)), len(counts)),
        ((Fraction(12, 100), Fraction(0)), len(counts)),
    ):
        asked: list[int] = []

        def answer(request: Request, errors: tuple[Fraction, ...] = errors, asked: list[int] = asked) -> Measured:
            count = len(request.benchmark.body) - 1
            asked.append(count)
            error = errors[0] if count == counts[0] else errors[1]
            return Measured(request, Status.OK, {"core_cycles": cycles(count, error)}, {}, None)

        answered = driven(ask(mixes, [Question(subject, blocker, 2, counts)], Fraction(2, 100)), answer)
        assert isinstance(answered, list)
        found: Asked = answered[0]
        assert found.answer is not None
        assert len(asked) == expected
        assert found.answer.uops == 0
        assert [count for count, _ in found.times] == sorted(asked)


@pytest.mark.parametrize(("string", "questions"), [("IMUL (R64, R64)", 1), ("IMUL (R64, M64)", 3)])
def test_sets_of_other_registers_are_asked_only_if_slots_are_left(
    catalogue: Catalogue, string: str, questions: int
) -> None:
    members = {"3": "SHLX (R64, R64, R64)", "12": "VPABSB (XMM, XMM)", "45": "MOV (R64, M64)"}
    variants = {frozenset(ports): catalogue.by_string(name) for ports, name in members.items()}
    files = {"3": "GPR", "12": "VEC", "45": "GPR"}
    sets = [
        TimedSet(ports, (one.string,), {CodeKind.WITHOUT_AVX: one}, frozenset({files["".join(sorted(ports))]}))
        for ports, one in variants.items()
    ]
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), tuple(sets))
    probe = TimedProbe(machine, catalogue.by_string(string), Fraction(1), components(one.ports for one in sets))
    probe.slots = probe.most_slots = 1
    asked = set()

    def answer(request: Request) -> Measured:
        texts = [line.text.split()[0] for line in request.benchmark.body]
        ports = next(ports for ports, one in members.items() if one.split()[0] in texts)
        asked.add(ports)
        slots = sum(text == members[ports].split()[0] for text in texts)
        cycles = Fraction(slots + (len(texts) - slots) * (ports == "3"), len(ports))
        return Measured(request, Status.OK, {"core_cycles": cycles}, {}, None)

    driven(_ask_largest(probe, MixFactory(InstructionFactory(catalogue)), probe.askable()), answer)
    assert len(asked) == questions
    assert set(probe.bounds) == set(variants)
    assert probe.bounds[frozenset("3")] == UopBounds(1, 1)
    assert probe.bounds[frozenset("12")] == UopBounds(0, 0)


def test_strengths_that_disagree_give_no_number() -> None:
    answer = judge([(12, Fraction(13)), (16, Fraction(18))], 1, Fraction(0))
    assert (answer.uops, answer.most) == (None, 1)


def test_an_answer_that_noise_may_change_is_a_bound(catalogue: Catalogue) -> None:
    counts = [100, 103, 133, 136]
    clear, blurred = (
        judge([(count, Fraction(count + 1, 3)) for count in counts], 3, noise)
        for noise in (Fraction(1, 1000), Fraction(1, 100))
    )
    assert (clear.uops, clear.most) == (1, 1)
    assert blurred.uops is None
    assert blurred.most >= 1
    variant = catalogue.by_string("IMUL (R64, R64)")
    seen = replace(blurred, values=(Fraction(0), Fraction(0)))
    assert Asked(Question(variant, variant, 3, (100, 133)), seen).waits, "many instances tell more"


def test_many_instances_refute_what_one_seemed_to_wait_for() -> None:
    seems = MixAnswer(1, 1, (Fraction(1), Fraction(1)))
    assert seems.bounded(Fraction(45, 100), Fraction(15, 100)).uops == 0
    assert seems.bounded(Fraction(1), Fraction(15, 100)).confirmed


def test_if_many_instances_contradict_both_strengths_by_little_they_are_asked_again() -> None:
    """VADDPD (YMM, K, YMM, M256) on an Emerald Rapids: six among 25 CMP seem to have 0.74 µops each, not 1."""
    seems = MixAnswer(1, 1, (Fraction(98, 100), Fraction(1)))
    doubtful = seems.bounded(Fraction(74, 100), Fraction(17, 100))
    assert doubtful.most == 1
    assert not doubtful.is_exact(Fraction(1))
    again = doubtful.bounded(Fraction(1), Fraction(17, 100))
    assert again.is_exact(Fraction(1))
    assert again.uops == 1
    assert doubtful.bounded(Fraction(74, 100), Fraction(17, 100)).uops == 0


@pytest.mark.parametrize(("second", "uops"), [("7.50", 0), ("9.00", 1)])
def test_a_doubtful_mix_of_many_is_measured_once_more_before_others(
    catalogue: Catalogue, second: str, uops: int
) -> None:
    """VPMULHW (FP03) among VADDPS (FP23) on a Zen 3: µops go to the busy port, but in a mix of six and twelve."""
    mixes = MixFactory(InstructionFactory(catalogue))
    subject, blocker = (catalogue.by_string(f"{name} (YMM, YMM, YMM)") for name in ("VPMULHW", "VADDPS"))
    question = Question(subject, blocker, 2, strengths(2, 6, 1, Fraction(1)))
    asked: list[tuple[int, int, int]] = []

    def answer(request: Request) -> Measured:
        instances = sum(line.key == subject.key for line in request.benchmark.body)
        blockers = sum(line.key == blocker.key for line in request.benchmark.body)
        asked.append((instances, blockers, request.again))
        cycles = Fraction(blockers + instances, 2)
        if (instances, blockers) == question.many:
            cycles = Fraction(second if request.again else "7.51")
        return Measured(request, Status.OK, {"core_cycles": cycles}, {}, None)

    answered = driven(ask(mixes, [question], Fraction(1, 200)), answer)
    assert isinstance(answered, list)
    assert answered[0].answer.uops == uops
    assert [one for one in asked if one[0] > 1] == [(*question.many, 0), (*question.many, 1)]


def test_times_in_which_blocking_instructions_cannot_run_say_nothing() -> None:
    """VANDPS_Z (ZMM, K, ZMM, M32_1to16) on an Emerald Rapids, beside CMP with five ports."""
    counts = (20, 25, 30, 35, 40, 45, 50, 55)
    cycles = ("6.63", "5.20", "6.20", "6.96", "10.38", "9.45", "10.21", "10.90")
    times = [(count, Fraction(text)) for count, text in zip(counts, cycles, strict=True)]
    assert judge(times, 5, Fraction(42, 10_000)).most >= 1
    # Two mixes in which they can run, but no µop more
    times[-1] = (55, Fraction("11.00"))
    assert_many_decide(judge(times, 5, Fraction(42, 10_000)))


def assert_many_decide(answer: MixAnswer) -> None:
    """Check that the number is open between none and one, and that six instances settle it."""
    assert (answer.uops, answer.most) == (None, 1)
    slack = Fraction(17, 100)
    assert answer.closed().uops == 0, "many cannot be asked"
    assert answer.bounded(Fraction(1, 10), slack).uops == 0
    assert answer.bounded(Fraction(135, 100), slack).closed().uops == 0
    assert answer.bounded(Fraction(135, 100), slack).bounded(Fraction(1), slack).settled(Fraction(1), slack).uops == 1


def test_what_changes_how_blocking_instructions_run_is_seen(catalogue: Catalogue) -> None:
    """VADDPD (ZMM, ZMM, ZMM) on an Emerald Rapids leaves two ports to VANDNPD (XMM, XMM, XMM), which has three."""
    sets = (TimedSet(frozenset("012"), (), {}, frozenset({"VEC"})), TimedSet(frozenset("02"), (), {}))
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), sets)
    variant = catalogue.by_string("VADDPD (ZMM, ZMM, ZMM)")
    question = Question(variant, catalogue.by_string("VANDNPD (XMM, XMM, XMM)"), 3, (12, 15, 24, 27))
    for each, is_told in ((Fraction(1, 2), False), (Fraction(1, 3), True)):
        times = tuple((count, count * each + Fraction(1, 3)) for count in question.counts)
        probe = TimedProbe(machine, variant, Fraction(1, 2), components(one.ports for one in sets))
        probe.take(frozenset("012"), Asked(question, judge(times, 3, Fraction(1, 100)), times))
        assert [probe.is_told(part) for part in probe.parts] == [is_told]


def test_many_instances_settle_what_one_left_open() -> None:
    left_open = MixAnswer(None, 2, (Fraction(3), Fraction(3))).bounded(Fraction(105, 100), Fraction(15, 100))
    assert (left_open.uops, left_open.most) == (None, 1)
    assert left_open.settled(Fraction(105, 100), Fraction(1, 5)) == MixAnswer(
        1, 1, left_open.values, left_open.bound, confirmed=True
    )
    unclear = MixAnswer(None, 2, (Fraction(3), Fraction(3)), Fraction(25, 10))
    assert unclear.settled(Fraction(25, 10), Fraction(1, 5)) == unclear


@pytest.mark.parametrize(("values", "is_settled"), [((400, 398), False), ((310, 398), True)])
def test_what_stands_still_for_another_cycle_has_no_uops_for_it(values: tuple[int, int], *, is_settled: bool) -> None:
    """PEXTRW (R32, MM, I8) on a Zen 4: one seems to have four µops on the ALUs, and six 3.3 each."""
    left_open = MixAnswer(None, 3, tuple(Fraction(one, 100) for one in values), Fraction(333, 100))
    assert (left_open.settled(Fraction(333, 100), Fraction(1, 5)).uops == 3) == is_settled


def test_if_noise_may_change_the_number_of_many_both_strengths_have_to_say_it() -> None:
    """On HSW with 1% of noise, three DIVSD among 234 VBLENDPS seem to have 1.7 µops each on p015. They have one."""
    left_open = MixAnswer(None, 2, (Fraction(18, 10), Fraction(1)), Fraction(169, 100))
    last = Many(3, 234, Fraction(239, 3))
    assert last.uops(3) == Fraction(5, 3)
    assert left_open.settled(last.uops(3), last.slack(3, Fraction(1, 100))) == left_open
    both = replace(left_open, values=(Fraction(18, 10), Fraction(19, 10)))
    assert both.settled(last.uops(3), last.slack(3, Fraction(1, 100))).uops == 2


def test_more_blocking_instructions_that_take_longer_settle_nothing() -> None:
    """VPSIGND has FP01 on Zen 4. Among VINSERTPS it waits as if ports were lost: 1.0 of 12, 2.57 of 30."""
    left_open = MixAnswer(None, 4, (Fraction(43, 10), Fraction(62, 10))).bounded(Fraction(1), Fraction(15, 100))
    assert left_open.settled(Fraction(257, 100), Fraction(1, 5)) == left_open
    assert Many(6, 30, Fraction(4544, 300)).uops(3) == Fraction(1544, 600)


@pytest.mark.parametrize(("last", "is_settled"), [(266, False), (290, True), (310, True)])
def test_many_instances_never_take_less_time_than_their_uops(last: int, *, is_settled: bool) -> None:
    """On ADL-P with 1% of noise, STOSW has two µops on five ports. Six of them seem to have 2.66 each."""
    per_instance = Fraction(last, 100)
    left_open = MixAnswer(None, 3, (Fraction(24, 10), Fraction(293, 100)), per_instance)
    slack = ROUNDING + Fraction(3, 100) * Fraction(66, 5) * 5 / 6
    assert (left_open.settled(per_instance, slack).uops == 3) == is_settled


def test_many_instances_settle_no_more_than_one_instance_took_time_for() -> None:
    """Six with µops on ports that others use, too, wait for those: 3.26 each, where one alone waited for 2.4."""
    left_open = MixAnswer(None, 3, (Fraction(247, 100), Fraction(233, 100))).bounded(Fraction(326, 100), Fraction(1, 2))
    assert left_open.settled(Fraction(326, 100), Fraction(1, 5)) == left_open


@given(st.integers(1, 4), st.fractions(Fraction(1, 4), 12), st.integers(1, 12))
def test_more_blocking_instructions_last_longer_than_the_instances(size: int, cycles: Fraction, chain: int) -> None:
    variant = DUMMY
    question = Question(variant, variant, size, (), Fraction(chain), cycles)
    instances, blockers = question.more
    assert 1 <= instances <= MANY
    assert blockers <= MOST_BLOCKERS
    assert blockers >= size * (instances * cycles + chain) or instances == 1


@pytest.mark.parametrize(
    ("extra", "slots"),
    [
        (Fraction(1), (1, 1)),
        (Fraction(3), (3, 3)),
        # What a loop's first copies take may look like a third of a slot less
        (Fraction(5, 3), (None, 2)),
        (Fraction(263, 100), (3, 3)),
        (Fraction(6, 4), (None, 2)),
    ],
)
def test_slots_are_never_more_than_the_time_of_filler_allows(extra: Fraction, slots: tuple[int | None, int]) -> None:
    times = [(count, (count + extra) / 6) for count in (42, 54)]
    noise = Fraction(67, 10_000) if extra > 2 or extra == Fraction(3, 2) else Fraction(2, 1000)
    assert slots_among_filler(times, 6, noise) == slots


@given(st.integers(1, 5), st.integers(1, 8))
def test_no_mix_has_both_strengths(size: int, slots: int) -> None:
    counts = strengths(size, 6, slots, Fraction(1))
    half = len(counts) // 2
    assert max(counts[:half]) < min(counts[half:])


def test_hypotheses_are_all_usages_of_basic_sets_and_intersections_that_agree() -> None:
    (part,) = components([frozenset("01"), frozenset("12")])
    assert set(part.known) == {frozenset("01"), frozenset("12"), frozenset("1")}
    left = part.hypotheses({frozenset("01"): UopBounds(1, 1), frozenset("12"): UopBounds(1, 1)}, 2)
    assert left is not None
    usages = {str(PortUsage(dict(part.usage(one)))) for one in left}
    assert usages == {"1*p1", "1*p01+1*p12"}


@given(st.lists(st.tuples(SETS, st.integers(1, 3)), max_size=4))
def test_names_by_time_are_read_again(parts: list[tuple[list[frozenset[str]], int]]) -> None:
    usage = PortUsage({frozenset(f"r{p}" for p in sets[0]): count for sets, count in parts})
    assert PortUsage.parse(str(usage)) == usage


def test_port_arithmetic_takes_any_names() -> None:
    assert throughput_of(PortUsage.parse("2*r01+1*FP0")) == 1
    assert port_set_name(frozenset({"rA", "r0"})) == "r0A"


def test_a_diagram_of_many_large_sets_is_drawn_soon() -> None:
    """Zen 5's sets: pipes of vectors, stores, loads, shifts, ALUs. One pair cannot be compared."""
    names = ("01", "04", "15", "23", "45", "67", "89", "ABC", "045", "2367", "0145", "ABCDEF")
    sets = [frozenset(one) for one in names]
    found = relations(sets)
    together = {pair: both for pair, both in found.together.items() if pair != (2, 3)}
    fitting, against = diagrams(SetRelations(found.sizes, found.nested, together))
    assert against == 0
    assert {ports_in(cells) for cells in fitting} == {len(frozenset().union(*sets))}


class Front:
    """A front end that issues lines of five bytes at the full width of 8, and shorter ones at 7 per cycle."""

    width = 8

    def measured(self, request: Request, extra_slots: int = 0) -> Measured:
        lines = request.benchmark.body
        short = sum(len(line.code) < 5 for line in lines)
        cycles = Fraction(len(lines) - short + extra_slots, self.width) + Fraction(short, 7)
        return Measured(request, Status.OK, {"core_cycles": cycles}, {}, None)


def driven(procedure: Procedure[Any], answer: Callable[[Request], Measured]) -> object:
    """Answer all requests of a procedure; return its result."""
    try:
        requests = next(procedure)
        while True:
            requests = procedure.send([answer(one) for one in requests])
    except StopIteration as ended:
        return ended.value


@pytest.mark.parametrize("core", [core_of(name).uop_cache for name in core_names()], ids=core_names())
def test_nops_as_filler_leave_room_in_the_uop_cache_for_other_code(core: UopCache | None) -> None:
    if core is None or not core.lines:
        pytest.skip("there is no µop cache")
    assert ceil(core.window_bytes / min(LENGTHS[NOP])) < core.lines_per_window * core.line_uops


def test_filler_has_the_length_that_is_issued_fastest(catalogue: Catalogue) -> None:
    discovery = Discovery(MixFactory(InstructionFactory(catalogue)))
    driven(discovery._find_filler(), Front().measured)
    assert (discovery.filler, discovery.width) == (SlotFiller("MOV_89 (R64, R64)", 5), 8)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_slots_are_counted_against_filler_of_the_same_lengths(catalogue: Catalogue, slots: int) -> None:
    mixes = MixFactory(InstructionFactory(catalogue))
    # Three bytes, so that all lines are short, and the rate of all of them is 7 per cycle
    variant = catalogue.by_string("XCHG (R64, R64)")
    code, twin = mixes.among(SlotFiller("MOV_89 (R64, R64)", 3), 24, [], variant)
    rate = issue_rate(Front().measured(twin), 8)
    assert rate == 7
    cycles = Front().measured(code).cycles + Fraction(slots - 1) / rate
    assert cycles * rate - 24 == slots
    assert undisturbed(rate, 8) == 8
    assert undisturbed(Fraction(15, 2), 8) == Fraction(15, 2)


@pytest.mark.parametrize(
    ("rate", "is_fitting"),
    [
        (Fraction(299, 50), True),
        # Six ports of which some idle are no five
        (Fraction(517, 100), False),
        # As many as are issued of their length say nothing of ports
        (Fraction(7), False),
    ],
)
def test_a_rate_is_a_number_of_ports_if_it_is_near_and_not_that_of_issue(
    catalogue: Catalogue, rate: Fraction, is_fitting: bool
) -> None:
    instructions = InstructionFactory(catalogue)
    variant = catalogue.by_string("BSWAP (R64)")
    lines = tuple(instructions.line("BSWAP (R64)", name) for name in ("RAX", "RCX", "RDX"))
    candidate = Candidate(variant, Microbenchmark((), lines, "BSWAPs", len(lines)))
    discovery = Discovery(MixFactory(instructions), "", 8, SlotFiller("MOV_89 (R64, R64)", 5))

    def answer(request: Request) -> Measured:
        if request.benchmark is candidate.benchmark:
            return Measured(request, Status.OK, {"core_cycles": len(lines) / rate}, {}, None)
        return Front().measured(request)

    found = driven(discovery._with_rate_of_ports([candidate]), answer)
    assert found == ([(candidate, round(rate), 1 / rate)] if is_fitting else [])


def test_what_may_be_eliminated_shows_no_ports(catalogue: Catalogue) -> None:
    """Some instances of a move that is eliminated in part need a port, and others none: it seems to have two."""
    instructions = InstructionFactory(catalogue)
    found = {}
    for string, names in (("VMOVAPS_28 (XMM, XMM)", ("XMM1", "XMM2")), ("VPABSB (XMM, XMM)", ("XMM1", "XMM2"))):
        variant = catalogue.by_string(string)
        lines = (instructions.line(string, *names),) * 3
        candidate = Candidate(variant, Microbenchmark((), lines, string, len(lines)))
        discovery = Discovery(MixFactory(instructions), "", 8, SlotFiller("MOV_89 (R64, R64)", 5))

        def answer(request: Request, of: Candidate = candidate) -> Measured:
            if request.benchmark is of.benchmark:
                return Measured(request, Status.OK, {"core_cycles": Fraction(3, 2)}, {}, None)
            return Front().measured(request)

        members = driven(discovery._with_rate_of_ports([candidate]), answer)
        assert isinstance(members, list)
        found[string] = [size for _, size, _ in members]
    assert found == {"VMOVAPS_28 (XMM, XMM)": [], "VPABSB (XMM, XMM)": [2]}


@pytest.mark.parametrize(("chain", "sizes"), [(Fraction(2), [2]), (Fraction(298, 100), [])])
def test_what_waits_for_equal_registers_shows_no_ports(catalogue: Catalogue, chain: Fraction, sizes: list[int]) -> None:
    """Nine registers for twelve instances: with a chain of three cycles, two are done per cycle on any core."""
    instructions = InstructionFactory(catalogue)
    names = ("RBX", "RCX", "RAX", "R8", "R9", "R10", "RBP", "R11", "R12", "RBX", "RCX", "RAX")
    lines = tuple(instructions.line("CRC32 (R64, R64)", name, "RDX") for name in names)
    candidate = Candidate(catalogue.by_string("CRC32 (R64, R64)"), Microbenchmark((), lines, "CRC32s", len(lines)))
    discovery = Discovery(MixFactory(instructions), "", 8, SlotFiller("MOV_89 (R64, R64)", 5))

    def answer(request: Request) -> Measured:
        texts = [line.text for line in request.benchmark.body]
        cycles = {len(lines): Fraction(6), 1: chain}.get(sum(text.startswith("CRC32") for text in texts))
        if cycles is None or len(texts) > len(lines):
            return Front().measured(request)
        return Measured(request, Status.OK, {"core_cycles": cycles}, {}, None)

    members = driven(discovery.members_of([candidate]), answer)
    assert isinstance(members, list)
    assert [one.size for one in members] == sizes


@pytest.mark.parametrize("string", ["VCOMISS (XMM, XMM)", "CLC", "JMP (Rel32)"])
def test_what_reads_nothing_of_its_own_waits_for_no_register(catalogue: Catalogue, string: str) -> None:
    """Its instances are all alike, and take as long as one that is repeated."""
    lines = (Line(b"\x90", string),) * 12
    candidate = Candidate(catalogue.by_string(string), Microbenchmark((), lines, string, len(lines)))
    assert not _waits(candidate, chain=Fraction(1), cycles=Fraction(1))


class DoubledTimes:
    """One port, and a machine whose first mixes with a given number of lines take twice as long."""

    def __init__(self, lines: int, times: int) -> None:
        self.lines, self.left = lines, times

    def measured(self, request: Request) -> Measured:
        lines = len(request.benchmark.body)
        is_disturbed = self.left > 0 and lines >= self.lines
        self.left -= is_disturbed
        return Measured(request, Status.OK, {"core_cycles": Fraction(lines * (1 + is_disturbed))}, {}, None)


@pytest.mark.parametrize(("times", "is_kept"), [(0, True), (1, True), (99, False)])
def test_one_disturbed_time_loses_no_candidate(catalogue: Catalogue, times: int, is_kept: bool) -> None:
    """It may be the only one that shows its set. One whose times are always wrong blocks nothing."""
    variant = catalogue.by_string("IMUL (R64, R64)")
    member = Member(variant, 1, Fraction(3), Fraction(1))
    discovery = Discovery(MixFactory(InstructionFactory(catalogue)), "", 4)
    found = driven(discovery._steady([member]), DoubledTimes(lines=6, times=times).measured)
    assert found == ([member] if is_kept else [])


class Counted(Discovery):
    """Is told how many µops any subject has on a set of so many ports, and nothing of common ports."""

    counts: Mapping[int, int]

    def answers(self, pairs: Sequence[tuple[Member, Member]], _more_cycles: int = 0) -> Procedure[list[Asked]]:
        yield from ()
        found = []
        for subject, blocker in pairs:
            uops = self.counts[blocker.size]
            question = Question(subject.variant, blocker.variant, blocker.size, (4, 6))
            found.append(Asked(question, MixAnswer(uops, uops, (Fraction(uops),) * 2)))
        return found

    def _together(
        self, _classes: Sequence[MemberClass], _pairs: Sequence[tuple[int, int]]
    ) -> Procedure[dict[tuple[int, int], tuple[int, int]]]:
        yield from ()
        return {}


@pytest.mark.parametrize(("uops", "kept"), [({2: 1, 4: 2}, 3), ({2: 2, 4: 4}, 2), ({2: 0, 4: 0}, 3)])
def test_what_delays_several_sets_blocks_nothing(catalogue: Catalogue, uops: dict[int, int], kept: int) -> None:
    """On Zen 3 `PDEP` takes two cycles of the four ALUs and one of two of them; a move from a vector delays both."""
    classes = [
        MemberClass([Member(catalogue.by_string(name), size, Fraction(1), Fraction(1, size)) for name in names])
        for size, names in (
            (1, ("PDEP (R64, R64, R64)", "PEXT (R64, R64, R64)")),
            (2, ("RORX (R64, R64, I8)", "SHLX (R64, R64, R64)")),
            (4, ("POPCNT (R64, R64)", "ANDN (R64, R64, R64)")),
        )
    ]
    counted = Counted(MixFactory(InstructionFactory(catalogue)))
    counted.counts = uops
    with pytest.raises(StopIteration) as ended:
        next(counted._relations(classes))
    left, _ = ended.value.value
    assert len(left) == kept


class Shown(Discovery):
    """Is told how many ports the mixes of two classes show at each place."""

    ports: Sequence[tuple[int, int]]
    asked: int
    lacking: frozenset[tuple[int, int]] = frozenset()

    def _mixed(
        self, _classes: Sequence[MemberClass], pairs: Sequence[tuple[int, int]], place: int
    ) -> Procedure[dict[tuple[int, int], tuple[int, int]]]:
        yield from ()
        self.asked += 1
        return dict.fromkeys([pair for pair in pairs if pair not in self.lacking], self.ports[place])


@pytest.mark.parametrize(
    ("ports", "found", "asked"),
    [
        # Slow mixes make no common port
        ([(4, 4), (5, 5), (4, 4), (5, 5)], (5, 5), 4),
        ([(4, 4)] * 5, (4, 4), 5),
        ([(5, 5), (5, 5)], (5, 5), 2),
        # One that is too fast by mistake leaves them common
        ([(4, 4), (5, 5), (4, 4), (4, 4), (4, 4)], (4, 4), 5),
        ([(3, 4), (4, 4), (3, 3), (4, 4), (3, 4)], (4, 4), 5),
    ],
)
def test_ports_are_common_unless_two_mixes_show_more(
    catalogue: Catalogue, ports: list[tuple[int, int]], found: tuple[int, int], asked: int
) -> None:
    loads = group(catalogue, 3, "MOV (R64, M64)")
    adds = group(catalogue, 2, "VADDPS (XMM, XMM, XMM)", "VADDPD (XMM, XMM, XMM)", "VADDSS (XMM, XMM, XMM)")
    shown = Shown(MixFactory(InstructionFactory(catalogue)))
    shown.ports, shown.asked = ports, 0
    with pytest.raises(StopIteration) as ended:
        next(shown._together([adds, loads], [(0, 1)]))
    assert ended.value.value == {(0, 1): found}
    assert shown.asked == asked


LOADS = (3, "MOV (R64, M64)"), (2, "VMOVSLDUP (XMM, M128)"), (1, "VMOVDQU64 (XMM, M128)")
TOLD: list[bool] = [False, False]
OPEN: list[bool] = []
SAME: list[bool] = [True, True]


@pytest.mark.parametrize(
    ("votes", "ports", "kept"),
    [
        # The first and the last are told apart, the one between is told apart from none
        ({(0, 1): OPEN, (0, 2): TOLD, (1, 2): OPEN}, (2, 2), [0, 2]),
        ({(0, 1): OPEN, (0, 2): OPEN, (1, 2): OPEN}, (2, 2), [0]),
        ({(0, 1): OPEN, (0, 2): OPEN, (1, 2): OPEN}, (2, 4), [0]),  # slow mixes show nothing
        ({(0, 1): OPEN, (0, 2): OPEN, (1, 2): OPEN}, (3, 3), [0, 1, 2]),
        ({(0, 1): OPEN, (0, 2): OPEN, (1, 2): OPEN}, None, [0]),  # there were no registers for a mix
        # What tells one class of a merged set from another tells the whole set
        ({(0, 1): SAME, (0, 2): OPEN, (1, 2): TOLD}, (2, 2), [0, 2]),
    ],
)
def test_of_classes_that_nothing_shows_to_have_two_sets_the_largest_counts(
    catalogue: Catalogue, votes: dict[tuple[int, int], list[bool]], ports: tuple[int, int] | None, kept: list[int]
) -> None:
    """Beside a busy neighbour, loads of a Cascade Lake had three sets: votes were open, and mixes slow."""
    classes = [
        MemberClass([Member(catalogue.by_string(name), 2, Fraction(1), Fraction(1, 2))] * count)
        for count, name in LOADS
    ]
    shown = Shown(MixFactory(InstructionFactory(catalogue)))
    shown.ports, shown.asked = [ports or (0, 0)] * REPRESENTATIVES, 0
    if ports is None:
        shown.lacking = frozenset(votes)
    heads = _heads_of(classes, votes, ())
    with pytest.raises(StopIteration) as ended:
        next(shown._of_own_sets(classes, heads, votes))
    assert ended.value.value == [classes[number] for number in kept]


def test_slow_mixes_of_two_sets_are_followed_by_others(catalogue: Catalogue) -> None:
    """Two that show as many ports as one set may have do not end the search."""
    loads, others = group(catalogue, 2, "MOV (R64, M64)"), group(catalogue, 2, "VMOVSLDUP (XMM, M128)")
    shown = Shown(MixFactory(InstructionFactory(catalogue)))
    shown.ports, shown.asked = [(2, 4), (2, 4), (4, 4), (2, 4), (4, 4)], 0
    with pytest.raises(StopIteration) as ended:
        next(shown._together([loads, others], [(0, 1)]))
    assert (ended.value.value, shown.asked) == ({(0, 1): (4, 4)}, 5)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


@pytest.mark.parametrize("noise", [0, 1])
def test_a_machine_is_found_again_by_time(catalogue: Catalogue, noise: int) -> None:
    machine = open_machine("HSW").with_parameters(noise=CounterNoise(job_percent=noise))
    names = (
        "VFMADD231PS_VEX (XMM, XMM, XMM)",
        "IMUL (R64, R64)",
        "ADC_11 (R64, R64)",
        "VPBLENDW (XMM, XMM, XMM, I8)",
        "VHADDPD (XMM, XMM, XMM)",
        "MOV (R64, M64)",
        "BSWAP (R64)",
        "VPADDD (XMM, XMM, M128)",
        "FCOM (ST0, ST(0), M64)",
        "STI",
        "RDFSBASE (R32)",
    )
    wanted = set(names)
    variants = [one for one in catalogue if one.string in wanted and machine.behaviour(one) is not None]
    outcome = run(SimBackend(machine, catalogue, hide_counters=True), catalogue, variants)
    assert outcome.renaming is not None
    assert outcome.verdicts[Verdict.WRONG] == 0, outcome.exceptions
    assert outcome.verdicts[Verdict.RIGHT] >= 4, outcome.exceptions
    assert outcome.answers["FCOM (ST0, ST(0), M64)"] is Verdict.NAMED
    # Both wait 100 cycles to retire. So the reorder buffer is full beside them, and blocked ports run dry
    assert outcome.verdicts[Verdict.NAMED_OTHERS] == 0, outcome.exceptions
    # Of four ports as many as are issued per cycle nothing is seen
    assert outcome.verdicts[Verdict.VISIBLE] >= 1


def test_the_front_end_hides_no_set_of_ports(catalogue: Catalogue) -> None:
    machine = open_machine("HSW").with_parameters(front=core_of("HSW"))
    backend = SimBackend(machine, catalogue, hide_counters=True)
    characterizer = Characterizer(catalogue, backend.info().capabilities, by_time=True)
    timed = Session(Measurer(backend)).run_one(characterizer.prepare()).timed
    assert timed is not None
    renaming = renaming_of(timed, backend, catalogue)
    assert renaming is not None
    assert renaming.found == renaming.shown
    sets = {"".join(sorted(renaming.names[f"r{port}"] for port in one.ports)) for one in timed.sets}
    # Decoders for 16 bytes per cycle deliver too few instructions for the stores' port and for three ports
    assert sets == {"0", "1", "4", "5", "6", "01", "06", "15", "23", "015"}


@pytest.mark.parametrize(
    ("string", "cycles", "named"),
    [
        ("FCOMP (ST0, ST(0), M64)", Fraction(1), ["1*r012+1*r3", "1*r01+1*r3", "1*r02+1*r3", "1*r12+1*r3"]),
        # Three per cycle need all three ports
        ("FCOMP (ST0, ST(0), M64)", Fraction(1, 3), []),
        ("IMUL (R64, M64)", Fraction(1), []),
        # What is not pipelined, such as a divider, may have one of the ports only
        ("IMUL (R64, M64)", Fraction(9), ["1*r012+1*r3", "1*r01+1*r3", "1*r02+1*r3", "1*r12+1*r3"]),
        ("JNL (Rel8)", Fraction(1), ["1*r012+1*r3", "1*r01+1*r3", "1*r02+1*r3", "1*r12+1*r3"]),
        ("JNL (Rel8)", Fraction(1, 3), []),
        ("PREFETCHT0 (M512)", Fraction(1), []),
        # Others with control registers may be done in other units
        ("FLDCW (M16)", Fraction(1), ["1*r012+1*r3", "1*r01+1*r3", "1*r02+1*r3", "1*r12+1*r3"]),
    ],
)
def test_a_set_is_known_for_what_is_pipelined_and_has_registers_of_the_same_file(
    catalogue: Catalogue, string: str, cycles: Fraction, named: list[str]
) -> None:
    loads = TimedSet(frozenset("012"), ("MOV (R64, M64)",), {}, frozenset({"GPR", "VEC", "OTHER"}))
    other = TimedSet(frozenset("3"), ("IMUL (R64, R64)",), {}, frozenset({"GPR"}))
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), (loads, other))
    parts = components(one.ports for one in machine.sets)
    probe = TimedProbe(machine, catalogue.by_string(string), cycles, parts)
    # No part of the loads' ports alone, and one µop on port 3
    probe.bounds = {frozenset("012"): UopBounds(1, 1), frozenset("3"): UopBounds(1, 1)}
    usage = PortUsage.parse("1*r012+1*r3") if cycles >= 1 else PortUsage.parse("1*r012")
    if cycles < 1:
        probe.bounds[frozenset("3")] = UopBounds(0, 0)
    found = doubt(probe, usage, ())
    usages = [str(one) for one in found.usages] if isinstance(found, Indistinguishable) else []
    assert usages[: len(named)] == named
    assert bool(usages) == bool(named)


def test_what_has_bounds_is_named_with_parts_of_sets_that_other_instructions_have(catalogue: Catalogue) -> None:
    """RDGSBASE of LLVM's Golden Cove has p0156, one port less than what computes with general registers."""
    sets = (TimedSet(frozenset("01234"), ("ADD_01 (R64, R64)",), {}, frozenset({"GPR"})),)
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), sets)
    parts = components(one.ports for one in sets)
    probe = TimedProbe(machine, catalogue.by_string("RDGSBASE (R32)"), Fraction(27, 100), parts)
    probe.slots, probe.most_slots = 1, 1
    probe.bounds = {frozenset("01234"): UopBounds(0, 1)}
    found = conclude(probe).failure
    assert isinstance(found, Indistinguishable)
    four = ("0123", "0124", "0134", "0234", "1234")
    assert {str(one) for one in found.usages} == {"", "1*r01234", *(f"1*r{ports}" for ports in four)}


@pytest.mark.parametrize(
    ("string", "blocker", "is_told"),
    [
        ("VPADDD (YMM, YMM, YMM)", "MOV (R64, M64)", False),
        ("VPADDD (YMM, YMM, M256)", "MOV (R64, M64)", True),
        # Its way may be that of a store's value
        ("VMOVD (R32, XMM)", "VMOVAPS (M128, XMM)", True),
    ],
)
def test_what_accesses_no_memory_only_delays_loads(
    catalogue: Catalogue, string: str, blocker: str, is_told: bool
) -> None:
    blocking = catalogue.by_string(blocker)
    ports = frozenset("01")
    one = TimedSet(ports, (blocker,), {CodeKind.WITHOUT_SSE: blocking}, frozenset({"GPR"}))
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), (one,))
    variant = catalogue.by_string(string)
    (part,) = components([ports])
    probe = TimedProbe(machine, variant, Fraction(1), [part])
    probe.slots, probe.most_slots = 1, 1
    seen = MixAnswer(1, 1, (Fraction(1), Fraction(1)))
    probe.take(
        ports, Asked(Question(variant, blocking, 2, (8, 16)), seen, ((8, Fraction(9, 2)), (16, Fraction(17, 2))))
    )
    assert probe.is_told(part) == is_told
    assert probe.bounds[ports] == UopBounds(int(is_told), int(is_told))


@pytest.mark.parametrize(
    ("cycles", "slots", "off", "is_stated"),
    [
        (Fraction(20), None, (0, 0), False),
        (Fraction(20), 6, (0, 0), False),
        (Fraction(20), 4, (0, 0), True),
        # FDIV on an Emerald Rapids: the times among filler agree on no number of slots
        (Fraction(20), 4, ("-0.6", "0.6"), False),
        (Fraction(1), None, (0, 0), True),
    ],
)
def test_what_is_not_pipelined_has_at_most_the_uops_that_are_seen(
    catalogue: Catalogue, cycles: Fraction, slots: int | None, off: tuple[str, str], is_stated: bool
) -> None:
    sets = (TimedSet(frozenset("012"), (), {}, frozenset({"X87"})), TimedSet(frozenset("3"), (), {}))
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), sets)
    parts = components(one.ports for one in sets)
    probe = TimedProbe(machine, catalogue.by_string("FDIVR (ST0, ST(0), M64)"), cycles, parts)
    probe.slots, probe.most_slots = slots, slots or 44
    probe.filled = [
        (count, (count + (slots or 44) + Fraction(off)) / 6) for count, off in zip((120, 132), off, strict=True)
    ]
    answers = (Confined(frozenset({"r0", "r1", "r2"}), 3), Confined(frozenset({"r3"}), 1))
    found = doubt(probe, PortUsage.parse("3*r012+1*r3"), answers)
    bounds = OnlyBounds(probe.most_slots, (replace(answers[0], exact=False), answers[1]))
    assert (found != bounds) == is_stated


def test_parts_of_the_sets_of_many_uops_take_no_memory(catalogue: Catalogue) -> None:
    """Nine µops on four ports have 800,000 usages with parts of the set, and thirty have a hundred billion."""
    sets = (TimedSet(frozenset("0123"), (), {}, frozenset({"X87"})),)
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), sets)
    probe = TimedProbe(
        machine, catalogue.by_string("FDIVR (ST0, ST(0), M64)"), Fraction(20), components([frozenset("0123")])
    )
    probe.slots, probe.most_slots = 9, 9
    probe.bounds = {frozenset("0123"): UopBounds(9, 9)}
    tracemalloc.start()
    try:
        found = doubt(probe, PortUsage.parse("9*r0123"), ())
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == OnlyBounds(9, ())
    assert most_bytes < 1_000_000


def test_what_is_not_pipelined_is_named_with_parts_of_sets(catalogue: Catalogue) -> None:
    sets = (TimedSet(frozenset("01"), (), {}, frozenset({"X87"})), TimedSet(frozenset("3"), (), {}))
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), sets)
    parts = components(one.ports for one in sets)
    probe = TimedProbe(machine, catalogue.by_string("FDIVR (ST0, ST(0), M64)"), Fraction(20), parts)
    probe.slots, probe.most_slots = 1, 1
    # A single µop on one of the two sets, or none that is seen. Nothing blocks a part of the first one alone
    probe.bounds = {frozenset("01"): UopBounds(0, 1), frozenset("3"): UopBounds(0, 0)}
    found = conclude(probe).failure
    assert isinstance(found, Indistinguishable)
    assert {"1*r01", "1*r0", "1*r1"} <= {str(one) for one in found.usages}


@pytest.mark.parametrize(
    ("usage", "cycles", "named"),
    [
        ("3*r01", Fraction(3, 2), None),
        # Two or three of the three may have one port alone
        ("3*r01", Fraction(2), {"3*r01", "1*r01+2*r0", "1*r01+2*r1", "2*r01+1*r0", "2*r0+1*r1"}),
        # Of two, one alone takes no longer
        ("2*r01", Fraction(4, 3), None),
        ("2*r01", Fraction(2), {"2*r01", "1*r01+1*r0", "1*r0+1*r1", "2*r0", "2*r1"}),
    ],
)
def test_of_several_uops_some_may_have_a_part_of_a_set_if_they_take_longer_than_the_whole_set_needs(
    catalogue: Catalogue, usage: str, cycles: Fraction, named: set[str] | None
) -> None:
    multiply = catalogue.by_string("IMUL (R64, R64)")
    sets = TimedSet(frozenset("01"), (multiply.string,), {CodeKind.WITHOUT_AVX: multiply}, frozenset({"GPR"}))
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), (sets,))
    probe = TimedProbe(machine, multiply, cycles, components([sets.ports]))
    whole = PortUsage.parse(usage)
    probe.slots = probe.most_slots = whole.total
    probe.bounds = {sets.ports: UopBounds(whole.total, whole.total)}
    found = doubt(probe, whole, ())
    if named is None:
        assert found is None
    else:
        assert isinstance(found, Indistinguishable)
        assert named <= {str(one) for one in found.usages}


@pytest.mark.parametrize(("slots", "rest"), [(2, None), (8, 8), (None, None)])
def test_what_is_named_says_how_many_slots_are_left(catalogue: Catalogue, slots: int | None, rest: int | None) -> None:
    one = TimedSet(frozenset("01"), (), {}, frozenset({"GPR"}))
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), (one,))
    probe = TimedProbe(machine, catalogue.by_string("XCHG (M64, R64)"), Fraction(20), components([one.ports]))
    probe.slots, probe.most_slots = slots, 8
    usages = (PortUsage.parse("2*r01"), PortUsage.parse("1*r01+1*r0"))
    why = _with_slots(probe, PortConclusion(None, Indistinguishable(usages))).failure
    assert why == Indistinguishable(usages, slots=rest)
    assert ("; the rest of its 8 issue slots uses no port" in failure(why)) == (rest is not None)


LOAD, STORE = ("MOV (R64, M64)", frozenset("012")), ("VMOVAPS (M128, XMM)", frozenset("4"))
COMPUTE = ("IMUL (R64, R64)", frozenset("3"))


@pytest.mark.parametrize(
    ("string", "usage", "slots", "blockable", "is_whole"),
    [
        ("IMUL (R64, M64)", "1*r3", 1, "GPR", False),
        ("IMUL (R64, M64)", "1*r012+1*r3", 1, "", True),
        # Its second slot may be the load's, or that of a µop on all ALUs
        ("ADC (R8l, M8)", "1*r012+1*r3", 2, "", False),
        ("ADC (R8l, M8)", "1*r012+1*r3", 2, "GPR", True),
        ("MOV (R64, M64)", "1*r012", 1, "", False),
        ("MOV (R64, M64)", "1*r012", 1, "VEC", False),
        ("MOV (R64, M64)", "1*r012", 1, "GPR", True),
        # The address of a store needs a port as well as its value
        ("MOV (M64, R64)", "1*r4", 1, "GPR", False),
        ("MOV (M64, R64)", "1*r012+1*r4", 1, "", True),
        ("ADD (M64, R64)", "1*r012+1*r4", 2, "GPR", False),
        # More µops than slots: some slots hold more than a mix shows
        ("VERW (R16)", "1*r012+3*r3", 2, "", False),
        ("IMUL (R64, R64)", "1*r3", 1, "", True),
    ],
)
def test_a_usage_is_stated_if_no_slot_may_hide_a_uop(
    catalogue: Catalogue, string: str, usage: str, slots: int, blockable: str, is_whole: bool
) -> None:
    variants = [(catalogue.by_string(name), ports) for name, ports in (LOAD, STORE, COMPUTE)]
    sets = [TimedSet(ports, (one.string,), {CodeKind.WITHOUT_AVX: one}, frozenset({"GPR"})) for one, ports in variants]
    known = frozenset({blockable} if blockable else ())
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), tuple(sets), blockable=known)
    stated = PortUsage.parse(usage)
    probe = TimedProbe(machine, catalogue.by_string(string), throughput_of(stated), components(s.ports for s in sets))
    probe.slots = probe.most_slots = slots
    assert (doubt(probe, stated, ()) is None) == is_whole


@pytest.mark.parametrize(
    ("extra", "mixes"),
    [
        ((Fraction(7, 10), Fraction(7, 10)), 2),
        # Half a slot apart: noise may explain that, but the number of slots is not sure
        ((Fraction(4, 10), Fraction(1)), 2 + FURTHER_MIXES),
    ],
)
def test_slots_are_counted_again_where_two_times_disagree(
    catalogue: Catalogue, extra: tuple[Fraction, ...], mixes: int
) -> None:
    one = TimedSet(frozenset("012"), ("ANDN (R64, R64, R64)",), {}, frozenset({"GPR"}))
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(3, 100), (one,))
    probe = TimedProbe(machine, catalogue.by_string("CLC"), Fraction(1, 3), components([one.ports]))
    left = iter(extra)

    def answer(request: Request) -> Measured:
        lines = [line.text for line in request.benchmark.body]
        filler = lines.count("NOP")
        slots = filler + next(left, Fraction(1)) if 0 < filler < len(lines) else len(lines)
        return Measured(request, Status.OK, {"core_cycles": Fraction(slots) / 6}, {}, None)

    driven(slots_of(probe, MixFactory(InstructionFactory(catalogue))), answer)
    assert (probe.slots, probe.most_slots, len(probe.filled)) == (1, 1, mixes)


def test_what_waits_too_long_for_itself_runs_in_no_mix(catalogue: Catalogue) -> None:
    one = TimedSet(frozenset("012"), ("ANDN (R64, R64, R64)",), {}, frozenset({"GPR"}))
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), (one,))
    probe = TimedProbe(machine, catalogue.by_string("DIV (R64)"), Fraction(76), components([one.ports]))
    asked: list[Request] = []

    def answer(request: Request) -> Measured:
        asked.append(request)
        return Measured(request, Status.OK, {"core_cycles": Fraction(76)}, {}, None)

    said = driven(slots_of(probe, MixFactory(InstructionFactory(catalogue))), answer)
    assert said == WaitsForItself(Fraction(76))
    assert len(asked) == 1
    assert failure(said).startswith("it waits 76.00 cycles for itself")


@pytest.mark.parametrize(("cycles", "slots"), [(Fraction(1, 6), None), (Fraction(1, 3), 2), (Fraction(33, 100), 2)])
def test_slots_for_which_the_throughput_leaves_no_time_are_not_stated(
    catalogue: Catalogue, cycles: Fraction, slots: int | None
) -> None:
    """Two slots of six per cycle take a third of a cycle."""
    one = TimedSet(frozenset("0123"), ("ANDN (R64, R64, R64)",), {}, frozenset({"GPR"}))
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), (one,))
    probe = TimedProbe(machine, catalogue.by_string("CLC"), cycles, components([one.ports]))
    probe.slots = probe.most_slots = 2
    assert doubt(probe, PortUsage({}), ()) == Unplaced(PortUsage({}), slots)


def test_registers_whose_instructions_are_done_more_often_than_a_set_allows_are_not_blockable(
    catalogue: Catalogue,
) -> None:
    discovery = Discovery(MixFactory(InstructionFactory(catalogue)))
    discovery.most_often = {"GPR": Fraction(399, 100), "VEC": Fraction(301, 100), "MASK": Fraction(1)}
    sets = [TimedSet(frozenset("012"), (), {}, frozenset({"GPR", "VEC"}))]
    assert discovery.blockable(sets) == {"VEC"}


def test_code_that_seems_too_fast_excludes_no_usage(catalogue: Catalogue) -> None:
    """VSUBPS (YMM, YMM, M256) on an Emerald Rapids took 0.46 cycles unrolled, and 0.50 in a loop."""
    one = TimedSet(frozenset("01"), ("VADDPS (XMM, XMM, XMM)",), {}, frozenset({"VEC"}))
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), (one,))
    variant = catalogue.by_string("VSUBPS (YMM, YMM, M256)")
    unrolled, half = Fraction(46, 100), Fraction(1, 2)
    assert TimedProbe(machine, variant, unrolled, components([one.ports])).slowest < half
    assert TimedProbe(machine, variant, unrolled, components([one.ports]), half).slowest >= half
    # Four ports are needed, whatever the loop waits for
    quarter, loop = Fraction(1, 4), Fraction(2, 5)
    assert TimedProbe(machine, variant, quarter, components([one.ports]), loop).slowest < Fraction(1, 3)


def test_what_delays_others_is_not_proved_to_be_confined(catalogue: Catalogue) -> None:
    one = TimedSet(frozenset("012"), ("RORX (R64, R64, I8)",), {}, frozenset({"GPR"}))
    machine = TimedMachine(8, SlotFiller("NOP"), Fraction(1, 100), (one,))
    variant = catalogue.by_string("PDEP (R64, R64, R64)")
    parts = components([one.ports])
    slower, enough = Fraction(17, 10), Fraction(14, 10)
    for bound, among_more, least in ((slower, 2, 0), (enough, 2, 0), (enough, 1, 1)):
        probe = TimedProbe(machine, variant, Fraction(1, 3), parts)
        answer = MixAnswer(None, 1, (Fraction(among_more), Fraction(among_more)), bound)
        probe.take(one.ports, Asked(Question(variant, variant, 3, (12, 18)), answer))
        assert probe.bounds[one.ports] == UopBounds(least, 1)


@pytest.mark.parametrize(
    ("values", "delays"),
    [
        # VPCMPESTRI (8 µops in one slot) on a simulated Sandy Bridge: answers disagree about 8, but none says 1
        ((Fraction(822, 100), Fraction(751, 100)), True),
        # As if each port had a µop: what stands still for a cycle may have one
        ((Fraction(4), Fraction(38, 10)), False),
    ],
)
def test_what_keeps_ports_for_longer_than_its_slots_have_uops_delays_them(
    catalogue: Catalogue, values: tuple[Fraction, Fraction], delays: bool
) -> None:
    one = TimedSet(frozenset("234"), ("VPAND (XMM, XMM, XMM)",), {}, frozenset({"VEC"}))
    machine = TimedMachine(4, SlotFiller("NOP"), Fraction(1, 100), (one,))
    variant = catalogue.by_string("VPCMPESTRI (XMM, XMM, I8)")
    probe = TimedProbe(machine, variant, Fraction(3), components([one.ports]))
    probe.slots = probe.most_slots = 1
    probe.take(one.ports, Asked(Question(variant, variant, 3, (15, 36)), MixAnswer(None, round(max(values)), values)))
    assert probe.bounds[one.ports] == UopBounds(0, 1)
    assert (one.ports in probe.delayed) == delays


@pytest.mark.parametrize(
    ("filled", "bounds"),
    [
        # One slot, and times that are off by 1%
        ([(20, Fraction(53, 10)), (28, Fraction(72, 10)), (21, Fraction(55, 10)), (31, Fraction(8))], (1, 1)),
        # CLI on HSW: 1.7 lines of filler per cycle
        ([(20, Fraction(103, 10)), (28, Fraction(148, 10)), (21, Fraction(114, 10)), (31, Fraction(169, 10))], (0, 1)),
        # Its time alone among filler may be off by more
        ([(20, Fraction(53, 10)), (28, Fraction(85, 10))], (1, 1)),
    ],
)
def test_what_holds_up_all_code_shows_no_uops(
    catalogue: Catalogue, filled: list[tuple[int, Fraction]], bounds: tuple[int, int]
) -> None:
    one, other = (TimedSet(frozenset(ports), (), {}, frozenset({"GPR"})) for ports in ("13", "5"))
    machine = TimedMachine(4, SlotFiller("NOP"), Fraction(1, 100), (one, other))
    variant = catalogue.by_string("CLI")
    probe = TimedProbe(machine, variant, Fraction(1), components([one.ports, other.ports]), filled=filled)
    probe.slots = probe.most_slots = 1
    answer = MixAnswer(1, 1, (Fraction(1), Fraction(1)), Fraction(1), confirmed=True)
    for each in (one, other):
        probe.take(each.ports, Asked(Question(variant, variant, len(each.ports), (40, 60)), answer))
    assert probe.bounds[one.ports] == UopBounds(*bounds)
    # One port stays busy, even so
    assert probe.bounds[other.ports] == UopBounds(1, 1)


def vector_sets(catalogue: Catalogue, blockers: Mapping[str, str]) -> list[TimedSet]:
    """Return sets of vector instructions: each has one, which blocks it in all kinds of code."""
    variants = {ports: catalogue.by_string(name) for ports, name in blockers.items()}
    return [
        TimedSet(frozenset(ports), (one.string,), dict.fromkeys(CodeKind, one), frozenset({"VEC"}))
        for ports, one in variants.items()
    ]


@pytest.mark.parametrize(
    ("extra_slots", "stated"),
    [
        ((1, 1, 1, 1, 1, 1, 1, 1), "2*r05"),
        # Two slots, seen with noise: their µops are no halves of one
        ((0, 0, 1, 1, 1, 2, 2, 3), None),
    ],
)
def test_halves_are_concluded_only_if_the_slots_are_sure(
    catalogue: Catalogue, extra_slots: tuple[int, ...], stated: str | None
) -> None:
    blockers = {"015": "VPADDD (YMM, YMM, YMM)", "05": "VPADDD (ZMM, ZMM, ZMM)", "01": "VPAVGB (YMM, YMM, YMM)"}
    sets = tuple(vector_sets(catalogue, blockers))
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), sets)
    variant = catalogue.by_string("VCVTUQQ2PS (YMM, K, ZMM)")
    filled = [(60 + number, Fraction(60 + number + extra, 6)) for number, extra in enumerate(extra_slots)]
    probe = TimedProbe(machine, variant, Fraction(1), components(one.ports for one in sets), filled=filled)
    probe.slots = probe.most_slots = 1
    # Of the smaller set only bounds are known, as of a µop of p0 among noise
    probe.bounds = {frozenset(ports): UopBounds(2, 2) for ports in ("015", "05")}
    probe.bounds[frozenset("01")] = UopBounds(0, 1)
    found = conclude(probe)
    assert (str(found.usage) if found.usage is not None else None) == stated


@pytest.mark.parametrize(
    ("subject", "stated"),
    [
        ("KADDQ (K, K, K)", "2*r23"),
        ("KADDB (K, K, K)", None),
        ("VFPCLASSPS (K, M128, I8)", None),
        ("VDIVSD (XMM, XMM, XMM)", None),
    ],
)
def test_only_masks_of_64_bits_have_halves_as_vectors_of_512_do(
    catalogue: Catalogue, subject: str, stated: str | None
) -> None:
    """As on a Zen 4: the one slot seems to hold two µops. Others, such as divisions, keep ports busy for longer."""
    blockers = {"0123": "VANDNPD (XMM, XMM, XMM)", "23": "VADDPS (XMM, XMM, XMM)", "01": "VMULPS (XMM, XMM, XMM)"}
    sets = tuple(replace(one, files=frozenset({"VEC", "K"})) for one in vector_sets(catalogue, blockers))
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), sets)
    variant = catalogue.by_string(subject)
    filled = [(60 + number, Fraction(61 + number, 6)) for number in range(8)]
    probe = TimedProbe(machine, variant, Fraction(1), components(one.ports for one in sets), filled=filled)
    probe.slots = probe.most_slots = 1
    for ports, count in (("0123", 2), ("23", 2), ("01", 0)):
        values = (count + Fraction(3, 100), count + Fraction(1, 100))
        answer = MixAnswer(count, count, values, Fraction(count), confirmed=True)
        probe.take(frozenset(ports), Asked(Question(variant, variant, len(ports), (16, 32)), answer))
    found = conclude(probe)
    assert (str(found.usage) if found.usage is not None else None) == stated


@pytest.mark.parametrize(
    ("truth", "cycles", "wanted"),
    [
        # LLVM's model of ADL-P has the first one. Nothing has p05 alone, and both take 2/3 of a cycle
        ("1*p015+1*p05", Fraction(2, 3), ["2*r015", "1*r015+1*r05", "2*r05"]),
        ("2*p015", Fraction(2, 3), None),
        ("2*p05", Fraction(1), ["2*r015", "1*r015+1*r05", "2*r05"]),
        ("1*p05", Fraction(1, 2), ["1*r015", "1*r05"]),
        # Three per cycle need all three ports
        ("1*p015", Fraction(1, 3), None),
    ],
)
def test_some_uops_of_a_set_may_have_the_union_of_two_smaller_ones(
    catalogue: Catalogue, truth: str, cycles: Fraction, wanted: list[str] | None
) -> None:
    blockers = {"0": "VCOMISS (XMM, XMM)", "5": "VEXTRACTF128 (XMM, YMM, I8)", "015": "VANDPS (XMM, XMM, XMM)"}
    sets = vector_sets(catalogue, blockers)
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), tuple(sets))
    subject = catalogue.by_string("MOVDQ2Q (MM, XMM)")
    usages = {name.split()[0]: PortUsage.parse(f"1*p{ports}") for ports, name in blockers.items()}
    usages["MOVDQ2Q"] = PortUsage.parse(truth)

    def answer(request: Request) -> Measured:
        all_uops = PortUsage({})
        for line in request.benchmark.body:
            all_uops = joined(all_uops, usages[line.text.split()[0]])
        return Measured(request, Status.OK, {"core_cycles": throughput_of(all_uops)}, {}, None)

    probe = TimedProbe(machine, subject, cycles, components(one.ports for one in sets))
    usage = PortUsage({frozenset({"r0", "r1", "r5"}): PortUsage.parse(truth).total})
    found = PortConclusion(usage, None, (), ())
    after = driven(told_of_unions(probe, MixFactory(InstructionFactory(catalogue)), found), answer)
    assert isinstance(after, PortConclusion)
    named_ones = [str(one) for one in after.failure.usages] if isinstance(after.failure, Indistinguishable) else None
    assert named_ones == wanted


@pytest.mark.parametrize(("truth", "stated"), [("1*p0", "1*r0"), ("1*p1", None)])
def test_a_port_that_only_the_diagram_shows_is_asked_about(
    catalogue: Catalogue, truth: str, stated: str | None
) -> None:
    """p012 and p013 have two ports in common, but are drawn with one, p0, which has instructions of its own."""
    blockers = {"0": "VCOMISS (XMM, XMM)", "012": "VANDPS (XMM, XMM, XMM)", "034": "VPADDD (XMM, XMM, XMM)"}
    sets = vector_sets(catalogue, blockers)
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), tuple(sets), blockable=frozenset({"VEC"}))
    usages = {
        "VCOMISS": PortUsage.parse("1*p0"),
        "VANDPS": PortUsage.parse("1*p012"),
        "VPADDD": PortUsage.parse("1*p013"),
        "VSQRTPS": PortUsage.parse(truth),
    }

    def answer(request: Request) -> Measured:
        all_uops = PortUsage({})
        for line in request.benchmark.body:
            all_uops = joined(all_uops, usages.get(line.text.split()[0], PortUsage({})))
        cycles = max(throughput_of(all_uops), Fraction(len(request.benchmark.body), machine.width))
        return Measured(request, Status.OK, {"core_cycles": cycles / request.benchmark.divisor}, {}, None)

    mixes = MixFactory(InstructionFactory(catalogue))
    found = driven(infer_by_time(machine, mixes, catalogue.by_string("VSQRTPS (XMM, XMM)"), Fraction(1)), answer)
    assert isinstance(found, PortConclusion)
    assert found.usage == (None if stated is None else PortUsage.parse(stated))


def test_each_usage_that_answers_lead_to_has_its_sets_asked(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is concluded changes with the answers, and the last usage is asked about as the first was."""
    blockers = {"0": "VCOMISS (XMM, XMM)", "1": "VANDPS (XMM, XMM, XMM)", "2": "VPADDD (XMM, XMM, XMM)"}
    sets = vector_sets(catalogue, blockers)
    machine = TimedMachine(6, SlotFiller("NOP"), Fraction(1, 100), tuple(sets), blockable=frozenset({"VEC"}))
    asked: list[frozenset[PortSet]] = []

    def concluded(probe: TimedProbe) -> PortConclusion:
        asked.append(frozenset(probe.asked))
        return PortConclusion(PortUsage.parse(f"1*r{min(len(asked) - 1, 2)}"), None)

    def answer(request: Request) -> Measured:
        cycles = Fraction(len(request.benchmark.body), machine.width)
        return Measured(request, Status.OK, {"core_cycles": cycles / request.benchmark.divisor}, {}, None)

    monkeypatch.setattr("inference.ports.by_time.infer._next", lambda *_: None)
    monkeypatch.setattr("inference.ports.by_time.infer._ask_largest", lambda *_: iter(()))
    monkeypatch.setattr("inference.ports.by_time.infer.conclude", concluded)
    mixes = MixFactory(InstructionFactory(catalogue))
    driven(infer_by_time(machine, mixes, catalogue.by_string("VSQRTPS (XMM, XMM)"), Fraction(1)), answer)
    assert [len(one) for one in asked] == [0, 1, 2, 3]


def test_hidden_counters_leave_nothing_but_time(catalogue: Catalogue) -> None:
    info = SimBackend(open_machine("HSW"), catalogue, hide_counters=True).info()
    assert info.counters == ("core_cycles",)
    assert not info.ports


def test_ports_get_published_names_where_facts_fit() -> None:
    members = {
        frozenset("34"): ("VPABSB (XMM, XMM)",),
        frozenset("45"): ("VPSHUFB (XMM, XMM, XMM)",),
        frozenset("56"): ("VPSLLD (XMM, XMM, I8)",),
    }
    assert published_names("ZEN4", members) == {"3": "FP0", "4": "FP1", "5": "FP2", "6": "FP3"}
    assert published_names("HSW", members) == {}
    intel = {frozenset("0"): ("IMUL (R64, R64)",), frozenset("01"): ("VPSHUFB (XMM, XMM, XMM)",)}
    intel |= {frozenset("23"): ("SARX (R64, R64, R64)",), frozenset("02"): ("VMULPS (XMM, XMM, XMM)",)}
    assert published_names("ICX", intel) == {"0": "1", "1": "5", "2": "0", "3": "6"}
    wrong = {frozenset("34"): ("VPABSB (XMM, XMM)",), frozenset("56"): ("VPSHUFB (XMM, XMM, XMM)",)}
    assert published_names("ZEN4", wrong) == {}


def test_ports_that_facts_do_not_tell_apart_get_no_published_names() -> None:
    """`SARX` says that two ports are p06. Which is p0 is not known, as long as some set has only one of them."""
    both = {frozenset("13"): ("SARX (R64, R64, R64)",), frozenset("67"): ("MOV (R64, M64)",)}
    one = {frozenset("3"): ("KMOVD (K, K)",)}
    assert published_names("ICX", both) == {"1": "0", "3": "6", "6": "2", "7": "3"}
    assert published_names("ICX", both | one) == {"6": "2", "7": "3"}


def test_sets_with_common_ports_get_published_names_together() -> None:
    """No set has a published name for one port and none for another."""
    known = {frozenset("0"): ("IMUL (R64, R64)",), frozenset("67"): ("MOV (R64, M64)",)}
    assert published_names("ICX", known) == {"0": "1", "6": "2", "7": "3"}
    larger = {frozenset("03"): ("VCMPPS (XMM, XMM, XMM, I8)",)}
    assert published_names("ICX", known | larger) == {"6": "2", "7": "3"}


def group(catalogue: Catalogue, size: int, *names: str) -> MemberClass:
    return MemberClass([Member(catalogue.by_string(name), size, Fraction(1), Fraction(1, size)) for name in names])


def test_what_needs_memory_has_a_uop_besides(catalogue: Catalogue) -> None:
    mixed = group(catalogue, 2, "VMOVD (R32, XMM)", "VMOVAPS (M128, XMM)").without_other_uops()
    assert [one.variant.string for one in mixed.members] == ["VMOVD (R32, XMM)"]
    loads = group(catalogue, 2, "MOV (R64, M64)", "VMOVAPS (XMM, M128)").without_other_uops()
    assert len(loads.members) == 2


def test_what_belongs_to_two_domains_may_need_both(catalogue: Catalogue) -> None:
    alus = group(catalogue, 6, "POPCNT (R64, R64)")
    loads = group(catalogue, 4, "MOV (R64, M64)")
    stores = group(catalogue, 2, "MOV (M64, R64)")
    moves = group(catalogue, 2, "VMOVD (R32, XMM)", "VPTEST (XMM, XMM)")
    shuffles = group(catalogue, 1, "VMOVD (R32, XMM)", "VPSHUFB (XMM, XMM, XMM)")
    assert stores.may_need_both(alus)
    assert moves.may_need_both(alus)
    assert not stores.may_need_both(loads)
    assert not group(catalogue, 2, "VMOVAPS (XMM, M128)").may_need_both(loads)
    assert not shuffles.may_need_both(alus)
    assert not group(catalogue, 3, "SHLX (R64, R64, R64)").may_need_both(alus)


class Told(Discovery):
    """Whose answers are told by a table of sets; `disturbed` pairs of subject and blocker get no answer."""

    sets: dict[str, str]
    disturbed: set[tuple[str, str]]
    delayed: frozenset[str] = frozenset()

    def answers(self, pairs: Sequence[tuple[Member, Member]], _more_cycles: int = 0) -> Procedure[list[Asked]]:
        yield from ()
        found = []
        for subject, blocker in pairs:
            one, other = subject.variant.string, blocker.variant.string
            uops = int(set(self.sets[one]) <= set(self.sets[other]))
            question = Question(subject.variant, blocker.variant, blocker.size, (4, 6), subject.chain)
            answer = None if (one, other) in self.disturbed else MixAnswer(uops, uops, (Fraction(uops),) * 2)
            if one != other and (one in self.delayed) != (other in self.delayed) and len(self.sets[one]) > 1:
                answer = MixAnswer(None, 1, (Fraction(2), Fraction(2)), Fraction(17, 10))
            found.append(Asked(question, answer))
        return found


def test_of_two_sets_that_cannot_be_compared_the_larger_class_stays(catalogue: Catalogue) -> None:
    shifts = [f"{name} (R64, R64, R64)" for name in ("SHLX", "SHRX", "SARX", "BZHI", "BEXTR")] + ["RORX (R64, R64, I8)"]
    told = Told(MixFactory(InstructionFactory(catalogue)), "", 8)
    told.sets = dict.fromkeys((*shifts, "PDEP (R64, R64, R64)", "PEXT (R64, R64, R64)"), "012")
    told.disturbed = set()
    told.delayed = frozenset({"PDEP (R64, R64, R64)", "PEXT (R64, R64, R64)"})
    members = [Member(catalogue.by_string(name), 3, Fraction(1), Fraction(1, 3)) for name in told.sets]
    with pytest.raises(StopIteration) as ended:
        next(told.classes_of(members))
    (kept,) = ended.value.value
    assert sorted(one.variant.string for one in kept.members) == sorted(shifts)


@pytest.mark.parametrize("is_disturbed", [False, True])
def test_one_disturbed_answer_makes_no_class_of_its_own(catalogue: Catalogue, is_disturbed: bool) -> None:
    sets = {"PDEP (R64, R64, R64)": "1", "POPCNT (R64, R64)": "1", "CRC32 (R64, R64)": "1", "IMUL (R64, R64)": "1"}
    sets |= {"VPMOVMSKB (R32, XMM)": "0", "KMOVD (R32, K)": "0"}
    told = Told(MixFactory(InstructionFactory(catalogue)))
    told.sets = sets
    told.disturbed = {("IMUL (R64, R64)", "PDEP (R64, R64, R64)")} if is_disturbed else set()
    members = [Member(catalogue.by_string(name), 1, Fraction(1), Fraction(1)) for name in sets]
    procedure = told.classes_of(members)
    with pytest.raises(StopIteration) as ended:
        next(procedure)
    classes = [sorted(one.variant.string for one in found.members) for found in ended.value.value]
    assert sorted(classes) == sorted(sorted(name for name in sets if sets[name] == port) for port in "01")


ADDERS = {"VADDPS (XMM, XMM, XMM)": "23", "VMINPS (XMM, XMM, XMM)": "23"}
PIPES = {"KMOVW (K, K)": "23", **ADDERS, "VPSHUFB (XMM, XMM, XMM)": "12", "VPACKUSDW (XMM, XMM, XMM)": "12"}


@pytest.mark.parametrize(
    ("delaying", "blocks_23"),
    [
        (set(), "KMOVW (K, K)"),
        ({"KMOVW (K, K)"}, "VADDPS (XMM, XMM, XMM)"),
        ({"KMOVW (K, K)", "VADDPS (XMM, XMM, XMM)"}, "VMINPS (XMM, XMM, XMM)"),
        ({"KMOVW (K, K)", *ADDERS}, "KMOVW (K, K)"),  # all of them do, and one has to be taken
    ],
)
def test_what_keeps_another_sets_instructions_waiting_does_not_block(
    catalogue: Catalogue, delaying: set[str], blocks_23: str
) -> None:
    told = Told(MixFactory(InstructionFactory(catalogue)))
    told.sets, told.disturbed = {**PIPES, "VANDPS (XMM, XMM, XMM)": "0123"}, set()

    def ask(pairs: Sequence[tuple[Member, Member]]) -> Procedure[list[Asked]]:
        found = yield from told.answers(pairs)
        return [
            replace(one, answer=MixAnswer(1, 1, (Fraction(1),) * 2)) if blocker.variant.string in delaying else one
            for one, (_, blocker) in zip(found, pairs, strict=True)
        ]

    classes = [
        group(catalogue, 2, *(name for name in PIPES if PIPES[name] == "23")),
        group(catalogue, 2, *(name for name in PIPES if PIPES[name] == "12")),
        group(catalogue, 4, "VANDPS (XMM, XMM, XMM)"),
    ]
    with pytest.raises(StopIteration) as ended:
        next(proved_blockers(classes, [frozenset("23"), frozenset("12"), frozenset("0123")], ask))
    chosen = [each[CodeKind.WITHOUT_SSE].string for each in ended.value.value]
    assert chosen == [blocks_23, "VPSHUFB (XMM, XMM, XMM)", "VANDPS (XMM, XMM, XMM)"]


def test_what_reads_a_third_register_is_preferred_only_to_memory_and_chains(catalogue: Catalogue) -> None:
    """On Zen 4 the others share the way to it: a merging VANDNPD, which may use four ports, waits for VBLENDVPD."""
    names = ("VBLENDVPD (XMM, XMM, XMM, XMM)", "VPAVGB (XMM, XMM, XMM)", "ADD (R64, 0)", "VPABSB (XMM, M128)")
    members = [Member(catalogue.by_string(name), 2, Fraction(1), Fraction(1, 2)) for name in names]
    ordered = [one.variant.string for one in sorted(members, key=preference)]
    assert ordered == [names[1], names[0], names[2], names[3]]


def test_one_disturbed_time_decides_nothing() -> None:
    times = [(count, Fraction(count + 1, 3)) for count in range(12, 36, 3)]
    disturbed = [(count, cycles + 9 * (count in {15, 27})) for count, cycles in times]
    answers = [judge(one, 3, Fraction(1, 200)) for one in (times, disturbed)]
    assert [one.values for one in answers] == [(Fraction(1), Fraction(1))] * 2
    filled = [(count, Fraction(count + 1, 6)) for count in (30, 42, 31, 33, 35, 37, 39, 41)]
    assert slots_among_filler([*filled[:-1], (41, Fraction(60))], 6, Fraction(1, 200))[0] == 1


def test_many_instances_decide_if_two_mixes_had_no_time_for_a_uop() -> None:
    """Times of VPMINUD (YMM, YMM, M256), which has no µop for an ALU, among ANDNs on a Zen 3."""
    cycles = {16: "4.44", 20: "5.25", 24: "6.01", 28: "7.20", 32: "8.10", 36: "9.47", 40: "10.21", 44: "11.17"}
    times = [(count, Fraction(time)) for count, time in cycles.items()]
    assert_many_decide(judge(times, 4, Fraction(1, 200)))
    once = judge([(count, time if count != 32 else Fraction("8.20")) for count, time in times], 4, Fraction(1, 200))
    assert (once.uops, once.most) == (1, 1)
    one_more = judge([(count + 4, time + 1 + Fraction(1, 4)) for count, time in times], 4, Fraction(1, 200))
    told = one_more.bounded(Fraction(11, 10), Fraction(17, 100))
    assert (told.uops, told.most) == (None, 1)


def test_many_instances_decide_if_the_halves_disagree() -> None:
    """VADDPD (XMM, XMM, M128), which has a µop of them, among VANDNPDs on a busy Zen 3."""
    cycles = {16: "4.09", 20: "5.13", 24: "6.11", 28: "7.25", 32: "8.25", 36: "9.25", 40: "10.26", 44: "11.26"}
    assert_many_decide(judge([(count, Fraction(time)) for count, time in cycles.items()], 4, Fraction(1, 200)))


def test_an_element_that_is_broadcast_is_as_wide_as_the_vector(catalogue: Catalogue) -> None:
    strings = ("VCVTPD2DQ_EVEX (YMM, M64_1to8)", "VCVTPD2DQ_EVEX (XMM, M64_1to4)", "VCVTPD2DQ_EVEX (XMM, M64_1to2)")
    assert [is_wide(catalogue.by_string(one)) for one in strings] == [True, False, False]
