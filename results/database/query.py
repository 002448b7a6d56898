"""A small query language over the database: `ports has p5 and latency(1,1) > 3`.

    query      = or
    or         = and { "or" and }
    and        = not { "and" not }
    not        = "not" not | "(" or ")" | comparison
    comparison = field operator value
    field      = NAME | "latency" "(" NUMBER "," NUMBER ")" | "max_latency"
    operator   = "=" | "!=" | "<" | "<=" | ">" | ">=" | "has" | "uses" | "like"
    value      = NUMBER | WORD | 'text' | "text"

Fields are the attributes of instructions (`iform`, `extension`, `isa_set` ...) and measurements (`uops`, `ports`,
`TP_loop` ...). `TP` is the least of the measured throughputs. `latency(1,2)` is the longest latency from operand 1 to
2, `max_latency` that of all pairs. An upper bound fulfils a comparison only if every smaller number would: at most 5
fulfils `< 6`, but neither `< 5` nor `= 5`. `has` is true if a port usage has exactly that port set (`ports has p5`), or
if a text contains another. `uses` is true if a port usage has a set with these ports (`ports uses p5` finds `1*p015`).
`like` matches a glob. A comparison with a field that a variant does not have is false.
"""

from __future__ import annotations

import fnmatch
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from results.database.cycles import AtMost, longest_known
from results.model import PORT_USAGE, PortUsage, port_order, port_set_name
from results.text import first_of
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
_COMPUTED = {
    "TP": "the least of the measured throughputs",
    "max_latency": "the longest latency of all pairs of operands",
    "arch": "the architecture",
    "architecture": "the architecture",
    "isa-set": "the instruction's isa_set",
}
"""Fields that are no attributes."""


def _is_computed_number(name: str) -> bool:
    """Whether a field is a number in each result."""
    return name in ("TP", "max_latency") or name.startswith("latency(")


_LATENCY = "latency(1,2)"
"""How a latency is asked for, from operand 1 to operand 2."""

VARIANT_FIELDS = ("iform", "string", "asm", "iclass", "category", "extension", "isa_set", "key")
"""Fields of an instruction that have a name of their own in `InstructionVariant`."""

_MAXIMUM_NESTING = 50
"""Levels of parentheses and `not`: far more than a person writes, far fewer than Python's stack takes."""


class QueryError(UopscopeError):
    """The query cannot be understood; the message shows where."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a query, such as `extension = AVX`."""

    name: str
    operator: str
    text: str
    field: Field
    is_fulfilled: Predicate

    def alternatives(self, results: Iterable[tuple[Entry, ArchitectureResult]]) -> str:
        """Say which values there are, if no result has the one that is asked for ("" if one has it)."""
        if any(self.is_fulfilled(entry, result) for entry, result in results):
            return ""
        values = {value for entry, result in results if (value := self.field(entry, result)) is not None}
        if not values:
            return f"{self.name} is not known of any result"
        asked = f"no result fulfils `{self.name} {self.operator} {self.text}`"
        return f"{asked}: {_ports_there(values) or _numbers_there(values) or _texts_there(values, self.text)}"


@dataclass(frozen=True, slots=True)
class Query:
    """A query: whether a result fulfils it, and the fields that it asks about, by name, in their order.

    - `names_port_sets`: it looks for an exact set of ports.
    - `conditions`: those that are not negated.
    """

    predicate: Predicate
    fields: Mapping[str, Field]
    names_port_sets: bool = False
    conditions: tuple[Condition, ...] = ()

    def __call__(self, entry: Entry, result: ArchitectureResult) -> bool:
        """Say whether a result fulfils the query."""
        return self.predicate(entry, result)

    def check(self, known: Iterable[str]) -> None:
        """Refuse a query about a field that no result has; `known` are the names of all attributes that there are.

        Raises:
            QueryError: names the field, the nearest ones, and how to list all.
        """
        names = {*known, *VARIANT_FIELDS, *_COMPUTED}
        for name in self.fields:
            if name not in names and not name.startswith("latency("):
                near = _nearest(name, {*names, _LATENCY})
                some = f"nearest: {', '.join(near)}" if near else f"there are {', '.join(USUAL_FIELDS)} ..."
                if name == COUNTED:
                    some = "no µops were counted of any result here"
                hint = f"{some}; `uopscope db query --fields` lists all (with the same --db and --arch)"
                raise QueryError(f"no result here has a field {name!r}", hint=hint)


