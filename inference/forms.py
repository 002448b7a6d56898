"""Measures each form of a variant: µops, ports and throughput."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from generator.operands.allocation import has_plain_address
from generator.operands.values import ValueKind, kinds_of
from generator.sequences.throughput import LENGTHS, ThroughputFactory, same_register_operands
from inference.builder import ELIMINATED
from inference.experiment import Procedure, Want
from inference.port_usage import infer_form, measure_prologues
from inference.ports.alone.isolation import isolated_of
from inference.ports.by_time.counterparts import infer_beside_registers
from inference.ports.by_time.mixes import MixFactory
from inference.throughput import (
    UNIT,
    Search,
    Sequence,
    confirm,
    counted_names,
    counts_uops,
    differ,
    rounded_count,
    search_as_plain,
    search_form_in_loop,
    search_loop,
    search_others,
    search_unrolled,
    settle,
)
from results.model import Form
from results.ports import throughput_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from inference.builder import ConclusionBuilder
    from inference.context import Context

DIVISIBLE = 12
"""Instances in a second attempt: it gives whole counts for instructions that do something every third time."""

DIVIDER = "div_cycles"
"""This attribute has the cycles for which an instance keeps the divider busy."""

OTHER_LOAD = Fraction(1, 20)
"""µops per instruction. The load of a port must change by more to call for another inference of ports.

