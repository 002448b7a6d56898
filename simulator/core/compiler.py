"""From decoded instructions to what they do on a machine: operands become locations, µops get ports."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING

from results.machine.graph import (
    ALL_KNOWN,
    Endpoint,
    Knowledge,
    ModelError,
    UopKind,
    handing_on,
    tracked,
    with_index,
    with_later_loads,
)
from results.machine.occupied import access_units, data_paths, has_length_changing_prefix, is_wide
from results.model import LatencyPart
from simulator.core.delivery import Fetched, usual_decoding
from simulator.instructions.domains import domain_of
from simulator.instructions.locations import (
    STACK,
    high_byte_of,
    is_high_byte,
    location_of,
    merges,
    width_of,
)
from simulator.instructions.opcode import opcode_offset
from simulator.instructions.stack_pointer import copies_stack_pointer, reads_stack_pointer
from simulator.instructions.transfers import (
    TO_INTEGER,
    TransferUnit,
    Written,
    transfer_unit,
    writes_general,
    written_to,
)
from simulator.machines.units import task_of
from xed_convert.model import MemoryAddress, OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from results.machine.graph import Behaviour, Uop
    from simulator.machines.machine import MachineModel
    from xed_convert.model import InstructionVariant, Operand, OperandValue

Location = str | tuple[str, str, int, int]
"""A register or flag by name, or a location in memory: (base, index, scale, displacement)."""

DATA_PATHS = {UopKind.LOAD: "data path of loads", UopKind.STORE_DATA: "data path of stores"}
"""What reports call the units that wide loads and stores occupy."""

CONSTANT_BITS, MOST_CONSTANT_BITS = (16, 32), 64
"""Bits that the µop cache of Intel's cores has for a constant. A Cascade Lake takes half a cycle for
TEST [RSP+12], 0x800. It takes a whole one for TEST [RSP+12], 0xFF00, which does not fit in 16 bits with a sign."""

TICKS = 60
"""Parts of a cycle in which the time of a unit is counted: all fractions down to sixths, and tenths, are whole."""

FUSED_SLOTS_WITHOUT_MICROCODE = 4
"""Instructions of more µops than this come from the microcode sequencer."""


@dataclass(frozen=True, slots=True)
class LocatedUop:
    """A µop whose inputs and outputs are locations; `results` are the indices of earlier µops that it waits for.

    `task` is a `UopTask`, if µops are counted by execution unit (else 0). `written` is what it writes of what
    transfers write, too.
    """

    ports: tuple[int, ...]
    latency: int
    reads: tuple[Location, ...]
    results: tuple[int, ...]
    writes: tuple[Location, ...]
    divider_cycles: int
    task: int = 0
    written: Written = Written.NOTHING


@dataclass(frozen=True, slots=True)
class PartialAccess:
    """How an instruction uses the registers that have a high byte, if that is renamed separately.

    All are locations of whole registers. The instruction reads or writes the high bytes of `high`, and writes those of
    `high_written`. It reads more than 8 bits of `read`, and writes more than 8 bits of `written`.
    """

    high: frozenset[str] = frozenset()
    high_written: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """One instruction with its operands, ready for the core.

    - `uops`: None if the machine has nothing about it (it may still be in code whose time does not count).
    - `knowledge`: what the machine's data say of it; if nothing, its µop is a stand-in (`compile_unknown`).
    - `stack_change`: bytes by which PUSH and POP move RSP; `resets_stack`: RSP is written otherwise.
    - `stack_turn`: -1 for an x87 push, +1 or +2 for pops.
    - `fuses`: a conditional jump after it becomes a part of it, if it is one of `jumps` (None: by the general rule).
    - `unit_ticks`: time for which it occupies a unit, `unit`: which one ("": one of its own).
    - `arrival`: the port through which its result comes in, and what it is (None: it is no transfer, or the port is not
      known).
    - `fetched`: what the front end sees (None: there is no front end).
    - `fast_form`: the same with operand values of the fast kind (None: values do not matter).
    - `uneliminated`: ports of an eliminated move when it cannot be eliminated.
    - `partial`: None if no high byte is renamed separately; else AH is a location of its own.
    - `domain`: that of its vectors ("": there is no bypass delay).
    - `data_paths`: ticks for which it occupies the data paths of loads and stores. They limit only if one access
      `is_wide`, or if the ports are not known.

    Equality is identity: the front end makes one object of the same bytes.
    """

    variant: InstructionVariant
    values: Mapping[int, OperandValue]
    size_bytes: int
    uops: tuple[LocatedUop, ...] | None
    slots: int
    eliminated_share: tuple[int, int] = (0, 1)
    stack_change: int = 0
    resets_stack: bool = False
    stack_turn: int = 0
    fuses: bool = False
    jumps: frozenset[str] | None = None
    unit_ticks: int = 0
    unit: str = ""
    arrival: tuple[int, Written] | None = None
    fetched: Fetched | None = None
    fast_form: Compiled | None = None
    uneliminated: tuple[int, ...] = ()
    partial: PartialAccess | None = None
    domain: str = ""
    data_paths: tuple[tuple[str, int], ...] = ()
    is_wide: bool = False
    knowledge: Knowledge = ALL_KNOWN

    @property
    def relative(self) -> bool:
        """Whether it addresses memory relative to RIP."""
        return any(isinstance(value, MemoryAddress) and value.base == "RIP" for value in self.values.values())

    def register_of(self, operand: Operand) -> str:
        """Return the register that an operand names here, or the first that it may be ("": it is none)."""
        value = self.values.get(operand.index)
        return value if isinstance(value, str) else next(iter(operand.registers), "")

    def fuses_with(self, jump: Compiled) -> bool:
        """Whether it becomes one µop with the conditional jump after it."""
        if not self.fuses or not jump.uops:
            return False
        return may_fuse_with(self.variant.iclass, jump.variant) if self.jumps is None else self._named(jump)

    def _named(self, jump: Compiled) -> bool:
        """Whether a jump is one of those that a measurement names."""
        assert self.jumps is not None
        return jump.variant.iclass in self.jumps and jump.variant.category == "COND_BR"


def may_fuse_with(iclass: str, jump: InstructionVariant) -> bool:
    """Whether a jump is a Jcc that a mnemonic fuses with, where it fuses at all."""
    conditional = jump.category == "COND_BR" and jump.iclass.startswith("J") and "CXZ" not in jump.iclass
    return conditional and jump.iclass not in unfused_jumps().get(iclass, ())


@functools.cache
def unfused_jumps() -> dict[str, frozenset[str]]:
    """Read which jumps a mnemonic does not fuse with."""
    text = resources.files("simulator").joinpath("models/fusion.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {iclass: frozenset(jumps.split()) for iclass, jumps, _ in rows}


STACK_ENGINE = "stack engine"
"""The unit that brings RSP up to date for one instruction after another."""

HIGH_ALIASES = frozenset({"SPL", "BPL", "SIL", "DIL", "R12B", "R13B", "R14B", "R15B"})
"""Low bytes of the registers whose number is that of AH, CH, DH or BH without REX."""

BRANCHES = ("COND_BR", "UNCOND_BR", "CALL", "RET")
"""Categories of all branches."""

POP_STACK_POINTER = b"\x5c"
"""The opcode of POP RSP, and with REX.B of POP R12."""

STACK_TURNS = {"X87PUSH": -1, "X87POP": 1, "X87POP2": 2}
"""By how many places the x87 stack turns, by the operand that says so."""


def compile_instruction(
    variant: InstructionVariant, values: Mapping[int, OperandValue], machine: MachineModel, data: bytes = b""
) -> Compiled:
    """Return an instruction with the locations of its µops; `data` are its bytes, which only the front end needs."""
    behaviour = machine.executes(variant)
    if behaviour is None:
        return Compiled(variant, values, len(data), uops=None, slots=1, stack_turn=_stack_turn(variant))
    return _Compiler(variant, values, machine, data, behaviour).compiled()


def compile_unknown(
    variant: InstructionVariant, values: Mapping[int, OperandValue], machine: MachineModel, data: bytes
) -> Compiled:
    """Return an instruction that a machine has nothing about as one µop that hands on what it reads, in no time."""
    return _Compiler(variant, values, machine, data, handing_on(variant)).compiled()


def _stack_turn(variant: InstructionVariant) -> int:
    return sum(STACK_TURNS.get(o.registers[0], 0) for o in variant.operands if o.registers)


class _Compiler:
    """Compiles one instruction for one machine. `core` are the constants of a core with a front end (None: none)."""

    def __init__(
        self,
        variant: InstructionVariant,
        values: Mapping[int, OperandValue],
        machine: MachineModel,
        data: bytes,
        behaviour: Behaviour,
    ) -> None:
        self.variant, self.values, self.data = variant, values, data
        self.parameters, self.core = machine.parameters, machine.parameters.front
        self.indexed = [index for index, value in values.items() if isinstance(value, MemoryAddress) and value.index]
        self.behaviour = self._as_fused(self._of_operands(behaviour))
        core = self.core
        # A µop brings RSP up to date before it
        self.updates = core is not None and core.updates_for_values and reads_stack_pointer(variant, values)

    def compiled(self) -> Compiled:
        """Return what the core executes."""
        variant, behaviour, parameters = self.variant, self.behaviour, self.parameters
        turn = _stack_turn(variant)
        locator = _Locator(variant, self.values, pushed=turn < 0, apart=bool(parameters.merge_ports))
        port_index = {port: number for number, port in enumerate(parameters.ports)}
        uops = self._uops()
        located = self._located(uops, locator, port_index)
        updates = int(self.updates)
        unit = self._unit()
        one = Compiled(
            variant,
            self.values,
            size_bytes=len(self.data),
            uops=located,
            slots=max(1, min(behaviour.slots + updates, parameters.reorder_buffer)),  # more could never retire together
            eliminated_share=behaviour.eliminated_share,
            stack_change=locator.stack_change,
            resets_stack=locator.resets_stack(),
            stack_turn=turn,
            fuses=self._fuses(),
            jumps=behaviour.fuses_with,
            unit_ticks=max(round(behaviour.occupies * TICKS), updates * TICKS),
            unit=unit,
            arrival=self._arrival(unit),
            fetched=self._fetched(),
            uneliminated=tuple(sorted(port_index[port] for port in behaviour.uneliminated)),
            partial=locator.partial_access(located),
            domain=domain_of(variant, parameters.bypass) if parameters.bypass else "",
            data_paths=self._data_paths(uops),
            is_wide=self.core is not None and (is_wide(variant, self.core) or bool(access_units(variant, self.core))),
            knowledge=behaviour.knowledge,
        )
        if all(uop.fast is None for uop in uops):
            return one
        fast = self._located([_hurried(uop) for uop in uops], locator, port_index)
        return replace(one, fast_form=replace(one, uops=fast))

    def _of_operands(self, behaviour: Behaviour) -> Behaviour:
        """Return what the machine does with these operands: one register several times, an index, or neither."""
        if behaviour.same_register is not None and (self._is_same_register() or self._has_high_alias()):
            behaviour = behaviour.same_register
        return behaviour.indexed if behaviour.indexed is not None and self.indexed else behaviour

    def _as_fused(self, behaviour: Behaviour) -> Behaviour:
        """Return a behaviour whose µops are not micro-fused if the core does not fuse them with these operands."""
        front = self.core.front_end if self.core is not None else None
        if front is None or front.fuses_relative_immediates or not self._is_relative():
            return behaviour
        has_immediate = any(o.kind is OperandKind.IMMEDIATE and o.explicit for o in self.variant.operands)
        more = behaviour.port_usage.total - behaviour.slots
        if not has_immediate or more <= 0:
            return behaviour
        decoding = behaviour.decoding
        if decoding is not None and not decoding.microcoded:
            decoding = replace(decoding, decoded=decoding.decoded + more, complex=True)
        return replace(behaviour, slots=behaviour.slots + more, decoding=decoding)

    def _is_relative(self) -> bool:
        """Whether memory is addressed relative to RIP."""
        return any(isinstance(value, MemoryAddress) and value.base == "RIP" for value in self.values.values())

    def _is_same_register(self) -> bool:
        """Whether all explicit register operands that are read are one register: two at least, or one and the result.

        A high byte shares no bit with the low one, so BH and BL are two.
        """
        explicit = self.variant.explicit_registers
        names = {o.index: str(self.values[o.index]) for o in explicit if o.index in self.values}
        places = {index: name if is_high_byte(name) else location_of(name) for index, name in names.items()}
        read = [places[o.index] for o in explicit if o.read and o.index in places]
        every = read if len(read) > 1 else list(places.values())
        return bool(read) and len(every) > 1 and len(set(every)) == 1

    def _has_high_alias(self) -> bool:
        """Whether rename does not eliminate a MOVZX because its source has the number of a high byte."""
        if self.core is None or self.core.elimination.high_aliases or self.variant.iclass != "MOVZX":
            return False
        return not HIGH_ALIASES.isdisjoint(value for value in self.values.values() if isinstance(value, str))

    def _uops(self) -> tuple[Uop, ...]:
        """Return its µops with the ports and latencies that they have with these operands."""
        uops = tuple(with_index(uop, self.indexed, self.parameters.no_index) for uop in self.behaviour.uops)
        return self._with_stack_pointer(self._with_complex_addresses(uops))

    def _with_complex_addresses(self, uops: tuple[Uop, ...]) -> tuple[Uop, ...]:
        """Return µops of which loads take longer if their address is complex, on cores where that is so."""
        if self.core is None or not self.core.memory.complex_address_cycles:
            return uops
        loaded = {one.index for one in self.variant.read_memory}
        late = {index for index in loaded if _is_complex(self.values.get(index))}
        return tuple(with_later_loads(uop, late, self.core.memory.complex_address_cycles) for uop in uops)

    def _with_stack_pointer(self, uops: tuple[Uop, ...]) -> tuple[Uop, ...]:
        """Return a move with a port if it is from the stack pointer, on cores where rename does not eliminate that."""
        named = self.core.elimination.stack_pointer if self.core is not None else ()
        is_move = [(uop.ports, uop.latency, uop.kind) for uop in uops] == [(frozenset(), 0, UopKind.COMPUTE)]
        if not named or not is_move or not copies_stack_pointer(self.variant, self.values):
            return uops
        letters = dict(zip(self.parameters.port_names, self.parameters.ports, strict=True))
        if not letters.keys() >= set(named):
            return uops
        return (replace(uops[0], ports=frozenset(letters[name] for name in named), latency=1),)

    def _located(self, uops: Iterable[Uop], locator: _Locator, port_index: Mapping[str, int]) -> tuple[LocatedUop, ...]:
        by_task = self.parameters.by_task
        located = tuple(_located(uop, locator, port_index, by_task=by_task) for uop in uops)
        if any(uop.ports and uop.writes for uop in located):
            return located
        # Which µop makes the results is not known: each one may write all of them
        written = written_to(place for uop in located for place in uop.writes)
        return tuple(replace(uop, written=written) if uop.ports else uop for uop in located)

    def _unit(self) -> str:
        """Return the unit that it shares with others, if its ports do not explain its throughput ("": none)."""
        if not self.behaviour.occupies:
            return STACK_ENGINE if self.updates else ""
        return "" if self.core is None else transfer_unit(self.variant, self.core) or ""

    def _arrival(self, unit: str) -> tuple[int, Written] | None:
        """Return the port through which the result of a transfer comes in, and whether it is a register or flags."""
        transfers = self.core.transfers if self.core is not None else None
        if transfers is None or unit not in TO_INTEGER:
            return None
        name = transfers.port if unit == TransferUnit.TO_GENERAL else transfers.apart_port
        names = self.parameters.port_names
        if name not in names:
            return None
        return names.index(name), Written.REGISTER if writes_general(self.variant) else Written.FLAGS

    def _data_paths(self, uops: Sequence[Uop]) -> tuple[tuple[str, int], ...]:
        """Return the ticks for which it occupies data paths, by the name of the unit."""
        if self.core is None:
            return ()
        ways = {DATA_PATHS[kind]: cycles for kind, cycles in data_paths(self.variant, uops, self.core).items()}
        ways |= access_units(self.variant, self.core)
        return tuple((name, round(cycles * TICKS)) for name, cycles in ways.items())

    def _fuses(self) -> bool:
        """Whether a conditional jump can fuse with it.

        Measurements decide, if there are any. Else its mnemonic must be one that fuses. In both cases it must not be
        RIP-relative; by the general rule it must not write memory, or have memory with an immediate.
        """
        kinds = {o.kind for o in self.variant.operands}
        relative = self._is_relative()
        writes_memory = any(o.kind is OperandKind.MEMORY and o.written for o in self.variant.operands)
        memory_and_immediate = {OperandKind.MEMORY, OperandKind.IMMEDIATE} <= kinds
        if self.behaviour.fuses_with is not None:
            return bool(self.behaviour.fuses_with) and not relative
        return self.variant.iclass in self.parameters.fusing and not (relative or writes_memory or memory_and_immediate)

    def _fetched(self) -> Fetched | None:
        """Return what the front end sees of it, None if there is none.

        POP R12 is encoded like POP RSP but for a prefix, so only the first decoder takes it (Abel and Reineke, uiCA,
        ICS 2022, and its artifact). The bytes show it; a variant does not.
        """
        if self.core is None or self.core.front_end is None:
            return None
        variant, behaviour, data, front = self.variant, self.behaviour, self.data, self.core.front_end
        opcode = opcode_offset(data)
        decoding = behaviour.decoding or usual_decoding(behaviour.slots, front)
        if variant.iclass == "POP" and data[opcode : opcode + 1] == POP_STACK_POINTER:
            decoding = replace(decoding, complex=True, simple=0 if front.pop_ends_group else None)
        jump = variant.category in BRANCHES
        return Fetched(
            (len(data),),
            decoding,
            length_changing=has_length_changing_prefix(variant),
            fusible=self._fuses() if behaviour.fuses_with is None else bool(behaviour.fuses_with),
            is_jump=jump,
            jumps_bytes=self._jumped() if jump else None,
            opcode_offsets=(opcode,),
            wide=self._has_wide_constants(),
        )

    def _has_wide_constants(self) -> bool:
        """Whether displacement and immediate are more than one µop has room for in the µop cache.

        Of µops that are not micro-fused, one has the displacement and another one the immediate.
        """
        cache = self.core.uop_cache if self.core is not None else None
        if cache is None or self._is_relative():
            return False
        bits = sum(_constant_bits(o, self.values.get(o.index)) for o in self.variant.operands)
        return 0 < cache.constant_bits < bits

    def _jumped(self) -> int | None:
        """Return how far it jumps if that is taken: a conditional jump is if it leads back, since it ends a loop."""
        for operand in self.variant.operands:
            if operand.kind is OperandKind.RELATIVE_BRANCH:
                distance = self.values.get(operand.index, 0)
                taken = self.variant.category != "COND_BR" or (isinstance(distance, int) and distance < 0)
                return distance if taken and isinstance(distance, int) else None
        return None


def _constant_bits(operand: Operand, value: OperandValue | None) -> int:
    """Return how many bits the µop cache needs for an immediate, or for the displacement of an address."""
    if isinstance(value, MemoryAddress) and operand.kind is OperandKind.MEMORY:
        return _signed_bits(value.displacement) if value.displacement else 0
    if not isinstance(value, int) or operand.kind is not OperandKind.IMMEDIATE or not operand.explicit:
        return 0
    width = operand.width_bits or MOST_CONSTANT_BITS
    return _signed_bits(value - (1 << width) if value >> (width - 1) == 1 else value)


def _signed_bits(number: int) -> int:
    return next((bits for bits in CONSTANT_BITS if -(1 << (bits - 1)) <= number < 1 << (bits - 1)), MOST_CONSTANT_BITS)


def _hurried(uop: Uop) -> Uop:
    """Return a µop with its latency for operand values of the fast kind."""
    return uop if uop.fast is None else replace(uop, latency=uop.fast[0], divider_cycles=uop.fast[1])


def _is_complex(place: OperandValue | None) -> bool:
    """Whether an address has a scaled index, or is a sum of base, index and displacement."""
    if not isinstance(place, MemoryAddress) or not place.index:
        return False
    return place.scale > 1 or bool(place.base and place.displacement)


class _Locator:
    """Finds the locations of one instruction's operands."""

    def __init__(
        self, variant: InstructionVariant, values: Mapping[int, OperandValue], *, pushed: bool, apart: bool
    ) -> None:
        self.variant, self.values, self.pushed, self.apart = variant, values, pushed, apart
        self.operands = {o.index: o for o in variant.operands}
        self.stack_change = self._stack_change()
        self.addresses = {
            o.index: self._address(o) for o in variant.operands if o.kind in (OperandKind.MEMORY, OperandKind.AGEN)
        }

    def _stack_change(self) -> int:
        for operand in self.variant.operands:
            shape = operand.memory
            if operand.suppressed and shape is not None and shape.base == "RSP" and self._moves_stack():
                size = (operand.width_bits or 64) // 8
                return -size if operand.written else size
        return 0

    def resets_stack(self) -> bool:
        """Whether RSP is an operand that is written."""
        written = (self.values.get(o.index) for o in self.variant.operands if o.written)
        return any(isinstance(value, str) and location_of(value) == "RSP" for value in written)

    def _moves_stack(self) -> bool:
        return any(o.suppressed and o.written and o.registers == ("RSP",) for o in self.variant.operands)

    def _address(self, operand: Operand) -> MemoryAddress:
        value = self.values.get(operand.index)
        if isinstance(value, MemoryAddress):
            return value
        if isinstance(value, int):
            return MemoryAddress(displacement=value)
        shape = operand.memory
        if shape is None:
            return MemoryAddress()
        displacement = self.stack_change if operand.written and shape.base == "RSP" and self.stack_change < 0 else 0
        return MemoryAddress(base=shape.base, index=shape.index, displacement=displacement)

    def register_names(self, operand: Operand) -> list[str]:
        value = self.values.get(operand.index)
        if isinstance(value, str):
            name = value
        elif operand.registers:
            name = operand.registers[0]
        else:
            raise ModelError(f"{self.variant.string}: operand {operand.index} has no register")
        if operand.multireg and name.rstrip("0123456789") != name:
            stem = name.rstrip("0123456789")
            first = int(name[len(stem) :]) // operand.multireg * operand.multireg
            return [f"{stem}{first + number}" for number in range(operand.multireg)]
        return [name]

    def locations(self, endpoint: Endpoint, *, written: bool) -> list[Location]:
        if endpoint.flag:
            return [endpoint.flag]
        operand = self.operands[endpoint.operand]
        if operand.kind is OperandKind.REGISTER:
            names = self.register_names(operand)
            locations = [self._place(name) for name in names if name not in ("RIP", "EIP")]
            if self.pushed and not written:
                locations = [STACK[(STACK.index(p) + 1) % 8] if p in STACK else p for p in locations]
            return list(locations)
        address = self.addresses[endpoint.operand]
        if endpoint.part is LatencyPart.MEMORY:
            return [(location_of(address.base), location_of(address.index), address.scale, address.displacement)]
        register = address.index if endpoint.part is LatencyPart.ADDRESS_INDEX else address.base
        return [location_of(register)] if register and register != "RIP" else []

    def merged(self, endpoint: Endpoint) -> list[Location]:
        """Return the locations that writing this endpoint must keep a part of."""
        operand = self.operands[endpoint.operand]
        if endpoint.flag or operand.kind is not OperandKind.REGISTER or not tracked(operand):
            return []
        return [location_of(name) for name in self.register_names(operand) if merges(name) and not self._is_apart(name)]

    def _is_apart(self, name: str) -> bool:
        return self.apart and is_high_byte(name)

    def _place(self, name: str) -> str:
        return name if self._is_apart(name) else location_of(name)

    def partial_access(self, uops: Iterable[LocatedUop]) -> PartialAccess | None:
        """Return how it uses registers that have a high byte, None if none is renamed separately.

        A zero idiom names a register that none of its µops reads.
        """
        if not self.apart:
            return None
        needed = {place for uop in uops for place in uop.reads}
        named = [(o, name) for o in self.variant.operands if tracked(o) for name in self.register_names(o)]
        high = [(o, location_of(name)) for o, name in named if is_high_byte(name)]
        wide = [(o, name, location_of(name)) for o, name in named if width_of(name) > 8]
        wide = [(o, name, place) for o, name, place in wide if high_byte_of(place)]
        addresses = [name for one in self.addresses.values() for name in (one.base, one.index)]
        read = [place for o, name, place in wide if o.read or o.conditional_write or merges(name)]
        read += [location_of(name) for name in addresses if name and high_byte_of(location_of(name))]
        return PartialAccess(
            frozenset(place for _, place in high),
            tuple(dict.fromkeys(place for o, place in high if o.written or o.conditional_write)),
            tuple(dict.fromkeys(place for place in read if place in needed)),
            tuple(dict.fromkeys(place for o, _, place in wide if o.written or o.conditional_write)),
        )


def _located(uop: Uop, locator: _Locator, port_index: Mapping[str, int], *, by_task: bool) -> LocatedUop:
    reads: list[Location] = []
    for source in uop.inputs:
        if isinstance(source, Endpoint):
            reads += locator.locations(source, written=False)
    writes: list[Location] = []
    for target in uop.outputs:
        writes += locator.locations(target, written=True)
        reads += locator.merged(target)
    return LocatedUop(
        tuple(sorted(port_index[port] for port in uop.ports)),
        uop.latency,
        tuple(dict.fromkeys(reads)),
        tuple(source for source in uop.inputs if isinstance(source, int)),
        tuple(dict.fromkeys(writes)),
        uop.divider_cycles,
        task_of(locator.variant, uop) if by_task else 0,
        written_to(writes),
    )
