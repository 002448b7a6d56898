"""instructions.xml with measurements: its records, and a reader that trusts nothing.

The format is that of uops.info: below an `<instruction>` stand `<architecture name="SKL">` elements, each with one
`<measurement>` and its `<latency>` children, and analyses by software models (`<LLVM>`, `<IACA>`, `<doc>`). Files that
others published are read too; impossible values in them (`REPAIRS`) are left out and reported.

A file may be hostile. So document types, and with them entities, are refused; nesting and text are limited; and only
one instruction is in memory at a time.
"""

from __future__ import annotations

import lzma
import re
import zlib
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lxml import etree

from results.campaign.packed import is_campaign
from results.findings import Stated
from results.model import PORT_USAGE, Provenance
from xed_convert.catalogue.xml import open_catalogue, variant_of, xml_fault
from xed_convert.errors import UopscopeError
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from xed_convert.model import InstructionVariant

MAXIMUM_DEPTH = 8
"""root / extension / instruction / architecture / measurement / latency, and room for what others may add."""

MAXIMUM_ELEMENTS_PER_INSTRUCTION = 20_000
"""An instruction has some ten latencies on some thirty architectures; more than this is not a database."""


class DatabaseError(UopscopeError):
    """An instructions.xml cannot be read or written, or breaks a rule; the message begins with `file:line:`."""


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """A `<latency>`: operand indices, and its other attributes (`cycles`, `max_cycles`, `cycles_addr` ...) as text."""

    start: int
    target: int
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a software model or a document says of a variant: the element's tag and attributes."""

    tag: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ArchitectureResult:
    """What is known of one variant on one architecture.

    `measurement` is None where only analyses are; `failures` are checks that did not hold.
    """

    architecture: str
    measurement: Mapping[str, str] | None = None
    latencies: tuple[LatencyRow, ...] = ()
    failures: tuple[Stated, ...] = ()
    analyses: tuple[Analysis, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A variant with its results, by architecture name in the order of the file."""

    variant: InstructionVariant
    results: Mapping[str, ArchitectureResult] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Repair:
    """A value that was left out because it cannot be true, with the place and the reason."""

    line: int
    string: str
    architecture: str
    attribute: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class RepairRule:
    """Values of attributes (both as regular expressions over the whole) that cannot be, and why."""

    attributes: str
    values: str
    reason: str


_NUMBERS = r"TP_\w+|uops\w*|\w*cycles\w*"
"""Attributes that are numbers."""

_COUNTS = (
    r"(slower|faster)_with_\w+|slower_after_\w+|bypass_\w+|uops\w*|((min|max)_)?cycles\w*|div_cycles\w*|complex_decoder\w*"
    r"|available_simple_decoders\w*"
)
"""Attributes that are whole numbers."""

REPAIRS = (
    RepairRule(_NUMBERS, r"\d{10,}(\.\d+)?", "a sentinel of the largest integer, not a measurement"),
    RepairRule(_NUMBERS, r"-\d+(\.\d+)?", "a negative number"),
    RepairRule(_NUMBERS, r"(?!-?\d+(\.\d+)?\Z).*", "not a number"),
    RepairRule(_COUNTS, r"(?!\d+\Z).*", "not a whole number"),
    RepairRule(r"ports\w*", r"", "an empty port usage: no port is said by leaving the attribute out"),
    RepairRule(r"ports(?!_by_time)\w*", rf"(?!{PORT_USAGE}\Z).+", "not a port usage"),
)
"""Known faults of published files (sentinels of both kinds, -1.00 among them, stand in uops.info's files of 2022)."""


def fault_of(attribute: str, value: str) -> str:
    """Return why a value cannot be one of that attribute ("": it can)."""
    return next((reason for is_fault, reason in _repairs_of(attribute) if is_fault(value)), "")


@lru_cache(maxsize=256)
def _repairs_of(attribute: str) -> tuple[tuple[Callable[[str], object], str], ...]:
    """Return the repairs of an attribute: which values cannot be, and why."""
    rules = [rule for rule in REPAIRS if re.fullmatch(rule.attributes, attribute)]
    return tuple((re.compile(rule.values, re.DOTALL).fullmatch, rule.reason) for rule in rules)


def read_database(
    path: Path, repairs: list[Repair] | None = None, architecture: str = "", others: set[str] | None = None
) -> Iterator[Entry]:
    """Yield the entries of an instructions.xml (plain, .gz or .xz) one by one.

    What `REPAIRS` knows is left out, and appended to `repairs`. With `architecture` (in any case) only its results are
    read, and only instructions that have some: a file of 25 CPUs is read in a third of the time. The names of the other
    architectures are put into `others`.

    Raises:
        DatabaseError: the file cannot be read, is not well-formed, has a document type, is nested too deeply, or an
            element is not of the known form.
    """
    reader = _Reader(path, [] if repairs is None else repairs, architecture, set() if others is None else others)
    try:
        with open_catalogue(path) as file:
            yield from reader.entries(etree.iterparse(file, events=("start", "end"), **SAFE))
    except (etree.XMLSyntaxError, EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        where = getattr(error, "lineno", None) or reader.line
        hint = "`uopscope db build FILE -o instructions.xml` makes one of a campaign" if is_campaign(path) else ""
        raise DatabaseError(
            f"{path}:{where}: not a readable instructions.xml: {xml_fault(error)}", hint=hint
        ) from error
    except (KeyError, ValueError) as error:
        raise DatabaseError(f"{path}:{reader.line}: an element is not of the known form: {error}") from error


def read_provenances(path: Path) -> list[Provenance]:
    """Return where the results of an instructions.xml come from: its `<provenance>` elements, [] without any.

    Raises:
        DatabaseError: the file cannot be read up to its first extension.
    """
    found: list[Provenance] = []
    try:
        with open_catalogue(path) as file:
            for _, element in etree.iterparse(file, events=("end",), **SAFE):
                if element.tag == "provenance":
                    found.append(provenance_of(element))
                elif element.tag == "instruction":
                    break
    except (etree.XMLSyntaxError, EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise DatabaseError(f"{path}:{getattr(error, 'lineno', None) or 1}: {xml_fault(error)}") from error
    return found


def provenance_of(element: etree._Element) -> Provenance:
    """Return what the attributes and caveats of a `<provenance>` element, or of one like it, say."""
    values = _attributes(element)
    options = (pair.partition("=") for pair in filter(None, values.get("options", "").split("; ")))
    return Provenance(
        **{name: values.get(name, "") for name in PROVENANCE_TEXTS},
        options={name: value for name, _, value in options},
        caveats=tuple(child.text or "" for child in element.iterchildren("caveat")),
        is_model=values.get("is_model") == "1",
    )


PROVENANCE_TEXTS = ("architecture", "cpu", "cpu_signature", "microcode", "kernel", "backend", "version", "time")
"""The attributes of `<provenance>` that are plain text."""

SAFE = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False, "remove_comments": True}


class _Reader:
    """Goes through the events of one file and keeps no more than one instruction."""

    def __init__(self, path: Path, repairs: list[Repair], architecture: str, others: set[str]) -> None:
        self.path, self.architecture = path, architecture.upper()
        self.line = 1
        self._repairs, self._others = repairs, others
        self._depth = 0
        self._elements = 0

    def entries(self, events: etree.iterparse[etree._Element]) -> Iterator[Entry]:
        for event, element in events:
            if event == "start":
                self._enter(element)
                continue
            self._depth -= 1
            if element.tag == "instruction":
                if (entry := self._entry(element)) is not None:
                    yield entry
                self._elements = 0
                _forget(element)
            elif self._depth <= 1:
                _forget(element)
        if self._depth or self.line == 0:
            raise DatabaseError(f"{self.path}:{self.line}: the file ends before its root element does")

    def _enter(self, element: etree._Element) -> None:
        self.line = _line(element) or self.line
        if self._depth == 0:
            self._check_root(element)
        self._depth += 1
        self._elements += 1
        if self._depth > MAXIMUM_DEPTH:
            raise DatabaseError(f"{self.path}:{self.line}: elements are nested more than {MAXIMUM_DEPTH} deep")
        if self._elements > MAXIMUM_ELEMENTS_PER_INSTRUCTION:
            raise DatabaseError(
                f"{self.path}:{self.line}: more than {MAXIMUM_ELEMENTS_PER_INSTRUCTION} elements without the end of an "
                "instruction"
            )

    def _check_root(self, root: etree._Element) -> None:
        if root.getroottree().docinfo.internalDTD is not None:
            raise DatabaseError(f"{self.path}:1: a document type is not allowed in an instructions.xml")
        if root.tag != "root":
            raise DatabaseError(f"{self.path}:{self.line}: expected the element <root>, found <{root.tag}>")

    def _entry(self, element: etree._Element) -> Entry | None:
        """Return an instruction, None if the wanted architecture says nothing of it."""
        self.line = _line(element) or self.line
        children = [one for one in element.iterchildren("architecture") if self._is_wanted(one)]
        if self.architecture and not children:
            return None
        variant = _as_written(variant_of(element))
        results = (self._result(child, variant.string) for child in children)
        return Entry(variant, {result.architecture: result for result in results})

    def _is_wanted(self, element: etree._Element) -> bool:
        name = str(element.attrib["name"])
        is_wanted = self.architecture in ("", name.upper())
        if not is_wanted:
            self._others.add(name)
        return is_wanted

    def _result(self, element: etree._Element, string: str) -> ArchitectureResult:
        name = str(element.attrib["name"])
        measurement = element.find("measurement")
        analyses = tuple(
            Analysis(str(child.tag), _attributes(child))
            for child in element
            if child.tag != "measurement" and child.attrib
        )
        if measurement is None:
            return ArchitectureResult(name, analyses=analyses)
        values = self._repaired(measurement, string, name)
        latencies = tuple(self._latency(child, string, name) for child in measurement.iterchildren("latency"))
        failures = tuple(map(_failure, measurement.iterchildren("failure")))
        return ArchitectureResult(name, values, tuple(row for row in latencies if row.values), failures, analyses)

    def _latency(self, element: etree._Element, string: str, architecture: str) -> LatencyRow:
        values = self._repaired(element, string, architecture)
        return LatencyRow(int(values.pop("start_op")), int(values.pop("target_op")), values)

    def _repaired(self, element: etree._Element, string: str, architecture: str) -> dict[str, str]:
        """Return the attributes without impossible values; most values are plain numbers and pass at once."""
        values = _attributes(element)
        for name, value in tuple(values.items()):
            if _whole(value) or (name.startswith("TP_") and _plain(value)):
                continue
            if reason := fault_of(name, value):
                del values[name]
                line = _line(element) or self.line
                self._repairs.append(Repair(line, string, architecture, name, value, reason))
        return values


def _as_written(variant: InstructionVariant) -> InstructionVariant:
    """Return the variant with default flags as such; files have them as immediates, for other readers."""
    if all(operand.name != DEFAULT_FLAGS for operand in variant.operands):
        return variant
    operands = (
        replace(operand, kind=OperandKind.DEFAULT_FLAGS) if operand.name == DEFAULT_FLAGS else operand
        for operand in variant.operands
    )
    return replace(variant, operands=tuple(operands))


DEFAULT_FLAGS = "DFV"
"""The name of the operand of CCMP and CTEST that is the set of default flags."""


_plain = re.compile(r"\d{1,9}(\.\d\d)?", re.ASCII).fullmatch
_whole = re.compile(r"\d{1,9}", re.ASCII).fullmatch


def _failure(element: etree._Element) -> Stated:
    """Return a failure; files without reasons have the sentence only."""
    text = element.text or ""
    return Stated(str(element.get("reason", text.partition("\n")[0])), text)


def _line(element: etree._Element) -> int:
    """Return the line where an element begins (0: not known)."""
    return int(getattr(element, "sourceline", 0) or 0)


def _attributes(element: etree._Element) -> dict[str, str]:
    return {str(name): str(value) for name, value in element.attrib.items()}


def _forget(element: etree._Element) -> None:
    """Free an element and all that stands before it below the same parent."""
    element.clear()
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]
