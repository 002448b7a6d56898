"""The port usage of one form of a variant.

Two special cases are handled here: instructions that are eliminated at rename, and instructions that need a prologue,
whose ports are subtracted. The general method is `inference.ports`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from generator.microbenchmark import Microbenchmark
from generator.operands.values import values_of
from generator.sequences.blocking import Combiner, kind_of
from generator.sequences.throughput import LENGTHS, ThroughputFactory
from inference.builder import ELIMINATED
from inference.experiment import Procedure, Request, Want
from inference.ports.alone.isolation import is_integral, isolated_of, name_ports
from inference.ports.alone.load_balance import evenly_loaded
from inference.ports.infer import PortConclusion, infer_ports
from inference.throughput import (
    Search,
    rounded_count,
)
from results.findings import (
    Code,
    EliminatedPorts,
    Elimination,
    Indistinguishable,
    NotCounted,
    NotRun,
    PrologueNotPart,
    PrologueRemoved,
    PrologueUnknown,
)
from results.model import Derivation, Form, PortUsage
from results.ports import joined
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from generator.microbenchmark import Line
    from inference.builder import ConclusionBuilder
    from inference.context import Context
    from inference.experiment import Measured
    from inference.ports.alone.isolation import Isolated
    from inference.ports.alone.layout import PortLayout
    from inference.ports.blocking_instructions import Blockers, BlockingInstruction
    from xed_convert.model import InstructionVariant

LONG_CHAIN = 6
"""Core cycles per instance. If dependent instances take that long, breakers make them independent before ports are
blocked. Else blocked ports would run idle while such a chain waits, and other µops would stray onto them.
"""


@dataclass(frozen=True, slots=True)
class SubjectInstruction:
    """An instruction under test, for port inference."""

    combiner: Combiner
    extra: PortUsage
    sequence: Callable[[int], Microbenchmark]

    def more(self) -> Microbenchmark:
        """Return as many instances as the longest sequence has."""
        return self.sequence(max(LENGTHS))

    def combined(self, blockers: Blockers, *, reverse: bool = False) -> Microbenchmark:
        """Return one instance among blocking instructions."""
        return self.combiner.combined(_variants(blockers), reverse=reverse, in_turns=blockers.in_turns)

    def control(self, blockers: Blockers, other: BlockingInstruction, count: int) -> Microbenchmark:
        """Return the blocking instructions, with copies of another one in place of the instance."""
        return self.combiner.control(_variants(blockers), other.variant, count)


def _variants(blockers: Blockers) -> list[tuple[InstructionVariant, int]]:
    """Return the variants of blocking instructions, each with its number of copies."""
    return [(one.variant, count) for one, count in blockers.each()]


def infer_form(found: ConclusionBuilder, search: Search, context: Context) -> Procedure[PortConclusion]:
    """Infer the port usage of the form that a search is about, and note it."""
    layout = context.layout
    if layout.kind and not isolated_of(search.unrolled[0].measured, layout).total:
        found.note_ports(PortConclusion(None, NotCounted(layout.kind)), search)
        return PortConclusion(None)
    conclusion = yield from _ports(found, search, context)
    if search.form is Form.PLAIN and (prologues := found.prologues) is not None:
        conclusion = yield from _without_prologues(conclusion, prologues, search.factory, context)
    if conclusion.usage is not None:
        conclusion = replace(conclusion, usage=layout.named(conclusion.usage))
    found.note_ports(conclusion, search, counts_all=not layout.kind)
    return conclusion


def measure_prologues(factory: ThroughputFactory) -> Procedure[Measured | None]:
    """Measure the prologue and epilogue of the instruction alone (None: it needs none)."""
    if not factory.has_prologue:
        return None
    (measured,) = yield [Request(factory.prologues_alone(LENGTHS[0]), Want.ALL)]
    return measured


def _without_prologues(
    conclusion: PortConclusion, prologues: Measured, factory: ThroughputFactory, context: Context
) -> Procedure[PortConclusion]:
    """Subtract the ports of prologue and epilogue, which were inferred together with those of the instruction.

    Of usages that are only named, those without these µops are ruled out.
    """
    failure = conclusion.failure
    named = failure.usages if isinstance(failure, Indistinguishable) else ()
    together = named if conclusion.usage is None else (conclusion.usage,)
    if not together:
        return conclusion
    if not prologues.ok:
        not_run = NotRun(Code.PROLOGUE, prologues.status, prologues.detail)
        return PortConclusion(None, not_run, conclusion.steps, conclusion.experiments)
    combiner = Combiner(context.instructions, factory.variant, prologue_only=True)
    isolated = isolated_of(prologues, context.layout)
    blocking = context.blocking[kind_of(factory.variant)]
    own = yield from infer_ports(
        SubjectInstruction(combiner, PortUsage({}), factory.prologues_alone), isolated, blocking
    )
    experiments = (*conclusion.experiments, prologues.request.benchmark.id, *own.experiments)
    if own.failure is not None or own.usage is None:
        unknown = None if own.failure is None else PrologueUnknown(own.failure)
        return PortConclusion(None, unknown, conclusion.steps, experiments)
    rest = [usage for one in together if (usage := _difference(one, own.usage)) is not None]
    if not rest:
        return PortConclusion(None, PrologueNotPart(together[0], own.usage), conclusion.steps, experiments)
    if isinstance(failure, Indistinguishable) and (len(rest) > 1 or failure.others):
        return PortConclusion(None, replace(failure, usages=tuple(rest)), conclusion.steps, experiments)
    removed = PrologueRemoved(joined(rest[0], own.usage), own.usage)
    return PortConclusion(rest[0], None, (*conclusion.steps, removed), experiments)


def _difference(usage: PortUsage, part: PortUsage) -> PortUsage | None:
    """Return a usage without the µops of another one, None if it does not have all of them."""
    rest = {ports: count - part.uops.get(ports, 0) for ports, count in usage.uops.items()}
    if min(rest.values(), default=0) < 0 or not part.uops.keys() <= rest.keys():
        return None
    return PortUsage({ports: count for ports, count in rest.items() if count})


def _ports(found: ConclusionBuilder, search: Search, context: Context) -> Procedure[PortConclusion]:
    """Infer the port usage from the first sequence and combinations with blocking instructions."""
    first = search.unrolled[0]
    isolated = isolated_of(first.measured, context.layout)
    share = eliminated_share(isolated, first.per_instruction("uops_retire_slots"), found.variant)
    if share is not None:
        name = f"{ELIMINATED}{search.form.suffix}"
        found.attributes[name] = round(share * 100)
        found.derivations.append(Derivation(name, (Elimination(1 - share),), (first.measured.request.benchmark.id,)))
        found.uops = int(share < 1) if search.form is Form.PLAIN else found.uops
        return _partly_eliminated(isolated, context.layout) if share < 1 else PortConclusion(PortUsage({}))
    subject, isolated = yield from subject_of(search, isolated, context)
    return (yield from infer_ports(subject, isolated, context.blocking[kind_of(found.variant)]))


def subject_of(search: Search, isolated: Isolated, context: Context) -> Procedure[tuple[SubjectInstruction, Isolated]]:
    """Return the instruction of a search as a subject, with long chains broken, and what it did alone."""
    variant = search.factory.variant
    values = values_of(variant, search.kind)
    instance = search.factory.alone(search.form)
    breakers: list[Line] = []
    extra = None
    if isolated.cycles >= LONG_CHAIN and isolated.total > 1 and (carried := search.factory.carried()):
        breakers = search.factory.breakers(instance, values, carried)
        extra = yield from _usage_of(breakers, context.layout)
        breakers = breakers if extra is not None else []
    combiner = Combiner(context.instructions, variant, values, instance, breakers=breakers)
    isolated = replace(isolated, free=not search.factory.depends())
    subject = SubjectInstruction(
        combiner, extra or PortUsage({}), lambda count: search.factory.sequence(search.shape(count))
    )
    return subject, isolated


def _partly_eliminated(isolated: Isolated, layout: PortLayout) -> PortConclusion:
    """Conclude the ports of an instruction that is sometimes eliminated at rename, from the µops that were not."""
    fitting = evenly_loaded(isolated, layout)
    if len(fitting) == 1:
        return PortConclusion(PortUsage({fitting[0]: 1}))
    return PortConclusion(None, EliminatedPorts(tuple(fitting)))


def eliminated_share(isolated: Isolated, slots: Fraction | None, variant: InstructionVariant) -> Fraction | None:
    """Return the share of instances that were eliminated at rename, None if the instruction cannot be eliminated.

    Each instance retires as one µop, but only some were seen on a port. If none was, it must be a move between
    registers: other instructions without a port have nothing to eliminate.
    """
    executed = sum(isolated.uops.values(), Fraction(0))
    if rounded_count(slots) != 1 or executed >= 1 or (is_integral(isolated) and not _is_move(variant, isolated)):
        return None
    return Fraction(1) if is_integral(isolated) else 1 - executed


def _is_move(variant: InstructionVariant, isolated: Isolated) -> bool:
    """Whether a variant only copies one register to another, and no µop was seen on a port."""
    explicit = [operand for operand in variant.operands if operand.explicit]
    accesses = [(o.kind is OperandKind.REGISTER, o.read, o.written) for o in explicit]
    return isolated.total == 0 and accesses == [(True, False, True), (True, True, False)]


def _usage_of(lines: Iterable[Line], layout: PortLayout) -> Procedure[PortUsage | None]:
    """Return the port usage of helper instructions of one µop each, None if one of them has another number of µops."""
    repeated = [Microbenchmark((), (line,) * LENGTHS[0], f"ports of {line.text}", LENGTHS[0]) for line in lines]
    usage = PortUsage({})
    for measured in (yield [Request(benchmark, Want.ALL) for benchmark in repeated]):
        isolated = isolated_of(measured, layout) if measured.ok else None
        if isolated is None or isolated.total > 1 or not is_integral(isolated):
            return None
        if isolated.total:
            usage = joined(usage, PortUsage({name_ports(isolated, layout): 1}))
    return usage
