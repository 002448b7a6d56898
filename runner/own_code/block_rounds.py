"""What the rounds of a block say: core cycles per copy and their spread, or the reason why there is no number."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

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

AROUND_CYCLES, AROUND_SHARE = 6, 0.1
"""Core cycles of a pass, and share of the larger loop's pass, that may be besides the copies. Passes of 414 loops on a
Cascade Lake take -3.4 to 3.0 cycles more than their copies. Three take 28 to 31 less: the smaller loop comes from the
loop buffer, the larger one from the decoders. No other core was tried."""


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
    NOT_IN_LINE = "its copies take another time in a larger loop"


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


class _PerCopy(NamedTuple):
    """Core cycles per copy with their spread, and those of a pass through the copies of either size."""

    cycles: float
    spread: float
    passes: tuple[float, float]


@dataclass(slots=True)
class BlockRounds:
    """The core cycles of a block by round, for a smaller and a larger size.

    `copies` are those of both sizes, each of which runs `iterations` times in a round. `times` are those of undisturbed
    rounds by size, `disturbed` those of the others. `count` rounds were run. If it `is_loop`, nothing but the copies
    takes much time, so both sizes must show about the same time of a copy.
    """

    copies: tuple[int, int] = (0, 0)
    iterations: int = 0
    times: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    disturbed: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    count: int = 0
    is_loop: bool = False

    def agreed_timing(self, remark: str) -> BlockTiming | None:
        """Return the number of a block whose undisturbed rounds agree, with a remark; None if they do not.

        If they agree on what no copy takes, return that there is no number.
        """
        found = self._per_copy(self.times)
        if self._is_out_of_line(found, AGREEMENT):
            return self._without_line(found)
        if found is None or found.spread > AGREEMENT * found.cycles or found.cycles < LEAST_CYCLES:
            return None
        problem = BlockProblem.MISALIGNED if remark else BlockProblem.NONE
        return BlockTiming(Status.OK, found.cycles, found.spread, remark, problem)

    def last_timing(self, remark: str) -> BlockTiming:
        """Return the number of a block whose rounds do not agree well, or the reason why it has none.

        A remark about the rounds is added to `remark`.
        """
        found = self._per_copy(self.times)
        if self._is_out_of_line(found, STEADY):
            return self._without_line(found)
        added, problem = "unsteady", BlockProblem.UNSTEADY
        if found is not None and found.spread <= AGREEMENT * found.cycles:
            added = f"only {min(map(len, self.times))} of {self.count} rounds were undisturbed"
            problem = BlockProblem.DISTURBED
        if found is None:
            found = self._per_copy([[*quiet, *rest] for quiet, rest in zip(self.times, self.disturbed, strict=True)])
            added, problem = "another thread used the same core all the time", BlockProblem.DISTURBED
        if found is None or found.cycles < LEAST_CYCLES or found.spread > STEADY * found.cycles:
            return self._without_number()
        reason = "; ".join(filter(None, (remark, added)))
        return BlockTiming(Status.OK, found.cycles, found.spread, reason, problem)

    def _is_out_of_line(self, found: _PerCopy | None, most: float) -> TypeGuard[_PerCopy]:
        """Whether steady loops show another time of a copy each, so that the difference is the time of neither.

        Their rounds are steady if the spread is at most such a share of a pass.
        """
        if found is None or not self.is_loop:
            return False
        few, many = self.copies
        small, large = found.passes
        around = small - found.cycles * few
        is_steady = found.spread * (many - few) <= most * max(small, large)
        return is_steady and abs(around) > AROUND_CYCLES + AROUND_SHARE * large

    def _without_line(self, found: _PerCopy) -> BlockTiming:
        small, large = (f"{cycles / copies:.2f}" for cycles, copies in zip(found.passes, self.copies, strict=True))
        few, many = self.copies
        reason = f"not in line: a copy takes {small} cycles in a loop of {few}, and {large} in one of {many}"
        return BlockTiming(Status.UNCLEAN, reason=reason, problem=BlockProblem.NOT_IN_LINE)

    def _without_number(self) -> BlockTiming:
        disturbed = max(map(len, self.disturbed))
        reason = f"disturbed: another thread used the same core in {disturbed} of {self.count} rounds"
        problem = BlockProblem.DISTURBED
        if 2 * disturbed <= self.count:
            reason = f"unsteady: the faster half of {self.count} rounds is over {STEADY:.0%} apart"
            problem = BlockProblem.UNSTEADY
        return BlockTiming(Status.UNCLEAN, reason=reason, problem=problem)

    def _per_copy(self, times: Sequence[Sequence[float]]) -> _PerCopy | None:
        """Return what a copy takes by the lower quartile of the rounds of each size; None: there are too few."""
        small, large = map(sorted, times)
        if len(small) < LEAST_ROUNDS or len(large) < LEAST_ROUNDS:
            return None
        few, many = self.copies
        passes = _quartile(small) / self.iterations, _quartile(large) / self.iterations
        distance = sum(each[len(each) // 2] - each[0] for each in (small, large)) / 2
        copies = many - few
        return _PerCopy((passes[1] - passes[0]) / copies, distance / (copies * self.iterations), passes)


def _quartile(ordered: Sequence[float]) -> float:
    """Return the lower quartile of ordered times."""
    whole, part = divmod(QUARTILE * (len(ordered) - 1), 1)
    low, high = ordered[int(whole)], ordered[int(whole) + 1]
    return low + part * (high - low)
