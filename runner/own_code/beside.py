"""Predicted beside measured: analyzed code on the CPU at hand.

Copies of a block follow each other, so a jump at its end is left out, and the prediction beside it is for the same code
without that jump. Registers and memory begin as `runner.own_code.blocks` sets them; so the prediction begins there too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iced_x86 import Decoder, FlowControl

from analysis.bounds import Running
from analysis.explanation import Measured
from runner.own_code.blocks import BlockMeasurer, BlockOptions, Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.prediction import Tools
    from runner.backend import Backend
    from runner.own_code.blocks import Timing

RUNNINGS = {Mode.UNROLLED: Running.UNROLLED, Mode.LOOP: Running.LOOP}
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
    predict: Callable[[Mode], float] = lambda mode: tools.predict(plain, RUNNINGS[mode]).cycles  # noqa: E731
    return [Measured(NAMES[mode], predict(mode), one.cycles, one.spread, one.reason) for mode, one in timings.items()]
