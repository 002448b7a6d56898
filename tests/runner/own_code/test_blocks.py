"""Blocks that read and write anywhere, on the clock backend of this machine."""

from collections.abc import Iterable

import pytest

from generator.harness.style import State
from generator.microbenchmark import Line, Microbenchmark
from results.model import Status
from runner.backend import Conditions, Job, Repeat
from runner.backends.registry import open_backend
from runner.backends.tsc import TscBackend
from runner.own_code.block_rounds import BlockProblem
from runner.own_code.blocks import INITIAL_VALUE, BlockMeasurer, BlockMode, BlockOptions, BlockResult
from tests.attempts import undisturbed
from tests.nonempty import some

BOTH = (BlockMode.UNROLLED, BlockMode.LOOP)
BOTH_MODES = BlockOptions(modes=BOTH, time_limit_seconds=5.0)
CYCLES = {
    "480fafc0": 3,  # IMUL RAX, RAX
    "4d0fafff": 3,  # IMUL R15, R15: no register is the harness's
    "480fafe4": 3,  # IMUL RSP, RSP
    "480fafc0480fafc0480fafc0480fafc0": 12,
}
NUMBERS = {
    "488b00": "MOV RAX, [RAX]: memory holds an address of memory",
    "50": "PUSH RAX",
    "4d8b4f084c894f1049ffc1": "a load and a store through R15",
    "488b05c0ffff0f": "MOV RAX, [RIP+0xfffffc0]",
    "488905c0ffff0f": "MOV [RIP+0xfffffc0], RAX",
    "a30040320200000000": "MOV [0x2324000], EAX",
    "4883c340488903": "a pointer that moves by 64 bytes per copy",
    "4805000001004c8b00": "a pointer that moves by 64 KiB per copy",
    "f20f5800f20f1100": "ADDSD and a store: what would be subnormal is zero",
}
REASONS = {
    "0f284001": "misaligned: address 0x2324001",
    "31c0488b00": "address 0x0 is in the lowest 64 KiB",
    "48c1e020488b00": "address 0x232400000000000 is not canonical",
    "48c7c000f0ffff488b00": "address 0xfffffffffffff000 is not a user's",
    "48c1e52048ff7500": "address 0x232400000000000 is not canonical",
    "0f0b": "SIGILL in the body at offset 0",
    "31c9f7f1": "SIGFPE in the body at offset 2 (div ecx): the divisor is 0, or the quotient does not fit",
    "0f05": "is refused",
    "c3": "indirect branch",
    "": "there is no code",
    "ebfe": "not done after",
    "90" * 20000: "too many for the instruction cache",
}

MISALIGNED = {
    "488b433e": "mov rax,[rbx+3Eh] crosses a cache line (8 bytes at 0x232403e)",
    "4883c0034889084883c105": "mov [rax],rcx crosses a cache line (8 bytes at 0x2324039)",
    "678b433f": "mov eax,[ebx+3Fh] crosses a cache line (4 bytes at 0x232403f)",
    "4883ec3c50": "push rax crosses a cache line (8 bytes at 0x2323fbc)",
    "488b40388b8dfe000000": "mov ecx,[rbp+0FEh] crosses a cache line (4 bytes at 0x23240fe)",
}
ALIGNED = ("488b4338", "f30f6f4301", "8b433c", "50", "8a433f", "64488b04253e000000", "480fafc0", "660f6f4330")


def test_a_chain_takes_its_latency_unrolled_and_in_a_loop(tsc: TscBackend) -> None:
    expected = [cycles for cycles in CYCLES.values() for _ in BOTH]

    def cycles() -> list[float]:
        return [result.timings[mode].cycles or 0 for result in calmly(tsc, CYCLES).values() for mode in BOTH]

    undisturbed(cycles, lambda found: found == pytest.approx(expected, rel=0.03))


def calmly(tsc: TscBackend, codes: Iterable[str]) -> dict[str, BlockResult]:
    """Measure blocks in both modes, and again those that were disturbed or took too long."""
    found: dict[str, BlockResult] = {}
    left = list(codes)

    def late() -> list[str]:
        found.update((one.code.hex(), one) for one in BlockMeasurer(tsc, BOTH_MODES).measure(map(bytes.fromhex, left)))
        of_load = {Status.UNCLEAN, Status.TIMED_OUT}
        left[:] = [code for code in left if any(one.status in of_load for one in found[code].timings.values())]
        return list(left)

    undisturbed(late, lambda codes: not codes)
    return found


