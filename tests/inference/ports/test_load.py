"""What several measurements of a blocked set show together, where counters or the clock are off."""

from dataclasses import replace
from fractions import Fraction

import pytest

from inference.ports.load import Load


def load(own: int, ran: str, time: str, error: str = "0", late: str = "0") -> Load:
    return Load(
        own, Fraction(ran), Fraction(time), Fraction(time), True, Fraction(error), Fraction(late), Fraction(error)
    )


def test_counts_that_are_off_by_their_own_errors_leave_one_integer() -> None:
    first = load(39, "0.83", "1.1", error="0.65")
    others = [load(42 + 3 * n, ran, "1.1", error="0.7") for n, ran in enumerate(["1.2", "0.91", "1.1", "0.67"])]
    together = first.focused(others)
    assert (together.whole, round(together.count), together.error < first.error) == (True, 1, True)


def test_counts_that_contradict_each_other_show_nothing_more() -> None:
    first = load(39, "0.2", "1", error="0.3")
    assert first.focused([load(42, "1.4", "1", error="0.3")]) == first


@pytest.mark.parametrize(("besides", "busy"), [(1, True), (2, False)])
@pytest.mark.parametrize("drift", ["0.97", "1", "1.03"])
def test_a_clock_that_is_off_does_not_hide_idle_cycles(drift: str, besides: int, busy: bool) -> None:
    """One µop was counted. A set that had time for two was idle for a cycle, whatever the clock says."""

    def timed(own: int) -> Load:
        return load(own, "1", str((own + besides) * Fraction(drift) - own), late=str(Fraction(3, 100) * own))

    together = timed(40).focused([timed(own) for own in (45, 50, 55, 60)])
    assert together.busy is busy


def test_only_what_errors_may_have_made_is_measured_again() -> None:
    assert load(40, "1", "2", late="1.2").blurred
    assert not load(40, "1", "2").blurred  # the set was idle
    assert not load(40, "1.5", "1.5", late="1.2").blurred  # a µop strays in every second copy
    assert not load(40, "1", "1.1", error="0.1").blurred  # this one is exact


def test_a_clock_that_is_off_by_chance_is_told_by_the_mean_of_its_times() -> None:
    """One more measurement that is off by a third of a cycle does not make the set look idle."""
    times = ["1.5", "0.7", "1.3", "0.8", "1.2", "0.9"]
    together = load(40, "1", "1.6", late="0.8").focused([load(45 + 5 * n, "1", time) for n, time in enumerate(times)])
    assert (together.busy, abs(together.time - Fraction("1.14")) < Fraction("0.01")) == (True, True)
    assert Fraction("0.2") < together.late < Fraction("0.4")


def test_what_is_left_of_an_error_says_whether_more_measurements_may_help() -> None:
    others = [load(45 + 5 * n, "1", time) for n, time in enumerate(["2.6", "0.9", "1.6", "2.5", "0.8"])]
    assert load(40, "1", "1.7", late="0.8").focused(others).blurred
    idle = [load(45 + 5 * n, "1", time) for n, time in enumerate(["2.1", "1.9", "2.1", "1.9", "2"])]
    assert not load(40, "1", "2", late="0.8").focused(idle).blurred


def test_the_mean_of_counts_that_are_off_by_chance_tells_more_than_their_ranges() -> None:
    counts = ["2.3", "1.6", "2.1", "1.5", "2.4", "2.2", "1.9", "1.8", "2.5", "1.7", "2.1", "1.9"]
    loads = [load(46 + n, count, "2.1", error="1.5") for n, count in enumerate(counts)]
    together = loads[0].focused(loads[1:])
    assert not together.whole
    loads = [replace(one, mean_error=Fraction(1, 10), chance=True) for one in loads]
    together = loads[0].focused(loads[1:])
    assert (together.whole, round(together.count), together.busy) == (True, 2, True)


def test_what_all_counts_have_in_common_is_not_lost_in_a_mean() -> None:
    loads = [replace(load(46 + n, "2", "2", error="1.5"), mean_error=Fraction(1)) for n in range(40)]
    assert not loads[0].focused(loads[1:]).whole
