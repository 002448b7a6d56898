"""A small query language over the database: `ports has p5 and latency(1,1) > 3`.

    query      = or
    or         = and { "or" and }
    and        = not { "and" not }
    not        = "not" not | "(" or ")" | comparison
    comparison = field operator value
    field      = NAME | "latency" "(" NUMBER "," NUMBER ")" | "max_latency"
    operator   = "=" | "!=" | "<" | "<=" | ">" | ">=" | "has" | "like"
    value      = NUMBER | WORD | 'text' | "text"

Fields are the attributes of instructions (`iform`, `extension`, `isa_set` ...) and measurements (`uops`, `ports`,
`TP_loop` ...); `TP` is the least of the measured throughputs. `has` is true if a port usage has that port set
(`ports has p5`), or if a text contains another; `like` matches a glob. A comparison with a field that a variant does
not have is false.
"""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.model import PORT_USAGE, PortUsage
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from results.database.reader import ArchitectureResult, Entry

Value = str | float | None
Field = Callable[["Entry", "ArchitectureResult"], Value]
Predicate = Callable[["Entry", "ArchitectureResult"], bool]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?![\w*]))|(?P<text>'[^']*'|\"[^\"]*\")|(?P<operator><=|>=|!=|[=<>(),])"
    r"|(?P<word>[\w*?.\[\]-]+))"
)
_NUMERIC: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_VARIANT_FIELDS = ("iform", "string", "asm", "iclass", "category", "extension", "isa_set", "key")
_MAXIMUM_NESTING = 50
"""Levels of parentheses and `not`: far more than a person writes, far fewer than Python's stack takes."""


class QueryError(UopscopeError):
    """The query cannot be understood; the message shows where."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int


def compile_query(text: str) -> Predicate:
    """Return a function that says whether an entry's result fulfils the query.

    Raises:
        QueryError: the text is not a query; a line with a caret shows the place.
    """
    return _Parser(text).parse()


class _Parser:
    """Recursive descent over the grammar of the module's docstring."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split(text))
        self._at = 0
        self._nesting = 0

    def parse(self) -> Predicate:
        predicate = self._or()
        if self._peek().kind != "end":
            raise self._error("expected `and`, `or` or the end")
        return predicate

    def _split(self, text: str) -> list[_Token]:
        tokens, position = [], 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise QueryError(f"{text}\n{' ' * position}^ not understood", hint=_HINT)
            tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            position = match.end()
        return [*tokens, _Token("end", "", len(text))]

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._peek()
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _accept(self, text: str) -> bool:
        if self._peek().kind != "text" and self._peek().text.lower() == text:
            self._next()
            return True
        return False

    def _error(self, what: str) -> QueryError:
        return QueryError(f"{self._text}\n{' ' * self._peek().position}^ {what}", hint=_HINT)

    def _or(self) -> Predicate:
        predicate = self._and()
        while self._accept("or"):
            predicate = _either(predicate, self._and())
        return predicate

    def _and(self) -> Predicate:
        predicate = self._not()
        while self._accept("and"):
            predicate = _both(predicate, self._not())
        return predicate

    def _not(self) -> Predicate:
        self._nesting += 1
        if self._nesting > _MAXIMUM_NESTING:
            raise self._error(f"more than {_MAXIMUM_NESTING} levels of `not` and parentheses")
        try:
            if self._accept("not"):
                inner = self._not()
                return lambda entry, result: not inner(entry, result)
            if self._accept("("):
                inner = self._or()
                if not self._accept(")"):
                    raise self._error("expected `)`")
                return inner
            return self._comparison()
        finally:
            self._nesting -= 1

    def _comparison(self) -> Predicate:
        field = self._field()
        token = self._next()
        if token.text.lower() not in (*_NUMERIC, "=", "!=", "has", "like"):
            self._at -= 1
            raise self._error("expected one of = != < <= > >= has like")
        value = self._next()
        if value.kind not in ("number", "word", "text"):
            self._at -= 1 if value.kind != "end" else 0
            raise self._error("expected a value")
        text = value.text[1:-1] if value.kind == "text" else value.text
        if token.text in _NUMERIC and value.kind != "number":
            self._at -= 1
            raise self._error(f"expected a number after {token.text}")
        return _comparison(field, token.text.lower(), text)

    def _field(self) -> Field:
        token = self._peek()
        if token.kind != "word":
            raise self._error("expected the name of a field")
        self._next()
        if token.text == "latency":
            return self._latency()
        return _field(token.text)

    def _latency(self) -> Field:
        numbers = []
        for before in ("(", ","):
            if not self._accept(before):
                raise self._error(f"expected `{before}`: latency(1,2) is the latency from operand 1 to operand 2")
            if self._peek().kind != "number":
                raise self._error("expected the number of an operand")
            numbers.append(int(float(self._next().text)))
        if not self._accept(")"):
            raise self._error("expected `)`")
        start, target = numbers
        return lambda _entry, result: _latency(result, start, target)


