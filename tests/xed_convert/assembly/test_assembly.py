"""Assembling what people type: through keystone where it is right, from the patterns elsewhere; garbage is refused."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xed_convert.assembly.assembler import Assembler
from xed_convert.assembly.keystone_process import KeystoneProcess
from xed_convert.assembly.syntax import parse_statement
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.decoder import Decoder
from xed_convert.errors import AssemblyError


@cache
def assembler() -> Assembler:
    return Assembler(Catalogue.load(), keystone=KeystoneProcess())


@cache
def without_keystone() -> Assembler:
    return Assembler(Catalogue.load())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("add rax, 5", "4883c005"),
        ("adc rax, rbx", "4811d8"),
        ("VADDPS ZMM1{K2}{z}, ZMM3, [R14]{1to16}", "62d164da580e"),
        ("vaddps xmm1{k2}, xmm3, xmm4", "62f1640a58cc"),
        ("vaddps zmm1, zmm2, zmm3, {rz-sae}", "62f16c7858cb"),
        ("{evex} vaddps xmm1, xmm3, xmm4", "62f1640858cc"),
        ("tdpbssd tmm1, tmm2, tmm3", "c4e2635eca"),
        ("add r16, r31", "d55c01f8"),
        ("{nf} add rax, rbx, rcx", "62f4fc1c01cb"),
        ("ccmpz {dfv=cf} rax, rbx", "62f48c0439d8"),
        ("mov rax, fs:[0]", "64488b042500000000"),
        ("lock inc dword ptr [rsi]", "f0ff06"),
        ("rep movsb", "f3a4"),
        ("jmp .+2", "eb00"),
        ("dec ecx; l: sub rax, rbx; jnz l", "ffc94829d875fb"),
        ("jnz end\n nop\n end: ret", "750190c3"),
        ("cmove eax, ebx; sete al", "0f44c30f94c0"),
        ("fadd st(0), st(3)", "d8c3"),
        ("fadd st(3), st(0)", "dcc3"),
        ("fadd st(3)", "d8c3"),
        ("fnstsw ax", "dfe0"),
        ("fnstsw", "dfe0"),
        ("sysretq", "480f07"),
        ("sysexitq", "480f35"),
        ("{evex} vpextrw eax, xmm1, 3", "62f17d08c5c103"),
        ("lea rax, [rbx+rcx*4-8]", "488d448bf8"),
        ("{disp32} jmp .+5", "e900000000"),
        ("{disp32} mov eax, [rbx+1]", "8b8301000000"),
    ],
)
def test_assembles(text: str, expected: str) -> None:
    assert without_keystone().assemble(text).hex() == expected
    data = assembler().assemble(text)
    decoder = Decoder(Catalogue.load())
    assert [one.variant.iclass for one in decode_all(decoder, data)] == [
        one.variant.iclass for one in decode_all(decoder, bytes.fromhex(expected))
    ]


def decode_all(decoder: Decoder, data: bytes) -> list:  # type: ignore[type-arg] # decoded instructions
    found, offset = [], 0
    while offset < len(data):
        found.append(decoder.decode(data, offset))
        offset += found[-1].length_bytes
    return found


def test_a_far_label_gets_a_long_branch() -> None:
    data = without_keystone().assemble("jmp end;" + "nop;" * 200 + "end: ret")
    assert data[:5].hex() == "e9c8000000"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo rax", "'FOO' is not an instruction"),
        ("mov r8b, ah", "no variant of MOV takes.*\n.*AH has no encoding .* REX prefix, which R8B needs"),
        ("add rax", "no variant of ADD takes.*\n.*The nearest: ADD .R64, "),
        ("inc [rax]", "size of the memory operand"),
        ("jmp nowhere", "neither a register nor a label"),
        ("add eax, 0x100000000", "no variant of ADD|does not fit"),
        ("vgatherdps xmm1, [rax+xmm1*4], xmm2", "different registers"),
        ("", "no instruction"),
    ],
)
def test_refuses_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(AssemblyError, match=message):
        assembler().assemble(text)


def test_an_unknown_mnemonic_names_the_nearest() -> None:
    with pytest.raises(AssemblyError, match="VPADDD"):
        assembler().assemble("vpaddx xmm1, xmm2, xmm3")


def test_keystone_may_crash_or_be_absent() -> None:
    process = KeystoneProcess()
    try:
        if process.assemble("add rax, 5") is None:
            pytest.skip("keystone-engine is not installed")
        assert process.assemble("mov r8b, ah") is None
        assert process.assemble("add rax, 5") == b"\x48\x83\xc0\x05"
        assert process.assemble("no such thing") is None
    finally:
        process.close()


TOKENS = [
    "add",
    "mov",
    "vaddps",
    "lea",
    "jmp",
    "tdpbssd",
    "lock",
    "rep",
    "{evex}",
    "{k1}",
    "{z}",
    "{1to16}",
    "{rn-sae}",
    "rax",
    "eax",
    "al",
    "ah",
    "r8b",
    "r31",
    "zmm31",
    "xmm1",
    "k1",
    "tmm2",
    "[rax]",
    "[rax+rcx*4]",
    "dword",
    "ptr",
    "0x10",
    "-1",
    "255",
    "9999999999999999999999",
    ",",
    ",",
    ",",
    "+",
    "*",
    "[",
    "]",
    "{",
    "}",
    ":",
    ";",
    "label:",
    ".+5",
    "$",
    "st(1)",
    "fs:[0]",
    "\x00",
    "é",
]


@settings(max_examples=1000, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9))
def test_garbage_is_assembled_or_refused(seed: int, length: int) -> None:
    chooser = random.Random(seed)
    text = " ".join(chooser.choice(TOKENS) for _ in range(length))
    try:
        data = without_keystone().assemble(text)
    except AssemblyError as error:
        assert str(error)  # noqa: PT017 - either outcome is right
    else:
        assert data


MIXED = """
add rax, 5; add rax, 300; mov rax, [rbx+8]; mov qword ptr [rbx], rcx; vaddps xmm1, xmm2, [rsi]; lea rax, [rbx+rcx*4]
shl eax, 1; shl eax, cl; shl eax, 5; imul rax, rbx, 100; imul rax, rbx, 1000; xchg eax, ebx; nop; rep movsb; fsin
vaddps xmm1{k2}, xmm3, xmm4; {evex} vaddps xmm1, xmm3, xmm4; jmp .+2; jmp 5; test al, 1; fninit; add r16, r31
""".replace("\n", ";")


def test_statements_together_are_encoded_as_each_alone() -> None:
    statements = [parse_statement(one.strip()) for one in MIXED.split(";") if one.strip()]
    together = assembler().together(statements)
    alone = [assembler().instructions([one])[0] for one in statements]
    chosen = [(found.data.hex(), one.data.hex()) for found, one in zip(together, alone, strict=True) if found]
    assert len(chosen) > len(statements) // 2
    assert [found for found, _ in chosen] == [one for _, one in chosen]


def test_what_keystone_does_not_know_does_not_keep_its_neighbours_from_being_encoded_together() -> None:
    statements = [parse_statement(f"add rax, {number}") for number in range(20)]
    statements[7:7] = [parse_statement("tdpbssd tmm1, tmm2, tmm3")]
    found = assembler().together(statements)
    assert [number for number, one in enumerate(found) if one is None] == [7]


def test_an_assembler_asks_keystone_once_for_many_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    keystone = KeystoneProcess()
    texts: list[str] = []
    answer = keystone.assemble

    def assemble(text: str) -> bytes | None:
        texts.append(text)
        return answer(text)

    monkeypatch.setattr(keystone, "assemble", assemble)
    made = Assembler(Catalogue.load(), keystone=keystone).assemble("; ".join(f"add rax, {n}" for n in range(150)))
    keystone.close()
    assert len(texts) == 1
    assert made == b"".join(without_keystone().assemble(f"add rax, {n}") for n in range(150))
