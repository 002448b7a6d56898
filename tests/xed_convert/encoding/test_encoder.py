"""Encodings that the manuals give, from encoding strings, and back."""

from __future__ import annotations

import pytest

from xed_convert.encoding.decoder import Decoder
from xed_convert.encoding.encoder import ROUNDING, encode
from xed_convert.encoding.registers import CLASSES, GPR
from xed_convert.errors import DecodingError, EncodingError
from xed_convert.model import InstructionVariant, MemoryAddress, MemoryShape, Operand, OperandKind, OperandValue


def variant(encoding: str, *operands: Operand, **attributes: str) -> InstructionVariant:
    return InstructionVariant("F", encoding, "A", "I", "C", "BASE", "I86", 3, attributes, operands, encoding)


def reg(index: int, names: tuple[str, ...]) -> Operand:
    return Operand(index, OperandKind.REGISTER, f"REG{index}", registers=names)


def mem(index: int, *, agen: bool = False) -> Operand:
    return Operand(index, OperandKind.AGEN if agen else OperandKind.MEMORY, "MEM0", memory=MemoryShape())


def imm(index: int, value: str = "") -> Operand:
    return Operand(index, OperandKind.IMMEDIATE, "IMM0", value=value)


R8 = tuple(name for name in GPR[8][:16])
ADD_R64 = variant("leg.0.01 w=1 mod=3 lock=0 1:B5 2:R5", reg(1, GPR[64][:16]), reg(2, GPR[64][:16]))
ADD_R64_M = variant("leg.0.03 w=1 mod=0,1,2 lock=0 1:R5 2:M", reg(1, GPR[64][:16]), mem(2))
ADD_R8 = variant("leg.0.00 mod=3 lock=0 1:B5 2:R5", reg(1, R8), reg(2, R8))
ADD_HIGH = variant("leg.0.02 mod=3 lock=0 1:R5 2:B5", reg(1, ("AH", "CH", "DH", "BH")), reg(2, R8))
AND_I8 = variant("leg.0.83 osz=0 w=0 mod=3 reg=4 lock=0 1:B5 2:S8", reg(1, GPR[32][:16]), imm(2))
LEA_B = variant("leg.0.8D w=1 mod=0,1,2 lock=0 1:R5 2:M", reg(1, GPR[64][:16]), mem(2, agen=True), agen="B")
LEA_B_D32 = variant("leg.0.8D w=1 mod=0,1,2 lock=0 1:R5 2:M", reg(1, GPR[64][:16]), mem(2, agen=True), agen="B_D32")
VADDPS = variant("vex.1.58 mod=3 pp=0 l=1 1:R4 2:V4 3:B4", *(reg(n, CLASSES["YMM"][:16]) for n in (1, 2, 3)))
VADDPS_BCAST = variant(
    "evex.1.58 w=0 mod=0,1,2 pp=0 l=2 b=1 z=1 a=1,2,3,4,5,6,7 n=4 1:R5 2:K 3:V5 4:M",
    reg(1, CLASSES["ZMM"]),
    reg(2, CLASSES["K"][1:]),
    reg(3, CLASSES["ZMM"]),
    mem(4),
)
VADDPS_ER = variant(
    "evex.1.58 w=0 mod=3 pp=0 b=1 z=0 a=0 u=1 rc 1:R5 2:V5 3:BX", *(reg(n, CLASSES["ZMM"]) for n in (1, 2, 3))
)
XCHG = variant(
    "leg.0.90+ w=1 lock=0 srm=1,2,3,4,5,6,7 1:S5 | leg.0.90+ w=1 b3=1 lock=0 srm=0 1:S5", reg(1, GPR[64][:16])
)

