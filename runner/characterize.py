"""What a campaign drives: `Characterizer`, for any variants on one machine.

`prepare` finds out what all variants need, once per machine; `characterize` asks for the measurements of one variant
and returns the conclusions (`runner.variant`). Nothing here sees a backend.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from generator.blocking import MOST_INSTANCES, CodeKind, is_store, kind_of, mixture, representatives
from generator.errors import GenerationError
from generator.exclusions import excluded
from generator.kit import Kit
from generator.throughput import Shape, ThroughputFactory
from runner.inference.blocking import (
    BlockingSet,
    Candidate,
    find_blocking,
)
from runner.inference.calibration import Calibrations, find_width
from runner.inference.portsets import PortLayout
from runner.variant import characterize_variant
from xed_convert.errors import EncodingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from results.model import Characterization
    from runner.backends.base import BackendInfo
    from runner.experiment import Procedure
    from xed_convert.catalogue import Catalogue
    from xed_convert.model import InstructionVariant


@dataclass(frozen=True, slots=True)
class Context:
    """What all variants need to know of the machine: what its counters tell, blocking instructions, chain links' times.

    `calibrations` fills up as links are needed first; what is in it is shared. `always_loops` says that unrolled code
    is run in a loop, too, so that it must leave stack and strings where they were.
    """

    kit: Kit
    layout: PortLayout
    counters: tuple[str, ...]
    calibrations: Calibrations
    blocking: Mapping[CodeKind, BlockingSet] = field(default_factory=dict)
    privileged: bool = False
    always_loops: bool = False

    @property
    def counts_ports(self) -> bool:
        """Whether port usage can be measured."""
        return bool(self.layout.counters)


class Workshop:
    """What is made of a catalogue whatever the machine: lines of code, and what might block ports.

    Several characterizers may share one.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        """Make things of that catalogue."""
        self.kit = Kit(catalogue)
        self._catalogue = catalogue
        self._candidates: dict[tuple[CodeKind, bool], list[Candidate]] = {}

    def candidates(self, kind: CodeKind, *, every_class: bool) -> list[Candidate]:
        """Return the sequences of everything that might block ports in code of a kind."""
        key = (kind, every_class)
        if key not in self._candidates:
            self._candidates[key] = list(self._make(kind, every_class=every_class))
        return self._candidates[key]

    def _make(self, kind: CodeKind, *, every_class: bool) -> Iterator[Candidate]:
        for variant in representatives(self._catalogue, kind, every_class=every_class):
            try:
                benchmark = ThroughputFactory(self.kit, variant).sequence(Shape(MOST_INSTANCES))
            except (GenerationError, EncodingError):
                continue
            yield Candidate(variant, benchmark, is_store(variant))


class Characterizer:
    """Characterizes variants of a catalogue on the machine that a backend describes."""

    def __init__(
        self, catalogue: Catalogue, info: BackendInfo, *, thorough: bool = False, workshop: Workshop | None = None
    ) -> None:
        """Take a catalogue and what the backend can count.

        Args:
            catalogue: where helper instructions come from.
            info: the backend's own description.
            thorough: look for blocking instructions among all instruction classes, as a campaign over all of them does.
            workshop: what was made of the same catalogue already.
        """
        self._info, self._thorough = info, thorough
        self._workshop = workshop or Workshop(catalogue)
        kit = self._workshop.kit
        self._base = Context(
            kit,
            PortLayout.of(info.ports),
            info.counters,
            Calibrations(kit, loop=info.preferred_iterations > 0),
            privileged=info.supports_privileged,
            always_loops=info.preferred_iterations > 0,
        )

    def prepare(self, variants: Iterable[InstructionVariant] = ()) -> Procedure[Context]:
        """Find blocking instructions for the kinds of code that the variants are (default: both kinds)."""
        context = self._base
        if not context.counts_ports:
            return context
        kinds = {kind_of(variant) for variant in variants} or set(CodeKind)
        found = {}
        issued = yield from find_width(context.kit)
        for kind in sorted(kinds, key=lambda one: one.value):
            candidates = self._workshop.candidates(kind, every_class=self._thorough)
            found[kind] = yield from find_blocking(candidates, context.layout, partial(mixture, context.kit), issued)
        return self.prepared(found)

    def prepared(self, blocking: Mapping[CodeKind, BlockingSet]) -> Context:
        """Return what `prepare` returns where the blocking instructions are known."""
        return replace(self._base, blocking=blocking)

    def characterize(self, variant: InstructionVariant, context: Context) -> Procedure[Characterization]:
        """Find out all about one variant."""
        return characterize_variant(variant, context)

    def skipped(self, variant: InstructionVariant) -> str:
        """Return the reason why nothing of a variant can be measured here ("": it can)."""
        return excluded(variant, privileged=self._info.supports_privileged)
