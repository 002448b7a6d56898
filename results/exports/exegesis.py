"""Benchmark files for `llvm-exegesis --mode=analysis` (LLVM 19), which compares them with LLVM's scheduling models.

llvm-exegesis names instructions by LLVM's opcodes and all their operands. `llvm-mc` of the same LLVM tells these names,
by disassembling a sample of each variant.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib import resources
from typing import IO, TYPE_CHECKING

from results.database.cycles import longest
from results.database.entries import is_model
from results.database.reader import DatabaseError
from results.exports.exporters import ExportError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from results.database.reader import ArchitectureResult, Entry
    from results.exports.exporters import ExportRequest
    from xed_convert.model import InstructionVariant

OPTION = "llvm-exegesis"
HELP = "Benchmarks for llvm-exegesis --mode=analysis."

KEYS = {"latency": "latency", "inverse_throughput": "inverse_throughput", "uops": "NumMicroOps"}
"""The key of a measurement by mode. Among µops, llvm-exegesis takes any other key for a port's name (LLVM 19,
`SchedClassResolution.cpp`)."""

MODES = tuple(KEYS)

_OPCODE = re.compile(r"<MCInst #\d+ (?P<opcode>\w+)(?P<operands>(?:(?!<MCInst).)*)", re.DOTALL)
_OPERAND = re.compile(r"<MCOperand (?P<kind>Reg|Imm|SFPImm|DFPImm|Expr):(?P<value>[^>]*)>")
_REGISTER_SAMPLES = (
    ("pushq %{}", "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15"),
    ("bswapl %{}", "eax ecx edx ebx esp ebp esi edi r8d r9d r10d r11d r12d r13d r14d r15d"),
    ("incw %{}", "ax cx dx bx sp bp si di r8w r9w r10w r11w r12w r13w r14w r15w"),
    ("incb %{}", "al cl dl bl spl bpl sil dil r8b r9b r10b r11b r12b r13b r14b r15b ah ch dh bh"),
    ("vxorps %{0}, %{0}, %{0}", " ".join(f"{kind}mm{n}" for kind in "xy" for n in range(16))),
    ("vpxord %{0}, %{0}, %{0}", " ".join(f"{kind}mm{n}" for kind in "xy" for n in range(16, 32))),
    ("vpxord %{0}, %{0}, %{0}", " ".join(f"zmm{n}" for n in range(32))),
    ("kmovw %{0}, %{0}", " ".join(f"k{n}" for n in range(8))),
    ("pxor %{0}, %{0}", " ".join(f"mm{n}" for n in range(8))),
    ("tilezero %{}", " ".join(f"tmm{n}" for n in range(8))),
    ("fld %{}", " ".join(f"st({n})" for n in range(8))),
)


@dataclass(frozen=True, slots=True)
class _Sample:
    entry: Entry
    code: bytes


def export(request: ExportRequest, file: IO[bytes]) -> str:
    """Write the benchmarks of the one architecture in the mode that was asked for.

    Raises:
        ExportError: there is no such mode, or there are several architectures.
        DatabaseError: llvm-mc is not installed, LLVM has no name for the CPU, or nothing can be written.
    """
    if request.mode not in MODES:
        raise ExportError(f"unknown mode {request.mode!r}", hint=f"it is one of {', '.join(MODES)}")
    architecture = request.of_one_architecture()
    return f"{write_exegesis(request.entries, architecture, request.mode, request.code_of, file)} benchmarks"


def write_exegesis(
    entries: Iterable[Entry],
    architecture: str,
    mode: str,
    code_of: Callable[[InstructionVariant], bytes | None],
    file: IO[bytes],
) -> int:
    """Write one YAML document per variant that has the number that `mode` asks for; return how many.

    Args:
        entries: the database.
        architecture: whose results.
        mode: one of `MODES`.
        code_of: gives the bytes of a sample instruction of a variant, or None.
        file: where to write.

    Raises:
        DatabaseError: llvm-mc is not installed, LLVM has no name for the CPU, or nothing can be written.
    """
    cpu = llvm_cpu(architecture)
    samples = []
    for entry in entries:
        known = architecture in entry.results and _value(entry.results[architecture], mode) is not None
        code = code_of(entry.variant) if known else None
        if code is not None:
            samples.append(_Sample(entry, code))
    if not samples:
        raise DatabaseError(
            f"{architecture}: no instruction has what the mode {mode} shows",
            hint=f"--mode is one of {', '.join(MODES)}",
        )
    count = 0
    for sample, instruction in zip(samples, llvm_instructions([sample.code for sample in samples]), strict=True):
        value = _value(sample.entry.results[architecture], mode)
        if instruction is not None and value is not None:
            info = MODEL if is_model(sample.entry.results[architecture].measurement) else ""
            file.write(_document(mode, instruction, cpu, sample.code, value, info).encode())
            count += 1
    return count


def llvm_cpu(architecture: str) -> str:
    """Return LLVM's name of a CPU (`data/llvm_cpus.tsv`).

    Raises:
        DatabaseError: there is none.
    """
    text = resources.files("results").joinpath("data/llvm_cpus.tsv").read_text(encoding="utf-8")
    names = {row["architecture"]: row["cpu"] for row in csv.DictReader(text.splitlines(), delimiter="\t")}
    if architecture not in names:
        raise DatabaseError(f"LLVM 19 has no CPU name for {architecture}", hint=f"it has: {', '.join(names)}")
    return names[architecture]


def llvm_instructions(codes: Sequence[bytes]) -> list[str | None]:
    """Return each instruction as `ADD64rr RBX RBX RAX`, or None where LLVM does not know it.

    Raises:
        DatabaseError: llvm-mc is not installed.
    """
    program = shutil.which("llvm-mc-19") or shutil.which("llvm-mc")
    if program is None:
        raise DatabaseError("llvm-mc is not installed", hint="on Debian and Ubuntu: apt-get install llvm-19")
    registers = _register_names(program)
    # A NOP that no variant uses stands between instructions, so that output can be cut where LLVM rejects one of them
    text = "\n".join(" ".join(f"0x{byte:02x}" for byte in (*code, *_SEPARATOR)) for code in codes)
    output = _run([program, "--disassemble", "--show-inst", "-mattr=" + _EVERYTHING], text)
    parts = re.split(_SEPARATOR_TEXT, output)[: len(codes)]
    parts += [""] * (len(codes) - len(parts))
    return [_instruction(part, registers) for part in parts]


_SEPARATOR = (0x0F, 0x1F, 0x80, 0x78, 0x56, 0x34, 0x12)
_SEPARATOR_TEXT = r".*nopl\t0?x?(?:305419896|0x12345678)\(%rax\).*(?:\n.*<MCOperand.*)*"
_EVERYTHING = (
    "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd,+avx512vbmi,+avx512vbmi2,+avx512ifma,+avx512vnni,+avx512bitalg,"
    "+avx512vpopcntdq,+avx512bf16,+avx512fp16,+avx512vp2intersect,+gfni,+vaes,+vpclmulqdq,+amx-tile,+amx-int8,+amx-bf16"
)


def _register_names(program: str) -> dict[int, str]:
    """Return LLVM's register numbers with their names, from assembling an instruction with each."""
    names = [name for _, group in _REGISTER_SAMPLES for name in group.split()]
    lines = [form.format(name) for form, group in _REGISTER_SAMPLES for name in group.split()]
    output = _run([program, "--show-inst", "-mattr=" + _EVERYTHING], "\n".join(lines) + "\n")
    found = [_OPERAND.search(match["operands"]) for match in _OPCODE.finditer(output)]
    pairs = zip(found, names, strict=True)
    return {int(match["value"]): _llvm_name(name) for match, name in pairs if match is not None} | {0: "%noreg"}


