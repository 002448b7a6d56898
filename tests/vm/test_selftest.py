"""`uopscope selftest` in the guest: it passes, and notices what is not as on a real CPU."""

from pathlib import Path

import pytest

from runner.backends.sim import create
from runner.host.kmod import selftest
from tests.vm import images
from tests.vm.cache import Unavailable
from tests.vm.cores import CORES
from tests.vm.kernels import KernelImage
from tests.vm.machine import Machine, boot
from tests.vm.recording import RecordingKmod
from tests.vm.test_end_to_end import CORE, HARDWARE, LOAD, MODEL

pytestmark = pytest.mark.vm

NOT_LIKE_A_CPU = {"WRMSR of a register that is not there", "the module is as shipped"}
"""TCG ignores missing registers, and the module was loaded for the emulated PMU."""


def test_selftest_passes_but_for_what_the_emulation_does_otherwise(
    kernel: KernelImage, module: Path, fake: Path, tmp_path: Path
) -> None:
    recorder = RecordingKmod(create(architecture=CORE), CORE, HARDWARE, clean_uppers=True)
    assert all(check.passed for check in selftest.counter_checks(recorder))
    (tmp_path / "pmu").write_bytes(CORES[CORE].records())
    (tmp_path / "records").write_bytes(recorder.records())
    files = {"/uopscope.ko": module, "/fakepmu.ko": fake / "fakepmu.ko"}
    files |= {f"/{name}": tmp_path / name for name in ("pmu", "records")}
    script = images.mount_script() + LOAD + "python -m runner.cli.uopscope selftest 2>&1; echo CODE $?\n"
    try:
        machine = Machine(kernel, 2, model=MODEL, memory_mib=1024, arguments=images.drives())
        output = boot(machine, files, script)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.complaints == "", output.everything
    checks = [line.partition("  ") for line in output.lines if line[:4] in ("ok  ", "!!  ", "--  ")]
    failed = {name.partition(":")[0].partition(" (")[0] for mark, _, name in checks if mark != "ok"}
    assert failed == NOT_LIKE_A_CPU, output.text
    assert len(checks) > 20
    assert any("IMUL RAX, RAX: 3 cycles (3.000)" in name for _, _, name in checks), output.text
    assert "CODE 1" in output.lines
