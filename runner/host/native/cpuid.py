"""CPUID on a given CPU of this machine."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from typing import TYPE_CHECKING

from generator.harness.native import cpuid as cpuid_code

if TYPE_CHECKING:
    from collections.abc import Iterator

_Function = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)


def cpuid(leaf: int, subleaf: int = 0, cpu: int | None = None) -> tuple[int, int, int, int]:
    """Return EAX, EBX, ECX, EDX of a CPUID leaf on that CPU (None: wherever this thread runs).

    Leaves beyond the highest one of their range give zeros (the CPU itself would answer for another leaf).

    Raises:
        OSError: there is no executable memory, or the CPU cannot be used.
    """
    with _pinned(cpu), _loaded() as call:
        return call(leaf, subleaf) if leaf <= call(leaf & 0xF0000000, 0)[0] else (0, 0, 0, 0)


class _Call:
    """The function in executable memory."""

    def __init__(self, address: int) -> None:
        self.function = _Function(address)

    def __call__(self, leaf: int, subleaf: int) -> tuple[int, int, int, int]:
        result = (ctypes.c_uint32 * 4)()
        self.function(leaf, subleaf, ctypes.addressof(result))
        return (result[0], result[1], result[2], result[3])


@contextlib.contextmanager
def _loaded() -> Iterator[_Call]:
    """Put the code into memory that is writable through one mapping and executable through another."""
    fd = os.memfd_create("uopscope-cpuid")
    try:
        code = cpuid_code()
        os.write(fd, code.ljust(mmap.PAGESIZE, b"\xcc"))
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        address = libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_SHARED, fd, 0)
        if address is None or address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "no executable memory")
        try:
            yield _Call(address)
        finally:
            libc.munmap(address, mmap.PAGESIZE)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _pinned(cpu: int | None) -> Iterator[None]:
    if cpu is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
