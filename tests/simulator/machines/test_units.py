"""Counters by execution unit on simulated machines: the table is sound, and µops are counted by what they do."""

from __future__ import annotations

import pytest

from results.model import Status
from runner.backend import Job
from runner.backends.sim import SimBackend, create
from runner.uarch.tables import all_microarchitectures, is_port_counter
from simulator.machines.units import unit_counters
from tests.nonempty import some
from tests.simulator.programs import ONCE, benchmark, line
from xed_convert.model import MemoryAddress

WORD = MemoryAddress("R14", displacement=64)


def counted(backend: SimBackend, *body: str) -> dict[str, float]:
    """What 100 more copies count more, per copy."""
    lines = {
        "add": line("ADD_01 (R64, R64)", "RAX", "RBX"),
        "store": line("MOV (M64, R64)", WORD, "RCX"),
        "vector": line("PADDD (XMM, XMM)", "XMM1", "XMM2"),
        "load": line("MOV (R64, M64)", "RDX", WORD),
    }
    code = benchmark(*(lines[one] for one in body))
    few, many = (backend.run([Job(code, n)], backend.info().counters, ONCE)[0] for n in (10, 110))
    assert few.status is many.status is Status.OK, many.detail
    return {name: (many.samples[name][0] - few.samples[name][0]) / 100 for name in few.samples}


def test_every_core_that_counts_by_unit_can_be_simulated_with_all_of_these_counters() -> None:
    cores = [one for one in all_microarchitectures().values() if one.port_kind or "unit_ALU" in one.counters]
    assert {"ZEN1", "ZEN2", "ZEN3", "LNL-P", "LNL-E", "PTL-P", "PTL-E", "ARL-P", "ARL-E"} <= {one.name for one in cores}
    for core in some(cores):
        theirs = {name for name in core.counters if is_port_counter(name) or name.startswith("unit_")}
        assert {one.name for one in unit_counters(core.name)} == theirs, core.name


def test_uops_are_counted_by_what_they_do() -> None:
    found = counted(create(None, "SKX:LNL-P"), "add", "store", "vector", "load")
    units = {name: value for name, value in found.items() if name.startswith("unit_") and value}
    assert units == {"unit_INT": 1, "unit_ALU": 1, "unit_LOAD": 1, "unit_STA": 1, "unit_STD": 1}


@pytest.mark.parametrize(("name", "expected"), [("SKX:ZEN2", 1), ("SKX:ARL-E", 2)])
def test_ports_of_one_kind_count_only_its_uops(name: str, expected: int) -> None:
    backend = create(None, name)
    found = counted(backend, "add", "add", "vector", "store")
    assert sum(found[port] for port in some(backend.info().ports)) == pytest.approx(expected)


def test_a_machine_says_whose_counters_it_has() -> None:
    info = create(None, "SKX:zen2").info()
    assert info.port_kind == "FP"
    assert "uops_executed" not in info.counters
    assert any("Zen 2" in one for one in info.caveats)
