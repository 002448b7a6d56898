"""The options of `characterize`, their contradictions, and the variants that they select."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.backend import HIDDEN
from runner.campaigns.selection import Selection
from runner.cli.process.guard import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.model import InstructionVariant


@dataclass(frozen=True, slots=True)
class CampaignOptions:
    """The options of `characterize`; `files` are output files by format."""

    patterns: tuple[str, ...] = ()
    selection: Selection = field(default_factory=Selection)
    everything: bool = False
    listing: bool = False
    plan: bool = False
    automatic: bool = False
    architecture: str | None = None
    backend: str = "auto"
    model: Path | None = None
    cpu: int | None = None
    jobs: int = 1
    explain: bool = False
    files: Mapping[str, Path] = field(default_factory=dict)
    database: Path | None = None
    reinfer: bool = False
    hide_counters: bool = False
    ports_by_time: bool | None = None

    @property
    def machine(self) -> str | None:
        """The architecture as a backend expects it: `HIDDEN` at its end if the counters are hidden."""
        return f"{self.architecture or ''}{HIDDEN}" if self.hide_counters else self.architecture

    @property
    def thorough(self) -> bool:
        """Whether whole parts of the catalogue are chosen.

        Blocking instructions are then looked for among all classes.
        """
        return self.everything or (bool(self.selection) and not self.patterns)

    @property
    def by_time(self) -> bool:
        """Whether ports are inferred by time alone where nothing counts them.

        To find the machine's sets of ports takes as long as some hundred variants, so a few variants do without.
        Stored samples tell by themselves.
        """
        return (self.thorough or self.reinfer) if self.ports_by_time is None else self.ports_by_time


def check(options: CampaignOptions) -> None:
    """Refuse options that contradict each other.

    Raises:
        UsageError: says which.
    """
    named = bool(options.patterns or options.selection)
    if options.patterns and options.everything:
        raise UsageError(
            "named instructions and --all contradict each other", hint="name instructions, or take all of them"
        )
    if not (named or options.everything or options.reinfer):
        raise UsageError(
            "no instruction is named",
            hint="name some (characterize ADC) or an extension (--extension SSE2), or take --all of them",
        )
    if options.listing and options.plan:
        raise UsageError("--list and --plan contradict each other", hint="take one of them: both measure nothing else")
    results = [*(f"--{kind}" for kind in options.files), *(["--explain"] if options.explain else [])]
    if results and (options.listing or options.plan):
        alone = "--list" if options.listing else "--plan"
        raise UsageError(f"{alone} and {results[0]} contradict each other", hint=f"{alone} measures nothing")
    if options.automatic and options.architecture:
        raise UsageError("--arch-auto and --arch contradict each other", hint="--arch-auto is the CPU at hand")
    if options.hide_counters and options.backend != "sim":
        raise UsageError("--hide-counters is for simulated machines", hint="--backend sim --arch HSW --hide-counters")
    if options.reinfer and not options.database:
        raise UsageError("--reinfer needs the stored samples", hint="name the campaign's file by --db")
    if str(options.database) == "-":
        raise UsageError("--db -: a campaign cannot go to standard output", hint="name a file, or take --json -")


def chosen(catalogue: Catalogue, options: CampaignOptions) -> list[InstructionVariant]:
    """Return the variants that are meant, each once, in the order in which they were named.

    Raises:
        UnknownInstructionError: a pattern matches nothing; names the nearest.
        SelectionError: there is no such extension or ISA set, or no variant is left.
    """
    if options.patterns:
        found = (variant for pattern in options.patterns for variant in catalogue.find(pattern))
        return options.selection.of(list({variant.key: variant for variant in found}.values()), catalogue)
    variants = list(catalogue)
    return options.selection.of(variants, variants)


def listing_lines(variants: Sequence[InstructionVariant]) -> Iterator[str]:
    """Yield a line for each variant: string, iform, extension, ISA set."""
    width = max(len(variant.string) for variant in variants)
    iform_width = max(len(variant.iform) for variant in variants)
    extension_width = max(len(variant.extension) for variant in variants)
    for variant in variants:
        names = f"{variant.iform:{iform_width}}  {variant.extension:{extension_width}}  {variant.isa_set}"
        yield f"{variant.string:{width}}  {names}"
