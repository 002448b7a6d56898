"""Random machines of one seed: most kinds change no instruction, so what instructions do is drawn and judged once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simulator.judging.slack import Slack
from simulator.machines.machine import MachineModel
from simulator.machines.random_machine import RandomMachine
from simulator.machines.random_shape import draw_shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulator.machines.random_shape import MachineShape
    from xed_convert.model import InstructionVariant


class Siblings:
    """Opens random machines. Those of one seed that draw the same instructions share them, and their latencies' slack.

    Only the last seed is kept.
    """

    def __init__(self, variants: Iterable[InstructionVariant]) -> None:
        """Take all variants that a machine may have."""
        self._variants = tuple(variants)
        self._seed = -1
        self._known: dict[MachineShape, tuple[MachineModel, Slack]] = {}

    def open(self, seed: int, kind: str) -> tuple[MachineModel, Slack]:
        """Return the machine of a seed and of kinds ("": a plain one), and the slack of its latencies."""
        machine = RandomMachine(seed, kind=kind).model()
        if seed != self._seed:
            self._seed, self._known = seed, {}
        # Parameters say how the core executes instructions, not what these are
        drawn = replace(draw_shape(seed, kind), parameters=draw_shape(seed).parameters)
        if drawn not in self._known:
            self._known[drawn] = machine, Slack(machine, self._variants)
        first, slack = self._known[drawn]
        return MachineModel(machine.name, machine.parameters, machine.origin, first.behaviour, machine.stand_ins), slack
