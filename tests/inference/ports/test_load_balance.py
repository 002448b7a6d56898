"""What loads in isolation say: even ones explain themselves, uneven ones speak against a usage."""

from fractions import Fraction

import pytest

from inference.ports.alone.isolation import Isolated
from inference.ports.alone.layout import PortLayout
from inference.ports.alone.load_balance import evenly_loaded, is_uneven, likeliest
from results.model import PortUsage
from results.ports import PortSet

LAYOUT = PortLayout.of(["p0", "p1", "p23B", "p49", "p5A", "p78"])


def ports(letters: str) -> PortSet:
    return frozenset(letters)


def alone(**loads: float) -> Isolated:
    uops = {name: Fraction(loads.get(name, 0)).limit_denominator(16) for name in LAYOUT.counters}
    return Isolated(uops, Fraction(1), round(sum(uops.values())))


def usage(*sets: str) -> PortUsage:
    return PortUsage(dict.fromkeys(map(ports, sets), 1))


@pytest.mark.parametrize(
    ("loads", "sets", "uneven"),
    [
        ({"p0": 1 / 2, "p1": 1 / 2}, ("01",), False),
        ({"p0": 1}, ("01",), False),  # each has a counter of its own, so that it can be blocked
        ({"p0": 1, "p23B": 1}, ("01", "23B"), False),
        ({"p23B": 2 / 3, "p78": 1 / 3, "p49": 1}, ("237", "49"), False),
        ({"p23B": 2 / 3, "p78": 1 / 3, "p49": 1}, ("2378B", "49"), True),
        ({"p0": 1, "p1": 1}, ("01", "1"), False),  # they share a port: one may keep the other away
        ({"p5A": 1 / 2, "p78": 3 / 2}, ("57", "8"), False),
        ({"p5A": 1 / 2, "p78": 3 / 2}, ("57", "238"), True),  # they share a counter only, and p2 and p3 ran nothing
    ],
)
def test_a_usage_is_uneven_if_its_load_would_be_balanced_otherwise(
    loads: dict[str, float], sets: tuple[str, ...], uneven: bool
) -> None:
    assert is_uneven(usage(*sets), alone(**loads), LAYOUT) is uneven


def test_so_many_uops_may_be_so_many_times_as_uneven() -> None:
    loads = alone(p0=3 / 8, p1=7 / 16, p5A=13 / 16, p78=3 / 8)
    assert not is_uneven(PortUsage({ports("0157A"): 2}), loads, LAYOUT)
    assert is_uneven(PortUsage({ports("017A"): 2}), loads, LAYOUT)
    one = alone(p0=3 / 16, p1=1 / 4, p5A=3 / 8, p78=3 / 16)
    assert is_uneven(PortUsage({ports("0157A"): 1}), one, LAYOUT)


def test_evenly_loaded_sets_have_the_first_ports_of_each_counter() -> None:
    assert evenly_loaded(alone(p0=1 / 4, p1=1 / 4, p5A=1 / 4, p23B=1 / 4), LAYOUT) == [ports("0152")]
    assert evenly_loaded(alone(p23B=1), LAYOUT) == [ports("2"), ports("23"), ports("23B")]


def test_the_likeliest_usage_explains_the_loads_then_has_the_fewest_new_sets() -> None:
    known = [ports("01"), ports("5A")]
    loads = alone(p0=1 / 3, p5A=2 / 3)
    assert likeliest([usage("05"), usage("05A")], [*known, ports("05")], loads, LAYOUT) == [usage("05A")]
    even = alone(p0=1 / 2, p1=1 / 2, p5A=1)
    assert likeliest([usage("01", "5A"), usage("01", "5")], known, even, LAYOUT) == [usage("01", "5A")]


def test_novel_sets_that_loads_say_nothing_about_do_not_win_over_known_ones() -> None:
    known, novel = PortUsage({ports("05"): 2}), usage("05", "5")
    loads = alone(p0=14 / 16, p5A=18 / 16)
    assert is_uneven(known, loads, LAYOUT)
    assert likeliest([known, novel], [ports("05")], loads, LAYOUT) == [known, novel]
