"""Machines drawn at random from a seed, to test inference on unknown machines.

A seed decides the number of ports, which of them load and store, and the functional units (port sets). For every
variant it decides a graph of one to eight computing µops, each on a unit, with latencies of their own. Operands enter
and leave the graph at different places, so operand pairs have different latencies. Some moves are eliminated (always or
now and then), some variants behave differently with the same register, dividers are not pipelined and fast for some
values.

Instructions that measurements need are tame (`TAME`): those of the harness and of chains have one µop, besides loads
and stores. Otherwise no machine could be measured.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from results.machine.graph import (
    Behaviour,
    Endpoint,
    Uop,
    UopKind,
    address_inputs,
    address_updates,
    value_inputs,
    value_outputs,
)
from results.model import LatencyPart
from simulator.machines.machine import MachineModel, Origin
from simulator.machines.random_shape import KINDS, draw_shape, kinds_of
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulator.machines.random_shape import MachineShape
    from xed_convert.model import InstructionVariant, Operand

_TAME = """
    ADD AND ANDPS BT CLC CLD CMC CMP DEC FADD FCHS FLD1 FNSTCW FST FSTP INC JMP KMOVB KMOVD KMOVQ KMOVW LAHF LDMXCSR
    LEA LFENCE MOV MOVAPD MOVAPS MOVD MOVDQ2Q MOVDQA MOVDQU MOVMSKPS MOVQ MOVQ2DQ MOVSX MOVSXD MOVUPD MOVUPS MOVZX
    NEG NOP NOT OR ORPD ORPS PAND PANDN PCMPEQB PCMPEQD PCMPEQW PMOVMSKB POR PSHUFB PSHUFD PSHUFW PXOR RDPMC RDTSC
    SAHF SETB SETO SETP SETS SETZ SHL SHR SHUFPD SHUFPS STC STD SUB TEST VANDPD VANDPS VMOVAPD VMOVAPS VMOVD VMOVDQA
    VMOVDQA32 VMOVDQA64 VMOVDQU VMOVDQU32 VMOVDQU64 VMOVMSKPS VMOVQ VMOVUPD VMOVUPS VORPD VORPS VPAND VPBROADCASTB
    VPBROADCASTD VPBROADCASTQ VPBROADCASTW VPCMPD VPCMPEQB VPCMPEQD VPCMPEQW VPERMILPD VPERMILPS VPMOVD2M VPMOVM2D
    VPMOVM2Q VPMOVQ2M VPOR VPORQ VPSHUFB VPSHUFD VPTESTMQ VPXOR VSHUFPD VSHUFPS VXORPD VXORPS VZEROALL VZEROUPPER
    XOR XORPD XORPS
