"""A block simulated on one machine, with all that can be asked about it; answers are worked out when needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from analysis.simulation.results import Explanation

if TYPE_CHECKING:
    from fractions import Fraction

    from analysis.block.code import Block
    from analysis.bounds.components import Bounds
    from analysis.memory.addresses import AddressFollower, Followed
    from analysis.simulation.results import Simulated
    from analysis.simulation.run import Simulation


MOST_EXPLAINED = 20_000
"""Instructions of a block whose waits are noted, which take 3 KB each. Nobody reads those of longer blocks."""

NOT_TOLD_APART_CYCLES = 10
"""Core cycles by which the time of a few hundred instructions may be off, since they may begin and end anywhere.

With it, Kendall's τ of BHive's tuning half is .957 instead of .949: equal times come out equal.
"""


@dataclass(frozen=True)
class Study:
    """The simulation of a block. `bounds` are those of the same block."""

    simulation: Simulation
    follower: AddressFollower
    bounds: Bounds

    @property
    def block(self) -> Block:
        """The block."""
        return self.bounds.block

    @property
    def followed(self) -> Followed:
        """Which loads read from which stores, and the pages that are used."""
        return self.bounds.followed

    @cached_property
    def simulated(self) -> Simulated:
        """Core cycles per iteration, and the loads of the ports."""
        return self.simulation.run(self.block, self.followed)

    @property
    def cycles(self) -> Fraction:
        """The prediction in core cycles per iteration: the simulation's, if that is longer than the largest bound."""
        return cycles_of(self.simulated, self.bounds.cycles)

    @property
    def is_explained(self) -> bool:
        """Whether the block is short enough for notes about each instruction."""
        return len(self.block.items) <= MOST_EXPLAINED

    @cached_property
    def explanation(self) -> Explanation:
        """What each instruction waited for, and a timeline of a few iterations; both empty for very long blocks."""
        if not self.is_explained:
            return Explanation((), ())
        return self.simulation.explain(self.block, self.followed)


def cycles_of(simulated: Simulated, bound: Fraction) -> Fraction:
    """Return the core cycles per iteration: the largest bound, unless the simulation takes longer beyond its error.

    A simulation may end before all buffers are full, and be too short. Nothing is quicker than a bound.
    """
    bound += simulated.page_cycles
    longer = (simulated.cycles - bound) * simulated.iterations
    return simulated.cycles if longer > NOT_TOLD_APART_CYCLES else bound
