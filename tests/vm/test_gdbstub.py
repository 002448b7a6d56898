"""RDPMC answered from outside, through the gdbstub: no emulation inside the guest, the module as it is shipped."""

import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

import pytest

from generator.harness.harness import CounterReader, render
from generator.microbenchmark import Line, Microbenchmark
from tests.vm.machines import machine as machines
from tests.vm.machines.cache import Unavailable
from tests.vm.machines.kernels import KernelImage
from tests.vm.machines.machine import Machine
from tests.vm.machines.programs import program

pytestmark = pytest.mark.vm

RDPMC = b"\x0f\x33"
COUNTS = (1000, 1042)
RUNS = 4
"""Two warm-ups and two repetitions."""
RAX, RDX, RIP = 0, 3, 16
"""Numbers of registers in the reply to `g`: RAX, RBX, RCX, RDX, RSI, RDI, RBP, RSP, R8 to R15, RIP (64 bits each)."""
SECONDS = 300
NOP = Microbenchmark((), (Line(b"\x90", "NOP"),), "nothing")
SCRIPT = "insmod /uopscope.ko; echo AREA 0x$(grep -w uops_area /proc/kallsyms | cut -c1-16); read go; runblob 0 2 /blob"


class Stub:
    """The remote protocol of GDB, as far as it is needed here."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(SECONDS)
        self._socket.connect(str(path))
        self._buffer = b""

    def close(self) -> None:
        self._socket.close()

    def send(self, text: str) -> None:
        data = text.encode()
        self._socket.sendall(b"$%s#%02x" % (data, sum(data) % 256))

    def receive(self) -> str:
        """Return the next packet, acknowledged; acknowledgements of ours are passed over."""
        while not (match := re.search(rb"\$([^#]*)#..", self._buffer)):
            data = self._socket.recv(65536)
            assert data, "QEMU closed the connection"
            self._buffer += data
        self._buffer = self._buffer[match.end() :]
        assert match[1][:1] not in b"WX", f"the guest ended: {match[1].decode()}"
        self._socket.sendall(b"+")
        return match[1].decode()

    def ask(self, text: str) -> str:
        self.send(text)
        return self.receive()

    def halted(self) -> None:
        """Connecting stops the machine: the reply to `?`, and a stop reply that nobody asked for, in whatever order."""
        replies = [self.ask("?"), self.receive()]
        assert all(reply[0] in "TS" for reply in replies), replies

    def answer_rdpmc(self, value: int) -> None:
        """At an RDPMC: put the value into EDX:EAX, go behind the instruction, and run on."""
        stop = self.receive()
        thread = re.search(r"thread:([^;]+)", stop)
        assert stop.startswith("T05"), stop
        assert thread
        assert self.ask(f"Hg{thread[1]}") == "OK"
        registers = self.ask("g")
        values = list(struct.unpack("<17Q", bytes.fromhex(registers[: 17 * 16])))
        values[RAX], values[RDX], values[RIP] = value & 0xFFFFFFFF, value >> 32, values[RIP] + len(RDPMC)
        assert self.ask("G" + struct.pack("<17Q", *values).hex() + registers[17 * 16 :]) == "OK"
        self.send("c")


@contextmanager
def started(target: Machine, files: dict[str, Path], folder: Path) -> Iterator[subprocess.Popen[str]]:
    initramfs = folder / "initramfs"
    initramfs.write_bytes(machines.make_initramfs(files, machines.HEAD + SCRIPT + machines.TAIL))
    command = machines.command(target, initramfs)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace") as guest:
        try:
            yield guest
        finally:
            guest.kill()


def area_of(output: IO[str]) -> int:
    for line in output:
        if match := re.match(r"AREA (0x[0-9a-f]+)", line):
            return int(match[1], 16)
    raise AssertionError("the guest did not say where the area is")


def answer_all(stub: Stub) -> None:
    for _ in range(RUNS):
        for count in COUNTS:
            stub.answer_rdpmc(count)


def test_counts_given_from_outside_come_out_as_samples(kernel: KernelImage, module: Path, tmp_path: Path) -> None:
    blob = render(NOP, 1, 0, CounterReader((0,)))
    (tmp_path / "blob").write_bytes(blob)
    reads = [match.start() for match in re.finditer(re.escape(RDPMC), blob)]
    assert len(reads) == 2
    sockets = Path(tempfile.mkdtemp(prefix="gdb"))  # a socket's path is limited to 107 characters
    path = sockets / "gdb"
    arguments = ("-chardev", f"socket,path={path},server=on,wait=off,id=gdb0", "-gdb", "chardev:gdb0")
    try:
        files = {"/uopscope.ko": module, "/bin/runblob": program("runblob"), "/blob": tmp_path / "blob"}
        with started(Machine(kernel, 2, "nokaslr", arguments=arguments), files, tmp_path) as guest:
            assert guest.stdout
            assert guest.stdin
            area = area_of(guest.stdout)
            with closing(Stub(path)) as stub:
                stub.halted()
                for offset in reads:
                    assert stub.ask(f"Z1,{area + offset:x},1") == "OK"
                guest.stdin.write("\n")
                guest.stdin.flush()
                stub.send("c")
                for _ in range(RUNS):
                    for count in COUNTS:
                        stub.answer_rdpmc(count)
                lines = list(read_until(guest.stdout, "SAMPLES"))
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        shutil.rmtree(sockets, ignore_errors=True)
    assert lines[-1].split() == ["SAMPLES", "/blob", "status", "1", *[str(COUNTS[1] - COUNTS[0])] * 2]


def read_until(output: IO[str], beginning: str) -> Iterator[str]:
    ends = time.monotonic() + SECONDS
    for line in output:
        yield line.strip()
        if line.startswith(beginning) or time.monotonic() > ends:
            return
