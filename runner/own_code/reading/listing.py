"""Assembly text as compilers write it: which bytes each line makes, and where its labels are.

Symbols that the text does not define get addresses. Functions and labels that branches lead to are before or behind the
code. Data are 64 KiB apart. So an inner loop can be taken out of what GCC, Clang or ICC wrote, without a linker.
Sections other than code are left out. If a region is marked, only that counts. `.loc` directives say to which line of
which source a statement belongs (GNU as manual, section 7.6).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analysis.block.markers import is_att, marked_bytes, marked_lines
from runner.own_code.reading import gnu_as
from runner.own_code.reading.text import DirectiveError, OperandSyntax, StatementReader, label_name, statements
from xed_convert.assembly.assembler import AlignedData, shipped_assembler
from xed_convert.encoding.registers import CLASS_OF, canonical
from xed_convert.errors import AssemblyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from xed_convert.assembly.syntax import Statement

MOST_BYTES = 64 << 20
"""Of a text."""
MOST_STATEMENTS = 1_000_000
PROGRESS_EVERY = 1000
"""Statements between two reports of progress."""

FIRST_DATA, DATA_APART = 0x1000_0000, 0x1_0000
"""Made-up addresses of data: below 2 GiB, as compilers expect, and further apart than offsets usually reach."""
BEFORE, BEHIND = "_uopscope_before", "_uopscope_behind"
"""Labels at the two ends of the code."""

_QUOTING = re.compile(r"\s*(?:[\w.$]+:\s*)?\.(?:string|ascii|asciz|ident|error|warning)\b", re.IGNORECASE)
_FILE = re.compile(r"\s*\.file\s+(\d+)\s+(?:\"([^\"]*)\"\s+)?\"([^\"]*)\"")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_SECTION = re.compile(r"\.section\s+([^,\s]+)")
_CODE_SECTIONS = re.compile(r"\.text|\.init|\.fini|__TEXT", re.IGNORECASE)
_DATA_DIRECTIVES = {".data", ".bss", ".rodata"}
_MAKES_CODE = {
    ".byte",
    ".word",
    ".short",
    ".value",
    ".long",
    ".int",
    ".quad",
    ".8byte",
    ".align",
    ".balign",
    ".p2align",
}
_MAKES_CODE |= {".nops", ".skip", ".space", ".zero", ".intel_syntax", ".att_syntax"}
_NUMERIC = re.compile(r"\s*(\d+):(.*)", re.DOTALL)
_BRANCH_PREFIX = r"notrack|bnd|data16|\{\w+\}"
"""What may stand before a branch: prefixes, and pseudo-prefixes such as `{disp32}`."""
_BRANCHES = re.compile(rf"(?:(?:{_BRANCH_PREFIX}) )*(?:j[a-z]+|call[a-z]?|loop[a-z]*|xbegin) ", re.IGNORECASE)
_SYMBOL = re.compile(r"(?<![\w.%@])((?:[A-Za-z_]|\.+[A-Za-z_])[\w.$]*)(?:@\w+)?((?:\s*[+-]\s*\d+)*)")
_MNEMONIC = re.compile(rf"(?:(?:lock|repn?[ez]?|{_BRANCH_PREFIX})\s+)*\S+", re.IGNORECASE)
"""A mnemonic with what stands before it."""
_CONSTANT = re.compile(
    r"^\s*\.(?:set|equ|equiv)\s+([\w.$]+)\s*,\s*(-?(?:0[xX][\da-fA-F]+|[1-9]\d*|0))\s*$", re.MULTILINE
)
"""A name with a number for a value."""
_WORDS = {
    "ptr",
    "offset",
    "flat",
    "short",
    "rel",
    "byte",
    "word",
    "dword",
    "fword",
    "qword",
    "mmword",
    "tbyte",
    "oword",
}
_WORDS |= {"xmmword", "ymmword", "zmmword", "z", "sae", "rip", "eip", "bcst", "far", "near"}


@dataclass(frozen=True, slots=True)
class StatementPlace:
    """A statement: where its bytes begin, its line in the text, and the line of the source it was compiled from."""

    offset: int
    line: int
    text: str
    source: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Code, the statements that make it in order, and its labels by offset; `text` is what it was made from."""

    code: bytes
    places: tuple[StatementPlace, ...]
    labels: Mapping[str, int] = field(default_factory=dict)

    def place_at(self, offset: int) -> StatementPlace | None:
        """Return the statement that an offset is in, None if there is none."""
        index = bisect_right(self.places, offset, key=lambda place: place.offset) - 1
        return self.places[index] if index >= 0 else None

    def part(self, begin: int, end: int) -> Listing:
        """Return the listing of a part of the code."""
        places = tuple(
            StatementPlace(one.offset - begin, one.line, one.text, one.source)
            for one in self.places
            if begin <= one.offset < end
        )
        labels = {name: at - begin for name, at in self.labels.items() if begin <= at < end}
        return Listing(self.code[begin:end], places, labels)


