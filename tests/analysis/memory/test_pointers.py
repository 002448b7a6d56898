"""Loads that take a cycle less because a load made their base."""

import pytest

from analysis.bounds.components import Running
from analysis.memory.accesses import ForwardedLoad
from analysis.memory.pointers import quick_loads
from tests.analysis.machine import block, bounds
from tests.analysis.simulation.test_cycles import study


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("mov rax, [rax]", 4),
        ("movsxd rax, dword ptr [rax]", 4),
        ("mov rdx, rax; mov rax, [rdx+8]", 4),  # the move is eliminated
        ("mov rax, [rax]; imul rax, rbx", 8),  # a computation lies between
        ("mov rax, [rax+2048]", 5),  # the displacement is too long
        ("mov rax, [rax+rcx]", 5),
    ],
)
def test_a_base_that_was_loaded_is_there_a_cycle_earlier(text: str, cycles: int) -> None:
    found = study(text, Running.UNROLLED)
    assert bounds(text, Running.UNROLLED).cycles == cycles
    assert float(found.cycles) == pytest.approx(cycles, abs=0.1)


def test_a_load_that_a_store_is_forwarded_to_takes_its_usual_time() -> None:
    items = block("mov rbx, [rax]; mov [rbx], rcx; mov rax, [rbx]").items
    assert quick_loads(items, ()) == {0, 2}
    assert quick_loads(items, [ForwardedLoad(2, 1, 0, whole=True)]) == {0}


def test_what_is_written_otherwise_is_no_loaded_base() -> None:
    assert quick_loads(block("mov rbx, [rax]; imul rbx, rcx; mov rcx, [rbx]").items, ()) == set()
