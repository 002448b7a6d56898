"""What the rounds of a block say: core cycles per copy and their spread, or the reason why there is no number."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from results.model import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_ROUNDS = 2
"""Rounds of each size without which there is no spread."""

QUARTILE = 0.25
"""Which round counts, as a share of them all from the fastest one on; between two rounds it is interpolated."""

AGREEMENT = 0.01
"""Share of a block's cycles. A spread of no more needs no further rounds: it is half of what two measurements may
differ by. One block in twelve needs more rounds."""
STEADY = 0.04
"""Share of a block's cycles. A block with a larger spread has no number. Of 512 blocks measured twice on an Ice Lake
(load 22), 96.2% have one then, and 96.3% of these agree within 2%. With 0.1 it is 98.3% and 94.2%."""
LEAST_CYCLES = 0.05
"""Less cannot be: no core retires 20 instructions in a cycle."""


class BlockProblem(StrEnum):
    """Why a block has no number, or what may be wrong with the one that it has."""

    NONE = ""
    NOT_RUN = "it does not run to its end"
    INDIRECT_BRANCH = "it leaves the block by an indirect branch"
    NO_CODE = "there is no code"
    NO_REGISTER = "no register is left to count the loop"
    TOO_LONG = "it is too long for the instruction cache"
    MISALIGNED = "an access crosses a cache line"
    DISTURBED = "another thread used the same core"
    UNSTEADY = "its rounds differ"


@dataclass(frozen=True, slots=True)
class BlockTiming:
    """Core cycles per copy in one mode with their spread, or the reason why there are none.

    `problem` is the kind of the reason, `reason` says it for people, with its figures. With cycles they are a remark;
    of two, `problem` is the one about the rounds. `spread` is half the distance from the fastest round to the median
    one, the sum for both sizes.
    """

    status: Status
    cycles: float | None = None
    spread: float | None = None
    reason: str = ""
    problem: BlockProblem = BlockProblem.NONE

    @property
    def ok(self) -> bool:
        """Whether there is a number."""
        return self.cycles is not None


@dataclass(slots=True)
class BlockRounds:
    """The core cycles of a block by round, for a smaller and a larger size.

    `copies` are those of both sizes, each of which runs `iterations` times in a round. `times` are those of undisturbed
    rounds by size, `disturbed` those of the others. `count` rounds were run.
    """

    copies: tuple[int, int] = (0, 0)
    iterations: int = 0
    times: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    disturbed: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    count: int = 0

    def agreed_timing(self, remark: str) -> BlockTiming | None:
        """Return the number of a block whose undisturbed rounds agree, with a remark; None if they do not."""
        found = self._per_copy(self.times)
        if found is None or found[1] > AGREEMENT * found[0] or found[0] < LEAST_CYCLES:
            return None
        return BlockTiming(Status.OK, *found, remark, BlockProblem.MISALIGNED if remark else BlockProblem.NONE)

    def last_timing(self, remark: str) -> BlockTiming:
        """Return the number of a block whose rounds do not agree well, or the reason why it has none.

        A remark about the rounds is added to `remark`.
        """
        found = self._per_copy(self.times)
        added, problem = "unsteady", BlockProblem.UNSTEADY
        if found is not None and found[1] <= AGREEMENT * found[0]:
            added = f"only {min(map(len, self.times))} of {self.count} rounds were undisturbed"
            problem = BlockProblem.DISTURBED
        if found is None:
            found = self._per_copy([[*quiet, *rest] for quiet, rest in zip(self.times, self.disturbed, strict=True)])
            added, problem = "another thread used the same core all the time", BlockProblem.DISTURBED
        if found is None or found[0] < LEAST_CYCLES or found[1] > STEADY * found[0]:
            return self._without_number()
        return BlockTiming(Status.OK, *found, "; ".join(filter(None, (remark, added))), problem)

    def _without_number(self) -> BlockTiming:
        disturbed = max(map(len, self.disturbed))
        reason = f"disturbed: another thread used the same core in {disturbed} of {self.count} rounds"
        problem = BlockProblem.DISTURBED
        if 2 * disturbed <= self.count:
            reason = f"unsteady: the faster half of {self.count} rounds is over {STEADY:.0%} apart"
            problem = BlockProblem.UNSTEADY
        return BlockTiming(Status.UNCLEAN, reason=reason, problem=problem)

    def _per_copy(self, times: Sequence[Sequence[float]]) -> tuple[float, float] | None:
        """Return cycles per copy by the lower quartile of the rounds of each size, and their spread; None: too few."""
        small, large = map(sorted, times)
        if len(small) < LEAST_ROUNDS or len(large) < LEAST_ROUNDS:
            return None
        few, many = self.copies
        scale = (many - few) * self.iterations
        distance = sum(each[len(each) // 2] - each[0] for each in (small, large)) / 2
        return (_quartile(large) - _quartile(small)) / scale, distance / scale


def _quartile(ordered: Sequence[float]) -> float:
    """Return the lower quartile of ordered times."""
    whole, part = divmod(QUARTILE * (len(ordered) - 1), 1)
    low, high = ordered[int(whole)], ordered[int(whole) + 1]
    return low + part * (high - low)
