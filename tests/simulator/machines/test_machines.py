"""Programs of bytes on the machines that are shipped: what a core of that name is known to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.microbenchmark import Line
from results.model import Status
from runner.backend import BackendError, Job
from runner.backends.sim import open_machine
from simulator.machines.shipped import load_machine, names
from tests.nonempty import some
from tests.simulator.programs import ONCE, backend, benchmark, catalogue, counts, line, per_copy
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from results.machine.graph import Uop

ADC = line("ADC_11 (R64, R64)", "RAX", "RBX")
IMUL = line("IMUL (R64, R64)", "RAX", "RAX")
NOP = line("NOP")
WORD = MemoryAddress(base="R14", displacement=64)


def test_adc_of_haswell_hides_a_port_set_in_isolation() -> None:
    alone = per_copy("HSW", ADC)
    assert {port: alone[port] for port in ("p0", "p1", "p5", "p6")} == dict.fromkeys(("p0", "p1", "p5", "p6"), 0.5)


def test_blocking_ports_0_and_6_shows_the_port_set_of_adc() -> None:
    registers = ("R8", "R9", "R10", "R11", "RSI", "RDI", "RCX", "RDX")
    blocked = per_copy("HSW", *[line("BT (R64, I8)", register, 5) for register in registers * 3], ADC)
    assert blocked["p0"] + blocked["p6"] == pytest.approx(25)
    assert blocked["p1"] + blocked["p5"] == pytest.approx(1)


def test_the_harness_costs_something_itself() -> None:
    empty = counts("SKL", Job(benchmark(NOP), 0))
    assert empty["core_cycles"] > 10
    assert empty["instructions"] > 5
    assert empty["uops_executed"] > 5


@pytest.mark.parametrize("architecture", names())
def test_a_chain_of_imul_takes_its_latency(architecture: str) -> None:
    truth = load_machine(architecture).truth(catalogue().by_string("IMUL (R64, R64)"))
    latency = truth.latency(1, 1)
    assert latency
    assert latency >= 3
    assert per_copy(architecture, IMUL)["core_cycles"] == latency


@pytest.mark.parametrize(("string", "slots"), [("FNSAVE (M864)", 147), ("FNSTENV (M224)", 100)])
def test_long_microcode_takes_all_its_places_in_the_reorder_buffer(string: str, slots: int) -> None:
    found = per_copy("HSW", line(string, WORD))
    assert found["uops_issued"] == slots
    assert found["core_cycles"] >= slots / backend("HSW").machine.parameters.issue_width


@pytest.mark.parametrize("architecture", names())
def test_instructions_never_exceed_the_issue_width(architecture: str) -> None:
    width = backend(architecture).machine.parameters.issue_width
    assert 1 / per_copy(architecture, NOP)["core_cycles"] == pytest.approx(width, rel=0.05)


def test_a_loop_costs_what_its_copies_its_fused_jump_and_the_nop_before_it_cost() -> None:
    few = counts("SKL", Job(benchmark(IMUL), 10, 100))
    many = counts("SKL", Job(benchmark(IMUL), 10, 1100))
    assert (many["core_cycles"] - few["core_cycles"]) / 1000 == pytest.approx(30, abs=0.1)
    assert (many["instructions"] - few["instructions"]) / 1000 == 10 + 3
    assert (many["uops_executed"] - few["uops_executed"]) / 1000 == 11


def test_iterations_of_a_fenced_loop_do_not_overlap() -> None:
    plain = counts("SKL", Job(benchmark(IMUL), 1, 1000))
    fenced = counts("SKL", Job(benchmark(IMUL), 1, 1000, fenced=True))
    assert fenced["core_cycles"] >= plain["core_cycles"] + 900


def test_a_zero_idiom_breaks_the_dependency_and_needs_no_port() -> None:
    same = per_copy("SKL", line("XOR_33 (R64, R64)", "RAX", "RAX"), IMUL)
    other = per_copy("SKL", line("XOR_33 (R64, R64)", "RAX", "RBX"), IMUL)
    assert same["core_cycles"] == 1
    assert same["uops_executed"] == 1
    assert other["core_cycles"] == 4
    assert other["uops_executed"] == 2


def test_moves_are_eliminated_where_the_core_can() -> None:
    chain = [line("MOV_89 (R64, R64)", "RAX", "RBX"), line("MOV_89 (R64, R64)", "RBX", "RAX")]
    assert per_copy("SKL", *chain)["uops_executed"] == 0
    assert per_copy("SNB", *chain)["uops_executed"] == 2
    assert per_copy("SNB", *chain)["core_cycles"] == 2


def test_writing_8_or_16_bits_keeps_the_rest_and_32_bits_does_not() -> None:
    slow = line("IMUL (R64, R64)", "RBX", "RBX")
    for text, register in (("MOV (R8l, I8)", "AL"), ("MOV (R16, I16)", "AX"), ("MOV (R8h, I8)", "AH")):
        body = (line("IMUL (R64, R64)", "RAX", "RAX"), line(text, register, 5))
        assert per_copy("SKL", *body)["core_cycles"] == 4, text
    assert per_copy("SKL", IMUL, line("MOV (R32, I32)", "EAX", 5))["core_cycles"] == 1
    assert per_copy("SKL", slow)["core_cycles"] == 3


def test_a_load_waits_for_the_store_to_its_place_and_for_no_other() -> None:
    store, load = line("MOV (M64, R64)", WORD, "RAX"), line("MOV (R64, M64)", "RAX", WORD)
    other = line("MOV (R64, M64)", "RAX", MemoryAddress(base="R14", displacement=128))
    assert per_copy("HSW", store, load)["core_cycles"] == 6
    assert per_copy("HSW", store, other)["core_cycles"] <= 1.1


def test_a_pushed_register_is_popped_again() -> None:
    assert per_copy("SKL", line("PUSH (R64)", "RAX"), line("POP (R64)", "RAX"))["core_cycles"] >= 5


def test_the_x87_stack_turns() -> None:
    product = line("FMUL (ST0, ST(0), ST)", "ST(1)")
    push, pop = line("FLD1 (ST0, ST(0))"), line("FSTP (ST, ST0, ST(0))", "ST(0)")
    latency = load_machine("SKL").truth(catalogue().by_string("FMUL (ST0, ST(0), ST)")).latency(1, 1)
    assert per_copy("SKL", product)["core_cycles"] == latency
    assert per_copy("SKL", push, product, pop)["core_cycles"] < 3


def test_a_compare_fuses_with_the_jump_after_it() -> None:
    pair = (line("CMP_39 (R64, R64)", "RAX", "RBX"), line("JNZ (Rel32)", 0))
    apart = (line("CMP_39 (R64, R64)", "RAX", "RBX"), NOP, line("JNZ (Rel32)", 0))
    assert per_copy("SKL", *pair)["uops_executed"] == 1
    assert per_copy("SKL", *pair)["instructions"] == 2
    assert per_copy("SKL", *apart)["uops_executed"] == 2


def test_registers_of_a_load_enter_after_its_address() -> None:
    add = line("ADD (R64, M64)", "RAX", WORD)
    assert per_copy("HSW", add)["core_cycles"] == 1
    address = line("MOV (R64, M64)", "R14", MemoryAddress(base="R14"))
    assert per_copy("HSW", address)["core_cycles"] == 5


@pytest.mark.parametrize(
    ("shared", "groups"),
    [("ICX", ("p0", "p1", "p23", "p49", "p5", "p6", "p78")), ("SKX", tuple(f"p{port}" for port in range(8)))],
)
def test_ports_share_counters_as_on_the_real_cores(shared: str, groups: tuple[str, ...]) -> None:
    assert backend(shared).info().ports == groups
    assert backend(f"{shared}:separate").info().ports == tuple(
        f"p{port}" for port in open_machine(shared).parameters.ports
    )


def test_a_model_says_that_it_is_one() -> None:
    for name in some(names()):
        info = backend(name).info()
        assert info.is_model
        assert info.provenance.is_model
        assert "LLVM 19" in info.caveats[1]


@pytest.mark.parametrize("wrong", ["", "XYZ", "random:", "random:x", "../HSW", "HSW.toml"])
def test_an_unknown_machine_is_a_clear_error(wrong: str) -> None:
    with pytest.raises(BackendError) as caught:
        open_machine(wrong)
    assert "SKL" in caught.value.hint


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("random:hiden:3", "random:hidden:3"),
        ("random:hidden+intl:3", "random:hidden:3"),
        ("random:hidden+:3", "random:hidden:3"),
        ("random:hidden:intel:3", "random:hidden:3"),
        ("skx:seperate", "SKX:separate"),
        ("SKX:intel:x", "SKX:intel"),
    ],
)
def test_an_unknown_kind_or_option_is_a_clear_error(wrong: str, meant: str) -> None:
    with pytest.raises(BackendError) as caught:
        open_machine(wrong)
    assert meant in caught.value.hint


@settings(max_examples=60)
@given(st.binary(min_size=1, max_size=24), st.sampled_from((0, 3)))
def test_any_bytes_are_a_result(code: bytes, iterations: int) -> None:
    (result,) = backend("SKL").run([Job(benchmark(Line(code, "?")), 3, iterations)], ("core_cycles",), ONCE)
    assert result.status in (Status.OK, Status.FAULTED, Status.REFUSED, Status.TIMED_OUT)
    assert bool(result.detail) == (result.status is not Status.OK)


def test_an_endless_loop_ends() -> None:
    (result,) = backend("SKL").run([Job(benchmark(line("JMP (Rel8)", -2)), 1)], ("core_cycles",), ONCE)
    assert result.status is Status.TIMED_OUT


def test_what_a_machine_lacks_is_refused() -> None:
    wide = line("VPADDD (ZMM, ZMM, ZMM)", "ZMM1", "ZMM2", "ZMM3")
    (result,) = backend("SNB").run([Job(benchmark(wide), 10)], ("core_cycles",), ONCE)
    assert result.status is Status.REFUSED
    assert "VPADDD" in result.detail


def test_a_serializing_instruction_takes_its_ports_in_turns() -> None:
    alone = per_copy("SNB", line("LFENCE"))
    assert {port: alone[port] for port in ("p2", "p3", "p4")} == {"p2": 0.5, "p3": 0.5, "p4": 1}


@pytest.mark.parametrize("iterations", [0, 3])
def test_repeated_segments_count_what_they_count_one_after_another(iterations: int) -> None:
    fence, load = line("LFENCE"), line("MOV (R64, M64)", "RCX", WORD)
    body = (ADC, fence, load, IMUL, load, fence, load, ADC, ADC)
    repeated = counts("SNB", Job(benchmark(*body), 14, iterations))
    written_out = counts("SNB", Job(benchmark(*body * 14), 1, iterations))
    assert repeated == written_out


def test_sizes_in_any_order_give_the_same() -> None:
    code = benchmark(ADC, IMUL, line("ADD (R64, M64)", "RCX", WORD))
    sizes = (110, 10, 50, 110, 10, 1, 0)
    mixed = [r.samples for r in backend("BDW").run([Job(code, n) for n in sizes], ("core_cycles", "p0"), ONCE)]
    alone = [backend("BDW").run([Job(code, n)], ("core_cycles", "p0"), ONCE)[0].samples for n in sizes]
    assert mixed == alone


@pytest.mark.parametrize(("string", "width", "register"), [("DIV (R64)", 64, "R10"), ("DIV (R32)", 32, "R10D")])
def test_division_is_fast_for_some_values(string: str, width: int, register: str) -> None:
    machine = next(f"random:{n}" for n in range(50) if _divides_fast(f"random:{n}", string))
    uop = _divides_fast(machine, string)
    assert uop
    restored = ("RAX", "RDX")
    found = []
    for high, low, divisor in ((0x343A9ED744556677 >> 64 - width, 0x85, 0x75E6E44FCCDDEEFF >> 64 - width), (0, 0, 1)):
        constants = {"RDX": high, "RAX": low, "R10": divisor, "R11": 0, "R8": low, "R9": high}
        setup = tuple(line("MOV (R64, I64)", name, value) for name, value in constants.items())
        body = [line(string, register)]
        body += [line("AND_21 (R64, R64)", name, "R11") for name in restored]
        body += [line("OR_09 (R64, R64)", name, source) for name, source in zip(restored, ("R8", "R9"), strict=True)]
        found.append(per_copy(machine, *body, setup=setup)["core_cycles"])
    assert uop.fast
    assert found[0] - found[1] == pytest.approx(uop.latency - uop.fast[0], abs=0.5)


def _divides_fast(machine: str, string: str) -> Uop | None:
    behaviour = open_machine(machine).behaviour(catalogue().by_string(string))
    uop = behaviour.uops[0] if behaviour else None
    return uop if uop and uop.fast and uop.latency - uop.fast[0] > 4 else None
