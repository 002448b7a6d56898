"""Writes instructions.xml with measurements as a stream: the same bytes for the same content.

Provenance stands in `<provenance>` elements before the first extension, one for each architecture; other tools' readers
look for `<instruction>` and pass over them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from results.database.reader import PROVENANCE_TEXTS
from xed_convert.catalogue.xml import attributes_text, escape, instruction_text
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from results.database.reader import Analysis, ArchitectureResult, Entry, LatencyRow
    from results.findings import Stated
    from results.model import Provenance
    from xed_convert.model import InstructionVariant


def write_database(
    entries: Iterable[Entry], provenances: Iterable[Provenance], file: IO[bytes], sections: Iterable[str] = ()
) -> int:
    """Write entries, which come sorted by extension and then string, and return how many there were.

    Args:
        entries: instructions with their results.
        provenances: where the results come from.
        file: receives the bytes.
        sections: elements of other kinds, as text, which stand before the first extension.

    Raises:
        ValueError: an extension comes again after another one.
    """
    write = file.write
    write(b"<?xml version='1.0' encoding='UTF-8'?>\n<root>\n")
    for provenance in sorted(provenances, key=lambda one: (one.architecture, one.time)):
        write(_provenance_text(provenance).encode())
    for section in sections:
        write(section.encode())
    count, current, done = 0, "", set()
    for entry in entries:
        extension = entry.variant.extension
        if extension != current:
            if extension in done:
                raise ValueError(f"the extension {extension} comes twice: entries are not sorted")
            write(f'{"  </extension>" + chr(10) if current else ""}  <extension name="{escape(extension)}">\n'.encode())
            done.add(extension)
            current = extension
        write(instruction_text(_as_readers_know(entry.variant), results_text(entry.results.values())).encode())
        count += 1
    write(f"{'  </extension>' + chr(10) if current else ''}</root>\n".encode())
    return count


def _as_readers_know(variant: InstructionVariant) -> InstructionVariant:
    """Return the variant with default flags as an immediate: other readers refuse operands of a type that they lack."""
    if all(operand.kind is not OperandKind.DEFAULT_FLAGS for operand in variant.operands):
        return variant
    operands = (
        replace(operand, kind=OperandKind.IMMEDIATE) if operand.kind is OperandKind.DEFAULT_FLAGS else operand
        for operand in variant.operands
    )
    return replace(variant, operands=tuple(operands))


def _provenance_text(provenance: Provenance) -> str:
    """Return a `<provenance>` element."""
    head = attributes_text(provenance_attributes(provenance))
    if not provenance.caveats:
        return f"  <provenance{head}/>\n"
    body = "".join(f"    <caveat>{escape(clean(caveat))}</caveat>\n" for caveat in provenance.caveats)
    return f"  <provenance{head}>\n{body}  </provenance>\n"


def provenance_attributes(provenance: Provenance) -> dict[str, str]:
    """Return the attributes of an element that says where something comes from; options are joined by `; `."""
    values = {name: str(getattr(provenance, name)) for name in PROVENANCE_TEXTS}
    values["options"] = "; ".join(f"{name}={value}" for name, value in sorted(provenance.options.items()))
    values["is_model"] = "1" if provenance.is_model else ""
    return {name: clean(value) for name, value in values.items() if value}


def clean(text: str) -> str:
    """Leave out the characters that XML cannot hold."""
    return _CONTROL.sub("", text)


_CONTROL = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def results_text(results: Iterable[ArchitectureResult]) -> str:
    """Return `<architecture>` elements as indented text, in the order of their names."""
    return "".join(map(_architecture_text, sorted(results, key=lambda result: result.architecture)))


def _architecture_text(result: ArchitectureResult) -> str:
    body = "".join(map(_analysis_text, result.analyses))
    if result.measurement is not None:
        body += _measurement_text(result, result.measurement)
    return f'      <architecture name="{escape(result.architecture)}">\n{body}      </architecture>\n' if body else ""


def _analysis_text(analysis: Analysis) -> str:
    return f"        <{analysis.tag}{attributes_text(dict(analysis.values))}/>\n"


def _measurement_text(result: ArchitectureResult, values: Mapping[str, str]) -> str:
    head = attributes_text(dict(values))
    rows = sorted(result.latencies, key=lambda row: (row.start, row.target, sorted(row.values.items())))
    text = "".join(map(_latency_text, rows))
    text += "".join(map(_failure_text, result.failures))
    if not text:
        return f"        <measurement{head}/>\n"
    return f"        <measurement{head}>\n{text}        </measurement>\n"


def _failure_text(failure: Stated) -> str:
    head = attributes_text({"reason": clean(failure.reason)})
    return f"          <failure{head}>{escape(clean(failure.text))}</failure>\n"


def _latency_text(row: LatencyRow) -> str:
    values = {**row.values, "start_op": str(row.start), "target_op": str(row.target)}
    return f"          <latency{attributes_text(values)}/>\n"
