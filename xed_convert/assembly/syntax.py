"""Reads Intel assembly syntax: statements with prefixes, mnemonic and operands.

It knows registers, numbers, memory (`dword ptr FS:[RAX+RCX*4-8]`), masks (`{K1}{z}`), broadcasts (`{1to16}`), rounding
(`{rn-sae}`, `{sae}`), default flags (`{dfv=of,cf}`), labels, and `.+n`: the address n bytes from the beginning of the
instruction. Pseudo prefixes (`{evex}`, `{disp32}`) are those of the GNU assembler (its manual, section 9.16.4.1).
`;` and line ends separate statements; `#` and `//` begin comments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from xed_convert.encoding.encoder import ROUNDING_MODES
from xed_convert.encoding.registers import CLASS_OF, canonical
from xed_convert.errors import AssemblyError
from xed_convert.model import MemoryAddress

LONGEST_TEXT = 100_000
"""Characters of a text: more is a file that was given by mistake."""

SIZES = {
    "byte": 8,
    "word": 16,
    "dword": 32,
    "fword": 48,
    "qword": 64,
    "mmword": 64,
    "tbyte": 80,
    "oword": 128,
    "xmmword": 128,
    "ymmword": 256,
    "zmmword": 512,
}
"""Names of memory sizes, in bits."""

PSEUDO_PREFIXES = frozenset({"evex", "vex", "vex2", "vex3", "load", "store", "disp8", "disp32", "nf"})
"""Pseudo prefixes that choose between encodings."""

_PREFIX_WORDS = frozenset({"LOCK", "REP", "REPE", "REPZ", "REPNE", "REPNZ", "REX64"})
_SEGMENTS = ("CS", "DS", "ES", "SS", "FS", "GS")
DEFAULT_FLAGS = {"of": 8, "sf": 4, "zf": 2, "cf": 1}
"""The bits of the default flags of CCMP and CTEST, in the order in which they are written."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"\{([^{}]*)\}")
_LABEL = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*:(?!\s*\[)(.*)", re.DOTALL)
_MEMORY = re.compile(r"(?:([a-z]+)\s+(?:ptr\s*)?)?(?:([a-z]s)\s*:\s*)?\[([^\[\]]*)\]", re.IGNORECASE)
_HERE = re.compile(r"[.$]\s*([+-].+)?", re.DOTALL)


class TextKind(StrEnum):
    """The kind of an operand in text."""

    REGISTER = "register"
    MEMORY = "memory"
    NUMBER = "number"
    LABEL = "label"
    HERE = "distance from the instruction's beginning"


@dataclass(frozen=True, slots=True)
class WrittenOperand:
    """An operand in text. `size_bits` is the size named with a memory operand, `broadcast` its `{1toN}`."""

    kind: TextKind
    value: str | int | MemoryAddress
    size_bits: int | None = None
    broadcast: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """One instruction in text.

    `words` are prefixes and mnemonic in upper case. `rounding` is `sae`, a rounding mode, or "".
    """

    text: str
    words: tuple[str, ...]
    pseudo: frozenset[str] = frozenset()
    operands: tuple[WrittenOperand, ...] = ()
    mask: str = ""
    zeroing: bool = False
    rounding: str = ""
    default_flags: int | None = None
    labels: tuple[str, ...] = ()


@dataclass(slots=True)
class _Decorations:
    """The decorations in braces behind or between operands."""

    mask: str = ""
    zeroing: bool = False
    rounding: str = ""
    default_flags: int | None = None
    broadcast: str = ""

    def read(self, inside: str) -> None:
        """Take in the text between two braces.

        Raises:
            ValueError: it is unknown here, or comes twice.
        """
        word = inside.strip().lower()
        if re.fullmatch(r"k[0-7]", word) and not self.mask:
            self.mask = word.upper()
        elif word == "z":
            self.zeroing = True
        elif re.fullmatch(r"1to\d+", word) and not self.broadcast:
            self.broadcast = f"{{{word}}}"
        elif word in (*ROUNDING_MODES, "sae") and not self.rounding:
            self.rounding = word
        elif word.startswith("dfv=") and self.default_flags is None:
            self.default_flags = sum(DEFAULT_FLAGS[name] for name in {*word[4:].split(",")} - {""} if _flag(name))
        else:
            raise ValueError(f"{{{inside}}} is not known here")


def _flag(name: str) -> bool:
    """Refuse anything but a status flag of CCMP and CTEST."""
    if name.strip() not in DEFAULT_FLAGS or name != name.strip():
        raise ValueError(f"{name!r} is not one of the default flags of, sf, zf, cf")
    return True


def parse(text: str) -> list[Statement]:
    """Read statements.

    Raises:
        AssemblyError: the text cannot be read; the message names the statement.
    """
    if len(text) > LONGEST_TEXT:
        raise AssemblyError(f"the text has more than {LONGEST_TEXT:,} characters")
    statements: list[Statement] = []
    labels: list[str] = []
    for line in text.splitlines():
        for part in re.split(r"#|//", line, maxsplit=1)[0].split(";"):
            rest = part
            while match := _LABEL.fullmatch(rest):
                if match[1].upper() in _SEGMENTS:
                    break
                labels.append(match[1])
                rest = match[2]
            if rest.strip():
                statements.append(parse_statement(rest.strip(), tuple(labels)))
                labels = []
    if labels:
        raise AssemblyError(f"the label {labels[0]} stands before nothing")
    return statements


def parse_statement(text: str, labels: tuple[str, ...] = ()) -> Statement:
    """Read one instruction.

    Raises:
        AssemblyError: it cannot be read; the message says what was expected.
    """
    try:
        return _parse_statement(text, labels)
    except ValueError as error:
        hint = "Intel syntax is expected, as in: VADDPS ZMM1{K2}{z}, ZMM3, [R14]{1to16}"
        raise AssemblyError(f"cannot read {_shorten(text)!r}: {error}", hint=hint) from error


def _shorten(text: str) -> str:
    """Cut a long text for a message."""
    return text if len(text) <= 80 else text[:77] + "..."


def _parse_statement(text: str, labels: tuple[str, ...]) -> Statement:
    """Read one instruction. Raises ValueError if it cannot be read."""
    decorations = _Decorations()
    words, pseudo, rest = _parse_mnemonic(text)
    while match := re.match(r"\s*\{(dfv=[^{}]*)\}\s*,?", rest, re.IGNORECASE):
        decorations.read(match[1])
        rest = rest[match.end() :]
    operands: list[WrittenOperand] = []
    pieces = _split_operands(rest)
    for piece in pieces:
        if match := _BRACED.fullmatch(piece):
            decorations.read(match[1])
        else:
            operands.append(_parse_operand(piece, decorations))
    return Statement(
        text,
        words,
        pseudo,
        tuple(operands),
        decorations.mask,
        decorations.zeroing,
        decorations.rounding,
        decorations.default_flags,
        labels,
    )


def _parse_mnemonic(text: str) -> tuple[tuple[str, ...], frozenset[str], str]:
    """Split off pseudo prefixes, prefixes and mnemonic."""
    pseudo: set[str] = set()
    words: list[str] = []
    rest = text
    while True:
        rest = rest.lstrip()
        if match := _BRACED.match(rest):
            word = match[1].strip().lower()
            if word not in PSEUDO_PREFIXES:
                raise ValueError(f"{{{match[1]}}} is not a pseudo prefix: {', '.join(sorted(PSEUDO_PREFIXES))}")
            pseudo.add(word)
        elif match := _NAME.match(rest):
            words.append(match[0].upper())
            if words[-1] not in _PREFIX_WORDS:
                rest = rest[match.end() :]
                if far := re.match(r"\s+far\b", rest, re.IGNORECASE):
                    return (*words, "FAR"), frozenset(pseudo), rest[far.end() :]
                return tuple(words), frozenset(pseudo), rest
        elif words and not rest:
            return tuple(words), frozenset(pseudo), ""
        else:
            raise ValueError("expected a mnemonic")
        rest = rest[match.end() :]


def _split_operands(text: str) -> list[str]:
    """Split at the commas that are outside of brackets and braces."""
    if not text.strip():
        return []
    pieces, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "[{(") - (character in "]})")
        if character == "," and depth == 0:
            pieces.append(text[start:position])
            start = position + 1
    pieces = [piece.strip() for piece in (*pieces, text[start:])]
    if depth or not all(pieces):
        raise ValueError("expected operands separated by commas" if not depth else "a bracket or brace is not closed")
    return pieces


