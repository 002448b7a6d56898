"""A machine's memory as JSON and back: `decode(encode(x)) == x`."""

from __future__ import annotations

import json
import lzma
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from results.campaign.codec import decode_provenance, encode_provenance
from results.campaign.scalars import checked
from results.memory.model import (
    AccessSize,
    Addressing,
    Chased,
    ForwardingMatrix,
    ForwardingOutcome,
    ForwardingRow,
    LineCrossing,
    MeasuredLevel,
    MemoryReport,
    Replacement,
    Time,
)
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from pathlib import Path

Json: TypeAlias = dict[str, Any]
"""A JSON object; the functions here know its members' types."""

FORM = "uopscope memory 1"
"""What a document calls itself."""
LETTERS = {
    ForwardingOutcome.RENAMED: "r",
    ForwardingOutcome.FORWARDED: "f",
    ForwardingOutcome.FAILED: "x",
    ForwardingOutcome.UNKNOWN: "-",
}
"""An outcome as one character, so that a row of them is a word."""
_NUMBER = re.compile(r"\d{1,7}(\.\d{1,4})?", re.ASCII)
_OUTCOMES = {letter: outcome for outcome, letter in LETTERS.items()}


class MemoryDocumentError(UopscopeError):
    """A file is no document of a machine's memory."""


def encode(report: MemoryReport) -> Json:
    """Write all of it."""
    forwarding, rates = report.forwarding, report.stores_per_cycle
    return {
        "form": FORM,
        "provenance": encode_provenance(report.provenance),
        "problems": list(report.problems),
        "store_forwarding": None if forwarding is None else _encode_forwarding(forwarding),
        "stores_per_cycle": None if rates is None else {name: float(rate) for name, rate in rates._asdict().items()},
        "times": [{"kind": one.kind, **dict(one.parameters), "cycles": float(one.cycles)} for one in report.times],
        "chased": [
            {"bytes": one.size_bytes, "cycles": float(one.cycles), "page_cycles": float(one.page_cycles)}
            for one in report.chased
        ],
        "levels": [
            {"bytes": one.size_bytes, "cycles": float(one.cycles), "is_last": one.is_last} for one in report.levels
        ],
        "replacement": [
            {"level": one.level, "ways": one.ways, "policies": list(one.policies), "reason": one.reason}
            for one in report.replacements
        ],
    }


def decode(data: Json) -> MemoryReport:
    """Read what `encode` wrote.

    Raises:
        ValueError: it is something else.
        KeyError: a part is missing.
        TypeError: a part is of another type.
    """
    if checked(dict, data).get("form") != FORM:
        message = f"the form is not {FORM!r}"
        raise ValueError(message)
    forwarding = data["store_forwarding"]
    return MemoryReport(
        decode_provenance(data["provenance"]),
        None if forwarding is None else _decode_forwarding(forwarding),
        tuple(checked(str, one) for one in checked(list, data["problems"])),
        tuple(map(_decode_time, checked(list, data["times"]))),
        tuple(
            Chased(checked(int, one["bytes"]), cycles_of(repr(one["cycles"])), cycles_of(repr(one["page_cycles"])))
            for one in checked(list, data["chased"])
        ),
        tuple(
            MeasuredLevel(checked(int, one["bytes"]), cycles_of(repr(one["cycles"])), checked(bool, one["is_last"]))
            for one in checked(list, data["levels"])
        ),
        tuple(map(_decode_replacement, checked(list, data["replacement"]))),
    )


def _decode_replacement(data: Json) -> Replacement:
    ways = None if data["ways"] is None else checked(int, data["ways"])
    names = tuple(checked(str, one) for one in checked(list, data["policies"]))
    return Replacement(checked(str, data["level"]), ways, names, checked(str, data["reason"]))


def _decode_time(data: Json) -> Time:
    members = dict(checked(dict, data))
    kind, cycles = checked(str, members.pop("kind")), cycles_of(repr(members.pop("cycles")))
    parameters = ((checked(str, name), checked(str, value)) for name, value in members.items())
    return Time.read(kind, parameters, cycles)


