"""The language of XED's patterns: tokens, and the macros that stand for several tokens.

A pattern is a sequence of hexadecimal or binary literals (`0x0F`, `0b0100_1`), bit fields (`MOD[0b11]`, `REG[rrr]`,
`UIMM0[i/8]`, `REG[1-7]`), constraints (`MOD!=3`, `VL=1`), calls of nonterminals (`MODRM()`), and names of macros. The
`state` datafiles define the macros. Rules of nonterminals use the same language.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from xed_convert.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from xed_convert.datafiles.source import FileLine, Location

RESET = "XED_RESET"
OTHERWISE = "otherwise"
WORDS = frozenset({RESET, OTHERWISE, "nothing"})
"""Words of the language itself, besides macros."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Fixed bits of the instruction: `value` in `width_bits` bits (a hexadecimal literal is a byte)."""

    value: int
    width_bits: int

    def __str__(self) -> str:
        """Write it as in the datafiles."""
        return f"0x{self.value:02X}" if self.width_bits == 8 else f"0b{self.value:0{self.width_bits}b}"


@dataclass(frozen=True, slots=True)
class Bits:
    """The bits of a field: one character per bit, 0, 1, or a letter for a bit to capture."""

    field: str
    bits: str

    @property
    def fixed(self) -> int | None:
        """The value if every bit is given, else None."""
        return int(self.bits, 2) if set(self.bits) <= {"0", "1"} else None

    def __str__(self) -> str:
        """Write it as in the datafiles."""
        if self.fixed is not None:
            return f"{self.field}[0b{self.bits}]"
        return f"{self.field}[{self.bits}]" if len(self.bits) <= 4 else f"{self.field}[{self.bits[0]}/{len(self.bits)}]"


@dataclass(frozen=True, slots=True)
class BitRange:
    """Three bits of a field whose value lies between `low` and `high`, both included."""

    field: str
    low: int
    high: int

    def __str__(self) -> str:
        """Write it as in the datafiles."""
        return f"{self.field}[{self.low}-{self.high}]"


@dataclass(frozen=True, slots=True)
class Constraint:
    """A field has a value, or does not have it (`negated`). In a binding, the field gets the value."""

    field: str
    value: int | str
    negated: bool = False

    def __str__(self) -> str:
        """Write it as in the datafiles."""
        return f"{self.field}{'!=' if self.negated else '='}{self.value}"


@dataclass(frozen=True, slots=True)
class Call:
    """A nonterminal stands here."""

    name: str

    def __str__(self) -> str:
        """Write it as in the datafiles."""
        return f"{self.name}()"