_HINT = "For example: ports has p5 and latency(1,1) > 3 and extension = AVX512EVEX"


def _either(left: Predicate, right: Predicate) -> Predicate:
    return lambda entry, result: left(entry, result) or right(entry, result)


def _both(left: Predicate, right: Predicate) -> Predicate:
    return lambda entry, result: left(entry, result) and right(entry, result)


def _field(name: str) -> Field:
    if name in _VARIANT_FIELDS or name == "isa-set":
        attribute = name.replace("-", "_")
        return lambda entry, _result: str(getattr(entry.variant, attribute))
    if name == "TP":
        return lambda _entry, result: _least(result)
    if name == "max_latency":
        return lambda _entry, result: _longest(result)
    if name in ("arch", "architecture"):
        return lambda _entry, result: result.architecture
    return lambda entry, result: (result.measurement or {}).get(name, entry.variant.attributes.get(name))


def _least(result: ArchitectureResult) -> float | None:
    """Return the least measured throughput, as uops.info's table does."""
    values = [_number((result.measurement or {}).get(name)) for name in ("TP_unrolled", "TP_loop")]
    return min((value for value in values if value is not None), default=None)


def _longest(result: ArchitectureResult) -> float | None:
    return max((cycles for row in result.latencies for cycles in latency_cycles(row.values)), default=None)


def latency_cycles(values: object) -> list[float]:
    """Return all numbers of cycles among a latency's attributes (without bounds, minima and spreads)."""
    found = []
    for name, value in dict(values).items():  # type: ignore[call-overload] # any mapping of strings
        number = _number(value)
        if "cycles" in name and not name.startswith("min_") and not name.endswith("_bound") and number is not None:
            found.append(number)
    return found


def _latency(result: ArchitectureResult, start: int, target: int) -> float | None:
    """Return the longest latency between two operands, without those of the same register."""
    found = [
        cycles
        for row in result.latencies
        if (row.start, row.target) == (start, target)
        for cycles in latency_cycles({name: value for name, value in row.values.items() if "same_reg" not in name})
    ]
    return max(found, default=None)


def _comparison(field: Field, name: str, text: str) -> Predicate:
    number = _number(text)
    if name in _NUMERIC:
        compare = _NUMERIC[name]
        return lambda entry, result: _ordered(compare, field(entry, result), number)
    test = {"=": _equal, "!=": _different, "has": _has, "like": _like}[name]
    return lambda entry, result: test(field(entry, result), text)


def _ordered(compare: Callable[[float, float], bool], value: Value, number: float | None) -> bool:
    left = _number(value)
    return left is not None and number is not None and compare(left, number)


def _equal(value: Value, text: str) -> bool:
    if value is None:
        return False
    left, right = _number(value), _number(text)
    return left == right if left is not None and right is not None else str(value).lower() == text.lower()


def _different(value: Value, text: str) -> bool:
    return value is not None and not _equal(value, text)


def _has(value: Value, text: str) -> bool:
    if value is None:
        return False
    if "*" in str(value) and re.fullmatch(PORT_USAGE, f"1*{text}") and re.fullmatch(PORT_USAGE, str(value)):
        (wanted,) = PortUsage.parse(f"1*{text}").uops
        return wanted in PortUsage.parse(str(value)).uops
    return text.lower() in str(value).lower()


def _like(value: Value, text: str) -> bool:
    return value is not None and fnmatch.fnmatchcase(str(value).lower(), text.lower())


def _number(value: Value) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None
