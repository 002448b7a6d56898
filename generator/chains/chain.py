"""Puts chains together: the instruction under test, links back to its source operand, and dependency breakers.

A chain's cycles per copy are the latency of the pair plus that of the links, if nothing else is slower. Breakers
overwrite everything else that the instruction writes. Where there is no breaker, the chain is not `isolated`, and its
result is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.assemble import assemble
from generator.chains.links import CARRIERS, GPR_NODES, VECTOR_NODES, Ends, Link, Route, pads, restoring
from generator.chains.setup import ChainSetup, UnfinishedChain
from generator.microbenchmark import Line, Microbenchmark
from generator.operands.effects import address_registers, effects_of
from generator.operands.places import STATUS_FLAGS
from generator.operands.registers import family, is_high8, part, register_class
from generator.operands.reserved import harness_registers
from generator.operands.values import DEFAULT_VALUE, Values
from generator.support.breakers import (
    break_flags,
    break_memory,
    break_register_of,
    break_stack,
    memory_widths,
    restore_address,
)
from generator.support.initial import general_value, stack_balance, stack_refill
from results.model import LatencyPart
from xed_convert.model import Instance, MemoryAddress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.factory import InstructionFactory
    from generator.operands.places import Place

SCRATCH = MemoryAddress("R14", displacement=0x3C0)
"""Memory that chains may use besides the instruction's own, in bytes from R14: the last of sixteen places."""

_UNTRACKED = frozenset(
    {"RIP", "X87PUSH", "X87POP", "X87POP2", "TSC", "MSRS", "TSCAUX", "X87STATUS", "X87TAG", "X87CONTROL"}
)
"""What an instruction may write without a dependency that breakers would have to cut."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A microbenchmark for one latency, and what to subtract from its cycles.

    `links` are the names of the links that are calibrated, pads included, each as often as it is in the chain.
    `cross_domain_links` counts the others, which cannot be calibrated. `breakers` is the number of further
    instructions, `instances` how often the instruction under test is in it. `used` are the registers of all of it.
    """

    benchmark: Microbenchmark
    route: Route
    links: tuple[str, ...]
    cross_domain_links: int
    isolated: bool
    breakers: int
    pads: int
    instances: int = 1
    used: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Path:
    """A route with registers: the path of a chain from the destination back to the source.

    `nodes` are the kinds of places before, between and after the links; `registers` are their registers ("" for flags
    and memory).
    """

    source: Place
    destination: Place
    links: tuple[Link, ...]
    nodes: tuple[str, ...]
    registers: tuple[str, ...]


