"""Reports: JSON by its schema, drawings as XML, pages without network, messages for editors."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import jsonschema
import pytest
from lxml import etree

from analysis.bounds.components import Analyzer, Running
from analysis.errors import AnalysisError
from analysis.explanation import MeasuredCycles, PredictionFacts, SourceLine
from analysis.function.flow import flow_of
from analysis.function.loops import LoopPrediction, predict_loop
from analysis.intervals import Interval
from analysis.prediction import PredictionMode, Tools
from analysis.report.compiler import loop_messages, messages_of
from analysis.report.data import json_of, json_pieces, schema
from analysis.report.dot import dependency_dot, flow_dot
from analysis.report.drawing import MOST_ROWS, dependencies, dependency_svg, flow_svg
from analysis.report.flow import EACH_ALONE, loop_json, loop_lines
from analysis.report.page import PageSection, page_of
from analysis.report.text import lines_of, listed, side_by_side
from analysis.report.timeline_drawing import CYCLE, LEFT, timeline_svg
from analysis.report.timeline_drawing import MOST_ROWS as MOST_TIMES
from results.machine.constants import core_of
from tests.analysis.machine import block, bounds, haswell, reader, shipped_machine
from tests.browser import browsing, needs_browser
from tests.nonempty import some
from xed_convert.assembly.assembler import assemble

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium.webdriver import Chrome

LOOP = "a: mov rax, [rsi]; imul rbx, rax; mov [rdi], rbx; add rsi, r8; add rdi, r8; dec rcx; jnz a"
BRANCHING = "a: mov rax, [rsi]; cmp rax, rdx; jz b; imul rbx, rax; b: add rsi, r8; dec rcx; jnz a"
NAME = '<script>"&'


def facts(text: str = LOOP, *, is_known: bool = True) -> PredictionFacts:
    found = bounds(text)
    lines = [SourceLine("k.s", 10 + n, "x.c:3") for n in range(len(found.block.items))]
    measured = [
        MeasuredCycles("copies in a row", 4.0, 5.0, 0.1, "", "HSW", NAME),
        MeasuredCycles("copies in a loop", 4.0, None, None, "SIGILL"),
    ]
    return PredictionFacts(found, haswell(), lines if is_known else (), measured if is_known else ())


def loop_of(text: str) -> LoopPrediction:
    tools = Tools.of(haswell(), reader().decoder)
    flow = flow_of(assemble(text), 0x401000)
    return predict_loop(lambda code, how, ends: tools.predict(code, how, taken=ends).facts, flow, flow.innermost())


@pytest.mark.parametrize(
    ("count", "text"), [(0, ""), (1, "a"), (2, "a and b"), (3, "a, b and c"), (4, "a, b, c and d")]
)
def test_names_are_listed_as_in_a_sentence(count: int, text: str) -> None:
    assert listed(["a", "b", "c", "d"][:count]) == text


@pytest.mark.parametrize(
    ("code", "architecture", "text"),
    [
        (LOOP, "HSW", "Measured without jumps on HSW (a CPU, backend tsc)."),
        ("add rax, rbx", "HSW", "Measured on HSW (a CPU, backend tsc)."),
        (
            "add rax, rbx",
            "ZEN4",
            "Measured on ZEN4 (a CPU, backend tsc), and predicted for HSW: differences are expected.",
        ),
    ],
)
def test_a_report_names_the_cpu_that_it_was_measured_on(code: str, architecture: str, text: str) -> None:
    row = MeasuredCycles("copies in a row", 4.0, 5.0, 0.1, architecture=architecture, cpu="a CPU", backend="tsc")
    found = PredictionFacts(bounds(code), haswell(), (), [row])
    assert text in list(lines_of(found))
    assert text in page_of([PageSection.of(found)], "k.s")


def test_a_report_names_the_unit_that_is_busy() -> None:
    lines = list(lines_of(PredictionFacts(bounds("cpuid; add rax, rbx"), haswell())))
    assert any("What limits it: a unit that is busy (CPUID)." in line for line in lines)
    assert any(re.fullmatch(r"unit +\* *[\d.]+  CPUID", line) for line in lines)


@pytest.mark.parametrize(("code", "ports"), [("mov rax, [rsi]; mov rbx, [rsi]", "p23"), ("nop", "")])
def test_json_names_ports_as_text_does(code: str, ports: str) -> None:
    assert json_of(PredictionFacts(bounds(code), haswell()))["fullest_ports"] == ports


def test_json_is_as_its_schema_says() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    found = [json_of(facts()), json_of(facts(is_known=False)), json_of(facts("aesenclast xmm1, xmm2; nop"))]
    found += [loop_json(loop_of(BRANCHING), "f")]
    written = json.loads(json.dumps(found))
    jsonschema.validate(written, schema())
    del written[0]["limits"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(written, schema())


def test_json_in_pieces_is_the_same_json() -> None:
    loop = loop_json(loop_of(BRANCHING), "f")
    assert json.loads("".join(json_pieces([facts(), loop]))) == json.loads(json.dumps([json_of(facts()), loop]))


def test_json_says_nothing_that_the_schema_does_not() -> None:
    defined = schema()["$defs"]
    assert set(json_of(facts())) == set(defined["prediction"]["properties"])
    assert set(json_of(facts())["instructions"][0]) == set(defined["instruction"]["properties"])
    assert set(loop_json(loop_of(BRANCHING), "f")) == set(defined["loop"]["properties"])


def test_the_graph_has_each_dependency_with_its_cycles() -> None:
    found = {(one.source, one.target, one.iterations): one for one in dependencies(facts())}
    assert found[0, 1, 0].cycles == 3
    assert found[1, 1, 1].kind == "cycle"
    assert found[1, 2, 0].kind == "critical"
    assert found[3, 0, 1].cycles == 5
    assert found[5, 6, 0].cycles == 0  # the jump waits for flags


@pytest.mark.parametrize("text", [LOOP, "nop", "; ".join(["imul rax, rbx"] * (MOST_ROWS + 50))])
def test_drawings_are_xml_of_their_own(text: str) -> None:
    drawing = dependency_svg(facts(text))
    root = etree.fromstring(drawing.encode())
    rows = min(MOST_ROWS, len(bounds(text).block.items))
    assert len(root.findall(".//{http://www.w3.org/2000/svg}rect")) == rows
    assert ("and 50 more" in drawing) == (rows == MOST_ROWS)
    assert "http://" not in drawing.replace("http://www.w3.org/2000/svg", "")


def test_a_control_flow_graph_has_a_row_per_block() -> None:
    flow = loop_of(BRANCHING).flow
    root = etree.fromstring(flow_svg(flow, NAME).encode())
    assert len(root.findall(".//{http://www.w3.org/2000/svg}rect")) == len(flow.blocks) == 3
    text = flow_dot(flow)
    assert text.count("->") == sum(len(one.successors) for one in flow.blocks.values()) == 4
    assert "0x401000" in text


def test_dot_has_a_node_per_instruction_and_an_edge_per_dependency() -> None:
    text = dependency_dot(facts())
    assert len(re.findall(r"^  n\d+ \[", text, re.MULTILINE)) == 7
    assert text.count("->") == len(dependencies(facts()))
    assert text.count("{") == text.count("}") == 1


@pytest.mark.parametrize("loop", [None, loop_of])
def test_the_page_needs_nothing_else(loop: object) -> None:
    if loop is None:
        page = page_of([PageSection.of(facts()), PageSection.of(facts("nop; aesenclast xmm1, xmm2"))], NAME)
    else:
        made = loop_of(BRANCHING)
        page = page_of([PageSection.of_loop(made)], NAME, made)
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!#)|@import|url\(|<script", page)
    assert NAME not in page
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page
    plain = re.sub(r"<!doctype html>|<meta[^>]*>|<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert etree.fromstring(plain.encode()).tag == "html"  # every tag is closed


def simulated() -> PredictionFacts:
    tools = Tools.of(haswell(), reader().decoder)
    return tools.predict(assemble(LOOP), Running.AUTO, PredictionMode.SIMULATION).facts


def test_the_page_of_a_simulation_has_its_timeline_and_waits() -> None:
    found = simulated()
    page = page_of([PageSection.of(found)], "k.s")
    for said in ("Timeline", "waited: front end", "waited: operand", "simulated</th>", 'name="zoom-0-0"'):
        assert said in page
    assert "Timeline" not in page_of([PageSection.of(facts())], "k.s")


def test_the_timeline_has_a_row_per_instruction_and_iteration() -> None:
    found = simulated()
    assert found.study is not None
    instances = found.study.explanation.timeline
    root = etree.fromstring(timeline_svg(found).encode())
    names = {"g": "{http://www.w3.org/2000/svg}g", "rect": "{http://www.w3.org/2000/svg}rect"}
    rows = root.findall(names["g"])
    assert len(rows) == min(len(some(instances, 7)), MOST_TIMES)
    first = instances[0]
    bars = {bar.get("class"): bar for bar in rows[0].findall(names["rect"])}
    begun = first.executed if first.dispatched is None else first.dispatched
    assert float(bars["executes"].get("x", 0)) == LEFT + CYCLE * begun
    assert timeline_svg(facts()) == ""


def test_the_page_says_what_the_text_says() -> None:
    page = page_of([PageSection.of(facts())], "k.s")
    for said in (
        "3.00</b> cycles per iteration",
        "IMUL RBX, RAX",
        "k.s:11</span> <samp>x.c:3</samp>",
        "-20.0%",
        "SIGILL",
    ):
        assert said in page


def of_long_lines() -> PredictionFacts:
    """Return facts whose first four instructions are from one long line, the others from another one."""
    found = simulated()
    text = "sum_of_all_the_products += first_array_of_operands[index] * second_array_of_operands[index]; " * 4
    count = len(found.bounds.block.items)
    return replace(found, lines=[SourceLine("/src/x.c", 3 + n // 4, f"{text}// {n // 4}") for n in range(count)])


def test_the_page_has_a_source_line_once_beside_the_first_of_its_instructions() -> None:
    page = page_of([PageSection.of(of_long_lines())], "f")
    assert page.count("<samp>sum_of_all") == 2
    assert page.count('<span title="/src/x.c">x.c:3</span>') == 4
    assert '<th scope="col">source</th>' not in page_of([PageSection.of(facts(is_known=False))], "f")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    yield from browsing(tmp_path_factory.mktemp("profile"))


@needs_browser
def test_long_source_lines_keep_the_table_readable(tmp_path: Path, browser: Chrome) -> None:
    (tmp_path / "x.html").write_text(page_of([PageSection.of(of_long_lines())], "f"))
    browser.get((tmp_path / "x.html").as_uri())
    sizes = "return [...document.querySelectorAll('.source samp')].map(e => [e.offsetWidth, e.offsetHeight])"
    for width, height in some(browser.execute_script(sizes), 2):
        assert width >= 250
        assert height <= 250
    heights = "return [...document.querySelectorAll('.code tbody tr')].map(e => e.offsetHeight)"
    assert sum(height > 40 for height in some(browser.execute_script(heights), 7)) == 2


def test_messages_name_file_and_line() -> None:
    found = list(messages_of(replace(facts(), measured=()), "code"))
    assert found[0].startswith("k.s:10: note: HSW: 3.00 cycles per iteration.")
    assert len(found) == 8
    assert [line for line in found if ": warning: " in line] == [found[2]]
    assert found[2].startswith("k.s:11: warning: HSW: IMUL RBX, RAX: 1*p1, latency 3, on the chain from iteration")
    unknown = list(messages_of(facts("nop; aesenclast xmm1, xmm2", is_known=False), "code"))
    assert unknown[2] == "code:2: warning: HSW: nothing is known of AESENCLAST (XMM, XMM)"


def test_messages_name_lines_of_the_file_and_no_numbers_of_instructions() -> None:
    lines = [SourceLine("k.s", 10 * n, "") for n in range(1, 4)]
    found = replace(facts("nop; imul rax, rbx; imul rax, rcx", is_known=False), lines=lines, measured=[])
    assert "(lines 20 → 30)" in (said := list(messages_of(found, "code")))[2]
    assert said[1] == "k.s:10: note: HSW: NOP: no port"
    included = replace(found, lines=[*lines[:2], SourceLine("other.s", 7, "")])
    assert "(lines 20 → other.s:7)" in list(messages_of(included, "code"))[2]
    same = replace(found, lines=lines[:1] * 3)
    assert "(line 10)" in list(messages_of(same, "code"))[2]


def test_messages_say_what_was_measured_and_how_far_the_data_leave_it_open() -> None:
    row = MeasuredCycles("copies in a row", 4.0, 5.0, 0.1, architecture="HSW", cpu="a CPU", backend="tsc")
    failed = MeasuredCycles("copies in a loop", 4.0, None, None, "SIGILL", architecture="HSW")
    found = replace(facts("aesenclast xmm1, xmm2; nop", is_known=False), measured=[row, failed])
    found = replace(found, interval=Interval(Fraction(1), None, ("instructions are not known",)))
    said = list(messages_of(found, "code"))
    assert "cycles per iteration (1.00 to more: instructions are not known)." in said[0]
    assert said[1:4] == [
        "code:1: note: Measured on HSW (a CPU, backend tsc).",
        "code:1: note: copies in a row: 5.00 cycles measured, 4.00 predicted",
        "code:1: note: copies in a loop: not measured: SIGILL, 4.00 predicted",
    ]


def test_messages_and_page_say_what_a_loop_takes_and_that_calls_are_not_counted() -> None:
    loop = loop_of("a: call b; b: mov rax, [rsi]; cmp rax, rdx; jz c; imul rbx, rax; c: add rsi, r8; dec rcx; jnz a")
    said = list(loop_messages(loop, "f"))
    assert re.fullmatch(r"f:1: note: HSW: [\d.]+ cycles per iteration on average of 2 ways\. What .*", said[0])
    assert said[1] == (calls := "f:1: warning: 1 call in it: the time of the called functions is not counted.")
    assert sum("of 2 (50%), alone: " in line for line in said) == 2
    page = page_of([PageSection.of_loop(loop)], "f", loop)
    assert calls.partition("warning: ")[2] in page
    assert EACH_ALONE in page
    assert EACH_ALONE in list(loop_lines(loop, "f"))


BY_TIME = "add rax, rbx; mov rax, [rsi]; div rcx; mov rdi, rsi"
"""On the shipped Zen 4: all ports are known, only some, none, and there are none."""


def test_every_report_says_which_ports_are_known_and_that_time_alone_told_them() -> None:
    tools = Tools.of(shipped_machine("ZEN4"), reader().decoder)
    found = tools.predict(assemble(BY_TIME), Running.UNROLLED).facts
    text = "\n".join(lines_of(found))
    column = re.findall(r"^ +\d+ .{3} +\d+  (\S+) +\S+  [A-Z]", text, re.MULTILINE)
    assert column == ["1*r0123", "1*r456+?", "?", "-"]
    assert "\nports were inferred by time alone: counts are cycles that a port is occupied, and no µops; r0, r1" in text
    assert "\n+? behind ports: there may be further µops" in text
    assert "\n? under ports: those of 1 instruction are not known; only a measured throughput counts there" in text
    said = json_of(found)
    jsonschema.validate([said], schema())
    assert all(f"\n{note}" in text for note in some(said["port_notes"], 3))
    rows = said["instructions"]
    assert [row["ports_known"] for row in rows] == ["all", "some", "none", "all"]
    assert [row["ports_by_time"] for row in rows] == [True, True, False, False]
    page = page_of([PageSection.of(found)], "code")
    assert all(note in page for note in some(said["port_notes"], 3))
    messages = list(messages_of(found, "code"))
    assert "1*r0123 by time alone, latency 1" in messages[1]
    assert "ports not known" in messages[3]


def test_a_fused_jump_whose_ports_are_not_known_has_those_of_the_instruction_before_it() -> None:
    tools = Tools.of(shipped_machine("ZEN4"), reader().decoder)
    found = tools.predict(assemble("a: add rax, rbx; dec rcx; jnz a"), Running.LOOP).facts
    assert [found.ports_text(position) for position in range(3)] == ["1*r0123", "1*r0123", "-"]
    assert not any("not known, " in note or "? under" in note for note in some(found.port_notes))


def test_ports_that_were_counted_need_no_notes() -> None:
    found = facts()
    assert found.port_notes == []
    assert {row["ports_known"] for row in json_of(found)["instructions"]} == {"all"}


def test_text_says_lines_measurements_and_both_distributions() -> None:
    text = "\n".join(lines_of(facts()))
    assert "[k.s:11]" in text
    assert re.search(r"copies in a row +4\.00 +5\.00 +0\.10 +-20\.0%", text)
    assert re.search(r"copies in a loop +4\.00 +- +- +SIGILL", text)
    assert re.search(r"^best +\d.*\neven +\d", text, re.MULTILINE)
    assert re.search(r"critical path of an iteration: \d+ cycles: lines 1 → 2 → 3$", text, re.MULTILINE)


def test_a_loop_of_several_ways_shows_each() -> None:
    text = "\n".join(loop_lines(loop_of(BRANCHING), "f"))
    assert "f at 0x401000: 3 blocks, 1 loop" in text
    assert text.count("50%: ") == 2
    assert "--taken 0x40100" in text


def test_cpus_stand_side_by_side() -> None:
    one, other = (
        {component.value: cycles for component, cycles in bounds(text).cycles_of.items()} for text in (LOOP, "nop")
    )
    lines = list(side_by_side([("HSW", Fraction(3), one), ("SKL", Fraction(1, 4), other)]))
    assert lines[1].split() == ["prediction", "3.00", "0.25"]
    assert any(line.startswith("loop buffer") and line.endswith("-") for line in lines)


def test_what_is_left_out_of_long_code_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.simulation.study.MOST_EXPLAINED", 2)
    monkeypatch.setattr("analysis.paths.MOST_EDGES", 0)
    found = simulated()
    text, page = "\n".join(lines_of(found)), page_of([PageSection.of(found)], "code")
    for said in some(found.left_out):
        assert said in text
        assert said in page
    assert len(found.left_out) == 2
    assert "the first cycles" not in text
    assert json_of(found)["simulation"]["instructions"] == []
    assert json_of(found)["left_out"] == found.left_out


def test_nothing_is_left_out_of_short_code() -> None:
    assert simulated().left_out == []
    assert "The code is long" not in "\n".join(lines_of(simulated()))


PREFIXED = "cmp ax, 0x1234; "


@pytest.mark.parametrize(
    ("core", "code", "cycles"),
    [
        ("HSW", f"l: {PREFIXED * 2}dec rcx; jnz l", 7),  # a block of 16 bytes, and three for each prefix
        ("NHM", f"l: {PREFIXED * 2}dec rcx; jnz l", 13),  # six
        ("ZEN4", f"l: {PREFIXED * 2}dec rcx; jnz l", None),  # a prefix costs nothing
        ("HSW", f"l: {PREFIXED}{'imul rbx, rbx; ' * 3}dec rcx; jnz l", None),  # slower anyway
        ("HSW", "l: cmp eax, 0x1234; dec rcx; jnz l", None),
        ("HSW", "l: or ax, 0x1234; or bx, 0x1234; dec rcx; jnz l", None),  # fuses with no jump
        ("HSW", "l: cmp word ptr [rsi], 0x1234; cmp word ptr [rsi], 0x1234; dec rcx; jnz l", None),
        ("HSW", f"l: {'nop; ' * 100}{PREFIXED}dec rcx; jnz l", None),  # the µop cache does not hold it: it is decoded
        ("HSW", PREFIXED * 2, None),  # no loop: it is decoded
    ],
)
def test_a_loop_with_length_changing_prefixes_may_be_decoded_each_time(
    core: str, code: str, cycles: int | None
) -> None:
    machine = haswell().with_parameters(front=core_of(core))
    found = PredictionFacts(Analyzer(machine).bounds(block(code)), machine)
    text, page = "\n".join(lines_of(found)), page_of([PageSection.of(found)], "code")
    if cycles is None:
        assert json_of(found)["caveats"] == []
        assert "decoded each time" not in text
    else:
        (said,) = some(found.caveats)
        assert f"this one would take {cycles} cycles or more then" in said
        assert said[1:] in text
        assert said[1:] in page
        assert json_of(found)["caveats"] == [said]


def test_far_too_much_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.block.reader.MOST_INSTRUCTIONS", 3)
    assert len(block("nop; nop; nop").items) == 3
    with pytest.raises(AnalysisError, match="more than 3 instructions"):
        block("nop; nop; nop; nop")
