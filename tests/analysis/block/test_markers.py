"""Regions that are marked as other tools do."""

import pytest

from analysis.block.markers import BEGIN_BYTES, END_BYTES, is_att, marked_code, marked_lines
from analysis.errors import AnalysisError
from xed_convert.assembly.assembler import assemble
from xed_convert.errors import UopscopeError


@pytest.mark.parametrize("begin", ["# OSACA-BEGIN", "# LLVM-MCA-BEGIN kernel", "// LLVM-MCA-BEGIN", "  #OSACA-BEGIN x"])
@pytest.mark.parametrize("end", ["# OSACA-END", "# LLVM-MCA-END kernel"])
def test_comments_mark_a_region(begin: str, end: str) -> None:
    assert marked_lines(f"before\n{begin}\none\ntwo\n{end}\nbehind\n") == (3, 4)


def test_bytes_mark_a_region() -> None:
    assert marked_code(b"\x90" + BEGIN_BYTES + b"\x48\x01\xd8" + END_BYTES + b"\x90") == b"\x48\x01\xd8"


def test_the_bytes_are_those_of_the_published_code() -> None:
    try:
        moves = assemble("mov ebx, 111"), assemble("mov ebx, 222")
    except UopscopeError as error:
        pytest.skip(str(error))
    assert tuple(move + bytes([100, 103, 144]) for move in moves) == (BEGIN_BYTES, END_BYTES)


def test_code_without_marks_is_taken_whole() -> None:
    assert marked_lines("one\ntwo") == (1, 2)
    assert marked_code(b"\x90\x90") == b"\x90\x90"


@pytest.mark.parametrize("text", ["# OSACA-BEGIN\nnop", "nop\n# OSACA-END", "# OSACA-END\nnop\n# OSACA-BEGIN"])
def test_half_a_mark_is_refused(text: str) -> None:
    with pytest.raises(AnalysisError, match=r"no -(BEGIN|END)"):
        marked_lines(text)


@pytest.mark.parametrize("code", [BEGIN_BYTES + b"\x90", b"\x90" + END_BYTES, END_BYTES + BEGIN_BYTES])
def test_half_a_mark_of_bytes_is_refused(code: bytes) -> None:
    with pytest.raises(AnalysisError, match=r"has no (beginning|end)"):
        marked_code(code)


@pytest.mark.parametrize(
    ("text", "att"),
    [
        ("addq %rax, (%rdi)", True),
        ("vfmadd231ps (%rsi,%rcx,4), %ymm1, %ymm2", True),
        ("add [rdi], rax", False),
        ("add rax, rbx # not %rax", False),
        ("mov eax, 5", False),
    ],
)
def test_the_syntax_is_told_by_percent_signs(text: str, att: bool) -> None:
    assert is_att(text) == att
