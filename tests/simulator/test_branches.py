"""Jumps, calls and returns through registers, memory and the stack go where a CPU would go."""

import pytest

from results.model import Status
from runner.backends.base import Job
from tests.simulator.programs import ONCE, backend, benchmark, line, per_copy
from xed_convert.model import MemoryAddress


def address(distance: int) -> MemoryAddress:
    return MemoryAddress("RIP", displacement=distance, displacement_bits=32)


NEVER = line("IMUL (R64, R64)", "RBX", "RBX")
"""Jumped over, it is not counted."""


def test_a_jump_through_a_register_goes_there() -> None:
    jump = line("JMP (R64)", "RBX")
    over = len(jump.code) + len(NEVER.code)
    found = per_copy("HSW", line("LEA_R_D32 (R64)", "RBX", address(over)), jump, NEVER)
    assert found["instructions"] == 2
    assert found["p6"] == pytest.approx(1)


def test_a_jump_through_memory_goes_there() -> None:
    place = MemoryAddress("R14", displacement=0x40)
    store, jump = line("MOV (M64, R64)", place, "RBX"), line("JMP (M64)", place)
    over = len(store.code) + len(jump.code) + len(NEVER.code)
    found = per_copy("HSW", line("LEA_R_D32 (R64)", "RBX", address(over)), store, jump, NEVER)
    assert found["instructions"] == 3


def test_a_return_goes_back_to_its_call() -> None:
    """LEA, CALL, RET, JMP are executed, in this order; what stands between JMP and RET is not."""
    call, ret = line("CALL_NEAR (R64)", "RBX"), line("RET_NEAR")
    jump = line("JMP (Rel8)", len(NEVER.code) + len(ret.code))
    to_ret = len(call.code) + len(jump.code) + len(NEVER.code)
    found = per_copy("HSW", line("LEA_R_D32 (R64)", "RBX", address(to_ret)), call, jump, NEVER, ret)
    assert found["instructions"] == 4


def test_an_abort_of_no_transaction_goes_on() -> None:
    assert per_copy("HSW", line("XABORT (I8)", 5), NEVER)["instructions"] == 2


@pytest.mark.parametrize("string", ["JMP (R64)", "CALL_NEAR (R64)"])
def test_a_jump_to_where_nothing_points_is_a_fault(string: str) -> None:
    code = benchmark(line(string, "RBX"), setup=(line("MOV (R32, I32)", "EBX", 1),))
    (result,) = backend("HSW").run([Job(code, 10)], ("core_cycles",), ONCE)
    assert result.status is Status.FAULTED
    assert string in result.detail


def test_a_register_that_was_overwritten_points_nowhere() -> None:
    jump = line("JMP (R64)", "RBX")
    code = benchmark(line("LEA_R_D32 (R64)", "RBX", address(8)), line("MOV (R32, I32)", "EBX", 1), jump)
    (result,) = backend("HSW").run([Job(code, 10)], ("core_cycles",), ONCE)
    assert result.status is Status.FAULTED
