"""Everything about one variant on one machine, in the order in which it is measured.

1. The plain form (`inference.forms`): µops and ports from the first sequence (`inference.port_usage`,
   `inference.ports`), then throughput from the fastest of several sequences (`inference.throughput`).
2. The same register in all operands, where there are several that can be.
3. Memory addressed with an index, where there is an explicit memory operand.
4. How long it keeps the divider busy (`inference.attributes.divider`), if there is no counter for that.
5. How the front end decodes each of these forms (`inference.attributes.decoding`), if counters or time show it.
6. The conditional jumps with which it fuses (`inference.attributes.fusion`), if it writes flags.
7. The latency of every pair of operands (`inference.latency`), if the plain form runs at all.
8. Operand values that make it slower or faster (`inference.attributes.value_classes`).
9. Bypass delays between domains of vectors (`inference.attributes.bypass`).
10. Producers of its operands that make it slower (`inference.attributes.producers`, `inference.attributes.carried`).
11. Partial flag writes (`inference.attributes.flags`).
12. Rename: idioms, unlamination, partial register writes (`inference.attributes.renaming`), and move elimination
   (`inference.attributes.elimination`).

Each step uses the conclusions of those before it; `inference.builder` collects them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.chains.plan import plan_latency
from generator.errors import GenerationError
from generator.sequences.fusion import may_fuse
from inference.attributes.bypass import measure_bypass
from inference.attributes.carried import measure_carried
from inference.attributes.decoding import measure_decoding
from inference.attributes.divider import measure_divider
from inference.attributes.elimination import measure_elimination
from inference.attributes.flags import measure_flags
from inference.attributes.fusion import infer_fusion
from inference.attributes.producers import measure_producers
from inference.attributes.renaming import measure_move, measure_result, note_idioms
from inference.attributes.value_classes import measure_value_classes
from inference.builder import ConclusionBuilder
from inference.forms import MEASURED
from inference.latency.infer import infer_latencies
from results.findings import NotGenerated, NotRun
from results.model import LEFT_OUT, Derivation, Status
from xed_convert.errors import EncodingError

if TYPE_CHECKING:
    from generator.chains.plan import LatencyPlan
    from inference.context import Context
    from inference.experiment import Procedure
    from results.model import Characterization
    from xed_convert.model import InstructionVariant


def characterize_variant(variant: InstructionVariant, context: Context) -> Procedure[Characterization]:
    """Measure and conclude everything about one variant.

    What cannot be generated, does not run, or fails a check is among the `failures`; the rest stands.
    """
    found = ConclusionBuilder(variant)
    try:
        for measure in MEASURED:
            yield from measure(found, context)
        yield from measure_divider(found, context)
        yield from measure_decoding(found, context)
        yield from _fusion(found, context)
    except (GenerationError, EncodingError) as error:
        found.failures.append(NotGenerated(error.message))
    if _runs(found):
        plan = plan_latency(context.instructions, found.variant)
        yield from _latencies(found, plan, context)
        yield from measure_value_classes(found, context)
        yield from measure_bypass(found, plan, context.calibrations)
        produced = yield from measure_producers(found, plan, context.calibrations)
        yield from measure_carried(found, plan, context.calibrations, produced)
        yield from measure_flags(found, context)
        yield from measure_result(found, context)
        yield from measure_move(found, context)
        yield from measure_elimination(found, context)
    note_idioms(found)
    return found.build()


def _runs(found: ConclusionBuilder) -> bool:
    """Whether the variant runs at all, even if its throughput could not be measured for disturbance."""
    disturbed = (one for one in found.failures if isinstance(one, NotRun) and one.status is Status.UNCLEAN)
    return found.plain.throughput.unrolled is not None or next(disturbed, None) is not None


def _fusion(found: ConclusionBuilder, context: Context) -> Procedure[None]:
    """Conclude with which conditional jumps it fuses."""
    if found.first is None or not may_fuse(found.variant):
        return
    fusion = yield from infer_fusion(context.instructions, found.variant, context.counters)
    found.macro_fusible = fusion.jumps
    found.derivations.append(fusion.derivation)


def _latencies(found: ConclusionBuilder, plan: LatencyPlan, context: Context) -> Procedure[None]:
    """Conclude the latency of every pair of operands; what cannot run at all has none."""
    outcome = yield from infer_latencies(plan, context.calibrations, found.uops)
    found.latencies = outcome.latencies
    found.failures += outcome.failures
    found.derivations += outcome.derivations
    if outcome.left_out:
        found.derivations.append(Derivation(LEFT_OUT, outcome.left_out))