def _llvm_name(name: str) -> str:
    return name.upper().replace("(", "").replace(")", "")


def _run(command: list[str], text: str) -> str:
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=300).stdout


def _instruction(text: str, registers: dict[int, str]) -> str | None:
    matches = list(_OPCODE.finditer(text))
    if len(matches) != 1:
        return None
    operands = [_operand(one["kind"], one["value"], registers) for one in _OPERAND.finditer(matches[0]["operands"])]
    return None if None in operands else " ".join([matches[0]["opcode"], *(one or "" for one in operands)])


def _operand(kind: str, value: str, registers: dict[int, str]) -> str | None:
    if kind == "Reg":
        return registers.get(int(value))
    return f"i_0x{int(value) & (1 << 64) - 1:x}" if kind == "Imm" else None


def _value(result: ArchitectureResult, mode: str) -> float | None:
    """Return the one number that llvm-exegesis knows: the longest latency, the least throughput, or the µops.

    None if it is not known: an upper bound of a latency is no value.
    """
    values = result.measurement or {}
    if mode == "latency":
        return longest(result.latencies)
    if mode == "uops":
        return float(values["uops"]) if "uops" in values else None
    return min((float(values[name]) for name in ("TP_unrolled", "TP_loop") if name in values), default=None)


MODEL = "a simulated model of the CPU said so, nothing was measured"


def _document(mode: str, instruction: str, cpu: str, code: bytes, value: float, info: str) -> str:
    measured = {"key": KEYS[mode], "value": value, "per_snippet_value": value, "validation_counters": {}}
    return (
        f"---\nmode: {mode}\nkey:\n  instructions:\n    - {json.dumps(instruction)}\n  config: ''\n"
        f"  register_initial_values: []\ncpu_name: {cpu}\nllvm_triple: x86_64-unknown-linux-gnu\n"
        f"min_instructions: 100\nmeasurements:\n  - {json.dumps(measured)}\nerror: ''\ninfo: {json.dumps(info)}\n"
        f"assembled_snippet: {code.hex().upper()}C3\n...\n"
    )
