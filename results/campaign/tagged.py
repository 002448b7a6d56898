"""Steps of derivations and failures as JSON and back, by the types of their fields.

    {"kind": "NoPorts", "form": "same_register", "why": {"kind": "TooManyUops", "uops": 120}}

Fields at their defaults are left out. A new kind in `results.findings` needs nothing here, unless one of its fields has
a new type.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

from results import findings, model
from results.campaign.scalars import checked, fraction, number
from results.model import Form, LatencyKey, PortUsage, port_set_name

Reader: TypeAlias = Callable[[Any], Any]


def encode_tagged(value: model.Step | model.Failure) -> dict[str, Any]:
    """Write a step or a failure."""
    return {"kind": type(value).__name__, **_members(value)}


def encode_key(key: LatencyKey) -> dict[str, Any]:
    """Write which latency it is."""
    return _members(key)


def decode_step(data: object) -> model.Step:
    """Read a step.

    Raises:
        ValueError: it is none.
    """
    found = _tagged(data, model.Step)
    assert isinstance(found, model.Step)
    return found


def decode_failure(data: object) -> model.Failure:
    """Read a failure. A bare sentence, as older files have, becomes one of the kind `Text`.

    Raises:
        ValueError: it is none.
    """
    found = findings.Text(data) if isinstance(data, str) else _tagged(data, model.Failure)
    assert isinstance(found, model.Failure)
    return found


def decode_key(data: object) -> LatencyKey:
    """Read what `encode_key` wrote.

    Raises:
        ValueError: it wrote no such thing.
    """
    found = _record(data, LatencyKey)
    assert isinstance(found, LatencyKey)
    return found


def _members(value: object) -> dict[str, Any]:
    assert is_dataclass(value)
    return {
        each.name: _encoded(getattr(value, each.name))
        for each in fields(value)
        if each.default is MISSING or getattr(value, each.name) != each.default
    }


def _encoded(value: object) -> Any:  # noqa: ANN401 - JSON
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    return value


_WRITERS: Mapping[type, Callable[[Any], Any]] = {
    model.Step: encode_tagged,
    model.Failure: encode_tagged,
    Fraction: number,
    Form: lambda form: form.name.lower(),
    Enum: lambda member: member.value,
    PortUsage: str,
    frozenset: port_set_name,
    tuple: lambda several: [_encoded(one) for one in several],
    Mapping: lambda members: {name: _encoded(one) for name, one in members.items()},
    findings.LinkShare: _members,
    findings.Blocked: _members,
    findings.Confined: _members,
    findings.NopTime: _members,
    findings.DivisionTime: _members,
    findings.MoveTime: _members,
    findings.UsageTime: _members,
    LatencyKey: _members,
}


def _tagged(data: object, family: type) -> object:
    members = dict(checked(dict, data))
    kind = findings.KINDS.get(checked(str, members.pop("kind", None)))
    if kind is None or not issubclass(kind, family):
        raise ValueError(f"not a known kind of {family.__name__.lower()}: {str(data)[:80]}")
    return _record(members, kind)


def _record(data: object, kind: type) -> object:
    readers = _readers(kind)
    members = checked(dict, data)
    if not members.keys() <= readers.keys():
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(members.keys() - readers.keys()))}")
    try:
        return kind(**{name: readers[name](value) for name, value in members.items()})
    except TypeError as error:
        raise ValueError(f"{kind.__name__} lacks a member: {error}") from error


@cache
def _readers(kind: type) -> dict[str, Reader]:
    return {name: _reader(hint) for name, hint in get_type_hints(kind).items()}


def _reader(hint: Any) -> Reader:  # noqa: ANN401, PLR0911 - one case for each type
    """Return what reads a field of a type."""
    if hint in _READERS:
        return _READERS[hint]
    inner = [_reader(each) for each in get_args(hint) if each not in {Ellipsis, types.NoneType}]
    match get_origin(hint):
        case types.UnionType:
            return lambda value: None if value is None else inner[0](value)
        case origin if origin is tuple:
            return lambda value: tuple(map(inner[0], checked(list, value)))
        case origin if origin is Mapping:
            return lambda value: {inner[0](name): inner[1](one) for name, one in checked(dict, value).items()}
        case origin if origin is frozenset:
            return _port_set
    if issubclass(hint, Enum):
        kind: Reader = hint
        return kind
    return lambda value: _record(value, hint)


def _cycles(value: int | str) -> Fraction:
    cycles = fraction(value)
    if cycles is None:
        raise ValueError("a number is missing")
    return cycles


def _port_set(value: object) -> frozenset[str]:
    text = checked(str, value)
    sets = [*PortUsage.parse(f"1*{text}").uops] if text != "p" else [frozenset[str]()]
    if len(sets) != 1:
        raise ValueError(f"not a set of ports: {text[:40]!r}")
    return sets[0]


_READERS: Mapping[Any, Reader] = {
    str: lambda value: checked(str, value),
    int: lambda value: checked(int, value),
    bool: lambda value: checked(bool, value),
    Fraction: _cycles,
    PortUsage: lambda value: PortUsage.parse(checked(str, value)),
    Form: lambda value: Form[checked(str, value).upper()],
    model.Step: decode_step,
    model.Failure: decode_failure,
}
