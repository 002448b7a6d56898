"""The readers of the datafiles: what they read, what they refuse, and that writing and reading are inverse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared import XED_NEW, XED_OLD, xed_datafiles
from xed_convert.datafiles.folder import Datafiles
from xed_convert.datafiles.layers import read_layers
from xed_convert.datafiles.nonterminals import read_nonterminals
from xed_convert.datafiles.pattern import BitRange, Bits, Call, Constraint, Literal, Macros, Token, parse_token
from xed_convert.datafiles.records import read_records
from xed_convert.datafiles.source import FileLine, Location, split_lines
from xed_convert.errors import ConversionError

if TYPE_CHECKING:
    from pathlib import Path

names = st.from_regex(r"[A-Z][A-Z0-9]{0,8}", fullmatch=True)
tokens: st.SearchStrategy[Token] = st.one_of(
    st.builds(Literal, st.integers(0, 255), st.just(8)),
    st.integers(1, 7).flatmap(lambda width: st.builds(Literal, st.integers(0, 2**width - 1), st.just(width))),
    st.builds(Bits, names, st.from_regex(r"[01]{1,8}", fullmatch=True)),
    st.builds(
        lambda name, letter, count: Bits(name, letter * count), names, st.sampled_from("drimn"), st.integers(1, 64)
    ),
    st.builds(BitRange, names, st.integers(0, 7), st.integers(0, 7)),
    st.builds(Constraint, names, st.integers(0, 63), st.booleans()),
    st.builds(Call, names),
)


@given(tokens)
def test_tokens_are_read_as_they_are_written(token: Token) -> None:
    assert parse_token(str(token)) == token


@given(st.lists(tokens, max_size=12))
def test_patterns_are_read_as_they_are_written(pattern: list[Token]) -> None:
    text = " ".join(map(str, pattern))
    assert Macros().expand(text, Location("x", 1)) == tuple(pattern)


def lines(text: str) -> list[FileLine]:
    return split_lines(text, "x.txt")


RECORD = """INSTRUCTIONS()::
{
ICLASS: ADD
CATEGORY: A
EXTENSION: BASE
CPL: 3
PATTERN: 0x01
OPERANDS: REG0=GPRv_R():r
}
"""


def test_each_pattern_is_a_record() -> None:
    text = RECORD.replace("}\n", "PATTERN: 0x03 # comment\nOPERANDS: MEM0:w:v \\\n  REG0=GPRv_R():r\nIFORM: ADD_X\n}\n")
    first, second = read_records([lines(text)])
    assert (first.pattern, first.iform, second.pattern, second.iform) == ("0x01", "", "0x03", "ADD_X")
    assert second.operands.split() == ["MEM0:w:v", "REG0=GPRv_R():r"]
    assert str(second.location) == "x.txt:9"


def test_deletions_and_versions() -> None:
    body = RECORD.partition("{\n")[2]
    text = (
        "INSTRUCTIONS()::\n{\nUNAME: GONE\n" + body + "{\nVERSION: 2\n" + body.replace("0x01", "0x05") + "{\n" + body
    ) + "UDELETE: GONE\n"
    assert [record.pattern for record in read_records([lines(text)])] == ["0x05"]


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (RECORD.replace("}\n", ""), 2, "expected `}`"),
        (RECORD.replace("CPL: 3", "CPL 3"), 6, "expected `KEY : value`"),
        (RECORD.replace("CPL: 3", "CPL: three"), 2, "expected a number as CPL"),
        (RECORD.replace("CPL", "CPU"), 6, "expected one of the keys"),
        (RECORD.replace("INSTRUCTIONS()::\n", ""), 1, "expected `NAME()::`"),
        (RECORD.replace("PATTERN: 0x01\n", ""), 7, "expected a PATTERN"),
        (RECORD + "garbage\n", 10, "expected `{`"),
        ("INSTRUCTIONS()::\n{\n}\n", 2, "lacks ICLASS"),
        ("a\\\n", 1, "ends in a continued line"),
    ],
)
def test_a_bad_record_is_named_with_its_line(text: str, line: int, expected: str) -> None:
    with pytest.raises(ConversionError) as caught:
        read_records([lines(text)])
    assert str(caught.value).startswith(f"x.txt:{line}: ")
    assert expected in str(caught.value)


def refusal(text: str) -> str | None:
    """Return what is said of a text that is refused."""
    try:
        read_records([lines(text)])
        read_nonterminals(lines(text), Macros())
    except ConversionError as error:
        return str(error)
    return None


@given(st.text(alphabet="{}ICLASPTERN:()=#\\ \n01x|", max_size=200))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    said = refusal(text)
    assert said is None or said.startswith("x.txt:")


def test_a_cfg_that_names_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "files.cfg").write_text("# layers\nstate : absent.txt\n")
    (tmp_path / "layers.txt").write_text("files.cfg\n")
    with pytest.raises(ConversionError, match=r"files\.cfg: the layers name no file of type"):
        Datafiles.load(tmp_path)


def test_priorities_and_removals(tmp_path: Path) -> None:
    (tmp_path / "a.cfg").write_text(
        "state: one.txt\nstate: two.txt\nwidths: w.txt\nadd:spine:s.txt:2\nspine: low.txt\n"
    )
    (tmp_path / "b.cfg").write_text("state: three.txt : 2\nremove:widths:w.txt\nfields: f.txt\nclear:fields\n")
    files = read_layers(tmp_path, ["a.cfg", "b.cfg"])
    assert [file.name for file in files["state"]] == ["three.txt"]
    assert [file.name for file in files["spine"]] == ["s.txt"]
    assert files["widths"] == []
    assert "fields" not in files


@pytest.mark.parametrize(("version", "count"), [(XED_OLD, 11_200), (XED_NEW, 10_994)])
def test_all_records_patterns_and_operands_are_read(version: str, count: int) -> None:
    datafiles = Datafiles.load(xed_datafiles(version))
    assert len(datafiles.records) == count
    for record in datafiles.records:
        assert datafiles.pattern(record)
        datafiles.operands(record)
