"""What other tools need of instructions.xml, checked on the XML itself: a simulated SKX (full ISA), and the clock.

The rules are those that readers of published files were seen to need (uiCA's converter, OSACA's importer). They are
stated here once more, without the code that writes or checks.
"""

from __future__ import annotations

import io
import lzma
import re
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import given
from lxml import etree

from results.database import rules
from results.database.merge import write_xml
from results.database.reader import read_database
from results.database.xml import ConcludedVariant
from results.shipped import shipped_database
from runner.verification.synthetic import provenance, truths
from tests.nonempty import some
from tests.results.strategies import port_usages
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.catalogue.schema import schema_text, validate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lxml.etree import _Element

    from results.model import PortUsage

Tree: TypeAlias = "_Element"

INTEGERS = re.compile(r"(uops|div_cycles|complex_decoder|available_simple_decoders)\w*")
CYCLES = re.compile(r"(min_|max_)?cycles\w*(?<!_is_upper_bound)")


@pytest.fixture(scope="module")
def skx_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    catalogue = Catalogue.load()
    path = tmp_path_factory.mktemp("skx") / "skx.xml"
    conclusions = (ConcludedVariant(found, provenance("SKX")) for found in truths("SKX", catalogue))
    with path.open("wb") as file:
        write_xml(catalogue, conclusions, file)
    return path


@pytest.fixture(scope="module")
def skx(skx_file: Path) -> Tree:
    return etree.parse(skx_file).getroot()


@pytest.fixture(scope="module")
def clock() -> Tree:
    return etree.parse(io.BytesIO(lzma.open(shipped_database()).read())).getroot()


@pytest.fixture(params=["skx", "clock"])
def root(request: pytest.FixtureRequest) -> Tree:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, etree._Element)
    return found


def attributes(elements: Iterator[_Element]) -> Iterator[tuple[str, str]]:
    return ((str(name), str(value)) for element in elements for name, value in element.attrib.items())


def test_the_files_are_about_most_of_the_instruction_set(skx: Tree, clock: Tree) -> None:
    assert len(skx.findall(".//measurement[@simulated='1']")) == len(skx.findall(".//measurement")) > 12_000
    assert len(clock.findall(".//measurement")) > 3_000
    assert clock.findall(".//measurement[@simulated]") == []


def test_instructions_are_named(root: Tree) -> None:
    for element in root.iter("instruction"):
        assert all(element.get(name) for name in ("iform", "string", "category", "asm")), element.attrib
    strings = [element.get("string") for element in root.iter("instruction")]
    assert len(set(strings)) == len(strings) > 20_000


def test_operands_are_of_types_that_readers_know(root: Tree) -> None:
    types = {operand.get("type") for operand in root.iter("operand") if operand.get("suppressed") != "1"}
    assert types <= {"reg", "mem", "imm", "agen", "relbr"}


def test_operands_of_latencies_have_names(root: Tree) -> None:
    nameless = []
    for instruction in some(element for element in root.iter("instruction") if element.find(".//latency") is not None):
        names = {operand.get("idx"): operand.get("name") for operand in instruction.iter("operand")}
        ends = {one.get(end) for one in some(instruction.iter("latency")) for end in ("start_op", "target_op")}
        nameless += [instruction.get("string") for end in ends if not names.get(end)]
    assert nameless == []


def test_counts_and_cycles_are_integers(root: Tree) -> None:
    for name, value in some(attributes(root.iter("measurement"))):
        assert value.isdecimal() or not INTEGERS.fullmatch(name), (name, value)
    for name, value in some(attributes(root.iter("latency"))):
        assert value.isdecimal() or not CYCLES.fullmatch(name), (name, value)


def test_every_latency_has_cycles(root: Tree) -> None:
    for latency in some(root.iter("latency")):
        assert any(CYCLES.fullmatch(str(name)) for name in latency.attrib), latency.attrib
        for name in map(str, latency.attrib):
            if name.startswith("min_") and not name.endswith("_is_upper_bound"):
                assert "max_" + name[4:] in latency.attrib


