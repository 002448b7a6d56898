"""A variant of the catalogue in full, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xed_convert.catalogue.xml import operand_attributes
from xed_convert.model import KEY_ATTRIBUTES, OperandKind

if TYPE_CHECKING:
    from xed_convert.model import InstructionVariant, Operand

MANY_REGISTERS = 8
"""Registers. Of longer lists only the first few and the last are shown, so that an operand stays one line."""

OPERAND_SIZES = {"1": "16 bits", "2": "32 bits", "3": "64 bits"}
"""The meaning of the attribute `eosz`."""

_SHOWN_ELSEWHERE = frozenset({"idx", "name", "type", "r", "w", "conditionalWrite", "suppressed", "implicit", "width"})


def describe(variant: InstructionVariant) -> list[str]:
    """Return all that the catalogue says of a variant as lines."""
    lines = [
        variant.string,
        f"  assembly    {variant.asm}",
        f"  iform       {variant.iform}    iclass {variant.iclass}    category {variant.category}",
        f"  extension   {variant.extension}    ISA set {variant.isa_set}    privilege level {variant.cpl}",
        f"  key         {variant.key}",
    ]
    if size := OPERAND_SIZES.get(variant.attributes.get("eosz", "")):
        lines.append(f"  operand size {size}")
    if variant.attributes:
        lines.append("  attributes  " + ", ".join(_attribute(name, variant) for name in sorted(variant.attributes)))
    if variant.operands:
        lines.append("  operands")
        lines += [f"    {_operand(operand)}" for operand in variant.operands]
    if variant.encoding:
        lines.append("  encoding")
        lines += [f"    {form}" for form in variant.encoding.split(" | ")]
    return lines


def _attribute(name: str, variant: InstructionVariant) -> str:
    """Return an attribute as `name=value`, with `*` if it is part of the key."""
    return f"{name}={variant.attributes[name]}" + ("*" if name in KEY_ATTRIBUTES else "")


def _operand(operand: Operand) -> str:
    """Return an operand as a line."""
    access = "/".join(filter(None, ("read" if operand.read else "", _write(operand))))
    hidden = "suppressed" if operand.suppressed else "implicit" if operand.implicit else ""
    width = "" if operand.width_bits is None else f"{operand.width_bits} bits"
    words = [f"{operand.index}", operand.name, operand.kind.value, access, width, hidden]
    if operand.kind is OperandKind.FLAGS:
        words.append(" ".join(f"{flag}:{how}" for flag, how in operand.flags.items()))
    else:
        rest = operand_attributes(operand)
        words.append(" ".join(f"{name}={value}" for name, value in rest.items() if name not in _SHOWN_ELSEWHERE))
        words.append(_registers(operand.registers) or operand.value)
    return "  ".join(filter(None, words))


def _write(operand: Operand) -> str:
    """Return how an operand is written."""
    if not operand.written:
        return ""
    return "conditionally written" if operand.conditional_write else "written"


def _registers(registers: tuple[str, ...]) -> str:
    """Return a list of registers, shortened if it is long."""
    if len(registers) <= MANY_REGISTERS:
        return ", ".join(registers)
    return f"{', '.join(registers[:3])} ... {registers[-1]} ({len(registers)})"
