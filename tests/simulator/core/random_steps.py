"""Random steps for the core."""

from __future__ import annotations

from hypothesis import strategies as st

from simulator.core.steps import NO_PORT, PORT, SHARED, CoreStep
from simulator.machines.machine import Parameters

SMALL = Parameters(issue_width=3, retire_width=3, reorder_buffer=12, scheduler=7, ports="0123")
LOCATIONS = 6


@st.composite
def steps(draw: st.DrawFn, ports: int = 4) -> list[CoreStep]:
    found: list[CoreStep] = []
    for _ in range(draw(st.integers(1, 8))):
        uops = draw(st.integers(1, 3))
        fused = draw(st.booleans())
        for number in range(uops):
            kind = draw(st.sampled_from((PORT, PORT, PORT, NO_PORT, SHARED)))
            allowed = draw(st.sets(st.integers(0, ports - 1), min_size=1)) if kind != NO_PORT else set()
            sources = draw(st.lists(st.integers(0, LOCATIONS - 1), max_size=2))
            targets = draw(st.lists(st.integers(0, LOCATIONS - 1), max_size=2, unique=True))
            extra = {PORT: draw(st.sampled_from((0, 0, 0, 3))), SHARED: 2 << 8 | 3}.get(kind, 0)
            slot = int(number == 0 or not fused)
            end = (1 if fused else uops) if number == uops - 1 else 0
            latency = draw(st.integers(0 if kind == NO_PORT else 1, 5))
            places = tuple(sources), tuple(targets)
            found.append(CoreStep(kind, tuple(sorted(allowed)), latency, *places, extra, slot, end))
    return found