def read_document(path: Path) -> MemoryReport:
    """Read a file, plain or .xz.

    Raises:
        MemoryDocumentError: it cannot be read, or is something else.
    """
    try:
        data = path.read_bytes()
        return decode(json.loads(lzma.decompress(data) if path.suffix == ".xz" else data))
    except OSError as error:
        raise MemoryDocumentError(f"{path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, RecursionError, EOFError, lzma.LZMAError) as error:
        raise MemoryDocumentError(f"{path}: not what `uopscope memory --json FILE` writes ({_said(error)})") from error


def _said(error: Exception) -> str:
    """Return what is wrong, in words for people."""
    match error:
        case KeyError():
            return f"no member {error}"
        case UnicodeDecodeError():
            return "not a text"
        case RecursionError():
            return "nested too deeply"
    return str(error)[:80]


def _encode_forwarding(forwarding: ForwardingMatrix) -> Json:
    penalties = {file: forwarding.penalty(file) for file in ("general", "vector")}
    return {
        "penalty_cycles": {file: None if cycles is None else float(cycles) for file, cycles in penalties.items()},
        "sizes": [{"name": one.name, "bytes": one.size_bytes, "file": one.file} for one in forwarding.sizes],
        "rows": [
            {
                "store": row.store.name,
                "load": row.load.name,
                "place": row.place.value,
                "addressing": row.addressing.value,
                "first_offset": row.first_offset,
                "cycles": [None if cycles is None else float(cycles) for cycles in row.cycles],
                "outcomes": letters(row.outcomes),
            }
            for row in forwarding.rows
        ],
    }


def _decode_forwarding(data: Json) -> ForwardingMatrix:
    sizes = {}
    for one in checked(list, data["sizes"]):
        name = checked(str, one["name"])
        sizes[name] = AccessSize(name, checked(int, one["bytes"]), checked(str, one["file"]))
    return ForwardingMatrix(tuple(_decode_row(row, sizes) for row in checked(list, data["rows"])))


def _decode_row(data: Json, sizes: dict[str, AccessSize]) -> ForwardingRow:
    return forwarding_row(
        sizes[data["store"]],
        sizes[data["load"]],
        place=data["place"],
        addressing=data["addressing"],
        first_offset=checked(int, data["first_offset"]),
        cycles=["-" if cycles is None else repr(cycles) for cycles in checked(list, data["cycles"])],
        outcomes=checked(str, data["outcomes"]),
    )


def forwarding_row(  # noqa: PLR0913 - all that a row has
    store: AccessSize,
    load: AccessSize,
    *,
    place: str,
    addressing: str,
    first_offset: int,
    cycles: list[str],
    outcomes: str,
) -> ForwardingRow:
    """Make a row of texts: cycles are decimal numbers or "-", outcomes one letter each.

    Args:
        store: what is stored.
        load: what is loaded.
        place: the value of a `LineCrossing`.
        addressing: the value of an `Addressing`.
        first_offset: of the first case, in bytes.
        cycles: one text for each case.
        outcomes: as many letters of `LETTERS`.

    Raises:
        ValueError: a text is something else, or cycles and outcomes are not equally many.
    """
    values = tuple(None if text == "-" else cycles_of(text) for text in cycles)
    found = tuple(_OUTCOMES[letter] for letter in outcomes if letter in _OUTCOMES)
    if not len(values) == len(found) == len(outcomes):
        message = f"{len(values)} cycles and the outcomes {outcomes[:40]!r} do not go together"
        raise ValueError(message)
    return ForwardingRow(store, load, LineCrossing(place), Addressing(addressing), first_offset, values, found)


def letters(outcomes: tuple[ForwardingOutcome, ...]) -> str:
    """Write outcomes as one letter each."""
    return "".join(LETTERS[one] for one in outcomes)


def cycles_of(text: str) -> Fraction:
    """Read cycles.

    Raises:
        ValueError: the text is no decimal number, or too large a one.
    """
    if not _NUMBER.fullmatch(text):
        message = f"{text[:40]!r} are no cycles"
        raise ValueError(message)
    return Fraction(text)
