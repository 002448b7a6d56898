"""Machines drawn at random from a seed, to see whether inference finds again what nobody told it.

A seed decides the number of ports, which of them load and store, and the functional units (port sets). For every
variant it decides a graph of one to eight computing µops, each on a unit, with latencies of their own. Operands enter
and leave the graph at different places, so operand pairs have different latencies. Some moves are eliminated (always or
now and then), some variants behave differently with the same register, dividers are not pipelined and fast for some
values.

What measuring needs is tame, else no machine could be measured: the harness's own instructions and those that chains
are made of (`TAME`) are one µop, besides loads and stores.

A machine may be of a kind (`KINDS`): then one thing about it is harder than on a plain machine of the same seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from results.model import PORT_LETTERS, LatencyPart
from simulator.machines.graph import Behaviour, Endpoint, Uop, UopKind, address_inputs, value_inputs, value_outputs
from simulator.machines.machine import Binding, MachineModel, Origin, Parameters
from simulator.machines.noise import CounterNoise
from simulator.machines.scheduling_model import address_updates
from simulator.machines.shipped import read_isa_sets
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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

CHIPS = ("HASWELL", "SKYLAKE_SERVER")
"""Whose ISA sets a random machine has."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a seed decides about the machine as a whole. Ports are written as letters, latencies in core cycles.

    `units` are the functional units of all computing µops, `hidden_units` those that only instructions of two and more
    µops use.
    """

    parameters: Parameters
    units: tuple[frozenset[str], ...]
    load_ports: frozenset[str]
    store_address_ports: frozenset[str]
    store_data_ports: frozenset[str]
    divider_port: frozenset[str]
    load_latency: int
    store_latency: int
    isa_sets: frozenset[str]
    hidden_units: tuple[frozenset[str], ...] = ()


def draw_shape(seed: int, kind: str = "") -> Shape:
    """Draw the machine as a whole, of one of `KINDS` or of several ("hidden+intel"; "": a plain one)."""
    shape = _draw_plain_shape(seed)
    for one in _kinds(kind):
        shape = KINDS[one].change(random.Random(f"{one} {seed}"), shape)
    return shape


def _kinds(kind: str) -> list[str]:
    return kind.split("+") if kind else []


def _draw_plain_shape(seed: int) -> Shape:
    """Draw the machine as a whole: 4 to 12 ports, of which at least two compute."""
    source = random.Random(f"machine {seed}")
    count = source.randint(4, 12)
    letters = list(PORT_LETTERS[:count])
    source.shuffle(letters)
    loads = letters[: 1 if count < 6 else source.randint(1, 3 if count > 7 else 2)]
    rest = letters[len(loads) :]
    data = rest[: 2 if count > 9 and source.random() < 0.5 else 1]
    compute = rest[len(data) :]
    addresses = _address_ports(source, loads, compute)
    compute = [port for port in compute if port not in addresses] or compute
    width = source.randint(max(4, min(6, len(compute))), 6)
    parameters = Parameters(
        issue_width=width,
        retire_width=width + source.randint(0, 2),
        reorder_buffer=source.choice((128, 168, 192, 224, 352)),
        scheduler=source.choice((36, 54, 60, 97, 160)),
        ports="".join(sorted(letters, key=PORT_LETTERS.index)),
        shared_counters=_shared(source, loads, data, compute),
        no_index=_no_index(seed, addresses, loads),
        fusing=("CMP", "TEST", "ADD", "SUB", "AND", "INC", "DEC") if source.random() < 0.7 else (),
        noise=CounterNoise(upwards=source.choice((0, 0, 1, 3))),
    )
    return Shape(
        parameters,
        _units(source, compute, width, parameters.shared_counters),
        frozenset(loads),
        frozenset(addresses),
        frozenset(data),
        frozenset(source.choice(compute)),
        source.randint(3, 7),
        source.randint(1, 5),
        read_isa_sets()[source.choice(CHIPS)],
    )


def _address_ports(source: random.Random, loads: list[str], compute: list[str]) -> list[str]:
    """Draw where stores find their address: on the load ports, on a port of their own, or on both."""
    own = [compute[0]] if len(compute) > 3 else []
    return source.choice((loads, own or loads, [*loads, *own]))


def _no_index(seed: int, addresses: list[str], loads: list[str]) -> str:
    """Draw whether the port that only stores find their address on can do so with an index."""
    own = [port for port in addresses if port not in loads]
    return "".join(own) if len(own) < len(addresses) and random.Random(f"no index {seed}").random() < 0.5 else ""


def _shared(source: random.Random, loads: list[str], data: list[str], compute: list[str]) -> tuple[str, ...]:
    """Draw which ports share a counter: those of loads, of stores, or two that compute."""
    groups = [ports for ports in (loads, data) if len(ports) > 1 and source.random() < 0.5]
    if len(compute) > 3 and source.random() < 0.2:
        groups.append(compute[-2:])
    return tuple("".join(sorted(ports, key=PORT_LETTERS.index)) for ports in groups)


def _units(
    source: random.Random, compute: list[str], width: int, shared: tuple[str, ...]
) -> tuple[frozenset[str], ...]:
    """Draw the functional units: port sets no larger than the issue width, so that they can be kept busy.

    Of two computing ports with one counter the second is in no unit without the first, as on Golden Cove. Else no
    experiment could say which of the two a unit has.
    """
    units = {frozenset(source.sample(compute, source.randint(1, min(len(compute), width)))) for _ in range(7)}
    for group in shared:
        if group[0] in compute:
            units = {unit if group[0] in unit else unit - set(group[1:]) for unit in units}
    return tuple(sorted(units - {frozenset[str]()}, key=lambda ports: (len(ports), sorted(ports))))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of random machine: what is hard about it, and what it makes of a plain machine of the same seed."""

    text: str
    change: Callable[[random.Random, Shape], Shape]


