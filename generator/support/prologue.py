"""Code that an instruction needs in order to run: a prologue, an epilogue, and lines of the setup.

An indirect jump needs a target, RET an address on the stack, LEAVE a frame, a repeated string instruction a count:

    LEA RBX, [RIP+2]; JMP RBX

`prologues.tsv` has a row per instruction class (a glob) and form: the kind of its first explicit operand (`reg`, `mem`,
`imm`), or `-` if it has none. The lines of `setup` run once; `prologue` and `epilogue` stand before and after every
instance. Their µops are measured by themselves and subtracted.

Operands of lines:

- `OP1` is the instance's first operand, `SCRATCH64` a register of its own;
- `ITSELF` and `ADDRESS` are where the instance begins and ends, `NEXT` is its end as the displacement of a branch;
- `R14+0x800` and `RSP-OP1` are addresses, too;
- everything else is a register or a number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from generator.assemble import assemble
from generator.facts import LineTemplate, parse_lines, read_facts
from generator.microbenchmark import code_bytes
from xed_convert.model import Instance, InstructionVariant, MemoryAddress, OperandKind, OperandValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.factory import InstructionFactory
    from generator.microbenchmark import Line

COLUMNS = ("iclass", "form", "setup", "prologue", "epilogue", "reason", "source")
SCRATCH = "R12"
"""The register of `SCRATCH64`; allocators give it away last."""

_FORMS = {OperandKind.REGISTER: "reg", OperandKind.MEMORY: "mem", OperandKind.IMMEDIATE: "imm"}
_ADDRESS = re.compile(r"(R14|RSP)([+-])(\w+)")


@dataclass(frozen=True, slots=True)
class ExtraCode:
    """A row of the table; lines are variants' strings with the names of their operands."""

    iclass: str
    form: str
    setup: tuple[LineTemplate, ...]
    prologue: tuple[LineTemplate, ...]
    epilogue: tuple[LineTemplate, ...]

    @property
    def repeated(self) -> bool:
        """Whether there are lines beside every instance."""
        return bool(self.prologue or self.epilogue)


@cache
def rows() -> tuple[ExtraCode, ...]:
    """Return the table's rows."""
    found = read_facts("prologues.tsv", COLUMNS, ("iclass", "form"))
    return tuple(
        ExtraCode(
            row["iclass"], row["form"], *(parse_lines(row[column]) for column in ("setup", "prologue", "epilogue"))
        )
        for row in found
    )


def extra_code_of(variant: InstructionVariant) -> ExtraCode | None:
    """Return the row for a variant, if it needs anything."""
    if not _is_named(variant.iclass):
        return None
    first = next((operand for operand in variant.operands if operand.explicit), None)
    return _row(variant.iclass, _FORMS.get(first.kind, "") if first else "-")


@cache
def _is_named(iclass: str) -> bool:
    """Whether there are rows for a class of instructions, in any form."""
    return any(fnmatchcase(iclass, row.iclass) for row in rows())


@cache
def _row(iclass: str, form: str) -> ExtraCode | None:
    return next((row for row in rows() if row.form == form and fnmatchcase(iclass, row.iclass)), None)


def setup_lines(instructions: InstructionFactory, instance: Instance) -> list[Line]:
    """Return what the setup has to do for an instance, after registers have their values."""
    row = extra_code_of(instance.variant)
    return _lines(instructions, instance, row.setup, (0, 0)) if row else []


def with_prologue(instructions: InstructionFactory, instance: Instance) -> list[Line]:
    """Return an instance between its prologue and its epilogue."""
    row, own = extra_code_of(instance.variant), assemble(instance)
    if row is None or not row.repeated:
        return [own]
    sizes = code_bytes(_lines(instructions, instance, row.prologue, (0, 0)))
    before = _lines(instructions, instance, row.prologue, (sizes, sizes + len(own.code)))
    return [*before, own, *_lines(instructions, instance, row.epilogue, (0, 0))]


def prologue_and_epilogue(instructions: InstructionFactory, instance: Instance) -> list[Line]:
    """Return the prologue and the epilogue of an instance, without it.

    A branch to where the instance was leads to the next line; a pointer to it points past that line.
    """
    row = extra_code_of(instance.variant)
    if row is None:
        return []
    sizes = [len(line.code) for line in _lines(instructions, instance, row.prologue, (0, 0))]
    found: list[Line] = []
    for template, size, following in zip(row.prologue, sizes, [*sizes[1:], 0], strict=False):
        found += _lines(instructions, instance, (template,), (size + following, size))
    return found + _lines(instructions, instance, row.epilogue, (0, 0))


def occupied(variant: InstructionVariant) -> frozenset[str]:
    """Return the families of registers that the lines around a variant use besides its operands."""
    row = extra_code_of(variant)
    tokens = {token for _, names in (row.prologue + row.epilogue if row else ()) for token in names}
    return frozenset({SCRATCH}) if "SCRATCH64" in tokens else frozenset()


def _lines(
    instructions: InstructionFactory, instance: Instance, templates: Sequence[LineTemplate], targets: tuple[int, int]
) -> list[Line]:
    """Fill in lines; `targets` are where the instance begins and ends, in bytes from the beginning of the lines."""
    found: list[Line] = []
    for string, tokens in templates:
        plain = instructions.line(string, *(_value(instance, token, 0, 0) for token in tokens))
        here = code_bytes(found) + len(plain.code)
        begin, end = targets
        found.append(
            instructions.line(string, *(_value(instance, token, begin - here, end - here) for token in tokens))
        )
    return found


def _value(instance: Instance, token: str, begin: int, end: int) -> OperandValue:
    """Return what a token stands for; the instance begins and ends so many bytes behind the line's end."""
    first = next((instance.values[o.index] for o in instance.variant.operands if o.explicit), 0)
    named: dict[str, OperandValue] = {
        "OP1": first,
        "SCRATCH64": SCRATCH,
        "ITSELF": MemoryAddress("RIP", displacement=begin, displacement_bits=32),
        "NEXT": end,
        "ADDRESS": MemoryAddress("RIP", displacement=end, displacement_bits=32),
    }
    if token in named:
        return named[token]
    if address := _ADDRESS.fullmatch(token):
        base, sign, amount = address.groups()
        distance = int(str(first) if amount == "OP1" else amount, 0)
        return MemoryAddress(base, displacement=-distance if sign == "-" else distance, displacement_bits=32)
    return int(token, 0) if token[0].isdigit() else token