def test_upper_bounds_are_marked_and_nothing_else_is(root: Tree) -> None:
    marks = [name for name, value in attributes(root.iter("latency")) if name.endswith("_is_upper_bound")]
    assert marks
    for latency in root.iter("latency"):
        for name in map(str, latency.attrib):
            if name.endswith("_is_upper_bound"):
                assert latency.get(name) == "1"
                assert name.removesuffix("_is_upper_bound") in latency.attrib


def test_port_usages_are_of_the_known_form_and_never_empty(skx: Tree, clock: Tree) -> None:
    usages = [value for name, value in attributes(skx.iter("measurement")) if name.startswith("ports")]
    assert len(usages) > 12_000
    for usage in usages:
        assert re.fullmatch(r"[1-9]\d*\*p[0-9AB]+(\+[1-9]\d*\*p[0-9AB]+)*", usage), usage
    by_time = [one for one in clock.iter("measurement") if "ports" in one.attrib]
    assert len(by_time) > 12_000
    for measurement in by_time:
        architecture = measurement.getparent()
        assert architecture is not None
        ports = r"p[0-9AB]+" if architecture.get("name") in ("CLX", "EMR") else r"(r|FP)[0-9A]+"
        assert re.fullmatch(rf"[1-9]\d*\*{ports}(\+[1-9]\d*\*{ports})*", measurement.get("ports", ""))
        assert measurement.get("ports_by_time") == "1"


def test_where_no_port_is_used_there_are_no_uops(skx: Tree) -> None:
    for measurement in some(skx.iter("measurement")):
        assert ("ports" in measurement.attrib) == (measurement.get("uops") != "0"), measurement.attrib


def test_measurements_with_ports_have_all_three_throughputs(skx: Tree) -> None:
    for measurement in some(skx.findall(".//measurement[@ports]")):
        for name in ("TP_ports", "TP_loop", "TP_unrolled"):
            assert re.fullmatch(r"\d+\.\d\d", measurement.get(name, "")), measurement.attrib


def test_the_anchor_of_uica_is_there(skx: Tree) -> None:
    anchors = skx.findall(".//instruction[@iform='AND_GPRv_IMMb']/architecture[@name='SKX']/measurement[@ports]")
    assert len(anchors) >= 3


def test_no_sentinel_is_written(root: Tree) -> None:
    for element in ("measurement", "latency"):
        for name, value in some(attributes(root.iter(element))):
            assert not re.match(r"-|\d{8}|nan|inf|none", value, re.IGNORECASE), (name, value)


def test_every_architecture_says_where_it_comes_from(root: Tree) -> None:
    names = {element.get("name") for element in root.iter("architecture")}
    found = {element.get("architecture"): element for element in root.iter("provenance")}
    assert names == set(found)
    for element in found.values():
        assert element.get("backend")
        assert element.get("cpu")
        assert element.find("caveat") is not None


def port_patterns() -> list[re.Pattern[str]]:
    """Return what the schema and the rules want of a port usage; both write such patterns alike."""
    tree = etree.fromstring(schema_text().encode())
    (found,) = tree.iterfind("{*}simpleType[@name='Ports']/{*}restriction/{*}pattern")
    return [re.compile(str(found.get("value"))), rules.PORTS]


@given(port_usages.filter(lambda usage: bool(usage.uops)))
def test_the_schema_and_the_rules_accept_every_port_usage_that_is_written(usage: PortUsage) -> None:
    for pattern in some(port_patterns()):
        assert pattern.fullmatch(str(usage))


@pytest.mark.parametrize("text", ["", "p06", "0*p06", "1*p", "1*q06", "V", "1*p06+", "1*p06 + 1*p0", "-1*p0"])
def test_the_schema_and_the_rules_refuse_other_text(text: str) -> None:
    for pattern in some(port_patterns()):
        assert not pattern.fullmatch(text)


def test_the_check_of_the_command_and_the_schema_agree(skx_file: Path) -> None:
    validate(skx_file)
    assert list(rules.check_entries(read_database(skx_file))) == []