def _parse_operand(text: str, decorations: _Decorations) -> WrittenOperand:
    """Read one operand and the decorations behind it."""
    body = text.split("{", 1)[0].strip()
    decorations.broadcast = ""
    for inside in _BRACED.findall(text[len(text.split("{", 1)[0]) :]):
        decorations.read(inside)
    if _BRACED.sub("", text).strip() != body:
        raise ValueError(f"cannot read {text!r}")
    if match := _MEMORY.fullmatch(body):
        return _parse_memory(match, decorations.broadcast)
    if decorations.broadcast:
        raise ValueError(f"{decorations.broadcast} belongs to a memory operand")
    name = canonical(re.sub(r"\s+", "", body))
    if name in CLASS_OF:
        return WrittenOperand(TextKind.REGISTER, name)
    if match := _HERE.fullmatch(body):
        return WrittenOperand(TextKind.HERE, parse_number(match[1]) if match[1] else 0)
    if _NAME.fullmatch(body):
        return WrittenOperand(TextKind.LABEL, body)
    return WrittenOperand(TextKind.NUMBER, parse_number(body))


def parse_number(text: str) -> int:
    """Read a number, with or without a sign: decimal, `0x`, `0b`, `0o`, or hexadecimal with a trailing `h`.

    Raises:
        ValueError: it is not a number.
    """
    compact = text.replace(" ", "")
    sign = -1 if compact.startswith("-") else 1
    digits = compact[1:] if compact[:1] in ("+", "-") and compact else compact
    if re.fullmatch(r"[0-9][0-9a-fA-F]*[hH]", digits) and len(digits) <= 20:
        return sign * int(digits[:-1], 16)
    if re.fullmatch(r"0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|[0-9]+", digits) and len(digits) <= 70:
        return sign * (int(digits) if digits.isdigit() else int(digits, 0))
    raise ValueError(f"expected a register, a number, or memory in brackets, not {text.strip()!r}")


