"""Everything about one variant on one machine: µops, ports, throughput, latencies, and how they were concluded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from generator.chains.plan import plan_latency
from generator.errors import GenerationError
from generator.microbenchmark import Microbenchmark
from generator.operands.allocation import has_plain_address
from generator.operands.values import ValueKind, kinds_of, values_of
from generator.sequences.blocking import Combiner, kind_of
from generator.sequences.fusion import may_fuse
from generator.sequences.throughput import LENGTHS, ThroughputFactory, same_register_operands
from inference.draft import Draft
from inference.experiment import Procedure, Request, Want
from inference.fusion import infer_fusion
from inference.latency.infer import infer_latencies
from inference.ports.infer import PortConclusion, infer_ports
from inference.ports.isolation import is_integral, isolated_of, name_ports
from inference.ports.load_balance import evenly_loaded
from inference.throughput import (
    COUNTED,
    Search,
    Sequence,
    confirm,
    differ,
    rounded_count,
    search_form_in_loop,
    search_loop,
    search_others,
    search_unrolled,
)
from results.findings import (
    Code,
    EliminatedPorts,
    Elimination,
    HelpersNotPart,
    HelpersRemoved,
    HelpersUnknown,
    NotGenerated,
    NotRun,
)
from results.model import LEFT_OUT, Characterization, Derivation, Form, PortUsage
from results.ports import joined, throughput_of
from xed_convert.errors import EncodingError
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from generator.microbenchmark import Line
    from inference.context import Context
    from inference.experiment import Measured
    from inference.ports.blocking_instructions import Blockers, BlockingInstruction
    from inference.ports.isolation import Isolated
    from inference.ports.layout import PortLayout
    from xed_convert.model import InstructionVariant

DIVISIBLE = 12
"""Instances in a second attempt: of instructions that do something every third time, whole numbers come out then."""

OTHER_LOAD = Fraction(1, 20)
"""By how many µops per instruction the load of a port must change to call for another inference of ports."""

LONG_CHAIN = 6
"""From so many cycles between dependent instances on, they are made independent before ports are blocked."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """An instruction under test, for port inference."""

    combiner: Combiner
    extra: PortUsage
    sequence: Callable[[int], Microbenchmark]

    def more(self) -> Microbenchmark:
        """Return as many instances as the longest sequence has."""
        return self.sequence(max(LENGTHS))

    def combined(self, blockers: Blockers, *, reverse: bool = False) -> Microbenchmark:
        """Return one instance among blocking instructions."""
        pairs = [(one.variant, count) for one, count in zip(blockers.instructions, blockers.counts, strict=True)]
        return self.combiner.combined(pairs, reverse=reverse, in_turns=blockers.in_turns)

    def control(self, blockers: Blockers, other: BlockingInstruction, count: int) -> Microbenchmark:
        """Return the blocking instructions with copies of another one in the place of the instance."""
        pairs = [(one.variant, number) for one, number in zip(blockers.instructions, blockers.counts, strict=True)]
        return self.combiner.control(pairs, other.variant, count)


def characterize_variant(variant: InstructionVariant, context: Context) -> Procedure[Characterization]:
    """Measure and conclude everything about one variant.

    What cannot be generated, does not run, or fails a check is said in `failures`; the rest stands.
    """
    draft = Draft(variant)
    try:
        yield from _throughput_and_ports(draft, context)
        yield from _same_register(draft, context)
        yield from _indexed(draft, context)
        yield from _fusion(draft, context)
    except (GenerationError, EncodingError) as error:
        draft.failures.append(NotGenerated(error.message))
    if draft.plain.throughput.unrolled is not None:
        yield from _latencies(draft, context)
    return draft.finish()


def _latencies(draft: Draft, context: Context) -> Procedure[None]:
    """Conclude the latency of every pair of operands; what cannot run at all has none."""
    outcome = yield from infer_latencies(plan_latency(context.instructions, draft.variant), context.calibrations)
    draft.latencies = outcome.latencies
    draft.failures += outcome.failures
    draft.derivations += outcome.derivations
    if outcome.left_out:
        draft.derivations.append(Derivation(LEFT_OUT, outcome.left_out))


def _throughput_and_ports(draft: Draft, context: Context) -> Procedure[None]:
    """Conclude µops, ports and throughput."""
    factory = ThroughputFactory(context.instructions, draft.variant)
    kinds = kinds_of(draft.variant)
    search = Search(factory, kinds[-1], balanced=context.loops_only)
    want = Want.ALL if context.counts_ports else Want.CYCLES
    yield from search.measure([search.shape(8)], want)
    if context.counts_ports and not search.unrolled and (failed := list(search.failures)):
        search.failures.clear()
        yield from search.measure([search.shape(DIVISIBLE)], want)
        search.failures[:] = search.failures if search.unrolled else failed
    bound = None
    draft.first = search.unrolled[0] if search.unrolled else None
    if search.unrolled and context.counts_ports:
        prologues = yield from _measure_prologues(factory)
        draft.note_uops(search, prologues)
        conclusion = yield from _ports(draft, search, context)
        if prologues is not None:
            conclusion = yield from _without_prologues(conclusion, prologues, factory, context)
        draft.note_ports(conclusion, search)
        bound = throughput_of(conclusion.usage) if conclusion.usage is not None else None
        always = "eliminated_percent" not in draft.attributes and kinds[0] is kinds[-1]
        search.floor = (conclusion.least if bound is None else bound) if always else Fraction(0)
    if kinds[0] is not kinds[-1]:
        search = Search(factory, kinds[0], balanced=context.loops_only)
        bound = None
    yield from search_unrolled(search, bound, want)
    if search.unrolled and (divider := rounded_count(search.unrolled[0].per_instruction("divider_active"))):
        draft.attributes["div_cycles"] = divider
    yield from search_loop(search)
    yield from confirm(search, bound)
    draft.fastest, draft.fastest_loop = search.best(), search.least(search.looped)
    draft.failures += search.failures
    draft.note_throughput(search)


def _measure_prologues(factory: ThroughputFactory) -> Procedure[Measured | None]:
    """Measure what has to stand around the instruction by itself (None: there is nothing)."""
    if not factory.has_prologue:
        return None
    (measured,) = yield [Request(factory.prologues_alone(8), Want.ALL)]
    return measured


def _without_prologues(
    conclusion: PortConclusion, prologues: Measured, factory: ThroughputFactory, context: Context
) -> Procedure[PortConclusion]:
    """Subtract the ports of what stands around an instruction, which were inferred together with its own."""
    if conclusion.usage is None:
        return conclusion
    if not prologues.ok:
        return replace(conclusion, usage=None, failure=NotRun(Code.HELPERS, prologues.status, prologues.detail))
    combiner = Combiner(context.instructions, factory.variant)
    combiner.prologue_only = True
    isolated = isolated_of(prologues, context.layout)
    blocking = context.blocking[kind_of(factory.variant)]
    own = yield from infer_ports(_Subject(combiner, PortUsage({}), factory.prologues_alone), isolated, blocking)
    experiments = (*conclusion.experiments, prologues.request.benchmark.id, *own.experiments)
    if own.failure is not None or own.usage is None:
        failure = None if own.failure is None else HelpersUnknown(own.failure)
        return PortConclusion(None, failure, conclusion.steps, experiments)
    rest = {ports: count - own.usage.uops.get(ports, 0) for ports, count in conclusion.usage.uops.items()}
    if min(rest.values(), default=0) < 0 or not own.usage.uops.keys() <= rest.keys():
        return PortConclusion(None, HelpersNotPart(conclusion.usage, own.usage), conclusion.steps, experiments)
    usage = PortUsage({ports: count for ports, count in rest.items() if count})
    subtracted = HelpersRemoved(conclusion.usage, own.usage)
    return PortConclusion(usage, None, (*conclusion.steps, subtracted), experiments)


def _ports(draft: Draft, search: Search, context: Context) -> Procedure[PortConclusion]:
    """Infer the port usage from the first sequence and combinations with blocking instructions."""
    first = search.unrolled[0]
    isolated = isolated_of(first.measured, context.layout)
    share = eliminated_share(isolated, first.per_instruction("uops_retire_slots"), draft.variant)
    if share is not None:
        name = f"eliminated_percent{search.form.suffix}"
        draft.attributes[name] = round(share * 100)
        draft.derivations.append(Derivation(name, (Elimination(1 - share),), (first.measured.request.benchmark.id,)))
        draft.uops = int(share < 1) if search.form is Form.PLAIN else draft.uops
        return _partly_eliminated(isolated, context.layout) if share < 1 else PortConclusion(PortUsage({}))
    kind = kind_of(draft.variant)
    values = values_of(draft.variant, search.kind)
    instance = search.factory.alone(search.form)
    combiner = Combiner(context.instructions, draft.variant, values, instance)
    extra = None
    if isolated.cycles >= LONG_CHAIN and isolated.total > 1 and (carried := search.factory.carried()):
        combiner.breakers = tuple(search.factory.breakers(combiner.instance, values, carried))
        extra = yield from _usage_of(combiner.breakers, context.layout)
        combiner.breakers = combiner.breakers if extra is not None else ()
    isolated = replace(isolated, free=not search.factory.depends())
    subject = _Subject(combiner, extra or PortUsage({}), lambda count: search.factory.sequence(search.shape(count)))
    return (yield from infer_ports(subject, isolated, context.blocking[kind]))


def _partly_eliminated(isolated: Isolated, layout: PortLayout) -> PortConclusion:
    """Conclude the ports of an instruction that is done at rename at times, from those that it used otherwise."""
    fitting = evenly_loaded(isolated, layout)
    if len(fitting) == 1:
        return PortConclusion(PortUsage({fitting[0]: 1}))
    return PortConclusion(None, EliminatedPorts(tuple(fitting)))


def eliminated_share(isolated: Isolated, slots: Fraction | None, variant: InstructionVariant) -> Fraction | None:
    """Return the share of instances that were done at rename, None if it is not one µop that is eliminated at times.

    Each instance retires as one µop, but only a part of them was seen on a port; none of a move from register to
    register (what else needs no port has nothing to eliminate).
    """
    executed = sum(isolated.uops.values(), Fraction(0))
    if rounded_count(slots) != 1 or executed >= 1 or (is_integral(isolated) and not _is_move(variant, isolated)):
        return None
    return Fraction(1) if is_integral(isolated) else 1 - executed


def _is_move(variant: InstructionVariant, isolated: Isolated) -> bool:
    """Whether it reads one register and writes another one, and none was seen on a port."""
    explicit = [operand for operand in variant.operands if operand.explicit]
    accesses = [(o.kind is OperandKind.REGISTER, o.read, o.written) for o in explicit]
    return isolated.total == 0 and accesses == [(True, False, True), (True, True, False)]


def _usage_of(lines: Iterable[Line], layout: PortLayout) -> Procedure[PortUsage | None]:
    """Return the port usage of helper instructions of one µop each, None if one of them is something else."""
    repeated = [Microbenchmark((), (line,) * 8, f"ports of {line.text}", 8) for line in lines]
    usage = PortUsage({})
    for measured in (yield [Request(benchmark, Want.ALL) for benchmark in repeated]):
        isolated = isolated_of(measured, layout) if measured.ok else None
        if isolated is None or isolated.total > 1 or not is_integral(isolated):
            return None
        if isolated.total:
            usage = joined(usage, PortUsage({name_ports(isolated, layout): 1}))
    return usage


def _same_register(draft: Draft, context: Context) -> Procedure[None]:
    """Conclude what is different where all register operands are the same register."""
    if not same_register_operands(draft.variant) or draft.plain.throughput.unrolled is None:
        return
    factory = ThroughputFactory(context.instructions, draft.variant)
    search = Search(factory, ValueKind.ANY, Form.SAME_REGISTER, balanced=context.loops_only)
    want = Want.ALL if context.counts_ports else Want.CYCLES
    yield from search.measure([search.shape(8)], want)
    if not search.unrolled:
        return
    if context.counts_ports:
        conclusion = yield from _ports(draft, search, context)
        draft.note_ports(conclusion, search)
    if draft.fastest is not None and draft.fastest.shape.renewed:
        yield from search.measure([replace(search.shape(8), renewed=True)], Want.CYCLES)
    yield from search_others(search, draft.fastest)
    if differ(search.best(), draft.fastest):
        yield from search_form_in_loop(search, draft.fastest, draft.fastest_loop)
    draft.note_throughput(search)


def _fusion(draft: Draft, context: Context) -> Procedure[None]:
    """Conclude with which conditional jumps it fuses."""
    if draft.first is None or not may_fuse(draft.variant):
        return
    fusion = yield from infer_fusion(context.instructions, draft.variant, context.counters)
    draft.macro_fusible = fusion.jumps
    draft.derivations.append(fusion.derivation)


def _indexed(draft: Draft, context: Context) -> Procedure[None]:
    """Conclude what is different where memory is addressed with a base and an index.

    The ports are inferred anew only if the counters show another load of ports than without an index.
    """
    first, fastest = draft.first, draft.fastest
    if not has_plain_address(draft.variant) or first is None or fastest is None:
        return
    factory = ThroughputFactory(context.instructions, draft.variant)
    search = Search(factory, fastest.shape.kind, Form.INDEXED, balanced=context.loops_only)
    yield from search.measure([replace(fastest.shape, form=Form.INDEXED)], Want.CYCLES)
    yield from search_others(search, fastest)
    yield from search_form_in_loop(search, fastest, draft.fastest_loop)
    if search.unrolled and context.counts_ports and not factory.has_prologue:
        counted = Search(factory, first.shape.kind, Form.INDEXED)
        yield from counted.measure([counted.shape(first.shape.count)], Want.ALL)
        if counted.unrolled and _differs(draft, first, counted.unrolled[0], context):
            conclusion = yield from _ports(draft, counted, context)
            draft.note_ports(conclusion, counted)
    if search.unrolled:
        draft.note_throughput(search)


def _differs(draft: Draft, plain: Sequence, indexed: Sequence, context: Context) -> bool:
    """Note the µop counts that are others with an index, and say whether the ports are."""
    for name in COUNTED:
        counts = [rounded_count(one.per_instruction(name)) for one in (plain, indexed)]
        if None not in counts and counts[0] != counts[1]:
            draft.attributes[name.removesuffix("_executed") + Form.INDEXED.suffix] = counts[1] or 0
    loads = [isolated_of(one.measured, context.layout).uops for one in (plain, indexed)]
    return any(abs(loads[0][name] - loads[1][name]) > OTHER_LOAD for name in context.layout.counters)
