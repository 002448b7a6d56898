"""The encoding of a variant as a compact string: made from XED's pattern, read by the encoder and the decoder.

The string holds one form, or several joined by ` | ` where several of XED's records make the same variant. The encoder
takes the first that fits, the decoder tries all. A form is a list of words:

    evex.1.58 pp=1 w=1 l=2 b=0 u=1 mod=3 n=64 1:R5 2:K 3:V5 4:BX

- `SPACE.MAP.OPCODE`: the space is `leg`, `vex`, `evex` or `xop`; the map is 0 for one-byte opcodes, 1 for 0F, 2 for
  0F38, 3 for 0F3A, or the number in a VEX, EVEX or XOP prefix. A fourth part is the byte after the operands of 3DNow!.
  `+` after the opcode: its low three bits are the field `srm`.
- `field=values`: a condition; the allowed values are joined by `,`. `FIELDS` lists the fields. `mod`, `reg` or `rm`
  imply a ModRM byte; where none of them appears, `modrm` says that there is one.
- `index:CODE`: where an operand is encoded; `CODES` lists the codes.
- `n=bytes`: the factor of an 8-bit displacement in an EVEX encoding (Intel SDM volume 2A, section 2.7.5).
- `rc`: the vector length bits hold a rounding mode.
- `differ=indexes`: the registers of these operands (of a vector address, the index) must all differ, or the instruction
  is undefined. `unlike=indexes`: the first must differ from each of the others.
- `norip`: the address cannot be relative to RIP.
- `old`: an encoding for processors without a later extension (BSF with the prefix F3, which became TZCNT).

Sources: the datafiles of Intel XED; field positions from Intel SDM volume 2A, chapter 2, and, for REX2 and the fields
of promoted instructions, the Intel APX architecture specification, section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from xed_convert.errors import EncodingError

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELDS: dict[str, tuple[int, int]] = {
    "osz": (0, 1),  # prefix 66
    "rep": (1, 2),  # the last of the prefixes F2 (2) and F3 (3)
    "w": (3, 1),
    "mod": (4, 2),
    "reg": (6, 3),
    "rm": (9, 3),
    "rex2": (12, 1),
    "b3": (13, 1),
    "b4": (14, 1),
    "r3": (15, 1),
    "r4": (16, 1),
    "asz": (17, 1),  # prefix 67
    "lock": (18, 1),
    "pp": (19, 2),
    "l": (21, 2),
    "v": (23, 4),  # vvvv as a register number: not inverted, 0 if unused
    "v4": (27, 1),
    "b": (28, 1),
    "z": (29, 1),
    "a": (30, 3),
    "u": (33, 1),
    "srm": (34, 3),
}
"""Fields of an encoding: lowest bit and number of bits in the integer in which the decoder collects them."""

CODES = {
    "R3": "ModRM.reg",
    "R4": "ModRM.reg and R",
    "R5": "ModRM.reg, R and R4",
    "B3": "ModRM.rm",
    "B4": "ModRM.rm and B",
    "B5": "ModRM.rm, B and B4",
    "BX": "ModRM.rm, B and X (vector registers in EVEX)",
    "V4": "vvvv",
    "V5": "vvvv and V4",
    "S5": "the opcode's low three bits, B and B4",
    "K": "aaa",
    "Q": "bits 7 to 4 of the immediate byte",
    "F": "default flags of CCMP and CTEST: OF, SF, ZF, CF in vvvv",
    "M": "memory at ModRM.rm",
    "MX": "memory with a vector of XMM indices",
    "MY": "memory with a vector of YMM indices",
    "MZ": "memory with a vector of ZMM indices",
    "O": "a 64-bit absolute address after the opcode",
    "U4": "bits 3 to 0 of the immediate byte",
    **{f"U{width}": f"immediate of {width} bits" for width in (8, 16, 32, 64)},
    **{f"S{width}": f"immediate of {width} bits, sign-extended" for width in (8, 16, 32)},
    **{f"D{width}": f"displacement of {width} bits from the end of the instruction" for width in (8, 16, 32)},
    "D64": "a 64-bit absolute target",
}
"""Where an operand's value is encoded."""

