"""Operand values, as far as they change the time: dividers are fast for some of them.

Values are followed through moves and simple arithmetic, in 64 bits per register or location in memory (of a vector its
low 64 bits). Any other instruction that writes a register makes its value unknown. Unknown values are taken to be of
the slow kind. A division of integers is fast if its quotient has at most a quarter of the operand's bits. One of
floating-point numbers (or a square root) is fast if no operand has more than `SHORT_MANTISSA` significant bits.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from results.machine.graph import tracked
from simulator.core.runs import executed
from simulator.instructions.locations import is_high_byte, location_of, width_of
from xed_convert.model import MemoryAddress, OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simulator.core.compiler import Compiled
    from simulator.core.frontend import Frontend
    from simulator.core.runs import Repetition, Run
    from xed_convert.model import Operand

SHORT_MANTISSA = 8
"""Bits of a mantissa: values of the fast kind such as 1.0 have hardly any, those of the slow kind nearly all."""

MOST_COPIES = 2000
"""Copies that are followed. If values still change after this many, all later copies count as the last one."""

_FULL = (1 << 64) - 1

_MOVES = """
    MOV MOVAPD MOVAPS MOVD MOVDDUP MOVDQA MOVDQU MOVQ MOVUPD MOVUPS MOVZX VBROADCASTSD VMOVAPD VMOVAPS VMOVD VMOVDDUP
    VMOVDQA VMOVDQA32 VMOVDQA64 VMOVDQU VMOVDQU32 VMOVDQU64 VMOVQ VMOVUPD VMOVUPS VPBROADCASTQ
