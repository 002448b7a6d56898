"""Facts from a record's pattern: the possible values of its fields, the nonterminals that it calls, their bindings.

A field's possible values are those that the pattern's constraints leave. Where the pattern calls a nonterminal, the
rules that can still match restrict them further.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from xed_convert.datafiles.pattern import DOMAINS, Bits, Call, Literal, numeric_constraints
from xed_convert.expansion.layout import read_layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xed_convert.datafiles.folder import Datafiles
    from xed_convert.datafiles.nonterminals import Nonterminal, NonterminalRule
    from xed_convert.datafiles.operand_spec import OperandSpec
    from xed_convert.datafiles.pattern import Token
    from xed_convert.datafiles.records import Record
    from xed_convert.expansion.layout import PatternLayout

LEGACY, VEX, EVEX = 0, 1, 2
"""Values of VEXVALID."""

LONG_MODE = {"MODE": frozenset({2}), "EASZ": frozenset({3}), "SMODE": frozenset({2})}
"""What 64-bit mode with 64-bit addresses means."""


class RecordFacts:
    """A record with its pattern, operands and constraints, computed once.

    - `calls`: the names of the pattern's nonterminals; `called`: the flat ones among them.
    - `encoding_space`: VEXVALID: `LEGACY`, `VEX`, `EVEX`, or 3 for XOP.
    - `is_apx`: the ISA set is one of APX (the extension does not tell).
    - `texts`: the names behind TXT= of all operands.
    - `sources`: by operand, the nonterminal that gives its registers ("" if none does).
    """

    def __init__(self, record: Record, datafiles: Datafiles) -> None:
        self.record = record
        self.datafiles = datafiles
        self.tokens: tuple[Token, ...] = datafiles.pattern(record)
        self.specs: tuple[OperandSpec, ...] = tuple(
            [spec for spec in datafiles.operands(record) if spec.visibility != "ECOND"]
        )
        self.constraints = numeric_constraints(self.tokens)
        self._bound: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
        self.calls = tuple([token.name for token in self.tokens if isinstance(token, Call)])
        flat = datafiles.flat_nonterminals
        self.called: tuple[Nonterminal, ...] = tuple([flat[name] for name in self.calls if name in flat])
        self.encoding_space = min(self.constraints.get("VEXVALID", (0,)))
        self.is_apx = "APX" in record.isa_set
        self.sources = {spec.name: spec.nonterminal for spec in self.specs}
        self.texts = frozenset([text for spec in self.specs for text in spec.text])

    @cached_property
    def in_64_bit_mode(self) -> bool:
        """Whether it can be used in 64-bit mode."""
        return 2 in self.possible("MODE", {})

    @cached_property
    def usable(self) -> bool:
        """Whether it can be used in 64-bit mode with 64-bit addresses."""
        return self.in_64_bit_mode and 3 in self.possible("EASZ", {"MODE": frozenset({2})})

    def possible(self, field: str, assumed: Mapping[str, frozenset[int]]) -> frozenset[int]:
        """Return the values that a field of `DOMAINS` may have, with other fields as assumed."""
        known = {**self.constraints, **{name: self.constraints.get(name, v) & v for name, v in assumed.items()}}
        values = known.get(field, DOMAINS[field])
        for nonterminal in self.called:
            if field not in nonterminal.fields:
                continue
            bound = nonterminal.bound_values(field, known)
            if bound is not None:
                values &= bound
        return values

    def fixes(self, field: str, value: int) -> bool:
        """Whether the pattern's constraints leave exactly that value for a field."""
        return self.constraints.get(field) == frozenset({value})

    @cached_property
    def layout(self) -> PatternLayout:
        """What the pattern says of the bytes.

        Raises:
            EncodingError: it says something that is not known.
        """
        return read_layout(self.tokens)

    @cached_property
    def legacy_map(self) -> int:
        """The opcode map of a legacy encoding: 0 one-byte opcodes, 1 0F, 2 0F38, 3 0F3A."""
        literals = [token.value for token in self.tokens if isinstance(token, Literal) and token.width_bits == 8]
        if not literals or literals[0] != 0x0F or len(literals) == 1:
            return 0
        return {0x38: 2, 0x3A: 3}.get(literals[1], 1) if len(literals) > 2 else 1

    @cached_property
    def opcode(self) -> int:
        """The opcode byte: the last literal before ModRM, with 0 in bits that hold a register."""
        value = 0
        for token in self.tokens:
            if isinstance(token, Bits) and token.field in ("MOD", "REG", "RM"):
                break
            if isinstance(token, Literal):
                value = token.value << (8 - token.width_bits)
        return value

    def bound(self, **given: int) -> dict[str, int]:
        """Return the values of fields that the pattern and its nonterminals determine, with other fields as given.

        Nonterminals are applied in order. Of each, the first rule counts that matches what is known so far.
        """
        key = tuple(given.items())
        if key not in self._bound:
            self._bound[key] = self._bind(given)
        return self._bound[key]

    def _bind(self, given: Mapping[str, int]) -> dict[str, int]:
        """Work out what `bound` returns."""
        known = {field: next(iter(values)) for field, values in self.constraints.items() if len(values) == 1}
        known |= given
        for nonterminal in self.called:
            rule = next((rule for rule in nonterminal.rules if _matches(rule, known)), None)
            if rule is None:
                continue
            known |= {field: value for field, value in rule.values.items() if isinstance(value, int)}
        return known


def _matches(rule: NonterminalRule, known: Mapping[str, int]) -> bool:
    """Whether a rule's conditions allow the values that are known."""
    return all(known[field] in values for field, values in rule.allowed.items() if field in known)
