"""The parameters of a random machine: ports, functional units, widths, counters.

A machine may be of a kind (a row of `KINDS`). Then one thing about it is harder for inference than on the plain machine
of the same seed. Kinds can be combined: `hidden+intel`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from results.model import PORT_LETTERS
from simulator.machines.machine import Binding, Parameters
from simulator.machines.noise import CounterNoise
from simulator.machines.shipped import read_isa_sets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CHIPS = ("HASWELL", "SKYLAKE_SERVER")
"""The ISA sets of a random machine are those of one of these chips."""


@dataclass(frozen=True, slots=True)
class MachineShape:
    """What a seed decides about the whole machine. Ports are letters, latencies are in core cycles.

    `units` are the functional units of all computing µops, `hidden_units` those that only instructions of two and more
    µops use. `beside_loads` are the ports that are left of a unit in instructions that load.
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
    beside_loads: Mapping[frozenset[str], frozenset[str]] = field(default_factory=dict, hash=False)


def draw_shape(seed: int, kind: str = "") -> MachineShape:
    """Draw the machine as a whole, of one of `KINDS` or of several ("hidden+intel"; "": a plain one)."""
    shape = _draw_plain_shape(seed)
    for one in kinds_of(kind):
        shape = KINDS[one].change(random.Random(f"{one} {seed}"), shape)
    return shape


def kinds_of(kind: str) -> list[str]:
    """Return the names of kinds in a name such as "hidden+intel" ("": none)."""
    return kind.split("+") if kind else []


def _draw_plain_shape(seed: int) -> MachineShape:
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
        computing="".join(sorted(set(rest) - set(data) - set(addresses), key=PORT_LETTERS.index)),
    )
    return MachineShape(
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
    """Draw the ports of store addresses: the load ports, a port of their own, or both."""
    own = [compute[0]] if len(compute) > 3 else []
    return source.choice((loads, own or loads, [*loads, *own]))


def _no_index(seed: int, addresses: list[str], loads: list[str]) -> str:
    """Draw whether the store-address port that does not load can compute addresses with an index."""
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
class MachineKind:
    """A kind of random machine: what is hard about it, and how it changes the plain machine of the same seed."""

    text: str
    change: Callable[[random.Random, MachineShape], MachineShape]


def _with_parameters(  # each parameter has its own type
    **changes: Any,  # noqa: ANN401
) -> Callable[[random.Random, MachineShape], MachineShape]:
    """Return a change of parameters that draws nothing."""
    return lambda _, shape: replace(shape, parameters=replace(shape.parameters, **changes))


def _with_noise(**changes: int) -> Callable[[random.Random, MachineShape], MachineShape]:
    """Return a change of the counters' noise that draws nothing."""

    def change(source: random.Random, shape: MachineShape) -> MachineShape:
        noise = replace(shape.parameters.noise, **changes)
        return _with_parameters(noise=noise)(source, shape)

    return change


def _hidden(source: random.Random, shape: MachineShape) -> MachineShape:
    """Keep half of the units (of an odd number, the smaller half) for instructions of two and more µops."""
    shown = [*shape.units]
    source.shuffle(shown)
    special = (shape.divider_port, shape.load_ports, shape.store_data_ports, shape.store_address_ports)
    hidden = [unit for unit in shown if unit not in special][: len(shown) // 2]
    units = tuple(unit for unit in shape.units if unit not in hidden)
    return replace(shape, units=units, hidden_units=tuple(sorted(hidden, key=sorted)))


def _beside_loads(source: random.Random, shape: MachineShape) -> MachineShape:
    """Leave all ports but one of each unit to what computes on a load, and the same ones of units in one another."""
    needed = {group[0] for group in shape.parameters.shared_counters}  # of two with one counter, a unit has this one
    closed = source.choice(sorted(frozenset[str]().union(*shape.units) - needed))
    left = {unit: unit - {closed} for unit in shape.units if closed in unit and len(unit) > 1}
    return replace(shape, beside_loads=left)


def _any_counters(source: random.Random, shape: MachineShape) -> MachineShape:
    """Cut the ports, in any order, into groups of one to three that share a counter; one group has at least two."""
    ports = list(shape.parameters.ports)
    source.shuffle(ports)
    groups, size = [], source.randint(2, 3)
    while ports:
        groups.append("".join(sorted(ports[:size], key=PORT_LETTERS.index)))
        ports, size = ports[size:], source.randint(1, 3)
    shared = tuple(group for group in groups if len(group) > 1)
    return replace(shape, parameters=replace(shape.parameters, shared_counters=shared))


def _any_width(source: random.Random, shape: MachineShape) -> MachineShape:
    """Issue 2 to 12 µops per cycle, however many ports there are."""
    width = source.randint(2, 12)
    retire_width = width + source.randint(0, 2)
    return replace(shape, parameters=replace(shape.parameters, issue_width=width, retire_width=retire_width))


def _small_buffers(source: random.Random, shape: MachineShape) -> MachineShape:
    """Have buffers as small as those of the first out-of-order cores (Pentium Pro: 40 entries, 20 in the scheduler)."""
    entries, scheduler = source.choice((20, 32, 40, 64)), source.choice((8, 12, 16, 20))
    return replace(shape, parameters=replace(shape.parameters, reorder_buffer=entries, scheduler=scheduler))


def _intel_binding(source: random.Random, shape: MachineShape) -> MachineShape:
    """Bind as Intel's cores do; loads take their ports by turns."""
    del source
    loads = "".join(sorted(shape.load_ports, key=PORT_LETTERS.index))
    return replace(shape, parameters=replace(shape.parameters, binding=Binding.INTEL, alternating=loads))


KINDS = {
    "hidden": MachineKind("half of the port sets occur only inside instructions of two and more µops", _hidden),
    "loads": MachineKind("what computes on a load cannot use one of the ports", _beside_loads),
    "counters": MachineKind("any ports share a counter, in groups of up to three", _any_counters),
    "width": MachineKind("issues 2 to 12 µops per cycle", _any_width),
    "small": MachineKind("a small reorder buffer and scheduler", _small_buffers),
    "dispatch": MachineKind("µops are bound to ports at dispatch", _with_parameters(binding=Binding.DISPATCH)),
    "lowest": MachineKind("bound to the lowest port among equals", _with_parameters(binding=Binding.LOWEST)),
    "intel": MachineKind("bound by Intel's rule, loads by turns", _intel_binding),
    "sample1": MachineKind("every sample is off by up to 1%", _with_noise(sample_percent=1)),
    "sample2": MachineKind("every sample is off by up to 2%", _with_noise(sample_percent=2)),
    "job1": MachineKind("all samples of a job are off by up to 1%", _with_noise(job_percent=1)),
    "job2": MachineKind("all samples of a job are off by up to 2%", _with_noise(job_percent=2)),
    "outliers": MachineKind("30% of the samples are much too high", _with_noise(outlier_percent=30)),
    "offset": MachineKind("every sample is 7 too high", _with_noise(offset=7)),
    "drift": MachineKind("the clock drifts by 3% over 500 jobs", _with_noise(drift_percent=3)),
}
"""What may be hard about a random machine, by its name in `random:KIND:SEED` (or `random:KIND+KIND:SEED`)."""
