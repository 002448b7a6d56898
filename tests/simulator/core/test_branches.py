"""Jumps, calls and returns through registers, memory and the stack go where a CPU would go."""

import pytest

from generator.microbenchmark import Line
from results.model import Status
from runner.backend import Job
from tests.simulator.programs import ONCE, backend, benchmark, catalogue, line, per_copy
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


HAS_LOOP = "random:3"
"""LLVM's models have no LOOP."""

COUNT = line("MOV (R32, I32)", "ECX", 7)


def back_over(*code: Line) -> int:
    return -sum(len(one.code) for one in code)


@pytest.mark.parametrize("jump", ["LOOP (Rel8)", "JNZ (Rel8)"])
def test_a_loop_runs_as_often_as_its_register_says(jump: str) -> None:
    body = (NEVER, line("DEC (R64)", "RCX")) if jump.startswith("JNZ") else (NEVER,)
    end = line(jump, back_over(*body) - 2)
    found = per_copy(HAS_LOOP, COUNT, *body, end)
    assert found["instructions"] == 1 + 7 * (len(body) + 1)
    latency = backend(HAS_LOOP).machine.truth(catalogue().by_string("IMUL (R64, R64)")).latency(1, 1)
    assert latency
    assert found["core_cycles"] >= 7 * latency  # the IMULs of a loop depend on each other


def test_a_loop_in_a_loop_runs_as_often_as_both_say() -> None:
    inner = (COUNT, NEVER, line("LOOP (Rel8)", back_over(NEVER) - 2))
    down = line("DEC (R64)", "RDX")
    end = line("JNZ (Rel8)", back_over(*inner, down) - 2)
    found = per_copy(HAS_LOOP, line("MOV (R32, I32)", "EDX", 3), *inner, down, end)
    assert found["instructions"] == 1 + 3 * (1 + 7 * 2 + 2)


def test_a_count_that_is_not_known_any_more_is_not_followed() -> None:
    end = line("LOOP (Rel8)", back_over(NEVER) - 2)
    found = per_copy(HAS_LOOP, COUNT, line("ADD (R64, I8)", "RCX", 1), NEVER, end)
    assert found["instructions"] == 4


def test_a_loop_from_zero_hangs() -> None:
    code = benchmark(line("MOV (R32, I32)", "ECX", 0), NEVER, line("LOOP (Rel8)", back_over(NEVER) - 2))
    (result,) = backend(HAS_LOOP).run([Job(code, 1)], ("core_cycles",), ONCE)
    assert result.status is Status.TIMED_OUT
    assert "RCX" in result.detail


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
