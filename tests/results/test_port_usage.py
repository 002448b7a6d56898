"""PortUsage: what is written can be read again."""

import pytest
from hypothesis import given

from results.model import PortUsage
from tests.results.strategies import port_usages


@given(port_usages)
def test_parse_reads_what_str_writes(usage: PortUsage) -> None:
    assert PortUsage.parse(str(usage)) == usage


def test_written_as_in_published_data() -> None:
    assert str(PortUsage({frozenset("06"): 1, frozenset("0156"): 1})) == "1*p0156+1*p06"


@pytest.mark.parametrize(
    "text", ["p06", "p5", "1*p", "x*p06", "-1*p0", "1*p0z", "1*A", "fp01", "1*", "*FP0", "1*FP01 "]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a port usage"):
        PortUsage.parse(text)
