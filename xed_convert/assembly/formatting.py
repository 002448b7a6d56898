"""Writes instructions as assembly text: Intel syntax in the dialect of the GNU assembler.

Example: `VADDPS ZMM1{K2}{z}, ZMM3, dword ptr [R14]{1to16}`. Registers and mnemonics are in upper case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xed_convert.assembly.syntax import DEFAULT_FLAGS
from xed_convert.encoding.encoder import ROUNDING, ROUNDING_MODES, encode
from xed_convert.model import MemoryAddress, OperandKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xed_convert.model import InstructionVariant, Operand, OperandValue


def format_number(value: int) -> str:
    """Write a number in hexadecimal, small ones in decimal."""
    if -10 < value < 10:
        return str(value)
    return f"-{-value:#x}" if value < 0 else f"{value:#x}"


def format_address(address: MemoryAddress) -> str:
    """Write an address as `FS:[RAX+RCX*4+0x10]`.

    Without registers it is `DS:[0x10]`: without the segment the GNU assembler reads an immediate.
    """
    parts = [address.base] if address.base else []
    if address.index:
        parts.append(address.index if address.scale == 1 and parts else f"{address.index}*{address.scale}")
    text = "+".join(parts)
    if address.displacement or not parts:
        number = format_number(address.displacement)
        text += number if number[0] == "-" or not text else f"+{number}"
    segment = address.segment or ("" if parts else "DS")
    return f"{segment}:[{text}]" if segment else f"[{text}]"


def format_default_flags(value: int) -> str:
    """Write the default flags of CCMP and CTEST: `{dfv=of,cf}`."""
    return "{dfv=" + ",".join(name for name, bit in DEFAULT_FLAGS.items() if value & bit) + "}"


def format_instance(variant: InstructionVariant, values: Mapping[int, OperandValue]) -> str:
    """Write an instruction. An operand without a value is `?`.

    A relative branch is `.+n`: n bytes from the beginning of the instruction.
    """
    mnemonic = variant.asm
    mask = zero = ""
    operands: list[str] = []
    position_of_sae = 0
    for operand in variant.operands:
        if operand.suppressed or operand.kind is OperandKind.FLAGS:
            continue
        value = value_of(operand, values)
        if operand.kind is OperandKind.DEFAULT_FLAGS:
            mnemonic += f" {format_default_flags(value)}" if isinstance(value, int) else ""
            continue
        if operand.opmask:
            mask = f"{{{value or '?'}}}"
            continue
        operands.append(_format_operand(operand, value, variant, values))
        if operand.kind is not OperandKind.IMMEDIATE:
            position_of_sae = len(operands)
        if isinstance(value, MemoryAddress) and value.displacement_bits and "{disp" not in mnemonic:
            mnemonic = f"{{disp{value.displacement_bits}}} {mnemonic}"
    if variant.attributes.get("zeroing") == "1":
        zero = "{z}"
    if mask and operands:
        operands[0] += mask + zero
    if sae := _format_rounding(variant, values):
        operands.insert(position_of_sae, sae)
    return f"{mnemonic} {', '.join(operands)}".rstrip()


def value_of(operand: Operand, values: Mapping[int, OperandValue]) -> OperandValue | None:
    """Return an operand's value: the given one, else the fixed one, else None."""
    value = values.get(operand.index)
    if value is None and operand.value:
        return int(operand.value, 0)
    if value is None and operand.implicit and operand.registers:
        return operand.registers[0]
    return value


def _format_rounding(variant: InstructionVariant, values: Mapping[int, OperandValue]) -> str:
    """Return `{rn-sae}` or `{sae}` where the variant has it, else an empty text."""
    if variant.attributes.get("roundc") == "1":
        return f"{{{values.get(ROUNDING, ROUNDING_MODES[0])}}}"
    return "{sae}" if variant.attributes.get("sae") == "1" else ""


def _format_operand(
    operand: Operand, value: OperandValue | None, variant: InstructionVariant, values: Mapping[int, OperandValue]
) -> str:
    """Write one operand."""
    if value is None:
        return "?"
    if isinstance(value, MemoryAddress):
        shape = operand.memory
        prefix = f"{shape.prefix} " if shape and shape.prefix else ""
        return f"{prefix}{format_address(value)}{shape.suffix if shape else ''}"
    if isinstance(value, int) and operand.kind is OperandKind.RELATIVE_BRANCH and "D64" not in variant.encoding:
        distance = value + len(encode(variant, values))
        return f".{'-' if distance < 0 else '+'}{format_number(abs(distance))}"
    return format_number(value) if isinstance(value, int) else value
