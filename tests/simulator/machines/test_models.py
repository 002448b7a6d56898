"""The models that are shipped, their tables, and the graphs that are made of stated facts."""

from __future__ import annotations

import lzma
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.machine.graph import Endpoint, ModelError
from results.model import LatencyPart, PortUsage
from runner.backend import Job
from runner.backends.sim import SimBackend, open_machine
from simulator.machines import convert_llvm
from simulator.machines.graph_rules import CPU_ORDER, cpu_range, read_rules
from simulator.machines.machine import Parameters
from simulator.machines.notation import parse_graph
from simulator.machines.scheduling_model import ModelFacts, behaviour_of
from simulator.machines.shipped import load_machine, names, read_isa_sets
from simulator.machines.truth import longest_paths
from tests.nonempty import some
from tests.shared import DATA, llvm_models, xed_datafiles
from tests.simulator.programs import ONCE, benchmark, catalogue, line
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from xed_convert.model import InstructionVariant

LLVM_CPUS = ("SNB", "HSW", "BDW", "SKL", "SKX", "ICX", "ADL-P", "SPR")

EXAMPLES = [
    ("HSW", "ADC_11 (R64, R64)", "1*p0156+1*p06"),
    ("SKL", "ADC_11 (R64, R64)", "1*p06"),
    ("SNB", "ADC_11 (R64, R64)", "1*p05+1*p015"),
    ("NHM", "PBLENDVB (XMM, XMM)", "2*p05"),
    ("SKL", "VHADDPD (XMM, XMM, XMM)", "1*p01+2*p5"),
    ("SKL", "MOVQ2DQ (XMM, MM)", "1*p0+1*p015"),
    ("HSW", "MOVDQ2Q (MM, XMM)", "1*p5+1*p015"),
    ("SNB", "MOVDQ2Q (MM, XMM)", "1*p015+1*p5"),
    ("HSW", "SAHF", "1*p06"),
    ("SKL", "VMINPS (XMM, XMM, XMM)", "1*p01"),
    ("HSW", "AESDEC (XMM, XMM)", "1*p5"),
]


@pytest.mark.parametrize(("architecture", "string", "ports"), EXAMPLES)
def test_ports_of_the_published_examples(architecture: str, string: str, ports: str) -> None:
    truth = load_machine(architecture).truth(variant(string))
    assert truth.ports == PortUsage.parse(ports)


@pytest.mark.parametrize(
    ("architecture", "string", "source", "destination", "cycles"),
    [
        ("SNB", "AESDEC (XMM, XMM)", 1, 1, 8),
        ("SNB", "AESDEC (XMM, XMM)", 2, 1, 1),
        ("IVB", "AESDEC (XMM, M128)", 1, 1, 8),
        ("IVB", "AESDEC (XMM, M128)", 2, 1, 7),
        ("HSW", "AESDEC (XMM, XMM)", 1, 1, 7),
        ("HSW", "AESDEC (XMM, XMM)", 2, 1, 7),
        ("WSM", "AESDEC (XMM, XMM)", 1, 1, 6),
        ("WSM", "AESDEC (XMM, XMM)", 2, 1, 6),
    ],
)
def test_latencies_of_the_published_examples(
    architecture: str, string: str, source: int, destination: int, cycles: int
) -> None:
    assert load_machine(architecture).truth(variant(string)).latency(source, destination) == cycles


def test_shld_by_cpu_and_registers() -> None:
    (shld,) = [v for v in catalogue().find("SHLD_GPRv_GPRv_IMMb") if v.string.endswith("(R64, R64, I8)")]
    old, new = (load_machine(name).truth(shld) for name in ("NHM", "SKL"))
    assert [old.latency(1, 1), old.latency(2, 1)] == [Fraction(3), Fraction(4)]
    assert old.same_register is None
    assert [new.latency(1, 1), new.latency(2, 1)] == [Fraction(3), Fraction(3)]
    assert new.same_register
    assert new.same_register.latency(1, 1) == 1