A µop that is distributed over ten ports puts 1/10 on each of them; this is half of that.
"""


def measure_plain(found: ConclusionBuilder, context: Context) -> Procedure[None]:
    """Conclude µops, ports and throughput of the plain form."""
    factory = ThroughputFactory(context.instructions, found.variant)
    kinds = kinds_of(found.variant)
    search = Search(factory, kinds[-1], balanced=context.loops_only)
    counts = context.counts_ports or counts_uops(context.counters)
    want = Want.ALL if counts else Want.CYCLES
    yield from measure_first(search, want)
    bound = None
    found.first = search.unrolled[0] if search.unrolled else None
    if search.unrolled and counts:
        found.prologues = yield from measure_prologues(factory)
        found.note_uops(search)
    if search.unrolled and context.counts_ports:
        conclusion = yield from infer_form(found, search, context)
        bound = throughput_of(conclusion.usage) if conclusion.usage is not None else None
        always = ELIMINATED not in found.attributes and kinds[0] is kinds[-1]
        search.floor = (conclusion.least if bound is None else bound) if always else Fraction(0)
    if kinds[0] is not kinds[-1]:
        search = Search(factory, kinds[0], balanced=context.loops_only)
        bound = None
    yield from search_unrolled(search, bound, want)
    _note_divider(found, search)
    yield from search_loop(search)
    yield from confirm(search, bound)
    yield from settle(search)
    found.fastest, found.fastest_loop = search.best(), search.least(search.looped)
    found.failures += search.failures
    found.note_throughput(search)
    if context.timed is not None and found.plain.ports is None and found.fastest is not None:
        times = sorted(one.cycles for one in (found.fastest, found.fastest_loop) if one is not None)
        mixes = MixFactory(context.instructions)
        timed = yield from infer_beside_registers(context.timed, mixes, found.variant, times[0], times[-1])
        found.note_timed(timed)


def measure_first(search: Search, want: Want) -> Procedure[None]:
    """Measure the sequence in which µops are counted, with another length if the counts of the first are unclean."""
    yield from search.measure([search.shape(LENGTHS[0])], want)
    if want is Want.ALL and not search.unrolled and (failed := list(search.failures)):
        search.failures.clear()
        yield from search.measure([search.shape(DIVISIBLE)], want)
        search.failures[:] = search.failures if search.unrolled else failed


def measure_same_register(found: ConclusionBuilder, context: Context) -> Procedure[None]:
    """Conclude what is different if all register operands are the same register."""
    if not same_register_operands(found.variant) or found.plain.throughput.unrolled is None:
        return
    factory = ThroughputFactory(context.instructions, found.variant)
    search = Search(factory, ValueKind.ANY, Form.SAME_REGISTER, balanced=context.loops_only)
    want = Want.ALL if context.counts_ports or counts_uops(context.counters) else Want.CYCLES
    yield from search.measure([search.shape(LENGTHS[0])], want)
    if not search.unrolled:
        return
    if found.first is not None:
        _note_other_counts(found, found.first, search.unrolled[0], _units_of(found.first))
    _note_divider(found, search)
    if context.counts_ports:
        yield from infer_form(found, search, context)
    yield from search_as_plain(search, found.fastest)
    yield from search_others(search, found.fastest)
    if differ(search.best(), found.fastest):
        yield from search_form_in_loop(search, found.fastest, found.fastest_loop)
    yield from settle(search, (found.fastest, found.fastest_loop))
    found.note_throughput(search)


def measure_indexed(found: ConclusionBuilder, context: Context) -> Procedure[None]:
    """Conclude what is different if memory is addressed with a base and an index.

    The ports are inferred anew only if the counters show other loads of ports than without an index.
    """
    first, fastest = found.first, found.fastest
    if not has_plain_address(found.variant) or first is None or fastest is None:
        return
    factory = ThroughputFactory(context.instructions, found.variant)
    search = Search(factory, fastest.shape.kind, Form.INDEXED, balanced=context.loops_only)
    want = Want.ALL if DIVIDER in found.attributes else Want.CYCLES
    yield from search.measure([replace(fastest.shape, form=Form.INDEXED)], want)
    _note_divider(found, search)
    yield from search_others(search, fastest)
    yield from search_form_in_loop(search, fastest, found.fastest_loop)
    yield from settle(search, (fastest, found.fastest_loop))
    counts = context.counts_ports or counts_uops(context.counters)
    if search.unrolled and counts and not factory.has_prologue:
        counted = Search(factory, first.shape.kind, Form.INDEXED)
        yield from counted.measure([counted.shape(first.shape.count)], Want.ALL)
        if counted.unrolled:
            _note_other_counts(found, first, counted.unrolled[0], counted_names(first.measured.values))
        if counted.unrolled and context.counts_ports and _differs(first, counted.unrolled[0], context):
            yield from infer_form(found, counted, context)
    if search.unrolled:
        found.note_throughput(search)


def _note_divider(found: ConclusionBuilder, search: Search) -> None:
    """Note for how many cycles a form keeps the divider busy; for other forms only if it differs from the plain one."""
    if not search.unrolled:
        return
    cycles = rounded_count(search.unrolled[0].per_instruction("divider_active"))
    if cycles is not None and cycles != found.attributes.get(DIVIDER, 0):
        found.attributes[DIVIDER + search.form.suffix] = cycles


def _units_of(sequence: Sequence) -> list[str]:
    """Return the counters by execution unit that were read."""
    return [name for name in sequence.measured.values if name.startswith(UNIT)]


def _note_other_counts(found: ConclusionBuilder, plain: Sequence, other: Sequence, names: Iterable[str]) -> None:
    """Note the µop counts of another form that differ from those of the plain one."""
    for name in names:
        counts = [rounded_count(one.per_instruction(name)) for one in (plain, other)]
        if None not in counts and counts[0] != counts[1]:
            found.attributes[name.removesuffix("_executed") + other.shape.form.suffix] = counts[1] or 0


def _differs(plain: Sequence, indexed: Sequence, context: Context) -> bool:
    """Whether the loads of ports differ with an index."""
    loads = [isolated_of(one.measured, context.layout).uops for one in (plain, indexed)]
    return any(abs(loads[0][name] - loads[1][name]) > OTHER_LOAD for name in context.layout.counters)


MEASURED = (measure_plain, measure_same_register, measure_indexed)
"""How each form is measured, in this order: the others compare themselves with the plain one."""
