"""instructions.xml: what is written is what is known, in the forms that existing readers expect."""

from __future__ import annotations

import dataclasses
import io
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from results.database import merge, xml
from results.findings import FractionalUops, NoPorts, Text
from results.model import (
    Bound,
    Characterization,
    Form,
    FormResult,
    LatencyPart,
    LatencyResult,
    PortUsage,
    Provenance,
    Throughput,
)
from tests.results import strategies
from xed_convert.model import InstructionVariant, Operand, OperandKind

MACHINE = Provenance("SKL", "a CPU", "6-5E-3", "0xf0", "6.1", "kmod", "0.1", "2026-01-01T00:00:00+00:00")
SIMULATED = dataclasses.replace(MACHINE, backend="sim", is_model=True)
REGISTERS = ("RAX", "RBX")
ADC = InstructionVariant(
    iform="ADC_GPRv_GPRv_11",
    string="ADC_11 (R64, R64)",
    asm="ADC",
    iclass="ADC",
    category="BINARY",
    extension="BASE",
    isa_set="I86",
    cpl=3,
    attributes={},
    operands=(
        Operand(1, OperandKind.REGISTER, "REG0", read=True, written=True, width_bits=64, registers=REGISTERS),
        Operand(2, OperandKind.REGISTER, "REG1", read=True, width_bits=64, registers=REGISTERS),
        Operand(3, OperandKind.FLAGS, "REG2", flags={"CF": "r/w"}),
    ),
)


def latency(source: int, destination: int, cycles: Fraction | int, **more: object) -> LatencyResult:
    plain = LatencyResult(source, destination, Fraction(cycles), Bound.EXACT, "")
    return dataclasses.replace(plain, **more)  # type: ignore[arg-type] # any field


def entry(provenance: Provenance = MACHINE, **more: object) -> xml.ConcludedVariant:
    result = Characterization(key=ADC.key, string=ADC.string, iform=ADC.iform)
    return xml.ConcludedVariant(dataclasses.replace(result, **more), provenance)  # type: ignore[arg-type] # any field


def written(*entries: xml.ConcludedVariant) -> etree._Element:
    file = io.BytesIO()
    merge.write_xml([ADC], entries, file)
    return etree.fromstring(file.getvalue())


def attributes(element: etree._Element, path: str) -> list[dict[str, str]]:
    return [{str(name): str(value) for name, value in found.attrib.items()} for found in element.findall(path)]


def test_a_measurement_as_published_data_have_it() -> None:
    root = written(
        entry(
            uops=2,
            forms={
                Form.PLAIN: FormResult(
                    PortUsage({frozenset("06"): 1, frozenset("0156"): 1}),
                    Throughput(Fraction(1), Fraction(201, 200), Fraction(1, 3)),
                )
            },
            latencies=(latency(1, 1, 1), latency(2, 1, 1), latency(3, 1, 2, bound=Bound.UPPER)),
        )
    )
    assert attributes(root, ".//architecture") == [{"name": "SKL"}]
    assert attributes(root, ".//measurement") == [
        {"uops": "2", "ports": "1*p0156+1*p06", "TP_unrolled": "1.00", "TP_loop": "1.00", "TP_ports": "0.33"}
    ]
    assert attributes(root, ".//latency") == [
        {"start_op": "1", "target_op": "1", "cycles": "1"},
        {"start_op": "2", "target_op": "1", "cycles": "1"},
        {"start_op": "3", "target_op": "1", "cycles": "2", "cycles_is_upper_bound": "1"},
    ]


def test_indexed_addresses_have_their_own_numbers() -> None:
    found = xml.measurement_attributes(
        entry(forms={Form.INDEXED: FormResult(PortUsage.parse("1*p23+1*p4"), Throughput(Fraction(3, 2)))}).result
    )
    assert {name: value for name, value in found.items() if name.endswith("_indexed")} == {
        "ports_indexed": "1*p23+1*p4",
        "TP_unrolled_indexed": "1.50",
    }


@pytest.mark.parametrize(("loop", "written"), [(Fraction(8), True), (None, False)])
def test_cycles_of_a_divider_stand_beside_the_time_in_a_loop(loop: Fraction | None, *, written: bool) -> None:
    times = {form: FormResult(None, Throughput(Fraction(8), loop)) for form in (Form.PLAIN, Form.INDEXED)}
    found = xml.measurement_attributes(entry(forms=times, attributes={"div_cycles": 8, "div_cycles_indexed": 9}).result)
    assert ("div_cycles" in found, "div_cycles_indexed" in found) == (written, written)


def test_jumps_to_fuse_with_are_a_list_that_is_left_out_if_empty() -> None:
    found = [xml.measurement_attributes(entry(macro_fusible=jumps).result) for jumps in (("JZ", "JNZ"), (), None)]
    assert [one.get("macro_fusible") for one in found] == ["JZ;JNZ", None, None]


def test_an_instruction_without_uops_has_no_ports() -> None:
    assert attributes(written(entry(forms={Form.PLAIN: FormResult(PortUsage({}))})), ".//measurement") == [
        {"uops": "0"}
    ]


