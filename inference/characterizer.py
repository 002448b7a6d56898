"""The entry point for campaigns: `Characterizer`, for any variants on one machine.

`prepare` runs once per machine, for measurements that all variants need. `characterize` asks for the measurements of
one variant and returns the conclusions (`inference.variant`). Nothing here sees a backend.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from generator.errors import GenerationError
from generator.exclusions import excluded
from generator.factory import InstructionFactory
from generator.sequences.blocking import (
    MOST_INSTANCES,
    BlockingCode,
    CodeKind,
    is_store,
    kind_of,
    representatives,
    timed_representatives,
)
from generator.sequences.throughput import SequenceShape, ThroughputFactory
from inference.calibration import Calibrations, find_width
from inference.context import Context
from inference.experiment import repeated
from inference.ports.alone.layout import PortLayout
from inference.ports.blocking import find_blocking
from inference.ports.blocking_instructions import BlockingSet, Candidate
from inference.ports.by_time.machine import Discovery, TimedMachine
from inference.ports.by_time.mixes import MixFactory
from inference.ports.by_time.orders import ORDERS, in_orders
from inference.ports.by_time.parts.known import find_parts
from inference.ports.by_time.wide import find_wide_sets
from inference.variant import characterize_variant
from xed_convert.errors import EncodingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from inference.context import Capabilities
    from inference.experiment import Procedure
    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.model import InstructionVariant


SEARCHES = (1, 1, ORDERS)
"""In how many orders the lines of each code are measured in a search for sets of ports; the next one follows if times
were too noisy. Neighbours of a virtual machine come and go, so the same is tried twice."""


class CandidateCache:
    """Code that a catalogue gives on any machine: lines of code, and instructions that might block ports.

    Several characterizers may share one.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        """Take the catalogue."""
        self.instructions = InstructionFactory(catalogue)
        self._catalogue = catalogue
        self._candidates: dict[tuple[CodeKind, bool, bool], list[Candidate]] = {}

    def candidates(self, kind: CodeKind, *, every_class: bool, timed: bool = False) -> list[Candidate]:
        """Return sequences of all instructions that might block ports in code of a kind, by time or by counters."""
        key = (kind, every_class, timed)
        if key not in self._candidates:
            self._candidates[key] = list(self._make(kind, every_class=every_class, timed=timed))
        return self._candidates[key]

    def _make(self, kind: CodeKind, *, every_class: bool, timed: bool) -> Iterator[Candidate]:
        choose = timed_representatives if timed else representatives
        for variant in choose(self._catalogue, kind, every_class=every_class):
            try:
                benchmark = ThroughputFactory(self.instructions, variant).sequence(SequenceShape(MOST_INSTANCES))
            except (GenerationError, EncodingError):
                continue
            yield Candidate(variant, benchmark, is_store(variant))


class Characterizer:
    """Characterizes variants of a catalogue on one machine."""

    characterize = staticmethod(characterize_variant)
    """Measures and concludes everything about one variant, given what `prepare` returned."""

    def __init__(
        self,
        catalogue: Catalogue,
        machine: Capabilities,
        *,
        thorough: bool = False,
        candidates: CandidateCache | None = None,
        by_time: bool = False,
    ) -> None:
        """Take a catalogue and what can be measured on the machine.

        Args:
            catalogue: where helper instructions come from.
            machine: what can be measured there.
            thorough: look for blocking instructions among all instruction classes, as a campaign over all of them does.
            candidates: a cache of the same catalogue, to share it.
            by_time: infer ports by time alone where nothing counts them; the machine's port sets are found first.
        """
        self._machine, self._thorough, self._by_time = machine, thorough, by_time
        self._candidates = candidates or CandidateCache(catalogue)
        instructions = self._candidates.instructions
        self._base = Context(
            instructions,
            PortLayout.of(machine.ports, machine.port_kind),
            machine.counters,
            Calibrations(instructions, loop=machine.loops_only),
            loops_only=machine.loops_only,
            first_decoder=machine.first_decoder,
        )

    @property
    def searches_port_sets(self) -> bool:
        """Whether `prepare` finds the machine's port sets by time alone, which takes up to minutes."""
        partly = bool(self._base.layout.kind)  # time says more of the ports that have no counters
        return self._by_time and (partly or not self._base.counts_ports)

    def prepare(self, variants: Iterable[InstructionVariant] = ()) -> Procedure[Context]:
        """Find blocking instructions for the kinds of code that the variants need (default: all kinds).

        Each kind names ports that share a counter as the kinds before it do. So these come along, or another call, for
        other variants of the same machine, would call the same ports otherwise.
        """
        context = self._base
        timed = (yield from self.find_port_sets()) if self.searches_port_sets else None
        if not context.counts_ports:
            return self.prepared({}, timed)
        kinds = sorted({kind_of(variant) for variant in variants} or CodeKind, key=lambda one: one.value)
        if context.layout.shares_counters:
            kinds = sorted((one for one in CodeKind if one.value <= kinds[-1].value), key=lambda one: one.value)
        found: dict[CodeKind, BlockingSet] = {}
        issued = yield from find_width(context.instructions)
        for kind in kinds:
            candidates = self._candidates.candidates(kind, every_class=self._thorough)
            found[kind] = yield from find_blocking(
                candidates, context.layout, BlockingCode(context.instructions), issued, tuple(found.values())
            )
        return self.prepared(found, timed)

    def find_port_sets(self) -> Procedure[TimedMachine | None]:
        """Find the machine's port sets by time alone, with VEX code, or with SSE code where that does not run.

        The search is repeated if times were too noisy, at last with each code in several orders. Then follow parts of
        these sets, and the sets of 512-bit code. None: no filler shows issue slots.
        """
        candidates = {
            kind: self._candidates.candidates(kind, every_class=self._thorough, timed=True)
            for kind in (CodeKind.WITHOUT_SSE, CodeKind.WITHOUT_AVX)
        }
        found: TimedMachine | None = None
        for number, orders in enumerate(SEARCHES):
            discovery = Discovery(MixFactory(self._base.instructions), self._machine.architecture)
            found = yield from repeated(in_orders(discovery.run(list(candidates.values())), orders), number)
            if found is None or not found.is_noisy:
                break
        if found is None or found.is_noisy:
            return found
        parts = yield from in_orders(find_parts(found, MixFactory(self._base.instructions)), orders)
        found = replace(found, parts=parts, orders=orders)
        wide = self._candidates.candidates(CodeKind.WIDE, every_class=self._thorough, timed=True)
        sets = yield from in_orders(find_wide_sets(discovery, found, wide), orders)
        return replace(found, wide=sets)

    def prepared(self, blocking: Mapping[CodeKind, BlockingSet], timed: TimedMachine | None = None) -> Context:
        """Return what `prepare` returns, from blocking instructions and port sets that are known already."""
        return replace(self._base, blocking=blocking, timed=timed)

    def skipped(self, variant: InstructionVariant) -> str:
        """Return the reason why nothing of a variant can be measured here ("": it can)."""
        return excluded(variant, privileged=self._machine.privileged)
