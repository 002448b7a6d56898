"""Proof that a latency is undeterminable: other machines on which every program dispatches every µop in the same cycle.

Let all results in one register file come d cycles later, and let every reader of that file need them d cycles later.
Latencies into the file grow by d, and latencies out of it shrink by d. No program shows the difference. Such a machine
is possible if no latency of a cycle or more becomes less than one. So a latency from file A to file B may be as large
as

    its own + the least sum, over all routes back from B to A, of (latency - 1) of each instruction on the route

and no experiment gives a lower upper bound. The latency is determined if and only if that sum is zero in both
directions. Files are register files, single flags, and memory.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

from results.machine.graph import FLAGS
from results.model import LatencyPart
from simulator.instructions.locations import GENERAL, is_high_byte, location_of
from simulator.judging.latency import meant
from simulator.machines.truth import longest_cycles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from results.machine.graph import Behaviour, Endpoint
    from results.model import LatencyResult
    from simulator.core.compiler import Location
    from simulator.machines.machine import MachineModel
    from simulator.machines.truth import Truth
    from xed_convert.model import InstructionVariant

GENERAL_FILE, VECTOR_FILE, MEMORY = "R", "ZMM", "memory"

UNREACHED = "AF"
"""The status flag that chains do not reach; a latency for all flags leaves it out."""

NEAR = Fraction(1, 20)
"""Cycles by which a measured bound may exceed the exact one."""

NO_WAY = 10**6
"""Cycles that stand for files between which there is no instruction."""

PARTS = 16
"""Parts of a machine's instructions: one part already holds some of each kind."""


def file_of(variant: InstructionVariant, endpoint: Endpoint) -> str:
    """Return the file of an instruction's input or output."""
    operand = variant.operand(endpoint.operand)
    if endpoint.flag:
        return endpoint.flag
    if endpoint.part is LatencyPart.MEMORY:
        return MEMORY
    if endpoint.part is not LatencyPart.NONE:
        vector_index = endpoint.part is LatencyPart.ADDRESS_INDEX and operand.memory is not None and operand.memory.vsib
        return VECTOR_FILE if vector_index else GENERAL_FILE
    return file_of_location(location_of(operand.registers[0]))


def file_of_location(location: Location) -> str:
    """Return the file that a location of the simulated core is in."""
    if not isinstance(location, str):
        return MEMORY
    if location in FLAGS:
        return location
    general = location in GENERAL or is_high_byte(location)
    return GENERAL_FILE if general else location.rstrip("0123456789")


class Standing(StrEnum):
    """Which latency an indistinguishable machine can have in the place of a result.

    LEAST: the upper bound itself, so that no lower one can be given; FREE: another latency, but nothing is known of the
    bound; TELLABLE: only the same one.
    """

    LEAST = "least"
    FREE = "free"
    TELLABLE = "tellable"


class Slack:
    """By how much latencies between files could be more on an indistinguishable machine.

    A single instruction may leave no slack. Instructions are looked at in parts, each a sample of all: if a part leaves
    no slack, the rest cannot change that.
    """

    def __init__(self, machine: MachineModel, variants: Iterable[InstructionVariant]) -> None:
        """Take a machine and its variants, which are looked at when they are needed."""
        every = list(variants)
        self._machine = machine
        self._parts = iter([every[first::PARTS] for first in range(PARTS)])
        self._beyond_one: dict[tuple[str, str], int] = {}
        self._least: dict[tuple[str, str], int] = {}

    def more(self, source: str, destination: str) -> int:
        """Return by how many cycles latencies from one file to another could be more."""
        if source == destination:
            return 0
        while self._least.get((destination, source), NO_WAY):
            part = next(self._parts, None)
            if part is None:
                break
            self._look_at(part)
        return self._least.get((destination, source), NO_WAY)

    def less(self, source: str, destination: str) -> int:
        """Return by how many cycles latencies from one file to another could be less."""
        return self.more(destination, source)

    def _look_at(self, variants: Iterable[InstructionVariant]) -> None:
        beyond_one, shorter = self._beyond_one, False
        for variant in variants:
            behaviour = self._machine.behaviour(variant)
            pairs = list(_pairs(behaviour)) if behaviour is not None else []
            files = {one: file_of(variant, one) for one in {end for start, end, _ in pairs for end in (start, end)}}
            for start, end, cycles in pairs:
                way, more = (files[start], files[end]), max(cycles - 1, 0)
                if way not in beyond_one or more < beyond_one[way]:
                    beyond_one[way] = more
                    shorter = True
        if shorter:
            self._least = _shortest_ways(beyond_one)


def standing(slack: Slack, variant: InstructionVariant, truth: Truth, result: LatencyResult) -> Standing:
    """Return how good an upper bound is, or whether an exact latency is the only possible one.

    An address and an operand may be one fixed register (RSP of POP). Then the source may be either of the two: on
    another machine the latency from one of them is less, and nothing shows it.
    """
    latencies = [one for one in meant(variant, truth, result) if result.destination_flag or one[1].flag != UNREACHED]
    ways = [(file_of(variant, start), file_of(variant, end), cycles) for start, end, cycles in latencies]
    most = max((cycles + slack.more(*way) for *way, cycles in ways), default=result.cycles)
    free = any(slack.more(*way) + slack.less(*way) > 0 for *way, _ in ways) or _is_twin(variant, result.source)
    if not free:
        return Standing.TELLABLE
    return Standing.LEAST if result.cycles <= most + NEAR else Standing.FREE


def _is_twin(variant: InstructionVariant, source: int) -> bool:
    """Whether an operand is a fixed register that an implicit address uses, too, or such an address."""
    bases = {o.index: o.memory.base for o in variant.operands if o.suppressed and o.memory is not None}
    fixed = {o.index: o.registers[0] for o in variant.operands if len(o.registers) == 1}
    return (bases.get(source) or fixed.get(source)) in set(bases.values()) & set(fixed.values())


def _pairs(behaviour: Behaviour) -> Iterator[tuple[Endpoint, Endpoint, int]]:
    """Return all latencies of an instruction: of different registers and of one, of slow values and fast ones."""
    for one in filter(None, (behaviour, behaviour.same_register)):
        for fast in {False, any(uop.fast is not None for uop in one.uops)}:
            for (start, end), cycles in longest_cycles(one.uops, fast=fast).items():
                yield start, end, cycles


def _shortest_ways(steps: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """Return the length of the shortest path between any two files (Floyd and Warshall); `NO_WAY` if there is none."""
    files = sorted({file for way in steps for file in way})
    least = {a: {b: steps.get((a, b), 0 if a == b else NO_WAY) for b in files} for a in files}
    for via in files:
        onward = [(b, more) for b, more in least[via].items() if more < NO_WAY]
        for ways in least.values():
            first = ways[via]
            for b, more in onward if first < NO_WAY else ():
                ways[b] = min(ways[b], first + more)
    return {(a, b): cycles for a, ways in least.items() for b, cycles in ways.items()}
