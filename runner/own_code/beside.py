"""Predicted beside measured: analyzed code on the CPU at hand.

Copies of a block follow each other, so a jump at its end is left out, and the prediction beside it is for the same code
without that jump. Registers and memory begin as `runner.own_code.blocks` sets them; so the prediction begins there too.
In both modes the same copies run again and again, so they come out of the µop cache where there is one: predicted is a
loop of many copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iced_x86 import Decoder, FlowControl

from analysis.bounds import Running
from analysis.explanation import Measured
from runner.own_code.blocks import (
    LOOP_GROWTH,
    LOOP_INSTRUCTIONS,
    MORE_INSTRUCTIONS,
    BlockMeasurer,
    BlockOptions,
    Mode,
)

if TYPE_CHECKING:
    from analysis.prediction import Tools
    from runner.backend import Backend
    from runner.own_code.blocks import Timing

INSTRUCTIONS = {Mode.UNROLLED: MORE_INSTRUCTIONS, Mode.LOOP: LOOP_INSTRUCTIONS * LOOP_GROWTH}
"""How many the predicted copies have together, as the measured ones."""
NAMES = {Mode.UNROLLED: "copies in a row", Mode.LOOP: "copies in a loop"}


def without_jump(code: bytes) -> bytes:
    """Return code without a direct jump at its end."""
    last = None
    for last in Decoder(64, code):  # noqa: B007 - the last one counts
        pass
    jumps = (FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH)
    return code[: last.ip] if last is not None and last.flow_control in jumps else code


def measure_code(code: bytes, backend: Backend) -> dict[Mode, Timing]:
    """Measure code without the jump at its end, as copies in a row and as copies in a loop.

    Raises:
        BackendError: the backend broke down.
    """
    options = BlockOptions(modes=(Mode.UNROLLED, Mode.LOOP))
    (found,) = BlockMeasurer(backend, options).measure([without_jump(code)])
    return found.timings


def beside(code: bytes, timings: dict[Mode, Timing], tools: Tools) -> list[Measured]:
    """Return what was measured beside what is predicted for the same code.

    Args:
        code: the code, with a jump at its end or without.
        timings: what was measured.
        tools: what analyzes code, from the initial state of measurements (`bhive`).

    Raises:
        AnalysisError: the code cannot be analyzed.
    """
    plain = without_jump(code)
    return [
        Measured(NAMES[mode], predict_copies(plain, mode, tools), one.cycles, one.spread, one.reason)
        for mode, one in timings.items()
    ]


def predict_copies(code: bytes, mode: Mode, tools: Tools) -> float:
    """Return the core cycles that are predicted for each of many copies, as they are measured.

    Raises:
        AnalysisError: the code cannot be analyzed.
    """
    copies = max(1, INSTRUCTIONS[mode] // len(tools.reader.block(code).items))
    return tools.predict(code * copies, Running.LOOP).cycles / copies
