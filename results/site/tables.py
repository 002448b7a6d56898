"""The data of the big table as JavaScript files: columns of numbers and indices, small enough for a phone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from results.database.cycles import longest, range_cycles
from results.site.views import latency_range
from xed_convert.numbers import decimal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from results.database.reader import ArchitectureResult, Entry
    from xed_convert.model import InstructionVariant

_LETTERS = {"reg": "r", "mem": "m", "agen": "m", "imm": "i", "relbr": "i", "dfv": "i"}


class _Index:
    """Numbers values in the order in which they come."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._places: dict[str, int] = {}

    def of(self, value: str) -> int:
        if value not in self._places:
            self._places[value] = len(self.values)
            self.values.append(value)
        return self._places[value]


def variants_script(entries: Sequence[Entry], names: Mapping[str, str]) -> str:
    """Return `data/variants.js`: everything about variants that does not depend on the architecture."""
    extensions, isa_sets, iforms = _Index(), _Index(), _Index()
    variants = [entry.variant for entry in entries]
    table = {
        "string": [variant.string for variant in variants],
        "slug": [names[variant.string] for variant in variants],
        "iform": [iforms.of(variant.iform) for variant in variants],
        "extension": [extensions.of(variant.extension) for variant in variants],
        "isaSet": [isa_sets.of(variant.isa_set) for variant in variants],
        "types": [_types(variant) for variant in variants],
    }
    lists = {"iforms": iforms.values, "extensions": extensions.values, "isaSets": isa_sets.values}
    return f"window.uopscope={{variants:{_compact(table | lists)},architectures:{{}}}};\n"


def _types(variant: InstructionVariant) -> str:
    letters = {_LETTERS.get(operand.kind.value, "") for operand in variant.operands if not operand.suppressed}
    return "".join(sorted(letters))


def architecture_script(name: str, entries: Sequence[Entry]) -> str:
    """Return `data/NAME.js`: one architecture's numbers, in the order of the variants."""
    texts = _Index()
    rows = [(place, entry.results[name]) for place, entry in enumerate(entries) if name in entry.results]
    table: dict[str, list[object]] = {
        "variant": [place for place, _ in rows],
        "uops": [_whole((result.measurement or {}).get("uops")) for _, result in rows],
        "ports": [texts.of((result.measurement or {}).get("ports", "")) for _, result in rows],
        "throughput": [_least(result) for _, result in rows],
        "latency": [latency_range(result) for _, result in rows],
        "minimum": [min(_cycles(result), default=None) for _, result in rows],
        "maximum": [longest(result.latencies) for _, result in rows],
        "portTexts": list(texts.values),
        "simulated": [int((result.measurement or {}).get("simulated") == "1") for _, result in rows],
    }
    return f"window.uopscope.architectures[{json.dumps(name)}]={_compact(table)};\n"


def _compact(table: object) -> str:
    """Return JSON for a script element; nothing in it can end the element."""
    return json.dumps(table, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")


def _whole(text: str | None) -> int | None:
    return None if text is None else decimal(text)


def _cycles(result: ArchitectureResult) -> Iterable[float]:
    """Return exact numbers of cycles with minima; upper bounds are left out: nobody can sort or search by them."""
    return (cycles for row in result.latencies for cycles in range_cycles(row.values, exact=True))


def _least(result: ArchitectureResult) -> float | None:
    values = result.measurement or {}
    return min((float(values[name]) for name in ("TP_unrolled", "TP_loop") if name in values), default=None)
