"""AT&T syntax to Intel syntax, one statement at a time.

    movl $5, 8(%rax,%rcx,4)   ->  MOV DWORD PTR [RAX+RCX*4+8], 5
    jmp *%rax                 ->  JMP RAX

A mnemonic may carry a size (movl), and may look as if it did (CMOVL, SHL). So a statement has several readings, and the
first that can be encoded counts. Source: GNU as manual, 9.16.3 (i386 syntactical considerations) and 9.16.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xed_convert.errors import AssemblyError

_PREFIXES = {"lock", "rep", "repe", "repz", "repne", "repnz", "notrack", "data16"}
_SUFFIXES = {"b": "BYTE", "w": "WORD", "l": "DWORD", "q": "QWORD"}
_RENAMED = {
    "cbtw": "CBW",
    "cwtl": "CWDE",
    "cwtd": "CWD",
    "cltd": "CDQ",
    "cltq": "CDQE",
    "cqto": "CQO",
    "movabs": "MOV",
    "movabsq": "MOV",
    "movslq": "MOVSXD",
    "movsxd": "MOVSXD",
    "ljmp": "JMP FAR",
    "lcall": "CALL FAR",
    "lret": "RET FAR",
    "movsl": "MOVSD",
    "cmpsl": "CMPSD",
    "stosl": "STOSD",
    "lodsl": "LODSD",
    "scasl": "SCASD",
}
"""Mnemonics that differ in more than a size."""
_EXTENDS = re.compile(r"mov([sz])([bwl])([wlq])")
_FLOAT_SIZES = {"s": "DWORD", "l": "QWORD", "t": "TBYTE"}
_INTEGER_SIZES = {"ll": "QWORD", "q": "QWORD", "l": "DWORD", "s": "WORD"}
_MEMORY = re.compile(r"(?:%([a-z]s):)?([^()]*)\(([^()]*)\)")
_REGISTER = re.compile(r"%([a-z][a-z0-9]*(?:\(\d\))?)((?:\{[^{}]*\})*)", re.IGNORECASE)
_BRANCHES = re.compile(r"j[a-z]+|call[a-z]?|loop[a-z]*|xbegin", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand in Intel syntax; `decorations` are masks and broadcasts behind it."""

    text: str
    is_memory: bool = False
    decorations: str = ""

    def written(self, size: str) -> str:
        """Return the operand, with the size before memory."""
        return (f"{size} PTR {self.text}" if self.is_memory and size else self.text) + self.decorations


def intel_candidates(text: str) -> list[str]:
    """Return what a statement may mean, the likeliest reading first.

    Raises:
        AssemblyError: an operand cannot be read.
    """
    prefixes, mnemonic, rest = _split(text)
    operands = [_operand(piece, mnemonic) for piece in _pieces(rest)]
    shown = [one for one in operands if not one.text.startswith("{")]
    rounding = [one.text for one in operands if one.text.startswith("{")]
    found = []
    for name, size, source_size in _readings(mnemonic):
        ordered = shown if name.startswith(("ENTER", "BOUND")) else shown[::-1]
        written = [one.written(source_size if one is shown[0] and source_size else size) for one in ordered]
        if name in {"SHL", "SAL", "SHR", "SAR", "ROL", "ROR", "RCL", "RCR"} and len(written) == 1:
            written.append("1")
        found.append(" ".join([*prefixes, name, ", ".join([*written, *rounding])]).strip())
    return found


def _split(text: str) -> tuple[list[str], str, str]:
    """Split off prefixes and the mnemonic."""
    prefixes = []
    rest = text.strip()
    while True:
        word, _, behind = rest.partition(" ")
        if not behind or word.lower() not in _PREFIXES:
            break
        prefixes.append(word.upper())
        rest = behind.strip()
    word, _, behind = rest.replace("\t", " ").partition(" ")
    return prefixes, word.lower(), behind.strip()


def _readings(mnemonic: str) -> list[tuple[str, str, str]]:
    """Return mnemonics with the size of memory operands, and that of the source where it differs."""
    if mnemonic in _RENAMED:
        return [(_RENAMED[mnemonic], "", ""), (mnemonic.upper(), "", "")]
    if found := _EXTENDS.fullmatch(mnemonic):
        name = "MOVSXD" if found[2] == "l" else "MOVSX" if found[1] == "s" else "MOVZX"
        return [(name, _SUFFIXES[found[3]], _SUFFIXES[found[2]])]
    readings = [(mnemonic.upper(), "", "")]
    if mnemonic.startswith("f"):
        sizes = _INTEGER_SIZES if mnemonic.startswith("fi") else _FLOAT_SIZES
        readings += [
            (mnemonic.removesuffix(end).upper(), size, "") for end, size in sizes.items() if mnemonic.endswith(end)
        ]
    if mnemonic[-1:] in _SUFFIXES and len(mnemonic) > 2:
        plain = (mnemonic[:-1].upper(), _SUFFIXES[mnemonic[-1]], "")
        readings = [plain, *readings] if mnemonic in {"movsb", "movsw"} else [*readings, plain]
    return readings


def _pieces(text: str) -> list[str]:
    """Split at commas outside of parentheses and braces."""
    found, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "({") - (character in ")}")
        if character == "," and not depth:
            found.append(text[start:at].strip())
            start = at + 1
    return [*found, text[start:].strip()] if text.strip() else []


def _operand(text: str, mnemonic: str) -> _Operand:
    body = text.removeprefix("*").strip()
    if body.startswith("$"):
        return _Operand(body[1:].strip())
    if body.startswith("{"):
        return _Operand(body)
    if found := _REGISTER.fullmatch(body):
        return _Operand(found[1].upper(), decorations=found[2].replace("%", ""))
    bare, braces = re.match(r"([^{]*)((?:\{[^{}]*\})*)", body).groups()  # type: ignore[union-attr] # it matches anything
    if found := _MEMORY.fullmatch(bare.strip()):
        return _Operand(_address(found, text), is_memory=True, decorations=braces.replace("%", ""))
    if _BRANCHES.fullmatch(mnemonic) and not text.startswith("*"):
        return _Operand(body)
    segment, colon, offset = bare.rpartition(":")
    if not re.fullmatch(r"[-+\s0-9a-fA-FxX]+", offset):
        raise AssemblyError(f"{text!r} is no operand of AT&T syntax", hint="as in: movl $5, 8(%rax,%rcx,4)")
    return _Operand(f"{segment.strip().removeprefix('%').upper()}{colon}[{offset.strip()}]", is_memory=True)


def _address(found: re.Match[str], text: str) -> str:
    """Return an address in brackets."""
    segment, displacement, inside = found[1], found[2].strip(), found[3]
    parts = [part.strip() for part in inside.split(",")]
    if len(parts) > 3 or any(part and not part.startswith("%") for part in parts[:2]):
        raise AssemblyError(f"{text!r} is no address: displacement(%base,%index,scale)")
    terms = [parts[0][1:].upper()] if parts[0] else []
    if len(parts) > 1 and parts[1]:
        terms.append(f"{parts[1][1:].upper()}*{parts[2] if len(parts) > 2 else '1'}")
    address = "+".join(terms)
    if displacement:
        address += displacement if displacement[0] in "+-" or not address else f"+{displacement}"
    return f"{segment.upper()}:[{address}]" if segment else f"[{address}]"
