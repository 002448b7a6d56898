"""Latency inference: what is found on a simulated machine is what its model says."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from generator.chains.links import link_named
from generator.chains.plan import plan_latency
from generator.factory import InstructionFactory
from inference.calibration import Calibrations, snapped
from inference.experiment import Measured
from inference.latency.conclusions import conclude
from inference.latency.evidence import Evidence, drift_seen
from inference.latency.infer import LatencyOutcome, infer_latencies
from results.model import Bound, LatencyPart, Status
from results.sentences import heading, lines
from simulator.judging.latency import expected, judge
from simulator.machines.bypass import FLOAT, INTEGER, BypassDelays
from tests.effort import sample
from tests.inference.lab import Lab, compare
from tests.inference.ports.test_by_time import driven
from tests.nonempty import faults, some
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Callable

    from inference.experiment import Request


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def latencies(outcome: LatencyOutcome) -> dict[tuple[int, str, int], tuple[float, Bound]]:
    return {
        (result.source, result.part.value, result.destination): (float(result.cycles), result.bound)
        for result in outcome.latencies
        if not result.same_register
    }


def test_published_examples_with_different_and_with_the_same_register(catalogue: Catalogue) -> None:
    string = "SHLD_IMMB (R64, R64, I8)"
    nehalem, skylake = (Lab(catalogue, name).infer([string])[string] for name in ("NHM", "SKL"))
    assert {key: latencies(nehalem)[key] for key in [(1, "", 1), (2, "", 1)]} == {
        (1, "", 1): (3, Bound.EXACT),
        (2, "", 1): (4, Bound.EXACT),
    }
    same = [result for result in skylake.latencies if result.same_register]
    assert latencies(skylake)[2, "", 1] == (3, Bound.EXACT)
    assert [result.cycles for result in same] == [1]


@pytest.mark.parametrize(
    ("seed", "string"),
    [
        ("32", "POP (M64)"),  # the place that it loads from is where the stack pointer is put back to
        ("163", "MOVUPD_0F11 (XMM, XMM)"),  # two of three moves are eliminated, and the chain consists of those
        ("51", "CMOVBE (R32, R32)"),  # the dependency breakers keep the port of the chain busy for longer than it takes
    ],
)
def test_what_other_causes_than_the_chain_may_have_is_no_latency(catalogue: Catalogue, seed: str, string: str) -> None:
    counts, wrong = compare(Lab(catalogue, seed), [string])
    assert not wrong
    assert counts["bound"]


@pytest.mark.parametrize(
    ("machine", "string"),
    [
        ("hidden:4", "IMUL (R8h)"),  # CF comes half a cycle before OF in one chain: they are not the same
        ("dispatch:2", "SHL (R8l, CL)"),  # breakers delay the chain on its ports, and the same code is faster if cut
        # Nothing depends on the address. Older µops delay the links by the cycle that it would take, on no busy port
        ("dispatch:6", "VFNMADD231PD_EVEX (XMM, XMM, M64_1to2)"),
    ],
)
def test_what_breakers_delay_is_not_stated(catalogue: Catalogue, machine: str, string: str) -> None:
    counts, wrong = compare(Lab(catalogue, machine), [string])
    assert not wrong
    assert counts["right"]


def test_what_fills_the_core_is_not_taken_for_a_chain(catalogue: Catalogue) -> None:
    """CMPSB of LLVM's Broadwell waits for neither address, but takes 100 cycles: links wait until the core is full."""
    lab = Lab(catalogue, "BDW")
    counts, wrong = compare(lab, ["CMPSB"])
    assert not wrong
    assert not counts["right"]
    found = lab.infer(["CMPSB"])["CMPSB"]
    assert {result.bound for result in found.latencies} == {Bound.UPPER}
    texts = {heading(each, catalogue.by_string("CMPSB")): "\n".join(lines(each)) for each in found.derivations}
    assert "chains of different lengths disagree" in texts["latency 1 addr→flags"]


def test_every_upper_bound_is_the_latency_and_that_of_the_links_less_one_each(catalogue: Catalogue) -> None:
    lab = Lab(catalogue, "HSW")
    load = lab.model.truth(catalogue.by_string("MOV (R64, M64)")).latency(2, 1)
    store = lab.model.truth(catalogue.by_string("MOV (M64, R64)")).latency(2, 1)
    strings = ["MOV (M64, R64)", "ADD (M64, R64)", "MOV (R64, M64)", "ADC (R64, M64)"]
    found = lab.infer(strings)
    bounds = [(string, one) for string in strings for one in found[string].latencies if one.bound is Bound.UPPER]
    assert {string for string, _ in bounds} == set(strings)
    for string, result in bounds:
        link = load if "load" in result.chain else store
        variant = catalogue.by_string(string)
        wanted = expected(variant, lab.model.truth(variant), result)
        assert wanted is not None
        assert link is not None
        assert result.cycles == wanted + link - 1


