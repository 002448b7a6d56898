"""Assembly text as GCC, Clang and ICC write it: bytes, lines, labels, symbols without a linker."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from analysis.errors import AnalysisError
from runner.own_code.analyzing.analyzed import of_object, of_text
from runner.own_code.code import lines_of
from runner.own_code.reading.debug_lines import lines_of as debug_lines_of
from runner.own_code.reading.listing import list_text
from runner.own_code.reading.objects import read_program
from runner.own_code.reading.text import OperandSyntax
from tests.nonempty import some
from tests.runner.cli.commands import need_catalogue
from xed_convert.errors import AssemblyError, UopscopeError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _catalogue() -> None:
    need_catalogue()


GCC = """\
	.file	"x.c"
	.section	.rodata.cst8,"aM",@progbits,8
.LC0:
	.long	0
	.string "a;b # c"
	.text
	.globl	f
f:
.LFB0:
	.file 1 "x.c"
	.loc 1 3 5
	vmovsd	.LC0(%rip), %xmm0
	movl	$.LC1, %edi
	movq	%rax, arr+8(,%rcx,8)
	.p2align 4,,10
.L3:
	.loc 1 4 6 is_stmt 1
	vaddsd	.LC0(%rip), %xmm0, %xmm0
	lock addl	$1, x(%rip)
	jne	.L9
	call	foo@PLT
	cmpq	%rax, %rdi
	jne	.L3
	ret
	.size	f, .-f
	.section	.note.GNU-stack,"",@progbits
"""

CLANG = """\
	.intel_syntax noprefix
	.p2align	4, 0x90                         # -- Begin function f
f:                                      # @f
# %bb.0:
	vmovsd	xmm0, qword ptr [rip + .LCPI0_0] # xmm0 = mem[0],zero
.LBB0_1:                                # =>This Inner Loop Header: Depth=1
	vaddsd	xmm0, xmm0, qword ptr [rip + .LCPI0_0]
	lea	rax, [rdi + 8*rcx]
	rep		stosq
	inc	rcx
	jne	.LBB0_1
"""

ICC = """\
..B1.4:                         # Preds ..B1.4 ..B1.3
                                # Execution count [5.00e+00]
        vmovupd   (%rsi,%r8,8), %ymm0                           #5.16
        vfmadd213pd (%rdx,%r8,8), %ymm1, %ymm0                  #5.23
        vmovupd   %ymm0, (%rdi,%r8,8)                           #5.7
        addq      $4, %r8                                       #4.5
        cmpq      %rcx, %r8                                     #4.5
        jb        ..B1.4        # Prob 82%                      #4.5
"""

GCC_INTEL = """\
.L3:
	vmovsd	xmm0, QWORD PTR .LC0[rip]
	vmovsd	xmm1, QWORD PTR .LC0[rip+8]
	mov	edi, OFFSET FLAT:.LC1
	mov	rax, QWORD PTR arr[0+rax*8]
	mov	rax, QWORD PTR -8[rsp]
	vmovupd	ymm0, YMMWORD PTR [8+rsi+r8*8]
	jmp	SHORT .L3
"""


INTEL_MEMORY = """\
	add	rax, total
	mov	edx, DWORD PTR total
	mov	DWORD PTR total[rip], 5
	mov	edx, OFFSET total
	mov	eax, DWORD PTR total+4
	mov	eax, DWORD PTR [total+8]
