"""Chains through a register that a producer writes anew each time (`generator.support.carriers`).

    POPCNT RAX, RBX; MOVSXD RBX, EAX                                            the usual chain
    POPCNT RAX, RBX; MOVSXD RBX, EAX; NEG RBX; NOT RBX; ADD RBX, 1              the same through a sum
    POPCNT RAX, RBX; MOVSXD RBX, EAX; OR RBX, RBX; POPCNT RAX, RBX; ...         through all producers, one after another
    OR RBX, RBX; NEG RBX; NOT RBX; ADD RBX, 1                                   what the sum takes with a reader

These show what producers do to an operand that every chain goes through: the only operand, one that is written as
well, or an address. Producers that read nothing (an immediate move, a zero idiom) are left out: they end the chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.chains.producers import is_usable, link_count
from generator.microbenchmark import Line, Microbenchmark
from generator.operands.places import STATUS_FLAGS
from generator.operands.registers import is_high8
from generator.operands.values import DEFAULT_VALUE
from generator.support.carriers import ADDRESS, Carried, carried_place, carriers, fitting
from generator.support.initial import STACK_DEPTH, general_value
from results.model import LatencyPart
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from generator.chains.plan import LatencyPlan, OperandPair
    from generator.factory import InstructionFactory
    from generator.support.carriers import Carrier
    from xed_convert.model import OperandValue

_FREE = ("R12", "R11", "R10", "R9", "R8", "RBP")
_OF_READERS = {"R": "RBX", ADDRESS: "R14", "K": "K3", "MMX": "MM3", "X87": "ST(0)"}
_SETUPS: dict[str, tuple[tuple[str, tuple[OperandValue, ...]], ...]] = {
    "R": (("MOV (R32, I32)", ("EBX", DEFAULT_VALUE)),),
    "X87": (("FLD1 (ST0, ST(0))", ()),) * STACK_DEPTH,
}
"""What readers need: the register's value, and something on the stack."""


@dataclass(frozen=True, slots=True)
class Through:
    """A chain through one producer, the same twice over, and the producer's code for people."""

    name: str
    benchmark: Microbenchmark
    twice: Microbenchmark
    text: str


@dataclass(frozen=True, slots=True)
class CarriedChain:
    """A usual chain of a variant, the same cut (None: nothing cuts it), and the same through producers of one operand.

    `place` is that of `carriers.tsv`.
    """

    operand: str
    place: str
    usual: Microbenchmark
    cut: Microbenchmark | None
    through: tuple[Through, ...]

    def grouped(self, names: Sequence[str]) -> Microbenchmark:
        """Return the chain through these producers, one after the other."""
        chosen = [one for one in self.through if one.name in names]
        body = tuple(line for one in chosen for line in one.benchmark.body)
        setup = chosen[0].benchmark.setup
        return Microbenchmark(setup, body, f"{self.usual.purpose}, operand {self.operand} produced in turn")


@dataclass(frozen=True, slots=True)
class ReaderChain:
    """A reader alone in a chain, and the same through each producer, by name."""

    name: str
    alone: Microbenchmark
    through: tuple[tuple[str, Microbenchmark], ...]


def carried_chains(plan: LatencyPlan, produced: frozenset[int]) -> Iterator[CarriedChain]:
    """Yield a chain for each register that is read, but for operands that are `produced` beside chains already."""
    best: dict[str, OperandPair] = {}
    for pair in sorted((pair for pair in plan.pairs if is_usable(pair)), key=link_count):
        own = pair.source.part is LatencyPart.NONE and pair.source.operand in produced
        if not own and carried_place(pair.source) and not is_high8(pair.source.register):
            best.setdefault(pair.source.resource, pair)
    for pair in best.values():
        made = _chain(pair)
        if made is not None:
            yield made


def _chain(pair: OperandPair) -> CarriedChain | None:
    """Return the chain of a pair through its producers (None: it cannot be made, or there are fewer than two)."""
    route = None if pair.direct else pair.routes[0]
    instructions = pair.factory.instructions
    try:
        chain = pair.chain(route)
        usual, carried = chain.benchmark, _carried(pair, chain.used)
        rows = fitting(pair.source, carried, restored=pair.factory.needs_restore(pair.source))
        if pair.factory.effects.inputs & STATUS_FLAGS:
            rows = tuple(one for one in rows if not instructions.writes_flags(one.code))
    except (UopscopeError, LookupError):
        return None
    code = {one: made for one in rows if (made := _code(instructions, one, carried))}
    if len(code) < 2:
        return None
    setup = usual.setup + tuple(dict.fromkeys(line for before, _ in code.values() for line in before))
    through = tuple(_through(usual, setup, one.name, lines) for one, (_, lines) in code.items())
    return CarriedChain(str(pair.source), carried.place, usual, _cut(pair), through)


def _carried(pair: OperandPair, used: frozenset[str]) -> Carried:
    """Return what the chain of a pair goes through, if it uses these registers.

    Raises:
        LookupError: no register is free.
    """
    source, factory = pair.source, pair.factory
    place = carried_place(source)
    value = general_value(factory.instance, factory.values, source.resource) if place == "R" else DEFAULT_VALUE
    free = next((one for one in _FREE if one not in used), "")
    if not free:
        message = "no register is free"
        raise LookupError(message)
    return Carried(source.register, place, value, free, source.part is LatencyPart.ADDRESS_INDEX)


def _code(
    instructions: InstructionFactory, one: Carrier, carried: Carried
) -> tuple[tuple[Line, ...], tuple[Line, ...]] | None:
    """Return setup and code of a producer (None: an instruction is missing, or cannot name the register)."""
    try:
        return one.lines(instructions, carried, setup=True), one.lines(instructions, carried)
    except (UopscopeError, LookupError):
        return None


def _through(usual: Microbenchmark, setup: tuple[Line, ...], name: str, lines: tuple[Line, ...]) -> Through:
    purpose = f"{usual.purpose}, through {name}"
    once, twice = (Microbenchmark(setup, (*usual.body, *lines) * times, purpose) for times in (1, 2))
    return Through(name, once, twice, "; ".join(line.text for line in lines))


def _cut(pair: OperandPair) -> Microbenchmark | None:
    try:
        return pair.chain(None if pair.direct else pair.routes[0], cut=True).benchmark
    except (UopscopeError, LookupError):
        return None


def reader_chains(instructions: InstructionFactory, place: str) -> tuple[ReaderChain, ...]:
    """Return the chains that tell what the producers of a place take: with each reader alone, and through each.

    What the catalogue lacks is left out.
    """
    carried = Carried(_OF_READERS[place], place, DEFAULT_VALUE, _FREE[0])
    setup = _SETUPS.get(place, ())
    try:
        before = tuple(instructions.line(string, *values) for string, values in setup)
    except UopscopeError:
        return ()
    rows = [(one, code) for one in carriers(place, "producer") if (code := _code(instructions, one, carried))]
    found = []
    for reader in carriers(place, "reader"):
        read = _code(instructions, reader, carried)
        if read is None:
            continue
        alone = Microbenchmark(before, read[1], f"chain of the reader {reader.name}")
        through = tuple(
            (
                one.name,
                Microbenchmark((*before, *stored), (*read[1], *lines), f"reader {reader.name}, through {one.name}"),
            )
            for one, (stored, lines) in rows
        )
        found.append(ReaderChain(reader.name, alone, through))
    return tuple(found)