@pytest.mark.parametrize(
    ("latencies", "expected"),
    [
        ([latency(1, 1, 26), latency(1, 1, 10, fast_values=True)], {"min_cycles": "10", "max_cycles": "26"}),
        ([latency(1, 1, 3), latency(1, 1, 1, same_register=True)], {"cycles": "3", "cycles_same_reg": "1"}),
        ([latency(1, 1, 3, source_flag="CF"), latency(1, 1, 3, source_flag="ZF")], {"cycles": "3"}),
        ([latency(1, 1, Fraction(26, 25))], {"cycles": "1"}),
        ([latency(1, 1, Fraction(1, 5))], {"min_cycles": "0", "max_cycles": "1", "max_cycles_is_upper_bound": "1"}),
        (
            [latency(1, 1, Fraction(5, 2))],
            {
                "min_cycles": "2",
                "min_cycles_is_upper_bound": "1",
                "max_cycles": "3",
                "max_cycles_is_upper_bound": "1",
            },
        ),
        (
            [latency(1, 1, 6, part=LatencyPart.ADDRESS, bound=Bound.UPPER), latency(1, 1, 5, part=LatencyPart.MEMORY)],
            {"cycles_addr": "6", "cycles_addr_is_upper_bound": "1", "cycles_mem": "5"},
        ),
        (
            [latency(1, 1, 4, bound=Bound.UPPER), latency(1, 1, 4), latency(1, 1, 9, bound=Bound.UPPER)],
            {"min_cycles": "4", "max_cycles": "9", "max_cycles_is_upper_bound": "1"},
        ),
    ],
)
def test_forms_of_latencies(latencies: list[LatencyResult], expected: dict[str, str]) -> None:
    assert xml.latency_attributes(latencies) == {(1, 1): expected}


def test_no_sentinel_is_ever_written() -> None:
    result = entry(
        attributes={"uops_MITE": -1, "uops_MS": 0},
        forms={Form.PLAIN: FormResult(None, Throughput(loop=Fraction(2**63)))},
        latencies=(latency(1, 1, -1), latency(1, 1, 2**63)),
    )
    root = written(result)
    assert attributes(root, ".//measurement") == [{"uops_MS": "0"}]
    assert root.findall(".//latency") == []


def test_a_simulation_says_so_and_a_software_model_is_no_measurement() -> None:
    llvm = dataclasses.replace(SIMULATED, backend="llvm-mca", cpu="LLVM's model of Skylake", options={"version": "19"})
    assert attributes(written(entry(SIMULATED, uops=1)), ".//measurement") == [{"uops": "1", "simulated": "1"}]
    root = written(entry(llvm, uops=1), entry(MACHINE, uops=2))
    assert attributes(root, ".//architecture[@name='SKL']/LLVM") == [{"uops": "1", "version": "19"}]
    assert attributes(root, ".//architecture[@name='SKL']/measurement") == [{"uops": "2"}]


def test_the_newest_measurement_counts_and_any_measurement_counts_more_than_a_simulation() -> None:
    newer = dataclasses.replace(MACHINE, time="2027-01-01T00:00:00+00:00")
    latest_simulation = dataclasses.replace(SIMULATED, time="2028-01-01T00:00:00+00:00")
    for entries in ([MACHINE, newer, latest_simulation], [latest_simulation, newer, MACHINE]):
        root = written(*(entry(each, uops=int(each.time[3]), attributes={}) for each in entries))
        assert attributes(root, ".//measurement") == [{"uops": "7"}]
        assert [each["time"] for each in attributes(root, "provenance")] == [newer.time]


def test_skipped_variants_have_no_architecture_and_failed_checks_are_named() -> None:
    assert written(entry(skipped="not on this CPU")).findall(".//architecture") == []
    failures = (Text("the ports <do> not add up\nat all"), NoPorts(Form.INDEXED, FractionalUops(Fraction(3, 2))))
    found = written(entry(failures=failures)).findall(".//measurement/failure")
    assert [(one.get("reason"), one.text) for one in found] == [
        ("the ports <do> not add up", "the ports <do> not add up\nat all"),
        (
            "no ports (indexed address): the µops per port do not add up to an integer",
            "ports (indexed address): the µops per port add up to 1.50, not to an integer",
        ),
    ]


@given(st.lists(st.builds(xml.ConcludedVariant, strategies.characterizations, strategies.provenances), max_size=4))
def test_whatever_is_known_the_readers_can_read_it(entries: list[xml.ConcludedVariant]) -> None:
    about_adc = [dataclasses.replace(each, result=dataclasses.replace(each.result, key=ADC.key)) for each in entries]
    root = written(*about_adc)
    assert len(root.findall(".//instruction")) == 1
    for measurement in root.iter("measurement"):
        for suffix in ("", "_same_reg"):
            ports = measurement.get("ports" + suffix)
            assert ports is None or all(int(term.split("*")[0]) > 0 for term in ports.split("+"))
        assert all(float(value) >= 0 for name, value in measurement.items() if str(name).startswith("TP_"))
        for found in measurement.iter("latency"):
            assert all(int(value) >= 0 for name, value in found.attrib.items() if name != "spread")


def test_rhythms_stand_beside_the_fastest_one() -> None:
    slower = Throughput(Fraction(1, 2), unrolled_rhythms=(Fraction(2, 3), Fraction(1)))
    found = xml.measurement_attributes(entry(forms={Form.PLAIN: FormResult(None, slower)}).result)
    assert (found["TP_unrolled"], found["rhythms_unrolled"]) == ("0.50", "0.67 1.00")
    assert "rhythms_loop" not in found