def test_bswap_has_a_uop_more_for_64_bits() -> None:
    model = load_machine("SKL")
    assert model.truth(variant("BSWAP (R32)")).uops == 1
    assert model.truth(variant("BSWAP (R64)")).uops == 2


def test_the_same_register_breaks_the_dependency_of_a_comparison() -> None:
    for name in ("NHM", "SNB", "SKL", "ICX"):
        same = load_machine(name).truth(variant("PCMPGTB (XMM, XMM)")).same_register
        assert same is not None
        assert same.latencies == {}


def variant(string: str) -> InstructionVariant:
    return catalogue().by_string(string)


@pytest.mark.parametrize("name", names())
def test_every_behaviour_can_be_made_and_is_consistent(name: str) -> None:
    model = load_machine(name)
    ports = set(model.parameters.ports)
    count = 0
    for one in catalogue():
        behaviour = model.behaviour(one)
        if behaviour is None:
            continue
        count += 1
        truth = model.truth(one)
        assert truth.uops == sum(truth.ports.uops.values())
        assert all(uop.ports <= ports for uop in behaviour.uops), one.string
        assert all(0 <= i < n for n, uop in enumerate(behaviour.uops) for i in uop.inputs if isinstance(i, int))
        assert truth.throughput >= Fraction(truth.uops, len(ports))
    assert count > 2000


@pytest.mark.parametrize("name", LLVM_CPUS)
def test_port_sets_are_exactly_those_stated(name: str) -> None:
    entries = convert_llvm.read_entries(llvm_models() / f"{name}.json.xz")
    model = load_machine(name)
    amended = [row.pattern for cpus, row in read_rules() if name in cpus]
    checked = 0
    for one in catalogue():
        behaviour = model.behaviour(one)
        if (
            behaviour is None
            or one.string not in entries
            or any(pattern.fullmatch(text) for pattern in amended for text in (one.string, one.iform))
        ):
            continue
        stated = {frozenset(ports[1:]): count for ports, count in entries[one.string]["ports"].items()}
        assert behaviour.port_usage.uops == stated, one.string
        checked += 1
    assert checked > len(entries) / 8


@pytest.mark.parametrize("name", ["SNB", "SKX"])
def test_the_longest_path_of_a_register_form_is_the_stated_latency(name: str) -> None:
    entries = convert_llvm.read_entries(llvm_models() / f"{name}.json.xz")
    model = load_machine(name)
    amended = [row.pattern for cpus, row in read_rules() if name in cpus]
    checked = 0
    for one in catalogue():
        behaviour = model.behaviour(one)
        memory = any(o.kind in (OperandKind.MEMORY, OperandKind.AGEN) for o in one.operands)
        own = any(pattern.fullmatch(text) for pattern in amended for text in (one.string, one.iform))
        if behaviour is None or one.string not in entries or memory or own or not behaviour.port_usage.total:
            continue
        paths = longest_paths(behaviour.uops)
        if paths:
            assert max(paths.values()) == max(1, *entries[one.string]["latency"]), one.string
            checked += 1
    assert checked > len(entries) / 16


def test_the_shipped_tables_are_what_the_script_makes() -> None:
    for name in LLVM_CPUS:
        made = convert_llvm.convert_facts(llvm_models() / f"{name}.json.xz").splitlines()
        shipped = Path(convert_llvm.__file__).parents[1] / "models" / f"{name}.tsv.xz"
        of_these = {line.partition("\t")[0] for line in some(made, 300)}
        rows = lzma.decompress(shipped.read_bytes()).decode().splitlines()
        assert [row for row in rows if row.partition("\t")[0] in of_these] == made
        assert len(rows) == len(made) or llvm_models().is_relative_to(DATA)


def test_the_isa_sets_of_machines_are_those_of_their_chips() -> None:
    chips = convert_llvm.read_chips(sorted(xed_datafiles().rglob("*chips*.txt")))
    for chip, sets in some(read_isa_sets().items()):
        assert sets == convert_llvm.isa_sets(chip, chips)


