"""Exact instruction counts where the guest's clock counts instructions (-icount), and how fast a batch is."""

import re
from pathlib import Path

import pytest

from generator.harness.harness import render
from generator.microbenchmark import Line, Microbenchmark
from tests.vm.cache import Unavailable
from tests.vm.kernels import KernelImage
from tests.vm.machine import Machine, MachineOutput, boot
from tests.vm.programs import program

pytestmark = pytest.mark.vm

ADD = Microbenchmark((), (Line(bytes.fromhex("4801c0"), "ADD RAX, RAX"),), "counting")
COPIES = (10, 100)
REPETITIONS = 20
UNGUARDED = 4
MOST_QUIET_NS = 100_000
"""Around an empty blob, at a nanosecond per instruction."""
ICOUNT = ("-icount", "shift=0,sleep=off")
"""One nanosecond per instruction, and a TSC of 1 GHz: the clock counts instructions, whatever the host does."""


def run(machine: Machine, module: Path, files: dict[str, Path], script: str) -> MachineOutput:
    try:
        every = {"/uopscope.ko": module, "/bin/runblob": program("runblob"), **files}
        output = boot(machine, every, f"insmod /uopscope.ko\n{script}\n")
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.complaints == "", output.everything
    return output


def test_with_icount_90_more_instructions_count_90_more(kernel: KernelImage, module: Path, tmp_path: Path) -> None:
    files = {}
    for copies in COPIES:
        (tmp_path / f"blob{copies}").write_bytes(render(ADD, copies))
        files[f"/blob{copies}"] = tmp_path / f"blob{copies}"
    machine = Machine(kernel, 1, arguments=ICOUNT)
    script = f"for again in 1 2; do runblob {UNGUARDED} {REPETITIONS} /blob10 /blob100; done"
    output = run(machine, module, files, script)
    found: dict[str, list[tuple[int, ...]]] = {}
    for match in re.finditer(r"^SAMPLES /(\w+) status 1 (.*)$", output.text, re.MULTILINE):
        found.setdefault(match[1], []).append(tuple(map(int, match[2].split())))
    assert [len(runs) for runs in found.values()] == [2, 2], output.text
    few, many = (found[f"blob{copies}"] for copies in COPIES)
    assert len({*few[0], *few[1]}) == 1
    assert {b - a for a, b in zip(few[0] + few[1], many[0] + many[1], strict=True)} == {90}


def test_a_batch_of_jobs_costs_less_than_an_ioctl_for_each(kernel: KernelImage, module: Path) -> None:
    """Counted in instructions, so that a busy host changes nothing; an ioctl starts the guard on a second CPU."""
    script = "runblob speed 4000 1; runblob speed 500 20"
    output = run(Machine(kernel, 2, arguments=ICOUNT), module, {}, script)
    form = r"^SPEED jobs \d+ repetitions \d+ batch (\d+)/s single (\d+)/s outside-blob ([\d.]+) max-quiet-ns (\d+)"
    one, many = re.finditer(form, output.text, re.MULTILINE)
    assert int(one[1]) > int(one[2]), output.text
    assert 0 < float(many[3]) < 1
    assert int(many[4]) < MOST_QUIET_NS
