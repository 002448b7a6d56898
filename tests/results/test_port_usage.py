"""PortUsage: what is written can be read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.model import PORT_LETTERS, PortUsage

port_sets = st.frozensets(st.sampled_from(PORT_LETTERS), min_size=1)


@given(st.dictionaries(port_sets, st.integers(1, 20), max_size=6))
def test_parse_reads_what_str_writes(uops: dict[frozenset[str], int]) -> None:
    assert PortUsage.parse(str(PortUsage(uops))).uops == uops


def test_written_as_in_published_data() -> None:
    assert str(PortUsage({frozenset("06"): 1, frozenset("0156"): 1})) == "1*p0156+1*p06"


@pytest.mark.parametrize("text", ["p06", "1*p", "x*p06", "-1*p0", "1*p0z"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a port usage"):
        PortUsage.parse(text)