def test_addresses_are_exact_and_base_and_index_are_apart(catalogue: Catalogue) -> None:
    found = latencies(Lab(catalogue, "SKL").infer(["MOV (R64, M64)"])["MOV (R64, M64)"])
    assert found[2, "addr", 1] == found[2, "addr_index", 1] == (5, Bound.EXACT)


def test_throughput_is_not_taken_for_latency(catalogue: Catalogue) -> None:
    """A slow divider, with the same time between two divisions as for one of them."""
    lab = Lab(catalogue, "SKL")
    for string in ("DIV (R32)", "DIV (R64)"):
        truth = lab.model.truth(catalogue.by_string(string))
        for result in some(lab.infer([string])[string].latencies):
            assert judge(catalogue.by_string(string), truth, result) in {"right", "bound"}, result


def test_what_is_inferred_is_the_same_every_time(catalogue: Catalogue) -> None:
    strings = ["ADC_13 (R64, R64)", "XADD (R32, R32)", "MOV (R64, M64)"]
    assert Lab(catalogue, "HSW").infer(strings) == Lab(catalogue, "HSW").infer(reversed(strings))


def test_results_explain_themselves(catalogue: Catalogue) -> None:
    outcome = Lab(catalogue, "HSW").infer(["ADC_13 (R64, R64)"])["ADC_13 (R64, R64)"]
    texts = {heading(each, None): "\n".join(lines(each)) for each in outcome.derivations}
    assert "3.00 cycles of the chain - 1.00 of movsxd = 2.00" in texts["latency 2→1"]
    assert all(result.experiments for result in outcome.latencies)


def test_links_are_calibrated_once_and_exactly(catalogue: Catalogue) -> None:
    lab = Lab(catalogue, "HSW")
    lab.infer(["ADC_13 (R64, R64)"])
    before = dict(lab.calibrations.times)
    assert before["movsxd"].latency == before["setb"].latency == before["test64"].latency == 1
    assert all(time.exact for time in before.values())
    lab.infer(["SBB_1B (R64, R64)"])
    assert {name: lab.calibrations.times[name] for name in before} == before


def test_noise_of_links_does_not_add_up() -> None:
    assert snapped(Fraction(102, 100)) == 1
    assert snapped(Fraction(125, 100)) == Fraction(5, 4)
    assert snapped(Fraction(1, 100)) == Fraction(1, 100)


def test_a_part_of_base_is_as_the_model_says(catalogue: Catalogue) -> None:
    lab = Lab(catalogue, "HSW")
    counts, wrong = compare(lab, lab.variants(23))
    assert not wrong
    assert counts["right"] > 2 * counts["bound"]


@pytest.mark.parametrize("seed", [1, 3, 8])
def test_machines_that_nobody_knows_are_found_out(catalogue: Catalogue, seed: int) -> None:
    lab = Lab(catalogue, str(seed))
    everything = frozenset(variant.extension for variant in catalogue)
    counts, wrong = compare(lab, lab.variants(199, everything))
    assert not wrong
    assert counts["port contention"] <= counts["right"] // 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "step"),
    [("HSW", sample(3, 1)), ("SNB", sample(10, 4)), ("SKL", sample(10, 4)), ("ICX", sample(10, 4))],
)
def test_all_of_base_is_as_the_model_says(catalogue: Catalogue, name: str, step: int) -> None:
    """Every third variant on one machine, every tenth on the others; `benchmarks.accuracy.truth` does all."""
    lab = Lab(catalogue, name)
    counts, wrong = compare(lab, lab.variants(step))
    assert not wrong
    assert counts["port contention"] <= counts["right"] // 50


def test_every_link_but_the_crossing_ones_can_be_calibrated(catalogue: Catalogue) -> None:
    lab = Lab(catalogue, "SKX")
    names = ["movsx8h", "mov8h", "mov8h8h", "restore", "xor2", "cmc", "test16", "vpor512", "kmovq", "por_mm", "fchs"]
    lab.session.run_one(lab.calibrations.need(names))
    for name in names:
        time = lab.calibrations.times[name]
        assert time.ok, name
        assert time.exact, name
        assert time.latency >= time.throughput, name
        assert not link_named(name).cross_domain


