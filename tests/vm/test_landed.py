"""Interrupts at random times: they land in the loop, other CPUs' are answered, and bad code is contained with them.

With -icount every instruction takes a nanosecond, and QEMU takes an interrupt between any two. Else it takes them only
where a translated block ends. All CPUs share QEMU's thread then, and an access to the local APIC passes it on. So the
idle CPU has to halt: MWAIT, which Linux 7.3 prefers, is a loop under TCG.
"""

import errno
import re
from collections import Counter
from pathlib import Path

import pytest

from generator.harness.harness import RDTSC, BlobLayout, layout, render
from generator.microbenchmark import Line, Microbenchmark
from runner.host.interrupts.by_module import ENDLESS
from tests.nonempty import some
from tests.vm.cache import Unavailable
from tests.vm.kernels import KernelImage
from tests.vm.machine import Machine, MachineOutput, boot
from tests.vm.programs import program
from tests.vm.test_contain import KINDS
from tests.vm.test_timing import ICOUNT

pytestmark = pytest.mark.vm

LOOP = Microbenchmark(
    (),
    tuple(Line(bytes.fromhex(code), text) for code, text in (("480fafc0", "IMUL RAX, RAX"), ("90", "NOP"))) * 3,
    "a loop that is interrupted",
)
STARTS = (0, 4, 5, 9, 10, 14, 15, 18)
"""Of its instructions, DEC and JNE included, in bytes."""
SAMPLES = 200
DELAY_NS = 1_500_000
"""Longer than the other CPU's turns before the blob is entered."""
HALTS = "idle=halt"
ABOUT_INTERRUPTS = 3
"""Kinds that are about the interrupt flag, or about INT n without a stack."""
BLOBS = {
    "over": "c3",
    "masked": "faebfe",  # CLI; JMP $
    "no_stack": "31e4ebfe",  # XOR ESP, ESP; JMP $
    "int_timer": "cdec",
}
SCRIPT = f"""
insmod /uopscope.ko
landed 1 0 /loop {DELAY_NS} {SAMPLES}
echo "BLOB barriers"; landed 1 0 /loop 10000 {SAMPLES} barriers
for blob in {" ".join(BLOBS)}; do echo "BLOB $blob"; landed 1 0 /$blob {DELAY_NS} 2; done
echo "BLOB no_policy"; landed 1 2 /loop 10000 2
DELAY=20000 contain 1 1 0 -only_ any
DELAY=1000000000 contain 1 1 0
"""


def run(machine: Machine, files: dict[str, Path], script: str, seconds: float = 900) -> MachineOutput:
    try:
        output = boot(machine, files, script, seconds)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.ended, output.everything
    assert output.complaints == "", output.everything
    return output


def test_interrupts_land_in_the_loop_whatever_the_code_is(kernel: KernelImage, module: Path, tmp_path: Path) -> None:
    shape = layout(LOOP, 1, ENDLESS, RDTSC)
    (tmp_path / "loop").write_bytes(render(LOOP, 1, ENDLESS, RDTSC))
    for name, code in BLOBS.items():
        (tmp_path / name).write_bytes(bytes(8) + bytes.fromhex(code))
    files = {f"/{name}": tmp_path / name for name in ("loop", *BLOBS)}
    files |= {"/uopscope.ko": module, "/bin/contain": program("contain", "blobs.S")}
    files |= {"/bin/landed": program("landed", flags=("-pthread",))}
    output = run(Machine(kernel, 2, HALTS, arguments=ICOUNT), files, SCRIPT)
    first, *others = re.split(r"^BLOB (\w+)\n", output.text, flags=re.MULTILINE)
    check_loop(first, shape)
    check_blobs(dict(zip(others[::2], others[1::2], strict=True)))
    summaries = re.findall(r"^contain: (\d+) kinds, (\d+) runs, (\d+) failures", output.text, re.MULTILINE)
    kinds = str(KINDS - ABOUT_INTERRUPTS)
    assert summaries == [(kinds, kinds, "0")] * 2, output.text


def told(text: str) -> tuple[int, int, int, int]:
    """Return status, error, repetitions and answered barriers."""
    match = re.search(r"^LANDED status (\d+) error (-?\d+) repetitions (\d+) barriers (\d+)", text, re.MULTILINE)
    assert match, text
    return int(match[1]), int(match[2]), int(match[3]), int(match[4])


def samples(text: str) -> list[tuple[int, int]]:
    return [(int(offset), int(left)) for offset, left in re.findall(r"^AT (-?\d+) (\d+)", text, re.MULTILINE)]


def check_loop(text: str, shape: BlobLayout) -> None:
    """Every instruction is caught as often, since each takes a nanosecond; R15 says how far the loop has got."""
    status, _, repetitions, barriers = told(text)
    assert (status, repetitions, barriers) == (1, SAMPLES, 0)
    found = samples(text)
    inside = [(offset - shape.body_offset, left) for offset, left in found if shape.body_offset <= offset]
    assert {at for at, _ in inside} == set(STARTS)
    assert len(inside) > SAMPLES / 2
    counts = Counter(at for at, _ in inside)
    for start in some(STARTS):
        assert counts[start] / len(inside) == pytest.approx(1 / len(STARTS), abs=0.1)
    for _, left in some(inside):
        done = ENDLESS - left
        assert 0 < done * len(STARTS) < 2 * DELAY_NS
    assert len({left for _, left in inside}) > SAMPLES / 10


def check_blobs(texts: dict[str, str]) -> None:
    """What is over has no sample; what masks interrupts times out; INT n of the timer's vector is a fault.

    All barriers were answered that the other CPU asked for, or the program would not have ended.
    """
    status, _, repetitions, barriers = told(texts.pop("barriers"))
    assert (status, repetitions) == (1, SAMPLES)
    assert barriers > 0
    assert {name: told(text)[:3] for name, text in texts.items()} == {
        "over": (1, 0, 2),
        "masked": (3, 0, 0),
        "no_stack": (1, 0, 2),
        "int_timer": (2, 0, 0),
        "no_policy": (4, -errno.EOPNOTSUPP, 0),
    }
    assert {offset for offset, _ in samples(texts["over"])} == {-1}
