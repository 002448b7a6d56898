"""Measurements and conclusions: their types, their store, their exports. `load` reads a file into data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from results.exports.frames import Frames


def load(path: Path | str) -> Frames:
    """Load an instructions.xml or a campaign's SQLite file into tidy data frames; see `results.exports.frames`."""
    from results.exports.frames import load as load_frames  # noqa: PLC0415 - pandas takes longer than all the rest

    return load_frames(path)