def _parse_memory(match: re.Match[str], broadcast: str) -> WrittenOperand:
    """Read a memory operand."""
    size, segment = (match[1] or "").lower(), (match[2] or "").upper()
    if size and size not in SIZES:
        raise ValueError(f"{match[1]!r} is not a memory size: {', '.join(SIZES)}")
    if segment and segment not in _SEGMENTS:
        raise ValueError(f"{match[2]!r} is not a segment register")
    address = _parse_address(match[3], "" if segment in ("CS", "DS", "ES", "SS") else segment)
    return WrittenOperand(TextKind.MEMORY, address, SIZES.get(size), broadcast)


def _parse_address(text: str, segment: str) -> MemoryAddress:
    """Read the text between the brackets."""
    base, index, scale, displacement = "", "", 0, 0
    for sign, term in _terms(text):
        register, factor = _parse_term(term)
        if not register:
            displacement += factor if sign == "+" else -factor
        elif sign == "-":
            raise ValueError(f"{register} cannot be subtracted")
        elif not base and not factor and CLASS_OF.get(register, "GPR64")[1:] != "MM":
            base = register
        elif not index:
            index, scale = register, factor or 1
        elif not base and not factor:
            base = register
        else:
            raise ValueError("an address has at most a base and an index")
    if index in ("RSP", "ESP") and scale == 1:
        base, index = index, base
    return MemoryAddress(base, index, scale or 1, displacement, segment)


def _terms(text: str) -> list[tuple[str, str]]:
    """Split a sum into signs and terms."""
    found = re.findall(r"([+-]?)\s*([^+-]+)", text)
    if "".join(sign + term for sign, term in found).replace(" ", "") != text.replace(" ", "") or not found:
        raise ValueError(f"expected a sum of registers and numbers in the brackets, not {text!r}")
    return [(sign or "+", term.strip()) for sign, term in found]


def _parse_term(term: str) -> tuple[str, int]:
    """Read `RAX`, `RAX*4`, `4*RAX` or a number: register (or nothing) and factor (0: none)."""
    parts = [part.strip() for part in term.split("*")]
    names = [canonical(part) for part in parts if canonical(part) in CLASS_OF or canonical(part) in ("RIP", "EIP")]
    if len(parts) == 1:
        return (names[0], 0) if names else ("", parse_number(parts[0]))
    if len(parts) != 2 or len(names) != 1:
        raise ValueError(f"expected a register times 1, 2, 4 or 8, not {term!r}")
    factor = parse_number(parts[0] if canonical(parts[1]) == names[0] else parts[1])
    if factor not in (1, 2, 4, 8):
        raise ValueError(f"an index can be scaled by 1, 2, 4 or 8, not by {factor}")
    return names[0], factor
