"""Machines that were read before: the same ones, only of the same file, and only from this user's own folder."""

from __future__ import annotations

import lzma
import os
import pickle
from typing import TYPE_CHECKING

import pytest

from results.campaign.packed import SQLITE
from results.machine import cached, file
from results.machine.cached import KEPT, LOG_SUFFIX, VARIABLE, kept_or_read
from results.machine.file import read_machine, read_machines
from tests.nonempty import some
from tests.shared import measured_haswell
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SAMPLE = """<?xml version="1.0"?>
<root><extension name="BASE"><instruction asm="ADC" category="BINARY" cpl="3" extension="BASE" iclass="ADC"
 iform="ADC_GPRv_GPRv_13" isa-set="I86" string="ADC_13 (R64, R64)">
<operand idx="1" r="1" type="reg" w="1" width="64">RAX,RCX</operand>
<operand idx="2" r="1" type="reg" width="64">RAX,RCX</operand>
<architecture name="HSW"><measurement TP="1.00" uops="2" ports="2*p0156"/></architecture>
<architecture name="SKL"><measurement TP="0.50" uops="1" ports="1*p06"/></architecture>
</instruction></extension></root>
"""


class CountedReadings:
    """Counts how often files are really read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        real = file._read

        def counted(path: Path, names: Sequence[str], core: None) -> list[file.MachineFile]:
            self.names += names
            return real(path, names, core)

        monkeypatch.setattr(file, "_read", counted)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder where machines are kept."""
    folder = tmp_path / "kept"
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> CountedReadings:
    return CountedReadings(monkeypatch)


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.xml"
    path.write_text(SAMPLE, encoding="utf-8")
    return path


def kept(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_a_kept_machine_is_the_one_that_was_read(folder: Path, readings: CountedReadings) -> None:
    path = measured_haswell()
    first, second = read_machine(path), read_machine(path)
    assert readings.names == [""]
    assert first == second
    assert len(kept(folder)) == 1
    variants = [variant for variant in Catalogue.load() if first.row(variant) is not None][::50]
    assert all(first.behaviour(variant) == second.behaviour(variant) for variant in some(variants))


def test_each_architecture_is_kept_apart_whatever_the_case_of_its_name(
    folder: Path, readings: CountedReadings, sample: Path
) -> None:
    assert [one.architecture for one in read_machines(sample, ["HSW", "SKL"])] == ["HSW", "SKL"]
    assert read_machine(sample, "skl").architecture == "SKL"
    assert readings.names == ["HSW", "SKL"]
    assert len(kept(folder)) == 2


def test_a_changed_file_is_read_again(folder: Path, readings: CountedReadings, sample: Path) -> None:
    before = read_machine(sample, "HSW")
    sample.write_text(SAMPLE.replace('TP="1.00"', 'TP="2.00"'), encoding="utf-8")
    after = read_machine(sample, "HSW")
    found = [(one.by_string["ADC_13 (R64, R64)"].result.measurement or {})["TP"] for one in (before, after)]
    assert found == ["1.00", "2.00"]
    assert readings.names == ["HSW", "HSW"]
    assert len(kept(folder)) == 2


def test_what_sqlite_has_not_yet_put_into_the_file_counts(folder: Path, tmp_path: Path) -> None:
    path, readings = tmp_path / "my.sqlite", []

    def read() -> list[str]:
        readings.append("HSW")
        return ["a machine"]

    log = path.with_name(path.name + LOG_SUFFIX)
    for changed, text in ((path, SQLITE), (log, b"more"), (log, b"and more"), (path, SQLITE + b"all")):
        changed.write_bytes(text)
        assert [kept_or_read(path, ["HSW"], read) for _ in range(2)] == [["a machine"]] * 2
    assert readings == ["HSW"] * 4
    assert len(kept(folder)) == 4


def test_a_file_that_changes_while_it_is_read_is_not_kept(
    folder: Path, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = file._read

    def changing(path: Path, names: Sequence[str], core: None) -> list[file.MachineFile]:
        sample.write_text(SAMPLE + "\n", encoding="utf-8")
        return real(path, names, core)

    monkeypatch.setattr(file, "_read", changing)
    assert read_machine(sample, "HSW").architecture == "HSW"
    assert not folder.exists()


def test_other_code_reads_anew(
    folder: Path, readings: CountedReadings, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_machine(sample, "HSW")
    monkeypatch.setattr(cached, "hash_of_sources", lambda _: "other")
    read_machine(sample, "HSW")
    assert readings.names == ["HSW", "HSW"]
    assert len(kept(folder)) == 2


def test_a_damaged_one_is_read_anew_and_replaced(folder: Path, readings: CountedReadings, sample: Path) -> None:
    read_machine(sample, "HSW")
    (place,) = kept(folder)
    whole = place.read_bytes()
    place.write_bytes(whole[: len(whole) // 2])
    read_machine(sample, "HSW")
    assert readings.names == ["HSW", "HSW"]
    assert place.read_bytes() == whole


@pytest.mark.parametrize("open_to_others", ["the folder", "the file"])
def test_what_others_can_write_to_is_never_unpickled(
    folder: Path, readings: CountedReadings, sample: Path, monkeypatch: pytest.MonkeyPatch, open_to_others: str
) -> None:
    read_machine(sample, "HSW")
    (place,) = kept(folder)
    (folder if open_to_others == "the folder" else place).chmod(0o777)

    def refused(_: bytes) -> None:
        raise AssertionError("somebody else's file was unpickled")

    monkeypatch.setattr(pickle, "loads", refused)
    assert read_machine(sample, "HSW").architecture == "HSW"
    assert readings.names == ["HSW", "HSW"]


def test_the_home_of_another_user_is_left_alone(
    readings: CountedReadings, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    read_machine(sample, "HSW")
    read_machine(sample, "HSW")
    assert readings.names == ["HSW", "HSW"]
    assert not (tmp_path / "home").exists()


def test_nothing_is_kept_where_the_variable_is_empty_or_the_folder_cannot_be(
    readings: CountedReadings, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for named in ("", str(sample / "no_folder")):
        monkeypatch.setenv(VARIABLE, named)
        read_machine(sample, "HSW")
        read_machine(sample, "HSW")
    assert readings.names == ["HSW"] * 4


def test_only_the_last_ones_stay(folder: Path, sample: Path, readings: CountedReadings) -> None:
    read_machine(sample, "HSW")
    (first,) = kept(folder)
    os.utime(first, (0, 0))
    others = [folder / f"{number}.machine" for number in range(KEPT)]
    for other in others:
        other.write_bytes(lzma.compress(b""))
    read_machine(sample, "SKL")
    assert readings.names == ["HSW", "SKL"]
    assert len(kept(folder)) == KEPT
    assert first not in kept(folder)