"""

TAME = frozenset(_TAME.split())
"""Mnemonics that setups, dependency breakers, chains and the harness use (besides CMOVcc, SETcc and Jcc)."""

TAME_CATEGORIES = frozenset({"CMOV", "COND_BR", "UNCOND_BR", "CALL", "RET", "SETCC", "NOP", "WIDENOP"})

MOVES = frozenset({"MOV", "MOVAPS", "MOVAPD", "MOVDQA", "MOVUPS", "MOVUPD", "MOVDQU", "VMOVAPS", "VMOVAPD", "VMOVDQA"})


class RandomMachine:
    """Draws behaviours; the same seed and variant always give the same one."""

    def __init__(self, seed: int, variants: Iterable[InstructionVariant] | None = None, *, kind: str = "") -> None:
        """Draw the machine of that seed, of one of `KINDS` or of several ("hidden+intel"; "": a plain one).

        It has the given variants (None: those of the ISA sets of one of `CHIPS`).
        """
        self.seed, self.kind = seed, kind
        self.shape = draw_shape(seed, kind)
        self._has = None if variants is None else frozenset(variant.string for variant in variants)

    def model(self) -> MachineModel:
        """Return the machine as a model."""
        hard = "".join(f"; {KINDS[one].text}" for one in kinds_of(self.kind))
        origin = Origin(f"a machine drawn at random from the seed {self.seed}{hard}", "none: no CPU is like it")
        name = f"random:{self.kind}:{self.seed}" if self.kind else f"random:{self.seed}"
        return MachineModel(name, self.shape.parameters, origin, self.behaviour)

    def behaviour(self, variant: InstructionVariant) -> Behaviour | None:
        """Draw the behaviour of a variant; None if the machine does not have it."""
        tame = is_tame(variant)
        has = tame or variant.string in self._has if self._has is not None else variant.isa_set in self.shape.isa_sets
        if not has:
            return None
        source = random.Random(f"{self.seed} {variant.key}")
        drawing = _Drawing(source, self.shape, variant)
        return drawing.tame() if tame else drawing.wild()


def is_tame(variant: InstructionVariant) -> bool:
    """Whether measurements need a variant, so that its behaviour is simple."""
    return variant.iclass in TAME or variant.category in TAME_CATEGORIES or variant.cpl < 3


class _Drawing:
    """Draws the behaviour of one variant."""

    def __init__(self, source: random.Random, shape: MachineShape, variant: InstructionVariant) -> None:
        self.source, self.shape, self.variant = source, shape, variant
        self.updates = set(address_updates(variant))
        agen = [e for o in variant.operands if o.kind is OperandKind.AGEN for e in address_inputs(o)]
        self.inputs = [e for e in value_inputs(variant) if e not in self.updates] + agen
        self.outputs = [e for e in value_outputs(variant) if e not in self.updates]
        memory = [o for o in variant.operands if o.kind is OperandKind.MEMORY]
        self.loads = [o for o in memory if o.read]
        self.stores = [o for o in memory if o.written or o.conditional_write]
        self.uops: list[Uop] = []
        self.units = shape.units

    def tame(self) -> Behaviour:
        """Draw at most one computing µop, besides loads and stores; a NOP needs no port, as in LLVM's models."""
        if "NOP" in self.variant.category:
            self.uops.append(Uop(frozenset(), 0, (), ()))
            return self._behaviour(tame=True)
        loads = self._add_loads()
        moved = bool(loads or self.stores) and self.variant.iclass in MOVES | {"MOVD", "MOVQ", "VMOVD", "VMOVQ"}
        if not self.outputs and self.stores and not loads:
            moved = True
        if moved or not (self.outputs or loads or self.inputs or self.variant.category.endswith("_BR")):
            self._move(loads)
            return self._behaviour(tame=True)
        latency = 1 if self.variant.extension == "BASE" else self.source.randint(1, 2)
        computed = self._add(latency, (*self.inputs, *loads), tuple(self.outputs))
        self._add_stores((computed,))
        return self._behaviour(tame=True)

    def _move(self, loads: list[int]) -> None:
        """Let loads write the destination and stores take the source; any other move is a µop without port."""
        if loads and self.outputs:
            last = self.uops[loads[-1]]
            self.uops[loads[-1]] = replace(last, outputs=tuple(self.outputs), inputs=(*last.inputs, *self.inputs))
        if self.stores:
            self._add_stores((*self.inputs, *loads))
        elif not loads:
            self.uops.append(Uop(frozenset(), 0, tuple(self.inputs), tuple(self.outputs)))

    def wild(self) -> Behaviour:
        """Draw a graph of one to eight computing µops, besides loads and stores."""
        loads = self._add_loads()
        if self._divides():
            self._add_division(loads)
        else:
            count = self.source.choice((1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 8))
            if count > 1 or loads or self.stores:
                self.units = self.shape.units + self.shape.hidden_units
            self._add_graph(loads, count)
        return self._behaviour(tame=False)

    def _divides(self) -> bool:
        words = ("DIV", "SQRT")
        return any(word in self.variant.iclass for word in words) and "RSQRT" not in self.variant.iclass

    def _add(
        self, latency: int, inputs: tuple[Endpoint | int, ...], outputs: tuple[Endpoint, ...], divider: int = 0
    ) -> int:
        """Add a computing µop on a unit (on the divider's port if it divides); return its index."""
        ports = self.shape.divider_port if divider else self.source.choice(self.units)
        if self.loads:
            ports = self.shape.beside_loads.get(ports, ports)
        fast = (max(1, latency // 2), max(1, divider // 3)) if divider and self.source.random() < 0.7 else None
        self.uops.append(Uop(ports, latency, inputs, outputs, divider_cycles=divider, fast=fast))
        return len(self.uops) - 1

    def _add_loads(self) -> list[int]:
        for operand in self.loads:
            for _ in range(self.source.randint(2, 4) if operand.memory and operand.memory.vsib else 1):
                inputs = (*address_inputs(operand), Endpoint(operand.index, LatencyPart.MEMORY))
                self.uops.append(Uop(self.shape.load_ports, self.shape.load_latency, inputs, kind=UopKind.LOAD))
        return list(range(len(self.uops)))

    def _add_stores(self, data: tuple[Endpoint | int, ...]) -> None:
        for operand in self.stores:
            memory = (Endpoint(operand.index, LatencyPart.MEMORY),)
            address = address_inputs(operand)
            self.uops.append(Uop(self.shape.store_address_ports, 1, address, memory, UopKind.STORE_ADDRESS))
            latency = self.shape.store_latency
            self.uops.append(Uop(self.shape.store_data_ports, latency, data, memory, UopKind.STORE_DATA))

    def _add_division(self, loads: list[int]) -> None:
        latency = self.source.randint(8, 40)
        divided = self._add(latency, (*self.inputs, *loads), tuple(self.outputs), self.source.randint(2, latency))
        self._add_stores((divided,))

    def _add_graph(self, loads: list[int], count: int) -> None:
        """Draw where sources enter and results leave; the last µops depend on everything, so every pair has a path."""
        entries: list[list[Endpoint | int]] = [[] for _ in range(count)]
        values: list[Endpoint | int] = [*self.inputs, *loads]
        for value in values:
            entries[self.source.randrange(count)].append(value)
        sinks = self.source.randint(1, 2) if count > 1 else 1
        outputs: list[list[Endpoint]] = [[] for _ in range(sinks)]
        for group in self._groups():
            outputs[self.source.randrange(sinks)] += group
        if sinks == 2:
            early = [source for source in entries[-1] if isinstance(source, Endpoint)]
            entries[-1] = [source for source in entries[-1] if not isinstance(source, Endpoint)]
            entries[-2] += early
        loose: list[int] = []
        for number, inputs in enumerate(entries):
            sink = number - (count - sinks)
            if sink >= 0 or (loose and self.source.random() < 0.5):
                inputs.extend(loose if sink >= 0 else loose[-1:])
                loose = [] if sink >= 0 else loose[:-1]
            results = outputs[sink] if sink >= 0 else []
            loose.append(self._add(self.source.choice((1, 1, 1, 2, 3, 4, 5)), tuple(inputs), tuple(results)))
        self._add_stores((len(self.uops) - 1,))

    def _groups(self) -> list[list[Endpoint]]:
        """Return the results that leave together: each register by itself, the flags together or without CF."""
        flags = [e for e in self.outputs if e.flag]
        groups = [[e] for e in self.outputs if not e.flag]
        if flags and self.source.random() < 0.2:
            groups.append([e for e in flags if e.flag == "CF"])
            flags = [e for e in flags if e.flag != "CF"]
        return [group for group in (*groups, flags) if group]

    def _behaviour(self, *, tame: bool) -> Behaviour:
        slots = max(1, len(self.uops) - (len(self.stores) + len(self.loads)) // 2)
        behaviour = Behaviour(tuple(self.uops), slots)
        if self._moves_register() and self.source.random() < 0.5:
            return replace(behaviour, eliminated_share=self.source.choice(((1, 1), (1, 1), (2, 3), (1, 2))))
        if not tame and self._sources_can_be_the_same() and self.source.random() < 0.15:
            return replace(behaviour, same_register=self._with_same_register(behaviour))
        return behaviour

    def _moves_register(self) -> bool:
        explicit = [o for o in self.variant.operands if o.explicit]
        wide = all(o.kind is OperandKind.REGISTER and (o.width_bits or 0) >= 32 for o in explicit)
        return self.variant.iclass in MOVES and len(explicit) == 2 and wide and not explicit[0].read

    def _sources_can_be_the_same(self) -> bool:
        read = [o for o in self.variant.operands if _is_register_source(o)]
        return len(read) == 2 and set(read[0].registers) == set(read[1].registers)

    def _with_same_register(self, behaviour: Behaviour) -> Behaviour:
        """Draw a zero idiom, a broken dependency, or other latencies."""
        kind = self.source.choice(("zero", "break", "other"))
        if kind == "zero":
            return Behaviour((Uop(frozenset(), 0, (), tuple(self.outputs)),), 1)
        if kind == "break":
            uops = tuple(replace(u, inputs=tuple(i for i in u.inputs if isinstance(i, int))) for u in behaviour.uops)
            return replace(behaviour, uops=uops)
        last = behaviour.uops[-1]
        ports = self.source.choice(self.shape.units) if last.ports in self.shape.hidden_units else last.ports
        return Behaviour((replace(last, ports=ports, inputs=tuple(self.inputs), outputs=tuple(self.outputs)),), 1)


def _is_register_source(operand: Operand) -> bool:
    return operand.kind is OperandKind.REGISTER and operand.explicit and operand.read and not operand.opmask
