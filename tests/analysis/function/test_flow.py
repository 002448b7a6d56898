"""Control flow by hand: blocks, loops, ways through them."""

from __future__ import annotations

import pytest

from analysis.errors import AnalysisError
from analysis.function.flow import Ending, Flow, branches_in, flow_of, ways_through
from analysis.function.loops import TAKEN_BRANCHES, predict_loop
from analysis.prediction import Tools
from analysis.report.flow import flow_lines, loop_lines
from tests.analysis.machine import haswell, reader, shipped_machine
from tests.nonempty import some
from xed_convert.assembly.assembler import assemble

NESTED = """
    xor eax, eax
outer:
    mov rcx, 5
inner:
    cmp rdx, rcx
    jz odd
    imul rax, rbx
    jmp next
odd:
    add rax, rbx
next:
    dec rcx
    jnz inner
    dec rsi
    jnz outer
    ret
"""


def flow(text: str) -> Flow:
    reader()
    return flow_of(assemble(text), 0x1000)


def test_blocks_end_at_branches_and_before_their_targets() -> None:
    found = flow(NESTED)
    blocks = list(found.blocks.values())
    assert [one.instructions for one in blocks] == [1, 1, 2, 2, 1, 2, 2, 1]
    kinds = [Ending.FALLS, Ending.FALLS, Ending.BRANCHES, Ending.JUMPS, Ending.FALLS, Ending.BRANCHES, Ending.BRANCHES]
    assert [one.ending for one in blocks] == [*kinds, Ending.RETURNS]
    assert blocks[3].successors == (blocks[5].begin,)
    assert blocks[2].successors == (blocks[4].begin, blocks[3].begin)  # taken, else
    assert b"".join(found.code_of([one.begin]) for one in blocks) == found.code


def test_loops_are_found_with_their_nesting() -> None:
    found = flow(NESTED)
    begins = list(found.blocks)
    outer, inner = found.loops
    assert (outer.head, outer.depth, outer.is_innermost) == (begins[1], 0, False)
    assert (inner.head, inner.depth, inner.is_innermost) == (begins[2], 1, True)
    assert outer.blocks == set(begins[1:7])
    assert inner.blocks == set(begins[2:6])
    assert found.innermost() == inner
    assert found.loop_number(1) == outer
    assert found.inside(outer) == {2: inner}
    with pytest.raises(AnalysisError, match="loop 1 has loops inside") as caught:
        ways_through(found, outer, {})
    assert caught.value.hint == "--times 2=10"
    with pytest.raises(AnalysisError, match="no loop 3"):
        found.loop_number(3)


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("a: jmp a", 1),
        ("a: dec rcx; jnz a; b: dec rdx; jnz b", 2),
        ("a: dec rcx; jz b; dec rdx; jnz a; b: ret", 1),
        ("jmp b; a: dec rcx; b: dec rdx; jnz a; ret", 1),
        ("jz b; a: dec rcx; b: jnz a; ret", 0),  # two entries: no block dominates the other
        ("nop", 0),
        ("call rax; ret", 0),
        ("jmp rax", 0),
        ("a: xbegin a; ret", 1),
    ],
)
def test_numbers_of_loops(text: str, loops: int) -> None:
    assert len(flow(text).loops) == loops


def test_a_function_without_a_loop_says_so() -> None:
    with pytest.raises(AnalysisError, match="has no loop"):
        flow("nop; ret").innermost()
    with pytest.raises(AnalysisError, match="no instruction"):
        flow_of(b"")


def test_ways_have_equal_probabilities_or_given_ones() -> None:
    found = flow(NESTED)
    loop = found.innermost()
    (branch,) = branches_in(found, loop)
    ways, left_out = ways_through(found, loop, {})
    assert [(way.probability, way.taken) for way in ways] == [(0.5, 2), (0.5, 2)]  # jz and jnz; jmp and jnz
    assert left_out == 0
    given, _ = ways_through(found, loop, {branch.end: 0.9})
    assert [round(way.probability, 9) for way in given] == [0.9, 0.1]
    assert branch.target in given[0].blocks
    never, _ = ways_through(found, loop, {branch.end: 0.0})
    assert len(never) == 1


def test_many_ways_are_cut_off_and_said_to_be() -> None:
    text = "a: " + "".join(f"test rax, rax; jz l{n}; nop; l{n}: " for n in range(8)) + "dec rcx; jnz a"
    found = flow(text)
    ways, left_out = ways_through(found, found.innermost(), {})
    assert len(ways) == 64
    assert left_out == pytest.approx(0.75)
    assert sum(way.probability for way in ways) == pytest.approx(1)


def test_a_loop_takes_the_mean_of_its_ways() -> None:
    tools = Tools.of(haswell(), reader().decoder)
    found = flow(NESTED)
    loop = found.innermost()
    (branch,) = branches_in(found, loop)
    for share in (0.0, 0.25, 1.0):  # of the way with the addition
        made = predict_loop(
            lambda code, how, ends: tools.predict(code, how, taken=ends).facts, found, loop, {branch.end: share}
        )
        assert made.bounds["dependencies"] == share * 1 + (1 - share) * 3
        assert made.bounds[TAKEN_BRANCHES] == 2
        assert float(made.cycles) == max(2, 3 - 2 * share)


