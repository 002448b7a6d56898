"""Unusual files, as of other CPUs: with any attributes there or missing, a machine is made, or the file is refused."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from results.database.reader import ArchitectureResult, LatencyRow, fault_of, read_database
from results.machine.build import behaviour_from
from results.machine.constants import core_names, core_of
from results.machine.facts import facts_of
from results.machine.roles import MOST_UOPS
from results.model import SPECIAL_FORMS, Form
from results.ports import throughput_of
from tests.nonempty import some
from tests.shared import measured_haswell

if TYPE_CHECKING:
    from results.machine.graph import Behaviour
    from xed_convert.model import InstructionVariant

PORTS = (
    *("1*FP01", "2*FP0123", "1*FP45", "1*ALU", "V", "2*ALU+1*FP01", "1*FP0|FP1", "1*r01", "0*p0", "999999999*p0"),
    *("1*p0156+1*p23A", "1*p5B", "3*p01234567", "1*p4+1*p237+1*p23", "1*p49+1*p78"),
)
"""Usages as files of several makers and generations have them, and impossible ones."""

NUMBERS = ("0", "1", "4", "5", "17", "500", "999999999")
TIMES = ("0.00", "0.01", "0.33", "1.00", "123456789.00")
COUNTS = (
    *("uops", "uops_retire_slots", "uops_MITE", "uops_MS", "div_cycles"),
    *("complex_decoder", "available_simple_decoders"),
)


@cache
def entries() -> list[tuple[InstructionVariant, ArchitectureResult]]:
    return [(one.variant, result) for one in read_database(measured_haswell()) for result in one.results.values()]


def varied(result: ArchitectureResult, source: random.Random) -> ArchitectureResult:
    """Return a result with attributes left out, added, and changed."""
    values = {name: text for name, text in (result.measurement or {}).items() if source.random() < 0.7}
    for suffix in (Form.PLAIN.suffix, *(form.suffix for form in SPECIAL_FORMS)):
        if source.random() < 0.5:
            values[f"ports{suffix}"] = source.choice(PORTS)
        values |= {name + suffix: source.choice(NUMBERS) for name in COUNTS if source.random() < 0.2}
        values |= {f"TP_{name}{suffix}": source.choice(TIMES) for name in ("unrolled", "loop") if source.random() < 0.2}
    if source.random() < 0.2:
        values["macro_fusible"] = source.choice(("", "JZ", "JB (Rel32);JNB (Rel8)", ";"))
    values = {name: text for name, text in values.items() if not fault_of(name, text)}
    return ArchitectureResult(result.architecture, values, tuple(varied_row(row, source) for row in result.latencies))


def varied_row(row: LatencyRow, source: random.Random) -> LatencyRow:
    """Return a latency with values left out and changed, at times of an operand that does not exist."""
    values = {
        name: source.choice(NUMBERS) if source.random() < 0.2 else text
        for name, text in row.values.items()
        if source.random() < 0.8
    }
    if source.random() < 0.1:
        values["cycles_addr_VSIB"] = "9"
    return replace(row, start=source.choice((row.start, row.start, 0, 99)), values=values)


def check(behaviour: Behaviour) -> None:
    """A behaviour can be executed: results of earlier µops only, bounded sizes, whole cycles."""
    assert len(behaviour.uops) <= MOST_UOPS + 200  # besides those with ports: delays
    for number, uop in enumerate(behaviour.uops):
        assert uop.latency >= 0
        assert all(one < number for one in uop.inputs if isinstance(one, int))
    assert behaviour.slots >= 1
    assert throughput_of(behaviour.port_usage) <= MOST_UOPS
    assert behaviour.decoding is None or behaviour.decoding.decoded <= MOST_UOPS


@pytest.mark.parametrize("seed", range(8))
def test_a_machine_is_made_of_any_attributes_on_every_core(seed: int) -> None:
    source = random.Random(seed)
    for core in some(core_names()):
        for variant, result in some(source.sample(entries(), 12)):
            facts = facts_of(varied(result, source))
            assert facts is not None
            found = behaviour_from(variant, facts, core_of(core))
            for form in (found, found.same_register, found.indexed):
                if form is not None:
                    check(form)


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("uops", "1.50", "not a whole number"),
        ("uops_MITE_indexed", "0.33", "not a whole number"),
        ("max_cycles_same_reg", "4.5", "not a whole number"),
        ("div_cycles", "4.00", "not a whole number"),
        ("available_simple_decoders", "?", "not a whole number"),
        ("cycles", "4", ""),
        ("cycles_is_upper_bound", "1", ""),
        ("TP_unrolled", "0.33", ""),
        ("ports", "1*FP01", ""),
        ("ports", "p01", "not a port usage"),
    ],
)
def test_what_cannot_be_read_is_left_out_when_the_file_is_read(name: str, value: str, fault: str) -> None:
    assert fault_of(name, value) == fault
