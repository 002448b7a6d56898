"""In a guest that sees two threads per core, the clock backend keeps the other thread idle, or says why it cannot.

Debian's cloud kernels have no core scheduling (CONFIG_SCHED_CORE): there the refusal is what is seen.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.vm.machines import images
from tests.vm.machines.cache import Unavailable
from tests.vm.machines.machine import Machine, boot

if TYPE_CHECKING:
    from tests.vm.machines.kernels import KernelImage

pytestmark = pytest.mark.vm

TOPOLOGY = ("-smp", "4,sockets=1,cores=2,threads=2")
CPU = 1


def test_a_busy_process_waits_only_on_the_sibling_and_only_if_that_is_asked_for(one_kernel: KernelImage) -> None:
    try:
        machine = Machine(one_kernel, 4, model="Haswell", memory_mib=1024, arguments=(*TOPOLOGY, *images.drives()))
        script = f"{images.mount_script()}python -m tests.vm.inside.siblings {CPU} 2>&1\n"
        output = boot(machine, {}, script, 600)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.complaints == "", output.everything
    assert f"SIBLINGS {CPU} [0]" in output.lines, output.everything
    if "CONFIG_SCHED_CORE=y" not in (one_kernel.build / ".config").read_text().splitlines():
        assert "this kernel cannot keep CPU 0 idle, which shares the core: it has no core scheduling" in output.text
        return
    rows = re.findall(r"^SHARE (\w+) ([01]) (\d+) .*?(by core scheduling)?$", output.text, re.MULTILINE)
    shares = {(name, asked == "1"): int(share) for name, asked, share, _ in rows}
    assert [bool(said) for *_, said in rows] == [False, True] * 2, output.text
    assert shares["sibling", True] < 15, output.text
    assert min(shares["sibling", False], shares["elsewhere", True], shares["elsewhere", False]) > 40, output.text
