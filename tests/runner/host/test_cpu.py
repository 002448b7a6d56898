"""CPUID, and on which CPU of the host is measured."""

import dataclasses
import os
from pathlib import Path

import pytest

from runner.backend import BackendError
from runner.host import cpu
from runner.host.cpu import choose, provenance, read_cpu
from runner.host.native.cpuid import cpuid


def test_cpuid_agrees_with_linux() -> None:
    here = read_cpu(choose())
    _, ebx, ecx, edx = cpuid(0, 0, here.number)
    assert b"".join(part.to_bytes(4, "little") for part in (ebx, edx, ecx)).decode() == here.identity.vendor
    eax = cpuid(1)[0]
    family = (eax >> 8 & 15) + (eax >> 20 & 0xFF if eax >> 8 & 15 == 15 else 0)
    assert family == here.identity.family
    assert eax & 15 == here.identity.stepping


def test_a_leaf_beyond_the_highest_is_zero() -> None:
    assert cpuid(0x0FFFFFFF) == (0, 0, 0, 0)


def test_pinning_for_cpuid_is_undone() -> None:
    before = os.sched_getaffinity(0)
    cpuid(0, 0, max(before))
    assert os.sched_getaffinity(0) == before


def test_a_cpu_that_is_not_there() -> None:
    with pytest.raises(BackendError, match="CPU 4711"):
        choose(4711)
    with pytest.raises(BackendError, match="4711"):
        read_cpu(4711)


def test_on_hybrid_cpus_a_performance_core_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = tmp_path / "cpus"
    monkeypatch.setattr(cpu, "PERFORMANCE_CORES", listed)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(12)))
    assert choose() == 11
    listed.write_text("0-5,7\n", encoding="ascii")
    assert choose() == 7
    assert choose(9) == 9


def test_provenance_says_where_and_with_what() -> None:
    here = read_cpu(choose())
    found = provenance(here, "tsc", {"cpu": "0"}, ("a caveat",))
    assert found.cpu in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    family, model, stepping = (int(part, 16) for part in found.cpu_signature.split("-"))
    assert (family, model, stepping) == (here.identity.family, here.identity.model, here.identity.stepping)
    assert found.kernel.startswith("Linux ")
    assert not found.is_model


@pytest.mark.parametrize(("wanted", "is_simulated"), [("skl", True), ("KNL", False), ("ZEN3", False)])
def test_only_machines_that_can_be_simulated_are_suggested(wanted: str, *, is_simulated: bool) -> None:
    here = read_cpu(choose())
    other = dataclasses.replace(here, identity=dataclasses.replace(here.identity, family=6, model=0x3C))
    with pytest.raises(BackendError) as raised:
        cpu.check_architecture(other, wanted)
    assert ("--backend sim" in raised.value.hint) == is_simulated
