"""From clock ticks to core cycles: the calibration beside each repetition, corrected for disturbances.

The calibration is a chain of known length, and two things make it longer. A lower frequency also slows the code beside
it. An interruption of the calibration does not, so the code would look too fast. An example from an Ice Lake in a
virtual machine: in twelve repetitions the code takes 15,404 ticks. The calibration takes 7,200 in ten of them, but
7,540 in two. Without a correction these two would be a faster rhythm, by 5%.

A calibration that is too short makes the code look slow. That matters less, since only the fastest rhythm counts. So a
disturbed calibration is replaced by the lower quartile of those around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

STEADY = 1.01
"""Calibrations that differ by this factor or less are equally long. The steps of coarse clocks are 0.4% of them. The
interruptions that were seen are 4.7% and more."""

NEIGHBOURS = 4
"""Repetitions on either side. Six of nine may be disturbed, and two may be too short because the shorter one of the two
chains whose difference is the calibration was interrupted. Where the frequency falls, two repetitions look slow."""


def steadied(calibrations: Sequence[int]) -> Sequence[int]:
    """Return for each repetition its calibration, or the usual one around it if that is clearly shorter.

    Args:
        calibrations: the ticks of the calibrations of a run's repetitions, in their order.
    """
    steady = min(calibrations, default=0) * STEADY
    if max(calibrations, default=0) <= steady:
        return calibrations
    width = 2 * NEIGHBOURS + 1
    last = max(0, len(calibrations) - width)
    found = []
    for place, own in enumerate(calibrations):
        if own <= steady:  # whatever is around it is not clearly shorter
            found.append(own)
            continue
        first = min(max(0, place - NEIGHBOURS), last)
        around = sorted(calibrations[first : first + width])
        usual = around[(len(around) - 1) // 4]
        found.append(usual if own > usual * STEADY else own)
    return found
