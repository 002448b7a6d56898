"""What an instruction reads, writes and takes, by its bytes alone."""

from analysis.bounds.components import Component
from tests.analysis.machine import block, bounds


def test_results_of_equal_latency_are_one_result() -> None:
    (item,) = block("add rax, rbx").items
    (output,) = item.effects.outputs
    assert set(output.names) == {"RAX", "CF", "PF", "AF", "ZF", "SF", "OF"}
    assert dict(output.waits) == {"RAX": 1, "RBX": 1}


def test_no_instruction_waits_for_what_the_stack_engine_does() -> None:
    for text in ("push rax", "pop rbx"):
        (item,) = block(text).items
        assert "RSP" not in {name for output in item.effects.outputs for name in output.names}


def test_the_round_trip_through_memory_counts_once() -> None:
    store, load = block("mov [rbx], rax; mov rcx, [rbx]").items
    (stored,) = [output for output in store.effects.outputs if output.stored]
    (loaded,) = load.effects.outputs
    assert loaded.loads_wait is not None
    assert dict(stored.waits)["RAX"] + loaded.loads_wait == 5  # as the core's constants say
    (both,) = block("add [rbx], rax").items
    (result,) = [output for output in both.effects.outputs if output.stored]
    assert result.loads_wait == 6  # as measured


def test_the_way_of_a_vector_is_longer_as_its_load_is() -> None:
    assert bounds("movaps [rbx], xmm0; movaps xmm0, [rbx]").cycles_of[Component.DEPENDENCIES] == 6


def test_an_unknown_instruction_has_a_slot_and_hands_on_what_it_reads_in_no_time() -> None:
    (item,) = block("aesenclast xmm1, xmm2").items
    assert not item.known
    assert (item.effects.slots, item.effects.port_masks) == (1, ())
    (result,) = item.effects.outputs
    assert (result.names, dict(result.waits)) == (("ZMM1",), {"ZMM1": 0, "ZMM2": 0})
