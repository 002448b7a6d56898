"""Times of chain instructions: one slow moment of a clock's machine spoils none."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from generator.factory import InstructionFactory
from inference.calibration import Calibrations
from inference.experiment import Measured
from results.model import Status
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from inference.experiment import Request

INSTRUCTIONS = InstructionFactory(Catalogue.load())
LINK = "vpor512"


class SlowMoments:
    """A machine on which every instruction of a chain takes a cycle; in slow rounds each takes that many times as long.

    `rounds` are the requests of each round, by how often they were asked before.
    """

    def __init__(self, slow: dict[int, Fraction]) -> None:
        self.slow = slow
        self.rounds: list[list[int]] = []

    def found(self, calibrations: Calibrations) -> Fraction:
        """Return the latency of the link."""
        procedure = calibrations.need([LINK])
        try:
            requests = next(procedure)
            while True:
                self.rounds.append([one.again for one in requests])
                requests = procedure.send([self._measured(one) for one in requests])
        except StopIteration:
            return calibrations.times[LINK].latency

    def _measured(self, request: Request) -> Measured:
        cycles = request.benchmark.divisor * self.slow.get(request.again, Fraction(1))
        return Measured(request, Status.OK, {"core_cycles": Fraction(cycles)}, {})


@pytest.mark.parametrize(
    ("slow", "rounds"),
    [
        ({}, 2),
        ({0: Fraction(116, 100)}, 3),
        ({0: Fraction(2), 1: Fraction(2)}, 2),
        ({1: Fraction(116, 100)}, 3),
        ({0: Fraction(2), 1: Fraction(3, 2)}, 3),
    ],
)
def test_the_least_of_several_times_of_a_link_counts_on_a_clock(slow: dict[int, Fraction], rounds: int) -> None:
    machine = SlowMoments(slow)
    latency = machine.found(Calibrations(INSTRUCTIONS, loop=True))
    assert len(machine.rounds) == rounds
    assert [set(one) for one in some(machine.rounds, 2)] == [{number} for number in range(rounds)]
    assert latency == min(slow.get(number, Fraction(1)) for number in range(rounds))


def test_counters_say_the_time_of_a_link_at_once() -> None:
    machine = SlowMoments({})
    assert machine.found(Calibrations(INSTRUCTIONS)) == 1
    assert len(machine.rounds) == 1
