"""Partial flag writes: whether an instruction that writes only some flags waits for the others.

    TEST RBX, RBX; SETBE DL; MOVSX RBX, DL              3 cycles
    TEST RBX, RBX; INC RCX; SETBE DL; MOVSX RBX, DL     3 cycles if SETBE needs no merge of CF (TEST) and ZF (INC)
    TEST RBX, RBX; INC RCX; SETZ DL; MOVSX RBX, DL      1 cycle if INC does not wait for CF, which it leaves unchanged

An instruction that reads CF gets it from CLC before it, since waiting for that is no merge. An instruction that leaves
flags unchanged only on a condition (a shift by CL) is measured where the condition does not hold.

If all flags are renamed as one register, INC waits for the old flags. If they are renamed separately, reading both may
take a merging µop.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from generator.errors import GenerationError
from generator.sequences.flags import partial_flags
from generator.sequences.throughput import ThroughputFactory
from inference.experiment import Request, Want
from inference.throughput import rounded_count
from inference.tolerances import WAITS
from results.findings import PartialFlagsTime
from results.model import Derivation
from xed_convert.errors import EncodingError

if TYPE_CHECKING:
    from inference.builder import ConclusionBuilder
    from inference.context import Context
    from inference.experiment import Procedure

EXECUTED = "uops_executed"

APART = "flags_renamed_apart"
"""This attribute says whether an instruction writes some flags without waiting for those that it keeps."""

MERGE, MERGE_UOPS = "flags_merge_cycles", "flags_merge_uops"
"""Attributes: how many more cycles, and µops, a read of both kinds of flags takes with the instruction between."""

CLOSE = Fraction(1, 4)
"""Cycles by which the difference of two chains may be off a whole number: noise of chains of a few cycles is less."""


def measure_flags(found: ConclusionBuilder, context: Context) -> Procedure[None]:
    """Conclude whether flags are renamed separately, and the cost of reading flags of two instructions."""
    counts = EXECUTED in context.counters
    try:
        code = partial_flags(ThroughputFactory(context.instructions, found.variant))
    except (GenerationError, EncodingError):
        return
    if code is None or found.fastest is None:
        return
    want = Want.ALL if counts else Want.CYCLES
    requests = [Request(one, want) for one in (code.whole, code.both, code.own) if one is not None]
    whole, *merged, own = yield requests
    if not all(one.ok for one in (whole, *merged, own)) or found.fastest.cycles >= whole.cycles * WAITS:
        return
    apart = own.cycles < whole.cycles * WAITS
    found.attributes[APART] = int(apart)
    both, uops = merged[0] if merged else None, None
    if both is not None:
        cycles = both.cycles - whole.cycles
        if abs(cycles - round(cycles)) <= CLOSE and round(cycles) >= 0:
            found.attributes[MERGE] = round(cycles)
        uops = None if code.fresh else found.further_uops(both, whole)
        if (more := rounded_count(uops)) is not None and more >= 0:
            found.attributes[MERGE_UOPS] = more
    step = PartialFlagsTime(whole.cycles, both.cycles if both else None, own.cycles, uops, apart)
    found.derivations.append(Derivation(APART, (step,), tuple(one.benchmark.id for one in requests)))
