"""Random values for the operands of a variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xed_convert.encoding.encoder import ROUNDING, ROUNDING_MODES, address_shape, encode
from xed_convert.encoding.form import parse_encoding
from xed_convert.encoding.registers import CLASSES, GPR, numbers_of
from xed_convert.errors import EncodingError
from xed_convert.model import MemoryAddress, OperandKind

if TYPE_CHECKING:
    from random import Random

    from xed_convert.encoding.form import EncodingForm
    from xed_convert.model import InstructionVariant, Operand, OperandValue

_INDEXES = {"MX": "XMM", "MY": "YMM", "MZ": "ZMM"}


def random_values(
    variant: InstructionVariant, random: Random, *, extended: bool = True, form: EncodingForm | None = None
) -> dict[int, OperandValue]:
    """Choose a value for each explicit operand that has none; R16 to R31 only if `extended`."""
    form = form or parse_encoding(variant.encoding)[0]
    for attempt in range(50):
        values = _random_values(variant, random, extended=extended, form=form)
        try:
            encode(variant, values)
        except EncodingError:
            if attempt == 49:
                raise
        else:
            break
    return values


def plain_values(variant: InstructionVariant, random: Random, *, extended: bool) -> dict[int, OperandValue]:
    """Choose values that leave an assembler no shorter encoding: no accumulators, immediates that need their width."""
    for _ in range(200):
        values = random_values(variant, random, extended=extended)
        for index, code in parse_encoding(variant.encoding)[0].places:
            value = values.get(index)
            if isinstance(value, int) and code[0] in "US" and code != "S5":
                width = int(code[1:])
                values[index] = (
                    random.randrange(1 << (width - 2), 1 << (width - 1)) if width > 8 else random.randrange(2, 8)
                )
        accumulators = {"AL", "AX", "EAX", "RAX"} & {str(value) for value in values.values()}
        narrow = any(isinstance(value, MemoryAddress) and _is_narrow(value) for value in values.values())
        if not accumulators and not narrow and _can_encode(variant, values):
            return values
    return random_values(variant, random, extended=extended)


def _is_narrow(address: MemoryAddress) -> bool:
    return address.base in (*GPR[32], "EIP") or address.index in GPR[32] or address.displacement_bits == 32


def _can_encode(variant: InstructionVariant, values: dict[int, OperandValue]) -> bool:
    try:
        encode(variant, values)
    except EncodingError:
        return False
    return True


def _random_values(
    variant: InstructionVariant, random: Random, *, extended: bool, form: EncodingForm
) -> dict[int, OperandValue]:
    extended = extended and form.has_extended_registers
    values: dict[int, OperandValue] = {}
    for index, code in form.places:
        operand = variant.operand(index)
        value = _random_value(variant, operand, code, form, random, extended)
        if value is not None:
            values[index] = value
    if form.rounding and random.random() < 0.5:
        values[ROUNDING] = random.choice(ROUNDING_MODES[1:])
    _avoid_high8_with_rex(variant, values, random)
    return values


def _avoid_high8_with_rex(variant: InstructionVariant, values: dict[int, OperandValue], random: Random) -> None:
    if variant.attributes.get("high8", "0") in ("", "0"):
        return
    for index, value in values.items():
        operand = variant.operand(index)
        if isinstance(value, MemoryAddress):
            base = random.choice(GPR[64][:8])
            values[index] = MemoryAddress(base, "", 1, value.displacement, value.segment)
        elif operand.kind is OperandKind.REGISTER:
            low = [name for name in operand.registers if name in GPR[8][:4] or name[1:] == "H" or name in _low_gpr()]
            values[index] = random.choice(low)


def _low_gpr() -> tuple[str, ...]:
    return GPR[16][:8] + GPR[32][:8] + GPR[64][:8]


def _random_value(
    variant: InstructionVariant, operand: Operand, code: str, form: EncodingForm, random: Random, extended: bool
) -> OperandValue | None:
    if operand.value:
        return None
    if code[0] == "M":
        return random_address(variant, code, form, random, extended=extended)
    if code == "O":
        return MemoryAddress(
            displacement=random.getrandbits(64) - (1 << 63), segment=random.choice(["", "", "FS", "GS"])
        )
    if code in ("F", "U4"):
        return random.randrange(16)
    if code[0] in "UDS" and code != "S5":
        return random_immediate(variant, code, random)
    names = tuple(numbers_of(operand.registers, extended=extended))
    return random.choice(names)


def random_immediate(variant: InstructionVariant, code: str, random: Random) -> int:
    """Choose an immediate as the decoder would give it: signed where it is sign-extended."""
    width = int(code[1:])
    signed = code[0] == "S" or code in ("D8", "D16", "D32")
    while True:
        value = random.getrandbits(width)
        if random.random() < 0.3:
            value &= 127
        if signed and value >> (width - 1):
            value -= 1 << width
        if value or variant.attributes.get("immzero") != "0":
            return value


def random_address(
    variant: InstructionVariant, code: str, form: EncodingForm, random: Random, *, extended: bool
) -> MemoryAddress:
    """Choose an address that the form allows."""
    shape = address_shape(variant, code, form)
    names = GPR[32 if random.random() < 0.1 and not shape.agen and 1 in form.conditions.get("asz", (0, 1)) else 64]
    names = names if extended else names[:16]
    segment = random.choice(["", "", "", "FS", "GS"])
    parts = shape.agen.split("_") if shape.agen else _random_parts(random, shape.code != "M", shape.modes)
    if "R" in parts and (shape.needs_sib or code != "M" or not shape.rip):
        parts = ["B", "D8"]
    displacement = 0
    if "D8" in parts:
        displacement = random.randrange(-128, 128) * shape.scale
    if "D32" in parts or (random.random() < 0.3 and not shape.agen and 2 in shape.modes):
        displacement = random.randrange(-(1 << 31), 1 << 31) if random.random() < 0.8 else random.randrange(-300, 300)
    base = random.choice(names) if "B" in parts else ""
    if "R" in parts:
        base = "RIP" if names[0] == "RAX" else "EIP"
    if parts in (["B"], ["B", "I"], ["B", "IS"]) and (shape.agen or 1 not in shape.modes):
        base = random.choice([name for number, name in enumerate(names) if number & 7 != 5])
        displacement = displacement if not shape.agen and 1 in shape.modes else 0
    index, scale = "", 1
    if code != "M":
        vectors = CLASSES[_INDEXES[code]]
        index, scale = random.choice(vectors if form.space == "evex" else vectors[:16]), random.choice([1, 2, 4, 8])
    elif "I" in parts or "IS" in parts:
        index = random.choice([name for number, name in enumerate(names) if number != 4])
        scale = (
            random.choice([2, 4, 8])
            if shape.agen and "IS" in parts
            else 1
            if shape.agen
            else random.choice([1, 2, 4, 8])
        )
    return MemoryAddress(base, index, scale, displacement, segment)


def _random_parts(random: Random, vector: bool, modes: tuple[int, ...]) -> list[str]:
    if 1 not in modes:
        return random.choice([["B"], ["B", "I"]])
    if vector:
        return random.choice([["B"], ["B", "D8"], ["D32"], ["B", "D32"]])
    kinds = [
        ["B"],
        ["B", "D8"],
        ["B", "D32"],
        ["B", "I"],
        ["B", "I", "D8"],
        ["B", "I", "D32"],
        ["I", "D32"],
        ["D32"],
        ["R", "D32"],
    ]
    return random.choice(kinds)
