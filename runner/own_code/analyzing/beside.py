"""Predictions beside measurements of the same code on the CPU at hand.

Measurement and prediction are of the same thing:

- Copies of a block follow each other, so direct jumps are left out: the one at its end, and those that leave a loop, or
  close it, in the middle. They would lead to any place in the copies, or out of them.
- Registers and memory begin as `runner.own_code.blocks` sets them.
- In both modes the same copies run again and again, so they come out of the µop cache. The prediction is for a loop of
  many copies. Where the µop cache delivers only behind a jump (`UopCache.after_jumps`), copies in a row are decoded
  each time.
- A measured loop is the difference of two, with few copies and with more. So is the predicted one: a core may learn all
  loads of the smaller one, and not those of the larger one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iced_x86 import Decoder, FlowControl

from analysis.bounds.components import Running
from analysis.explanation import MeasuredCycles
from analysis.prediction import PredictionMode as Predicted
from analysis.simulation.study import cycles_of
from runner.own_code.blocks import (
    LOOP_GROWTH,
    LOOP_INSTRUCTIONS,
    MORE_INSTRUCTIONS,
    BlockMeasurer,
    BlockMode,
    BlockOptions,
)

if TYPE_CHECKING:
    from fractions import Fraction

    from analysis.prediction import Tools
    from results.model import Provenance
    from runner.backend import Backend
    from runner.own_code.block_rounds import BlockTiming

JUMPS = (FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH)
"""Direct ones, LOOP and JRCXZ among them."""

NAMES = {BlockMode.UNROLLED: "copies in a row", BlockMode.LOOP: "copies in a loop"}


def without_jumps(code: bytes) -> bytes:
    """Return code without direct jumps, which runs from its beginning to its end."""
    return b"".join(code[one.ip : one.next_ip] for one in Decoder(64, code) if one.flow_control not in JUMPS)


def measure_code(code: bytes, backend: Backend) -> dict[BlockMode, BlockTiming]:
    """Measure code without its jumps, as copies in a row and as copies in a loop.

    Raises:
        BackendError: the backend broke down.
    """
    options = BlockOptions(modes=(BlockMode.UNROLLED, BlockMode.LOOP))
    (found,) = BlockMeasurer(backend, options).measure([without_jumps(code)])
    return found.timings


def beside(code: bytes, timings: dict[BlockMode, BlockTiming], tools: Tools, where: Provenance) -> list[MeasuredCycles]:
    """Return what was measured beside what is predicted for the same code.

    Args:
        code: the code, with jumps or without.
        timings: what was measured.
        tools: what analyzes code, from the initial state of measurements (`MEASURED`).
        where: the machine that it was measured on.

    Raises:
        AnalysisError: the code cannot be analyzed.
    """
    plain = without_jumps(code)
    return [
        MeasuredCycles(
            NAMES[mode],
            predict_copies(plain, mode, tools),
            one.cycles,
            one.spread,
            one.reason,
            where.architecture,
            where.cpu,
            where.backend,
        )
        for mode, one in timings.items()
    ]


def predict_copies(code: bytes, mode: BlockMode, tools: Tools, how: Predicted = Predicted.SIMULATION) -> float:
    """Return the core cycles that are predicted for each of many copies, as they are measured.

    Raises:
        AnalysisError: the code cannot be analyzed.
    """
    instructions = len(tools.reader.block(code).items)
    if mode is BlockMode.UNROLLED:
        core = tools.machine.parameters.front
        is_decoded = core is not None and (core.uop_cache is None or core.uop_cache.after_jumps)
        copies = 0 if is_decoded else max(1, MORE_INSTRUCTIONS // instructions)
        return float(_each_of(copies, code, tools.restarting, how))
    few = max(1, LOOP_INSTRUCTIONS // instructions)
    many = few * LOOP_GROWTH
    less, more = (copies * _each_of(copies, code, tools, how) for copies in (few, many))
    return float((more - less) / (many - few))


def _each_of(copies: int, code: bytes, tools: Tools, how: Predicted) -> Fraction:
    """Return the core cycles of each of some copies that run again and again (0: without end, from the decoders)."""
    if copies:
        bound = tools.predict(code * copies, Running.LOOP).exact_cycles / copies
    else:
        bound = tools.predict(code, Running.UNROLLED).exact_cycles
    if how is Predicted.BOUNDS:
        return bound
    block = tools.reader.block(code)
    followed = tools.analyzer.follower.follow(block.items, copies)
    return cycles_of(tools.simulation.run(block, followed), bound)
