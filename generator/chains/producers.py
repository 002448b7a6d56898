"""Chains whose read-only registers are written by different producers (`generator.support.producers`).

    SHLX RAX, RBX, RCX; MOVSXD RBX, EAX                                                 the usual chain
    MOV ECX, 1; chain; MOV ECX, 0; ADD RCX, 1; chain; MOV RCX, [R14]; chain; ...        all producers
    MOV ECX, 0; ADD RCX, 1; chain; chain; chain; chain; chain; chain                    one of them

The chain does not go through these registers, so a producer changes only the latency of the instruction. One
microbenchmark has all producers. If it takes longer than the usual chains together, some producer matters, and each is
measured alone. Several instances follow each producer, so that its own µops run in parallel with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.microbenchmark import Line, Microbenchmark
from generator.operands.effects import address_registers, effects_of
from generator.operands.places import STATUS_FLAGS, is_vex
from generator.operands.registers import family, is_high8
from generator.operands.reserved import harness_registers
from generator.operands.values import ValueKind
from generator.support.initial import general_value
from generator.support.producers import UPPERS, Produced, fitting, place_of, producers
from results.model import LatencyPart
from xed_convert.errors import UopscopeError
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from generator.chains.plan import LatencyPlan, OperandPair
    from generator.support.producers import Producer

COPIES = 6
"""Copies of a chain behind one producer: its two µops delay a copy by a third of a cycle at most."""

_FREE_VECTORS = ("YMM11", "YMM10", "YMM9")


@dataclass(frozen=True, slots=True)
class Alone:
    """One producer before `COPIES` copies of the chain, and before twice as many, and its code for people.

    `keeps_value` is false for those that write zero.
    """

    name: str
    benchmark: Microbenchmark
    longer: Microbenchmark
    text: str
    keeps_value: bool = True


@dataclass(frozen=True, slots=True)
class ProducedChain:
    """A chain of a variant, and the same with producers.

    - `operands`: those that are produced (none: the upper halves of vectors are).
    - `grouped`: a copy of the chain behind each of `groups` producers (None: each producer is measured alone at once).
    - `instances`: how many a copy of the chain has.
    """

    operands: tuple[int, ...]
    usual: Microbenchmark
    alone: tuple[Alone, ...]
    grouped: Microbenchmark | None = None
    groups: int = 0
    instances: int = 1


def produced_chains(plan: LatencyPlan) -> Iterator[ProducedChain]:
    """Yield chains until every register that is only read is produced in one, then one for the uppers of vectors."""
    pairs = sorted((pair for pair in plan.pairs if is_usable(pair)), key=link_count)
    found = [(pair, _produced(pair)) for pair in pairs]
    left = {one.operand for _, several in found for one in several}
    for pair, several in sorted(found, key=lambda item: -len(item[1])):
        if left & {one.operand for one in several} and (made := _chain(pair, several)):
            left -= {one.operand for one in several}
            yield made
    yield from _with_uppers(pairs)


def is_usable(pair: OperandPair) -> bool:
    """Whether a pair has a chain. Stores are left out, since the time of store forwarding varies."""
    plain = not (pair.reason or pair.same_register or pair.source.flags) and pair.kind is not ValueKind.FAST
    stores = any(o.kind is OperandKind.MEMORY and o.written for o in pair.factory.instance.variant.operands)
    return plain and not stores and pair.source.part is not LatencyPart.MEMORY and bool(pair.direct or pair.routes)


def link_count(pair: OperandPair) -> int:
    """Return how many links the shortest chain of a pair has."""
    return 0 if pair.direct else len(pair.routes[0].links)


def _produced(pair: OperandPair) -> tuple[Produced, ...]:
    """Return the registers that an instance only reads, and that the chain of a pair does not go through."""
    instance = pair.factory.instance
    kept = effects_of(instance).writes | harness_registers() | address_registers(instance) | {pair.source.resource}
    found: dict[str, Produced] = {}
    for operand in instance.variant.operands:
        value = instance.values.get(operand.index)
        register = str(value) if value is not None else next(iter(operand.registers), "")
        if operand.kind is not OperandKind.REGISTER or not operand.read or is_high8(register):
            continue
        name, place = family(register), place_of(instance, register)
        if place and name not in kept and name not in found:
            number = general_value(instance, pair.factory.values, name) if place == "R" else 0
            found[name] = Produced(operand.index, register, place, len(found), number)
    return tuple(found.values())


def _chain(pair: OperandPair, several: tuple[Produced, ...]) -> ProducedChain | None:
    """Return the chain of a pair with its producers (None: it cannot be made, or there are fewer than two)."""
    try:
        usual = pair.chain(None if pair.direct else pair.routes[0]).benchmark
    except (UopscopeError, LookupError):
        return None
    flags = bool(pair.factory.effects.inputs & STATUS_FLAGS or pair.destination.flags)
    zeros = not pair.factory.values.places
    rows: dict[str, list[tuple[Producer, Produced]]] = {}
    for one in several:
        for row in fitting(one.place, several):
            if row.keeps_value or zeros:
                rows.setdefault(row.name, []).append((row, one))
    code = {name: made for name, some in rows.items() if (made := _code(pair, some, flags=flags))}
    if len(code) < 2:
        return None
    setup = usual.setup + tuple(line for one in code.values() for line in one.setup)
    operands = tuple(one.operand for one in several)
    alone = tuple(_alone(usual, setup, name, one.lines, one.keeps_value) for name, one in code.items())
    in_group = [one.lines for name, one in code.items() if name != ZERO_MOV]
    body = tuple(line for lines in in_group for line in (*lines, *usual.body))
    grouped = Microbenchmark(setup, body, f"{usual.purpose}, operands {_listed(operands)} produced in turn")
    return ProducedChain(operands, usual, alone, grouped, len(in_group))


ZERO_MOV = "zero_mov"
"""The producer that zero idioms are compared with; it tells nothing by itself."""


@dataclass(frozen=True, slots=True)
class _Code:
    """One producer of several registers: what it needs before the copies, its lines, whether it keeps all values."""

    setup: tuple[Line, ...]
    lines: tuple[Line, ...]
    keeps_value: bool


def _code(pair: OperandPair, rows: list[tuple[Producer, Produced]], *, flags: bool) -> _Code | None:
    """Return the code of one producer of several registers.

    None: an instruction is missing, or it writes flags which the chain must not have written.
    """
    instructions = pair.factory.instructions
    try:
        if flags and any(instructions.writes_flags(row.code) for row, _ in rows):
            return None
        setup = [line for row, one in rows for line in row.lines(instructions, one.tokens, setup=True)]
        lines = [line for row, one in rows for line in row.lines(instructions, one.tokens)]
    except (UopscopeError, LookupError):
        return None
    return _Code(tuple(setup), tuple(lines), all(row.keeps_value for row, _ in rows))


def _alone(usual: Microbenchmark, setup: tuple[Line, ...], name: str, lines: tuple[Line, ...], keeps: bool) -> Alone:
    purpose = f"{usual.purpose}, produced by {name}"
    few, many = (Microbenchmark(setup, (*lines, *usual.body * copies), purpose) for copies in (COPIES, 2 * COPIES))
    return Alone(name, few, many, "; ".join(line.text for line in lines), keeps)


def _with_uppers(pairs: list[OperandPair]) -> Iterator[ProducedChain]:
    """Yield a chain of legacy SSE instructions without links, with upper halves of vectors clean and dirty.

    Links would be legacy SSE instructions, too, and their time could not be told from the instruction's.
    """
    for pair in pairs:
        instance = pair.factory.instance
        vectors = {pair.source.resource, pair.destination.resource} & set(
            effects_of(instance).other_files.get("VEC", ())
        )
        if not vectors or is_vex(instance) or pair.destination.flags:
            continue
        used = {family(str(value)) for value in instance.values.values()}
        free = next(name for name in _FREE_VECTORS if family(name) not in used)
        try:
            usual = (pair.chain(None) if pair.direct else pair.factory.swapped(pair.source, pair.destination)).benchmark
            instructions = pair.factory.instructions
            code = {one.name: tuple(one.lines(instructions, {"FREE256": free})) for one in producers(UPPERS)}
        except (UopscopeError, LookupError):
            continue
        alone = tuple(_alone(usual, usual.setup, name, lines, keeps=True) for name, lines in code.items())
        yield ProducedChain((), usual, alone, instances=1 if pair.direct else 2)
        return


def _listed(operands: tuple[int, ...]) -> str:
    return ", ".join(map(str, operands))