def test_every_row_of_graphs_is_about_a_variant_that_a_machine_has() -> None:
    variants = list(catalogue())
    for cpus, row in some(read_rules()):
        hits = [v for v in variants if row.pattern.fullmatch(v.string) or row.pattern.fullmatch(v.iform)]
        assert any(load_machine(cpu).behaviour(v) is not None for cpu in cpus for v in hits), row.where


def test_isa_sets_keep_a_machine_from_having_what_its_cpu_has_not() -> None:
    assert load_machine("SNB").behaviour(variant("VPADDD (ZMM, ZMM, ZMM)")) is None
    assert load_machine("SKX").behaviour(variant("VPADDD (ZMM, ZMM, ZMM)")) is not None
    assert load_machine("SNB").behaviour(variant("MULX (R64, R64, R64)")) is None


GRAPH = "p0 3 <1 <2; p015 1 <u1 <CF >1 >F"


def test_a_graph_in_notation_has_its_paths() -> None:
    uops = parse_graph(variant("ADC_11 (R64, R64)"), GRAPH, "test:1")
    paths = {(s.operand, s.flag, d.operand, d.flag): int(n) for (s, d), n in longest_paths(uops).items()}
    assert paths[1, "", 1, ""] == 4
    assert paths[3, "CF", 1, ""] == 1
    assert paths[2, "", 3, "OF"] == 4
    assert [("".join(sorted(uop.ports)), uop.latency) for uop in uops] == [("0", 3), ("015", 1)]
    assert uops[1].inputs[0] == 0


@pytest.mark.parametrize(
    "wrong", ["", "p0", "p0 x", "q0 1", "p0 1 <9", "p0 1 <u1", "p0 1 <1 div=x", "p0 1 >2.foo", "p0 1 <DF", "p0 1 bad"]
)
def test_a_wrong_graph_names_its_place(wrong: str) -> None:
    with pytest.raises(ModelError, match=r"graphs\.tsv:7"):
        parse_graph(variant("ADC_11 (R64, R64)"), wrong, "graphs.tsv:7")


@given(st.text(max_size=30))
def test_any_text_is_a_graph_or_a_clear_error(text: str) -> None:
    message = ""
    try:
        uops = parse_graph(variant("ADC_11 (R64, R64)"), text, "here:1")
    except ModelError as error:
        uops, message = (), error.message
    assert bool(uops) != message.startswith("here:1")


def test_ranges_of_cpus() -> None:
    assert cpu_range("SNB..HSW,SKX", "x:1") == {"SNB", "IVB", "HSW", "SKX"}
    assert cpu_range("ADL-P..", "x:1") == {"ADL-P", "SPR"}
    with pytest.raises(ModelError, match="x:1"):
        cpu_range("SNB..XYZ", "x:1")
    assert set(names()) == set(CPU_ORDER)


@pytest.mark.parametrize("wrong", ["XYZ", "../SNB", "", "SNB/x"])
def test_an_unknown_model_is_a_clear_error(wrong: str) -> None:
    with pytest.raises(ModelError, match="no machine model"):
        load_machine(wrong)


def test_port_groups_follow_the_shared_counters() -> None:
    parameters = Parameters(4, 4, 100, 50, "0123456", shared_counters=("23", "15"))
    assert parameters.port_groups == ("0", "15", "23", "4", "6")


ports_strategy = st.lists(st.sampled_from(["0", "1", "5", "06", "015", "0156"]), min_size=1, max_size=6)


@given(ports_strategy, st.integers(1, 20))
def test_made_up_graphs_keep_ports_and_latency(ports: list[str], latency: int) -> None:
    facts = ModelFacts(tuple(frozenset(p) for p in ports), (latency,), len(ports))
    behaviour = behaviour_of(variant("IMUL (R64, R64)"), facts)
    assert sum(behaviour.port_usage.uops.values()) == len(ports)
    assert max(longest_paths(behaviour.uops).values()) == latency


