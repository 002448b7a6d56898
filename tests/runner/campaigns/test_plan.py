"""Plans: every variant is accounted for, and what a sample took is carried over to all."""

from __future__ import annotations

from itertools import pairwise

import pytest

from runner.campaigns import plan
from runner.measuring.protocol import Measurer
from tests.runner.small_campaigns import FakeMethod, SmallBackend, variants

VARIANTS = 200


def test_every_variant_is_there_left_out_or_possible() -> None:
    there = {variant.key for variant in variants(VARIANTS)[:50]}
    made = plan.make_plan(variants(VARIANTS), there, FakeMethod(), Measurer(SmallBackend()))
    assert (made.total, made.there, made.possible) == (200, 50, 135)
    assert made.reasons == {"every tenth is": 15}


def test_a_sample_that_is_everything_gives_exact_numbers() -> None:
    backend = SmallBackend()
    made = plan.make_plan(variants(VARIANTS), set(), FakeMethod(), Measurer(backend))
    assert made.sampled == made.possible == 180
    assert made.expected_microbenchmarks == made.microbenchmarks > 3 * 180
    assert made.expected_seconds == pytest.approx(made.seconds)


def test_without_time_for_a_sample_nothing_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "PREPARATION_SECONDS", -1.0)
    made = plan.make_plan(variants(VARIANTS), set(), FakeMethod(), Measurer(SmallBackend()))
    assert (made.expected_microbenchmarks, made.expected_seconds) == (None, None)


def test_any_first_part_of_the_sample_is_spread_evenly() -> None:
    numbers = [int(each.iform[1:]) for each in plan._even_sample(variants(1000))]
    assert sorted(numbers) == list(range(1000))
    first = sorted(numbers[:100])
    assert max(after - before for before, after in pairwise(first)) <= 50
