"""Plans: every variant is accounted for, and what a sample took is carried over to all."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from runner.campaigns import plan
from runner.cli.support.output import plan_lines
from runner.measuring.protocol import Measurer
from tests.runner.cli.commands import ADC, SIMULATED, called, need_catalogue
from tests.runner.small_campaigns import PROVENANCE, FakeMethod, SmallBackend, variants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.experiment import Measured, Request

VARIANTS = 200


def test_every_variant_is_there_left_out_or_possible() -> None:
    there = {variant.key for variant in variants(VARIANTS)[:50]}
    made = plan.make_plan(variants(VARIANTS), there, FakeMethod(), Measurer(SmallBackend()))
    assert (made.total, made.there, made.possible) == (200, 50, 135)
    assert made.reasons == {"every tenth is": 15}


def test_a_sample_that_is_everything_gives_exact_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "FIRST_SECONDS", 1e6)
    made = plan.make_plan(variants(VARIANTS), set(), FakeMethod(), Measurer(SmallBackend()))
    assert made.sampled == made.possible == 180
    measured = made.preparation.microbenchmarks + made.first.microbenchmarks
    assert made.expected_microbenchmarks == measured > 2 * 180
    assert made.expected_seconds() == pytest.approx(made.preparation.seconds + made.first.seconds)
    assert made.expected_by_time() is None


def test_time_that_was_lost_to_others_is_no_time_of_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "FIRST_SECONDS", 1e6)
    monkeypatch.setattr(plan, "LIMIT_SECONDS", 1e6)

    class Disturbed(Measurer):
        seconds = 0.0

        @property
        def lost_seconds(self) -> float:
            return self.seconds

        def measure(self, requests: Sequence[Request]) -> list[Measured]:
            self.seconds += 100.0
            return super().measure(requests)

    measurer = Disturbed(SmallBackend())
    made = plan.make_plan(variants(20), set(), FakeMethod(), measurer, clock=lambda: 1.01 * measurer.seconds)
    assert made.lost_seconds == measurer.seconds > 0
    assert made.expected_seconds() == pytest.approx(0.01 * measurer.seconds)


def test_without_time_for_a_sample_nothing_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "LIMIT_SECONDS", -1.0)
    made = plan.make_plan(variants(VARIANTS), set(), FakeMethod(), Measurer(SmallBackend()))
    assert made.expected_microbenchmarks is None
    assert made.expected_seconds() is None
    assert list(plan_lines(made, PROVENANCE, 1))[-1].startswith("how long it takes is not known")


def sampled(not_sampled: plan.NotSampled) -> plan.Plan:
    """Return a plan for 1010 variants, of which the first ten took a second each, and five others half of one."""
    return plan.Plan(
        1010,
        0,
        1010,
        not_sampled=not_sampled,
        preparation=plan.SamplePart(0, 20, 3.0),
        first=plan.SamplePart(10, 400, 10.0),
        rest=plan.SamplePart(5, 100, 2.5),
    )


def test_what_variants_share_counts_once() -> None:
    made = sampled(plan.NotSampled())
    assert made.expected_seconds() == 3 + 10 + 1000 * 0.5
    assert made.expected_microbenchmarks == 20 + 400 + 1000 * 20
    assert made.expected_seconds(2) == 3 + (10 + 1000 * 0.5) / 2
    assert sampled(plan.NotSampled(thorough=True)).expected_seconds() == 8 * 3 + 10 + 1000 * 0.5


@pytest.mark.parametrize("thorough", [False, True])
def test_ports_by_time_add_a_search_and_microbenchmarks_for_each_variant(*, thorough: bool) -> None:
    made = sampled(plan.NotSampled(thorough=thorough, by_time=True))
    seconds, by_time = made.expected_seconds(), made.expected_by_time()
    assert seconds is not None
    assert by_time is not None
    each = 15.5 / 520
    factors = zip(
        plan.BY_TIME_SECONDS, plan.BY_TIME_MICROBENCHMARKS, plan.SEARCH_MICROBENCHMARKS[thorough], strict=True
    )
    expected = [slower * (more * seconds + each * count) for slower, more, count in factors]
    assert list(by_time) == pytest.approx(expected)
    without, with_ports, noisy = list(plan_lines(made, PROVENANCE, 1))[-3:]
    assert " without ports (from 15 variants that took 12 s)" in without
    assert with_ports.startswith("with ports by time ")
    made.lost_seconds = 4
    assert "other users of the core cost 4.00 s more" in list(plan_lines(made, PROVENANCE, 1))[-3]
    assert "Zen 4" in with_ports
    assert noisy == "if times are off by more than 4%, ports take about 5 times as long: each code has 5 orders"


def test_a_plan_with_ports_by_time_tells_a_time_within_seconds(capfd: pytest.CaptureFixture[str]) -> None:
    need_catalogue()
    arguments = ["--instr", ADC, *SIMULATED, "--hide-counters", "--ports-by-time", "--plan"]
    assert called(arguments) == 0
    without, with_ports, _ = capfd.readouterr().out.splitlines()[-3:]
    assert re.fullmatch(r"about \d+ microbenchmarks, .* without ports \(from 1 variants that took .*\)", without)
    assert re.fullmatch(r"with ports by time .* s to .* \(by what they added on .*\)", with_ports)


def test_any_first_part_of_the_sample_is_spread_evenly() -> None:
    numbers = [int(each.iform[1:]) for each in plan._even_sample(variants(1000))]
    assert sorted(numbers) == list(range(1000))
    first = sorted(numbers[:100])
    assert max(after - before for before, after in pairwise(first)) <= 50
