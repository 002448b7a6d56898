"""What is certain of port usages that are not known, and how it gets into an instructions.xml."""

from __future__ import annotations

import pytest

from results.database.xml import measurement_attributes
from results.findings import Indistinguishable, NoPorts, Text, TooManyUsages, Unplaced, known_part
from results.model import Characterization, Form, PortUsage


def usage(text: str) -> PortUsage:
    return PortUsage.parse(text)


def test_what_all_usages_have_is_certain() -> None:
    usages = tuple(map(usage, ("2*p01+1*p5", "1*p01+1*p5", "1*p01+1*p5+1*p23")))
    assert known_part(Indistinguishable(usages)) == usage("1*p01+1*p5")
    assert not known_part(Indistinguishable(usages, others=1)).total  # the others may have nothing of it
    assert not known_part(TooManyUsages(())).total
    assert known_part(Unplaced(usage("1*p01"), slots=3)) == usage("1*p01")


@pytest.mark.parametrize(
    ("usages", "certain"),
    [
        (("1*r45", "1*r456", "1*r46"), "1*r456"),  # PUSH on a Zen 4
        (("1*p01+1*p5", "1*p0+1*p15"), "1*p01+1*p15"),
        (("2*p01", "1*p0+1*p1"), "2*p01"),
        (("1*p01+1*p23", "1*p01+1*p5"), "1*p01"),
        (("", "1*p23"), ""),
        (("1*p0", "1*p1"), ""),  # no port in common
        (("1*r0+1*r1", "1*r01+1*r0", "1*r01+1*r1", "2*r01"), "2*r01"),  # BTS (R64, I8) on a Zen 4
        (("1*r0+1*r1", "1*r0+1*r2"), "1*r0"),  # r1 and r2 are in no common set
    ],
)
def test_a_uop_that_has_other_ports_in_each_usage_has_one_of_all(usages: tuple[str, ...], certain: str) -> None:
    for order in (usages, usages[::-1]):
        assert str(known_part(Indistinguishable(tuple(map(usage, order))))) == certain


def test_it_is_written_for_the_plain_form() -> None:
    why = Unplaced(usage("1*r01"), slots=1)
    found = measurement_attributes(Characterization("", "", "", failures=(NoPorts(Form.PLAIN, why),)))
    assert found == {"some_ports": "1*r01", "some_ports_by_time": "1", "issue_slots": "1"}
    open_ = Characterization("", "", "", failures=(NoPorts(Form.PLAIN, Unplaced(usage(""), slots=None)),))
    assert measurement_attributes(open_) == {}
    # Where µops were counted, their ports were, too
    counted = Characterization("", "", "", uops=2, failures=(NoPorts(Form.PLAIN, why),))
    assert measurement_attributes(counted) == {"uops": "2", "some_ports": "1*r01", "issue_slots": "1"}
    indexed = Characterization("", "", "", failures=(NoPorts(Form.INDEXED, why), NoPorts(Form.PLAIN, Text("nothing"))))
    assert measurement_attributes(indexed) == {}