SPACES = {0: "leg", 1: "vex", 2: "evex", 3: "xop"}
"""Encoding spaces by XED's number (VEXVALID)."""


@dataclass(frozen=True, slots=True)
class EncodingForm:
    """One form of an encoding string, parsed.

    `conditions` gives the allowed values of a field, the encoder's preferred one first. `places` gives index and code
    of each encoded operand.
    """

    space: str
    map: int
    opcode: int
    conditions: Mapping[str, tuple[int, ...]]
    places: tuple[tuple[int, str], ...]
    has_modrm: bool = False
    in_opcode: bool = False
    suffix: int | None = None
    scale: int = 1
    rounding: bool = False
    differ: tuple[int, ...] = ()
    unlike: tuple[int, ...] = ()
    no_rip: bool = False
    old: bool = False

    @property
    def has_extended_registers(self) -> bool:
        """Whether R16 to R31 can be encoded: with a REX2 prefix (maps 0 and 1 only) or in EVEX."""
        if self.space == "leg":
            return self.map < 2 and 1 in self.conditions.get("rex2", (0, 1))
        return self.space == "evex"

    def __str__(self) -> str:
        """Write the form as in an encoding string."""
        words = [f"{self.space}.{self.map}.{self.opcode:02X}{'+' * self.in_opcode}"]
        if self.suffix is not None:
            words[0] += f".{self.suffix:02X}"
        words += [_condition_text(name, values) for name, values in self.conditions.items()]
        if self.has_modrm and not {"mod", "reg", "rm"} & self.conditions.keys():
            words.append("modrm")
        words += ["rc"] * self.rounding + ["norip"] * self.no_rip + ["old"] * self.old
        if self.scale != 1:
            words.append(f"n={self.scale}")
        if self.differ:
            words.append(_condition_text("differ", self.differ))
        if self.unlike:
            words.append(_condition_text("unlike", self.unlike))
        words += [f"{index}:{code}" for index, code in self.places]
        return " ".join(words)


@lru_cache(maxsize=4096)
def _condition_text(name: str, values: tuple[int, ...]) -> str:
    """Write `name=values`."""
    return f"{name}={','.join(map(str, values))}"


@lru_cache(maxsize=65536)
def parse_encoding(text: str) -> tuple[EncodingForm, ...]:
    """Read an encoding string.

    Raises:
        EncodingError: a word is unknown.
    """
    try:
        return tuple(_parse_form(part) for part in text.split(" | "))
    except (ValueError, KeyError) as error:
        message = f"not an encoding: {text!r} ({error})"
        raise EncodingError(message, hint="Make the catalogue again with this version's converter.") from error


def _parse_form(text: str) -> EncodingForm:
    """Read one form."""
    head, *words = text.split()
    space, map_text, opcode, *suffix = head.split(".")
    conditions: dict[str, tuple[int, ...]] = {}
    places: list[tuple[int, str]] = []
    flags: set[str] = set()
    numbers: dict[str, tuple[int, ...]] = {"n": (1,), "differ": (), "unlike": ()}
    for word in words:
        if ":" in word:
            index, code = word.split(":")
            places.append((int(index), code if code in CODES else _unknown(code)))
        elif "=" in word:
            name, values = word.split("=")
            table = numbers if name in numbers else conditions
            table[name if name in numbers or name in FIELDS else _unknown(name)] = tuple(map(int, values.split(",")))
        else:
            flags.add(word if word in ("rc", "old", "modrm", "norip") else _unknown(word))
    modrm = "modrm" in flags or bool({"mod", "reg", "rm"} & conditions.keys())
    return EncodingForm(
        space=space if space in SPACES.values() else _unknown(space),
        map=int(map_text),
        opcode=int(opcode.rstrip("+"), 16),
        conditions=conditions,
        places=tuple(places),
        has_modrm=modrm,
        in_opcode=opcode.endswith("+"),
        suffix=int(suffix[0], 16) if suffix else None,
        scale=numbers["n"][0],
        rounding="rc" in flags,
        differ=numbers["differ"],
        unlike=numbers["unlike"],
        no_rip="norip" in flags,
        old="old" in flags,
    )


def _unknown(word: str) -> str:
    """Refuse a word."""
    message = f"unknown word {word!r}"
    raise ValueError(message)
