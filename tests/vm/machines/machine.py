"""A virtual machine under QEMU's TCG: a kernel, an initramfs made here, a script as its init, its serial output."""

import gzip
import hashlib
import os
import shutil
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.vm.machines.cache import CACHE, Unavailable
from tests.vm.machines.kernels import KernelImage

QEMU = "qemu-system-x86_64"
BUSYBOX = Path("/bin/busybox")
APPLETS = """
    sh sed mount umount insmod rmmod lsmod dmesg poweroff cat echo ls sleep grep tail head wc uname id su chmod cp seq
    cut time kill env mkfifo
"""
HEAD = """#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for cpu in /sys/devices/system/cpu/cpu*/online; do [ ! -e $cpu ] || echo 1 > $cpu; done
[ ! -e /proc/sys/debug/kprobes-optimization ] || echo 0 > /proc/sys/debug/kprobes-optimization
"""
PARAMETERS = (
    "console=ttyS0 panic=-1 oops=panic quiet maxcpus=1 lpj=10000000 no_timer_check watchdog_thresh=60 "
    "rcupdate.rcu_cpu_stall_timeout=300"
)
"""The kernel patches its own code (static keys, above all at the end of its start), and so do optimized kprobes. QEMU
7.2 reads code before it looks for changes of it. A CPU that reads while another one patches keeps the INT3 of the
patching, and the kernel ends with "Oops: int3". So the other CPUs start when the kernel has started, and kprobes stay
as they are. The rest keeps a busy host from looking like a broken timer or a hung kernel."""
ICOUNT = ("-icount", "shift=0,sleep=off")
"""One nanosecond per instruction, and a TSC of 1 GHz: the clock counts instructions, whatever the host does."""
LONGEST_SECONDS = 900
"""What boots run for at most unless a test says otherwise: several times what the longest takes on a quiet host."""

TAIL = """
echo; echo "--- dmesg"
dmesg | grep -E 'BUG|Oops|WARNING|general protection|Call Trace|stall|Uhhuh|unable to handle|leak' |
    grep -v -E 'data leaks? possible|hw-vuln|stall_timeout'
echo "--- end"; poweroff -f
"""


@dataclass(frozen=True)
class Machine:
    """What to boot: kernel, number of CPUs, further kernel parameters, CPU model, and QEMU's further arguments."""

    kernel: KernelImage
    cpus: int = 2
    parameters: str = ""
    model: str = "max"
    memory_mib: int = 512
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class MachineOutput:
    """What the machine printed: the script's part, what the kernel complained of, and whether it shut down."""

    text: str
    complaints: str
    ended: bool
    everything: str = field(repr=False, default="")

    @property
    def lines(self) -> list[str]:
        """The script's lines."""
        return self.text.splitlines()


def boot(machine: Machine, files: dict[str, Path], script: str, seconds: float = LONGEST_SECONDS) -> MachineOutput:
    """Boot, run the script as root with those files in place (by absolute path), and shut down."""
    folder = CACHE / "run" / f"{os.getpid()}-{hashlib.sha256(script.encode()).hexdigest()[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        initramfs = folder / "initramfs"
        initramfs.write_bytes(make_initramfs(files, HEAD + script + TAIL))
        return parse(_qemu(machine, initramfs, seconds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def command(machine: Machine, initramfs: Path) -> list[str]:
    """Return QEMU's command line."""
    if not shutil.which(QEMU):
        raise Unavailable(f"{QEMU} is not installed (package qemu-system-x86)")
    parameters = f"{PARAMETERS} {machine.parameters}"
    return [
        *(QEMU, "-accel", "tcg", "-cpu", machine.model, "-smp", str(machine.cpus), "-m", str(machine.memory_mib)),
        *("-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot", "-net", "none"),
        *("-kernel", str(machine.kernel.image), "-initrd", str(initramfs), "-append", parameters),
        *machine.arguments,
    ]


def _qemu(machine: Machine, initramfs: Path, seconds: float) -> str:
    try:
        done = subprocess.run(
            command(machine, initramfs), stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(errors="replace") + f"\n(no end after {seconds} s)"
    return (done.stdout + done.stderr).decode(errors="replace")


def parse(text: str) -> MachineOutput:
    """Take what the machine printed apart."""
    text = text.replace("\r", "")
    body, _, rest = text.partition("\n--- dmesg\n")
    complaints, _, end = rest.partition("--- end")
    ended = "Power down" in end or "--- end" in rest
    return MachineOutput(body, complaints.strip(), ended and "(no end after" not in text, text)


def make_initramfs(files: dict[str, Path], init: str) -> bytes:
    """Return the archive with the tools, those files, and the script as `init`."""
    if not BUSYBOX.exists():
        raise Unavailable("busybox is not installed (package busybox-static)")
    archive = _Archive()
    for name in ("bin", "dev", "proc", "sys", "tmp", "mnt", "etc"):
        archive.add(name, stat.S_IFDIR | 0o755)
    archive.add("bin/busybox", stat.S_IFREG | 0o755, BUSYBOX.read_bytes())
    for name in APPLETS.split():
        archive.add(f"bin/{name}", stat.S_IFLNK | 0o777, b"busybox")
    archive.add("etc/passwd", stat.S_IFREG | 0o644, b"root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n")
    for name, path in files.items():
        archive.add(name.lstrip("/"), stat.S_IFREG | 0o755, path.read_bytes())
    archive.add("init", stat.S_IFREG | 0o755, init.encode())
    archive.add("TRAILER!!!", 0)
    return gzip.compress(bytes(archive.data), compresslevel=1)


class _Archive:
    """A cpio archive in the "newc" format (Linux, Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._count = 0

    def add(self, name: str, mode: int, content: bytes = b"") -> None:
        self._count += 1
        encoded = name.encode() + b"\0"
        numbers = (self._count, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        self.data += b"070701" + b"".join(b"%08x" % number for number in numbers) + encoded
        self.data += bytes(-len(self.data) % 4)
        self.data += content
        self.data += bytes(-len(self.data) % 4)