USUAL_FIELDS = ("TP", "max_latency", "ports", "extension", "iclass", "arch")
"""Fields that a message names if none is near."""

COUNTED = "uops"
"""The field that every result has whose µops were counted."""

MOST_LISTED = 24
"""Values that are listed of a field; of more, the nearest ones."""


def _ports_there(values: Iterable[Value]) -> str:
    """Say which sets of ports there are ("" if these values are no port usages)."""
    usages = [_usage(value) for value in values]
    if None in usages or not any("*" in str(value) for value in values):
        return ""
    sets = {ports for usage in usages if usage is not None for ports in usage.uops}
    names = [port_set_name(one) for one in sorted(sets, key=lambda one: (len(one), sorted(map(port_order, one))))]
    return f"sets of ports are {first_of(names, MOST_LISTED)}"


def _numbers_there(values: Iterable[Value]) -> str:
    """Say which numbers there are ("" if these values are not numbers)."""
    numbers = [_number(value) for value in values]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return ""
    least, most = min(known), max(known)
    return f"values are from {least:g} to {most:g}" if least < most else f"all values are {least:g}"


def _texts_there(values: Iterable[Value], wanted: str) -> str:
    """Say which texts there are: all, or the nearest ones."""
    texts = {str(value) for value in values}
    if len(texts) <= MOST_LISTED:
        return f"values are {', '.join(sorted(texts))}"
    near = _nearest(wanted, texts)
    return f"nearest: {', '.join(near)}" if near else f"it has {len(texts)} values, such as {min(texts)}"