CASES: list[tuple[InstructionVariant, dict[int, OperandValue], str]] = [
    (ADD_R64, {1: "RAX", 2: "R15"}, "4c01f8"),
    (ADD_R64, {1: "R31", 2: "RCX"}, "d51901cf"),
    (ADD_R64_M, {1: "RDX", 2: MemoryAddress("RSP")}, "48031424"),
    (ADD_R64_M, {1: "RDX", 2: MemoryAddress("R13", "R12", 8)}, "4b0354e500"),
    (ADD_R64_M, {1: "RDX", 2: MemoryAddress(displacement=0x12345678)}, "4803142578563412"),
    (ADD_R64_M, {1: "RDX", 2: MemoryAddress("RIP", displacement=-7)}, "480315f9ffffff"),
    (ADD_R64_M, {1: "RDX", 2: MemoryAddress("EAX", segment="FS")}, "6467480310"),
    (ADD_R64_M, {1: "RDX", 2: MemoryAddress("RAX", displacement=1, displacement_bits=32)}, "48039001000000"),
    (ADD_R64_M, {1: "R16", 2: MemoryAddress("R17", "R18")}, "d5780304 11".replace(" ", "")),
    (ADD_R8, {1: "AL", 2: "CL"}, "00c8"),
    (ADD_R8, {1: "SPL", 2: "CL"}, "4000cc"),
    (ADD_HIGH, {1: "BH", 2: "DL"}, "02fa"),
    (AND_I8, {1: "EAX", 2: -1}, "83e0ff"),
    (LEA_B, {1: "RAX", 2: MemoryAddress("RBX")}, "488d03"),
    (LEA_B_D32, {1: "RAX", 2: MemoryAddress("RBX", displacement=1)}, "488d8301000000"),
    (VADDPS, {1: "YMM0", 2: "YMM1", 3: "YMM2"}, "c5f458c2"),
    (VADDPS, {1: "YMM0", 2: "YMM1", 3: "YMM10"}, "c4c17458c2"),
    (VADDPS_BCAST, {1: "ZMM1", 2: "K2", 3: "ZMM3", 4: MemoryAddress("R14")}, "62d164da580e"),
    (VADDPS_BCAST, {1: "ZMM1", 2: "K2", 3: "ZMM3", 4: MemoryAddress("R14", displacement=-512)}, "62d164da584e80"),
    (VADDPS_ER, {1: "ZMM1", 2: "ZMM30", 3: "ZMM3", ROUNDING: "rz-sae"}, "62f10c7058cb"),
    (XCHG, {1: "RCX"}, "4891"),
    (XCHG, {1: "R8"}, "4990"),
]


@pytest.mark.parametrize(("one", "values", "expected"), CASES)
def test_encodes_and_decodes(one: InstructionVariant, values: dict[int, OperandValue], expected: str) -> None:
    data = encode(one, values)
    assert data.hex() == expected
    decoded = Decoder([one]).decode(data + b"\x90")
    assert (decoded.variant, decoded.values, decoded.length_bytes) == (one, values, len(data))


REFUSED: list[tuple[InstructionVariant, dict[int, OperandValue], str]] = [
    (ADD_R64, {1: "RAX"}, "operand 2 has no value"),
    (ADD_R64, {1: "RAX", 2: "EAX"}, "EAX is not one of RAX"),
    (ADD_HIGH, {1: "AH", 2: "R8B"}, "REX"),
    (AND_I8, {1: "EAX", 2: 256}, "does not fit into 8 bits"),
    (LEA_B, {1: "RAX", 2: MemoryAddress("RBP")}, "form B"),
    (LEA_B, {1: "RAX", 2: MemoryAddress("RAX", displacement=8)}, "form B"),
    (ADD_R64_M, {1: "RAX", 2: MemoryAddress("RAX", "RSP")}, "RSP cannot be the index"),
    (ADD_R64_M, {1: "RAX", 2: MemoryAddress("RAX", "RCX", 3)}, "scaled by 3"),
    (ADD_R64_M, {1: "RAX", 2: MemoryAddress("RAX", displacement=1 << 31)}, "displacement"),
    (XCHG, {1: "RAX"}, "another variant"),
    (VADDPS_ER, {1: "ZMM1", 2: "ZMM3", 3: "ZMM3", ROUNDING: "up"}, "rounding mode"),
]


@pytest.mark.parametrize(("one", "values", "message"), REFUSED)
def test_refuses(one: InstructionVariant, values: dict[int, OperandValue], message: str) -> None:
    with pytest.raises(EncodingError, match=r"(?s).*" + message):
        encode(one, values)


def test_more_demanding_variants_are_tried_first() -> None:
    plain = variant("leg.0.80 mod=3 reg=0 lock=0 1:B5 2:S8", reg(1, R8), imm(2), immzero="0")
    zero = variant("leg.0.80 mod=3 reg=0 lock=0 1:B5 2:S8", reg(1, R8), imm(2, "0"), immzero="1")
    decoder = Decoder([plain, zero])
    assert decoder.decode(bytes.fromhex("80c000")).variant is zero
    assert decoder.decode(bytes.fromhex("80c001")).variant is plain
    assert encode(zero, {1: "AL"}).hex() == "80c000"
    with pytest.raises(EncodingError, match="immzero"):
        encode(plain, {1: "AL", 2: 0})


@pytest.mark.parametrize("data", ["", "48", "4801", "480354", "6248", "0f", "f0f0f0f0f0f0f0f0f0f0f0f0f0f04801c0", "ff"])
def test_undecodable_bytes_name_the_offset(data: str) -> None:
    with pytest.raises(DecodingError, match="offset 1"):
        Decoder([ADD_R64, ADD_R64_M]).decode(b"\x00" + bytes.fromhex(data), 1)
