"""What is said once for several flags holds for each of them."""

from fractions import Fraction

from inference.latency.conclusions import merge_flags
from results.model import Bound, LatencyResult


def result(source: str, destination: str, cycles: int) -> LatencyResult:
    return LatencyResult(
        3, 3, Fraction(cycles), Bound.EXACT, "itself", source_flag=source, destination_flag=destination
    )


def said(*results: LatencyResult) -> set[tuple[str, str, int]]:
    return {(one.source_flag, one.destination_flag, int(one.cycles)) for one in merge_flags(results)}


def test_what_is_the_same_for_all_flags_is_said_once() -> None:
    assert said(*(result(source, to, 2) for source in ("CF", "ZF") for to in ("CF", "ZF"))) == {("", "", 2)}


def test_a_flag_that_differs_keeps_its_name() -> None:
    """As SAR by CL on a machine that needs ZF two cycles earlier than CF."""
    results = (result("CF", "CF", 1), result("CF", "ZF", 2), result("ZF", "CF", 4), result("ZF", "ZF", 4))
    assert said(*results) == {("CF", "CF", 1), ("CF", "ZF", 2), ("ZF", "", 4)}


def test_the_only_flag_that_an_instruction_reads_stands_for_its_flags() -> None:
    assert said(result("CF", "CF", 1), result("CF", "ZF", 1)) == {("", "", 1)}
