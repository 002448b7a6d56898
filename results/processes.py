"""How many processes share some work."""

from __future__ import annotations

import os


def sensible_processes(wanted: int, tasks: int) -> int:
    """Return how many processes to start for so many tasks, at least one.

    More than there are tasks or logical CPUs make nothing faster, and a very large number would stop the machine.
    """
    return max(1, min(wanted, tasks, os.cpu_count() or 1))
