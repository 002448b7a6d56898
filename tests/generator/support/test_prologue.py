"""What stands around instructions that jump, return, or move the stack: that it leads to where the code goes on."""

from functools import cache

import pytest

from generator.exclusions import excluded
from generator.factory import InstructionFactory
from generator.microbenchmark import Line, Microbenchmark
from generator.operands.values import ValueKind
from generator.sequences.throughput import SequenceShape, ThroughputFactory
from generator.support.prologue import extra_code_of, prologue_and_epilogue, rows
from results.model import Form
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue


@cache
def catalogue() -> Catalogue:
    return Catalogue.load()


def factory(string: str) -> ThroughputFactory:
    return ThroughputFactory(InstructionFactory(catalogue()), catalogue().by_string(string))


def texts(lines: tuple[Line, ...]) -> str:
    return "; ".join(line.text for line in lines).replace("{disp32} ", "")


@pytest.mark.parametrize(
    ("string", "body"),
    [
        ("JMP (R64)", "LEA RBX, [RIP+2]; JMP RBX"),
        ("JMP (M64)", "LEA R12, [RIP+6]; MOV qword ptr [R14], R12; JMP qword ptr [R14]"),
        ("CALL_NEAR (R64)", "LEA RBX, [RIP+2]; CALL RBX"),
        ("RET_NEAR", "LEA R12, [RIP+5]; CALL R12; JMP .+3; RET"),
        ("RET_NEAR (I16)", "LEA R12, [RIP+5]; CALL R12; JMP .+5; RET 8; LEA RSP, [RSP-8]"),
        ("LEAVE", "LEA RBP, [R14+0x800]; LEAVE"),
        ("ENTER (I16, I8)", "LEA RSP, [R14+0x1000]; ENTER 0x20, 0"),
        ("STOSB_REPE", "MOV ECX, 1; REPE STOSB"),
    ],
)
def test_what_stands_around_an_instance(string: str, body: str) -> None:
    assert texts(factory(string).sequence(SequenceShape(1)).body) == body


def test_alone_what_stands_around_comes_to_its_own_end() -> None:
    alone = factory("RET_NEAR").prologues_alone(1)
    assert texts(alone.body) == "LEA R12, [RIP+3]; CALL R12; JMP .+2"


def test_setup_lines_come_after_the_values_of_registers() -> None:
    lines = [line.text for line in factory("WRFSBASE (R64)").sequence(SequenceShape(1)).setup]
    assert lines == ["MOV EBX, 1", "RDFSBASE RBX"]


def test_every_row_is_about_something_that_is_measured() -> None:
    used = {id(extra_code_of(variant)) for variant in catalogue()}
    assert not [f"{row.iclass} {row.form}" for row in some(rows()) if id(row) not in used]


def test_lines_of_every_row_can_be_encoded() -> None:
    for row in some(rows()):
        variant = next(v for v in catalogue() if extra_code_of(v) is row and not excluded(v))
        made = ThroughputFactory(InstructionFactory(catalogue()), variant)
        (instance,) = made.instances(SequenceShape(1))
        assert len(prologue_and_epilogue(made.instructions, instance)) == len(row.prologue + row.epilogue)
        assert len(made.sequence(SequenceShape(3)).body) == 3 * (1 + len(row.prologue + row.epilogue))


def restored(benchmark: Microbenchmark) -> list[str]:
    return [line.text for line in benchmark.body if line.text.startswith(("MOV ", "MOVAPS", "{load} MOVAPS"))]


def test_slow_values_are_put_back_after_every_division() -> None:
    """Else a quotient becomes the next dividend: IDIV raises #DE, a floating-point quotient becomes denormal."""
    assert restored(factory("IDIV (R16)").sequence(SequenceShape(2, kind=ValueKind.SLOW))) == 2 * [
        "MOV EAX, 0x85",
        "MOV EDX, 0x343a",
    ]
    slow = factory("DIVPS (XMM, XMM)").sequence(SequenceShape(2, kind=ValueKind.SLOW))
    assert restored(slow) == ["{load} MOVAPS XMM0, XMM15", "{load} MOVAPS XMM2, XMM15"]
    assert restored(factory("DIV (R64)").sequence(SequenceShape(2, kind=ValueKind.FAST))) == []


def test_strings_begin_again_where_they_began() -> None:
    lines = [line.text for line in factory("MOVSQ").sequence(SequenceShape(2, balanced=True)).body]
    assert lines[-2:] == ["{disp32} LEA RDI, [R14+0x1000]", "{disp32} LEA RSI, [R14-0x1000]"]


def test_as_many_mask_registers_as_there_are_serve_for_the_same_register() -> None:
    instances = factory("KADDQ (K, K, K)").instances(SequenceShape(8, form=Form.SAME_REGISTER))
    assert [len(set(instance.values.values())) for instance in instances] == [2] * len(instances)
    assert len(instances) >= 4
