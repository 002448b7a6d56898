"""Puts the µops of one graph together, such that the longest path between two operands is the measured latency.

- **The chain**: computing µops stand one after another, those with the fewest ports first, as many as the least
  latency of a result has cycles. The first takes what the others, of one cycle each, leave. µops beyond that stand
  beside the chain. A result that comes later than another one comes out of the chain with a delay.
- **Loads** come before the chain. But if a result is quicker than any load, a load brings only those that are not.
- **What enters the chain** are the operands that all its results depend on. A source whose latencies are longer than
  those of another one enters with a delay; an address enters through the loads.
- **Delays** are µops without ports that take no issue slot. Where the path through the chain is shorter than a measured
  latency, a delay leads from the source to the result beside it. So every measured pair comes out exactly, and a pair
  that was not measured does not come up.
- **Stack pointer and string addresses** are moved at rename, at no cost, unless a latency says otherwise.
- **A loaded register** whose ports and latency are not known is there when a plain load could bring it, and no sooner.
  LEAVE loads RBP from where it points, and makes RSP out of it by an addition (Intel SDM volume 2A).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from results.machine.graph import (
    ADDRESS_PARTS,
    Endpoint,
    Uop,
    UopKind,
    address_inputs,
    address_updates,
    is_memory_result,
    tracked,
    value_inputs,
    value_outputs,
)
from results.machine.latencies import overlap_cycles, shortened
from results.machine.roles import roles_of
from results.model import LatencyPart

if TYPE_CHECKING:
    from results.machine.constants import CoreConstants
    from results.machine.latencies import Latencies
    from results.model import PortUsage
    from xed_convert.model import InstructionVariant


STACK_POINTER = ("RSP",)
"""The registers of an operand that is the stack pointer."""


class GraphBuilder:
    """Puts the µops of one graph together.

    `stages` says for each result how many cycles after the start of the chain it comes.
    """

    def __init__(
        self, variant: InstructionVariant, core: CoreConstants, latencies: Latencies, usage: PortUsage | None
    ) -> None:
        """Take what must come out: the latencies, and the ports of the µops (None: not known)."""
        self.variant, self.core, self.latencies = variant, core, latencies
        self.uops: list[Uop] = []
        self.read = variant.read_memory
        self.written = [o for o in variant.operands if is_memory_result(o)]
        self.overlap = overlap_cycles(variant, core)
        self.roles = roles_of(usage, core, reads=bool(self.read), writes=len(self.written))
        places = [Endpoint(o.index, LatencyPart.MEMORY) for o in self.written]
        known = {end for _, end in latencies}
        self.loaded = self._loaded_register()
        free = {one for one in address_updates(variant) if one not in known and one != self.loaded}
        self.results = [*(one for one in value_outputs(variant) if one not in free), *places]
        self.stages = self._stages()
        self.base = self._base()
        self.common = self._common()

    def build(self) -> tuple[Uop, ...]:
        """Return the µops."""
        if self.roles.total:
            entered = [*self._values(), *self._loads()]
            last = self._chain(entered)
            self._outputs(last)
            self._stores(last)
        self._beside()
        if self.loaded is not None:
            self._bring(self.loaded)
        written = {end for uop in self.uops for end in uop.outputs}
        rest = tuple(end for end in self.results if end not in written)
        if rest or not self.uops:
            self._delay(0, () if self.results else value_inputs(self.variant), rest)
        return tuple(self.uops)

    def _loaded_register(self) -> Endpoint | None:
        """Return the register that a load brings, None if more is known of it, or if there is not just one."""
        written = [o for o in self.variant.operands if tracked(o) and (o.written or o.conditional_write)]
        written = [o for o in written if o.registers != STACK_POINTER]
        if self.roles.total or self.written or len(self.read) != 1 or len(written) != 1:
            return None
        end = Endpoint(written[0].index)
        is_known = any(target == end and source.part is not LatencyPart.MEMORY for source, target in self.latencies)
        return None if is_known else end

    def _bring(self, loaded: Endpoint) -> None:
        """Let a register come as late as a plain load brings it, and out of it the stack pointer."""
        (operand,) = self.read
        address, place = address_inputs(operand), Endpoint(operand.index, LatencyPart.MEMORY)
        self._delay(self._load_cycles(), address, (loaded,))
        if self.core.memory_renaming is not None and (place, loaded) not in self.latencies:
            self._delay(0, (place,), (loaded,))
        known = {end for _, end in self.latencies}
        moved = tuple(Endpoint(o.index) for o in self.variant.operands if o.written and o.registers == STACK_POINTER)
        if added := tuple(end for end in moved if end in self.results and end not in known):
            self._delay(1, address, added)

    def _add(self, uop: Uop) -> int:
        self.uops.append(uop)
        return len(self.uops) - 1

    def _delay(self, cycles: int, inputs: tuple[Endpoint | int, ...], outputs: tuple[Endpoint, ...] = ()) -> int:
        """Append a µop of `cycles` cycles without a port."""
        return self._add(Uop(frozenset(), cycles, inputs, outputs))

    def _stages(self) -> dict[Endpoint, int]:
        """Return the least latency of each result from a register or flag; from an address it is less by a load."""
        found: dict[Endpoint, int] = {}
        for end in self.results:
            values = [c for (s, e), c in self.latencies.items() if e == end and s.part is LatencyPart.NONE]
            addresses = [c for (s, e), c in self.latencies.items() if e == end and s.part in ADDRESS_PARTS]
            if values and not self._only_loads:
                found[end] = min(values)
            elif addresses:
                found[end] = min(addresses) if self._only_loads else max(1, min(addresses) - self._natural())
        least = min(found.values(), default=1)
        if self._only_loads:
            return {end: found.get(end, least) - least for end in self.results}
        return {end: found.get(end, least) for end in self.results}

    @property
    def _only_loads(self) -> bool:
        """Whether results come straight out of loads."""
        return bool(self.roles.loads) and not self.roles.compute and not self.roles.store_data

    def _natural(self, number: int = 0) -> int:
        """Return the cycles of a load where nothing else is known (0: there is none)."""
        return self._load_cycles(number) if self.roles.loads and self.read else 0

    def _load_cycles(self, number: int = 0) -> int:
        """Return the cycles of a plain load."""
        width = self.read[min(number, len(self.read) - 1)].width_bits or 64
        narrow, middle, wide = self.core.memory.load_latency
        return narrow if width <= 64 else middle if width <= 128 else wide

    def _base(self) -> int:
        """Return for how many cycles µops compute before the first result, or the data of a store, is there."""
        if not self.roles.compute:
            return 0
        stored = [max(0, cycles - 1) for end, cycles in self.stages.items() if self._is_stored(end)]
        others = [cycles for end, cycles in self.stages.items() if not self._is_stored(end)]
        return min([*stored, *others], default=1)

    def _is_stored(self, end: Endpoint) -> bool:
        return end.part is LatencyPart.MEMORY and bool(self.roles.store_data)

    def _common(self) -> list[Endpoint]:
        """Return the sources that enter the chain: no result is known to be independent of them, or quicker."""
        known = [end for end in self.results if any(e == end for _, e in self.latencies)]
        sources = dict.fromkeys(s for s, _ in self.latencies)
        return [
            source
            for source in sources
            if all((source, end) in self.latencies for end in known)
            and self._delay_of(source) >= (1 if source.part in ADDRESS_PARTS and self.roles.loads else 0)
        ]

    def _delay_of(self, source: Endpoint) -> int:
        """Return how many cycles before the start of the chain a source has to be there."""
        return min(cycles - self.stages[end] for (s, end), cycles in self.latencies.items() if s == source)

    def _values(self) -> list[Endpoint | int]:
        """Add the delays of what enters the chain by other ways than an address."""
        found: list[Endpoint | int] = []
        for source in self.common:
            if source.part in ADDRESS_PARTS and self.roles.loads and self._is_read(source):
                continue
            cycles = self._delay_of(source)
            found.append(self._delay(cycles, (source,)) if cycles else source)
        return found

    def _is_read(self, source: Endpoint) -> bool:
        return any(operand.index == source.operand for operand in self.read)

    def _loads(self) -> list[int]:
        """Add the loads, and return those that the chain waits for: not if it is known to be quicker."""
        known = {source for source, _ in self.latencies}
        waited: list[int] = []
        for number, ports in enumerate(self.roles.loads):
            operand = self.read[min(number, len(self.read) - 1)]
            parts = address_inputs(operand)
            entering = {part: self._delay_of(part) for part in parts if part in self.common}
            latency = min(entering.values(), default=self._natural(number))
            inputs: list[Endpoint | int] = [part for part in parts if part not in known]
            for part, cycles in entering.items():
                inputs.append(self._delay(cycles - latency, (part,)) if cycles > latency else part)
            place = Endpoint(operand.index, LatencyPart.MEMORY)
            if place not in known and self.overlap:
                waited.append(self._delay(shortened(latency, self.overlap), (place,)))
            elif place not in known:
                inputs.append(place)
            load = self._add(Uop(ports, max(1, latency), tuple(inputs), kind=UopKind.LOAD))
            if self._is_quicker_than(latency) and not entering and place not in known:
                loaded = tuple(end for end in self.results if self.stages[end] >= latency)
                self.uops[load] = replace(self.uops[load], outputs=loaded)
            elif inputs or not parts or place not in known:
                waited.append(load)
        return waited

    def _is_quicker_than(self, load_cycles: int) -> bool:
        """Whether a result is known to come before a load could bring it, and another one is not (LEAVE: RSP, RBP)."""
        known = [self.stages[end] for end in self.results if any(end == target for _, target in self.latencies)]
        return len(known) > 1 and min(known) < load_cycles <= max(known)

    def _chain(self, entered: list[Endpoint | int]) -> tuple[Endpoint | int, ...]:
        """Add the computing µops; return what their result is."""
        length = max(1, min(len(self.roles.compute), self.base))
        inputs: tuple[Endpoint | int, ...] = tuple(entered)
        for number, ports in enumerate(self.roles.compute[:length]):
            latency = max(0, self.base - (length - 1)) if number == 0 else 1
            inputs = (self._add(Uop(ports, latency, inputs)),)
        for ports in self.roles.compute[length:]:
            self._add(Uop(ports, 1, tuple(entered)))
        return inputs

    def _outputs(self, last: tuple[Endpoint | int, ...]) -> None:
        """Let the results come out of the chain, each after its delay; those in memory are stored."""
        later: dict[int, list[Endpoint]] = {}
        for end in self.results:
            if not self._is_stored(end):
                later.setdefault(self.stages[end] - self.base, []).append(end)
        for cycles, ends in later.items():
            only = last[0] if len(last) == 1 else None
            if not cycles and isinstance(only, int):
                self.uops[only] = replace(self.uops[only], outputs=tuple(ends))
            else:
                self._delay(cycles, last, tuple(ends))

    def _stores(self, last: tuple[Endpoint | int, ...]) -> None:
        """Add a data µop and an address µop per store; a load of the place waits for both."""
        for number, ports in enumerate(self.roles.store_data):
            operand = self.written[min(number, len(self.written) - 1)]
            place = Endpoint(operand.index, LatencyPart.MEMORY)
            if number < len(self.roles.store_addresses):
                sets = self.roles.store_addresses[number]
                self._add(Uop(sets, 1, address_inputs(operand), (place,), UopKind.STORE_ADDRESS))
            cycles = max(1, self.stages[place] - self.base)
            self._add(Uop(ports, cycles, last, (place,), UopKind.STORE_DATA))

    def _beside(self) -> None:
        """Add the latencies that the chain does not give: longer ones, and those of sources that do not enter it."""
        for (source, end), cycles in self.latencies.items():
            chained = self.roles.total and source in self.common
            if not chained or self._delay_of(source) + self.stages[end] < cycles:
                self._delay(cycles, (source,), (end,))
