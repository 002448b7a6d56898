"""Reading a machine from an instructions.xml: which variant is found, and what wrong files are."""

from __future__ import annotations

import lzma
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from results.database.reader import DatabaseError
from results.machine.facts import facts_of
from results.machine.file import read_machine
from results.machine.graph import ModelError, UopKind
from results.machine.latencies import overlap_cycles
from results.shipped import shipped_database
from tests.shared import measured_haswell
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from pathlib import Path


def changed(tmp_path: Path, old: str, new: str) -> Path:
    """Return the sample with the first occurrence of a text replaced."""
    text = lzma.decompress(measured_haswell().read_bytes()).decode()
    assert old in text
    path = tmp_path / "changed.xml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def test_a_variant_is_found_by_its_key_where_its_string_is_another(tmp_path: Path) -> None:
    path = changed(tmp_path, 'string="MULX (R64, R64, R64)"', 'string="MULX (r64, r64, r64)"')
    variant = Catalogue.load().by_string("MULX (R64, R64, R64)")
    row = read_machine(path).row(variant)
    assert row is not None
    assert row.string == "MULX (r64, r64, r64)"


def test_a_variant_with_other_operands_is_not_found() -> None:
    variant = Catalogue.load().by_string("MULX (R64, R64, R64)")
    machine = read_machine(measured_haswell())
    assert machine.behaviour(variant) is not None
    fewer = replace(variant, operands=variant.operands[:-1])
    assert read_machine(measured_haswell()).behaviour(fewer) is None


def test_an_architecture_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ModelError) as caught:
        read_machine(measured_haswell(), "SKL")
    assert "HSW" in caught.value.hint


def test_a_number_that_is_none_is_left_out_and_one_of_another_form_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, 'uops_MITE="1"', 'uops_MITE="-1"')
    machine, repaired = read_machine(measured_haswell()), read_machine(path)
    lacking = [
        key
        for key, row in machine.by_key.items()
        if "uops_MITE" in (row.result.measurement or {})
        and "uops_MITE" not in (repaired.by_key[key].result.measurement or {})
    ]
    assert len(lacking) == 1
    row = next(iter(machine.by_key.values()))
    assert row.result.measurement is not None
    with pytest.raises(ValueError, match="four"):
        facts_of(replace(row.result, measurement={**row.result.measurement, "uops": "four"}))


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.xml"
    path.write_text("<root><instruction", encoding="utf-8")
    with pytest.raises(DatabaseError):
        read_machine(path)


def test_a_core_without_constants_is_refused(tmp_path: Path) -> None:
    text = lzma.decompress(measured_haswell().read_bytes()).decode()
    path = tmp_path / "P6.xml"
    path.write_text(text.replace('architecture name="HSW"', 'architecture name="P6"'), encoding="utf-8")
    with pytest.raises(ModelError, match="P6"):
        read_machine(path)


def test_what_is_shipped_makes_machines() -> None:
    """Where ports were inferred by time IMUL has a port, elsewhere it occupies a unit of its own."""
    variant = Catalogue.load().by_string("IMUL (R64, R64)")
    for name, uops in (("ZEN4", 1), ("ZEN5", 0)):
        behaviour = read_machine(shipped_database(), name).behaviour(variant)
        assert behaviour is not None
        assert behaviour.port_usage.total == uops
        assert (behaviour.occupies > 0) == (uops == 0)


def test_a_shipped_load_and_store_know_that_they_are() -> None:
    machine = read_machine(shipped_database(), "ZEN4")
    for string, kind in (("MOV (R64, M64)", UopKind.LOAD), ("MOV (M64, R64)", UopKind.STORE_DATA)):
        behaviour = machine.behaviour(Catalogue.load().by_string(string))
        assert behaviour is not None
        assert [uop.kind for uop in behaviour.uops if uop.ports] == [kind]


def test_the_way_through_memory_is_what_the_file_states_with_plain_loads(tmp_path: Path) -> None:
    assert read_machine(measured_haswell()).core.memory.stated == (4, 5)
    text = lzma.decompress(measured_haswell().read_bytes()).decode()
    at = text.index('string="MOV (R64, M64)"')
    path = tmp_path / "shorter.xml"
    path.write_text(text[:at] + text[at:].replace('cycles_mem="4"', 'cycles_mem="3"', 1), encoding="utf-8")
    machine = read_machine(path)
    assert machine.core.memory.stated == (3, 5)
    variant = Catalogue.load().by_string("MOV (R64, M64)")
    assert overlap_cycles(variant, machine.core) == 2


def test_of_a_file_of_several_cpus_only_the_one_that_is_asked_for_is_read(tmp_path: Path) -> None:
    other = '<architecture name="SKL"><measurement uops="1"><latency start_op="one" target_op="1"/></measurement>'
    path = changed(tmp_path, "</instruction>", f"{other}</architecture></instruction>")
    assert len(read_machine(path, "hsw")) == len(read_machine(measured_haswell()))
    with pytest.raises(DatabaseError, match="not of the known form"):
        read_machine(path, "SKL")
    with pytest.raises(ModelError, match="no measurements of IVB"):
        read_machine(measured_haswell(), "IVB")
