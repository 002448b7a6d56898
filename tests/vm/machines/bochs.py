"""A virtual machine under Bochs, which has what QEMU's TCG lacks.

That is IBT, PCID, TSC deadlines, AMX, a local APIC that can be switched off and on, and exceptions as in the manuals.

Debian 12's Bochs 2.7 does not do: its CPUID leaf 0DH contradicts itself, and Linux 7.3 panics at the start. So Bochs
3.0 runs in the Debian 13 of `tests.vm.machines.chroot`, where GRUB also makes the CD to boot from. It executes some
ten million instructions per second: a boot takes two minutes. Debian builds it with its debugger, which waits for a
command on a terminal.
"""

import os
import pty
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from tests.vm.machines import chroot
from tests.vm.machines.kernels import KernelImage
from tests.vm.machines.machine import HEAD, PARAMETERS, TAIL, MachineOutput, make_initramfs, parse

PACKAGES = ("bochs", "bochs-term", "bochsbios", "vgabios", "grub-pc-bin", "grub-common", "xorriso", "mtools")
MENU = """set timeout=0
menuentry "test" {{
 linux /boot/vmlinuz {parameters}
 initrd /boot/initrd
}}
"""
CONFIGURATION = """megs: 512
cpu: model={model}, count=2, ips=50000000, reset_on_triple_fault=0
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path={folder}/boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev={folder}/serial
display_library: term
clock: sync=none
panic: action=fatal
error: action=ignore
info: action=ignore
debug: action=ignore
log: {folder}/log
"""


@dataclass(frozen=True)
class BochsMachine:
    """What to boot: kernel, model of the CPU (Bochs's names), further kernel parameters. It has two CPUs."""

    kernel: KernelImage
    model: str = "tigerlake"
    parameters: str = ""


def boot(machine: BochsMachine, files: dict[str, Path], script: str, seconds: float = 900) -> MachineOutput:
    """Boot, run the script as root with those files in place, and end.

    Raises:
        Unavailable: there is no Bochs 3.0 to be had.
    """
    chroot.install(*PACKAGES)
    folder = chroot.SHARED / f"bochs-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _make_disc(machine, files, script, folder)
        (folder / "bochsrc").write_text(CONFIGURATION.format(model=machine.model, folder=f"/build/{folder.name}"))
        (folder / "commands").write_text("continue\n")
        _run(folder, seconds)
        return parse((folder / "serial").read_text(errors="replace"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_disc(machine: BochsMachine, files: dict[str, Path], script: str, folder: Path) -> None:
    tree = folder / "disc"
    (tree / "boot/grub").mkdir(parents=True)
    shutil.copy(machine.kernel.image, tree / "boot/vmlinuz")
    (tree / "boot/initrd").write_bytes(make_initramfs(files, HEAD + script + TAIL))
    (tree / "boot/grub/grub.cfg").write_text(MENU.format(parameters=f"{PARAMETERS} {machine.parameters}"))
    inside = f"/build/{folder.name}"
    done = chroot.run(["grub-mkrescue", "-o", f"{inside}/boot.iso", f"{inside}/disc"])
    if done.returncode:
        raise AssertionError(done.stderr)


def _run(folder: Path, seconds: float) -> None:
    """Run it on a terminal until the guest has said that it ends, or the time is over."""
    ours, theirs = pty.openpty()
    inside = f"/build/{folder.name}"
    command = ["bochs", "-q", "-f", f"{inside}/bochsrc", "-rc", f"{inside}/commands"]
    process = chroot.start(command, theirs)
    os.close(theirs)
    os.set_blocking(ours, False)
    try:
        serial, end = folder / "serial", time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            _drain(ours)
            if serial.exists() and b"--- end" in serial.read_bytes():
                break
            time.sleep(0.5)
    finally:
        process.kill()  # and with it everything in its process namespace
        process.wait()
        os.close(ours)


def _drain(terminal: int) -> None:
    """Read what is there, or Bochs waits for its terminal."""
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        return
