"""Bytes of a user's code as lines: what they may write, marks, and code that is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.harness.style import PAUSE, RESUME
from generator.microbenchmark import Microbenchmark
from runner.own_code.code import MeasureError, check_body, lines_of
from xed_convert.assembly.assembler import assemble

IMUL = bytes.fromhex("480fafc3")


def check(body: bytes, *, loops: bool = True, automatic: bool = True) -> None:
    check_body(Microbenchmark((), lines_of(body), "a test"), loops=loops, automatic=automatic)


@pytest.mark.parametrize("code", ["4983c701", "4589ff", "41b701", "4d87f8", "450f44f8", "4150415f", "62f48418ffc0"])
def test_code_that_writes_the_loop_counter_is_refused(code: str) -> None:
    with pytest.raises(MeasureError, match="R15"):
        check(bytes.fromhex(code))
    assert lines_of(bytes.fromhex(code))
    check(bytes.fromhex(code), loops=False)


def test_marks_are_lines_of_their_own_and_keep_r13() -> None:
    lines = lines_of(IMUL + PAUSE + IMUL + RESUME)
    assert [line.text for line in lines] == ["IMUL RAX,RBX", "PAUSE_COUNTING", "IMUL RAX,RBX", "RESUME_COUNTING"]
    with pytest.raises(MeasureError, match="R13"):
        check(PAUSE + bytes.fromhex("49ffc5") + RESUME)


def test_instructions_too_new_for_the_usual_decoder_are_shown_in_words() -> None:
    code = assemble("{nf} add r16, r17, [r18+64]; imul rax, rbx; ccmpz {dfv=of} rax, rbx")
    texts = [line.text for line in lines_of(code)]
    assert texts == ["{nf} ADD R16, R17, qword ptr [R18+0x40]", "IMUL RAX,RBX", "CCMPZ {dfv=of} RAX, RBX"]


def test_no_code_and_too_much_code() -> None:
    with pytest.raises(MeasureError, match="no code"):
        check(b"")
    with pytest.raises(MeasureError, match="too many"):
        check(IMUL * 2000)
    check(IMUL * 2000, automatic=False)


@given(st.binary(max_size=200))
def test_lines_hold_the_code_as_it_is(code: bytes) -> None:
    lines = lines_of(code)
    assert b"".join(line.code for line in lines) == code
    assert all(line.text for line in lines)
