"""Code of a user: listed as instructions, and checked for code that cannot be measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from iced_x86 import (
    Decoder,
    DecoderOptions,
    Formatter,
    FormatterSyntax,
    InstructionInfoFactory,
    OpAccess,
    Register,
    RegisterExt,
)

from generator.harness.style import PAUSE, RESUME
from generator.microbenchmark import MARK, Line
from xed_convert.assembly.formatting import format_instance
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.decoder import Decoder as CatalogueDecoder
from xed_convert.encoding.registers import GPR
from xed_convert.errors import DecodingError, UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iced_x86 import Instruction

    from generator.microbenchmark import Microbenchmark
    from xed_convert.encoding.decoder import Decoded

_PARTS = {f"R{number}": {names[number] for names in GPR.values()} for number in (13, 15)}
MARK_BYTES = len(PAUSE)
MARK_TEXTS = {PAUSE: "PAUSE_COUNTING", RESUME: "RESUME_COUNTING"}
"""How the marks are written in text (see `runner.own_code.reading.text`) and shown."""
_WRITES = {OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}
MAX_BODY_BYTES = 4096
"""The largest size runs 110 copies or fills 24 KiB; with more bytes too few copies fit into an L1 cache of 32 KiB."""


class MeasureError(UopscopeError):
    """The code cannot be measured as it is."""


def check_body(benchmark: Microbenchmark, *, loops: bool, automatic: bool) -> None:
    """Refuse code that cannot be measured: none, too much, or code that writes what the harness needs.

    `loops`: R15 counts iterations. `automatic`: the number of copies is not the user's choice.

    Raises:
        MeasureError: says what is wrong.
    """
    size = len(benchmark.body_code)
    if not size:
        raise MeasureError("there is no code to measure", hint='for example: uopscope measure --asm "IMUL RAX, RBX"')
    if automatic and size > MAX_BODY_BYTES:
        message = f"{size} bytes of code are too many: copies of it leave the instruction cache"
        raise MeasureError(message, hint=f"at most {MAX_BODY_BYTES} bytes; or say --unroll 1")
    if loops:
        _check_register(benchmark.body, "R15", "counts the iterations of the loop around the code")
    if benchmark.has_marks:
        _check_register(benchmark.body, "R13", "holds the harness's address where counting is paused")


def lines_of(code: bytes) -> tuple[Line, ...]:
    """Cut code into instructions and marks; what no decoder knows is one line of bytes."""
    found: list[Line] = []
    rest = code
    while (at := rest.find(MARK)) >= 0 and rest[at : at + MARK_BYTES] in MARK_TEXTS:
        mark = rest[at : at + MARK_BYTES]
        found += [*_instructions(rest[:at]), Line(mark, MARK_TEXTS[mark])]
        rest = rest[at + MARK_BYTES :]
    return (*found, *_instructions(rest))


def _instructions(code: bytes) -> list[Line]:
    formatter = Formatter(FormatterSyntax.INTEL)
    formatter.uppercase_mnemonics = formatter.uppercase_registers = True
    formatter.hex_prefix, formatter.hex_suffix = "0x", ""
    infos = InstructionInfoFactory()
    found = []
    for one in _pieces(code):
        if one.newer:
            text = format_instance(one.newer.variant, one.newer.values)
            accesses_memory = one.newer.variant.accesses_memory
        else:
            text = f"db {one.code.hex(' ')}" if one.instruction.is_invalid else formatter.format(one.instruction)
            accesses_memory = bool(infos.info(one.instruction).used_memory())
        found.append(Line(one.code, text, accesses_memory=accesses_memory))
    return found


@dataclass(frozen=True, slots=True)
class _Piece:
    """One instruction in code, as iced-x86 knows it, and as the catalogue does where iced-x86 is too old (APX)."""

    code: bytes
    instruction: Instruction
    newer: Decoded | None

    def writes(self, name: str) -> bool:
        """Whether it writes a 64-bit register or a part of it."""
        if self.newer is None:
            used = InstructionInfoFactory().info(self.instruction).used_registers()
            whole = getattr(Register, name)
            return any(RegisterExt.full_register(one.register) == whole and one.access in _WRITES for one in used)
        values, parts = self.newer.values, _PARTS[name]
        return any(one.written and values.get(one.index) in parts for one in self.newer.variant.operands)


def _pieces(code: bytes) -> Iterator[_Piece]:
    decoder = Decoder(64, code, options=DecoderOptions.NO_INVALID_CHECK)
    while decoder.can_decode:
        start = decoder.position
        instruction = decoder.decode()
        newer = _of_catalogue(code, start) if instruction.is_invalid else None
        if newer:
            decoder.position = start + newer.length_bytes
        yield _Piece(code[start : decoder.position], instruction, newer)


def _of_catalogue(code: bytes, offset: int) -> Decoded | None:
    try:
        return _decoder().decode(code, offset)
    except DecodingError:
        return None


@cache
def _decoder() -> CatalogueDecoder:
    return CatalogueDecoder(Catalogue.load())


def _check_register(lines: Iterable[Line], name: str, purpose: str) -> None:
    for line in lines:
        if line.code not in MARK_TEXTS and any(one.writes(name) for one in _pieces(line.code)):
            message = f"{line.text} writes {name}, which {purpose}"
            raise MeasureError(message, hint="take another register (R14 is the address of memory)")
