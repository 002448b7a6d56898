"""Assembly text of a user to bytes: Intel or AT&T syntax, labels, and those directives that matter for measuring.

AT&T syntax is translated to Intel syntax first (`runner.own_code.reading.att`). Then
`xed_convert.assembly.assembler` encodes each statement by keystone, in a child process. Keystone's bytes count only if
our decoder finds in them what the text can mean. Else the statement is encoded from XED's patterns. The GNU assembler,
if installed, gets what neither knows.

    .rept 4 / .endr                  repeated
    .align 16, .balign, .p2align     NOPs up to a multiple, counted from the beginning of the text
    .byte, .word, .long, .quad       data
    .nops 7, |7                      NOPs of this many bytes, as one instruction up to 15
    .intel_syntax, .att_syntax       change the syntax from here on
    PAUSE_COUNTING, RESUME_COUNTING  marks between which nothing is counted
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from generator.harness.style import PAUSE, RESUME
from runner.own_code.reading import gnu_as
from runner.own_code.reading.att import intel_candidates
from xed_convert.assembly.assembler import AlignedData, shipped_assembler
from xed_convert.assembly.syntax import (
    LONGEST_TEXT,
    Statement,
    TextKind,
    WrittenOperand,
    parse_number,
    parse_statement,
)
from xed_convert.encoding.nops import long_nop, nops
from xed_convert.errors import AssemblyError

if TYPE_CHECKING:
    from xed_convert.assembly.assembler import Assembler

MOST_STATEMENTS = 20_000
"""After `.rept`; more would leave every cache."""
LONGEST_NOP = 15
MARKS = {"PAUSE_COUNTING": PAUSE, "RESUME_COUNTING": RESUME}
_SIZES = {".byte": 1, ".word": 2, ".short": 2, ".value": 2, ".long": 4, ".int": 4, ".quad": 8, ".8byte": 8}
_IGNORED = {".text", ".globl", ".global", ".type", ".size", ".p2alignw", ".file", ".section", ".code64"}
_LABEL = re.compile(r"\s*([A-Za-z_.][A-Za-z0-9_.$]*)\s*:(?![:\[])(.*)", re.DOTALL)
_SEGMENTS = {"CS", "DS", "ES", "FS", "GS", "SS"}


class OperandSyntax(StrEnum):
    """How operands are written."""

    INTEL = "intel"
    ATT = "att"


class DirectiveError(AssemblyError):
    """A known directive is used wrongly: no other assembler is asked."""


def assemble(text: str, syntax: OperandSyntax = OperandSyntax.INTEL) -> bytes:
    """Return the bytes of a text; none for an empty one.

    Raises:
        AssemblyError: a statement cannot be read or encoded; the message names it.
    """
    if len(text) > LONGEST_TEXT:
        raise AssemblyError(f"the text has more than {LONGEST_TEXT:,} characters")
    reader = StatementReader(shipped_assembler(), syntax)
    try:
        reader.read([part for _, part in statements(text)])
        return reader.assembler.code(reader.pieces)
    except DirectiveError:
        raise
    except AssemblyError:
        found = gnu_as.assemble(text, intel=syntax is OperandSyntax.INTEL) if _suits_gnu_as(text) else None
        if found is None:
            raise
        return found


def _suits_gnu_as(text: str) -> bool:
    """Say whether nothing in the text is our own, and nothing reads files."""
    lower = text.lower()
    return not any(word in lower for word in ("_counting", "|", ".inc", "\0"))


def statements(text: str, most: int = MOST_STATEMENTS) -> list[tuple[int, str]]:
    """Cut text at line ends and semicolons, without comments, with `.rept` done; return line numbers and statements.

    Raises:
        AssemblyError: `.rept` without `.endr` or the other way round, or more than `most` statements by it.
    """
    without = re.sub(r"/\*.*?\*/", lambda match: " " + "\n" * match[0].count("\n"), text, flags=re.DOTALL)
    lines = [re.split(r"#|//", line, maxsplit=1)[0] for line in without.splitlines()]
    stack: list[tuple[int, list[tuple[int, str]]]] = [(1, [])]
    for number, part in ((number, part.strip()) for number, line in enumerate(lines, 1) for part in line.split(";")):
        word, _, rest = part.partition(" ")
        if word.lower() == ".rept":
            stack.append((_count(rest, part), []))
        elif word.lower() == ".endr":
            if len(stack) == 1:
                raise DirectiveError(".endr without .rept")
            times, inner = stack.pop()
            if times * len(inner) + len(stack[-1][1]) > most:
                raise DirectiveError(f".rept makes more than {most:,} statements")
            stack[-1][1].extend(inner * times)
        elif part:
            stack[-1][1].append((number, part))
    if len(stack) > 1:
        raise DirectiveError(".rept without .endr")
    return stack[0][1]


def _count(text: str, statement: str) -> int:
    try:
        number = parse_number(text.strip())
    except ValueError as error:
        raise DirectiveError(f"{statement!r}: {error}") from error
    if not 0 <= number <= MOST_STATEMENTS:
        raise DirectiveError(f"{statement!r}: the number is not between 0 and {MOST_STATEMENTS:,}")
    return number


@dataclass(slots=True)
class StatementReader:
    """Reads statements one after the other; `pieces` are the parts to encode.

    `labels` are those that stand before the next piece.
    """

    assembler: Assembler
    syntax: OperandSyntax
    pieces: list[Statement | AlignedData] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    def read(self, parts: list[str]) -> None:
        """Read statements.

        Raises:
            AssemblyError: one of them is none that is known.
        """
        for text in parts:
            rest = self.take_labels(text)
            if rest:
                self.read_one(rest)
        if self.labels:
            self.add(AlignedData())

    def take_labels(self, text: str) -> str:
        """Note the labels at the beginning of a statement, and return the rest."""
        while (match := _LABEL.fullmatch(text)) and match[1].upper() not in _SEGMENTS:
            self.labels.append(label_name(match[1]))
            text = match[2].strip()
        return text

    def add(self, piece: AlignedData) -> None:
        """Add bytes, behind the labels that stand before them."""
        self.pieces.append(AlignedData(piece.data, piece.multiple, tuple(self.labels)))
        self.labels = []

    def read_one(self, text: str) -> None:
        """Read a directive, a mark, or an instruction.

        Raises:
            AssemblyError: it is none that is known.
        """
        word, _, rest = text.partition(" ")
        word = word.lower()
        if text.upper() in MARKS:
            self.add(AlignedData(MARKS[text.upper()]))
        elif text[0] == "|":
            self.add(AlignedData(long_nop(_nop_size(text))))
        elif word in (".intel_syntax", ".att_syntax"):
            self.syntax = OperandSyntax.INTEL if word == ".intel_syntax" else OperandSyntax.ATT
        elif word[0] == ".":
            self.read_directive(word, rest.strip(), text)
        else:
            self.pieces.append(self.statement(text))
            self.labels = []

    def read_directive(self, word: str, rest: str, text: str) -> None:
        """Read a directive.

        Raises:
            AssemblyError: it is not known, or wrong.
        """
        if word in _IGNORED or word.startswith(".cfi_"):
            return
        if word in _SIZES:
            self.add(AlignedData(b"".join(_data(part, _SIZES[word], text) for part in rest.split(","))))
        elif word in (".align", ".balign", ".p2align"):
            number = _count(rest.partition(",")[0], text)
            multiple = 1 << min(number, 20) if word == ".p2align" else number
            if multiple < 1 or multiple & multiple - 1 or multiple > 1 << 16:
                raise DirectiveError(f"{text!r}: not a power of two up to 65536")
            self.add(AlignedData(multiple=multiple))
        elif word in (".nops", ".skip", ".space", ".zero"):
            count = _count(rest.partition(",")[0], text)
            self.add(AlignedData(nops(count) if word == ".nops" else bytes(count)))
        else:
            known = ".rept, .endr, .align, .balign, .p2align, .byte, .word, .long, .quad, .nops, .zero"
            raise AssemblyError(f"{text[:80]!r}: the directive is not known", hint=f"known are: {known}")

    def statement(self, text: str) -> Statement:
        """Return an instruction; of AT&T syntax the first reading that can be encoded.

        Raises:
            AssemblyError: there is none.
        """
        labels = tuple(self.labels)
        if self.syntax is OperandSyntax.INTEL:
            return parse_statement(_plain_labels(text), labels)
        failure: AssemblyError | None = None
        for candidate in intel_candidates(text):
            try:
                statement = parse_statement(_plain_labels(candidate), labels)
                self.assembler.matcher.choose(_here(statement))
            except AssemblyError as error:
                failure = failure or error
            else:
                return statement
        message = f"{text[:80]!r} cannot be read as AT&T syntax"
        raise AssemblyError(f"{message}: {failure.message}" if failure else message)


def _here(statement: Statement) -> Statement:
    """Return a statement with the place of its labels made up, to see whether there is such an instruction."""
    operands = [WrittenOperand(TextKind.HERE, 0) if one.kind is TextKind.LABEL else one for one in statement.operands]
    return replace(statement, operands=tuple(operands))


def _plain_labels(text: str) -> str:
    """Write labels like `.L3` without the dot, which our syntax does not have."""
    return re.sub(r"(?<![\w.])\.([A-Za-z_][\w.$]*)", lambda match: label_name("." + match[1]), text)


def label_name(label: str) -> str:
    """Return a label as our own syntax writes it."""
    return re.sub(r"[.$]", "_", label)


def _data(text: str, size: int, statement: str) -> bytes:
    try:
        number = parse_number(text.strip())
        return (number % (1 << 8 * size) if number < 0 else number).to_bytes(size, "little")
    except (ValueError, OverflowError) as error:
        raise DirectiveError(f"{statement[:80]!r}: {text.strip()!r} is no number of {size} bytes") from error


def _nop_size(statement: str) -> int:
    """Return the bytes of the NOP that `|N` asks for."""
    size = _count(statement[1:], statement)
    if not 1 <= size <= LONGEST_NOP:
        raise DirectiveError(f"{statement!r}: NOPs have 1 to {LONGEST_NOP} bytes")
    return size
