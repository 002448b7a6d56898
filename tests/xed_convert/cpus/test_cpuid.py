"""CPUID tests of ISA sets: read, written, shipped."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared import xed_datafiles
from xed_convert.cpus import cpuid
from xed_convert.cpus.cpuid import CpuidTest
from xed_convert.errors import ConversionError

bits = st.integers(0, 31)
tests = st.builds(
    lambda leaf, subleaf, register, ends, least: CpuidTest(leaf, subleaf, register, min(ends), max(ends), least, "x"),
    st.integers(0, 2**32 - 1),
    st.integers(0, 255),
    st.sampled_from(cpuid.REGISTERS),
    st.tuples(bits, bits),
    st.integers(1, 255),
)


@given(tests)
def test_a_test_is_read_as_it_was_written(test: CpuidTest) -> None:
    assert CpuidTest.parse(str(test)) == test


@pytest.mark.parametrize(
    ("text", "ebx", "holds"),
    [
        ("bmi1.7.0.ebx.3", 0b1000, True),
        ("bmi1.7.0.ebx.3", 0b0111, False),
        ("movrs.7.1.ebx[31]", 1 << 31, True),
        ("ver.24.0.ebx[0:7]=2", 0x102, True),
        ("ver.24.0.ebx[0:7]=2", 0x103, True),
        ("ver.24.0.ebx[0:7]=2", 0x101, False),
    ],
)
def test_what_holds(text: str, ebx: int, *, holds: bool) -> None:
    assert CpuidTest.parse(text).holds((0, ebx, 0, 0)) is holds


def test_the_shipped_table_is_what_the_datafiles_say() -> None:
    folder = xed_datafiles()
    shipped = {name: tests for name, tests in cpuid.isa_set_tests().items() if name not in _additions()}
    assert {name: tests for name, tests in cpuid.read_datafiles(folder).items() if name in shipped} == shipped


def _additions() -> set[str]:
    path = Path(cpuid.__file__).parents[1] / "data" / "cpuid_additions.tsv"
    return {line.split("\t")[0] for line in path.read_text().splitlines()[1:]}


def test_a_broken_file_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "files.cfg").write_text("cpuid: c.txt\n")
    with pytest.raises(ConversionError, match=r"c\.txt: cannot be read"):
        cpuid.read_datafiles(tmp_path)
    (tmp_path / "c.txt").write_text("# fine\nXED_ISA_SET_A: a.1.0.eax.0\nXED_ISA_SET_B: what.is.this\n")
    with pytest.raises(ConversionError, match=r"c\.txt:3: not a CPUID test: 'what\.is\.this'"):
        cpuid.read_datafiles(tmp_path)