def inferred(catalogue: Catalogue, string: str, answer: Callable[[Request], Measured]) -> LatencyOutcome:
    instructions = InstructionFactory(catalogue)
    plan = plan_latency(instructions, catalogue.by_string(string))
    outcome = driven(infer_latencies(plan, Calibrations(instructions)), answer)
    assert isinstance(outcome, LatencyOutcome)
    return outcome


def answered(request: Request) -> Measured:
    """Say what Zen 4 does: merging into a register that has long been ready delays a masked instruction."""
    benchmark = request.benchmark
    cycles = Fraction(len(benchmark.body))
    if benchmark.purpose.startswith("throughput"):
        cycles = Fraction(len(benchmark.body), 4)
    elif "4 → 1" in benchmark.purpose and "swapped" not in benchmark.purpose:
        cycles = Fraction(len(benchmark.body) - 1) + Fraction(86, 100)
    return Measured(request, Status.OK, {"core_cycles": cycles}, {"core_cycles": Fraction(0)})


def test_a_fractional_latency_is_compared_with_that_of_swapped_operands(catalogue: Catalogue) -> None:
    outcome = inferred(catalogue, "VANDPS (XMM, K, XMM, XMM)", answered)
    (found,) = [one for one in outcome.latencies if (one.source, one.destination, one.same_register) == (4, 1, False)]
    assert (float(found.cycles), found.bound, found.chain) == (1, Bound.UPPER, "itself swapped")
    text = next("\n".join(lines(one)) for one in outcome.derivations if one.latency == found.key)
    assert "2.00 cycles of the chain / 2 = 1.00 (upper bound)" in text


def slow_behind_links(request: Request) -> Measured:
    """Say what Zen 4 does: a move of a mask takes twice as long if it waits for all 64 bits of a shift."""
    benchmark = request.benchmark
    cycles = Fraction(4) if "through kmov" in benchmark.purpose else Fraction(2 * len(benchmark.body))
    cycles = Fraction(1) if benchmark.purpose.startswith("latency of the chain") else cycles
    return Measured(request, Status.OK, {"core_cycles": cycles}, {"core_cycles": Fraction(0)})


def test_a_chain_without_links_tells_more_where_throughput_may_limit_that_with_links(catalogue: Catalogue) -> None:
    outcome = inferred(catalogue, "KSHIFTRQ (K, K, I8)", slow_behind_links)
    (found,) = [one for one in outcome.latencies if not one.same_register]
    assert (float(found.cycles), found.bound, found.chain) == (2, Bound.UPPER, "itself swapped")


def late_if_stored_early(request: Request) -> Measured:
    """Say what a Cascade Lake does: a stored value comes two cycles later if the load asks too soon."""
    benchmark = request.benchmark
    cycles = Fraction(len(benchmark.body), 4 if benchmark.purpose.startswith("throughput") else 1)
    if "2_mem → 1" in benchmark.purpose:
        links = sum(line.text.startswith("MOVSXD") for line in benchmark.body)
        cycles = Fraction(links + 5 if links else 7)
    return Measured(request, Status.OK, {"core_cycles": cycles}, {"core_cycles": Fraction(0)})


def test_a_stored_value_is_measured_by_a_longer_chain_although_the_time_of_the_short_one_is_whole(
    catalogue: Catalogue,
) -> None:
    outcome = inferred(catalogue, "MOV (R64, M64)", late_if_stored_early)
    (found,) = [one for one in outcome.latencies if one.part is LatencyPart.MEMORY]
    assert (float(found.cycles), found.bound, found.chain) == (4, Bound.UPPER, "store64")


FORWARDED = BypassDelays(tuple(("adder", other, 1) for other in (INTEGER, FLOAT)), (("VADDPD", "adder"),))
"""On a Zen 5, an addition has its result a cycle sooner for another addition than for everything else."""


def test_links_that_all_add_a_bypass_delay_are_found_out_by_a_chain_without_links(catalogue: Catalogue) -> None:
    string = "VADDPD (XMM, XMM, XMM)"
    plain, late = (Lab(catalogue, "HSW", bypass=bypass).infer([string])[string] for bypass in (None, FORWARDED))
    found = {(one.source, one.destination): one for one in late.latencies if not one.same_register}
    assert {pair: (one.cycles, one.bound) for pair, one in found.items()} == {
        (one.source, one.destination): (one.cycles, one.bound) for one in plain.latencies if not one.same_register
    }
    assert {one.chain for one in found.values()} == {"itself swapped"}