def all_fields(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return each field that a query may ask about, with a few words on it; `attributes` are those of the results."""
    latencies = {_LATENCY: "the longest latency from operand 1 to operand 2; the same for any two"}
    return latencies | _COMPUTED | dict(sorted(attributes.items()))


def _nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three names that somebody may have meant, whatever the case of their letters."""
    by_plain = {_plain(one): one for one in sorted(names)}
    return [by_plain[one] for one in get_close_matches(_plain(name), by_plain, n=3, cutoff=0.6)]


def _plain(name: str) -> str:
    return name.casefold().replace("-", "_")


def compile_query(text: str) -> Query:
    """Return a function that says whether an entry's result fulfils the query.

    Raises:
        QueryError: the text is not a query; a line with a caret shows the place.
    """
    parser = _Parser(text)
    predicate = parser.parse()
    return Query(predicate, parser.fields, parser.names_port_sets, tuple(parser.conditions))


class _Parser:
    """Recursive descent over the grammar of the module's docstring."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split(text))
        self._at = 0
        self._nesting = 0
        self._is_negated = False
        self.fields: dict[str, Field] = {}
        self.names_port_sets = False
        self.conditions: list[Condition] = []

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
                position += len(text[position:]) - len(text[position:].lstrip())
                raise _pointing(text, position, "not understood")
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
        return _pointing(self._text, self._peek().position, what)

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
                self._is_negated = not self._is_negated
                inner = self._not()
                self._is_negated = not self._is_negated
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
        is_usage = "ports" in self._peek().text
        name, field = self._field()
        token = self._next()
        if token.text.lower() not in (*_NUMERIC, "=", "!=", "has", "uses", "like"):
            self._at -= 1
            raise self._error("expected one of = != < <= > >= has uses like")
        value = self._next()
        if value.kind not in ("number", "word", "text"):
            self._at -= 1 if value.kind != "end" else 0
            raise self._error("expected a value")
        text = value.text[1:-1] if value.kind == "text" else value.text
        is_number = token.text in _NUMERIC or (token.text in ("=", "!=") and _is_computed_number(name))
        if is_number and value.kind != "number":
            self._at -= 1
            raise self._error(f"expected a number after {token.text}")
        if token.text.lower() == "uses" and (not is_usage or _port_set(text) is None):
            self._at -= 1
            raise self._error("`uses` is about ports, as in: ports uses p05, ports uses r1, ports uses FP0")
        self.names_port_sets |= is_usage and token.text.lower() == "has" and _port_set(text) is not None
        predicate = _comparison(field, token.text.lower(), text)
        if not self._is_negated:
            self.conditions.append(Condition(name, token.text.lower(), text, field, predicate))
        return predicate

    def _field(self) -> tuple[str, Field]:
        token = self._peek()
        if token.kind != "word":
            raise self._error("expected the name of a field")
        self._next()
        if token.text == "latency":
            return self._latency()
        if self._peek().kind == "operator" and self._peek().text == "(":
            raise self._error(f"only a latency has operands, as in {_LATENCY}")
        field = self.fields[token.text] = _field(token.text)
        return token.text, field

    def _latency(self) -> tuple[str, Field]:
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
        field: Field = lambda _entry, result: _latency(result, start, target)  # noqa: E731 - it needs its type
        name = f"latency({start},{target})"
        self.fields[name] = field
        return name, field


_HINT = "for example: ports has p5 and latency(1,1) > 3 and extension = AVX512EVEX"


def _pointing(text: str, position: int, what: str) -> QueryError:
    """Return an error with the query on a line of its own, so that the caret below is where it should be."""
    line = "".join(each if each.isprintable() else " " for each in text)
    return QueryError(f"the query cannot be understood:\n  {line}\n  {' ' * position}^ {what}", hint=_HINT)


def _either(left: Predicate, right: Predicate) -> Predicate:
    return lambda entry, result: left(entry, result) or right(entry, result)


def _both(left: Predicate, right: Predicate) -> Predicate:
    return lambda entry, result: left(entry, result) and right(entry, result)


def _field(name: str) -> Field:
    if name in VARIANT_FIELDS or name == "isa-set":
        attribute = name.replace("-", "_")
        return lambda entry, _result: str(getattr(entry.variant, attribute))
    if name == "TP":
        return lambda _entry, result: _least(result)
    if name == "max_latency":
        return lambda _entry, result: longest_known(result.latencies)
    if name in ("arch", "architecture"):
        return lambda _entry, result: result.architecture
    return lambda entry, result: (result.measurement or {}).get(name, entry.variant.attributes.get(name))


def _least(result: ArchitectureResult) -> float | None:
    """Return the least measured throughput, as uops.info's table does."""
    values = [_number((result.measurement or {}).get(name)) for name in ("TP_unrolled", "TP_loop")]
    return min((value for value in values if value is not None), default=None)


def _latency(result: ArchitectureResult, start: int, target: int) -> float | None:
    """Return the longest latency between two operands, or its upper bound, without those of the same register."""
    return longest_known(row for row in result.latencies if (row.start, row.target) == (start, target))


def _comparison(field: Field, name: str, text: str) -> Predicate:
    number = _number(text)
    if name in _NUMERIC:
        compare = _NUMERIC[name]
        return lambda entry, result: _ordered(compare, field(entry, result), number)
    test = {"=": _equal, "!=": _different, "has": _has, "uses": _uses, "like": _like}[name]
    return lambda entry, result: test(field(entry, result), text)


def _ordered(compare: Callable[[float, float], bool], value: Value, number: float | None) -> bool:
    left = _number(value)
    if isinstance(value, AtMost) and compare in (operator.gt, operator.ge):
        return False
    return left is not None and number is not None and compare(left, number)


def _equal(value: Value, text: str) -> bool:
    if value is None or isinstance(value, AtMost):
        return False
    left, right = _number(value), _number(text)
    return left == right if left is not None and right is not None else str(value).lower() == text.lower()


def _different(value: Value, text: str) -> bool:
    if isinstance(value, AtMost):
        return value < (_number(text) or 0)
    return value is not None and not _equal(value, text)


def _has(value: Value, text: str) -> bool:
    if value is None:
        return False
    wanted = _port_set(text)
    if wanted and "*" in str(value) and (usage := _usage(value)) is not None:
        return wanted in usage.uops
    return text.lower() in str(value).lower()


def _uses(value: Value, text: str) -> bool:
    wanted, usage = _port_set(text), _usage(value)
    return wanted is not None and usage is not None and any(wanted <= ports for ports in usage.uops)


def _port_set(text: str) -> frozenset[str] | None:
    """Return the ports that `p06` or `FP01` names (None: it names none)."""
    if not re.fullmatch(PORT_USAGE, f"1*{text}"):
        return None
    (ports,) = PortUsage.parse(f"1*{text}").uops
    return ports


def _usage(value: Value) -> PortUsage | None:
    """Return the port usage that a value is (None: it is none)."""
    return PortUsage.parse(str(value)) if re.fullmatch(PORT_USAGE, str(value)) else None


def _like(value: Value, text: str) -> bool:
    return value is not None and fnmatch.fnmatchcase(str(value).lower(), text.lower())


def _number(value: Value) -> float | None:
    """Return a finite number (None: it is none)."""
    try:
        number = None if value is None else float(value)
    except ValueError:
        return None
    return number if number is not None and math.isfinite(number) else None
