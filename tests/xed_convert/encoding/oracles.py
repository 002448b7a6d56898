"""Independent oracles of the encodings: iced-x86, the GNU assembler, llvm-mc."""

from __future__ import annotations

import csv
import fnmatch
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import iced_x86
import pytest

from tests.shared import DATA

if TYPE_CHECKING:
    from pathlib import Path

    from xed_convert.model import InstructionVariant

TABLE = DATA / "encoding_oracles.tsv"
_ERROR = re.compile(r"[^:]*:(\d+)(?::\d+)?: (?:Error|error)\b: ?(.*)")


@dataclass(frozen=True, slots=True)
class ExplainedDifference:
    """A row of the table: what an oracle says of some variants, and why.

    `what` is `unknown` (the oracle has no such instruction), `alias` (it calls it otherwise) or `differs`.
    """

    oracle: str
    what: str
    pattern: str
    meant: str
    reason: str

    def covers(self, variant: InstructionVariant) -> bool:
        """Whether the row is about a variant: its pattern matches the string, the iclass, or `isa_set:` its ISA set."""
        names = (variant.string, variant.iclass, f"isa_set:{variant.isa_set}", f"extension:{variant.extension}")
        return any(fnmatch.fnmatchcase(name, self.pattern) for name in names)


def explanations(oracle: str) -> list[ExplainedDifference]:
    """Return the table's rows about an oracle."""
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    rows = csv.DictReader(lines, delimiter="\t")
    return [ExplainedDifference(**row) for row in rows if row["oracle"] == oracle]


def tool(*names: str) -> str:
    """Return the path of the first of these programs that exists; skip if there is none."""
    for name in names:
        if path := shutil.which(name):
            return path
    pytest.skip(f"none of {', '.join(names)} is installed")


def assemble_all(lines: list[str], command: list[str], folder: Path) -> list[bytes | str]:
    """Assemble each line by itself; return bytes, or the message of the assembler where it refuses."""
    objcopy = tool("objcopy")
    results: list[bytes | str] = [b""] * len(lines)
    todo = list(range(len(lines)))
    source, output = folder / "all.s", folder / "all.o"
    for _ in range(4):
        _write(source, [lines[number] for number in todo])
        run = subprocess.run([*command, "-o", str(output), str(source)], capture_output=True, text=True, check=False)
        refused: dict[int, str] = {}
        for found in filter(None, map(_ERROR.match, run.stderr.splitlines())):
            refused.setdefault(todo[(int(found[1]) - 2) // 4], found[2])
        for number, message in refused.items():
            results[number] = message
        todo = [number for number in todo if number not in refused]
        if run.returncode == 0:
            break
        assert refused, run.stderr[:1000]
    for name in ("text", "lengths"):
        subprocess.run([objcopy, "-O", "binary", "-j", f".{name}", str(output), str(folder / name)], check=True)
    text, raw = (folder / "text").read_bytes(), (folder / "lengths").read_bytes()
    for number, length, start in zip(
        todo, struct.unpack(f"<{len(todo)}I", raw), range(0, 16 * len(todo), 16), strict=True
    ):
        results[number] = text[start : start + length]
    return results


def _write(source: Path, lines: list[str]) -> None:
    """Write four lines for each instruction: the code at a multiple of 16 bytes, its length in a section of its own."""
    parts = [".intel_syntax noprefix"]
    for number, line in enumerate(lines):
        parts += [
            f".text; a{number}:",
            line,
            f"b{number}: .p2align 4",
            f'.section .lengths,"a"; .long b{number}-a{number}',
        ]
    source.write_text("\n".join(parts) + "\n", encoding="utf-8")


_FAMILIES = ("CMOV", "SET", "J")
_CONDITIONS = {"AE": "NB", "NE": "NZ", "E": "Z", "G": "NLE", "A": "NBE", "GE": "NL"}
_MNEMONICS = {value: name for name, value in vars(iced_x86.Mnemonic).items() if isinstance(value, int)}


def same_mnemonic(decoded: iced_x86.Instruction, variant: InstructionVariant) -> str:
    """Return `agrees` if iced-x86's mnemonic is that of the variant, else `alias`."""
    name = _MNEMONICS[decoded.mnemonic]
    names = {name}
    for family in _FAMILIES:
        if name.startswith(family):
            names.add(family + _CONDITIONS.get(name.removeprefix(family), "?"))
    return "agrees" if names & {variant.iclass, *variant.asm.split()} else "alias"
