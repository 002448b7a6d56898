"""Instruction records: `{ KEY : value ... }` in nonterminals whose name contains INSTRUCTIONS.

The groups PATTERN / OPERANDS / IFORM repeat within a record; each PATTERN makes a `Record` of its own.
`UDELETE : uname` and `DELETE : iclass`, anywhere, delete records. Of an iclass, only the records of the highest VERSION
count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xed_convert.datafiles.nonterminals import match_head
from xed_convert.errors import ConversionError
from xed_convert.numbers import decimal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xed_convert.datafiles.source import FileLine, Location

_KEY = re.compile(r"([A-Z_][A-Z0-9_]*)\s*:\s*(.*)")
_REQUIRED = ("ICLASS", "CATEGORY", "EXTENSION", "CPL")
_KNOWN_KEYS = frozenset(
    (
        "ICLASS",
        "CATEGORY",
        "EXTENSION",
        "ISA_SET",
        "CPL",
        "ATTRIBUTES",
        "FLAGS",
        "COMMENT",
        "UNAME",
        "VERSION",
        "DISASM",
        "DISASM_INTEL",
        "DISASM_ATTSV",
        "EXCEPTIONS",
        "REAL_OPCODE",
        "OPCODE",
        "PATTERN",
        "OPERANDS",
        "IFORM",
        "UCODE",
        "STATUS",
    )
)
_DELETIONS = ("UDELETE", "DELETE")


@dataclass(frozen=True, slots=True)
class Record:
    """One PATTERN of a record, with the keys that all patterns of the record share.

    `location` is the line of the PATTERN. If the record gives no ISA set, `isa_set` is the extension; if it gives no
    iform, `iform` is "". `attributes` are in upper case.
    """

    location: Location
    nonterminal: str
    iclass: str
    category: str
    extension: str
    isa_set: str
    cpl: int
    attributes: frozenset[str]
    flags: str
    uname: str
    version: int
    disasm: str
    disasm_intel: str
    real_opcode: str
    pattern: str
    operands: str
    iform: str

    def error(self, message: str, *, hint: str = "") -> ConversionError:
        """Return (not raise) an error that begins with the place of the pattern."""
        return ConversionError(f"{self.location}: {self.iclass}: {message}", hint=hint)


def read_records(files: Iterable[list[FileLine]]) -> list[Record]:
    """Read the records of instruction files (each a list of lines) and apply deletions and versions.

    Raises:
        ConversionError: a line is not of the known forms, or a record is not closed or lacks a key.
    """
    reader = _Reader()
    for lines in files:
        reader.read(lines)
    return reader.surviving()


class _Reader:
    """Collects records and deletions over all files."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.deleted_names: set[str] = set()
        self.deleted_iclasses: set[str] = set()
        self.nonterminal = ""

    def read(self, lines: list[FileLine]) -> None:
        """Read one file. Records before its first `NAME()::` belong to the last nonterminal of the file before."""
        opened: FileLine | None = None
        body: list[FileLine] = []
        for line in lines:
            if opened is None:
                opened, body = self._outside(line), []
            elif line.text == "}":
                self.records += _read_body(body, opened, self.nonterminal)
                opened = None
            elif line.text == "{" or match_head(line):
                raise line.error(f"expected `KEY : value` or the end of the record that begins at line {opened.number}")
            else:
                body.append(line)
        if opened is not None:
            raise opened.error(
                "the record is not closed: expected `}`", hint="The file is probably truncated: get it again."
            )

    def _outside(self, line: FileLine) -> FileLine | None:
        """Handle a line between records; return the line if it opens one."""
        if head := match_head(line):
            if "INSTRUCTIONS" not in head[0]:
                raise line.error(f"expected a nonterminal with INSTRUCTIONS in its name, not {head[0]}")
            self.nonterminal = head[0]
            return None
        if line.text == "{":
            if not self.nonterminal:
                raise line.error("expected `NAME()::` before the first record")
            return line
        match = _KEY.fullmatch(line.text)
        if not match or match[1] not in _DELETIONS:
            raise line.error(f"expected `{{`, `NAME()::` or `UDELETE : uname`, not {line.text!r}")
        (self.deleted_names if match[1] == "UDELETE" else self.deleted_iclasses).add(match[2])
        return None

    def surviving(self) -> list[Record]:
        """Return the records that count, in order: not deleted, and of the highest version."""
        kept = [
            record
            for record in self.records
            if record.iclass not in self.deleted_iclasses and not (record.uname and record.uname in self.deleted_names)
        ]
        newest: dict[tuple[str, str], int] = {}
        for record in kept:
            key = (record.nonterminal, record.iclass)
            newest[key] = max(newest.get(key, 0), record.version)
        return [record for record in kept if record.version == newest[record.nonterminal, record.iclass]]


def _read_body(body: list[FileLine], opened: FileLine, nonterminal: str) -> list[Record]:
    """Read the lines between the braces."""
    common: dict[str, str] = {}
    groups: list[tuple[Location, dict[str, str]]] = []
    for line in body:
        key, colon, value = line.text.partition(":")
        key, value = key.rstrip(), value.lstrip()
        if not colon:
            raise line.error(f"expected `KEY : value`, not {line.text!r}")
        if key not in _KNOWN_KEYS:
            raise line.error(f"expected one of the keys of a record, not {key}")
        if key == "PATTERN":
            groups.append((line.location, {key: value}))
        elif key in ("OPERANDS", "IFORM"):
            if not groups:
                raise line.error(f"expected a PATTERN before {key}")
            if key in groups[-1][1]:
                raise line.error(f"expected one {key} for each PATTERN")
            groups[-1][1][key] = value
        else:
            common[key] = value
    if missing := [key for key in _REQUIRED if not common.get(key)]:
        raise opened.error(f"the record lacks {', '.join(missing)}")
    for key in ("CPL", "VERSION"):
        if decimal(common.get(key, "0")) is None:
            raise opened.error(f"expected a number as {key}, not {common[key]!r}")
    if not groups:
        raise opened.error("the record lacks a PATTERN")
    return [_record(common, group, location, nonterminal) for location, group in groups]


def _record(common: dict[str, str], group: dict[str, str], location: Location, nonterminal: str) -> Record:
    """Make the record of one pattern."""
    return Record(
        location=location,
        nonterminal=nonterminal,
        iclass=common["ICLASS"],
        category=common["CATEGORY"],
        extension=common["EXTENSION"],
        isa_set=common.get("ISA_SET") or common["EXTENSION"],
        cpl=int(common["CPL"]),
        attributes=frozenset(common.get("ATTRIBUTES", "").upper().split()),
        flags=common.get("FLAGS", ""),
        uname=common.get("UNAME", ""),
        version=int(common.get("VERSION", "0")),
        disasm=common.get("DISASM", ""),
        disasm_intel=common.get("DISASM_INTEL", ""),
        real_opcode=common.get("REAL_OPCODE", ""),
        pattern=group["PATTERN"],
        operands=group.get("OPERANDS", ""),
        iform=group.get("IFORM", ""),
    )
