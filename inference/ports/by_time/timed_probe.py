"""The state of an inference by time: one instruction, the answers about it, and the bounds that follow from them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import linear_regression
from typing import TYPE_CHECKING

from generator.sequences.blocking import is_wide, kind_of, register_files, shares_state
from inference.ports.by_time.hypotheses import Hypothesis, PortComponent, UopBounds
from inference.ports.by_time.members import MEMORY, SHARES, domains
from inference.ports.by_time.mixes import SHORT_CHAIN, WAITS, Asked, Question, strengths
from results.findings import Blocked, ManyInstances, PortAnswer

if TYPE_CHECKING:
    from generator.sequences.blocking import CodeKind
    from inference.ports.by_time.machine import TimedMachine, TimedSet
    from results.model import Step
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant

UOPS_OF_SLOT = 4
"""µops that one slot may stand for if there is memory, or a wide vector or mask: two halves, each loaded and
computed."""

SPLIT_BITS = 256
"""Width of vectors that cores may execute in two halves: vector units are 128 bits wide at least."""

MASKS_OF_64 = "K.*Q"
"""The names of instructions on masks of 64 bits. Operands of narrower ones have as many."""

SLOWER = Fraction(103, 100)
"""Factor: a usage is wrong if its ports need more than this many times the measured time. 3 % is the most that noise is
taken to be."""

MISTAKEN = Fraction(5, 4)
"""Factor by which a time may be too short by mistake. On Zen 4, FXCH takes 0.25 cycles unrolled and 0.40 in a loop.
Three ports do not do that, whatever the loop waits for."""

FEWEST_TIMES = 4
"""Mixes with filler that show how fast it is issued beside the instruction. Two times are off by too much."""

PASSES = Fraction(11, 10)
"""Factor: blocked ports stay busy if so many times their µops per cycle get past the instruction. A tenth more, because
times may be off by 4%."""


@dataclass
class TimedProbe:
    """What is known of one variant so far."""

    machine: TimedMachine
    variant: InstructionVariant
    cycles: Fraction
    parts: list[PortComponent]
    slower: Fraction = Fraction(0)
    chain: Fraction = Fraction(0)
    slots: int | None = None
    most_slots: int = 1
    filled: list[tuple[int, Fraction]] = field(default_factory=list)
    asked: dict[PortSet, Asked] = field(default_factory=dict)
    bounds: dict[PortSet, UopBounds] = field(default_factory=dict)
    delayed: set[PortSet] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    experiments: list[str] = field(default_factory=list)

    @property
    def kind(self) -> CodeKind:
        """The kind of code that it may stand in."""
        return kind_of(self.variant)

    @property
    def has_halves(self) -> bool:
        """Whether it may have two µops where a narrower form has one: vectors or masks may be wider than a port."""
        wide = any((operand.width_bits or 0) >= SPLIT_BITS for operand in self.variant.operands if operand.registers)
        return wide or self.is_widest

    @property
    def is_widest(self) -> bool:
        """Whether it computes on vectors of 512 bits, or on nothing but masks of 64: a Zen 4 does both in halves."""
        is_of_masks = re.fullmatch(MASKS_OF_64, self.variant.iclass) and register_files(self.variant) == {"K"}
        return is_wide(self.variant) or bool(is_of_masks)

    @property
    def is_split(self) -> bool:
        """Whether a slot may hold several µops."""
        return self.has_halves or any(operand.memory is not None for operand in self.variant.operands)

    @property
    def most_uops(self) -> int:
        """How many µops it can have at most."""
        return self.most_slots * UOPS_OF_SLOT if self.is_split else self.most_slots

    def most_on(self, ports: PortSet) -> int:
        """Return how many µops it can have on a component: one for each slot, or two halves."""
        (part,) = (part for part in self.parts if ports in part.basic)
        return self.most_slots * (2 if self.has_halves and any(one.takes_vectors for one in self.sets_of(part)) else 1)

    def sets_of(self, part: PortComponent) -> list[TimedSet]:
        """Return the basic sets of a component."""
        return [one for one in self.machine.sets if one.ports in part.basic]

    def tightened(self) -> dict[PortSet, UopBounds]:
        """Return the bounds of all sets: µops of a set are in all that it lies in, too."""
        return {
            ports: UopBounds(
                max(other.least for inner, other in self.bounds.items() if inner <= ports),
                min(other.most for outer, other in self.bounds.items() if ports <= outer),
            )
            for ports in self.bounds
        }

    def is_told(self, part: PortComponent) -> bool:
        """Whether answers say how many µops are confined to the sets of a component.

        They do not if the instruction slows each of those that block a set, or delays them for longer than its µops
        take. The exception is a delay by one of the widest, with both halves of each slot confined to a smaller set.
        """
        if any(self.asked[ports].slows for ports in part.basic if ports in self.asked):
            return False
        if not self.delayed.intersection(part.basic):
            return True
        known = [(ports, self.bounds[ports]) for ports in part.basic if ports in self.bounds]
        return self.is_widest and any(one.least == one.most == self.most_on(ports) for ports, one in known)

    def is_likely(self, one: TimedSet) -> bool:
        """Whether instructions with this set have its registers, or memory as it does."""
        own = domains(self.variant)
        return MEMORY in own if one.is_of_memory else not own.isdisjoint(one.files)

    def askable(self) -> dict[PortSet, TimedSet]:
        """Return the basic sets that can be blocked in its kind of code, by what leaves its registers alone."""
        return {
            one.ports: one
            for one in self.machine.sets
            if self.kind in one.blockers and not shares_state(one.blockers[self.kind], self.variant)
        }

    def question(self, one: TimedSet) -> Question:
        """Return the question how many of its µops are confined to a set."""
        size = len(one.ports)
        counts = strengths(size, self.machine.width, self.most_slots, self.chain)
        return Question(self.variant, one.blockers[self.kind], size, counts, self.chain, self.cycles)

    @property
    def slowest(self) -> Fraction:
        """The most cycles that the ports of its usage may need: no instruction is done faster, but for noise.

        Of unrolled code and a loop, the slower one counts: the other may seem too fast. On Emerald Rapids, two runs of
        vector code of which the shorter one was disturbed made 0.43 or 0.47 cycles of 0.50. More than that is no
        mistake (`MISTAKEN`).
        """
        return min(max(self.cycles, self.slower) * (SLOWER + self.machine.noise), self.cycles * MISTAKEN)

    @property
    def agrees_on_slots(self) -> bool:
        """Whether the middle half of the times among filler show the same number of slots, whatever noise allows.

        On Emerald Rapids, eight times of FDIV showed 0.1 to 3.5 slots.
        """
        values = sorted(cycles * self.machine.width - count for count, cycles in self.filled)
        inner = values[len(values) // 4 : len(values) - len(values) // 4]
        return not inner or inner[-1] - inner[0] <= WAITS

    @property
    def sure_slots(self) -> int | None:
        """Its issue slots, if its throughput allows them: but for noise, nothing is done faster than it is issued."""
        has_time = self.slots is not None and self.slots <= self.slowest * self.machine.width
        return self.slots if has_time else None

    @property
    def passing(self) -> Fraction:
        """How many slots per cycle other instructions have beside it: the issue width, if nothing holds them up.

        An instruction that waits long to retire fills the reorder buffer. On a simulated Haswell with its 192 entries,
        1.9 µops per cycle get past a CLI of 100 cycles.
        """
        counts = [count for count, _ in self.filled]
        if len(counts) < FEWEST_TIMES:
            return Fraction(self.machine.width)
        slope, _ = linear_regression(counts, [float(cycles) for _, cycles in self.filled])
        return Fraction(self.machine.width) if slope * self.machine.width <= 1 else 1 / Fraction(slope)

    def has_no_business_on(self, ports: PortSet) -> bool:
        """Whether only loads have a set, and it accesses no memory: so it can only delay these."""
        (own,) = (one for one in self.machine.sets if one.ports == ports)
        return own.is_of_loads and MEMORY not in domains(self.variant)

    def holds_up(self, ports: PortSet) -> bool:
        """Whether other instructions get past it so slowly that blocked ports may run dry."""
        return self.passing < PASSES * len(ports)

    def take(self, ports: PortSet, asked: Asked) -> None:
        """Add the answer about a set: its steps and experiments, and the bounds that follow."""
        self.asked[ports] = asked
        answer = asked.answer
        if answer is None:
            return
        self.experiments += asked.experiments
        blocker = asked.question.blocker.string
        self.steps += [
            PortAnswer(
                self.machine.public(ports),
                (Blocked(count, blocker),),
                cycles * len(ports),
                count,
                timed=True,
                most=None if answer.uops is not None else answer.most,
            )
            for count, cycles in asked.times
        ]
        self.steps += [
            ManyInstances(
                self.machine.public(ports), Blocked(many.blockers, blocker), many.instances, many.cycles * len(ports)
            )
            for many in asked.many
        ]
        most = min(answer.most, self.most_on(ports))
        if answer.most and self.has_no_business_on(ports):
            self.bounds[ports] = UopBounds(0, 0)
            self.delayed.add(ports)
        elif asked.slows:
            self.bounds[ports] = UopBounds(0, most)
            self.delayed.add(ports)
        elif most < (answer.most if answer.uops is None else answer.uops):
            # Ports stand still for a cycle, as if each had a µop: on Zen 4 for a vector's way to a general register.
            # If they do for longer, a µop keeps them busy: VPCMPESTRI of a simulated Sandy Bridge has eight in one slot
            self.bounds[ports] = UopBounds(0, most)
            if answer.uops is not None or min(answer.values, default=0) > most + len(ports) + WAITS:
                self.delayed.add(ports)
        elif answer.uops != 0 and self.holds_up(ports):
            self.bounds[ports] = UopBounds(0, most)
        elif answer.uops is not None and answer.is_exact(self.chain):
            self.bounds[ports] = UopBounds(answer.uops, answer.uops)
        elif self.chain <= SHORT_CHAIN and (answer.bound is None or SHARES < answer.bound <= most + WAITS):
            # An instruction that waits for much longer than its µops take may wait for something else
            waits = min(answer.values) > SHARES and max(answer.values) <= most + WAITS
            self.bounds[ports] = UopBounds(min(most, int(waits)), most)
        else:
            self.bounds[ports] = UopBounds(0, most)


def hypotheses_of(probe: TimedProbe, part: PortComponent) -> list[Hypothesis] | None:
    """Return the usages of a component's sets that agree with all answers; None if there are too many."""
    total = sum(probe.bounds[top].most if top in probe.bounds else probe.most_uops for top in part.tops)
    return part.hypotheses(probe.bounds, min(total, probe.most_uops))