def _with_parameters(  # each parameter has its own type
    **changes: Any,  # noqa: ANN401
) -> Callable[[random.Random, Shape], Shape]:
    """Return a change of parameters that draws nothing."""
    return lambda _, shape: replace(shape, parameters=replace(shape.parameters, **changes))


def _with_noise(**changes: int) -> Callable[[random.Random, Shape], Shape]:
    """Return a change of the counters' noise that draws nothing."""

    def change(source: random.Random, shape: Shape) -> Shape:
        noise = replace(shape.parameters.noise, **changes)
        return _with_parameters(noise=noise)(source, shape)

    return change


def _hidden(source: random.Random, shape: Shape) -> Shape:
    """Keep half of the units (of an odd number, the smaller half) for instructions of two and more µops."""
    shown = [*shape.units]
    source.shuffle(shown)
    special = (shape.divider_port, shape.load_ports, shape.store_data_ports, shape.store_address_ports)
    hidden = [unit for unit in shown if unit not in special][: len(shown) // 2]
    units = tuple(unit for unit in shape.units if unit not in hidden)
    return replace(shape, units=units, hidden_units=tuple(sorted(hidden, key=sorted)))


def _any_counters(source: random.Random, shape: Shape) -> Shape:
    """Cut the ports, in any order, into groups of one to three that share a counter; one group has at least two."""
    ports = list(shape.parameters.ports)
    source.shuffle(ports)
    groups, size = [], source.randint(2, 3)
    while ports:
        groups.append("".join(sorted(ports[:size], key=PORT_LETTERS.index)))
        ports, size = ports[size:], source.randint(1, 3)
    shared = tuple(group for group in groups if len(group) > 1)
    return replace(shape, parameters=replace(shape.parameters, shared_counters=shared))


def _any_width(source: random.Random, shape: Shape) -> Shape:
    """Issue 2 to 12 µops per cycle, however many ports there are."""
    width = source.randint(2, 12)
    retire_width = width + source.randint(0, 2)
    return replace(shape, parameters=replace(shape.parameters, issue_width=width, retire_width=retire_width))


def _small_buffers(source: random.Random, shape: Shape) -> Shape:
    """Have buffers as small as those of the first out-of-order cores (Pentium Pro: 40 entries, 20 in the scheduler)."""
    entries, scheduler = source.choice((20, 32, 40, 64)), source.choice((8, 12, 16, 20))
    return replace(shape, parameters=replace(shape.parameters, reorder_buffer=entries, scheduler=scheduler))


def _intel_binding(source: random.Random, shape: Shape) -> Shape:
    """Bind as Intel's cores do; loads take their ports by turns."""
    del source
    loads = "".join(sorted(shape.load_ports, key=PORT_LETTERS.index))
    return replace(shape, parameters=replace(shape.parameters, binding=Binding.INTEL, alternating=loads))


KINDS = {
    "hidden": Kind("half of the port sets occur only inside instructions of two and more µops", _hidden),
    "counters": Kind("any ports share a counter, in groups of up to three", _any_counters),
    "width": Kind("issues 2 to 12 µops per cycle", _any_width),
    "small": Kind("a small reorder buffer and scheduler", _small_buffers),
    "dispatch": Kind("µops are bound to ports at dispatch", _with_parameters(binding=Binding.DISPATCH)),
    "lowest": Kind("bound to the lowest port among equals", _with_parameters(binding=Binding.LOWEST)),
    "intel": Kind("bound by Intel's rule, loads by turns", _intel_binding),
    "sample1": Kind("every sample is off by up to 1%", _with_noise(sample_percent=1)),
    "sample2": Kind("every sample is off by up to 2%", _with_noise(sample_percent=2)),
    "job1": Kind("all samples of a job are off by up to 1%", _with_noise(job_percent=1)),
    "job2": Kind("all samples of a job are off by up to 2%", _with_noise(job_percent=2)),
    "outliers": Kind("30% of the samples are much too high", _with_noise(outlier_percent=30)),
    "offset": Kind("every sample is 7 too high", _with_noise(offset=7)),
    "drift": Kind("the clock drifts by 3% over 500 jobs", _with_noise(drift_percent=3)),
}
"""What may be hard about a random machine, by its name in `random:KIND:SEED` (or `random:KIND+KIND:SEED`)."""


class RandomMachine:
    """Draws behaviours; the same seed and variant always give the same one."""

    def __init__(self, seed: int, variants: Iterable[InstructionVariant] | None = None, *, kind: str = "") -> None:
        """Be the machine of that seed, of one of `KINDS` or of several ("hidden+intel"; "": a plain one).

        It has the variants given, else those of the ISA sets of one of `CHIPS`.
        """
        self.seed, self.kind = seed, kind
        self.shape = draw_shape(seed, kind)
        self._has = None if variants is None else frozenset(variant.string for variant in variants)

    def model(self) -> MachineModel:
        """Return the machine as a model."""
        hard = "".join(f"; {KINDS[one].text}" for one in _kinds(self.kind))
        origin = Origin(f"a machine drawn at random from the seed {self.seed}{hard}", "none: no CPU is like it")
        name = f"random:{self.kind}:{self.seed}" if self.kind else f"random:{self.seed}"
        return MachineModel(name, self.shape.parameters, origin, self.behaviour)

    def behaviour(self, variant: InstructionVariant) -> Behaviour | None:
        """Draw what the machine does with a variant; None if it does not have it."""
        tame = is_tame(variant)
        has = tame or variant.string in self._has if self._has is not None else variant.isa_set in self.shape.isa_sets
        if not has:
            return None
        source = random.Random(f"{self.seed} {variant.key}")
        drawing = _Drawing(source, self.shape, variant)
        return drawing.tame() if tame else drawing.wild()


def is_tame(variant: InstructionVariant) -> bool:
    """Whether measuring needs it: its behaviour is drawn from simple ones."""
    return variant.iclass in TAME or variant.category in TAME_CATEGORIES or variant.cpl < 3


class _Drawing:
    """Draws the behaviour of one variant."""

    def __init__(self, source: random.Random, shape: Shape, variant: InstructionVariant) -> None:
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
        """Draw at most one computing µop, besides loads and stores."""
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
        """Let loads write the destination; let stores take the source. What does nothing needs no port."""
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
        """Results that leave together: each register by itself, the flags together or CF apart."""
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
