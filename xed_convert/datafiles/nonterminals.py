"""Nonterminals of the decoder patterns: named lists of rules `conditions | bindings`.

`NAME()::` begins a nonterminal. `xed_reg_enum_t NAME()::` begins one that gives a register: it binds OUTREG to a
register `XED_REG_x` or to another nonterminal. Rules are tried in order. A name that occurs again gets further rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xed_convert.datafiles.pattern import OTHERWISE, Constraint, Token, Word, numeric_constraints

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xed_convert.datafiles.pattern import Macros
    from xed_convert.datafiles.source import FileLine, Location

_HEAD = re.compile(r"(?:(xed_reg_enum_t)\s+)?([A-Za-z_][A-Za-z0-9_]*)\(\)::")


@dataclass(frozen=True, slots=True)
class NonterminalRule:
    """One rule: conditions, and the bindings that count if the conditions hold (`Constraint`, `Call`, `Word`).

    - `allowed`: the values that the conditions leave to each field they name.
    - `values`: the values that the bindings give to fields.
    - `is_otherwise`: the rule matches if no rule before it does.
    """

    conditions: tuple[Token, ...]
    bindings: tuple[Token, ...]
    location: Location
    allowed: Mapping[str, frozenset[int]] = field(init=False, compare=False)
    values: Mapping[str, int | str] = field(init=False, compare=False)
    is_otherwise: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Work out what the tokens say, once."""
        given = {token.field: token.value for token in reversed(self.bindings) if isinstance(token, Constraint)}
        otherwise = any(isinstance(token, Word) and token.text == OTHERWISE for token in self.conditions)
        object.__setattr__(self, "allowed", numeric_constraints(self.conditions))
        object.__setattr__(self, "values", given)
        object.__setattr__(self, "is_otherwise", otherwise)

    def bound(self, field: str) -> int | str | None:
        """Return the value that the rule gives to a field, or None."""
        return self.values.get(field)

    def compatible(self, known: Mapping[str, frozenset[int]]) -> bool:
        """Whether the conditions leave a value for every field that is known."""
        for name, values in self.allowed.items():
            of_field = known.get(name)
            if of_field is not None and not values & of_field:
                return False
        return True

    def certain(self, known: Mapping[str, frozenset[int]]) -> bool:
        """Whether the rule matches for every value of the unknown fields."""
        return all(name in known and known[name] <= values for name, values in self.allowed.items())


@dataclass(frozen=True, slots=True)
class Nonterminal:
    """A nonterminal with its rules in order.

    - `gives_register`: it binds OUTREG.
    - `fields`: all that the rules name or bind.
    - `conditions`: the fields that decide which rule matches.
    """

    name: str
    gives_register: bool
    rules: tuple[NonterminalRule, ...]
    fields: frozenset[str] = field(init=False, compare=False)
    conditions: tuple[str, ...] = field(init=False, compare=False)
    _bound: dict[tuple[object, ...], frozenset[int] | None] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        """Collect the fields that the rules name."""
        conditions = {name for rule in self.rules for name in rule.allowed}
        bound = {name for rule in self.rules for name in rule.values}
        object.__setattr__(self, "conditions", tuple(sorted(conditions)))
        object.__setattr__(self, "fields", frozenset(conditions | bound))

    def bound_values(self, field: str, known: Mapping[str, frozenset[int]]) -> frozenset[int] | None:
        """Return the values that a call may give to a field, None if it may leave the field as it is."""
        key = (field, *[known.get(name) for name in self.conditions])
        if key not in self._bound:
            self._bound[key] = self._values(field, known)
        return self._bound[key]

    def _values(self, field: str, known: Mapping[str, frozenset[int]]) -> frozenset[int] | None:
        """Work out what `bound_values` returns."""
        values: set[int] = set()
        certain = False
        for rule in self.rules:
            if not rule.compatible(known):
                continue
            if rule.is_otherwise and certain:
                break
            certain = certain or rule.certain(known)
            value = rule.bound(field)
            conditions = rule.allowed.get(field)
            if isinstance(value, int):
                values.add(value)
            elif conditions:
                values |= conditions
            else:
                return None
        return frozenset(values) if values else None


def match_head(line: FileLine) -> tuple[str, bool] | None:
    """Return the name and whether it gives a register if the line begins a nonterminal, else None."""
    match = _HEAD.fullmatch(line.text) if line.text.endswith("::") else None
    return (match[2], bool(match[1])) if match else None


def read_nonterminals(lines: Iterable[FileLine], macros: Macros) -> dict[str, Nonterminal]:
    """Read nonterminals with flat rules.

    Raises:
        ConversionError: a rule is outside of a nonterminal, lacks its one `|`, or has an unknown token.
    """
    heads: dict[str, bool] = {}
    rules: dict[str, dict[tuple[tuple[Token, ...], tuple[Token, ...]], NonterminalRule]] = {}
    current = ""
    for line in lines:
        head = match_head(line)
        if head:
            current = head[0]
            heads.setdefault(current, head[1])
            rules.setdefault(current, {})
            continue
        rule = _read_rule(line, macros, inside=bool(current))
        rules[current].setdefault((rule.conditions, rule.bindings), rule)
    return {name: Nonterminal(name, gives, tuple(rules[name].values())) for name, gives in heads.items()}


def _read_rule(line: FileLine, macros: Macros, *, inside: bool) -> NonterminalRule:
    """Read a line `conditions | bindings`."""
    if not inside:
        raise line.error("expected `NAME()::` before the first rule")
    parts = line.text.split("|")
    if len(parts) != 2:
        raise line.error(f"expected a rule `conditions | bindings` or `NAME()::`, not {line.text!r}")
    location = line.location
    return NonterminalRule(macros.expand(parts[0], location), macros.expand(parts[1], location), location)
