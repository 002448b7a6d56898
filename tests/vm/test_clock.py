"""Without a PMU the module measures by APERF, else by the clock; here both count what is known."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from runner.host.interrupts.sample import OFFSETS
from tests.nonempty import some
from tests.vm.machines import images, kernels
from tests.vm.machines.cache import Unavailable
from tests.vm.machines.kernels import KernelImage
from tests.vm.machines.machine import ICOUNT, Machine, MachineOutput, boot
from tests.vm.pmu.fakepmu import free_running_records
from tests.vm.pmu.reads import check_reads
from tests.vm.pmu.simulate import record, summary
from xed_convert.catalogue.catalogue import Catalogue

pytestmark = pytest.mark.vm

LOOP_INSTRUCTIONS = 2
CHAIN = 100 * (30 + LOOP_INSTRUCTIONS)
PROBE_LEAST = 4 * 400 * 8
SCRIPT = """
export UOPSCOPE_UNGUARDED=1 NO_COLOR=1 TERM=dumb COLUMNS=250
insmod /uopscope.ko
python -m tests.vm.inside.clock
python -m runner.cli.characterize --backend kmod --instr "LAHF" --csv /tmp/table.csv >/tmp/output 2>&1
echo "CODE $?"
sed 's/^/OUT /' /tmp/output; sed 's/^/CSV /' /tmp/table.csv
python -m runner.cli.uopscope interrupts --source kmod --asm "imul rax, rax; nop" --samples 100 --rounds 1 \
    --json /tmp/landed.json 2>&1 | sed 's/^/TABLE /'
sed 's/^/LANDED /' /tmp/landed.json
"""
LOOP = ("IMUL RAX,RAX", "NOP", "DEC R15", "JNE 0")
CALIBRATION_CORE_CYCLES = 90
"""Of one of the chain's 100 iterations."""


def test_without_a_pmu_the_clock_is_what_counts(one_kernel: KernelImage) -> None:
    try:
        machine = Machine(one_kernel, 1, memory_mib=1024, arguments=(*ICOUNT, *images.drives()))
        output = boot(machine, {"/uopscope.ko": kernels.module(one_kernel)}, images.mount_script(warm=True) + SCRIPT)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.ended, output.everything
    assert output.complaints == "", output.everything
    (line,) = [line for line in output.lines if line.startswith("REPORT ")]
    check_report(json.loads(line.removeprefix("REPORT ")))
    assert "CODE 0" in output.lines, output.text
    assert any(line.startswith("OUT ") and "no PMU counts core cycles here" in line for line in output.lines)
    rows = list(csv.DictReader(line.removeprefix("CSV ") for line in output.lines if line.startswith("CSV ")))
    assert [row["iform"] for row in rows] == ["LAHF"] * len(rows) != []
    check_interrupts(output)


def check_report(report: dict[str, Any]) -> None:
    assert report["counters"] == ["tsc", "calibration", "contention_probe"]
    assert report["ports"] == []
    assert (report["iterations"], report["core_cycles"]) == (100, 9000)
    few, many, fenced, wrong, privileged = report["results"]
    assert [each[0] for each in (few, many, fenced, privileged)] == ["ok"] * 4
    difference = {b - a for a, b in zip(few[1]["tsc"], many[1]["tsc"], strict=True)}
    assert difference == {100}
    assert {*few[1]["calibration"], *many[1]["calibration"], *fenced[1]["calibration"]} == {CHAIN}
    assert min(few[1]["contention_probe"]) > PROBE_LEAST
    assert wrong[0] == "faulted"
    assert wrong[2] == "#UD invalid opcode in the body at offset 1 (copy 0)"


def check_interrupts(output: MachineOutput) -> None:
    """Where every instruction takes a nanosecond, `uopscope interrupts` catches each of them as often."""
    assert [line for line in output.lines if line.startswith("TABLE IMUL RAX,RAX ")], output.text
    (line,) = (line for line in output.lines if line.startswith("LANDED "))
    found = json.loads(line.removeprefix("LANDED "))
    assert [(one["source"], one["samples"] >= 90) for one in found["layouts"]] == [("kmod", True)] * len(OFFSETS)
    assert [one["text"] for one in found["instructions"]] == list(LOOP)
    for one in some(found["instructions"]):
        assert one["measured"] == pytest.approx(1 / len(LOOP), abs=0.1)
    expected = CALIBRATION_CORE_CYCLES * len(LOOP) / (30 + LOOP_INSTRUCTIONS)
    assert found["core_cycles"] == pytest.approx(expected, rel=0.01)


APERF_SCRIPT = """
insmod /uopscope.ko leave_rdpmc=1; insmod /fakepmu.ko; cat /pmu /records > /dev/fakepmu
python -m tests.vm.inside.campaign /names 2>&1
echo MISSING $(cat /sys/module/fakepmu/parameters/missing) READS $(cat /sys/module/fakepmu/parameters/reads)
"""


def test_without_a_pmu_core_cycles_are_those_of_aperf(one_kernel: KernelImage, tmp_path: Path) -> None:
    """Latencies and throughputs in the guest are those that the simulator gives directly; ports are unknown."""
    names = ["ADC_11 (R64, R64)", *(variant.string for variant in Catalogue.load().find("BSWAP"))]
    found, records = record("HSW", None, names)
    (tmp_path / "pmu").write_bytes(free_running_records())
    (tmp_path / "records").write_bytes(records)
    (tmp_path / "names").write_text("\n".join(names))
    files = {"/uopscope.ko": kernels.module(one_kernel), "/fakepmu.ko": kernels.fake(one_kernel) / "fakepmu.ko"}
    files |= {f"/{name}": tmp_path / name for name in ("pmu", "records", "names")}
    try:
        machine = Machine(one_kernel, 2, memory_mib=1024, arguments=images.drives())
        output = boot(machine, files, images.mount_script() + APERF_SCRIPT, 1600)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.complaints == "", output.everything
    results = {line.removeprefix("RESULT ") for line in output.lines if line.startswith("RESULT ")}
    assert results == {summary(result) for result in found.values()}, output.text
    assert all(result.latencies and not result.failures for result in found.values())
    assert any(line.startswith("CAVEAT ") and "core cycles by APERF" in line for line in output.lines), output.text
    check_reads(output)
