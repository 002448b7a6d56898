"""Reads a machine from an instructions.xml (ours, uops.info's, or a shipped one), or from a campaign.

    machine = read_machine(Path("instructions.xml.xz"), "HSW")
    behaviour = machine.behaviour(catalogue.by_string("ADC_13 (R64, R64)"))
    behaviour.uops, behaviour.slots, behaviour.decoding, behaviour.same_register, behaviour.indexed
    machine.core.back_end.issue_width, machine.core.uop_cache.lines

Variants are found by key, so the catalogue may be of another version of XED if the operands of both are alike.
Graphs are made when they are first asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from results.campaign.packed import is_campaign
from results.database.entries import entries_of, provenances_of
from results.database.merge import current_key
from results.machine.build import behaviour_from
from results.machine.cached import kept_or_read
from results.machine.constants import core_of
from results.machine.facts import facts_of, shortened
from results.machine.graph import ModelError
from results.machine.resources import with_resources
from results.machine.round_trips import corrections, with_round_trips
from results.model import LatencyPart, PortUsage
from xed_convert.garbage import without_collection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from results.database.reader import ArchitectureResult, Entry
    from results.machine.constants import CoreConstants
    from results.machine.facts import VariantFacts
    from results.machine.graph import Behaviour
    from results.machine.round_trips import RegisterWay
    from results.model import Provenance
    from xed_convert.model import InstructionVariant

Shape = tuple[tuple[int, str], ...]
"""Index and kind of each operand: what a file and the catalogue must have in common."""

Measured: TypeAlias = "dict[str, list[tuple[InstructionVariant, ArchitectureResult]]]"
"""The variants that a file has measurements of, by architecture."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """What a file says of one variant on one architecture."""

    string: str
    shape: Shape
    result: ArchitectureResult


@dataclass(frozen=True)
class MachineFile:
    """A machine read from a file: the constants of its core, and a behaviour per variant.

    Values of the file that cannot be true are left out. Upper bounds from one kind of register to another are longer
    than the part of a round trip that they get, by `longer`. With `shortest`, every other bound counts as one cycle.
    """

    architecture: str
    core: CoreConstants
    source: str
    provenances: tuple[Provenance, ...]
    by_key: Mapping[str, FileRow]
    by_string: Mapping[str, FileRow]
    longer: Mapping[RegisterWay, int] = field(default_factory=dict)
    shortest: bool = False
    _facts: dict[str, VariantFacts | None] = field(default_factory=dict, repr=False)
    _behaviours: dict[str, Behaviour | None] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """Return the number of variants with measurements."""
        return len(self.by_string)

    @cached_property
    def fusion_known(self) -> bool:
        """Whether the file says of any variant with which jumps it fuses."""
        return any("macro_fusible" in (row.result.measurement or {}) for row in self.by_string.values())

    def with_shortest_latencies(self) -> MachineFile:
        """Return the same machine with every latency of which only an upper bound is known as short as it can be."""
        return replace(self, shortest=True, _facts={}, _behaviours={})

    def row(self, variant: InstructionVariant) -> FileRow | None:
        """Return what the file says of a variant, by key, else by string; None if nothing, or of other operands."""
        shape = shape_of(variant)
        found = (self.by_key.get(variant.key), self.by_string.get(variant.string))
        return next((row for row in found if row is not None and row.shape == shape), None)

    def facts(self, variant: InstructionVariant) -> VariantFacts | None:
        """Return the numbers that the file has for a variant, None if it has none.

        Raises:
            ModelError: a number is not of the known form.
        """
        if variant.string not in self._facts:
            row = self.row(variant)
            try:
                found = facts_of(row.result) if row is not None else None
            except ValueError as error:
                raise ModelError(f"{self.source}: {variant.string}: {error}") from error
            if found is not None:
                found = replace(found, fusion_known=self.fusion_known)
                found = with_round_trips(variant, found, self.longer)
                found = shortened(found) if self.shortest else found
            self._facts[variant.string] = found
        return self._facts[variant.string]

    def behaviour(self, variant: InstructionVariant) -> Behaviour | None:
        """Return what the machine does with a variant, None if the file has no measurement of it.

        Raises:
            ModelError: a number of the file is not of the known form.
        """
        if variant.string not in self._behaviours:
            facts = self.facts(variant)
            made = behaviour_from(variant, facts, self.core) if facts is not None else None
            self._behaviours[variant.string] = made
        return self._behaviours[variant.string]


def shape_of(variant: InstructionVariant) -> Shape:
    """Return the index and kind of each operand."""
    return tuple([(operand.index, operand.kind.value) for operand in variant.operands])


def architectures(path: Path) -> list[str]:
    """Return the architectures that a file has measurements of, in order of appearance.

    Raises:
        DatabaseError: the file cannot be read.
    """
    return list(_measured(entries_of(path), ""))


def read_machine(path: Path, architecture: str = "", core: CoreConstants | None = None) -> MachineFile:
    """Read the machine of an architecture ("": the only one of the file).

    Args:
        path: an instructions.xml, plain or compressed; or a campaign's file.
        architecture: its name in the file, in any case.
        core: the constants of the core (None: those of the architecture's name).

    Raises:
        DatabaseError: the file cannot be read.
        ModelError: the file has no measurements of it, or of several and none is named, or its core is not known.
    """
    return read_machines(path, [architecture], core)[0]


def read_machines(path: Path, names: Sequence[str], core: CoreConstants | None = None) -> list[MachineFile]:
    """Read the machines of several architectures, as `read_machine` does. A campaign is read once for all of them.

    Raises:
        DatabaseError: the file cannot be read.
        ModelError: as with one.
    """
    if core is None:
        return kept_or_read(path, names, lambda: _read(path, names, None))
    return _read(path, names, core)


def _read(path: Path, names: Sequence[str], core: CoreConstants | None) -> list[MachineFile]:
    with without_collection():
        # An instructions.xml with many architectures is read faster if only one is wanted.
        entries = list(entries_of(path)) if is_campaign(path) else None
        rows = [_measured(entries_of(path, name) if entries is None else entries, name) for name in names]
    provenances = provenances_of(path)
    return [_machine(path, name, one, provenances, core) for name, one in zip(names, rows, strict=True)]


def _machine(
    path: Path, architecture: str, rows: Measured, provenances: Iterable[Provenance], core: CoreConstants | None
) -> MachineFile:
    if len(rows) != 1:
        there = ", ".join(rows) if rows else ", ".join(architectures(path)) or "none"
        what = f"{path} has no measurements of {architecture}" if architecture else f"{path} does not name one machine"
        raise ModelError(what, hint=f"--arch names one of its architectures: {there}")
    ((name, found),) = rows.items()
    return MachineFile(
        name,
        core or with_stated_ways(_timed(core_of(name), found), found),
        path.name,
        tuple(one for one in provenances if one.architecture == name),
        *_tables(found),
        longer=corrections(found),
    )


def _measured(entries: Iterable[Entry], architecture: str) -> Measured:
    """Return the variants of which there are measurements, by architecture ("": of all)."""
    rows: Measured = {}
    wanted = architecture.casefold()
    for entry in entries:
        for name, result in entry.results.items():
            if result.measurement is not None and wanted in ("", name.casefold()):
                rows.setdefault(name, []).append((entry.variant, result))
    return rows


MOVES = ("DATAXFER",)
"""Categories of instructions that do nothing but move values."""

PLAIN_LOADS = ("MOV (R64, M64)", "MOVAPS (XMM, M128)")
"""Loads into a general-purpose and into a vector register that do nothing else."""


def with_stated_ways(
    core: CoreConstants, found: Iterable[tuple[InstructionVariant, ArchitectureResult]]
) -> CoreConstants:
    """Return a core with what the file states with plain loads for the way through memory, if it has both of them."""
    stated: dict[str, int] = {}
    for variant, result in found:
        if variant.string in PLAIN_LOADS:
            facts = facts_of(result)
            for pair, one in facts.latencies.items() if facts is not None else ():
                if pair.part is LatencyPart.MEMORY:
                    stated[variant.string] = one.cycles
    if len(stated) < len(PLAIN_LOADS):
        return core
    ways = tuple(max(1, stated[string]) for string in PLAIN_LOADS)
    return replace(core, memory=replace(core.memory, stated_ways=ways))


def _timed(core: CoreConstants, found: Iterable[tuple[InstructionVariant, ArchitectureResult]]) -> CoreConstants:
    """Return a core with the ports that were inferred by time; thousands of variants share some hundred texts.

    Of plain moves the µops that are certain show which ports load and store, too.
    """
    known: dict[str, PortUsage] = {}
    usages: list[tuple[InstructionVariant, PortUsage]] = []
    for variant, result in found:
        values = result.measurement or {}
        whole, part = values.get("ports") if "ports_by_time" in values else None, values.get("some_ports")
        for text in filter(None, (whole, part)):
            if text not in known:
                known[text] = PortUsage.parse(text)
        shown = part if whole is None and variant.category in MOVES else whole
        if shown is not None:
            usages.append((variant, known[shown]))
    return with_resources(core, usages, known.values())


def _tables(
    found: Iterable[tuple[InstructionVariant, ArchitectureResult]],
) -> tuple[dict[str, FileRow], dict[str, FileRow]]:
    """Return the rows by key and by string."""
    by_key: dict[str, FileRow] = {}
    by_string: dict[str, FileRow] = {}
    for variant, result in found:
        row = FileRow(variant.string, shape_of(variant), result)
        by_key[current_key(variant.key)] = row
        by_string[variant.string] = row
    return by_key, by_string
