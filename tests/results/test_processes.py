"""How many processes share some work."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from results.processes import sensible_processes


@given(st.integers(1, 10**9), st.integers(0, 10**9))
def test_there_are_never_more_processes_than_wanted_than_tasks_or_than_cpus(wanted: int, tasks: int) -> None:
    count = sensible_processes(wanted, tasks)
    assert 1 <= count <= max(1, min(wanted, tasks, os.cpu_count() or 1))
    assert count == 1 or count in (wanted, tasks, os.cpu_count())
