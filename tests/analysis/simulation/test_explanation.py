"""What a simulation says of each instruction, and what it would be if things were otherwise."""

from __future__ import annotations

import json

import jsonschema
import pytest

from analysis.bounds.components import Component, Running
from analysis.explanation import PredictionFacts
from analysis.report.data import json_of, schema
from analysis.report.text import lines_of
from analysis.report.timeline import timeline_lines
from analysis.simulation.changes import faster_ways
from analysis.simulation.results import Wait
from tests.analysis.machine import haswell
from tests.analysis.simulation.test_cycles import study
from tests.nonempty import some


def test_of_a_chain_each_instruction_waits_for_the_other() -> None:
    first, second = study("imul rax, rbx; imul rax, rcx").explanation.instructions
    assert first.waits[Wait.OPERAND] > 50  # the scheduler is full of them
    assert second.caused[Wait.OPERAND] == pytest.approx(first.waits[Wait.OPERAND], rel=0.02)
    assert {name: float(uops) for name, uops in first.ports.items()} == {"1": 1.0}


def test_where_a_port_is_full_instructions_wait_for_it_and_for_each_other() -> None:
    lines = study("imul rax, rbx; imul rcx, rbx; imul rdx, rbx; imul rsi, rbx").explanation.instructions
    assert sum(line.waits.get(Wait.PORT, 0) + line.waits.get(Wait.OPERAND, 0) for line in lines) > 10
    assert sum(line.caused.get(Wait.PORT, 0) for line in lines) == pytest.approx(
        float(sum(line.waits.get(Wait.PORT, 0) for line in lines)), rel=0.1
    )


def test_chains_of_loads_wait_for_the_load_queue_and_for_each_other() -> None:
    one = study("mov rax, [rbx]; mov rax, [rbx+rax]; mov rax, [rbx+rax]; mov rax, [rbx+rax]; mov rax, [rbx+rax]")
    assert one.cycles > one.bounds.cycles
    lines = one.explanation.instructions
    waited = sum(line.waits.get(Wait.LOAD_QUEUE, 0) for line in lines)
    assert float(one.cycles) > waited > one.cycles / 2
    assert waited > 5 * sum(line.waits.get(Wait.BUFFER, 0) for line in lines)
    caused = [float(line.caused.get(Wait.LOAD_QUEUE, 0)) for line in lines]
    assert sum(caused) == pytest.approx(float(waited), rel=0.25)  # the first entries are of loads before
    assert max(caused) == caused[-1]  # entries are freed in order, and its data come last
    facts = PredictionFacts(one.bounds, haswell(), study=one)
    (head,) = [line for line in lines_of(facts) if line.startswith("line  ") and "front" in line]
    assert head.split() == ["line", "front", "buffer", "loads", "operand", "port", "others", "ports"]
    found = json_of(facts)
    jsonschema.validate([found], schema())
    assert "load queue" in found["simulation"]["instructions"][4]["caused"]


def test_code_without_chains_of_loads_waits_for_no_load_queue() -> None:
    lines = study("mov rax, [rbx]; mov rcx, [rsi]; imul rdx, rax").explanation.instructions
    assert not any(Wait.LOAD_QUEUE in line.waits for line in some(lines))


def test_long_instructions_wait_for_the_front_end() -> None:
    lines = study(
        "; ".join(f"mov {name}, 0x123456789abcdef" for name in ("rax", "rbx", "rcx"))
    ).explanation.instructions
    assert sum(line.waits.get(Wait.FRONT_END, 0) for line in lines) > 1  # 30 bytes, 16 per cycle


def test_the_timeline_has_the_stages_in_order() -> None:
    found = study("mov rax, [rsi]; add rbx, rax; mov [rdi], rbx").explanation.timeline
    assert [one.position for one in found[:3]] == [0, 1, 2]
    assert len({one.iteration for one in found}) >= 2
    for one in found:
        assert one.dispatched is not None
        assert one.issued < one.dispatched < one.executed <= one.retired
        for uop in one.uops:
            assert one.issued < uop.ready <= uop.dispatched < uop.done <= one.executed
    load, addition = found[0], found[1]
    assert addition.dispatched == load.executed
    assert [one.retired for one in found] == sorted(one.retired for one in found)


