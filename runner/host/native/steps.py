"""Finds accesses of a block that cross a cache line, by running it one instruction at a time.

BHive's harness leaves such blocks out, by a performance counter (Chen et al., "BHive", IISWC 2019, section 3). Here the
code sets its own trap flag, so that the processor stops after each instruction, and the addresses follow from the
registers. Addresses by FS or GS and those of gathers are not known.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from iced_x86 import (
    CodeSize,
    Decoder,
    Formatter,
    FormatterSyntax,
    InstructionInfoFactory,
    MemorySizeExt,
    Register,
    RegisterExt,
)

from generator.microbenchmark import Line
from runner.host.native.child import REGISTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iced_x86 import Instruction, UsedMemory

    from runner.backend import Job

LINE_BYTES = 64
MASK = (1 << 64) - 1
RIP = REGISTERS.index("RIP")
_PLACES = {getattr(Register, name): place for place, name in enumerate(REGISTERS[:RIP])}

TRAP_FLAG_ON = Line(
    bytes.fromhex("9c 48810c2400010000 9d 48894424f8"),
    "pushfq; or qword ptr [rsp], 0x100; popfq; mov [rsp-8], rax",
)
"""In the state AGAIN all registers and all of memory hold one value: the last instruction puts it back on the stack."""


def with_trap_flag(job: Job) -> Job:
    """Return the job with its trap flag set before the first copy. The harness's end clears it."""
    benchmark = job.benchmark
    lines = (*benchmark.late, TRAP_FLAG_ON)
    changed = type(benchmark)(benchmark.setup, benchmark.body, benchmark.purpose, late=lines, once=benchmark.once)
    return job._replace(benchmark=changed)


class _Access(NamedTuple):
    """An access of an instruction: the places of its registers in `REGISTERS`, and the bits of its address."""

    base: int | None
    scaled: int | None
    scale: int
    displacement: int
    mask: int
    size: int

    def address(self, registers: Sequence[int]) -> int:
        address = self.displacement
        if self.base is not None:
            address += registers[self.base]
        if self.scaled is not None:
            address += self.scale * registers[self.scaled]
        return address & self.mask


def misaligned(body: bytes, steps: Sequence[Sequence[int]], begin: int, end: int) -> str:
    """Return what to say of the first access that crosses a cache line ("": none does, as far as is known).

    `steps` are the registers before each instruction, RIP counted from the blob's beginning, like `begin` and `end` of
    the copies of the body.
    """
    accesses = _accesses(body)
    for registers in steps if accesses else ():
        if not begin <= registers[RIP] < end:
            continue
        offset = (registers[RIP] - begin) % len(body)
        for access in accesses.get(offset, ()):
            address = access.address(registers)
            if address % LINE_BYTES + access.size > LINE_BYTES:
                return f"misaligned: {_text(body, offset)} crosses a cache line ({access.size} bytes at {address:#x})"
    return ""


@functools.lru_cache(maxsize=64)
def _accesses(body: bytes) -> dict[int, list[_Access]]:
    """Return the known accesses of each instruction, by its offset."""
    factory, found = InstructionInfoFactory(), {}
    for instruction in Decoder(64, body):
        used = [access for one in factory.info(instruction).used_memory() if (access := _access(one, instruction))]
        if used and not instruction.is_invalid:
            found[instruction.ip] = used
    return found


def _access(used: UsedMemory, instruction: Instruction) -> _Access | None:
    """Return an access as far as it depends on general-purpose registers and RIP; None: not known, or it is none."""
    size = MemorySizeExt.size(used.memory_size)
    registers = [one for one in (used.base, used.index) if one != Register.NONE]
    is_known = all(RegisterExt.is_gpr(one) for one in registers) and used.segment not in {Register.FS, Register.GS}
    if size < 2 or not is_known:
        return None
    is_relative = instruction.is_ip_rel_memory_operand and not registers
    return _Access(
        base=RIP if is_relative else _number(used.base),
        scaled=_number(used.index),
        scale=used.scale,
        displacement=used.displacement - instruction.ip * is_relative,
        mask=0xFFFFFFFF if used.address_size == CodeSize.CODE32 else MASK,
        size=size,
    )


def _number(register: int) -> int | None:
    """Return where a register is in `REGISTERS`."""
    return _PLACES[RegisterExt.full_register(register)] if register != Register.NONE else None  # type: ignore[arg-type]


def _text(body: bytes, offset: int) -> str:
    instruction = next(iter(Decoder(64, body[offset:], ip=offset)))
    return Formatter(FormatterSyntax.INTEL).format(instruction)