@pytest.mark.parametrize(
    ("head", "times", "is_limited"),
    [("mov rax, 5", 10, True), ("imul rdx, rdx", 2, False)],
)
def test_a_single_way_takes_a_cycle_for_each_taken_branch(head: str, times: int, *, is_limited: bool) -> None:
    """On a Zen 4, the first loop takes 11.85 cycles, and its code in a row less than six."""
    tools = Tools.of(shipped_machine("ZEN4"), reader().decoder)
    found = flow(f"outer: {head}; inner: dec rax; jnz inner; dec rcx; jnz outer")
    outer, inner = found.loops
    made = predict_loop(
        lambda code, how, ends: tools.predict(code, how, taken=ends).facts, found, outer, times={inner.head: times}
    )
    assert made.bounds[TAKEN_BRANCHES] == times
    assert made.cycles >= times
    assert (made.cycles > made.facts[0].cycles) == is_limited
    text = "\n".join(loop_lines(made, "code"))
    assert (f"What limits it: {times} taken branches" in text) == is_limited


def test_a_branch_that_is_not_taken_has_a_second_port() -> None:
    tools = Tools.of(haswell(), reader().decoder)
    found = flow("a: test rax, rax; jz next; mov rbx, [rsi]; next: mov rdx, [rdi]; test rcx, rcx; jnz a")
    loop = found.innermost()
    (branch,) = branches_in(found, loop)
    both, first = (found.loops[0].head, branch.behind), (found.loops[0].head, branch.target)
    assert branch.target is not None
    ports = {}
    for share in (0.0, 1.0):
        made = predict_loop(
            lambda code, how, ends: tools.predict(code, how, taken=ends).facts, found, loop, {branch.end: share}
        )
        (way,) = made.ways
        assert way.blocks[:2] == (first if share else both)
        assert len(found.taken_in(way)) == way.taken
        ports[share] = made.bounds["ports"]
    assert ports == {0.0: 1, 1.0: 2}  # two taken branches share port 6


def test_all_ways_share_the_ports() -> None:
    tools = Tools.of(haswell(), reader().decoder)
    text = "a: test rax, rax; jz odd; imul r8, rbx; imul r9, rbx; jmp next; odd: vaddps xmm0, xmm1, xmm2; next: "
    found = flow(text + "dec rcx; jnz a")
    made = predict_loop(lambda code, how, ends: tools.predict(code, how, taken=ends).facts, found, found.innermost())
    alone = [one.bounds.cycles_of for one in made.facts]
    mean = sum(float(cycles) for bounds in alone for name, cycles in bounds.items() if name.value == "ports") / 2
    assert float(made.bounds["ports"]) <= mean


def test_a_loop_around_another_one_is_predicted_if_it_is_said_how_often_that_runs() -> None:
    tools = Tools.of(haswell(), reader().decoder)
    text = "outer: mov ecx, 6; {reset}inner: imul rax, rbx; dec ecx; jnz inner; dec rdx; jnz outer"
    for reset, per_run in (("", 3), ("xor eax, eax; ", 0)):
        found = flow(text.format(reset=reset))
        outer, inner = found.loops
        for times in some((1, 4, 9)):
            made = predict_loop(
                lambda code, how, ends: tools.predict(code, how, taken=ends).facts,
                found,
                outer,
                times={inner.head: times},
            )
            (way,) = made.ways
            assert way.blocks.count(inner.head) == times
            assert made.left_out == 0
            assert made.bounds["dependencies"] == max(1, per_run * times)
            assert made.bounds["ports"] >= times  # of IMUL there is one


@pytest.mark.parametrize(
    ("text", "bodies"),
    [
        ("o: nop; h: dec rcx; jz x; inc rax; jmp h; x: dec rdx; jnz o", 3),  # left at the head
        ("o: nop; h: inc rax; cmp rax, rbx; jz x; dec rcx; jnz h; x: dec rdx; jnz o", 3),  # broken off, which is not so
        ("o: jmp c; h: inc rax; c: dec rcx; jnz h; dec rdx; jnz o", 3),  # entered at its end
    ],
)
def test_a_loop_inside_runs_as_often_as_is_said_wherever_it_is_left(text: str, bodies: int) -> None:
    found = flow(text)
    outer, inner = found.loops
    (way,), _ = ways_through(found, outer, {}, {inner.head: 3})
    assert found.code_of(way.blocks).count(assemble("inc rax")) == bodies


def test_loops_inside_loops_inside_run_anew_each_time() -> None:
    text = "a: nop; b: mov ecx, 3; c: inc rax; dec ecx; jnz c; dec rsi; jnz b; dec rdx; jnz a"
    found = flow(text)
    outer, middle, inner = found.loops
    (way,), _ = ways_through(found, outer, {}, {middle.head: 4, inner.head: 3})
    assert found.code_of(way.blocks).count(assemble("inc rax")) == 12
    assert branches_in(found, outer) == []
    with pytest.raises(AnalysisError, match="more than 1,500 instructions"):
        ways_through(found, outer, {}, {middle.head: 100, inner.head: 100})


def test_what_is_not_counted_is_said() -> None:
    found = flow("a: call rax; jz s; b: dec rcx; jnz a; ret; s: jmp [rdi+rsi*8]")
    lines = list(flow_lines(found, "f", found.innermost()))
    assert "! 1 call in it: the time of the called functions is not counted." in lines
    assert sum("does not show: those ways are not counted" in line for line in lines) == 1
    plain = flow("a: dec rcx; jnz a")
    assert not any(line.startswith("!") for line in flow_lines(plain, "f", plain.innermost()))