def test_the_picture_shows_them() -> None:
    _, _, first, second, *_ = timeline_lines(study("imul rax, rbx; imul rax, rcx"))
    assert first.split()[-1] == "IeeeR"
    assert second.split()[-1] == "I===eeeR"


def changes(text: str, running: Running = Running.UNROLLED) -> dict[str, float]:
    return {one.change: float(one.cycles) for one in faster_ways(study(text, running))}


def test_changes_gain_what_they_should_and_come_in_order() -> None:
    found = changes("imul rax, rbx; imul rax, rcx")
    assert list(found.values()) == sorted(found.values())
    assert found["no dependencies"] == 2  # port 1
    assert found["one more accumulator beside RAX"] == 3
    assert found["line 1 without latency (IMUL RAX, RBX)"] == pytest.approx(3, abs=1)


@pytest.mark.parametrize(
    ("text", "alone", "cycles"),
    [
        ("mov rax, rbx; imul rbx, rax; imul rbx, rcx", 2, 6),  # the move is eliminated; both others are on port 1
        ("mov ah, bl; imul rax, rcx", 1, None),  # the high byte is renamed separately, then merged
    ],
)
def test_without_dependencies_moves_and_high_bytes_are_still_renamed(
    text: str, alone: float, cycles: float | None
) -> None:
    assert changes(text)["no dependencies"] == pytest.approx(alone, abs=1)
    if cycles is not None:
        assert float(study(text).cycles) == cycles


def test_a_pointer_has_no_second_accumulator() -> None:
    assert not any("accumulator" in change for change in some(changes("mov rax, [rax]")))


def test_a_register_that_others_read_has_no_second_accumulator() -> None:
    assert not any("accumulator" in change for change in some(changes("imul rax, rbx; mov [rdi], rax")))


def test_a_port_without_limits_leaves_the_others() -> None:
    found = changes("mov [rsi], rax; mov [rdi], rbx; mov [rbp], rcx")
    assert found["port 4 without limits"] == pytest.approx(1, abs=0.1)  # three store addresses on three ports


def test_a_loop_that_wastes_issue_slots_gains_by_unrolling() -> None:
    text = "again: mov rax, [rsi]; add [rdi+8], rax; add rdi, 8; add rsi, 8; dec rcx; jne again"
    found = changes(text, Running.LOOP)
    assert found["unrolled by two: the jump half as often"] < float(study(text, Running.LOOP).cycles)


def test_text_and_json_have_all_of_it() -> None:
    one = study("imul rax, rbx; imul rax, rcx")
    facts = PredictionFacts(one.bounds, haswell(), study=one)
    text = "\n".join(lines_of(facts))
    assert "one more accumulator beside RAX" in text
    assert "IeeeR" in text
    found = json_of(facts)
    assert found["cycles_per_iteration"] == 6.0
    assert len(found["simulation"]["instructions"]) == 2
    assert found["simulation"]["timeline"][1]["dispatched"] == found["simulation"]["timeline"][0]["executed"]
    jsonschema.validate(json.loads(json.dumps([found])), schema())


def test_without_a_limit_the_bounds_of_the_others_hold() -> None:
    """The simulation alone has 1.00 cycles without limits of issue, although the loop buffer needs 1.33."""
    text = "l: add rsi, 8; add rdi, 8; add rax, 8; add rbx, 8; dec rcx; jnz l"
    bounds = study(text, Running.LOOP).bounds.cycles_of
    found = changes(text, Running.LOOP)
    kept = {one: cycles for one, cycles in bounds.items() if one is not Component.ISSUE}
    assert found.get("issue and retirement without limits", max(kept.values())) >= max(kept.values())
    assert max(kept.values()) > 1
