"""The module on a kernel with KASAN, kmemleak and checks of atomic contexts; by hand, for the time that it takes.

`python -m tests.vm.debug_kernel build FOLDER` builds Linux 6.12 from Debian's source package (flex, bison, bc,
libelf-dev; 20 minutes on two cores). `python -m tests.vm.debug_kernel run FOLDER` boots it: every kind of bad code,
random ioctls, loading with every allocation failing in turn, and then looks for leaks.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.vm.machines import kernels
from tests.vm.machines.kernels import ROOT, KernelImage
from tests.vm.machines.machine import Machine, boot
from tests.vm.machines.programs import program

SOURCE = "linux-source-6.12"
CONFIGURATION = Path(__file__).parent / "debug_kernel.config"
FAKE = Path(__file__).parent / "fakepmu"
CONTROL = """
mount -t debugfs debugfs /sys/kernel/debug
insmod /planted.ko
for again in 1 2 3; do echo scan > /sys/kernel/debug/kmemleak; sleep 6; done
echo "LEAKS $(grep -c '^unreferenced' /sys/kernel/debug/kmemleak)"
"""
"""What was planted must be found, else nothing found says nothing."""

SCRIPT = """
mount -t debugfs debugfs /sys/kernel/debug
echo scan=off > /sys/kernel/debug/kmemleak
insmod /allocfail.ko; insmod /uopscope.ko
calls=$(cat /sys/module/allocfail/parameters/calls)
contain 1 {rounds} 0; contain 0 3 2; contain 1 3 3
for part in 0 1 2 3 4 5 6 7 8 9; do time fuzz {calls} $(({seed} + part)); done
held_registers 2
rmmod uopscope
time cycle /uopscope.ko {loads} $calls
rmmod allocfail
for again in 1 2 3; do echo scan > /sys/kernel/debug/kmemleak; sleep 6; done
echo "LEAKS $(grep -c '^unreferenced' /sys/kernel/debug/kmemleak)"; head -c 4000 /sys/kernel/debug/kmemleak
dmesg | grep -i 'kasan\\|memory leak'
"""


def build(folder: Path) -> None:
    """Fetch, unpack, configure and compile; what is there already is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    source, output = folder / SOURCE, folder / "build"
    if not source.exists():
        run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", SOURCE], folder)
        (package,) = folder.glob(f"{SOURCE}_*.deb")
        run(["dpkg-deb", "-x", str(package), "unpacked"], folder)
        run(["tar", "-xf", f"unpacked/usr/src/{SOURCE}.tar.xz"], folder)
    make = ["make", "-s", f"O={output}", f"KCONFIG_ALLCONFIG={CONFIGURATION}"]
    run([*make, "allnoconfig"], source)
    run([*make, f"-j{os.cpu_count()}", "bzImage", "modules"], source)


def run(command: list[str], folder: Path) -> None:
    """Run a command there; it ends this program if it fails."""
    subprocess.run(command, cwd=folder, check=True)


def kernel(folder: Path) -> KernelImage:
    """Return the kernel that `build` has made."""
    output = folder / "build"
    release = (output / "include/config/kernel.release").read_text().strip()
    return KernelImage("debug", release, output / "arch/x86/boot/bzImage", output)


def control(target: KernelImage) -> bool:
    """Boot it with a module that leaks and reads what it has freed; true if both are found."""
    files = {"/planted.ko": kernels.build(target, FAKE)[0] / "planted.ko"}
    output = boot(Machine(target, 2, memory_mib=1536), files, CONTROL)
    found = "LEAKS 0" not in output.lines and "LEAKS " in output.text, "KASAN: slab-use-after-free" in output.complaints
    sys.stdout.write(f"planted: leak found: {found[0]}, use after free found: {found[1]}\n")
    return all(found)


def check(target: KernelImage, script: str, seconds: float) -> bool:
    """Boot it with the programs of the tests, and print what they say; true if nothing was found."""
    files = {
        "/uopscope.ko": kernels.build(target, ROOT / "kmod")[0] / "uopscope.ko",
        "/allocfail.ko": kernels.build(target, FAKE)[0] / "allocfail.ko",
        "/bin/contain": program("contain", "blobs.S"),
        "/bin/fuzz": program("fuzz"),
        "/bin/cycle": program("cycle"),
        "/bin/held_registers": program("held_registers", "blobs.S", flags=("-mgeneral-regs-only",)),
    }
    started = time.monotonic()
    output = boot(Machine(target, 2, memory_mib=1536), files, script, seconds)
    complaints = re.sub(r"^.*Kernel memory leak detector.*\n?", "", output.complaints, flags=re.MULTILINE)
    sys.stdout.write(output.text if output.ended else output.everything)
    sys.stdout.write(f"\n{target.release}: {time.monotonic() - started:.0f} s; complaints: {complaints or 'none'}\n")
    return output.ended and not complaints and "LEAKS 0" in output.lines


def main() -> int:
    """Build or run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("build", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--calls", type=int, default=1_000_000, help="random ioctls, in ten parts")
    parser.add_argument("--loads", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20, help="of every kind of bad code")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=7200, help="when to give up")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if options.action == "build":
        build(folder)
        return 0
    script = SCRIPT.format(calls=options.calls // 10, loads=options.loads, rounds=options.rounds, seed=options.seed)
    target = kernel(folder)
    return 0 if control(target) and check(target, script, options.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
