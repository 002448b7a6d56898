"""The real module, ioctl, backend and inference in a guest whose PMU counts what a simulated core would."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from results.model import PortUsage
from runner.host.kmod.passes import Hardware
from simulator.machines.machine import MachineModel
from simulator.machines.shipped import load_machine
from tests.vm import images, kernels
from tests.vm.cache import Unavailable
from tests.vm.cores import CORES
from tests.vm.kernels import KernelImage
from tests.vm.machine import Machine, MachineOutput, boot
from tests.vm.reads import check_reads
from tests.vm.sample import sample
from tests.vm.simulate import record, summary
from xed_convert.catalogue.catalogue import Catalogue

pytestmark = pytest.mark.vm

CORE = "HSW"
MODEL = "Haswell"
HARDWARE = Hardware.of_counts(CORES[CORE].programmable, CORES[CORE].fixed, 0xFFEFFFFF & ~0x00530000 | 0x00240000)
LOAD = """
insmod /uopscope.ko leave_rdpmc=1; insmod /fakepmu.ko; cat /pmu /records > /dev/fakepmu
"""
AFTER = "echo MISSING $(cat /sys/module/fakepmu/parameters/missing) READS $(cat /sys/module/fakepmu/parameters/reads)\n"


@dataclass(frozen=True)
class Recorded:
    names: tuple[str, ...]
    summaries: frozenset[str]
    files: dict[str, Path]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    names = tuple(variant.string for variant in Catalogue.load().find("ADC_GPRv_GPRv"))
    found, records = record(CORE, HARDWARE, names)
    folder = tmp_path_factory.mktemp("records")
    (folder / "pmu").write_bytes(CORES[CORE].records())
    (folder / "records").write_bytes(records)
    (folder / "names").write_text("\n".join(names))
    files = {f"/{name}": folder / name for name in ("pmu", "records", "names")}
    return Recorded(names, frozenset(map(summary, found.values())), files)


def run(machine: Machine, files: dict[str, Path], script: str) -> MachineOutput:
    try:
        output = boot(machine, files, images.mount_script() + LOAD + script + AFTER, 1600)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.ended, output.everything
    assert output.complaints == "", output.everything
    return output


@pytest.mark.parametrize("cpus", [1, 4])
def test_characterize_in_the_guest_finds_what_the_model_has(
    kernel: KernelImage, module: Path, fake: Path, recorded: Recorded, cpus: int
) -> None:
    files = {"/uopscope.ko": module, "/fakepmu.ko": fake / "fakepmu.ko", **recorded.files}
    machine = Machine(kernel, cpus, model=MODEL, memory_mib=1024, arguments=images.drives())
    script = "export UOPSCOPE_UNGUARDED=1\n" if cpus == 1 else ""
    script += "export NO_COLOR=1 TERM=dumb COLUMNS=250\n"
    script += "python -m runner.cli.characterize --backend kmod --instr ADC_GPRv_GPRv --csv /tmp/adc.csv >/tmp/table\n"
    script += "cat /tmp/table; sed 's/^/CSV /' /tmp/adc.csv\n"
    output = run(machine, files, script)
    rows = [line for line in output.lines if line.startswith("CSV ")]
    assert len(rows) >= len(recorded.names), output.everything
    for name in recorded.names:
        assert any(name in row and "1*p0156+1*p06" in row for row in rows), output.everything
    check_reads(output)


MANY = int(os.environ.get("UOPSCOPE_VM_VARIANTS", "80"))


def test_many_variants_come_out_as_the_model_has_them(one_kernel: KernelImage, tmp_path: Path) -> None:
    """Every conclusion in the guest is the one that the simulator gives directly, and the ports are the model's."""
    names = sample(CORE, MANY)
    found, records = record(CORE, HARDWARE, names)
    model, catalogue = load_machine(CORE), Catalogue.load()
    as_modelled = [name for name, result in found.items() if result.ports == truth(model, catalogue, name)]
    assert len(as_modelled) >= MANY * 0.98
    (tmp_path / "pmu").write_bytes(CORES[CORE].records())
    (tmp_path / "records").write_bytes(records)
    (tmp_path / "names").write_text("\n".join(names))
    files = {"/uopscope.ko": kernels.module(one_kernel), "/fakepmu.ko": kernels.fake(one_kernel) / "fakepmu.ko"}
    files |= {f"/{name}": tmp_path / name for name in ("pmu", "records", "names")}
    machine = Machine(one_kernel, 2, model=MODEL, memory_mib=1024, arguments=images.drives())
    output = run(machine, files, "python -m tests.vm.inside.campaign /names 2>&1\n")
    results = {line.removeprefix("RESULT ") for line in output.lines if line.startswith("RESULT ")}
    assert results == {summary(result) for result in found.values()}
    check_reads(output)


def truth(model: MachineModel, catalogue: Catalogue, name: str) -> PortUsage | None:
    return model.truth(catalogue.by_string(name)).ports
