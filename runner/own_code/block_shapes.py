"""Blocks as tables have them, and what decoding says of one: its size, the registers that it leaves alone, memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iced_x86 import (
    Decoder,
    FlowControl,
    InstructionInfoFactory,
    Mnemonic,
    OpAccess,
    OpKind,
    Register,
    RegisterExt,
)

from generator.harness.style import LOOP_REGISTERS
from runner.own_code.block_rounds import BlockProblem
from runner.own_code.code import MeasureError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iced_x86 import Instruction


@dataclass(frozen=True, slots=True)
class BlockShape:
    """What decoding a block says: how many instructions, whether any uses memory, a register that is left alone.

    `moves`: addresses may be others in each copy. `problem`: why it cannot be measured.
    """

    instructions: int
    free: str
    uses_memory: bool = False
    problem: BlockProblem = BlockProblem.NONE
    moves: bool = False


def read_blocks(lines: Iterable[str], where: str) -> Iterator[bytes]:
    """Yield the blocks of a table: the first column is code in hexadecimal; a first line without any is a header.

    Raises:
        MeasureError: a line has no code, and the message names it; or no line has; or this is no text.
    """
    hint = "one block per line, as in: 4801d8480fafd8"
    is_empty = True
    for number, line in enumerate(lines, 1):
        text = line.removeprefix("\N{BYTE ORDER MARK}").partition(",")[0].strip().strip('"')
        if not text:
            continue
        try:
            code = bytes.fromhex(text)
        except ValueError:
            if not text.replace("\t", " ").isprintable() or "\N{REPLACEMENT CHARACTER}" in text:
                of_program = "`uopscope blocks PROGRAM -o blocks.csv` writes those of a program"
                raise MeasureError(f"{where}: not a text", hint=f"{hint}; {of_program}") from None
            if number > 1:
                message = f"{where}:{number}: {text[:60]!r} is not code in hexadecimal"
                raise MeasureError(message, hint=hint) from None
            continue
        is_empty = False
        yield code
    if is_empty:
        raise MeasureError(f"{where}: no line has a block", hint=hint)


_FACTORY = InstructionInfoFactory()
_WRITES = {OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}
_NUMBERS = {getattr(Register, name.upper()): name for name in LOOP_REGISTERS}


def shape_of(code: bytes) -> BlockShape:
    """Decode a block; what iced-x86 does not know may still run, so it is no reason to refuse it."""
    count, used, uses_memory = 0, set(), False
    addressed, moved = set(), set()
    for instruction in Decoder(64, code):
        count += 1
        if instruction.is_invalid:
            continue
        if instruction.flow_control in {FlowControl.RETURN, FlowControl.INDIRECT_BRANCH, FlowControl.INDIRECT_CALL}:
            return BlockShape(count, "", problem=BlockProblem.INDIRECT_BRANCH)
        info = _FACTORY.info(instruction)
        used |= {RegisterExt.full_register(one.register) for one in info.used_registers()}
        uses_memory |= bool(info.used_memory())
        addressed |= {RegisterExt.full_register(reg) for one in info.used_memory() for reg in (one.base, one.index)}
        if not _settles(instruction):
            moved |= {RegisterExt.full_register(one.register) for one in info.used_registers() if one.access in _WRITES}
    if not count:
        return BlockShape(0, "", problem=BlockProblem.NO_CODE)
    free = next((name for number, name in _NUMBERS.items() if number not in used), "")
    return BlockShape(count, free, uses_memory, moves=bool(addressed & moved))


def _settles(instruction: Instruction) -> bool:
    """Return whether what an instruction writes is the same in each copy: a constant, or what memory holds."""
    return instruction.mnemonic == Mnemonic.MOV and instruction.op1_kind != OpKind.REGISTER
