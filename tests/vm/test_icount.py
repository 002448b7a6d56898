"""By a clock that counts instructions: exact counts, how fast a batch is, and interrupts at random times.

With -icount every instruction takes a nanosecond, and QEMU takes an interrupt between any two. Else it takes them only
where a translated block ends. All CPUs share QEMU's thread then, and an access to the local APIC passes it on. So the
idle CPU has to halt: MWAIT, which Linux 7.3 prefers, is a loop under TCG.

The interrupts land in the loop, other CPUs' are answered, and bad code is contained with them.
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
from tests.vm.machines.cache import Unavailable
from tests.vm.machines.kernels import KernelImage
from tests.vm.machines.machine import ICOUNT, Machine, boot
from tests.vm.machines.programs import program
from tests.vm.test_contain import KINDS

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
ADD = Microbenchmark((), (Line(bytes.fromhex("4801c0"), "ADD RAX, RAX"),), "counting")
COPIES = (10, 100)
REPETITIONS = 20
UNGUARDED = 4
MOST_QUIET_NS = 100_000
"""Around an empty blob, at a nanosecond per instruction."""
SCRIPT = f"""
insmod /uopscope.ko
echo "--- part counts"
echo 0 > /sys/devices/system/cpu/cpu1/online
for again in 1 2; do runblob {UNGUARDED} {REPETITIONS} {" ".join(f"/add{copies}" for copies in COPIES)}; done
echo 1 > /sys/devices/system/cpu/cpu1/online
echo "--- part speed"
runblob speed 1000 1; runblob speed 200 20
echo "--- part loop"
landed 1 0 /loop {DELAY_NS} {SAMPLES}
echo "--- part barriers"
landed 1 0 /loop 10000 {SAMPLES} barriers
for blob in {" ".join(BLOBS)}; do echo "--- part $blob"; landed 1 0 /$blob {DELAY_NS} 2; done
echo "--- part no_policy"
landed 1 2 /loop 10000 2
echo "--- part bad code"
DELAY=20000 contain 1 1 0 -only_ any
DELAY=1000000000 contain 1 1 0
"""


@pytest.fixture(scope="module")
def parts(kernel: KernelImage, module: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Boot once; return what each part of the script printed."""
    folder = tmp_path_factory.mktemp("blobs")
    blobs = {name: bytes(8) + bytes.fromhex(code) for name, code in BLOBS.items()}
    blobs |= {"loop": render(LOOP, 1, ENDLESS, RDTSC)}
    blobs |= {f"add{copies}": render(ADD, copies) for copies in COPIES}
    for name, blob in blobs.items():
        (folder / name).write_bytes(blob)
    files = {f"/{name}": folder / name for name in blobs} | {"/uopscope.ko": module}
    try:
        files |= {"/bin/contain": program("contain", "blobs.S"), "/bin/runblob": program("runblob")}
        files |= {"/bin/landed": program("landed", flags=("-pthread",))}
        output = boot(Machine(kernel, 2, HALTS, arguments=ICOUNT), files, SCRIPT)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.ended, output.everything
    assert output.complaints == "", output.everything
    found = re.split(r"^--- part (.*)\n", output.text, flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def test_90_more_instructions_count_90_more(parts: dict[str, str]) -> None:
    """On one CPU, so that no other one's instructions count."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for match in re.finditer(r"^SAMPLES /(\w+) status 1 (.*)$", parts["counts"], re.MULTILINE):
        found.setdefault(match[1], []).append(tuple(map(int, match[2].split())))
    assert [len(runs) for runs in found.values()] == [2, 2], parts["counts"]
    few, many = (found[f"add{copies}"] for copies in COPIES)
    assert len({*few[0], *few[1]}) == 1
    assert {b - a for a, b in zip(few[0] + few[1], many[0] + many[1], strict=True)} == {90}


def test_a_batch_of_jobs_costs_less_than_an_ioctl_for_each(parts: dict[str, str]) -> None:
    """Counted in instructions, so that a busy host changes nothing; an ioctl starts the guard on a second CPU."""
    form = r"^SPEED jobs \d+ repetitions \d+ batch (\d+)/s single (\d+)/s outside-blob ([\d.]+) max-quiet-ns (\d+)"
    one, many = re.finditer(form, parts["speed"], re.MULTILINE)
    assert int(one[1]) > int(one[2]), parts["speed"]
    assert 0 < float(many[3]) < 1
    assert int(many[4]) < MOST_QUIET_NS


def test_interrupts_land_in_the_loop(parts: dict[str, str]) -> None:
    check_loop(parts["loop"], layout(LOOP, 1, ENDLESS, RDTSC))


def test_interrupts_land_whatever_the_code_is(parts: dict[str, str]) -> None:
    check_blobs({name: parts[name] for name in ("barriers", *BLOBS, "no_policy")})


def test_bad_code_that_is_interrupted_is_contained(parts: dict[str, str]) -> None:
    """Interrupted at once, or in its midst; then so late that it goes wrong first."""
    summaries = re.findall(r"^contain: (\d+) kinds, (\d+) runs, (\d+) failures", parts["bad code"], re.MULTILINE)
    kinds = str(KINDS - ABOUT_INTERRUPTS)
    assert summaries == [(kinds, kinds, "0")] * 2, parts["bad code"]


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
