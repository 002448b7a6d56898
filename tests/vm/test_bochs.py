"""Bad code on a CPU with IBT and PCID, whose exceptions and MSRs are more like a real one's than those of QEMU."""

import os
import re

import pytest

from tests.vm import bochs, kernels
from tests.vm.bochs import BochsMachine
from tests.vm.cache import Unavailable
from tests.vm.conftest import kernel_or_skip
from tests.vm.programs import program
from tests.vm.test_contain import KINDS, check

pytestmark = pytest.mark.vm

MODELS = os.environ.get("UOPSCOPE_BOCHS_MODELS", "tigerlake").split(",")
"""sapphire_rapids has AMX, too."""
FEATURES = {"ibt", "pcid", "x2apic", "tsc_deadline_timer", "fsgsbase", "ibrs"}
SCRIPT = """
insmod /uopscope.ko; grep -m1 ^flags /proc/cpuinfo
contain 1 1 0 -breakpoint; contain 1 1 0 only_cr4_reserved
"""
"""Two kinds are left out, which stop Bochs 3.0 for good: `breakpoint` and `only_apic_off` (docs/kmod.md)."""


@pytest.mark.parametrize("model", MODELS)
def test_every_kind_of_bad_code_is_contained(model: str) -> None:
    newest = kernel_or_skip("newest")
    files = {"/uopscope.ko": kernels.module(newest), "/bin/contain": program("contain", "blobs.S")}
    try:
        output = bochs.boot(BochsMachine(newest, model), files, SCRIPT)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.ended, output.everything
    assert output.complaints == "", output.everything
    flags = re.search(r"^flags\s*: (.*)$", output.text, re.MULTILINE)
    assert flags
    assert set(flags[1].split()) >= FEATURES
    whole, reserved = (match for line in output.lines if (match := re.match(r"contain: (\d+) kinds", line)))
    assert (int(whole[1]), int(reserved[1])) == (KINDS - 1, 1)
    check(output.lines, 1, 1)