"""


def shown(text: str) -> list[str]:
    return [line.text for line in lines_of(list_text(text).code)]


def test_what_gcc_writes() -> None:
    found = list_text(GCC)
    assert [place.line for place in found.places] == [12, 13, 14, 15, 18, 19, 20, 21, 22, 23, 24]
    assert found.places[-1].text == "ret"
    assert [place.source for place in found.places][:5] == [("x.c", 3)] * 4 + [("x.c", 4)]
    assert found.labels == {"f": 0, ".LFB0": 0, ".L3": 32}
    said = shown(GCC)
    assert said[0] == "VMOVSD XMM0,[0x10000000]"
    assert said[1] == "MOV EDI,0x10010000"
    assert said[2] == "MOV [RCX*8+0x10020008],RAX"
    assert "VADDSD XMM0,XMM0,[0x10000000]" in said  # the same place, from another instruction
    assert said[-2:] == ["JNE short 0x0000000000000020", "RET"]


def test_what_clang_writes() -> None:
    assert shown(CLANG) == [
        "VMOVSD XMM0,[0x10000000]",
        "VADDSD XMM0,XMM0,[0x10000000]",
        "LEA RAX,[RDI+RCX*8]",
        "rep STOSQ [RDI]",
        "INC RCX",
        "JNE short 8",
    ]


def test_a_symbol_in_intel_syntax_is_memory_unless_its_offset_is_meant() -> None:
    assert shown(INTEL_MEMORY) == [
        "ADD RAX,[0x10000000]",
        "MOV EDX,[0x10000000]",
        "MOV dword ptr [0x10000000],5",
        "MOV EDX,0x10000000",
        "MOV EAX,[0x10000004]",
        "MOV EAX,[0x10000008]",
    ]


@pytest.mark.parametrize(
    ("text", "code"),  # as GNU as encodes them, with 0x10000000 for the first symbol
    [
        ("jmp [rax*8 + .L4]", "ff24c500000010"),
        ("call [foo]", "ff142500000010"),
        ("call fs:[rax + foo]", "64ff9000000010"),
        ("mov eax, DWORD PTR fs:foo@tpoff", "648b042500000010"),
        ("mov eax, DWORD PTR foo+4", "8b042504000010"),
        ("mov eax, OFFSET FLAT:4+foo", "b804000010"),
        ("imul rax, foo, 3", "486b04250000001003"),
        ("push foo", "ff342500000010"),
        ("push OFFSET FLAT:foo", "6800000010"),
        (".set N, 16; cmp rax, N", "4883f810"),
        (".equ N, 3; shl rax, N", "48c1e003"),
        ("vaddps zmm0, zmm1, zmm2, {rn-sae}", "62f1741858c2"),
    ],
)
def test_symbols_in_intel_syntax_are_encoded_as_by_gnu_as(text: str, code: str) -> None:
    assert list_text(text.replace("; ", "\n")).code.hex() == code


def test_a_branch_with_an_unusual_prefix_is_no_indirect_one() -> None:
    assert list_text("foo: {disp32} jmp foo").code.hex() == "e9fbffffff"
    with pytest.raises(UopscopeError):
        list_text("data16 call foo")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{vex} vpdpbusd ymm0, ymm1, ymm2", "c4e27550c2"),
        ("{vex} vpdpbusd %ymm2, %ymm1, %ymm0", "c4e27550c2"),
        ("{evex} vaddps ymm0, ymm1, ymm2", "62f1742858c2"),
    ],
)
@pytest.mark.skipif(shutil.which("as") is None, reason="GNU as reads pseudo-prefixes")
def test_pseudo_prefixes_are_read(text: str, code: str) -> None:
    assert list_text(text).code.hex().startswith(code)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("x: call QWORD PTR foo[raxx*9]", "'call QWORD PTR foo[raxx*9]'"), ("ldr d1, [x1], #8", "'ldr d1, ")],
)
def test_an_error_quotes_what_was_written(text: str, quoted: str) -> None:
    with pytest.raises(UopscopeError) as raised:
        list_text(text)
    assert quoted in raised.value.message
    assert "268" not in raised.value.message


def test_what_icc_writes() -> None:
    found = list_text(ICC)
    assert [place.line for place in found.places] == [3, 4, 5, 6, 7, 8]
    assert shown(ICC)[-1] == "JB short 0"


def test_gccs_intel_syntax() -> None:
    said = shown(GCC_INTEL)
    assert said[:3] == ["VMOVSD XMM0,[0x10000000]", "VMOVSD XMM1,[0x10000008]", "MOV EDI,0x10010000"]
    assert said[4:] == ["MOV RAX,[RSP-8]", "VMOVUPD YMM0,[RSI+R8*8+8]", "JMP short 0"]


def test_a_region_may_leave_out_the_label_it_jumps_to() -> None:
    text = ".L3:\n# OSACA-BEGIN\ndec rcx\njne .L3\n# OSACA-END\njmp .L9\n"
    found = list_text(text)
    assert found.code == bytes.fromhex("48ffc975fb")
    assert [place.line for place in found.places] == [3, 4]


def test_marks_of_bytes_in_text() -> None:
    begin, end = (f"movl ${number}, %ebx\n.byte 100\n.byte 103\n.byte 144\n" for number in (111, 222))
    found = list_text(f"nop\n{begin}.L2:\naddq %rax, %rbx\njne .L2\n{end}ret\n")
    assert found.code == bytes.fromhex("4801c375fb")
    assert [place.line for place in found.places] == [7, 8]
    assert found.labels == {".L2": 0}


@pytest.mark.parametrize("text", ["1: dec rax; jnz 1b", "dec rax; 1: jnz 1b; jmp 1f; 1: nop"])
def test_numeric_labels(text: str) -> None:
    assert "0x" not in shown(text)[-1]


def test_errors_name_the_line() -> None:
    with pytest.raises(AssemblyError, match=r"line 3: .*NOSUCH"):
        list_text("nop\n/* a\ncomment */ nosuch rax\n")
    with pytest.raises(AnalysisError, match="no label 'g'"):
        of_text(GCC, "x.s", function="g")


def test_the_first_error_counts_though_statements_are_encoded_together() -> None:
    with pytest.raises(AssemblyError, match="line 2: "):
        list_text("nop\nadd rax, xmm0\nnop\nadd %rax, (%rbx", OperandSyntax.INTEL)


def test_statements_keep_their_bytes_and_lines_when_many_are_encoded_together() -> None:
    text = "\n".join(f"l{n}: add ${n}, %rax\n\tmovq {n}(%rbx), %rcx\n\tjne l{n}" for n in range(400))
    listing = list_text(text)
    places = [(listing.code[a.offset : b.offset].hex(), a.line) for a, b in pairwise(listing.places)]
    assert places[:3] == [("4883c000", 1), ("488b0b", 2), ("75f7", 3)]
    assert places[3 * 399 :] == [("48058f010000", 3 * 399 + 1), ("488b8b8f010000", 3 * 399 + 2)]
    assert listing.labels["l399"] == listing.places[3 * 399].offset


def test_many_aligned_labels_settle() -> None:
    """As in a `switch` of GCC. Where a branch grows, all that is behind it moves, and the fillers change."""
    count = 60
    rows = (f".p2align 4\n.L{n}:\n\taddl $1, %eax\n\tjne .L{7 * n % count}\n" for n in range(count))
    code = of_text("".join(rows)).code
    assert [code[16 * n : 16 * n + 3] for n in range(count)] == [b"\x83\xc0\x01"] * count


def test_a_function_of_a_text() -> None:
    text = "f: nop\n.L1: dec rcx\njnz .L1\ng: ret\n"
    assert of_text(text, function="f").code == list_text("nop\na: dec rcx\njnz a").code
    assert of_text(text, function="g").code == b"\xc3"


SOURCE = """\
#ifdef MARKED
#define BEGIN __asm__ volatile("# OSACA-BEGIN");
#define END __asm__ volatile("# OSACA-END");
#else
#define BEGIN
#define END
#endif
extern double table[]; extern double half(double);
void f(long n, double a, const double *restrict x, double *restrict y) {
    for (long i = 0; i < n; i++) { BEGIN
        y[i] = a * x[i] + table[i] * 0.125; END
    }
    y[0] = half(y[0]);
}
"""


def compiled(folder: Path, *options: str, output: str) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc here")
    (folder / "x.c").write_text(SOURCE)
    target = folder / output
    subprocess.run([compiler, "-O2", *options, "-o", str(target), str(folder / "x.c")], check=True)
    return target


@pytest.mark.parametrize("syntax", [OperandSyntax.ATT, OperandSyntax.INTEL])
def test_real_output_of_gcc_has_the_instructions_of_its_object_file(tmp_path: Path, syntax: OperandSyntax) -> None:
    option = f"-masm={syntax.value}"
    text = compiled(tmp_path, "-S", "-g", option, output="x.s").read_text()
    program = compiled(tmp_path, "-c", "-g", option, output="x.o")
    ((_, code),) = read_program(program).functions("f")
    names = [line.text.split()[0] for line in some(lines_of(code), 10)]
    found = list_text(text)
    assert [line.text.split()[0] for line in lines_of(found.part(0, len(found.code)).code)] == names
    assert {place.source[1] for place in found.places if place.source} >= {10, 11, 13}
    lines = [place.source[1] for place in found.places if place.source]
    line_at = debug_lines_of(program, 0, len(code))
    told = [line_at(place.offset) for place in found.places]
    assert sum(one is not None and one[1] == line for one, line in zip(told, lines, strict=True)) >= len(lines) - 2


def test_a_region_marked_in_c(tmp_path: Path) -> None:
    text = compiled(tmp_path, "-S", "-DMARKED", output="x.s").read_text()
    found = list_text(text)
    assert 4 <= len(found.places) < 12
    assert re.search(r"mulsd", " ".join(place.text for place in found.places))


def test_a_function_of_an_object_file_has_its_source_lines(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-c", "-g", output="x.o")
    given = of_object(program, "f", whole=True)
    lines = [given.line_at(offset) for offset in range(0, len(given.code), 4)]
    assert any(line is not None and line.text.startswith("y[i] = a * x[i]") for line in some(lines, 5))
    assert debug_lines_of(tmp_path / "x.c", 0, 100)(5) is None
