"""What a loop of a function takes: the mean over the ways through it, component by component.

The highest mean is the prediction, because a core that predicts its branches works on several iterations at a time.
Mispredicted branches are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from analysis.bounds.components import Component, Running
from analysis.function.flow import Way, ways_through
from results.ports import fullest

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from analysis.bounds.components import Bounds
    from analysis.explanation import PredictionFacts, SourceLine
    from analysis.function.flow import Flow, Loop

TAKEN_BRANCHES = "taken branches"
"""The name of the bound that they set."""
TAKEN_CYCLES = 1
"""Core cycles per taken branch at least.

Agner Fog, "The microarchitecture of Intel, AMD and VIA CPUs", sections on branch prediction of Sandy Bridge to Ice Lake
and of Zen: one taken branch per cycle, and only in small loops.
"""
PARTS = 1 << 16
"""Probabilities are rounded to multiples of 1 by this."""


@dataclass(frozen=True)
class LoopPrediction:
    """What an iteration of a loop takes: the mean of the ways through it.

    `bounds` are means in core cycles by component; `facts` has the prediction for each way, as if it alone were run.
    `left_out` is the probability of the ways that were not looked at.
    """

    flow: Flow
    loop: Loop
    ways: Sequence[Way]
    facts: Sequence[PredictionFacts]
    bounds: Mapping[str, Fraction]
    left_out: float

    @property
    def cycles(self) -> Fraction:
        """The prediction in core cycles per iteration.

        A single way has that of its code, which may be simulated, or of its taken branches.
        """
        if len(self.ways) == 1:
            return max(self.facts[0].cycles, self.bounds[TAKEN_BRANCHES])
        return max(self.bounds.values(), default=Fraction(0))

    @property
    def is_limited_by_branches(self) -> bool:
        """Whether the taken branches of a single way take longer than its code in a row."""
        return len(self.ways) == 1 and self.cycles > self.facts[0].cycles

    @property
    def limits(self) -> list[str]:
        """What limits the loop."""
        highest = max(self.bounds.values(), default=Fraction(0))
        return [name for name, cycles in self.bounds.items() if cycles == highest]


def predict_loop(
    predict: Callable[[bytes, Running, Container[int]], PredictionFacts],
    flow: Flow,
    loop: Loop,
    taken: Mapping[int, float] | None = None,
    line_at: Callable[[int], SourceLine | None] = lambda _offset: None,
    times: Mapping[int, int] | None = None,
) -> LoopPrediction:
    """Predict what an iteration of a loop takes.

    Args:
        predict: predicts code on one machine, given its bytes, how it runs, and the ends of the jumps that are taken.
        flow: the function.
        loop: the loop.
        taken: the probabilities of branches (see `ways_through`).
        line_at: returns where the instruction at an offset in the function comes from.
        times: how often loops inside run, by their heads (see `ways_through`).

    Raises:
        AnalysisError: there is no way through the loop, its code cannot be analyzed, or `times` lacks a loop inside.
    """
    ways, left_out = ways_through(flow, loop, taken or {}, times)
    found = [
        _with_lines(predict(flow.code_of(way.blocks), Running.LOOP, flow.taken_in(way)), flow, way, line_at)
        for way in ways
    ]
    shares = [Fraction(round(way.probability * PARTS), PARTS) for way in ways]
    total = sum(shares)
    shares = [share / total for share in shares]
    means = _means([one.bounds for one in found], shares)
    taken_branches = sum((share * way.taken for share, way in zip(shares, ways, strict=True)), Fraction(0))
    return LoopPrediction(flow, loop, ways, found, {**means, TAKEN_BRANCHES: taken_branches * TAKEN_CYCLES}, left_out)


def _with_lines(
    facts: PredictionFacts, flow: Flow, way: Way, line_at: Callable[[int], SourceLine | None]
) -> PredictionFacts:
    """Add where the instructions of a way come from."""
    offsets = [at for begin in way.blocks for at in range(begin, flow.blocks[begin].end)]
    lines = [line_at(offsets[at]) for at in facts.bounds.block.offsets]
    return replace(facts, lines=lines) if any(lines) else facts


def _means(bounds: Sequence[Bounds], shares: Sequence[Fraction]) -> dict[str, Fraction]:
    """Return the mean of each component. All ways share the ports, so their bound follows from the mean of the µops."""
    means: dict[str, Fraction] = {}
    counts: dict[int, Fraction] = {}
    for one, share in zip(bounds, shares, strict=True):
        for component, cycles in one.cycles_of.items():
            means[component.value] = means.get(component.value, Fraction(0)) + share * cycles
        for mask, count in one.port_masks.items():
            counts[mask] = counts.get(mask, Fraction(0)) + share * count
    means[Component.PORTS.value] = fullest({mask: round(count * PARTS) for mask, count in counts.items()})[0] / PARTS
    return means
