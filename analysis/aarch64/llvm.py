"""Runs llvm-mc and llvm-mca of an installed LLVM, and reads what they say about AArch64 text.

llvm-mca's instruction tables have latency, µops and the units that each instruction uses. A unit of a group has an
equal share. llvm-mc shows each instruction as LLVM holds it, in which an operand that is both written and read occurs
twice (LLVM command guide, llvm-mca and llvm-mc).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from analysis.errors import AnalysisError
from xed_convert.errors import UopscopeError

NEWEST, OLDEST = 30, 14
"""Versions that are looked for, as Debian names their programs; older ones cannot write tables as JSON."""
LIMIT_SECONDS = 120.0
ITERATIONS = 100
MOST_ERRORS = 3

_INSTRUCTION = re.compile(r"^\t(?P<text>[^/]*?)\s*// <MCInst #\d+ (?P<name>\w+)")
_OPERAND = re.compile(r"<MCOperand Reg:(\d+)>")
_WITHOUT_MODEL = re.compile(r"note: instruction:\s*(.*)")
_PLACE = re.compile(r"<stdin>:(\d+):\d+: error: (.*)")
_UNKNOWN_CPU = re.compile(r"'([\w-]+)' is not a recognized processor")


class ToolError(UopscopeError):
    """A program of LLVM is not installed, or its output cannot be used."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Described:
    """What LLVM says of an instruction: its text, latency and µops, cycles by unit, LLVM's name, register operands."""

    text: str
    latency: int
    uops: int
    units: dict[str, float]
    name: str
    registers: tuple[int, ...]
    loads: bool = False
    stores: bool = False


@dataclass(frozen=True)
class LlvmTables:
    """What LLVM says of a kernel: its units, its instructions, and what llvm-mca's own simulation took.

    `simulated` are core cycles per iteration, `issue_width` is how many µops are dispatched per cycle.
    """

    cpu: str
    units: tuple[str, ...]
    instructions: tuple[Described, ...]
    simulated: float
    issue_width: int
    version: str = field(default="")


def tables_of(text: str, cpu: str) -> LlvmTables:
    """Return what LLVM says of a kernel.

    Raises:
        ToolError: LLVM is not installed, or is older than the CPU.
        AnalysisError: the text is no AArch64 assembly that LLVM knows; the message names the line.
    """
    options = ("-mtriple=aarch64", f"-mcpu={cpu}")
    static = _json(_run("llvm-mca", (*options, "--json", "-instruction-tables"), text), cpu)
    simulated = _json(_run("llvm-mca", (*options, "--json", f"-iterations={ITERATIONS}"), text), cpu)
    shown = _shown(_run("llvm-mc", ("-triple=aarch64", f"-mcpu={cpu}", "--show-inst"), text))
    region = static["CodeRegions"][0]
    names = tuple(map(_readable, static["TargetInfo"]["Resources"]))
    summary = simulated["CodeRegions"][0]["SummaryView"]
    infos = region["InstructionInfoView"]["InstructionList"]
    units: list[dict[str, float]] = [{} for _ in infos]
    for one in region["ResourcePressureView"]["ResourcePressureInfo"]:
        if one["InstructionIndex"] < len(infos):  # the last ones are the sums
            units[one["InstructionIndex"]][names[one["ResourceIndex"]]] = float(one["ResourceUsage"])
    if len(shown) != len(infos):
        raise ToolError("llvm-mc and llvm-mca do not agree about the instructions", hint="install both of one version")
    described = [
        Described(
            " ".join(region["Instructions"][number].split()),
            int(info["Latency"]),
            int(info["NumMicroOpcodes"]),
            units[number],
            *shown[number],
            bool(info["mayLoad"]),
            bool(info["mayStore"]),
        )
        for number, info in enumerate(infos)
    ]
    cycles = summary["TotalCycles"] / summary["Iterations"]
    return LlvmTables(cpu, names, tuple(described), cycles, int(summary["DispatchWidth"]), version())


def _json(text: str, cpu: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise ToolError(f"llvm-mca has no model of {cpu}", hint="llvm-mca -mtriple=aarch64 -mcpu=help") from error
    return found


def _readable(unit: str) -> str:
    """Return a unit's name: units of one kind end with the character of their number in some versions of LLVM."""
    return re.sub(r"[\x00-\x1f]", lambda match: str(ord(match[0])), unit)


def _shown(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """Return LLVM's name of each instruction and its register operands, from the output of llvm-mc."""
    found: list[tuple[str, list[int]]] = []
    for line in text.splitlines():
        if match := _INSTRUCTION.match(line):
            found.append((match["name"], []))
        elif found and (operand := _OPERAND.search(line)):
            found[-1][1].append(int(operand[1]))
    return [(name, tuple(registers)) for name, registers in found]


def program(name: str) -> str:
    """Return the path of an LLVM program, of the newest version that is installed.

    Raises:
        ToolError: there is none.
    """
    found = next(filter(None, (shutil.which(f"{name}-{version}") for version in range(NEWEST, OLDEST - 1, -1))), None)
    found = found or shutil.which(name)
    if found is None:
        message = f"AArch64 kernels are analyzed by LLVM's models, and {name} is not installed"
        raise ToolError(message, hint="install LLVM 14 or newer (Debian: apt install llvm)")
    return found


@cache
def version() -> str:
    """Return the version of the LLVM that is used, as it states it."""
    text = subprocess.run([program("llvm-mca"), "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"LLVM version (\S+)", text)
    return match[1] if match else "?"


def _run(name: str, options: tuple[str, ...], text: str) -> str:
    try:
        done = subprocess.run(
            [program(name), *options, "-"],
            input=text,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolError(f"{name} took more than {LIMIT_SECONDS:.0f} s", hint="analyze less code at a time") from None
    except OSError as error:
        raise ToolError(f"{name}: {error.strerror}") from error
    if done.returncode:
        if unknown := _UNKNOWN_CPU.search(done.stderr):
            raise ToolError(f"LLVM {version()} has no CPU {unknown[1]}", hint="install a newer LLVM")
        places = _PLACE.findall(done.stderr)
        said = [f"line {line}: {what}" for line, what in places[:MOST_ERRORS]]
        if not said and (without := _WITHOUT_MODEL.search(done.stderr)):
            raise AnalysisError(f"LLVM's model of this CPU does not have {' '.join(without[1].split())!r}")
        what = "; ".join(said) or (done.stderr.strip().splitlines() or ["it failed"])[0]
        raise AnalysisError(f"LLVM cannot read this as AArch64 assembly: {what}")
    return done.stdout
