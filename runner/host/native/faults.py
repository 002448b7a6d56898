"""Describes a fault of native code in words: its place, and its cause by signal, registers and bytes."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from iced_x86 import Decoder, Formatter, FormatterSyntax, InstructionInfoFactory, Mnemonic, Register, RegisterExt

from generator.harness.style import State
from runner.host.native.child import REGISTERS

if TYPE_CHECKING:
    from iced_x86 import Instruction, UsedMemory

    from generator.harness.harness import BlobLayout
    from runner.backend import Job
    from runner.host.native.child import Fault

SI_KERNEL = 0x80
"""si_code of a general protection fault: no address is known (include/uapi/asm-generic/siginfo.h). A stack fault,
which the same addresses give through RSP and RBP, is SIGBUS."""
LOWEST_ADDRESS = 0x10000
CANONICAL_BITS = 47
"""User addresses are below 2 to this power (four levels of page tables)."""
MOST_ALIGNMENT = 64
LONGEST_INSTRUCTION = 15


def signal_name(number: int) -> str:
    """Return the name of a signal, as `SIGILL`; `signal 40` where it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def fault_text(fault: Fault, job: Job, shape: BlobLayout) -> str:
    """Return what to tell people: the signal, the place, and the reason where there is more to say."""
    name = signal_name(fault.signal)
    if fault.offset is None:
        return f"{name} outside of the code under test"
    place = shape.place_of(fault.offset)
    beginning = {"setup": shape.setup_offset, "body": shape.body_offset}.get(place, 0)
    where = fault.offset - beginning
    if job.conditions.state is State.ZERO and fault.signal != signal.SIGSYS:
        return f"{name} in the {place} at offset {where}"
    code = {"setup": job.benchmark.setup_code, "body": job.benchmark.body_code}.get(place, b"")
    size = len(code)
    if place == "body" and size and not job.benchmark.has_marks:
        where %= size
    return f"{name} in the {place} at offset {where}{_reason(fault, code[where : where + LONGEST_INSTRUCTION])}"


def _reason(fault: Fault, code: bytes) -> str:
    if fault.signal == signal.SIGSYS:
        return f": system call {fault.call} is refused"
    if fault.signal not in {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE} or not code:
        return ""
    instruction = next(iter(Decoder(64, code, ip=fault.registers["RIP"])))
    text = Formatter(FormatterSyntax.INTEL).format(instruction)
    if fault.signal == signal.SIGFPE:
        is_division = instruction.mnemonic in (Mnemonic.DIV, Mnemonic.IDIV)
        return f" ({text})" + ": the divisor is 0, or the quotient does not fit" * is_division
    if fault.signal == signal.SIGSEGV and fault.cause != SI_KERNEL:
        return f" ({text}): {_page_reason(fault.address)}"
    return f" ({text}): {_protection_reason(instruction, fault)}"


def _page_reason(address: int) -> str:
    if address < LOWEST_ADDRESS:
        return f"address {address:#x} is in the lowest 64 KiB"
    if address >> CANONICAL_BITS:
        return f"address {address:#x} is not a user's"
    return f"address {address:#x} cannot be mapped: too many pages, or it is in use"


def _protection_reason(instruction: Instruction, fault: Fault) -> str:
    """Say why an instruction gave a general protection fault: an address that cannot be, or a misaligned one."""
    for used in InstructionInfoFactory().info(instruction).used_memory():
        address = _address(used, fault)
        if address is None:
            continue
        if (address >> CANONICAL_BITS) not in {0, (1 << 64 - CANONICAL_BITS) - 1}:
            return f"address {address:#x} is not canonical"
        size = instruction.memory_size
        if address % MOST_ALIGNMENT and size:
            return f"misaligned: address {address:#x}"
    return "privileged, or it refuses its operands"


def _address(used: UsedMemory, fault: Fault) -> int | None:
    """Return an address that the instruction uses, as far as it depends on general-purpose registers only."""
    address = used.displacement
    for register, scale in ((used.base, 1), (used.index, used.scale)):
        if register in _NOT_ADDED:
            continue
        if not RegisterExt.is_gpr(register):
            return None
        address += scale * fault.registers[_name(register)]
    return address & (1 << 64) - 1


_NOT_ADDED: frozenset[int] = frozenset((Register.NONE, Register.RIP))
_NUMBERS = {getattr(Register, name): name for name in (*REGISTERS[:16], "RIP")}


def _name(register: int) -> str:
    return _NUMBERS[RegisterExt.full_register(register)]  # type: ignore[arg-type] # its stubs want an enumeration
