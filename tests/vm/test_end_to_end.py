"""The real module, ioctl, backend and inference in a guest whose PMU counts what a simulated core would."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from results.model import PortUsage
from runner.backends.sim import create
from runner.host.kmod import selftest
from runner.host.kmod.passes import Hardware
from simulator.machines.machine import MachineModel
from simulator.machines.shipped import load_machine
from tests.effort import LONG
from tests.effort import sample as sample_size
from tests.nonempty import some
from tests.vm.conftest import KERNELS
from tests.vm.machines import images, kernels
from tests.vm.machines.cache import Unavailable
from tests.vm.machines.kernels import KernelImage
from tests.vm.machines.machine import Machine, MachineOutput, boot
from tests.vm.pmu.cores import CORES
from tests.vm.pmu.reads import check_reads
from tests.vm.pmu.recording import RecordingKmod
from tests.vm.pmu.sample import sample
from tests.vm.pmu.simulate import record, summary
from xed_convert.catalogue.catalogue import Catalogue

pytestmark = pytest.mark.vm

CORE = "HSW"
MODEL = "Haswell"
HARDWARE = Hardware.of_counts(CORES[CORE].programmable, CORES[CORE].fixed, 0xFFEFFFFF & ~0x00530000 | 0x00240000)
SELFTEST = """
insmod /uopscope.ko leave_rdpmc=1; insmod /fakepmu.ko
echo "--- part selftest"
cat /pmu /selftest > /dev/fakepmu; python -m runner.cli.uopscope selftest 2>&1; echo CODE $?
export NO_COLOR=1 TERM=dumb COLUMNS=250
characterize() {
    cat /pmu /records > /dev/fakepmu
    python -m runner.cli.characterize --backend kmod --instr "$1" --csv /tmp/adc.csv >/tmp/table
    cat /tmp/table; sed 's/^/CSV /' /tmp/adc.csv; rm /tmp/adc.csv
    echo MISSING $(cat /sys/module/fakepmu/parameters/missing) READS $(cat /sys/module/fakepmu/parameters/reads)
}
"""
CHARACTERIZED = {
    "2 CPUs": """
echo "--- part 2 CPUs"
characterize ADC_GPRv_GPRv
""",
    "1 CPU": """
