"""Candidates for blocking instructions, and code that combines them with an instruction under test.

The rules are those of Abel and Reineke, ASPLOS 2019, §5.1.1. `RULES` excludes variants by their operands, and
`blocking_exclusions.tsv` by their names. Which ports the others keep busy is measured. `blocking_candidates.tsv` lists
the classes that are measured first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from generator.assemble import assemble
from generator.errors import AllocationError, FactError
from generator.facts import read_facts
from generator.microbenchmark import Line, Microbenchmark
from generator.operands.allocation import Allocator, independent_instances
from generator.operands.effects import address_registers, effects_of
from generator.operands.registers import family, register_class
from generator.operands.reserved import BASE_REGISTER, harness_registers
from generator.operands.values import Values, values_of
from generator.sequences.throughput import SUBJECT_SLOT, setup_of
from generator.support.prologue import occupied, prologue_and_epilogue, with_prologue
from xed_convert.model import Instance, InstructionVariant, Operand, OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from generator.factory import InstructionFactory
    from xed_convert.catalogue.catalogue import Catalogue

MOST_INSTANCES = 12
"""Independent instances of a blocking instruction at most; further ones repeat these.

Sixteen registers less those of the harness and of the instruction under test leave about as many.
"""

INSTANCES_OF_SEVERAL = (8, 5, 3)
"""The same for each of several blocking instructions, which share the registers; fewer if the registers do not suffice.