def test_memory_is_there_wherever_a_block_reads_and_writes(tsc: TscBackend) -> None:
    """All of them run to their end. Some are unsteady on AMD's cores, where pages share one physical page."""

    def statuses() -> dict[str, set[Status]]:
        measured = BlockMeasurer(tsc, BOTH_MODES).measure(map(bytes.fromhex, NUMBERS))
        return {one.code.hex(): {timing.status for timing in one.timings.values()} for one in measured}

    found = undisturbed(statuses, lambda found: sum(one == {Status.OK} for one in found.values()) > len(found) // 2)
    assert found.keys() == NUMBERS.keys()
    assert set().union(*found.values()) <= {Status.OK, Status.UNCLEAN, Status.TIMED_OUT}


def test_blocks_without_a_number_say_why_and_cost_no_other_its_own(tsc: TscBackend) -> None:
    blocks = [one for code in REASONS for one in ("480fafc0", code)]

    def cycles_of_good() -> list[float]:
        results = list(BlockMeasurer(tsc, BlockOptions(time_limit_seconds=0.2)).measure(map(bytes.fromhex, blocks)))
        for bad in some(results[1::2]):
            assert not bad.unrolled.ok
            assert REASONS[bad.code.hex()] in bad.unrolled.reason
        return [good.unrolled.cycles or 0 for good in results[::2]]

    undisturbed(cycles_of_good, lambda found: found == pytest.approx([3] * len(REASONS), rel=0.03))


def test_a_block_whose_access_crosses_a_cache_line_is_told(tsc: TscBackend) -> None:
    """In whichever copy; registers of addresses may be written before."""
    for result in some(list(calmly(tsc, MISALIGNED).values())):
        for timing in result.timings.values():
            assert timing.ok
            assert timing.problem is not BlockProblem.NONE
            assert timing.reason.startswith(f"misaligned: {MISALIGNED[result.code.hex()]}")
    for result in some(list(calmly(tsc, ALIGNED).values())):
        assert "misaligned" not in result.unrolled.reason, result


def test_a_block_that_uses_all_registers_has_no_loop(tsc: TscBackend) -> None:
    everything = "".join(f"48ff{0xC0 + n:x}" for n in range(8)) + "".join(f"49ff{0xC0 + n:x}" for n in range(8))
    (result,) = calmly(tsc, [everything]).values()
    assert result.unrolled.ok
    assert result.timings[BlockMode.LOOP].problem is BlockProblem.NO_REGISTER
    assert result.timings[BlockMode.LOOP].reason == "no register is left to count the loop"


@pytest.mark.parametrize("state", [State.GIVEN, State.AGAIN])
@pytest.mark.parametrize("register", range(15))
def test_all_registers_and_all_memory_begin_with_the_value(tsc: TscBackend, state: State, register: int) -> None:
    """Divide by what a register and R15, or memory and R15, differ by: a fault if and only if they are the same."""
    same = Conditions(state=state, value=INITIAL_VALUE, loop_register="r15" if state is State.AGAIN else "r14")
    rex = 0x49 if register > 7 else 0x48
    copy = bytes((rex, 0x8B, 0xC0 | register & 7)) if register != 4 else bytes.fromhex("4889e0")
    if state is State.GIVEN and register == 14:
        pytest.skip("it counts the loop")
    codes = [copy, bytes.fromhex("498b8700500000"), bytes.fromhex("498b87f8ffffff")]
    divide = bytes.fromhex("4c29f8" + "31d2" + "48f7f0")  # SUB RAX, R15; XOR EDX, EDX; DIV RAX
    jobs = [Job(Microbenchmark((), (Line(one + divide, "x"),), "a test"), 1, 1, conditions=same) for one in codes]
    results = tsc.run(jobs, (), Repeat(warm_ups=0, repetitions=1))
    assert [result.status for result in results] == [Status.FAULTED] * 3
    assert all("SIGFPE in the body" in result.detail for result in results)


def test_a_simulated_machine_measures_the_same_blocks() -> None:
    backend = open_backend("sim", architecture="SKL")
    results = list(BlockMeasurer(backend, BlockOptions(modes=BOTH)).measure(map(bytes.fromhex, CYCLES)))
    for result, expected in some(list(zip(results, CYCLES.values(), strict=True))):
        assert result.unrolled.cycles == expected
        assert result.timings[BlockMode.LOOP].cycles == pytest.approx(expected, rel=0.03)
    (anywhere,) = BlockMeasurer(backend).measure([bytes.fromhex("4883c340488903")])
    assert anywhere.unrolled.ok, anywhere.unrolled.reason
