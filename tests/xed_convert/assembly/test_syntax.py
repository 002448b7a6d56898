"""What is read out of Intel assembly syntax, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xed_convert.assembly.syntax import Statement, TextKind, WrittenOperand, parse, parse_number, parse_statement
from xed_convert.errors import AssemblyError
from xed_convert.model import MemoryAddress


def test_everything_at_once() -> None:
    assert parse_statement("{evex} vaddps zmm1{k2}{z}, ZMM3, dword ptr fs:[r14+rcx*4-0x10]{1to16}") == Statement(
        "{evex} vaddps zmm1{k2}{z}, ZMM3, dword ptr fs:[r14+rcx*4-0x10]{1to16}",
        ("VADDPS",),
        frozenset({"evex"}),
        (
            WrittenOperand(TextKind.REGISTER, "ZMM1"),
            WrittenOperand(TextKind.REGISTER, "ZMM3"),
            WrittenOperand(TextKind.MEMORY, MemoryAddress("R14", "RCX", 4, -16, "FS"), 32, "{1to16}"),
        ),
        mask="K2",
        zeroing=True,
    )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("[rax]", MemoryAddress("RAX")),
        ("[rax*1]", MemoryAddress("", "RAX")),
        ("[4*rcx + rbx + 10h]", MemoryAddress("RBX", "RCX", 4, 16)),
        ("[rcx+rsp]", MemoryAddress("RSP", "RCX")),
        ("[zmm3*8+rax]", MemoryAddress("RAX", "ZMM3", 8)),
        ("[rax+ymm3]", MemoryAddress("RAX", "YMM3")),
        ("ds:[0x1234]", MemoryAddress(displacement=0x1234)),
        ("gs:[rip-2+1]", MemoryAddress("RIP", displacement=-1, segment="GS")),
    ],
)
def test_addresses(text: str, address: MemoryAddress) -> None:
    assert parse_statement(f"x {text}").operands[0].value == address


def test_statements_labels_and_comments() -> None:
    found = parse("a: b: dec rcx # one\n\n jnz a // two\n; nop")
    assert [(one.words, one.labels) for one in found] == [(("DEC",), ("a", "b")), (("JNZ",), ()), (("NOP",), ())]
    assert parse_statement("lock add [rax], ecx").words == ("LOCK", "ADD")
    assert parse_statement("ccmpb {dfv=of,cf} rax, rbx").default_flags == 9
    assert parse_statement("vaddps zmm1, zmm2, zmm3, {ru-sae}").rounding == "ru-sae"
    assert parse_statement("jmp .-5").operands == (WrittenOperand(TextKind.HERE, -5),)


@pytest.mark.parametrize(("text", "number"), [("10", 10), ("-0x10", -16), ("0ffh", 255), ("0b101", 5), ("+7", 7)])
def test_numbers(text: str, number: int) -> None:
    assert parse_number(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "5",
        "add rax,",
        "add [rax",
        "add [rax+rbx+rcx], 1",
        "add [rax*3], 1",
        "add [-rax], 1",
        "add {x} rax",
        "{foo} add",
        "add foo ptr [rax], 1",
        "add rax{1to4}",
        "add rax{k1}{k2}",
        "ccmpb {dfv=xf} rax",
        "add [], 1",
        "add 1e5",
        "x: ",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(AssemblyError):
        parse(text)


@settings(max_examples=1000, deadline=None)
@given(st.one_of(st.text(max_size=60), st.text(alphabet="adx er0128[]{}+-*,:;.k1z#\n", max_size=60)))
def test_garbage_is_read_or_refused(text: str) -> None:
    try:
        statements = parse(text)
    except AssemblyError as error:
        assert str(error)  # noqa: PT017 - either outcome is right
    else:
        assert {bool(one.words) for one in statements} <= {True}