class ChainFactory:
    """Makes chains for the pairs of one instance with given operand values."""

    def __init__(self, instructions: InstructionFactory, instance: Instance, values: Values = Values()) -> None:  # noqa: B008 (it is frozen)
        """Prepare what all chains of the instance have in common."""
        self.instructions, self.instance, self.values = instructions, instance, values
        self.effects = effects_of(instance)
        self._setup = ChainSetup(instructions, instance, values)
        names = {str(v) for v in instance.values.values() if isinstance(v, str)}
        fixed = {r for o in instance.variant.operands if not o.explicit for r in o.registers}
        self._occupied = (
            {family(name) for name in names | fixed} | set(address_registers(instance)) | set(harness_registers())
        )

    def chain(self, source: Place, destination: Place, route: Route, pad_count: int = 0, *, cut: bool = False) -> Chain:
        """Return the chain from `destination` back to `source` through a route (no links: the instance itself chains).

        Args:
            source: input of the instance that the chain ends at.
            destination: output of the instance that the chain begins at.
            route: links between them.
            pad_count: how many further links to put in, so that latency and not throughput limits the chain.
            cut: overwrite the destination before the links, so that there is no chain. Then other things cause the
                time.

        Raises:
            LookupError: there are not enough temporary registers.
            UnknownInstructionError: the catalogue lacks a chain instruction.
            EncodingError: an operand cannot be encoded.
        """
        unfinished = UnfinishedChain(set(self._occupied))
        early = self._early_restores(unfinished, source, destination)
        path = self._path(unfinished, source, destination, route)
        self._render_links(unfinished, path, route.carrier, pad_count)
        broken = self._breakers(unfinished, source)
        if cut:
            early += self._cut(unfinished, destination)
        body = self._arranged(unfinished, source, early, broken)
        benchmark = Microbenchmark(
            self._setup.lines(unfinished),
            body,
            f"latency {source} → {destination} of {self.instance.variant.string} through {route.name or 'itself'}",
        )
        cross_domain_links = sum(not link.calibrations for link in path.links)
        return Chain(
            benchmark,
            route,
            tuple(unfinished.links),
            cross_domain_links,
            unfinished.isolated,
            len(broken),
            pad_count,
            used=frozenset(unfinished.used),
        )

    def swapped(self, source: Place, destination: Place) -> Chain:
        """Return the chain of the instance and of one with both operands swapped; it needs no links and no breakers.

        Where the destination is an input as well, its own chain may be the slower one: then it is not isolated.

        Raises:
            LookupError: the operands cannot be swapped, or something besides would have to be put back.
            EncodingError: they cannot be encoded so.
        """
        operands = [self.instance.variant.operand(place.operand) for place in (source, destination)]
        fitting = all(
            operand.explicit and other.register in operand.registers
            for operand, other in zip(operands, (destination, source), strict=True)
        )
        alone = self.effects.writes == {destination.resource} and not self.effects.reads & STATUS_FLAGS
        if not fitting or not alone or self.needs_restore(source):
            message = f"{source} and {destination} cannot be swapped"
            raise LookupError(message)
        values = {source.operand: destination.register, destination.operand: source.register}
        other = Instance(self.instance.variant, {**self.instance.values, **values})
        purpose = f"latency {source} → {destination} of {self.instance.variant.string} through itself swapped"
        setup = self._setup.lines(UnfinishedChain(set(self._occupied)))
        benchmark = Microbenchmark(setup, (assemble(self.instance), assemble(other)), purpose)
        isolated = destination.resource not in self.effects.inputs
        return Chain(benchmark, Route((), (destination.node,)), (), 0, isolated, breakers=0, pads=0, instances=2)

    def _arranged(
        self, unfinished: UnfinishedChain, source: Place, early: Sequence[Line], broken: Sequence[Line]
    ) -> tuple[Line, ...]:
        """Return the body; the instance comes first, unless flags would have to pass from one copy to the next.

        The end of the loop, between the last copy and the next first one, writes flags. So the link into a flag comes
        first, and a register carries the dependency from copy to copy.
        """
        own = (assemble(self.instance), *early)
        if source.flags and unfinished.last_link:
            return (
                *unfinished.lines[unfinished.last_link - 1 :],
                *broken,
                *own,
                *unfinished.lines[: unfinished.last_link - 1],
            )
        return (*own, *unfinished.lines, *broken)

    def _cut(self, unfinished: UnfinishedChain, destination: Place) -> list[Line]:
        """Return the lines that overwrite the destination.

        Raises:
            LookupError: nothing overwrites it.
        """
        if destination.flags:
            return break_flags(self.instructions, frozenset(destination.flags), "", "")
        if destination.part is LatencyPart.MEMORY:
            operand = self.instance.variant.operand(destination.operand)
            line = break_memory(self.instructions, operand.width_bits, self._address_of(destination))
            lines = [line] if line else []
        else:
            lines = self._break(unfinished, destination.resource)
        if not lines:
            message = f"nothing overwrites {destination}"
            raise LookupError(message)
        return lines

    def independent(self) -> Microbenchmark:
        """Return the instance with all its dependencies broken: what limits it is throughput alone.

        Raises:
            LookupError: there is a dependency that nothing cuts.
        """
        unfinished = UnfinishedChain(set(self._occupied), clobbers_flags=True)
        broken = self._breakers(unfinished, None)
        if not unfinished.isolated:
            message = f"{self.instance.variant.string} depends on itself in a way that nothing cuts"
            raise LookupError(message)
        body = (assemble(self.instance), *stack_refill(self.instructions, self.instance), *broken)
        return Microbenchmark(
            self._setup.lines(unfinished), body, f"throughput of {self.instance.variant.string} with breakers"
        )

    def needs_restore(self, source: Place) -> bool:
        """Whether a chain has to put a value back into the source."""
        return self._restored_value(source) is not None

    def _restored_value(self, source: Place) -> tuple[str, int] | None:
        """Return ("", value) or (address register, 0) if the source must keep its value through AND and OR."""
        if source.resource in harness_registers():
            written = source.resource in self.effects.writes
            return (part(source.resource, 64), 0) if written or source.node != "ADDR" else None
        operand = f"op{source.operand}" if source.part in {LatencyPart.NONE, LatencyPart.MEMORY} else ""
        for name in (source.resource, operand, register_class(source.register)):
            if name in self.values.restored:
                value = self.values.places[name]
                return ("", value | value << 8 if is_high8(source.register) else value)
        return None

    def target_node(self, source: Place) -> str:
        """Return the kind of place that links must reach: an address that is restored is an ordinary register."""
        return "R64" if source.node == "ADDR" and self.needs_restore(source) else source.node

    def _with_restore(self, source: Place, route: Route) -> tuple[tuple[Link, ...], tuple[str, ...]]:
        """Return the route's links and nodes with the restoring link where it has to be."""
        if self._restored_value(source) is None:
            return route.links, route.nodes
        positions = [position for position, node in enumerate(route.nodes) if node in GPR_NODES | VECTOR_NODES]
        if not positions:
            return route.links, route.nodes
        at = positions[-1]
        return (
            (*route.links[:at], restoring(route.nodes[at]), *route.links[at:]),
            (*route.nodes[: at + 1], *route.nodes[at:]),
        )

    def _path(self, unfinished: UnfinishedChain, source: Place, destination: Place, route: Route) -> _Path:
        """Choose the register of every place along a route, after the restoring link is put in."""
        links, nodes = self._with_restore(source, route)
        high8 = any(link.high8 for link in links)
        registers = [destination.register]
        for position, node in enumerate(nodes[1:-1], start=1):
            if links[position - 1].restores:
                registers.append(registers[-1])
            else:
                registers.append(unfinished.temporary(node, high8=high8) if node in CARRIERS - {"X87"} else "")
        registers.append(source.register)
        if links and links[-1].restores:
            registers[-2] = registers[-1]
        return _Path(source, destination, links, nodes, tuple(registers))

    def _render_links(self, unfinished: UnfinishedChain, path: _Path, carrier: int | None, pad_count: int) -> None:
        """Add the lines of the links, with the pads at the place `carrier`."""
        for position, node in enumerate(path.nodes):
            if position:
                self._render_link(unfinished, path, position)
            if position == carrier and pad_count:
                pad = _pad_like(path.links, node)
                line = pad.render(self.instructions, Ends(path.registers[position], path.registers[position]))
                unfinished.lines += line * pad_count
                unfinished.links += [pad.name] * pad_count
        if not path.links and path.source.resource != path.destination.resource:
            message = f"{path.source} and {path.destination} need a link"
            raise LookupError(message)

    def _render_link(self, unfinished: UnfinishedChain, path: _Path, position: int) -> None:
        """Add the lines of the link that leads to the place at a position of the path."""
        link, target = path.links[position - 1], path.registers[position]
        if link.restores:
            self._render_restore(unfinished, link, target, path.source)
        else:
            unfinished.last_link = len(unfinished.lines) + 1
            ends = Ends(path.registers[position - 1], target, self._memory_between(path, position))
            unfinished.lines += link.render(self.instructions, ends)
            merged = link.merges and family(target) in self.effects.writes
            unfinished.isolated = unfinished.isolated and not merged
        unfinished.clobbers_flags = unfinished.clobbers_flags or link.clobbers_flags(self.instructions)
        if link.calibrations:
            unfinished.links.append(link.name)

    def _render_restore(self, unfinished: UnfinishedChain, link: Link, register: str, source: Place) -> None:
        """Add AND with zero and OR with the value, which leave the dependency and restore the value."""
        restored = self._restored_value(source)
        address, value = restored or ("", DEFAULT_VALUE)
        zero, kept = unfinished.temporary(link.source), unfinished.temporary(link.source)
        if address:
            unfinished.copies[kept] = address
        constants = unfinished.vectors if link.source in VECTOR_NODES else unfinished.constants
        constants |= {zero: 0} if address else {zero: 0, kept: value}
        unfinished.lines += link.render(self.instructions, Ends(register, register, None, zero, kept))

    def _memory_between(self, path: _Path, position: int) -> MemoryAddress | None:
        """Return the address for the link that leads to a position (None: neither place beside it is memory).

        At the ends of the path it is the operand's own address, else scratch memory.
        """
        first, last = position == 1, position == len(path.links)
        sides = ((path.destination, path.nodes[position - 1], first), (path.source, path.nodes[position], last))
        for place, node, at_end in sides:
            if node.startswith("M") and node[1:].isdigit():
                own = at_end and place.part is LatencyPart.MEMORY
                return self._address_of(place) if own else SCRATCH
        return None

    def _address_of(self, place: Place) -> MemoryAddress:
        """Return the address of the instance's memory operand."""
        value = self.instance.values.get(place.operand)
        if isinstance(value, MemoryAddress):
            return value
        operand = self.instance.variant.operand(place.operand)
        if operand.memory and operand.memory.base:
            return MemoryAddress(operand.memory.base)
        message = f"operand {place.operand} has no address"
        raise LookupError(message)

    def _early_restores(self, unfinished: UnfinishedChain, source: Place, destination: Place) -> list[Line]:
        """Return the lines that put moved addresses back at once, so that links find the memory where it was.

        The x87 stack gets back what was popped, so that its top is where links expect it. A push has stored where the
        stack pointer then is; its pointer is put back later, like other registers.
        """
        chained = {source.resource, destination.resource}
        lines = stack_refill(self.instructions, self.instance)
        for operand in self.instance.variant.operands:
            base = operand.memory.base if operand.memory else ""
            pushed = base == "RSP" and operand.written
            if family(base) in self.effects.writes - chained - unfinished.restored and not pushed:
                lines += self._break(unfinished, family(base))
                unfinished.restored.add(family(base))
        return lines

    def _breakers(self, unfinished: UnfinishedChain, source: Place | None) -> list[Line]:
        """Return the lines that cut all dependencies but the chain's own.

        Where the chain goes through the address, stores come before the link that changes it: the next load must not
        wait for their address.
        """
        lines: list[Line] = []
        kept = source.resource if source else ""
        for name in sorted(self.effects.writes - STATUS_FLAGS - _UNTRACKED - unfinished.restored - {kept}):
            found = self._break(unfinished, name)
            lines += found
            if not found and name in self.effects.inputs:
                unfinished.isolated = False
        stores = self._memory_breakers(unfinished, source)
        if source and source.node == "ADDR" and unfinished.last_link:
            unfinished.lines[unfinished.last_link - 1 : unfinished.last_link - 1] = stores
        else:
            lines += stores
        read = self.effects.inputs & STATUS_FLAGS
        flag = source.flag if source and source.flags else ""
        if (self.effects.writes & STATUS_FLAGS or unfinished.clobbers_flags or flag) and read - {flag}:
            scratch = unfinished.temporary("R64")
            lines += break_flags(self.instructions, read, flag, scratch)
        return lines + stack_balance(self.instructions, self.instance)

    def _break(self, unfinished: UnfinishedChain, name: str) -> list[Line]:
        """Return the lines that overwrite a register family (none: nothing does)."""
        if name in harness_registers():
            copy = unfinished.temporary("R64")
            unfinished.copies[copy] = name
            return [restore_address(self.instructions, name, copy)]
        if name == "ST(0)":
            return break_stack(self.instructions)
        register = self._name_in_instance(name)
        line = break_register_of(
            self.instructions, self.instance, register, general_value(self.instance, self.values, name)
        )
        return [line] if line else []

    def _memory_breakers(self, unfinished: UnfinishedChain, source: Place | None) -> list[Line]:
        """Return stores over memory that is read and written, unless it is part of the chain."""
        lines = []
        chained = self._address_of(source) if source and source.part is LatencyPart.MEMORY else None
        for address, bits in memory_widths(self.instance).items():
            if address == chained:
                continue
            line = break_memory(self.instructions, bits, address)
            if line is None:
                unfinished.isolated = False
            else:
                lines.append(line)
        return lines

    def _name_in_instance(self, name: str) -> str:
        """Return a register name of that family (general purpose registers: the full one)."""
        return part(name, 64) if register_class(name) == "GPR" else name


def _pad_like(links: Sequence[Link], node: str) -> Link:
    """Return a pad for a place, of the same kind as the links there are."""
    candidates = pads(node)
    names = {link.name for link in links}
    return next((pad for pad in candidates if pad.name in names), candidates[0])