def test_what_breakers_may_have_delayed_is_a_bound(catalogue: Catalogue) -> None:
    """The breaker of each copy goes to the only port of CMOVP, and delays the chain by a cycle at any length."""
    string = "CMOVP (R16, R16)"
    lab = Lab(catalogue, "dispatch:8231")
    (found,) = (
        one
        for one in lab.infer([string])[string].latencies
        if (one.source, one.destination, one.same_register) == (2, 1, False)
    )
    assert found.bound is Bound.UPPER
    assert found.cycles >= 1


@pytest.mark.parametrize(
    ("name", "bound", "text"),
    [("SKX", Bound.UPPER, "at least 1.00 of vmovq_r64_xmm"), ("HSW", Bound.EXACT, "- 1.00 of")],
)
def test_between_files_a_way_of_one_cycle_per_link_makes_it_exact(
    catalogue: Catalogue, name: str, bound: Bound, text: str
) -> None:
    """VMOVQ takes 1 cycle each way on the model of Haswell, 1 and 2 on that of Skylake."""
    (outcome,) = Lab(catalogue, name).infer(["VMOVQ (XMM, R64)"]).values()
    (latency,) = outcome.latencies
    assert latency.bound is bound
    assert text in "\n".join(lines(outcome.derivations[0]))


LATE_CARRY = {"TEST (R64, R64)": "p0156 1 <* >PF >ZF >SF >OF; - 1 <u1 >CF"}
"""A machine on which TEST writes CF a cycle after the other flags."""

LATE_FIRST_OPERAND = {"ORPS (XMM, XMM)": "- 1 <1; p015 2 <u1 <2 >1"}
"""A machine on which ORPS takes three cycles from its first operand and two from its second."""


@pytest.mark.parametrize("string", ["ADC_11 (R64, R64)", "ADC_13 (R64, R64)", "SBB_1B (R64, R64)", "ADD_01 (R64, R64)"])
def test_links_that_differ_by_flag_make_no_latency_wrong(catalogue: Catalogue, string: str) -> None:
    """The chain of SETB and TEST takes a cycle more than its links; either may be to blame, so bounds are stated."""
    lab = Lab(catalogue, "SKL", LATE_CARRY)
    counts, wrong = compare(lab, [string])
    assert not wrong
    assert counts["right"]
    carries = [
        one for one in lab.infer([string])[string].latencies if one.destination_flag == "CF" and not one.same_register
    ]
    assert {one.bound for one in carries} == {Bound.UPPER}


@pytest.mark.parametrize("string", ["ADDPS (XMM, XMM)", "MULPS (XMM, XMM)", "PADDD (XMM, XMM)"])
def test_links_that_differ_by_operand_make_no_latency_wrong(catalogue: Catalogue, string: str) -> None:
    lab = Lab(catalogue, "SKL", LATE_FIRST_OPERAND)
    counts, wrong = compare(lab, [string])
    assert not wrong
    assert counts["right"]
    variant = catalogue.by_string(string)
    (found,) = [one for one in lab.infer([string])[string].latencies if one.source == 2 and not one.same_register]
    assert (found.cycles, found.bound) == (lab.model.truth(variant).latency(2, 1), Bound.EXACT)


@pytest.mark.parametrize(
    ("cycles", "latency", "spread", "stated"),
    [
        ("16.55", "0.55", "0", "0.4965"),  # 16 links of a clock that is 3% fast or slow: 0 or 1 cycles may be true
        ("16.55", "0.55", "0.6", "0.6"),
        ("2.55", "1.55", "0", "0.051"),  # too much for a drift: one of two cycles in turns
        ("35", "2", "0", "0.7"),  # a clock that is 2 % fast made a whole number of 34 cycles
    ],
)
def test_what_a_drifting_clock_may_have_made_is_within_the_spread(
    catalogue: Catalogue, cycles: str, latency: str, spread: str, stated: str
) -> None:
    lab = Lab(catalogue, "SKL")
    pair = next(
        one for one in plan_latency(lab.instructions, catalogue.by_string("SUB_29 (R64, R64)")).pairs if one.routes
    )
    found = Evidence(
        pair,
        pair.chain(pair.routes[0]),
        Fraction(cycles),
        Fraction(latency),
        limited=False,
        exact=True,
        independent=False,
        spread=Fraction(spread),
        experiment="1",
    )
    lab.session.run_one(lab.calibrations.need(found.chain.links))
    result, _ = conclude(pair, [found], lab.calibrations.times, Fraction(2, 100), Fraction(2, 100))
    assert result is not None
    assert (result.cycles, result.spread) == (Fraction(latency), Fraction(stated))


