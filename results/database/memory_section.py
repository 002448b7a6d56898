"""The `<memory>` elements of an instructions.xml, one for each architecture: measurements of its memory.

They stand before the first extension, behind `<provenance>`. Other tools' readers look for `<instruction>` and pass
over them. docs/database.md describes the attributes.
"""

from __future__ import annotations

import lzma
import zlib
from typing import IO, TYPE_CHECKING

from lxml import etree

from results.database.reader import SAFE, DatabaseError, provenance_of
from results.database.writer import clean, provenance_attributes
from results.memory.documents import cycles_of, forwarding_row, letters
from results.memory.model import (
    AccessSize,
    Chased,
    ForwardingMatrix,
    ForwardingRow,
    MeasuredLevel,
    MemoryReport,
    Replacement,
    Time,
)
from xed_convert.catalogue.xml import attributes_text, escape, open_catalogue, xml_fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from fractions import Fraction
    from pathlib import Path


def write_memories(reports: Iterable[MemoryReport], file: IO[bytes]) -> None:
    """Write a file of its own: a root element with nothing but these sections."""
    file.write(b"<?xml version='1.0' encoding='UTF-8'?>\n<root>\n")
    for report in reports:
        file.write(memory_text(report).encode())
    file.write(b"</root>\n")


def memory_sections(reports: Iterable[MemoryReport]) -> list[str]:
    """Return the elements of several reports in the order of their architectures, for `write_database`."""
    ordered = sorted(reports, key=lambda one: one.provenance.architecture)
    return [memory_text(one) for one in ordered]


def memory_text(report: MemoryReport) -> str:
    """Return the `<memory>` element of a report as indented text."""
    lines = [f"  <memory{attributes_text(provenance_attributes(report.provenance))}>"]
    lines += [f"    <caveat>{escape(clean(one))}</caveat>" for one in report.provenance.caveats]
    lines += [f"    <problem>{escape(clean(one))}</problem>" for one in report.problems]
    if report.forwarding is not None:
        lines += _forwarding_lines(report.forwarding)
    lines += [f"    <time{attributes_text(_time_values(one))}/>" for one in report.times]
    lines += [f"    <chased{attributes_text(_chased_values(one))}/>" for one in report.chased]
    lines += [f"    <level{attributes_text(_level_values(one))}/>" for one in report.levels]
    lines += [f"    <replacement{attributes_text(_replacement_values(one))}/>" for one in report.replacements]
    return "\n".join([*lines, "  </memory>\n"])


def _replacement_values(one: Replacement) -> dict[str, str]:
    ways = {} if one.ways is None else {"ways": str(one.ways)}
    policies = {"policies": " ".join(one.policies)} if one.policies else {}
    return {"level": one.level, **ways, **policies, **({"reason": clean(one.reason)} if one.reason else {})}


def _time_values(one: Time) -> dict[str, str]:
    parameters = "; ".join(f"{name}={value}" for name, value in one.parameters)
    return {"kind": one.kind, "parameters": parameters, "cycles": f"{float(one.cycles):.2f}"}


def _chased_values(one: Chased) -> dict[str, str]:
    cycles = {"cycles": one.cycles, "page_cycles": one.page_cycles}
    return {"bytes": str(one.size_bytes), **{name: f"{float(value):.2f}" for name, value in cycles.items()}}


def _level_values(one: MeasuredLevel) -> dict[str, str]:
    last = {"is_last": "1"} if one.is_last else {}
    return {"bytes": str(one.size_bytes), "cycles": f"{float(one.cycles):.2f}", **last}


def _forwarding_lines(forwarding: ForwardingMatrix) -> Iterator[str]:
    penalties = {name: forwarding.penalty(file) for name, file in _PENALTIES.items()}
    head = {name: f"{float(cycles):.2f}" for name, cycles in penalties.items() if cycles is not None}
    yield f"    <store_forwarding{attributes_text(head)}>"
    for size in forwarding.sizes:
        values = {"name": size.name, "bytes": str(size.size_bytes), "file": size.file}
        yield f"      <access{attributes_text(values)}/>"
    for row in forwarding.rows:
        yield f"      <pair{attributes_text(_row_values(row))}/>"
    yield "    </store_forwarding>"