The first is more than the latency in cycles of what often blocks one port (AESDEC 7 on Haswell). With fewer instances
they wait for each other, and the port is idle at times.
"""

DELAY = 32
"""Cycles that stores wait for their address, which takes so many ORs in a row: enough to issue all stores."""

SAME_ADDRESS = "OR (R64, 0)"
"""Computes the same address again, on a port of every core. Golden Cove does ADD of a constant at rename."""


class CodeKind(Enum):
    """Which instructions may stand together: AVX and SSE code in turn costs transitions between register states."""

    WITHOUT_AVX = "without AVX"
    WITHOUT_SSE = "without SSE"
    WIDE = "without SSE, 512 bits wide"


@dataclass(frozen=True, slots=True)
class BlockingRule:
    """Variants for which `applies` holds cannot block, because of `reason`."""

    reason: str
    applies: Callable[[InstructionVariant], bool]


def _registers(variant: InstructionVariant) -> list[Operand]:
    return [operand for operand in variant.operands if operand.kind is OperandKind.REGISTER]


def register_files(variant: InstructionVariant) -> frozenset[str]:
    """Return the register files of the operands, as `register_class` names them."""
    return frozenset(register_class(operand.registers[0]) for operand in _registers(variant) if operand.registers)


def _is_transfer(variant: InstructionVariant) -> bool:
    """Whether it is a plain load or store: one memory operand, one register, no flags."""
    return len(variant.operands) == 2 and variant.category == "DATAXFER" and len(_registers(variant)) == 1


def _flags(variant: InstructionVariant) -> dict[str, str]:
    return {flag: access for operand in variant.operands for flag, access in operand.flags.items()}


def _partial(variant: InstructionVariant) -> bool:
    return any(
        operand.written and register_class(operand.registers[0]) == "GPR" and (operand.width_bits or 64) < 32
        for operand in _registers(variant)
        if operand.registers
    )


RULES = (
    BlockingRule("needs privilege level 0", lambda variant: variant.cpl == 0),
    BlockingRule(
        "uses AH, CH, DH or BH, which other code is slow with",
        lambda variant: variant.attributes.get("high8", "") not in {"", "0"},
    ),
    BlockingRule("writes a part of a register, which is merged with the rest of it", _partial),
    BlockingRule(
        "uses fixed registers, on which its instances depend",
        lambda variant: any(not o.explicit for o in _registers(variant)),
    ),
    BlockingRule("writes conditionally", lambda variant: any(o.conditional_write for o in variant.operands)),
    BlockingRule(
        "reads flags, on which it would wait",
        lambda variant: any(access.startswith("r") for access in _flags(variant).values()),
    ),
    BlockingRule(
        "loads or stores besides something else", lambda variant: variant.accesses_memory and not _is_transfer(variant)
    ),
    BlockingRule(
        "has a mask, which others with the same ports do without",
        lambda variant: any(o.opmask for o in variant.operands),
    ),
    BlockingRule(
        "is locked or repeated",
        lambda variant: any(variant.attributes.get(name, "0") != "0" for name in ("locked", "rep")),
    ),
    BlockingRule("has no operand at all", lambda variant: not variant.operands),
)
"""Why variants cannot block, by what their operands are."""

_FIELDS = frozenset({"category", "extension", "iclass"})


@cache
def _exclusions() -> tuple[tuple[str, str, str], ...]:
    """Return (field, glob, reason) of each row of the table."""
    rows = read_facts("blocking_exclusions.tsv", ("field", "pattern", "reason", "source"), ("field", "pattern"))
    for row in rows:
        if row["field"] not in _FIELDS:
            raise FactError(f"blocking_exclusions.tsv: {row['pattern']}: unknown field {row['field']}")
    return tuple((row["field"], row["pattern"], row["reason"]) for row in rows)


def ineligible(variant: InstructionVariant) -> str:
    """Return the reason why a variant cannot block ports ("": it can, if measurement shows that it does)."""
    if is_jump(variant):
        return ""
    if _is_transfer(variant) and variant.accesses_memory:
        return next((rule.reason for rule in RULES if rule.applies(variant)), "")
    for field, pattern, reason in _exclusions():
        if fnmatchcase(getattr(variant, field), pattern):
            return reason
    return next((rule.reason for rule in RULES if rule.applies(variant)), "")


def is_jump(variant: InstructionVariant) -> bool:
    """Whether it is a direct jump, which goes to the next instruction: the only thing that some branch ports do."""
    return variant.iclass == "JMP" and any(o.kind is OperandKind.RELATIVE_BRANCH for o in variant.operands)


def is_store(variant: InstructionVariant) -> bool:
    """Whether it stores a register to memory and does nothing else: the only way to keep store ports busy."""
    return _is_transfer(variant) and any(o.kind is OperandKind.MEMORY and o.written for o in variant.operands)


def kind_of(variant: InstructionVariant) -> CodeKind:
    """Return which code may stand beside a variant."""
    if is_wide(variant):
        return CodeKind.WIDE
    encoded = any(variant.attributes.get(name) == "1" for name in ("vex", "evex")) or variant.extension == "XOP"
    avx = (encoded and bool(register_files(variant) & {"VEC", "K"})) or variant.extension.startswith("AVX")
    return CodeKind.WITHOUT_SSE if avx else CodeKind.WITHOUT_AVX


def is_wide(variant: InstructionVariant) -> bool:
    """Whether it is 512 bits wide: beside such code port 1 takes no vectors, so that it stands in such code only."""
    return any(vector_bits(operand) == 512 for operand in variant.operands if operand.kind is not OperandKind.FLAGS)


def is_wide_load(variant: InstructionVariant) -> bool:
    """Whether it loads 512 bits of memory and stores nothing."""
    places = [operand for operand in variant.operands if operand.memory is not None]
    return any(one.read and vector_bits(one) == 512 for one in places) and not any(one.written for one in places)


def vector_bits(operand: Operand) -> int:
    """Return the bits of a vector: memory of one element may be broadcast to all of them."""
    return (operand.width_bits or 0) * (operand.memory.elements if operand.memory else 1)


def fits(variant: InstructionVariant, kind: CodeKind) -> bool:
    """Whether a variant may stand in code of that kind.

    MMX registers are no part of vector registers, so their instructions cost no transition beside AVX code. Of the
    narrow instructions that can block, only they have p05 on a Skylake.
    """
    if kind is CodeKind.WITHOUT_AVX:
        return kind_of(variant) is CodeKind.WITHOUT_AVX
    own = kind_of(variant)
    if own is CodeKind.WIDE:
        return kind is CodeKind.WIDE
    return own is CodeKind.WITHOUT_SSE or "VEC" not in register_files(variant)


def shares_state(blocker: InstructionVariant, variant: InstructionVariant) -> bool:
    """Whether a blocking instruction uses MMX registers, which are the x87 ones, and the variant is of x87.

    Each MMX instruction but EMMS sets the tags of all x87 registers (Intel SDM volume 1, section 9.5.1).

    On Cascade Lake, FDECSTP beside PADDB seems to delay what it does not delay beside other instructions.
    """
    return variant.extension == "X87" and "MMX" in register_files(blocker)


@cache
def _first_classes() -> frozenset[str]:
    """Return the classes that are worth measuring first."""
    rows = read_facts("blocking_candidates.tsv", ("iclass", "reason"), ("iclass",))
    return frozenset(name for row in rows for name in (row["iclass"], "V" + row["iclass"]))


def representatives(catalogue: Catalogue, kind: CodeKind, *, every_class: bool = False) -> list[InstructionVariant]:
    """Return one eligible variant per class and register file (loads, stores and jumps besides), narrow ones first.

    Args:
        catalogue: what to choose from.
        kind: which code they are to stand in.
        every_class: not only the classes of `blocking_candidates.tsv`.
    """
    best: dict[tuple[str, bool, bool, bool, bool], InstructionVariant] = {}
    for variant in catalogue if every_class else catalogue.of_iclasses(_first_classes()):
        if not fits(variant, kind) or ineligible(variant):
            continue
        name = (
            variant.iclass,
            variant.accesses_memory,
            is_store(variant),
            "MMX" in register_files(variant),
            is_wide(variant),
        )
        if name not in best or _preference(variant) < _preference(best[name]):
            best[name] = variant
    return sorted(best.values(), key=is_wide)


def timed_representatives(
    catalogue: Catalogue, kind: CodeKind, *, every_class: bool = False
) -> list[InstructionVariant]:
    """Return `representatives` for finding ports by time alone, as `timed_candidates.tsv` changes them."""
    rows = read_facts("timed_candidates.tsv", ("pattern", "use", "reason", "source"), ("pattern",))
    excluded = [row["pattern"] for row in rows if row["use"] == "no"]
    further = [catalogue.by_string(row["pattern"]) for row in rows if row["use"] == "yes"]
    usual = representatives(catalogue, kind, every_class=every_class)
    kept = [one for one in usual if not any(fnmatchcase(one.string, pattern) for pattern in excluded)]
    return [*kept, *(one for one in further if fits(one, kind))]


def _preference(variant: InstructionVariant) -> tuple[bool, int, int]:
    """Order variants of a class: EVEX last, 64 bits (vectors: 128) before others, few operands before many."""
    widths = {o.width_bits or 0 for o in variant.operands if o.explicit and o.kind is not OperandKind.IMMEDIATE}
    usual = {64} if register_files(variant) <= {"GPR"} else {128}
    return (variant.attributes.get("evex") == "1", len(widths - usual), len(variant.operands))


@dataclass(frozen=True, slots=True)
class BlockingCode:
    """Makes code of blocking instructions alone, which shows what the core does with them."""

    instructions: InstructionFactory

    def mix(self, blockers: Sequence[tuple[InstructionVariant, int]]) -> Microbenchmark:
        """Return blocking instructions, each as often as its count says, in turns.

        Raises:
            AllocationError: there are not enough registers for them.
        """
        instances, columns = _columns(blockers, set(), MOST_INSTANCES // 2)
        names = ", ".join(f"{count} of {variant.string}" for variant, count in blockers)
        setup = setup_of(self.instructions, instances, Values())
        return Microbenchmark(setup, tuple(_in_turns(columns)), f"common ports of {names}")

    def delay(self) -> Microbenchmark:
        """Return what stores that are `released` wait for: their address, computed again and again."""
        return Microbenchmark((), self._delay(), f"{DELAY} of {SAME_ADDRESS}")

    def released(self, store: InstructionVariant, count: int) -> Microbenchmark:
        """Return `count` instances of a store whose address and data they all wait for.

        Raises:
            AllocationError: its data cannot be the address.
        """
        data = [operand.index for operand in _registers(store) if BASE_REGISTER in operand.registers]
        if not data:
            raise AllocationError(f"{store.string} does not store {BASE_REGISTER}")
        instances = independent_instances(store, count, set())
        late = [Instance(store, {**one.values, **dict.fromkeys(data, BASE_REGISTER)}) for one in instances]
        return Microbenchmark((), (*self._delay(), *map(assemble, late)), f"{count} of {store.string} at once")

    def control(
        self, blockers: Sequence[tuple[InstructionVariant, int]], other: InstructionVariant, count: int
    ) -> Microbenchmark:
        """Return blocking instructions in turns, and copies of another one behind them.

        Raises:
            AllocationError: there are not enough registers.
        """
        others, (more,) = _columns([(other, count)], set(), min(INSTANCES_OF_SEVERAL))
        instances, columns = _shared(blockers, {name for one in others for name in registers_of(one)})
        names = ", ".join(f"{number} of {variant.string}" for variant, number in blockers)
        purpose = f"ports of {count} of {other.string} among {names}"
        return Microbenchmark(
            setup_of(self.instructions, [*instances, *others], Values()), (*_in_turns(columns), *more), purpose
        )

    def _delay(self) -> tuple[Line, ...]:
        return (self.instructions.line(SAME_ADDRESS, BASE_REGISTER, 0),) * DELAY

    def followed(
        self, blockers: tuple[InstructionVariant, int], first: InstructionVariant, second: InstructionVariant
    ) -> Microbenchmark:
        """Return a number of blocking instructions, then `first`, and then `second`, which reads its result.

        Raises:
            AllocationError: `second` cannot read what `first` writes, or there are not enough registers.
        """
        written = [o for o in _registers(first) if o.explicit and o.written]
        read = [o for o in _registers(second) if o.explicit and o.read]
        common = [(one, other) for one in written for other in read if one.registers == other.registers]
        if not common:
            raise AllocationError(f"{second.string} cannot read what {first.string} writes")
        (result, source), *_ = common
        one = Allocator().instance(first)
        other = Allocator(registers_of(one)).instance(second, {source.index: one.values[result.index]})
        instances, (column,) = _columns([blockers], registers_of(one) | registers_of(other), MOST_INSTANCES)
        return Microbenchmark(
            setup_of(self.instructions, [one, other, *instances], Values()),
            (*column, assemble(one), assemble(other)),
            f"ports of {second.string} behind {first.string} among {blockers[1]} of {blockers[0].string}",
        )


def _in_turns(columns: Sequence[Sequence[Line]]) -> list[Line]:
    """Return the first line of each column, then the second one of each, and so on."""
    longest = max((len(column) for column in columns), default=0)
    return [column[position] for position in range(longest) for column in columns if position < len(column)]


def _columns(
    blockers: Sequence[tuple[InstructionVariant, int]], taken: set[str], most: int
) -> tuple[list[Instance], list[list[Line]]]:
    """Return instances of blocking instructions that avoid registers, and the lines of each."""
    columns: list[list[Line]] = []
    instances: list[Instance] = []
    for variant, count in blockers:
        made = different(independent(variant, min(count, most), taken))
        instances += made
        taken |= {name for one in made for name in registers_of(one)}
        columns.append([assemble(made[position % len(made)]) for position in range(count)])
    return instances, columns


def _shared(
    blockers: Sequence[tuple[InstructionVariant, int]], taken: set[str]
) -> tuple[list[Instance], list[list[Line]]]:
    """Divide the registers that are left among blocking instructions; return instances and the lines of each."""
    if len(blockers) == 1:
        return _columns(blockers, taken, MOST_INSTANCES)
    *larger, least = INSTANCES_OF_SEVERAL
    for most in larger:
        try:
            instances, columns = _columns(blockers, set(taken), most)
        except AllocationError:
            continue
        made = Counter(one.variant.string for one in instances)
        if all(made[variant.string] >= min(least, count) or not is_chained(variant) for variant, count in blockers):
            return instances, columns
    return _columns(blockers, set(taken), least)


def different(instances: list[Instance]) -> list[Instance]:
    """Leave out instances that would wait for another one, because there were too few registers."""
    if not is_chained(instances[0].variant):
        return instances
    explicit = [operand.index for operand in _registers(instances[0].variant) if operand.explicit and operand.written]
    return list({tuple(one.values[index] for index in explicit): one for one in instances}.values())


def is_chained(variant: InstructionVariant) -> bool:
    """Whether an instance waits for an earlier one that was given the same registers to write to.

    What is written on a condition may keep its value (CMOV).
    """
    written = [operand for operand in _registers(variant) if operand.explicit and operand.written]
    return any(operand.read or operand.conditional_write for operand in written)


class Combiner:
    """Puts one instance of an instruction among blocking instructions."""

    def __init__(
        self,
        instructions: InstructionFactory,
        variant: InstructionVariant,
        values: Values | None = None,
        instance: Instance | None = None,
        *,
        breakers: Sequence[Line] = (),
        prologue_only: bool = False,
    ) -> None:
        """Prepare combinations with a variant.

        Args:
            instructions: makes lines of code.
            variant: what is combined.
            values: of its operands (None: those that the tables give).
            instance: the variant with its operands (None: allocated here).
            breakers: dependency breakers, which stand before the instance.
            prologue_only: combine prologue and epilogue without the instance.

        Raises:
            AllocationError: there are not enough registers for it.
        """
        self.instructions = instructions
        self.values = values or values_of(variant)
        self.instance = instance or Allocator().instance(variant, slot=SUBJECT_SLOT)
        self._breakers = breakers
        self._prologue_only = prologue_only

    def combined(
        self, blockers: Sequence[tuple[InstructionVariant, int]], *, reverse: bool = False, in_turns: bool = True
    ) -> Microbenchmark:
        """Return blocking instructions, each as often as its count says, and one instance of the instruction.

        They share no register that is written and no memory place. `reverse` puts the instruction first.

        Raises:
            AllocationError: not enough registers are left for the blocking instructions.
        """
        taken = registers_of(self.instance) | occupied(self.instance.variant)
        instances, columns = _shared(blockers, taken)
        lines = _in_turns(columns) if in_turns else [line for column in columns for line in column]
        # The breakers stand where the blocked ports have the most waiting for them, so that they go elsewhere
        subject = [
            *self._breakers,
            *(prologue_and_epilogue if self._prologue_only else with_prologue)(self.instructions, self.instance),
        ]
        body = [*subject, *lines] if reverse else [*lines, *subject]
        names = (", " if in_turns else ", then ").join(f"{count} of {variant.string}" for variant, count in blockers)
        what = (
            f"prologue and epilogue of {self.instance.variant.string}"
            if self._prologue_only
            else self.instance.variant.string
        )
        purpose = f"ports of {what} among {names or 'nothing else'}"
        setup = setup_of(self.instructions, [self.instance, *instances], self.values)
        return Microbenchmark(setup, tuple(body), purpose, 1, self.instance.variant.cpl == 0)

    def control(
        self, blockers: Sequence[tuple[InstructionVariant, int]], other: InstructionVariant, count: int
    ) -> Microbenchmark:
        """Return blocking instructions in turns, and copies of another one in the instruction's place.

        Raises:
            AllocationError: there are not enough registers.
        """
        return BlockingCode(self.instructions).control(blockers, other, count)


def registers_of(instance: Instance) -> set[str]:
    """Return the families of all registers that an instance names or uses, but those of the harness."""
    effects = effects_of(instance)
    named = {family(value) for value in instance.values.values() if isinstance(value, str)}
    used = effects.reads | effects.writes | effects.merged | address_registers(instance) | named
    return {name for name in used if register_class(name) != "OTHER"} - harness_registers()


def independent(variant: InstructionVariant, count: int, taken: set[str]) -> list[Instance]:
    """Return instances of a blocking instruction that avoid the registers that are taken."""
    while True:
        try:
            return independent_instances(variant, count, taken)
        except AllocationError:
            if count == 1:
                raise
            count //= 2