"""

MOVES = frozenset(_MOVES.split())
"""Mnemonics that copy (the low 64 bits of) their last operand to the first."""

_BITWISE: dict[str, Callable[[int, int], int]] = {"AND": operator.and_, "OR": operator.or_, "XOR": operator.xor}
_INTEGER: dict[str, Callable[[int, int], int]] = {**_BITWISE, "ADD": operator.add, "SUB": operator.sub}
_VECTOR_STEMS = {"PAND": "AND", "ANDP": "AND", "POR": "OR", "ORP": "OR", "PXOR": "XOR", "XORP": "XOR"}

Snapshot = tuple[tuple[tuple[object, int], ...], ...]


def _operation(iclass: str) -> str:
    """Return AND, OR, XOR, ADD or SUB for mnemonics that do this, "" for all others."""
    if iclass in _INTEGER:
        return iclass
    stem = iclass.removeprefix("V").rstrip("DQS")
    return _VECTOR_STEMS.get(stem, "")


class KnownValues:
    """What is known of registers and memory while a program is executed."""

    def __init__(self, frontend: Frontend) -> None:
        """Know nothing."""
        self.frontend = frontend
        self.registers: dict[str, int] = {}
        self.memory: dict[tuple[object, ...], int] = {}

    def resolve(self, runs: Sequence[Run | Repetition]) -> list[Run | Repetition]:
        """Execute a trace and return it with the fast form of every instruction whose values are of the fast kind."""
        return executed(runs, self._executed, self._snapshot, MOST_COPIES)

    def _executed(self, run: Run) -> Run:
        return self.frontend.run_of(tuple([self.execute(one) for one in run.code]), run.reads)

    def _snapshot(self) -> Snapshot:
        registers = tuple(sorted(self.registers.items()))
        return (registers, tuple(sorted(self.memory.items(), key=str)))

    def execute(self, one: Compiled) -> Compiled:
        """Execute one instruction; return its fast form if its values are of the fast kind."""
        form = one.fast_form if one.fast_form is not None and self._is_fast(one) else one
        iclass = one.variant.iclass
        explicit = [operand for operand in one.variant.operands if operand.explicit]
        results = self._results(one, iclass, explicit)
        for operand in one.variant.operands:
            if operand.written or operand.conditional_write:
                self._write(one, operand, results.get(operand.index))
        return form

    def _results(self, one: Compiled, iclass: str, explicit: list[Operand]) -> dict[int, int | None]:
        """Return the new values of operands by index, as far as the instruction is followed."""
        if not explicit or not (explicit[0].written or iclass in ("DIV", "IDIV")):
            return {}
        values = [self._read(one, operand) for operand in explicit]
        if iclass in MOVES and len(explicit) == 2:
            return {explicit[0].index: values[1]}
        operation = _operation(iclass)
        if operation and len(values) in (2, 3):
            same = len({self._name(one, operand) for operand in explicit[-2:]}) == 1
            return {explicit[0].index: _combine(operation, values[-2], values[-1], same=same)}
        if iclass in ("INC", "DEC") and values[0] is not None:
            return {explicit[0].index: values[0] + (1 if iclass == "INC" else -1)}
        return {}

    def _name(self, one: Compiled, operand: Operand) -> object:
        value = one.values.get(operand.index)
        return value if value is not None else operand.registers[:1]

    def _read(self, one: Compiled, operand: Operand) -> int | None:
        value = one.values.get(operand.index)
        width = operand.width_bits or 64
        if operand.kind is OperandKind.IMMEDIATE:
            return value & _FULL if isinstance(value, int) else None
        if isinstance(value, MemoryAddress):
            known = self.memory.get(_address(value))
            return None if known is None else known & ((1 << min(width, 64)) - 1)
        return self._register(str(value)) if operand.kind is OperandKind.REGISTER and value is not None else None

    def _register(self, name: str) -> int | None:
        known = self.registers.get(location_of(name))
        if known is None:
            return None
        if is_high_byte(name):
            return known >> 8 & 0xFF
        return known & ((1 << (width_of(name) or 64)) - 1)

    def _write(self, one: Compiled, operand: Operand, value: int | None) -> None:
        target = one.values.get(operand.index)
        if isinstance(target, MemoryAddress):
            _set(self.memory, _address(target), value)
        elif operand.kind is OperandKind.REGISTER and tracked(operand):
            name = str(target) if target is not None else operand.registers[0]
            self._write_register(name, value)

    def _write_register(self, name: str, value: int | None) -> None:
        location, width = location_of(name), width_of(name) or 64
        old = self.registers.get(location)
        if width < 32:
            if value is None or old is None:
                value = None
            else:
                shift = 8 if is_high_byte(name) else 0
                mask = ((1 << width) - 1) << shift
                value = (old & ~mask) | (value << shift & mask)
        _set(self.registers, location, None if value is None else value & ((1 << max(width, 32)) - 1))

    def _is_fast(self, one: Compiled) -> bool:
        iclass = one.variant.iclass
        if iclass in ("DIV", "IDIV"):
            return self._divides_fast(one)
        sources = [o for o in one.variant.operands if o.explicit and o.read and not o.opmask]
        single = iclass.endswith(("PS", "SS", "PH", "SH"))
        return all(_is_short(self._read(one, operand), 32 if single else 64) for operand in sources)

    def _divides_fast(self, one: Compiled) -> bool:
        operand = next(o for o in one.variant.operands if o.explicit)
        width = operand.width_bits or 64
        divisor = self._read(one, operand)
        low = self._register("AX" if width == 8 else {16: "AX", 32: "EAX"}.get(width, "RAX"))
        high = 0 if width == 8 else self._register({16: "DX", 32: "EDX"}.get(width, "RDX"))
        if not divisor or low is None or high is None:
            return False
        return ((high << width | low) // divisor).bit_length() <= width // 4


def _set(known: dict[str, int] | dict[tuple[object, ...], int], location: object, value: int | None) -> None:
    """Note a value, or that it is unknown."""
    if value is None:
        known.pop(location, None)  # type: ignore[call-overload] # the callers pair each dictionary with its kind of location
    else:
        known[location] = value & _FULL  # type: ignore[index] # likewise


def _address(value: MemoryAddress) -> tuple[object, ...]:
    return (value.base, value.index, value.scale, value.displacement)


def _combine(operation: str, first: int | None, second: int | None, *, same: bool) -> int | None:
    """Return the result of an operation; some results are known although an operand is not."""
    if same and operation in ("XOR", "SUB"):
        return 0
    if operation == "AND" and 0 in (first, second):
        return 0
    if first is None or second is None:
        return None
    return _INTEGER[operation](first, second) & _FULL


def _is_short(value: int | None, width: int) -> bool:
    """Whether the significant bits of a floating-point number's mantissa are few; its low 64 bits are known."""
    if value is None:
        return False
    mantissa_bits = 23 if width == 32 else 52
    lanes = (value & 0xFFFFFFFF, value >> 32) if width == 32 else (value,)
    return all(not lane & ((1 << mantissa_bits - SHORT_MANTISSA) - 1) for lane in lanes)