@dataclass(frozen=True, slots=True)
class Letters:
    """Captured bits without a field (`wrxb`): one letter per bit."""

    letters: str

    def __str__(self) -> str:
        """Write it as in the datafiles."""
        return self.letters


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the language: one of `WORDS`."""

    text: str

    def __str__(self) -> str:
        """Write it as in the datafiles."""
        return self.text


Token = Literal | Bits | BitRange | Constraint | Call | Letters | Word

_RANGE = re.compile(r"(\d+)-(\d+)")
_REPEATED = re.compile(r"([a-z])/(\d+)")


def parse_value(text: str) -> int | str:
    """Return a number (decimal, 0x, 0b) as an integer, and any other text unchanged.

    Raises:
        ValueError: it begins with a digit, but is no number.
    """
    if text.isdecimal():
        return int(text)
    if text[:1].isdecimal():
        return int(text, 0)
    return text


def parse_token(text: str) -> Token:
    """Read one token other than a macro's name.

    Raises:
        ValueError: it is no token; the message says what was expected.
    """
    for form, make in _FORMS:
        if match := form.fullmatch(text):
            return make(match)
    message = f"expected a literal, FIELD[bits], FIELD=value, NAME() or the name of a macro, not {text!r}"
    raise ValueError(message)


def _parse_bits(name: str, inside: str) -> Token:
    """Read what stands between the brackets of a bit field."""
    if match := _RANGE.fullmatch(inside):
        return BitRange(name, int(match[1]), int(match[2]))
    if match := _REPEATED.fullmatch(inside):
        return Bits(name, match[1] * int(match[2]))
    digits = inside.removeprefix("0b").replace("_", "")
    if not re.fullmatch(r"[01]+" if inside.startswith("0b") else r"[01a-z]+", digits):
        message = f"expected bits such as 0b011, rrr, i/8 or 1-7 between the brackets, not {inside!r}"
        raise ValueError(message)
    return Bits(name, digits)


def _parse_binary(match: re.Match[str]) -> Literal:
    """Read the digits of a binary literal."""
    digits = match[1].replace("_", "")
    return Literal(int(digits, 2), len(digits))


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Token]], ...] = (
    (
        # some rules of avx-reg-table.txt end in a colon
        re.compile(r"([A-Z_][A-Za-z0-9_]*)(!?=)([A-Za-z0-9_]+(?:\(\))?):?"),
        lambda match: Constraint(match[1], parse_value(match[3]), match[2] == "!="),
    ),
    (re.compile(r"([A-Z][A-Z0-9_]*)\[([^\]]+)\]"), lambda match: _parse_bits(match[1], match[2])),
    (re.compile(r"([A-Za-z][A-Za-z0-9_]*)\(\)"), lambda match: Call(match[1])),
    (re.compile(r"0x([0-9A-Fa-f]{1,2})"), lambda match: Literal(int(match[1], 16), 8)),
    (re.compile(r"0b_*([01][01_]*)"), _parse_binary),
    (re.compile("|".join(sorted(WORDS))), lambda match: Word(match[0])),
    (re.compile(r"[a-z]{1,8}"), lambda match: Letters(match[0])),
)
"""The forms of tokens, and the function that makes one of each; the first that fits counts."""


@dataclass(slots=True)
class Macros:
    """The macros of the `state` datafiles, with a cache of expanded patterns."""

    definitions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _words: dict[str, tuple[Token, ...]] = field(default_factory=dict)
    _patterns: dict[str, tuple[Token, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, lines: Iterable[FileLine]) -> Macros:
        """Read `NAME token...` lines.

        Raises:
            ConversionError: a line has a name only.
        """
        definitions: dict[str, tuple[str, ...]] = {}
        for line in lines:
            name, *words = line.text.split()
            if not words:
                raise line.error(f"expected the tokens that the macro {name} stands for")
            definitions[name] = tuple(words)
        return cls(definitions)

    def expand(self, text: str, location: Location) -> tuple[Token, ...]:
        """Return the tokens of a pattern with all macros expanded.

        Raises:
            ConversionError: a token is not of the language, or a macro contains itself; `location` is where.
        """
        known = self._patterns.get(text)
        if known is None:
            try:
                known = tuple(token for word in text.split() for token in self._expand_word(word, ()))
            except ValueError as error:
                message = f"{location}: {error}"
                raise ConversionError(message) from error
            self._patterns[text] = known
        return known

    def _expand_word(self, word: str, within: tuple[str, ...]) -> tuple[Token, ...]:
        """Expand a word; `within` names the macros around it."""
        known = self._words.get(word)
        if known is not None:
            return known
        if word in within:
            message = f"the macro {word} contains itself"
            raise ValueError(message)
        if word in self.definitions:
            parts = self.definitions[word]
            known = tuple(token for part in parts for token in self._expand_word(part, (*within, word)))
        else:
            known = (parse_token(word),)
        self._words[word] = known
        return known


DOMAINS = {
    "MODE": frozenset({0, 1, 2}),
    "EASZ": frozenset({1, 2, 3}),
    "EOSZ": frozenset({1, 2, 3}),
    "SMODE": frozenset({0, 1, 2}),
    "OSZ": frozenset({0, 1}),
    "REXW": frozenset({0, 1}),
    "REP": frozenset({0, 2, 3}),
    "VL": frozenset({0, 1, 2}),
}
"""All values of those fields for which they matter."""


def numeric_constraints(tokens: tuple[Token, ...]) -> dict[str, frozenset[int]]:
    """Return the values that the constraints among the tokens leave for each field that they name.

    A field without a domain keeps the values 0 to 31 that `!=` does not exclude.
    """
    allowed: dict[str, frozenset[int]] = {}
    for token in tokens:
        if isinstance(token, Constraint) and isinstance(token.value, int):
            values = _allowed(token.field, token.value, token.negated)
            allowed[token.field] = allowed[token.field] & values if token.field in allowed else values
    return allowed


@cache
def _allowed(field: str, value: int, negated: bool) -> frozenset[int]:
    """Return the values that a constraint leaves for its field."""
    return DOMAINS.get(field, frozenset(range(32))) - {value} if negated else frozenset({value})
