"""Sequences of independent instances of an instruction, for throughput and for the port usage in isolation.

Sequences have different lengths, are unrolled or in a loop, and have dependency breakers or not (Abel and Reineke,
ASPLOS 2019, §5.3.1). The least time counts. No instance reads a register or memory location that another one writes
(`generator.sequences.addresses`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from generator.cache import PerObject
from generator.errors import AllocationError
from generator.facts import parse_lines, read_facts
from generator.microbenchmark import Line, Microbenchmark
from generator.operands.allocation import FIRST_CHOICES, Allocator, independent_instances
from generator.operands.effects import (
    MOVING_CATEGORIES,
    address_registers,
    effects_of,
    general_inputs,
    implicit_bases,
    unset_indices,
)
from generator.operands.places import STATUS_FLAGS
from generator.operands.registers import family, name_among, part, register_class
from generator.operands.reserved import BASE_REGISTER, harness_registers
from generator.operands.values import ValueKind, Values, kinds_of, values_of
from generator.sequences.addresses import has_line_each, is_changed, is_written, nearer
from generator.support.breakers import (
    COPIES,
    break_flags,
    break_flags_by_idiom,
    break_register_of,
    restore_address,
)
from generator.support.initial import (
    constant,
    general_value,
    general_values,
    memory_values,
    other_files_setup,
    store_pattern,
)
from generator.support.prologue import (
    extra_code_of,
    prologue_and_epilogue,
    setup_lines,
    with_prologue,
)
from results.model import Form
from xed_convert.model import Instance, InstructionVariant, MemoryAddress, Operand, OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from generator.factory import InstructionFactory

MANY = 32
"""Instances of a sequence that is longer than all of `LENGTHS`."""

MOST_LINES = 128
"""Instances of a sequence with a cache line for each: together 8 KiB of a level-1 data cache of 32. A line that is
flushed or written past the caches is used again after some 400 cycles."""

LENGTHS = (8, 4, 1, 2, 16)
"""Instances of a sequence, in the order in which lengths are tried. §5.3.1 has 1, 2, 4 and 8."""

_BREAKABLE = frozenset({"GPR", "VEC", "K", "MMX"})
"""Register files that breakers can overwrite."""

_STACK_MOVES = frozenset({"X87PUSH", "X87POP", "X87POP2"})
"""What the catalogue names as registers where the x87 stack is turned."""

SUBJECT_SLOT = 15
"""The memory place of an instruction that stands among others: theirs are counted from 0 on, twelve at most."""

_SETUP_TEMPORARY = "R12"
"""The register that setups store values through; allocators give it away last."""

_STRINGS = {"RDI": 0x1000, "RSI": -0x1000}
"""Where strings begin again, in bytes from R14: a page to either side, within the memory of the code under test."""


@dataclass(frozen=True, slots=True)
class SequenceShape:
    """What a sequence is: how many instances, with breakers or not, and in which special form.

    Of the form `SAME_REGISTER` all explicit register operands that are read are the same register, and `INDEXED`
    addresses memory with a base and an index. `balanced` puts the stack pointer and the addresses of strings back after
    the last instance, as loops need it. Breakers stand after each `every` instances. `renewed` overwrites what an
    instance both reads and writes, so that its registers can be used again without waiting for it. All of it stands
    `repeats` times one after another. Memory places that are written are side by side, or a cache line `apart`.
    `not_taken` sets the flags so before the first instance that a conditional jump falls through. `idiom` overwrites
    flags with a zeroing idiom, which some cores do at rename, if a register is free for that.
    """

    count: int = 8
    breakers: bool = False
    form: Form = Form.PLAIN
    balanced: bool = False
    kind: ValueKind = ValueKind.ANY
    renewed: bool = False
    repeats: int = 1
    every: int = 1
    apart: bool = False
    not_taken: bool = False
    idiom: bool = False


class ThroughputFactory:
    """Makes the sequences of one variant."""

    def __init__(self, instructions: InstructionFactory, variant: InstructionVariant) -> None:
        """Prepare sequences of a variant."""
        self.instructions, self.variant = instructions, variant
        self._instances: dict[tuple[int, Form, bool], list[Instance]] = {}
        self._setups: dict[tuple[int, Form, bool, ValueKind], tuple[Line, ...]] = {}
        self._carried: frozenset[str] | None = None

    def sequence(self, shape: SequenceShape) -> Microbenchmark:
        """Return a sequence; its `divisor` is the number of instances, repeated ones included.

        Raises:
            AllocationError: there are not enough registers for one instance.
            EncodingError: an instance cannot be encoded.
        """
        values = values_of(self.variant, shape.kind)
        instances = self.instances(shape)
        body = self._body(shape, instances, values)
        return Microbenchmark(
            self._setup(shape, instances, values),
            tuple(body) * shape.repeats,
            self._purpose(shape, instances),
            len(instances) * shape.repeats,
            self.variant.cpl == 0,
        )

    def _body(self, shape: SequenceShape, instances: Sequence[Instance], values: Values) -> list[Line]:
        """Return the instances, each with its prologue and epilogue, and what stands between them."""
        carried = self.carried() if shape.breakers else frozenset()
        body = not_taken_lines(self.instructions, self.variant) if shape.not_taken else []
        cleared = _free_register(instances) if shape.idiom else ""
        waiting: frozenset[str] = frozenset()
        for number, instance in enumerate(instances, 1):
            body += with_prologue(self.instructions, instance)
            waiting |= carried | (self.own(instance) if shape.renewed else frozenset())
            overwritten = self._restored(instance, values) if shape.kind is ValueKind.SLOW else frozenset()
            if number % shape.every == 0 or number == len(instances):
                overwritten, waiting = overwritten | waiting, frozenset()
            if overwritten:
                body += self.breakers(instance, values, overwritten, cleared)
        if shape.balanced:
            body += balance(self.instructions, self.variant, len(instances))
        return body

    def _purpose(self, shape: SequenceShape, instances: Sequence[Instance]) -> str:
        """Say what the sequence is for, and how it differs from the plain one."""
        cleared = shape.idiom and bool(_free_register(instances))
        after = f" after every {shape.every}" if shape.every > 1 else ""
        forms = [
            text
            for text, wanted in (
                (f"with breakers{after}", shape.breakers and not cleared),
                (f"with zeroing idioms as breakers{after}", shape.breakers and cleared),
                (f"with what they write renewed{after}", shape.renewed),
                ("that write a cache line each", shape.apart),
                ("with a cache line each", len(instances) > 1 and not shape.apart and has_line_each(self.variant)),
                ("not taken", shape.not_taken),
                (f"({shape.form.words})", shape.form is not Form.PLAIN),
                (f"with {shape.kind.value} values", shape.kind is not ValueKind.ANY),
                (f"{shape.repeats} times over", shape.repeats > 1),
            )
            if wanted
        ]
        if self.has_prologue:
            forms.append(f"with {_names(prologue_and_epilogue(self.instructions, instances[0]))} beside each")
        return " ".join([f"throughput of {self.variant.string}: {len(instances)} instances", *forms])

    def _setup(self, shape: SequenceShape, instances: Sequence[Instance], values: Values) -> tuple[Line, ...]:
        """Return the code before the copies; it is the same with breakers, without, and in a loop."""
        key = (shape.count, shape.form, shape.apart, shape.kind)
        if key not in self._setups:
            self._setups[key] = setup_of(self.instructions, instances, values)
        if not self.variant.writes_masks:
            return self._setups[key]
        broken = (COPIES["K"],) if shape.breakers or shape.renewed else ()
        return self._setups[key] + free_masks(self.instructions, instances, broken)

    @property
    def has_prologue(self) -> bool:
        """Whether something has to stand before or after each instance."""
        row = extra_code_of(self.variant)
        return row is not None and row.repeated

    def prologues_alone(self, count: int) -> Microbenchmark:
        """Return the prologues and epilogues of `count` instances, without the instances.

        Raises:
            AllocationError: there are not enough registers for one instance.
        """
        instances = self.instances(SequenceShape(count))
        body = [line for instance in instances for line in prologue_and_epilogue(self.instructions, instance)]
        setup = setup_of(self.instructions, instances, values_of(self.variant))
        purpose = f"{_names(body[: len(body) // len(instances)])} alone, as beside {self.variant.string}"
        return Microbenchmark(setup, tuple(body), purpose, len(instances), self.variant.cpl == 0)

    def instances(self, shape: SequenceShape) -> list[Instance]:
        """Return the instances of a sequence."""
        key = (shape.count, shape.form, shape.apart)
        if key not in self._instances:
            found = self._new_instances(shape)
            # Prologue and epilogue use its memory, too
            self._instances[key] = found if shape.apart or self.has_prologue else nearer(found)
        return self._instances[key]

    def alone(self, form: Form) -> Instance:
        """Return the instance that stands for a form among other instructions.

        Raises:
            AllocationError: there are not enough registers for it.
        """
        match form:
            case Form.PLAIN:
                return Allocator().instance(self.variant, slot=SUBJECT_SLOT)
            case Form.SAME_REGISTER:
                return self.instances(SequenceShape(1, form=form))[0]
            case Form.INDEXED:
                return Allocator().instance(self.variant, slot=SUBJECT_SLOT, indexed=True)

    def _new_instances(self, shape: SequenceShape) -> list[Instance]:
        match shape.form:
            case Form.PLAIN:
                return independent_instances(self.variant, shape.count)
            case Form.SAME_REGISTER:
                return self._same_register(shape.count)
            case Form.INDEXED:
                return [
                    Allocator().instance(self.variant, self._fixed(one), slot=position, indexed=True)
                    for position, one in enumerate(independent_instances(self.variant, shape.count))
                ]

    def _fixed(self, instance: Instance) -> dict[int, str | int | MemoryAddress]:
        """Return the values of an instance but for its memory operands."""
        memory = {o.index for o in self.variant.operands if o.kind is OperandKind.MEMORY}
        return {index: value for index, value in instance.values.items() if index not in memory}

    def _same_register(self, count: int) -> list[Instance]:
        """Return instances whose register operands are all the same register, a different one in each."""
        allocator = Allocator()
        instances: list[Instance] = []
        groups = same_register_operands(self.variant)
        common = [name for name in groups[0].registers if all(name_among(o.registers, name) for o in groups)]
        for position in range(count):
            try:
                chosen = allocator.register(common)
                fixed = {o.index: name_among(o.registers, chosen) for o in groups}
                instances.append(allocator.instance(self.variant, fixed, slot=position))
            except AllocationError:
                break
            allocator.hold(chosen)
        if not instances:
            raise AllocationError(f"{self.variant.string}: its register operands have no register in common")
        return instances

    def carried(self) -> frozenset[str]:
        """Return the registers and flags through which instances depend on each other with any operands."""
        if self._carried is None:
            effects = [effects_of(instance) for instance in independent_instances(self.variant, 2)]
            carried = (effects[0].writes & effects[-1].inputs) - harness_registers()
            self._carried = frozenset(n for n in carried if n in STATUS_FLAGS or register_class(n) in _BREAKABLE)
        return self._carried

    def own(self, instance: Instance) -> frozenset[str]:
        """Return the registers that an instance both reads and writes, but for those that all instances share."""
        effects = effects_of(instance)
        own = (effects.writes & effects.inputs) - harness_registers() - self.carried()
        return frozenset(name for name in own if register_class(name) in _BREAKABLE)

    def even(self, most: int) -> int:
        """Return up to how many instances use each of the registers that they read and write equally often.

        Of sixteen instances of VFMADD231PD among fourteen registers, two would wait for the first ones.
        """
        instances = self.instances(SequenceShape(most))
        different = {self.own(instance) for instance in instances}
        return most // len(different) * len(different)

    def waiting_less(self, shape: SequenceShape) -> list[SequenceShape]:
        """Return shapes that may be faster because instances wait less for each other's registers or memory.

        - Few registers: an encoding that names only two of them gives two chains. These begin anew after 32 instances.
        - A line for each instance: on Zen 4, CLFLUSH waits 420 cycles for the flush of the same line. It takes 27
          cycles with 16 lines, and 2.4 with 128.
        - Read and written memory: ADD waits some eight cycles for the store before it. It needs places for that time.
        - Locked: these wait for each other anyway, and some are faster at one place. With breakers ADC takes 6.1 cycles
          on Zen 4 instead of 7.5.
        - Comparisons to masks wait for physical registers. They need the fewest if all write one mask.
        """
        found = []
        owns = [self.own(instance) for instance in self.instances(SequenceShape(LENGTHS[0]))]
        if all(owns) and len(set(owns)) < len(owns):
            found.append(replace(shape, count=MANY, renewed=True, every=MANY))
        if has_line_each(self.variant):
            found += [replace(shape, count=MANY), replace(shape, count=MOST_LINES)]
        if is_changed(self.variant):
            found.append(replace(shape, count=MANY))
            if self.variant.attributes.get("locked") == "1" and self.carried():
                found.append(replace(shape, count=1, breakers=True, every=1))
        if self.variant.writes_masks:
            found.append(replace(shape, count=1))
        return [one for one in found if one != shape]

    def elsewhere(self, shape: SequenceShape) -> list[SequenceShape]:
        """Return the shape with other places in memory, and with a jump that is not taken, as far as there are any."""
        found = []
        if is_written(self.variant) and not self.has_prologue:
            found.append(replace(shape, apart=True))
        if self.variant.iclass in _not_taken():
            found.append(replace(shape, count=max(LENGTHS), not_taken=True))
        return found

    def _restored(self, instance: Instance, values: Values) -> frozenset[str]:
        """Return the register families that an instance writes although its time depends on what they hold.

        Fast values are such that they come out again (0/1, 1.0/1.0); slow ones are not.
        """
        operands = [o for o in self.variant.operands if o.kind is OperandKind.REGISTER and o.read and o.written]
        registers = {o.index: str(instance.values.get(o.index, next(iter(o.registers), ""))) for o in operands}
        return frozenset(
            family(name) for index, name in registers.items() if {f"op{index}", family(name)} & values.restored
        ) | (values.restored & effects_of(instance).writes)

    def depends(self) -> bool:
        """Whether instances depend on each other, or share a divider."""
        effects = [effects_of(instance) for instance in independent_instances(self.variant, 2)]
        carried = (effects[0].writes & effects[-1].inputs) - _STACK_MOVES
        memory = any(o.kind is OperandKind.MEMORY and o.read and not o.explicit for o in self.variant.operands)
        return bool(carried) or memory or len(kinds_of(self.variant)) > 1

    def breakers(self, instance: Instance, values: Values, carried: frozenset[str], cleared: str = "") -> list[Line]:
        """Return what overwrites everything that instances depend on each other through.

        Flags are overwritten by an idiom that makes the register `cleared` zero ("": by another instruction).
        """
        lines: list[Line] = []
        for name in sorted(carried - STATUS_FLAGS):
            register = part(name, 64) if register_class(name) == "GPR" else name
            line = break_register_of(self.instructions, instance, register, general_value(instance, values, name))
            if line is not None:
                lines.append(line)
        if carried & STATUS_FLAGS and cleared:
            lines += break_flags_by_idiom(self.instructions, cleared)
        elif carried & STATUS_FLAGS:
            lines += break_flags(self.instructions, carried & STATUS_FLAGS, "", _SETUP_TEMPORARY)
        return lines


def _free_register(instances: Iterable[Instance]) -> str:
    """Return a register that no instance and no harness uses ("": there is none)."""
    used = {name for one in instances for effects in [effects_of(one)] for name in effects.inputs | effects.writes}
    used |= {*harness_registers()} | {name for one in instances for name in address_registers(one)}
    return next((name for name in reversed(FIRST_CHOICES) if name not in used), "")


def free_masks(
    instructions: InstructionFactory, instances: Sequence[Instance], used: Iterable[str]
) -> tuple[Line, ...]:
    """Return the lines that clear the mask registers which no instance reads, but for those that are used.

    There are few physical mask registers, and on Zen 4 a cleared one takes none. With ones in K0 to K7 a comparison of
    vectors in memory takes 0.58 to 0.61 cycles there, and with zeros 0.50.
    """
    read = {*used} | {name for one in instances for name in effects_of(one).inputs}
    masks = [f"K{number}" for number in range(8) if f"K{number}" not in read]
    return tuple(instructions.line("KXORQ (K, K, K)", name, name, name) for name in masks)


@cache
def _not_taken() -> dict[str, tuple[tuple[str, tuple[str, ...]], ...]]:
    """Return the lines by instruction class that make a conditional jump fall through."""
    rows = read_facts("jumps_not_taken.tsv", ("iclass", "lines", "reason", "source"), ("iclass",))
    return {row["iclass"]: parse_lines(row["lines"]) for row in rows}


def not_taken_lines(instructions: InstructionFactory, variant: InstructionVariant) -> list[Line]:
    """Return the lines after which a conditional jump falls through."""
    return [
        instructions.line(string, *(int(token) if token.lstrip("-").isdecimal() else token for token in tokens))
        for string, tokens in _not_taken()[variant.iclass]
    ]


def _names(lines: Sequence[Line]) -> str:
    """Name lines for people, without their operands."""
    return " and ".join(line.text.split()[0] for line in lines)


@PerObject
def same_register_operands(variant: InstructionVariant) -> list[Operand]:
    """Return the explicit register operands that the same register could be given to (fewer than two: none)."""
    read = [o for o in variant.explicit_registers if o.read]
    if len(read) < 2 or any(o.kind is OperandKind.MEMORY for o in variant.operands if o.explicit):
        return []
    common = [name for name in read[0].registers if all(name_among(o.registers, name) for o in read)]
    return read if common else []


@cache
def _stack_moves() -> dict[str, int]:
    """Return by how many times the width of their stack operand instruction classes (globs) move the stack pointer."""
    rows = read_facts("stack_moves.tsv", ("iclass", "direction", "reason", "source"), ("iclass",))
    return {row["iclass"]: int(row["direction"]) for row in rows}


def stack_bytes(variant: InstructionVariant) -> int:
    """Return by how many bytes an instance moves the stack pointer (0: it does not)."""
    if direction := _stack_direction(variant.iclass):
        widths = [o.width_bits for o in variant.operands if o.memory is not None and o.memory.base == "RSP"]
        return direction * (widths[0] or 64) // 8 if widths else 0
    return 0


@cache
def _stack_direction(iclass: str) -> int:
    return next((direction for pattern, direction in _stack_moves().items() if fnmatchcase(iclass, pattern)), 0)


def balance(instructions: InstructionFactory, variant: InstructionVariant, count: int) -> list[Line]:
    """Return the lines that undo what `count` instances did to the stack pointer, or to the addresses of strings."""
    moved = stack_bytes(variant) * count
    lines = [_address_line(instructions, "RSP", "RSP", -moved)] if moved else []
    if variant.category in MOVING_CATEGORIES:
        bases = {o.memory.base for o in variant.operands if o.memory is not None}
        lines += [
            _address_line(instructions, base, BASE_REGISTER, _STRINGS[base]) for base in sorted(bases & set(_STRINGS))
        ]
    return lines


def _address_line(instructions: InstructionFactory, register: str, base: str, displacement: int) -> Line:
    """Put base plus displacement into a register, without touching flags."""
    address = MemoryAddress(base, displacement=displacement, displacement_bits=32)
    return instructions.line("LEA_B_D32 (R64)", register, address)


def setup_of(instructions: InstructionFactory, instances: Sequence[Instance], values: Values) -> tuple[Line, ...]:
    """Return the lines that give everything that the instances read its value."""
    constants: dict[str, int] = {}
    lines = other_files_setup(instructions, instances, values)
    for instance in instances:
        constants |= general_values(instance, values, general_inputs(instance))
        constants |= dict.fromkeys(unset_indices(instance), 0)
        for name in implicit_bases(instance):
            lines.append(restore_address(instructions, name, BASE_REGISTER))
            constants.pop(name, None)
        for address, bits, value in memory_values(instance, values):
            lines += store_pattern(instructions, address, bits, value, _SETUP_TEMPORARY)
    lines += [constant(instructions, name, value) for name, value in sorted(constants.items())]
    wanted = [line for instance in instances for line in setup_lines(instructions, instance)]
    return (*lines, *dict.fromkeys(wanted))
