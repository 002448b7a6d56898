"""Measures code that a user typed: bytes to microbenchmark, and what came out as rows for people."""

from __future__ import annotations

from dataclasses import dataclass
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
from runner.experiment import Measured, Request, Want
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from fractions import Fraction

    from runner.protocol import Measurer

LOOP_REGISTER = Register.R15
_WRITES = {OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}
MAX_BODY_BYTES = 4096


class MeasureError(UopscopeError):
    """The code cannot be measured as it is."""


@dataclass(frozen=True, slots=True)
class Row:
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
    def rows(self) -> list[Row]:
        """One row per counter that either mode has, cycles first."""
        names = dict.fromkeys(("core_cycles", *self.unrolled.values, *self.loop.values))
        return [
            Row(
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
    position = 0
    for instruction in Decoder(64, code, options=DecoderOptions.NO_INVALID_CHECK):
        part = code[position : position + instruction.len]
        text = f"db {part.hex(' ')}" if instruction.is_invalid else formatter.format(instruction)
        found.append(Line(part, text))
        position += instruction.len
    return tuple(found)


def _check_loop_register(code: bytes) -> None:
    factory = InstructionInfoFactory()
    for instruction in Decoder(64, code):
        for used in factory.info(instruction).used_registers():
            if RegisterExt.full_register(used.register) == LOOP_REGISTER and used.access in _WRITES:
                message = f"{instruction} writes R15, which counts the iterations of the loop around the code"
                raise MeasureError(message, hint="take another register (R14 is the address of 1 MiB of memory)")