@given(st.integers(3, 20), st.integers(1, 7))
def test_a_load_takes_its_read_advance_and_the_rest_is_computing(latency: int, advance: int) -> None:
    facts = ModelFacts((frozenset("23"), frozenset("0156")), (latency,), 1, advance)
    behaviour = behaviour_of(variant("ADD (R64, M64)"), facts)
    truth = {(s.operand, s.part): n for (s, d), n in longest_paths(behaviour.uops).items() if d.operand == 1}
    assert truth[2, LatencyPart.ADDRESS] == latency
    assert truth[1, LatencyPart.NONE] == latency - min(advance, latency - 1)


def test_the_stack_pointer_is_a_source_under_both_its_names() -> None:
    truth = load_machine("HSW").truth(variant("POP (R64)"))
    address = Endpoint(3, LatencyPart.ADDRESS)
    assert truth.latencies[Endpoint(2), Endpoint(1)] == truth.latencies[address, Endpoint(1)] == 6
    assert truth.latencies[Endpoint(2), Endpoint(2)] == truth.latencies[address, Endpoint(2)] == 1


def test_the_rename_stage_moves_the_stack_pointer_where_no_uop_does() -> None:
    truth = load_machine("SNB").truth(variant("PUSH (R64)"))
    assert truth.latencies[Endpoint(2), Endpoint(2)] == 0


def test_a_changed_machine_differs_in_what_was_changed_only() -> None:
    haswell = load_machine("HSW")
    late = "p0156 1 <* >PF >AF >ZF >SF >OF; - 1 <u1 >CF"
    changed = haswell.changed({"TEST (R*, R*)": late, "ORPS (XMM, XMM)": "- 1 <1; p5 2 <u1 <2 >1"})
    test, orps = (catalogue().by_string(string) for string in ("TEST (R64, R64)", "ORPS (XMM, XMM)"))
    flags = next(operand.index for operand in test.operands if operand.kind is OperandKind.FLAGS)
    for flag, cycles in (("CF", 2), ("ZF", 1)):
        assert changed.truth(test).latencies[Endpoint(1), Endpoint(flags, flag=flag)] == cycles
    assert [changed.truth(orps).latency(source, 1) for source in (1, 2)] == [3, 2]
    assert changed.truth(orps).slots == changed.truth(orps).uops == 1
    for variant in some(list(catalogue())[::101], 100):
        assert changed.behaviour(variant) == haswell.behaviour(variant)


def test_a_late_flag_is_late_when_it_is_simulated() -> None:
    haswell = load_machine("HSW")
    late = SimBackend(haswell.changed({"CMC": "p06 2 <CF; - 3 <u1 >CF"}), catalogue())
    code = benchmark(line("CMC"))
    few, many = (late.run([Job(code, copies)], ("core_cycles",), ONCE)[0].samples for copies in (10, 110))
    assert many["core_cycles"][0] - few["core_cycles"][0] == 500


def test_a_graph_that_does_not_fit_is_a_clear_error() -> None:
    changed = load_machine("HSW").changed({"CMC": "p06 1 <ZF >CF"})
    with pytest.raises(ModelError, match="the changed HSW: ZF is named, but the variant does not read it"):
        changed.behaviour(catalogue().by_string("CMC"))


@pytest.mark.parametrize("option", ["intel", "dispatch", "lowest", "separate", "separate:intel"])
def test_options_of_a_model_change_its_parameters(option: str) -> None:
    plain, other = open_machine("ADL-P"), open_machine(f"ADL-P:{option}")
    assert plain.parameters != other.parameters
    assert other.parameters.alternating == "23A"
    assert (other.parameters.shared_counters == ()) == ("separate" in option)
    assert (other.parameters.binding == option.removeprefix("separate:")) == (option != "separate")