_PENALTIES = {"penalty": "general", "penalty_vector": "vector"}


def _row_values(row: ForwardingRow) -> dict[str, str]:
    return {
        "store": row.store.name,
        "load": row.load.name,
        "place": row.place.value,
        "addressing": row.addressing.value,
        "first_offset": str(row.first_offset),
        "cycles": " ".join("-" if cycles is None else f"{float(cycles):.2f}" for cycles in row.cycles),
        "outcomes": letters(row.outcomes),
    }


def read_memories(path: Path) -> list[MemoryReport]:
    """Return the `<memory>` elements of an instructions.xml (plain, .gz or .xz), [] without any.

    Raises:
        DatabaseError: the file cannot be read up to its first instruction, or an element is not of the known form.
    """
    found: list[MemoryReport] = []
    line = 1
    try:
        with open_catalogue(path) as file:
            for _, element in etree.iterparse(file, events=("end",), **SAFE):
                line = element.sourceline or line
                if element.tag == "memory":
                    found.append(_report(element))
                    element.clear()
                elif element.tag == "instruction":
                    break
    except (etree.XMLSyntaxError, EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise DatabaseError(f"{path}:{getattr(error, 'lineno', None) or line}: {xml_fault(error)}") from error
    except (KeyError, ValueError) as error:
        raise DatabaseError(f"{path}:{line}: an element is not of the known form: {error}") from error
    return found


def _report(element: etree._Element) -> MemoryReport:
    matrix = element.find("store_forwarding")
    forwarding = None if matrix is None else _forwarding(matrix)
    problems = tuple(child.text or "" for child in element.iterchildren("problem"))
    times, chased, levels = (tuple(element.iterchildren(tag)) for tag in ("time", "chased", "level"))
    return MemoryReport(
        provenance_of(element),
        forwarding,
        problems,
        tuple(map(_time, times)),
        tuple(Chased(_bytes(one), _cycles(one), _cycles(one, "page_cycles")) for one in chased),
        tuple(MeasuredLevel(_bytes(one), _cycles(one), is_last=one.get("is_last") == "1") for one in levels),
        tuple(map(_replacement, element.iterchildren("replacement"))),
    )


def _replacement(element: etree._Element) -> Replacement:
    ways = element.get("ways")
    policies = tuple(str(element.get("policies", "")).split())
    return Replacement(
        str(element.attrib["level"]), None if ways is None else int(ways), policies, str(element.get("reason", ""))
    )


def _bytes(element: etree._Element) -> int:
    return int(element.attrib["bytes"])


def _cycles(element: etree._Element, name: str = "cycles") -> Fraction:
    return cycles_of(str(element.attrib[name]))


def _time(element: etree._Element) -> Time:
    pairs = (pair.partition("=") for pair in filter(None, str(element.attrib["parameters"]).split("; ")))
    parameters = ((name, value) for name, _, value in pairs)
    return Time.read(str(element.attrib["kind"]), parameters, cycles_of(str(element.attrib["cycles"])))


def _forwarding(element: etree._Element) -> ForwardingMatrix:
    sizes = {
        name: AccessSize(name, int(child.attrib["bytes"]), str(child.attrib["file"]))
        for child in element.iterchildren("access")
        for name in (str(child.attrib["name"]),)
    }
    return ForwardingMatrix(tuple(_row(child, sizes) for child in element.iterchildren("pair")))


def _row(element: etree._Element, sizes: dict[str, AccessSize]) -> ForwardingRow:
    values = {str(name): str(value) for name, value in element.attrib.items()}
    return forwarding_row(
        sizes[values["store"]],
        sizes[values["load"]],
        place=values["place"],
        addressing=values["addressing"],
        first_offset=int(values["first_offset"]),
        cycles=values["cycles"].split(),
        outcomes=values["outcomes"],
    )
