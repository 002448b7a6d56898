"""Measures code that a user typed: bytes to microbenchmark, and what came out as rows for people."""

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

from generator.microbenchmark import Line, Microbenchmark
from inference.experiment import Measured, Request, Want
from xed_convert.assembly.formatting import format_instance
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.decoder import Decoder as CatalogueDecoder
from xed_convert.encoding.registers import GPR
from xed_convert.errors import DecodingError, UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from iced_x86 import Instruction

    from runner.measuring.protocol import Measurer
    from xed_convert.encoding.decoder import Decoded

LOOP_REGISTER = {names[15] for names in GPR.values()}
_WRITES = {OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}
MAX_BODY_BYTES = 4096
"""The largest size runs 110 copies or fills 24 KiB; with more bytes too few copies fit into an L1 cache of 32 KiB."""


class MeasureError(UopscopeError):
    """The code cannot be measured as it is."""


@dataclass(frozen=True, slots=True)
class CounterRow:
    """One counter's value per copy, unrolled and in a loop, with spreads; None where it was not measured."""

    counter: str
    unrolled: Fraction | None
    unrolled_spread: Fraction | None
    loop: Fraction | None
    loop_spread: Fraction | None


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured about a piece of code."""

    benchmark: Microbenchmark
    unrolled: Measured
    loop: Measured

    @property
    def rows(self) -> list[CounterRow]:
        """One row per counter that either mode has, cycles first."""
        names = dict.fromkeys(("core_cycles", *self.unrolled.values, *self.loop.values))
        return [
            CounterRow(
                name,
                self.unrolled.values.get(name),
                self.unrolled.spread.get(name),
                self.loop.values.get(name),
                self.loop.spread.get(name),
            )
            for name in names
            if name in self.unrolled.values or name in self.loop.values
        ]

    @property
    def problems(self) -> list[str]:
        """Say what did not run, or not well."""
        found = []
        for mode, measured in (("unrolled", self.unrolled), ("loop", self.loop)):
            if not measured.ok:
                found.append(f"{mode}: {measured.status.value}: {measured.detail}")
            elif measured.detail:
                found.append(f"{mode}: {measured.detail}")
        return found


def benchmark_of(body: bytes, setup: bytes) -> Microbenchmark:
    """Return the microbenchmark of that code.

    Raises:
        MeasureError: there is no code, too much of it, or it writes the register that counts the loop.
    """
    if not body:
        raise MeasureError("there is no code to measure", hint='for example: uopscope measure --asm "IMUL RAX, RBX"')
    if len(body) > MAX_BODY_BYTES:
        message = f"{len(body)} bytes of code are too many: copies of it leave the instruction cache"
        raise MeasureError(message, hint=f"at most {MAX_BODY_BYTES} bytes")
    _check_loop_register(body)
    return Microbenchmark(lines_of(setup), lines_of(body), "typed by the user")


def measure(measurer: Measurer, benchmark: Microbenchmark) -> Report:
    """Measure it unrolled and in a loop, with every counter that the backend has."""
    unrolled, loop = measurer.measure([Request(benchmark, Want.ALL, loop) for loop in (False, True)])
    return Report(benchmark, unrolled, loop)


def lines_of(code: bytes) -> tuple[Line, ...]:
    """Cut code into instructions; what no decoder knows is one line of bytes."""
    formatter = Formatter(FormatterSyntax.INTEL)
    formatter.uppercase_mnemonics = formatter.uppercase_registers = True
    formatter.hex_prefix, formatter.hex_suffix = "0x", ""
    found = []
    for one in _pieces(code):
        if one.newer:
            text = format_instance(one.newer.variant, one.newer.values)
        else:
            text = f"db {one.code.hex(' ')}" if one.instruction.is_invalid else formatter.format(one.instruction)
        found.append(Line(one.code, text))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Piece:
    """One instruction in code, as iced-x86 knows it, and as the catalogue does where iced-x86 is too old (APX)."""

    code: bytes
    instruction: Instruction
    newer: Decoded | None

    def writes_loop_register(self) -> bool:
        """Whether it writes R15 or a part of it."""
        if self.newer is None:
            used = InstructionInfoFactory().info(self.instruction).used_registers()
            return any(
                RegisterExt.full_register(one.register) == Register.R15 and one.access in _WRITES for one in used
            )
        values = self.newer.values
        return any(one.written and values.get(one.index) in LOOP_REGISTER for one in self.newer.variant.operands)


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


def _check_loop_register(code: bytes) -> None:
    for one in _pieces(code):
        if one.writes_loop_register():
            message = (
                f"{lines_of(one.code)[0].text} writes R15, which counts the iterations of the loop around the code"
            )
            raise MeasureError(message, hint="take another register (R14 is the address of 1 MiB of memory)")