def list_text(
    text: str, syntax: OperandSyntax | None = None, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> Listing:
    """Assemble text as compilers write it, or the region that is marked in it.

    Args:
        text: assembly text.
        syntax: how it is written (None: AT&T if registers have percent signs).
        progress: called with the statements that are done, and all.

    Raises:
        AssemblyError: a statement cannot be read or encoded; the message names its line.
        AnalysisError: half of the marks is missing.
    """
    if len(text) > MOST_BYTES:
        raise AssemblyError(f"the text has more than {MOST_BYTES:,} characters")
    first, last = marked_lines(text)
    chosen = syntax or (OperandSyntax.ATT if is_att(text) else OperandSyntax.INTEL)
    kept = list(_code_statements(text))
    inside = [one for one in kept if first <= one.line <= last]
    constants = {name: int(value, 0) for name, value in _CONSTANT.findall(text)}
    listing = _Lister(kept, inside, chosen, constants).listing(progress)
    return listing.part(*marked_bytes(listing.code))


@dataclass(frozen=True, slots=True)
class _Written:
    """A statement of a section of code: its line, its text, and the line of the source."""

    line: int
    text: str
    source: tuple[str, int] | None


def _code_statements(text: str) -> Iterator[_Written]:
    """Yield the statements of sections of code; numeric labels get names, directives that make no code are left out."""
    files = {number: name for number, _, name in _FILE.findall(text)}
    plain = "\n".join("" if _QUOTING.match(line) else line for line in text.splitlines())
    is_code, source = True, None
    numeric: Counter[str] = Counter()
    for line, part in statements(plain, MOST_STATEMENTS):
        word = part.split(maxsplit=1)[0].lower()
        if word in (".section", ".pushsection"):
            section = _SECTION.match(part.replace(".pushsection", ".section"))
            is_code = section is not None and _CODE_SECTIONS.match(section[1]) is not None
        elif word in (".text", ".popsection", ".previous"):
            is_code = True
        elif word in _DATA_DIRECTIVES:
            is_code = False
        elif found := _LOC.match(part):
            source = (files.get(found[1], f"file {found[1]}"), int(found[2]))
        elif is_code and (word[0] != "." or word in _MAKES_CODE or ":" in word):
            yield _Written(line, _numbered(" ".join(part.split()), numeric), source)


def _numbered(text: str, numeric: Counter[str]) -> str:
    """Give numeric labels (`1:`, `jne 1b`) names of their own."""
    if match := _NUMERIC.fullmatch(text):
        numeric[match[1]] += 1
        text = f"_local_{match[1]}_{numeric[match[1]]}:{match[2]}"
    if _BRANCHES.search(text):
        text = re.sub(r"(?<![\w.$])(\d+)([bf])$", lambda m: f"_local_{m[1]}_{numeric[m[1]] + (m[2] == 'f')}", text)
    return text


class _Lister:
    """Assembles the statements of a region; what `all_of` defines before it stands before the code."""

    def __init__(
        self, all_of: list[_Written], inside: list[_Written], syntax: OperandSyntax, constants: Mapping[str, int]
    ) -> None:
        self.inside = inside
        self.constants = constants
        self.syntax = syntax
        self.assembler = shipped_assembler()
        self.reader = StatementReader(self.assembler, syntax)
        before = inside[0].line if inside else 0
        self.earlier = _labels(one for one in all_of if one.line < before)
        self.defined = _labels(inside)
        self.data: dict[str, int] = {}
        self.known: dict[tuple[str, OperandSyntax], bytes] = {}
        self.waiting: dict[int, tuple[_Written, str, OperandSyntax]] = {}
        """By piece: statements without labels that are encoded together soon, with the text that is encoded."""
        self.relative: dict[int, int] = {}
        """By piece: the made-up address that its last bytes have to lead to."""

    def listing(self, progress: Callable[[int, int], None]) -> Listing:
        reader = self.reader
        reader.labels.append(BEFORE)
        reader.add(AlignedData())
        written: dict[int, _Written] = {}
        for number, one in enumerate(self.inside):
            if number % PROGRESS_EVERY == 0:
                self._encode_waiting()
                progress(number, len(self.inside))
            rest = reader.take_labels(one.text)
            if rest:
                written[len(reader.pieces)] = one
                self._add(one, rest)
        self._encode_waiting()
        reader.labels.append(BEHIND)
        reader.add(AlignedData())
        return self._laid_out(written)

    def _add(self, one: _Written, text: str) -> None:
        """Add the pieces of a statement."""
        try:
            if text[0] in ".|" or text.upper().endswith("_COUNTING"):
                self.reader.read_one(text)
                return
            if match := _BRANCHES.match(text):
                self.reader.pieces.append(self.reader.statement(self._branch(text, match.end())))
                self.reader.labels = []
                return
            named = _MNEMONIC.match(text)
            mnemonic = named[0] if named is not None else ""
            operands, relative = self._with_addresses(text[len(mnemonic) :].lstrip())
        except AssemblyError as error:
            self._encode_waiting()
            raise _in_statement(one, error) from error
        if relative is not None:
            self.relative[len(self.reader.pieces)] = relative
        self.waiting[len(self.reader.pieces)] = (one, f"{mnemonic} {operands}".strip(), self.reader.syntax)
        self.reader.add(AlignedData())

    def _encode_waiting(self) -> None:
        """Encode the statements that wait, each text once.

        Raises:
            AssemblyError: one cannot be encoded; the message names the line of the first one.
        """
        new = {(text, syntax): one for one, text, syntax in self.waiting.values() if (text, syntax) not in self.known}
        for key, one, found in zip(new, new.values(), self._together(list(new)), strict=True):
            try:
                self.known[key] = found or self._encode(*key)
            except AssemblyError as error:
                raise _in_statement(one, error) from error
        for number, (_, text, syntax) in self.waiting.items():
            self.reader.pieces[number] = AlignedData(self.known[text, syntax], labels=self.reader.pieces[number].labels)
        self.waiting.clear()

    def _together(self, keys: list[tuple[str, OperandSyntax]]) -> list[bytes | None]:
        """Return the bytes of texts; None where a text has to be encoded alone, or cannot be."""
        statements: dict[int, Statement] = {}
        for number, (text, syntax) in enumerate(keys):
            try:
                statements[number] = StatementReader(self.assembler, syntax).statement(text)
            except AssemblyError:
                continue  # encoding it alone says what is wrong
        found: list[bytes | None] = [None] * len(keys)
        for number, match in zip(statements, self.assembler.together(list(statements.values())), strict=True):
            found[number] = None if match is None else match.data
        return found

    def _encode(self, text: str, syntax: OperandSyntax) -> bytes:
        """Return the bytes of one statement without labels."""
        try:
            return self.assembler.code([StatementReader(self.assembler, syntax).statement(text)])
        except DirectiveError:
            raise
        except AssemblyError:
            found = gnu_as.assemble(text, intel=syntax is OperandSyntax.INTEL)
            if found is None:
                raise
            return found

    def _branch(self, text: str, operand: int) -> str:
        """Let a branch lead to a label that there is."""
        target = text[operand:].strip()
        short = re.sub(r"^short ", "", target, flags=re.IGNORECASE)
        name = re.sub(r"@\w+$", "", short)
        if target.startswith("*") or not re.fullmatch(r"[A-Za-z_.][\w.$]*", name) or _is_register(name):
            plain, relative = self._with_addresses(target)
            if relative is not None:
                self.relative[len(self.reader.pieces)] = relative
            return text[:operand] + plain
        if name not in self.defined:
            name = BEFORE if name in self.earlier else BEHIND
        return text[:operand] + label_name(name)

    def _with_addresses(self, operands: str) -> tuple[str, int | None]:
        """Put made-up addresses in the place of symbols; return the address that is relative to the instruction."""
        relative: list[int] = []
        intel = self.reader.syntax is OperandSyntax.INTEL

        def address(match: re.Match[str]) -> str:
            before, after = operands[: match.start()], operands[match.end() :]
            if match[1].lower() in _WORDS or _is_register(match[1]) or before.endswith("{"):
                return match[0]
            if match[1] in self.constants:
                return f"{self.constants[match[1]]}{match[2]}"
            number = self.data.setdefault(match[1], FIRST_DATA + DATA_APART * len(self.data))
            number += sum(int(one.replace(" ", "")) for one in re.findall(r"[+-]\s*\d+", match[2]))
            relative.append(number)
            return f"ds:{number}" if intel and _is_memory(before, after) else str(number)

        plain = _SYMBOL.sub(address, operands)
        if intel:
            plain = re.sub(r"\boffset\s+(?:flat:\s*)?", "", plain, flags=re.IGNORECASE)
            plain = re.sub(r"(?<![\w\]])([+-]?\d+)\[([^\]]*)\]", r"[\2+\1]", plain).replace("+-", "-")
            plain = re.sub(r"\bflat:\s*", "", plain, flags=re.IGNORECASE)
        is_relative = bool(relative) and re.search(r"\b[re]ip\b", plain, re.IGNORECASE) is not None
        return plain, relative[0] if is_relative else None

    def _laid_out(self, written: Mapping[int, _Written]) -> Listing:
        pieces = self.reader.pieces
        made = self.assembler.layout(pieces)
        code = bytearray()
        labels: dict[str, int] = {}
        places: list[StatementPlace] = []
        for number, (piece, data) in enumerate(zip(pieces, made, strict=True)):
            labels |= dict.fromkeys(piece.labels, len(code))
            if number in self.relative:
                data = _related(data, self.relative[number], len(code))  # noqa: PLW2901 - the same bytes, linked
            if data and number in written:
                one = written[number]
                places.append(StatementPlace(len(code), one.line, _text_of(piece, one), one.source))
            code += data
        shown = {name: labels[label_name(name)] for name in self.defined if label_name(name) in labels}
        return Listing(bytes(code), tuple(places), shown)


def _is_memory(before: str, after: str) -> bool:
    """Whether a symbol between these parts of Intel operands stands for memory, although nothing there says so.

    Brackets and segments say it. Behind `offset`, and in a difference, it stands for its address.
    """
    operand = before.rpartition(",")[2]
    return not (
        operand.count("[") > operand.count("]")
        or re.match(r"\s*(?:\[|[+-]\s*[A-Za-z_.])", after)
        or re.search(r"\boffset\b|[\w.]\s*[+-]\s*$|\b[c-gs]s:\s*$", operand, re.IGNORECASE)
    )


def _in_statement(one: _Written, error: AssemblyError) -> AssemblyError:
    """Return the error with its line, and with the statement as it was written where it quotes made-up addresses."""

    def written(match: re.Match[str]) -> str:
        is_made_up = any(int(number) >= FIRST_DATA for number in re.findall(r"\d+", match[0]))
        return f"'{_without_labels(one.text)}'" if is_made_up else match[0]

    message = re.sub(r"\"[^\"]*\"|'[^']*'", written, error.message)
    return AssemblyError(f"line {one.line}: {message}", hint=error.hint)


def _text_of(piece: Statement | AlignedData, one: _Written) -> str:
    """Return a statement without the labels before it."""
    return _without_labels(one.text) if piece.labels else one.text


def _without_labels(text: str) -> str:
    return re.sub(r"^(?:[\w.$]+:\s*)+(?=[^:\[])", "", text)


def _labels(written: Iterator[_Written] | list[_Written]) -> dict[str, int]:
    """Return the names of labels with their lines."""
    found: dict[str, int] = {}
    for one in written:
        rest = one.text
        while match := re.match(r"([A-Za-z_.][\w.$]*)\s*:(?![:\[])\s*", rest):
            found.setdefault(match[1], one.line)
            rest = rest[match.end() :]
    return found


def _is_register(name: str) -> bool:
    return canonical(name.upper()) in CLASS_OF or name.lower() in ("st", "riz", "eiz")


def _related(data: bytes, address: int, start: int) -> bytes:
    """Make the displacement that holds a made-up address (or one near it) relative to the end of its instruction."""
    for at in range(len(data) - 4, 0, -1):
        held = int.from_bytes(data[at : at + 4], "little")
        if abs(held - address) < DATA_APART // 2:
            distance = (held - start - len(data)) & 0xFFFFFFFF
            return data[:at] + distance.to_bytes(4, "little") + data[at + 4 :]
    return data
