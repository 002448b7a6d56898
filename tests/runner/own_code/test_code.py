from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.model import Status
from runner.backend import Job, JobResult
from runner.measuring.protocol import Measurer
from runner.own_code.code import MeasureError, benchmark_of, lines_of, measure
from tests.runner.fake_backend import FakeBackend
from xed_convert.assembly.assembler import assemble

IMUL = bytes.fromhex("480fafc3")


def counts(job: Job, _: int) -> dict[str, int]:
    runs = job.copies * max(1, job.iterations)
    return {"core_cycles": 20 + 3 * runs, "instructions": 9 + runs}


def test_both_modes_and_every_counter_are_reported() -> None:
    report = measure(Measurer(FakeBackend(counts, ("core_cycles", "instructions"))), benchmark_of(IMUL, b""))
    assert [(row.counter, row.unrolled, row.loop) for row in report.rows] == [
        ("core_cycles", Fraction(3), Fraction(3)),
        ("instructions", Fraction(1), Fraction(1)),
    ]
    assert report.rows[0].unrolled_spread == Fraction(0)
    assert report.problems == []


def test_code_that_faults_is_a_problem_not_an_error() -> None:
    backend = FakeBackend(counts)
    backend.failing[IMUL] = JobResult(Status.FAULTED, {}, "SIGILL in the body at offset 0")
    report = measure(Measurer(backend), benchmark_of(IMUL, b""))
    assert report.rows == []
    assert report.problems[0] == "unrolled: faulted: SIGILL in the body at offset 0"


@pytest.mark.parametrize("code", ["4983c701", "4589ff", "41b701", "4d87f8", "450f44f8", "4150415f", "62f48418ffc0"])
def test_code_that_writes_the_loop_counter_is_refused(code: str) -> None:
    with pytest.raises(MeasureError, match="R15"):
        benchmark_of(bytes.fromhex(code), b"")


def test_reading_the_loop_counter_or_writing_it_in_the_setup_is_fine() -> None:
    assert benchmark_of(bytes.fromhex("4c01f8"), bytes.fromhex("4d31ff")).setup[0].text == "XOR R15,R15"


def test_instructions_too_new_for_the_usual_decoder_are_shown_in_words() -> None:
    code = assemble("{nf} add r16, r17, [r18+64]; imul rax, rbx; ccmpz {dfv=of} rax, rbx")
    texts = [line.text for line in lines_of(code)]
    assert texts == ["{nf} ADD R16, R17, qword ptr [R18+0x40]", "IMUL RAX,RBX", "CCMPZ {dfv=of} RAX, RBX"]


def test_no_code_and_too_much_code() -> None:
    with pytest.raises(MeasureError, match="no code"):
        benchmark_of(b"", IMUL)
    with pytest.raises(MeasureError, match="too many"):
        benchmark_of(IMUL * 2000, b"")


@given(st.binary(max_size=200))
def test_lines_hold_the_code_as_it_is(code: bytes) -> None:
    lines = lines_of(code)
    assert b"".join(line.code for line in lines) == code
    assert all(line.text for line in lines)
