"""Exchanging ports that share a counter: one exchange for all answers about a machine."""

from __future__ import annotations

from math import factorial, prod

from hypothesis import given
from hypothesis import strategies as st

from results.model import PortUsage
from results.ports import renamed
from runner.backends.sim import open_machine
from runner.verification.port_names import all_names, best_names
from runner.verification.run import port_names
from simulator.machines.random_shape import draw_shape
from tests.inference.simulated import catalogue, context
from tests.nonempty import some

USAGES = st.dictionaries(st.frozensets(st.sampled_from("012345"), min_size=1), st.integers(1, 3), max_size=4)


def usage(text: str) -> PortUsage:
    return PortUsage.parse(text)


def test_answers_that_agree_with_each_other_are_right_under_one_exchange() -> None:
    answers = [(usage("1*p125"), usage("1*p179")), (usage("1*p15"), usage("1*p19")), (usage("1*p3"), usage("1*p3"))]
    names = best_names(("27", "59"), [([stated], true) for stated, true in answers])
    assert [renamed(stated, names) for stated, _ in answers] == [true for _, true in answers]


def test_answers_that_contradict_each_other_are_not_all_right() -> None:
    answers = [(usage("1*p0"), usage("1*p1")), (usage("1*p0"), usage("1*p0"))]
    names = best_names(("01",), [([stated], true) for stated, true in answers])
    assert sum(renamed(stated, names) == true for stated, true in answers) == 1


def test_usages_that_are_named_say_which_ports_are_exchanged_but_never_against_a_stated_one() -> None:
    named = ([usage("1*p1+1*p4"), usage("2*p14")], usage("1*p1+1*p6"))
    assert best_names(("46",), [named])["4"] == "6"
    assert best_names(("46",), [named, named, ([usage("1*p4")], usage("1*p4"))])["4"] == "4"


def test_names_are_those_of_blocking_instructions_where_no_usage_is_stated() -> None:
    """Inference exchanges p0 with p5 of this machine, and p4 with p7."""
    machine = open_machine("random:counters:8237")
    blocking = context(machine.name, catalogue().by_string("ADC_11 (R64, R64)")).blocking.values()
    names = port_names(machine, [], blocking)
    named = some(one for each in blocking for one in each.named)
    assert [renamed(one.usage, names) for one in named] == [machine.truth(one.variant).ports for one in named]


def test_nothing_is_exchanged_without_need_or_between_counters() -> None:
    assert best_names(("01", "23"), [([usage("1*p2")], usage("1*p2"))]) == {port: port for port in "0123"}
    assert renamed(usage("1*p0"), best_names(("01", "23"), [([usage("1*p0")], usage("1*p2"))])) != usage("1*p2")


@given(st.integers(0, 1000), USAGES)
def test_names_are_exchanged_within_counters_only(seed: int, uops: dict[frozenset[str], int]) -> None:
    groups = draw_shape(seed, "counters").parameters.shared_counters
    found = list(all_names(groups))
    assert len(found) == prod(factorial(len(group)) for group in groups)
    counter = {port: group for group in groups for port in group}
    for names in found:
        assert all(counter[old] == counter[new] for old, new in names.items())
        back = {new: old for old, new in names.items()}
        assert renamed(renamed(PortUsage(uops), names), back) == PortUsage(uops)
