"""Ports by time alone are found again on machines whose counters are hidden, up to the names of ports."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.ports.by_time.diagram import Lying, consistent, diagrams, named, ports_in
from inference.ports.by_time.hypotheses import Bounds, components
from inference.ports.by_time.infer import slots_among_filler
from inference.ports.by_time.mixes import MANY, MOST_BLOCKERS, Answer, Question, judge, strengths
from inference.ports.by_time.published import published_names
from results.model import PortUsage, port_set_name
from results.ports import throughput_of
from runner.backends.sim import SimBackend, open_machine
from runner.verification.by_time import Verdict, run
from simulator.machines.noise import CounterNoise
from xed_convert.catalogue.catalogue import Catalogue

PORTS = "012345"
DUMMY = Catalogue.load().by_string("NOP")
SETS = st.lists(st.sets(st.sampled_from(PORTS), min_size=1).map(frozenset), min_size=1, max_size=6, unique=True)


def lying(sets: list[frozenset[str]]) -> Lying:
    """Return what a perfect experiment says of sets."""
    pairs = list(combinations(range(len(sets)), 2))
    nested = {(i, o): sets[i] < sets[o] for i, o in pairs}
    together = {(i, o): (len(sets[i] | sets[o]),) * 2 for i, o in pairs}
    return Lying(tuple(map(len, sets)), nested, together)


@given(SETS)
@settings(max_examples=60, deadline=None)
def test_diagrams_of_real_sets_agree_with_their_sizes_and_unions(found: list[frozenset[str]]) -> None:
    sets = sorted(found, key=len)
    fitting, against = diagrams(lying(sets))
    assert against == 0
    for cells in fitting:
        drawn = named(cells, len(sets))
        assert [len(one) for one in drawn] == [len(one) for one in sets]
        for (one, other), (mine, yours) in zip(combinations(sets, 2), combinations(drawn, 2), strict=True):
            assert len(one | other) == len(mine | yours)
            assert (one < other) == (mine < yours)


def test_a_diagram_shares_no_port_unless_that_was_seen() -> None:
    (cells,), against = diagrams(Lying((2, 2), {(0, 1): False}, {}))
    assert (ports_in(cells), against) == (4, 0)


def test_a_set_that_contradicts_others_is_left_out() -> None:
    apart = {(0, 1): (3, 3), (0, 2): (3, 3), (1, 2): (4, 4)}
    nested = {(0, 1): True, (0, 2): True, (1, 2): False}
    fitting, against, left_out = consistent(Lying((1, 2, 2), nested, apart))
    assert (left_out, against, [ports_in(cells) for cells in fitting]) == ([0], 0, [4])


@given(st.integers(1, 5), st.integers(0, 3), st.sampled_from([Fraction(0), Fraction(1, 100)]))
def test_times_of_a_set_that_limits_a_mix_give_the_confined_uops(size: int, uops: int, noise: Fraction) -> None:
    counts = strengths(size, 6, max(1, uops), Fraction(1), noise)
    assert judge([(count, Fraction(count + uops, size)) for count in counts], size, noise).uops == uops


def test_strengths_that_disagree_give_no_number() -> None:
    answer = judge([(12, Fraction(13)), (16, Fraction(18))], 1, Fraction(0))
    assert (answer.uops, answer.most) == (None, 1)


def test_many_instances_refute_what_one_seemed_to_wait_for() -> None:
    seems = Answer(1, 1, (Fraction(1), Fraction(1)))
    assert seems.bounded(Fraction(45, 100), Fraction(15, 100)).uops == 0
    assert seems.bounded(Fraction(1), Fraction(15, 100)).confirmed


def test_many_instances_settle_what_one_left_open() -> None:
    left_open = Answer(None, 2, (Fraction(3), Fraction(3))).bounded(Fraction(105, 100), Fraction(15, 100))
    assert (left_open.uops, left_open.most) == (None, 1)
    assert left_open.settled() == Answer(1, 1, left_open.values, left_open.bound, confirmed=True)
    unclear = Answer(None, 2, (Fraction(3), Fraction(3)), Fraction(25, 10))
    assert unclear.settled() == unclear


@given(st.integers(1, 4), st.fractions(Fraction(1, 4), 12), st.integers(1, 12))
def test_more_blocking_instructions_last_longer_than_the_instances(size: int, cycles: Fraction, chain: int) -> None:
    variant = DUMMY
    question = Question(variant, variant, size, (), Fraction(chain), cycles)
    instances, blockers = question.more
    assert 1 <= instances <= MANY
    assert blockers <= MOST_BLOCKERS
    assert blockers >= size * (instances * cycles + chain) or instances == 1


@pytest.mark.parametrize(("extra", "slots"), [(Fraction(263, 100), 2), (Fraction(3), 3), (Fraction(1), 1)])
def test_slots_are_never_more_than_the_time_of_filler_allows(extra: Fraction, slots: int) -> None:
    times = [(count, (count + extra) / 6) for count in (42, 54)]
    assert slots_among_filler(times, 6, Fraction(67, 10_000))[1] == slots


def test_hypotheses_are_all_usages_of_basic_sets_and_intersections_that_agree() -> None:
    (part,) = components([frozenset("01"), frozenset("12")])
    assert set(part.known) == {frozenset("01"), frozenset("12"), frozenset("1")}
    left = part.hypotheses({frozenset("01"): Bounds(1, 1), frozenset("12"): Bounds(1, 1)}, 2)
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
    )
    wanted = set(names)
    variants = [one for one in catalogue if one.string in wanted and machine.behaviour(one) is not None]
    outcome = run(SimBackend(machine, catalogue, hide_counters=True), catalogue, variants)
    assert outcome.names is not None
    assert outcome.verdicts[Verdict.WRONG] == 0, outcome.exceptions
    assert outcome.verdicts[Verdict.RIGHT] >= 4, outcome.exceptions
    # Of four ports as many as are issued per cycle nothing is seen
    assert outcome.verdicts[Verdict.VISIBLE] >= 1


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
    wrong = {frozenset("34"): ("VPABSB (XMM, XMM)",), frozenset("56"): ("VPSHUFB (XMM, XMM, XMM)",)}
    assert published_names("ZEN4", wrong) == {}
