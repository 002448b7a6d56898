"""Operands of records: `NAME[=rhs]:rw[:visibility]:oc2[:xtype][:TXT=..][:MULTI{SOURCE,DEST,SOURCEDEST}n]`.

The form of each part after the name tells what it is: an action (r, w, rw, cw, crw, rcw), a visibility, `TXT=`,
`MULTI`. Of other lower-case words the first is the width code (oc2), the second the element type. A bare word is a
macro and stands for suppressed operands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xed_convert.datafiles.pattern import parse_value
from xed_convert.errors import ConversionError

if TYPE_CHECKING:
    from xed_convert.datafiles.pattern import Macros
    from xed_convert.datafiles.source import Location
    from xed_convert.datafiles.tables import Field

ACTIONS = frozenset({"r", "w", "rw", "cr", "cw", "crw", "rcw"})
VISIBILITIES = {"EXPL": "EXPLICIT", "IMPL": "IMPLICIT", "SUPP": "SUPPRESSED", "ECOND": "ECOND"}
VISIBILITIES |= {name: name for name in ("EXPLICIT", "IMPLICIT", "SUPPRESSED")}

_HEAD = re.compile(r"([A-Z][A-Z0-9_]*)(?:=([A-Za-z0-9_]+(?:\(\))?))?")
_MULTI = re.compile(r"MULTI(?:SOURCEDEST|SOURCE|DEST)(\d+)")


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """One operand of a record.

    - `value`: behind the `=`, a register ("XED_REG_AX"), a nonterminal ("GPRv_R()"), a number, or None.
    - `register`, `nonterminal`: its name alone if `value` is one of these, else "".
    - `visibility`: EXPLICIT, IMPLICIT, SUPPRESSED or ECOND.
    - `oc2`, `xtype`: width code and element type, "" if not given.
    - `text`: the names behind TXT=; `multi`: the number behind MULTI, or None.
    - `internal`: whether the fields table calls the name internal.
    """

    name: str
    value: int | str | None = None
    action: str = ""
    visibility: str = "EXPLICIT"
    oc2: str = ""
    xtype: str = ""
    text: tuple[str, ...] = ()
    multi: int | None = None
    internal: bool = False
    register: str = field(init=False, compare=False)
    nonterminal: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Set `register` and `nonterminal`."""
        value = self.value if isinstance(self.value, str) else ""
        fixed = value.removeprefix("XED_REG_") if value.startswith("XED_REG_") else ""
        object.__setattr__(self, "register", fixed)
        object.__setattr__(self, "nonterminal", value[:-2] if value.endswith("()") else "")


@dataclass(slots=True)
class OperandReader:
    """Reads operands with the fields' defaults and the macros; each distinct text once."""

    fields: dict[str, Field]
    macros: Macros
    _known: dict[str, tuple[OperandSpec, ...]] = field(default_factory=dict)

    def read(self, text: str, location: Location) -> tuple[OperandSpec, ...]:
        """Read all operands of a record.

        Raises:
            ConversionError: an operand is not of the known form; `location` is where.
        """
        specs: list[OperandSpec] = []
        for word in text.split():
            known = self._known.get(word)
            if known is None:
                try:
                    known = self._known[word] = self._read_word(word)
                except ValueError as error:
                    message = f"{location}: {error}"
                    raise ConversionError(message) from error
            specs += known
        return tuple(specs)

    def _read_word(self, word: str) -> tuple[OperandSpec, ...]:
        """Read one operand or macro."""
        if word in self.macros.definitions:
            inner = self.macros.definitions[word]
            return tuple(_suppressed(spec) for part in inner for spec in self._read_word(part))
        head, *properties = word.split(":")
        match = _HEAD.fullmatch(head)
        if not match:
            message = f"expected an operand `NAME[=value]:action:...` or the name of a macro, not {word!r}"
            raise ValueError(message)
        name, value = match[1], match[2]
        known = self.fields.get(name)
        if known is None:
            message = f"expected the name of a field as operand, not {name!r} (in {word!r})"
            raise ValueError(message)
        visibility = known.visibility
        action, types, texts, multi = "", [], [], None
        for part in filter(None, properties):
            if part in VISIBILITIES:
                visibility = VISIBILITIES[part]
            elif part in ACTIONS and not action:
                action = part
            elif part.startswith("TXT="):
                texts.append(part[4:])
            elif found := _MULTI.fullmatch(part):
                multi = int(found[1])
            else:
                types.append(part)
        if len(types) > 2 or any(not part.isalnum() or not part.islower() for part in types):
            message = f"expected a width code and an element type in lower case in {word!r}, not {':'.join(types)}"
            raise ValueError(message)
        oc2, xtype = (*types, "", "")[:2]
        parsed = None if value is None else parse_value(value)
        return (OperandSpec(name, parsed, action, visibility, oc2, xtype, tuple(texts), multi, known.internal),)


def _suppressed(spec: OperandSpec) -> OperandSpec:
    """Return the operand with suppressed visibility: a macro's operands are no part of the assembly."""
    return OperandSpec(
        spec.name, spec.value, spec.action, "SUPPRESSED", spec.oc2, spec.xtype, spec.text, spec.multi, spec.internal
    )