def test_a_bound_is_no_lower_than_a_clock_that_is_off_allows(catalogue: Catalogue) -> None:
    """Long chains of one latency of 2 cycles, each with an error of its own: the least of them is too low."""
    lab = Lab(catalogue, "SKL")
    pair = next(
        one for one in plan_latency(lab.instructions, catalogue.by_string("SUB_29 (R64, R64)")).pairs if one.routes
    )
    chain = pair.chain(pair.routes[0])
    lab.session.run_one(lab.calibrations.need(chain.links))
    found = [
        Evidence(
            pair,
            chain,
            Fraction(cycles),
            Fraction(latency),
            limited=False,
            exact=True,
            independent=False,
            spread=Fraction(0),
            experiment=cycles,
        )
        for cycles, latency in (("27.45", "2.45"), ("32.31", "1.31"), ("43.60", "2.60"), ("46.25", "1.25"))
    ]
    result, _ = conclude(pair, found, lab.calibrations.times, Fraction(1, 100), Fraction(24, 1000))
    assert result is not None
    assert (result.bound, result.cycles >= 2) == (Bound.UPPER, True)


@pytest.mark.parametrize(
    ("cycles", "drift"),
    [
        (["2.04", "3.03"], "0.02"),
        (["2", "3"], "0"),
        (["1.5", "3.03"], "0.01"),  # half a cycle is no drift
        (["35", "1.5"], "0.03"),  # a long chain does not tell, so links do
        ([], "0.03"),
    ],
)
def test_short_chains_tell_how_far_the_clock_is_off(catalogue: Catalogue, cycles: list[str], drift: str) -> None:
    lab = Lab(catalogue, "SKL")
    pair = next(
        one for one in plan_latency(lab.instructions, catalogue.by_string("SUB_29 (R64, R64)")).pairs if one.routes
    )
    chain = pair.chain(pair.routes[0])
    evidence = [
        Evidence(pair, chain, Fraction(one), Fraction(one) - 1, False, True, False, Fraction(0), "1") for one in cycles
    ]
    assert float(drift_seen(evidence, Fraction(3, 100))) == pytest.approx(float(drift), rel=0.03)


@pytest.mark.parametrize("half", [Fraction(1, 4), Fraction(1, 2), Fraction(1)])
def test_noise_makes_no_upper_bound_too_low(
    catalogue: Catalogue, half: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every sample is off by up to 1 %; whatever difference counts as half a cycle, no bound is below the latency."""
    monkeypatch.setattr("inference.latency.evidence.HALF", half)
    monkeypatch.setattr("inference.latency.infer.HALF", half)
    lab = Lab(catalogue, "sample1:1")
    variants = [f"VSQRTPD ({operands})" for operands in ("XMM, M128", "XMM, XMM", "YMM, M256", "YMM, YMM")]
    _, wrong = compare(lab, variants)
    assert [text for text in faults(wrong) if "bound too low" in text] == []


@pytest.mark.parametrize(
    ("machine", "name"), [("job2:2", "VFMADD213PS"), ("outliers:3", "ADC_12"), ("drift:2", "VFMADD213PS")]
)
def test_the_luckiest_mistake_of_a_long_chain_does_not_count(catalogue: Catalogue, machine: str, name: str) -> None:
    lab = Lab(catalogue, machine)
    named = {one.string: one for one in catalogue if one.string.startswith(f"{name} ")}
    variants = {string: one for string, one in named.items() if lab.model.behaviour(one) is not None}
    share = lab.model.parameters.noise.hidden_share
    verdicts = Counter(
        judge(variants[string], lab.model.truth(variants[string]), result, share)
        for string, outcome in lab.infer(variants).items()
        for result in outcome.latencies
        if not result.same_register
    )
    assert not set(verdicts) & {"wrong", "bound too low"}
    assert verdicts["right"]


def test_what_samples_far_apart_say_is_measured_again_and_not_called_exact(catalogue: Catalogue) -> None:
    """Of a few samples more than half may be outliers: 13.13 cycles instead of 10, with half a spread of 4."""
    counts, wrong = compare(Lab(catalogue, "outliers:3001"), ["CMOVL (R16, M16)"])
    assert not wrong
    assert counts["right"] >= 2
