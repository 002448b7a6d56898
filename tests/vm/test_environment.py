"""What a batch may ask for beside its code: the size of R14's area, contiguous or not, and idle siblings."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

import pytest

from runner.host.kmod.abi import BatchFlag
from tests.vm.machines.cache import Unavailable
from tests.vm.machines.machine import Machine, boot
from tests.vm.machines.programs import program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.vm.machines.kernels import KernelImage

pytestmark = pytest.mark.vm

TOPOLOGY = ("-smp", "4,sockets=1,cores=2,threads=2")
PAGED, CONTIGUOUS, PARK = 0, BatchFlag.CONTIGUOUS.value, BatchFlag.PARK.value
SIZES = (0, 0x10000, 0x30000, 0x800000, 0x1010000)
TOO_LARGE, NO_MULTIPLE, MORE_THAN_THERE_IS = 0x40010000, 0x8000, 0x30000000
CPU, SIBLING, OF_OTHER_CORE = 1, 0, 2
SCRIPT = "\n".join(
    [
        "insmod /uopscope.ko",
        *(f"environment area {CPU} {flags} {size}" for flags in (PAGED, CONTIGUOUS) for size in SIZES),
        *(f"environment area {CPU} {CONTIGUOUS} {size}" for size in (TOO_LARGE, NO_MULTIPLE, MORE_THAN_THERE_IS, 0)),
        *(f"environment busy {CPU} {flags} {SIBLING}" for flags in (PAGED, PARK)),
        f"environment busy {CPU} {PARK} {OF_OTHER_CORE}",
        "rmmod uopscope; grep -c uops /proc/vmallocinfo",
    ]
)


def test_areas_have_the_size_that_is_asked_for_and_siblings_are_idle(kernel: KernelImage, module: Path) -> None:
    """The ends of each area can be read and what is behind them cannot; only a sibling's process has to wait."""
    files = {"/uopscope.ko": module, "/bin/environment": program("environment")}
    try:
        output = boot(Machine(kernel, 4, model="Haswell", arguments=TOPOLOGY), files, SCRIPT)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.ended, output.everything
    assert output.complaints == "", output.everything
    areas = [
        tuple(map(int, found))
        for found in re.findall(r"^area (\d+) errno (\d+) ends (.) (.)$", output.text, re.MULTILINE)
    ]
    assert areas[: 2 * len(SIZES)] == [(size, 0, 2, 2) for size in SIZES * 2], output.text
    assert areas[2 * len(SIZES) :] == [
        (TOO_LARGE, errno.E2BIG, 0, 0),
        (NO_MULTIPLE, errno.EINVAL, 0, 0),
        (MORE_THAN_THERE_IS, errno.ENOMEM, 0, 0),
        (0, 0, 2, 2),
    ], output.text
    shares = [
        tuple(map(int, found))
        for found in re.findall(r"^busy (\d+) of .* errno (\d+) status (\d)$", output.text, re.MULTILINE)
    ]
    assert [rest for _, *rest in shares] == [[0, 1]] * 3, output.text
    usual, parked, elsewhere = (share for share, *_ in shares)
    assert usual > 50, output.text
    assert parked < usual / 3, output.text
    assert elsewhere > 50, output.text
    assert output.lines[-1] == "0"
