"""Rename: idioms, unlamination, false output dependencies, and partial register writes.

Three of these need no further measurement:

- **zero idiom**: with one register in all operands it needs no port, and its result depends on nothing;
- **dependency-breaking idiom**: its result depends on nothing, but it needs a port;
- **unlamination**: more slots retire than µops came from the front end.

Others are measured. A **move** of a register to itself may need a port even if other moves are eliminated. A **result**
may depend on the register that it overwrites. Results of 8 or 16 bits are merged with the rest of the register, and
some instructions have a false dependency (POPCNT on Haswell). Instances that all write the same register show it:

    POPCNT RAX, RBX; POPCNT RAX, RBX; ...                       3 cycles each: each waits for the one before
    POPCNT RAX, RBX; MOV EAX, 1; POPCNT RAX, RBX; ...           1 cycle: MOV breaks the dependency

A **part of a register** may be renamed separately. Then a write to it waits for nothing, but the next read of the whole
register waits for a merging µop:

    MOV AH, BL; MOV AH, BL; ...                 0.25 cycles on Haswell: AH is renamed separately; otherwise 1 or more
    MOV AH, BL; MOVSXD RAX, EAX; ...            2 cycles, one of them for the read; three µops instead of two

An instruction that takes a cycle by its ports alone (SETBE on Sandy Bridge) takes as long either way. Then the merging
µop decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.errors import GenerationError
from generator.sequences.renaming import (
    is_move,
    is_partial,
    moved_to_itself,
    only_written,
    overwritten,
    read_after,
    repeated,
)
from generator.sequences.throughput import ThroughputFactory
from inference.experiment import Procedure, Request, Want
from inference.latency.evidence import NEAR
from inference.throughput import rounded_count
from inference.tolerances import WAITS
from results.findings import MovedToItself, PartialWrite, WrittenOver
from results.model import Bound, Derivation, Form
from xed_convert.errors import EncodingError

if TYPE_CHECKING:
    from fractions import Fraction

    from inference.builder import ConclusionBuilder
    from inference.context import Context
    from inference.experiment import Measured

EXECUTED = "uops_executed"

RESULT = "result_dependency"
"""This attribute is a latency in cycles: from a register that the instruction only writes to its result there."""

APART = "renamed_apart"
"""This attribute says whether a part of a register (8 or 16 bits) is renamed separately from the rest of it."""

MERGE, MERGE_UOPS = "merge_cycles", "merge_uops"
"""Attributes: cycles from the rest of a register, through a write to a part of it, to a read of all of it; and µops
beyond those of the write and the read."""


def note_idioms(found: ConclusionBuilder) -> None:
    """Note whether the form with one register is an idiom, and how many µops are divided at rename."""
    same = [one for one in found.latencies if one.same_register]
    independent = bool(same) and all(one.cycles == 0 and one.bound is Bound.EXACT for one in same)
    form = found.forms.get(Form.SAME_REGISTER)
    if independent and form is not None and form.ports is not None:
        found.attributes["dependency_breaking" if form.ports.total else "zero_idiom"] = 1
    for form_name in (Form.PLAIN, Form.INDEXED):
        divided = _divided(found, form_name)
        if divided > 0:
            found.attributes[f"unlaminated{form_name.suffix}"] = divided


def _divided(found: ConclusionBuilder, form: Form) -> int:
    """Return how many more slots a form retires than µops are delivered (0 where that is not known)."""
    counts = [
        found.attributes.get(name + form.suffix, found.attributes.get(name))
        for name in ("uops_retire_slots", "uops_MITE", "uops_MS")
    ]
    slots, decoded, microcoded = counts
    return 0 if slots is None or decoded is None else slots - decoded - (microcoded or 0)


def measure_move(found: ConclusionBuilder, context: Context) -> Procedure[None]:
    """Count the µops of a move of a register to itself, if other moves are eliminated at rename."""
    if EXECUTED not in context.counters or not found.is_eliminated or not is_move(found.variant):
        return
    factory = ThroughputFactory(context.instructions, found.variant)
    try:
        request = Request(moved_to_itself(factory), Want.ALL)
    except (GenerationError, EncodingError):
        return
    (measured,) = yield [request]
    each = measured.each(EXECUTED) if measured.ok else None
    if each is not None:
        uops = rounded_count(each)
        if uops is not None and uops != found.uops:
            found.attributes["uops_same_reg"] = uops
            step = MovedToItself(each)
            found.derivations.append(Derivation("uops_same_reg", (step,), (request.benchmark.id,)))


def measure_result(found: ConclusionBuilder, context: Context) -> Procedure[None]:
    """Conclude whether an instruction waits for the register that it only writes, and for how many cycles."""
    factory = ThroughputFactory(context.instructions, found.variant)
    if found.fastest is None or not only_written(factory):
        return
    try:
        requests = [Request(repeated(factory), Want.CYCLES), Request(overwritten(factory), Want.CYCLES)]
    except (GenerationError, EncodingError):
        return
    (alone,) = yield requests[:1]
    if alone.ok and is_partial(factory):
        yield from _measure_part(found, factory, alone, counts=EXECUTED in context.counters)
    if not alone.ok or alone.cycles * WAITS <= found.fastest.cycles:
        return
    (broken,) = yield requests[1:]
    if not broken.ok:
        return
    waits = broken.cycles < alone.cycles * WAITS and abs(alone.cycles - round(alone.cycles)) < NEAR
    steps = (WrittenOver(alone.cycles, broken.cycles, waits),)
    if waits:
        found.attributes[RESULT] = round(alone.cycles)
        ids = tuple(one.benchmark.id for one in requests)
        found.derivations.append(Derivation(RESULT, steps, ids))


def _measure_part(
    found: ConclusionBuilder, factory: ThroughputFactory, alone: Measured, *, counts: bool
) -> Procedure[None]:
    """Conclude whether a part of a register is renamed separately, and the cost of merging it again."""
    want = Want.ALL if counts else Want.CYCLES
    both, read = (Request(one, want) for one in read_after(factory))
    written, whole = yield [both, read]
    if not written.ok or not whole.ok or WAITS <= alone.cycles < 1 - NEAR:
        return
    uops = found.further_uops(written, whole)
    more = rounded_count(uops)
    apart = _is_apart(found, alone.cycles, more)
    cycles = written.cycles - whole.cycles
    stated = {
        APART: None if apart is None else int(apart),
        MERGE: round(cycles) if abs(cycles - round(cycles)) < NEAR and cycles >= 0 else None,
        MERGE_UOPS: more if more is not None and more >= 0 else None,
    }
    known = {name: value for name, value in stated.items() if value is not None}
    found.attributes.update(known)
    if known:
        step = PartialWrite(alone.cycles, written.cycles, whole.cycles, uops, apart)
        found.derivations.append(
            Derivation(next(iter(known)), (step,), tuple(one.benchmark.id for one in (both, read)))
        )


def _is_apart(found: ConclusionBuilder, alone: Fraction, more_uops: int | None) -> bool | None:
    """Return whether a part is renamed separately (None: nothing tells), by the cycles of writes to one register.

    Keeping the rest of the register takes a cycle at least. A µop that a read of the whole register adds merges the
    part. Code that takes as long with several registers as with one may wait for its ports instead.
    """
    if alone < WAITS or (more_uops is not None and more_uops > 0):
        return True
    waits = found.fastest is not None and found.fastest.cycles < alone * WAITS
    return False if waits else None
