"""A mapping that is fitted to times of mixes predicts mixes that it has not seen."""

from __future__ import annotations

import random
from itertools import product
from statistics import median_low
from typing import TYPE_CHECKING

import pytest

from inference.ports.fitted.fit import FitError, ResourceMapping, TimedMix, contention, fit, split
from results.model import PortUsage
from results.ports import joined, throughput_of

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS = [PortUsage.parse(text) for text in ("1*p0", "1*p01", "1*p5+1*p01", "1*p23", "1*p0156", "2*p5")]


SLOW = [PortUsage.parse(text) for text in ("1*p0", "1*p01", "90*p5", "1*p23", "25*p0", "2*p5")]


def mixes(instructions: int, count: int, kinds: Sequence[PortUsage] = KINDS) -> list[TimedMix]:
    """Return exact times of mixes on a machine with ports."""
    source = random.Random(3)

    def time_of(numbers: tuple[int, ...]) -> float:
        usage = PortUsage({})
        for number in numbers:
            usage = joined(usage, kinds[number % len(kinds)])
        return max(float(throughput_of(usage)), len(numbers) / 4)

    alone = [(number,) for number in range(instructions)]
    several = [tuple(source.choices(range(instructions), k=source.randint(2, 5))) for _ in range(count)]
    return [TimedMix(numbers, time_of(numbers)) for numbers in (*alone, *several)]


def test_mixes_that_were_held_back_are_predicted() -> None:
    kept, held = split(mixes(18, 700), 1)
    assert len(held) >= 50
    mapping = fit(kept, 18)
    assert mapping.error(held) < 0.04
    assert mapping == fit(kept, 18), "the same data give the same mapping"


@pytest.mark.parametrize(("scale", "error"), [(1, 0.01), (300, 0.04)])
def test_slow_instructions_are_fitted_like_fast_ones(scale: int, error: float) -> None:
    timed = [TimedMix(one.instructions, one.cycles * scale) for one in mixes(12, 300, SLOW)]
    kept, held = split(timed, 1)
    assert fit(kept, 12).error(held) < error


def test_the_last_mix_of_an_instruction_is_not_held_back() -> None:
    common, rare = [TimedMix((0, 1), 1.0)] * 30, TimedMix((1, 2), 1.0)
    for place in range(31):
        timed = [*common[:place], rare, *common[place:]]
        kept, held = split(timed, 1)
        assert rare in kept
        assert len(held) >= 2


def test_an_instruction_in_no_mix_is_an_error() -> None:
    with pytest.raises(FitError, match="instruction 2 is in no mix"):
        fit([TimedMix((0, 1), 1.0)] * 40, 3)


def test_pairs_that_take_longer_than_their_loads_are_contention() -> None:
    mapping = ResourceMapping((0, 1), ((1.0, 0.0), (0.0, 1.0)))
    slow = [TimedMix((0, 1), 1.5)] * 12
    assert contention(mapping, slow) == {(0, 1): pytest.approx(0.5)}
    assert contention(mapping, slow[1:]) == {}
    assert contention(mapping, [*slow, *[TimedMix((0, 1), 1.0)] * 3]) == {(0, 1): pytest.approx(0.5)}
    assert contention(mapping, [*slow, *[TimedMix((0, 1), 1.0)] * 6]) == {}, "a third of its mixes do not wait"
    assert ResourceMapping((0, 1), mapping.loads, {(0, 1): 0.5}).cycles((0, 1)) == pytest.approx(1.5)


def test_the_fullest_resource_and_the_slowest_pair_limit_a_mix() -> None:
    mapping = ResourceMapping((0, 1, 2), ((1.0, 0.0), (0.0, 1.0), (0.0, 0.4)), {(0, 1): 0.1, (1, 2): 0.5})
    assert mapping.limits((0, 0, 1)) == (0, (0, 1))
    assert mapping.limits((0, 1, 2)) == (1, (1, 2))
    assert mapping.limits((2,)) == (1, None)
    assert mapping.cycles((0, 1, 2)) == pytest.approx(1.4 * 1.5)
    assert mapping.cycles((0, 1, 2), with_contention=False) == pytest.approx(1.4)


def test_loads_that_limit_no_mix_are_no_larger_than_usual() -> None:
    given = mixes(18, 700)
    mapping = fit(given, 18)
    limits: set[tuple[int, int]] = set()
    for one in given:
        classes = [mapping.class_of[each] for each in one.instructions]
        sums = [sum(loads) for loads in zip(*(mapping.loads[each] for each in classes), strict=True)]
        fullest = [at for at, load in enumerate(sums) if load > max(sums) - 1e-9]
        limits.update(product(classes, fullest))
    usual = [median_low(loads) for loads in zip(*(mapping.loads[one] for one in mapping.class_of), strict=True)]
    loads = {one: mapping.loads[one] for one in set(mapping.class_of)}
    larger = {(one, at) for one, row in loads.items() for at, load in enumerate(row) if load > usual[at] + 1e-9}
    assert larger <= limits
    assert larger
