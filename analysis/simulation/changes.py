"""The simulated time of code with one change: a resource without limit, a latency of 0, or changed code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from analysis.block.code import Block
from analysis.bounds.components import Component
from analysis.memory.addresses import Followed
from analysis.whatif import WhatIf, what_ifs
from results.machine.graph import FLAGS
from results.ports import fullest
from simulator.core.steps import BELOW_RESULT, COMMIT, FETCH, LOAD, NO_PORT, PORT, REPLAY, SHARED, UNIT
from simulator.instructions.locations import location_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from analysis.block.code import Item
    from analysis.simulation.program import Program
    from analysis.simulation.study import Study
    from simulator.core.steps import CoreStep
    from simulator.machines.machine import Parameters

MOST_LINES = 24
"""Instructions that are tried without latency, one at a time: the first ones on the slowest dependency cycle."""

FRONT_END = frozenset({Component.PREDECODER, Component.DECODERS, Component.UOP_CACHE, Component.LOOP_BUFFER})
"""What delivers instructions."""

WITHOUT_LIMIT = 16
"""A resource without limit has this many times its width or entries: more of them changes nothing."""


class Tried(Protocol):
    """Simulates a changed program on the usual core."""

    def __call__(self, change: str, changed: Program, *, lifts: Container[Component]) -> WhatIf:
        """Return the time of the program, with the name of the change.

        Bounds of components that it does not lift still hold.
        """


MOST_INSTRUCTIONS = 2000
"""In a block for which changes are simulated. For longer blocks, which would take seconds, the bounds are used."""


def faster_ways(study: Study) -> list[WhatIf]:
    """Return the changes that make the code faster, those that gain most first."""
    if len(study.block.items) > MOST_INSTRUCTIONS:
        return what_ifs(study.bounds)
    found = [one for one in _tried(study) if one.cycles < study.cycles]
    return sorted(found, key=lambda one: (one.cycles, one.change))


def _tried(study: Study) -> Iterator[WhatIf]:
    """Yield all changes that are tried, with the cycles per iteration that each gives."""
    simulation = study.simulation
    program = simulation.programs.program(study.block, study.followed)
    usual = simulation.parameters
    pages = study.simulated.page_cycles

    def tried(
        change: str,
        changed: Program,
        parameters: Parameters = usual,
        *,
        lifts: Container[Component] = (),
        independent: bool = False,
    ) -> WhatIf:
        found = simulation.simulate(changed, parameters, independent=independent)
        return WhatIf(change, max(found.cycles, study.bounds.without(lifts)) + pages)

    wide = replace(
        usual, issue_width=usual.issue_width * WITHOUT_LIMIT, retire_width=usual.retire_width * WITHOUT_LIMIT
    )
    deep = replace(
        usual, reorder_buffer=usual.reorder_buffer * WITHOUT_LIMIT, scheduler=usual.scheduler * WITHOUT_LIMIT
    )
    if usual.front is not None:
        unfetched = program.changed(lambda _c, _p, step: None if step.kind == FETCH else step)
        yield tried("front end without limits", unfetched, replace(usual, front=None), lifts=FRONT_END)
    yield tried("issue and retirement without limits", program, wide, lifts={Component.ISSUE})
    yield tried("reorder buffer and scheduler without limits", program, deep)
    if any(step.kind == LOAD for step in program.steps):
        yield tried("load queue without limits", program, replace(usual, load_queue=None))
    yield tried("no dependencies", program, lifts={Component.DEPENDENCIES}, independent=True)
    if pages or any(step.kind == COMMIT for step in program.steps):
        memory = simulation.programs.program(study.block, _perfect(study))
        left = study.bounds.without({Component.STORES, Component.DEPENDENCIES, Component.UNIT})
        yield WhatIf("perfect memory", max(simulation.simulate(memory, usual).cycles, left))
    if any(step.kind == PORT and step.extra & BELOW_RESULT for step in program.steps):
        yield tried("divider without limits", program.changed(_undivided), lifts={Component.DIVIDER})
    for number, name in enumerate(usual.port_names):
        if study.simulated.ports[name]:
            freed = program.changed(_without_port(number, loads=number in simulation.programs.load_ports))
            yield tried(f"port {name} without limits", freed, lifts={Component.PORTS})
    yield from _lines(study, program, tried)
    yield from _accumulators(study, program, tried)
    yield from _unrolled(study)


def _perfect(study: Study) -> Followed:
    """Return the followed addresses with every load forwarded and no new page."""
    forwardings = tuple(replace(one, whole=True) for one in study.followed.forwardings)
    return Followed(forwardings, loop_copies=study.followed.loop_copies)


def _undivided(_copy: int, _position: int, step: CoreStep) -> CoreStep:
    """Return the step without the divider."""
    return step._replace(extra=step.extra & ~BELOW_RESULT) if step.kind == PORT else step


def _without_port(port: int, *, loads: bool) -> Callable[[int, int, CoreStep], CoreStep]:
    """Return a change by which µops that can use a port, one of those of loads or not, always find it free."""

    def change(_copy: int, _position: int, step: CoreStep) -> CoreStep:
        if step.kind in (PORT, SHARED) and port in step.ports:
            return step._replace(kind=NO_PORT, ports=(), latency=step.latency + 1, extra=0)
        return step._replace(kind=NO_PORT, latency=0) if step.kind == REPLAY and loads else step

    return change


def _at_once(chosen: int) -> Callable[[int, int, CoreStep], CoreStep]:
    """Return a change by which the results of an instruction are ready at once."""

    def change(_copy: int, position: int, step: CoreStep) -> CoreStep:
        return step._replace(latency=0) if position == chosen and step.kind not in (UNIT, REPLAY) else step

    return change


def _lines(study: Study, program: Program, tried: Tried) -> Iterator[WhatIf]:
    """Try each instruction of the slowest dependency cycle without its latency."""
    bounds = study.bounds
    if bounds.cycle is None:
        return
    positions = sorted({bounds.nodes[number].position for number in bounds.cycle.nodes})
    for position in positions[:MOST_LINES]:
        name = study.block.items[position].text
        without = program.changed(_at_once(position))
        yield tried(f"line {position + 1} without latency ({name})", without, lifts={Component.DEPENDENCIES})


def _accumulators(study: Study, program: Program, tried: Tried) -> Iterator[WhatIf]:
    """Try another register in every second iteration, where one register carries the slowest dependency."""
    bounds = study.bounds
    if bounds.cycle is None:
        return
    nodes = [bounds.nodes[number] for number in bounds.cycle.nodes]
    shared = set(nodes[0].names).intersection(*(node.names for node in nodes))
    users = {node.position for node in nodes}
    for name in sorted(shared.difference(FLAGS))[:1]:
        if any(_is_pointer(study.block.items[position], name) for position in users):
            continue
        number = study.simulation.programs.number_of(name)
        readers = {
            position
            for position, item in enumerate(study.block.items)
            if any(name == source for output in item.effects.outputs for source, _ in output.waits)
        }
        if readers <= users:
            doubled = replace(program.twice(), locations=program.locations + 1)
            yield tried(
                f"one more accumulator beside {_written(name, [study.block.items[one] for one in sorted(users)])}",
                doubled.changed(_renamed(number, program.locations, program.copies)),
                lifts={Component.DEPENDENCIES},
            )


def _written(location: str, users: Iterable[Item]) -> str:
    """Return the name by which instructions write to a register: XMM0 for ZMM0, EAX for RAX."""
    for item in users:
        if item.compiled is not None:
            for operand in item.compiled.variant.operands:
                value = item.compiled.values.get(operand.index)
                if operand.written and isinstance(value, str) and location_of(value) == location:
                    return value
    return location


def _is_pointer(item: Item, name: str) -> bool:
    """Whether an instruction reads memory at an address in a register: pointers cannot be split into accumulators."""
    uops = (item.compiled.uops if item.compiled is not None else None) or ()
    return any(isinstance(place, tuple) and name in place[:2] for uop in uops for place in uop.reads)


def _renamed(old: int, new: int, copies: int) -> Callable[[int, int, CoreStep], CoreStep]:
    """Return a change by which all copies but the first `copies` use the location `new` in place of `old`."""

    def change(copy: int, _position: int, step: CoreStep) -> CoreStep:
        places = step.sources, step.targets
        if copy < copies or not any(old in one for one in places):
            return step
        sources, targets = (tuple([new if one == old else one for one in those]) for those in places)
        return step._replace(sources=sources, targets=targets)

    return change


def _unrolled(study: Study) -> Iterator[WhatIf]:
    """Try the loop unrolled by two: its jump is taken half as often."""
    if not study.followed.loop_copies or not study.block.is_loop or len(study.block.items) < 2:
        return
    items = study.block.items
    twice = Block((*items[:-1], *items))
    found = study.simulation.run(twice, study.follower.follow(twice.items, 1))
    ports, _ = fullest(twice.uops_by_ports)
    left = study.bounds.without({*FRONT_END, Component.ISSUE, Component.PORTS})
    yield WhatIf("unrolled by two: the jump half as often", max(found.cycles / 2, ports / 2, left))