echo "--- part 1 CPU"
echo 0 > /sys/devices/system/cpu/cpu1/online
export UOPSCOPE_UNGUARDED=1
characterize ADC_GPRv_GPRv_11
echo "ONLINE $(cat /sys/devices/system/cpu/online)"
""",
}
"""By online CPUs. The calibration before each takes most of the time, so a kernel has one of them, or all if LONG."""
NAMES = {
    cpus: tuple(f"ADC_{form} (R{bits}, R{bits})" for form in forms for bits in (16, 32, 64))
    for cpus, forms in {"2 CPUs": (11, 13), "1 CPU": (11,)}.items()
}
NOT_LIKE_A_CPU = {"WRMSR of a register that is not there", "the module is as shipped"}
"""TCG ignores missing registers, and the module was loaded for the emulated PMU."""


@pytest.fixture(scope="module")
def parts(
    kernel: KernelImage, module: Path, fake: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, MachineOutput]:
    """Boot once; return what each part of the script printed."""
    folder = tmp_path_factory.mktemp("records")
    files = {"/uopscope.ko": module, "/fakepmu.ko": fake / "fakepmu.ko"}
    files |= {f"/{name}": folder / name for name in ("pmu", "records", "selftest")}
    (folder / "pmu").write_bytes(CORES[CORE].records())
    (folder / "records").write_bytes(record(CORE, HARDWARE, NAMES["2 CPUs"])[1])
    recorder = RecordingKmod(create(architecture=CORE), CORE, HARDWARE, clean_uppers=True)
    assert all(check.passed for check in selftest.counter_checks(recorder))
    (folder / "selftest").write_bytes(recorder.records())
    machine = Machine(kernel, 2, model=MODEL, memory_mib=1024, arguments=images.drives())
    script = images.mount_script(warm=True) + SELFTEST + "".join(CHARACTERIZED[cpus] for cpus in asked(kernel))
    output = run(machine, files, script)
    found = re.split(r"^--- part (.*)\n", output.text, flags=re.MULTILINE)[1:]
    return {name: replace(output, text=text) for name, text in zip(found[::2], found[1::2], strict=True)}


def asked(kernel: KernelImage) -> list[str]:
    """Return the parts that characterize on this kernel: all if LONG, else one by turns."""
    turn = KERNELS.index(kernel.name) % len(CHARACTERIZED)
    return list(CHARACTERIZED) if LONG else [list(CHARACTERIZED)[turn]]


def run(machine: Machine, files: dict[str, Path], script: str) -> MachineOutput:
    try:
        output = boot(machine, files, script, 1600)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.ended, output.everything
    assert output.complaints == "", output.everything
    return output


def test_selftest_passes_but_for_what_the_emulation_does_otherwise(parts: dict[str, MachineOutput]) -> None:
    output = parts["selftest"]
    checks = [line.partition("  ") for line in output.lines if line[:4] in ("ok  ", "!!  ", "--  ")]
    failed = {name.partition(":")[0].partition(" (")[0] for mark, _, name in checks if mark != "ok"}
    assert failed == NOT_LIKE_A_CPU, output.text
    assert len(checks) > 20
    assert any("IMUL RAX, RAX: 3 cycles (3.000)" in name for _, _, name in checks), output.text
    assert "CODE 1" in output.lines


def test_characterize_in_the_guest_finds_what_the_model_has(
    kernel: KernelImage, parts: dict[str, MachineOutput]
) -> None:
    for cpus in some(asked(kernel)):
        output = parts[cpus]
        rows = [line for line in output.lines if line.startswith("CSV ")]
        assert len(rows) >= len(NAMES[cpus]), output.everything
        for name in some(NAMES[cpus]):
            assert any(name in row and "1*p0156+1*p06" in row for row in rows), output.everything
        check_reads(output)
        assert ("ONLINE 0" in output.lines) == (cpus == "1 CPU")


MANY = int(os.environ.get("UOPSCOPE_VM_VARIANTS", sample_size(8, 30)))
MANY_SCRIPT = """
insmod /uopscope.ko leave_rdpmc=1; insmod /fakepmu.ko; cat /pmu /records > /dev/fakepmu
python -m tests.vm.inside.campaign /names 2>&1
echo MISSING $(cat /sys/module/fakepmu/parameters/missing) READS $(cat /sys/module/fakepmu/parameters/reads)
"""


def test_many_variants_come_out_as_the_model_has_them(one_kernel: KernelImage, tmp_path: Path) -> None:
    """Every conclusion in the guest is the one that the simulator gives directly, and the ports are the model's."""
    strings = sample(CORE, MANY)
    found, records = record(CORE, HARDWARE, strings)
    model, catalogue = load_machine(CORE), Catalogue.load()
    as_modelled = [name for name, result in found.items() if result.ports == truth(model, catalogue, name)]
    assert len(as_modelled) >= MANY - max(1, MANY // 50)
    (tmp_path / "pmu").write_bytes(CORES[CORE].records())
    (tmp_path / "records").write_bytes(records)
    (tmp_path / "names").write_text("\n".join(strings))
    files = {"/uopscope.ko": kernels.module(one_kernel), "/fakepmu.ko": kernels.fake(one_kernel) / "fakepmu.ko"}
    files |= {f"/{name}": tmp_path / name for name in ("pmu", "records", "names")}
    machine = Machine(one_kernel, 2, model=MODEL, memory_mib=1024, arguments=images.drives())
    output = run(machine, files, images.mount_script() + MANY_SCRIPT)
    results = {line.removeprefix("RESULT ") for line in output.lines if line.startswith("RESULT ")}
    assert results == {summary(result) for result in found.values()}
    check_reads(output)


def truth(model: MachineModel, catalogue: Catalogue, name: str) -> PortUsage | None:
    return model.truth(catalogue.by_string(name)).ports
