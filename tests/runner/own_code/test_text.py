"""Text to bytes: both syntaxes against the GNU assembler, directives, labels, what is refused."""

import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from iced_x86 import Decoder, Formatter, FormatterSyntax

from generator.harness.style import PAUSE, RESUME
from runner.own_code.reading import gnu_as
from runner.own_code.reading.att import intel_candidates
from runner.own_code.reading.text import OperandSyntax, assemble
from tests.nonempty import some
from xed_convert.errors import AssemblyError

ATT = """
movl $5, 8(%rax,%rcx,4)
movabsq $0x123456789abcdef, %rax
addq $-5, %rax
imulq $7, (%r14), %rax
movzbl (%r14), %eax
movsbq %al, %rbx
movslq %eax, %rbx
cltq
leaq 8(,%rcx,8), %rax
shll %eax
shlq %cl, %rbx
cmovl %eax, %ebx
cmovlq (%r14), %rbx
setl %al
pushq %rax
incl (%r14)
mull %ecx
testb $1, %al
lock addl $1, (%r14)
rep stosq
vaddps %zmm1, %zmm2, %zmm3{%k1}{z}
vaddps (%r14){1to16}, %zmm2, %zmm3
vaddpd {rn-sae}, %zmm1, %zmm2, %zmm3
cvtsi2sdq (%r14), %xmm0
pshufd $0x1b, %xmm1, %xmm2
fldl (%r14)
fadd %st(1), %st
fistpll (%r14)
btl $3, (%r14)
jmp *%rax
call *8(%r14)
movq %fs:0x28, %rax
vgatherdps %xmm1, (%r14,%xmm2,4), %xmm3
shldl $3, %eax, %ebx
enter $16, $0
"""
INTEL = """
add rax, [r14+8]
mov qword ptr [r14+rcx*4+64], 5
lea rbx, [rip+16]
vpternlogd zmm1{k1}, zmm2, zmm3, 5
lock xadd [r14], rax
rep movsb
fld st(3)
shld eax, ebx, cl
"""


def disassembled(code: bytes) -> list[str]:
    formatter = Formatter(FormatterSyntax.INTEL)
    return [formatter.format(instruction) for instruction in Decoder(64, code)]


@pytest.mark.parametrize(("text", "intel"), [(ATT, False), (INTEL, True)])
def test_every_line_means_what_the_gnu_assembler_says(text: str, intel: bool) -> None:
    if not shutil.which("as"):
        pytest.skip("no GNU assembler")
    for line in some(text.strip().splitlines()):
        expected = gnu_as.assemble(line, intel=intel)
        assert expected is not None, line
        assert disassembled(assemble(line, OperandSyntax.INTEL if intel else OperandSyntax.ATT)) == disassembled(
            expected
        ), line


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (".rept 3\nnop\n.endr", "909090"),
        (".rept 2; .rept 2; nop; .endr; inc eax; .endr", "9090ffc09090ffc0"),
        ("nop; .align 8; nop", "90" + "0f1f8000000000" + "90"),
        ("nop; .p2align 2; ret", "90" + "0f1f00" + "c3"),
        (".byte 0x90, 1; .word -1; .long 5; .quad 7", "9001ffff050000000700000000000000"),
        ("|3; .nops 2", "0f1f006690"),
        ("top: dec ecx; jnz top", "ffc975fc"),
        (".L1: dec ecx; jnz .L1", "ffc975fc"),
        ("jmp end; end:", "eb00"),
        ("a: jmp b; .rept 200; nop; .endr; b: nop", "e9c8000000" + "90" * 200 + "90"),
        ("nop # comment\n// nothing\nnop /* or\nthis */", "9090"),
        (".att_syntax; addl $1, %eax; .intel_syntax; add eax, 2", "83c00183c002"),
        ("pause_counting; nop; RESUME_COUNTING", (PAUSE + b"\x90" + RESUME).hex()),
        ("", ""),
    ],
)
def test_directives_labels_and_marks(text: str, code: str) -> None:
    assert assemble(text).hex() == code


@pytest.mark.parametrize("text", ["|15", "|9", "|1"])
def test_a_long_nop_is_one_instruction(text: str) -> None:
    (only,) = list(Decoder(64, assemble(text)))
    assert only.len == int(text[1:])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (".rept 3\nnop", ".rept without .endr"),
        (".endr", ".endr without .rept"),
        (".rept 1000000; nop; .endr", "not between 0 and"),
        (".rept 20000; .rept 20000; nop; .endr; .endr", "more than 20,000 statements"),
        (".frobnicate 3", "directive is not known"),
        (".align 3", "not a power of two"),
        (".byte 256", "no number of 1 bytes"),
        ("jmp nowhere", "nowhere"),
        ("|16", "1 to 15"),
        ("nosuch rax", "NOSUCH"),
        ("x" * 100_001, "100,000 characters"),
    ],
)
def test_what_cannot_be_assembled_says_why(text: str, said: str) -> None:
    with pytest.raises(AssemblyError, match=said):
        assemble(text)


def test_what_only_the_gnu_assembler_knows_is_left_to_it() -> None:
    if not shutil.which("as"):
        pytest.skip("no GNU assembler")
    assert assemble(".macro twice\nnop\nnop\n.endm\ntwice") == b"\x90\x90"


def test_att_readings_prefer_the_instruction_of_that_name() -> None:
    assert intel_candidates("cmovl %eax, %ebx") == ["CMOVL EBX, EAX", "CMOV EBX, EAX"]
    assert intel_candidates("movzwl (%r14), %eax") == ["MOVZX EAX, WORD PTR [R14]"]


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from("addmovrx,[]()%$0123456789 ;:\n.{}|*+-éà\x00"), max_size=60), st.booleans())
def test_garbage_is_assembled_or_an_error_of_ours(text: str, intel: bool) -> None:
    found: bytes | AssemblyError
    try:
        found = assemble(text, OperandSyntax.INTEL if intel else OperandSyntax.ATT)
    except AssemblyError as error:
        found = error
    assert isinstance(found, bytes) or found.message
