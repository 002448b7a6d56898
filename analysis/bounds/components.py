"""All bounds of a block: no component can do an iteration in fewer cycles than its bound.

The largest is the prediction, and its component is what limits the code. The method is that of Abel et al. ("Facile",
IISWC 2023). Here the bound of the ports is exact: any set of ports may be the busiest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from analysis.block.avx_transitions import transitions
from analysis.bounds.dependencies import Cycle, Node, graph_of, search_slowest, synchronizations
from analysis.bounds.front_end import (
    cache_bound,
    cached_of,
    decoders_bound,
    fetched_of,
    is_buffered,
    loop_buffer_bound,
    predecoder_bound,
)
from analysis.errors import AnalysisError
from analysis.memory.addresses import AddressFollower, Followed
from results.ports import fullest
from simulator.core.compiler import TICKS

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from analysis.block.code import Block, Item
    from analysis.memory.environment import Environment
    from results.machine.constants import CoreConstants
    from simulator.core.compiler import LocatedUop
    from simulator.core.delivery import Fetched
    from simulator.instructions.transfers import Written
    from simulator.machines.machine import MachineModel


class Component(StrEnum):
    """What can limit code."""

    PREDECODER = "predecoder"
    DECODERS = "decoders"
    UOP_CACHE = "µop cache"
    LOOP_BUFFER = "loop buffer"
    ISSUE = "issue"
    PORTS = "ports"
    DEPENDENCIES = "dependencies"
    STORES = "stores"
    DIVIDER = "divider"
    UNIT = "unit"
    TRANSITIONS = "AVX transitions"


NEW_ADDRESSES = "lines under another address"
"""What occupies the core while a line is reached under an address that was not used before."""

LINES_BESIDE_PAGE = 4
"""Lines of a new page that take time beside it. Measured on a Zen 4: loads 4,096 bytes apart take 13.5 cycles, those
2,048 bytes apart 18.5 per page, 1,024 bytes 21, 512 bytes 23, and 320 bytes 2 per line."""


class Running(StrEnum):
    """How code runs: copies in a row, or a loop; AUTO: as a loop if it ends with a jump back."""

    AUTO = "auto"
    UNROLLED = "unrolled"
    LOOP = "loop"


@dataclass(frozen=True)
class Bounds:
    """What each component takes for an iteration at least, in core cycles.

    `full` are the ports that set the bound of the ports, `full_uops` how many µops per iteration can use no others.
    `cycle` is the slowest dependency cycle of `nodes` (None: iterations do not depend on each other). If not all was
    `searched`, there may be a slower one.
    `port_masks` has the µops by the ports that they can use: bits, by the position of a port in `port_names`.
    `unit` is the unit that sets the bound of the units ("": there is none): an instruction's own, or a shared one.
    `followed` is what came out of following the block's addresses.
    """

    block: Block
    running: Running
    cycles_of: dict[Component, Fraction]
    full: frozenset[str] = frozenset()
    full_uops: int = 0
    nodes: Sequence[Node] = field(default=(), repr=False)
    cycle: Cycle | None = None
    port_masks: Mapping[int, int] = field(default_factory=dict, repr=False)
    port_names: tuple[str, ...] = ()
    searched: bool = True
    unit: str = ""
    followed: Followed = field(default=Followed(), repr=False)

    @cached_property
    def cycles(self) -> Fraction:
        """The prediction: core cycles per iteration."""
        return max(self.cycles_of.values(), default=Fraction(0))

    def without(self, lifted: Container[Component]) -> Fraction:
        """Return the largest bound of the other components."""
        return max((cycles for one, cycles in self.cycles_of.items() if one not in lifted), default=Fraction(0))

    @property
    def limits(self) -> list[Component]:
        """The components whose bound is the prediction."""
        return [one for one, cycles in self.cycles_of.items() if cycles == self.cycles]


class Analyzer:
    """Works out bounds on one machine."""

    def __init__(self, machine: MachineModel, environment: Environment | None = None) -> None:
        """Take the machine, and what registers and memory hold in the beginning (None: anything)."""
        self.machine = machine
        self.core = machine.parameters.front
        self.follower = AddressFollower(environment, self.core)
        self.code_offset = environment.code_offset if environment is not None else 0

    def bounds(self, block: Block, running: Running = Running.AUTO) -> Bounds:
        """Return the bounds of a block.

        Raises:
            AnalysisError: a block that jumps back is to run unrolled.
        """
        if running is Running.UNROLLED and block.is_loop:
            raise AnalysisError("code that ends with a jump back cannot run unrolled", hint="leave out the jump")
        loop = running is Running.LOOP or (running is Running.AUTO and block.is_loop)
        followed = self.follower.follow(block.items, int(loop))
        nodes = graph_of(block, followed.forwardings, self.core)
        search = search_slowest(nodes)
        counts = block.uops_by_ports
        port_cycles, full = fullest(counts)
        units = self._units(block, followed)
        unit = max(units, key=units.__getitem__, default="")
        found = self._front_end(block, loop=loop) | self._back_end(block, followed)
        if unit:
            found[Component.UNIT] = units[unit]
        found[Component.PORTS] = port_cycles
        found[Component.DEPENDENCIES] = search.cycle.ratio if search.cycle is not None else Fraction(0)
        names = self.machine.parameters.port_names
        return Bounds(
            block,
            Running.LOOP if loop else Running.UNROLLED,
            found,
            full=frozenset(name for number, name in enumerate(names) if full >> number & 1),
            full_uops=sum(count for mask, count in counts.items() if not mask & ~full),
            nodes=nodes,
            cycle=search.cycle,
            port_masks=counts,
            port_names=names,
            searched=search.complete,
            unit=unit,
            followed=followed,
        )

    def _front_end(self, block: Block, *, loop: bool) -> dict[Component, Fraction]:
        """Return the bounds of the parts of the front end that the code comes from."""
        core = self.core
        if core is None or core.front_end is None:
            return {}
        items = fetched_of(block)
        if loop and is_buffered(items, core):
            return {Component.LOOP_BUFFER: loop_buffer_bound(_uops(items), core)}
        cached = cached_of(items, core) if loop else []
        from_cache = cache_bound(block, cached, core)
        if len(cached) == len(items):
            return {Component.UOP_CACHE: from_cache}
        # Only one of the two delivers at a time
        left = Fraction(block.size_bytes - sum(item.size_bytes for item in cached), block.size_bytes)
        predecoder = predecoder_bound(block, core.front_end, loop=loop, begin=self.code_offset) * left
        decoders = decoders_bound(items, core.front_end, core.microcode) * left
        clusters = core.front_end.clusters  # by turns, none has less than its share
        return {
            Component.PREDECODER: from_cache + predecoder / clusters,
            Component.DECODERS: from_cache + decoders / clusters,
        }

    def _back_end(self, block: Block, followed: Followed) -> dict[Component, Fraction]:
        """Return the bounds of issue, stores, AVX transitions and divider."""
        found = {Component.ISSUE: issue_bound(block, self.machine.parameters.issue_width, self.core)}
        if followed.commit_cycles:
            found[Component.STORES] = followed.commit_cycles
        if mixed := transition_cycles(self.core, block):
            found[Component.TRANSITIONS] = Fraction(sum(mixed.values()))
        if divider := sum(item.effects.divider_cycles for item in block.items):
            found[Component.DIVIDER] = Fraction(divider)
        return found

    def _units(self, block: Block, followed: Followed) -> dict[str, Fraction]:
        """Return for how many cycles each unit is busy: those of single variants, and those that several share."""
        units: dict[str, Fraction] = {}
        for item in block.items:
            if item.effects.occupies:
                unit = item.effects.unit or item.name
                units[unit] = units.get(unit, Fraction(0)) + item.effects.occupies
            for name, cycles in _data_paths(item) if block.is_wide else ():
                units[name] = units.get(name, Fraction(0)) + cycles
        for name, cycles in forwarding_units(self.core, followed).values():
            units[name] = units.get(name, Fraction(0)) + cycles
        units |= {name: max(cycles, units[name]) for name, cycles in self._transferred(block).items()}
        if new := new_address_cycles(self.core, followed):
            units[NEW_ADDRESSES] = new
        return units

    def _transferred(self, block: Block) -> dict[str, Fraction]:
        """Return for how many cycles a port writes results, by the unit of the transfers that come in through it.

        If all other µops that write such results there have the same ports, and nothing loads or stores, they are
        spread evenly over these. Else they can avoid the port, and are left out. So are pairs that fuse.
        """
        if self.core is None or self.core.transfers is None:
            return {}
        pairs = {position + behind for position, fused in enumerate(block.fused) if fused for behind in (0, 1)}
        alone = [item.compiled for position, item in enumerate(block.items) if position not in pairs]
        known = [one for one in alone if one is not None and not one.eliminated_share[0]]
        came: dict[tuple[str, int, Written], Fraction] = {}
        for one in known:
            if one.arrival is not None:
                key = (one.unit, *one.arrival)
                came[key] = came.get(key, Fraction(0)) + Fraction(one.unit_ticks, TICKS)
        in_memory = any(item.effects.loads or item.effects.stores for item in block.items)
        uops = [] if in_memory else [uop for one in known for uop in one.uops or ()]
        found: dict[str, Fraction] = {}
        for (unit, port, what), cycles in came.items():
            found[unit] = max(found.get(unit, Fraction(0)), cycles + _even_share(uops, port, what))
        return found


def _even_share(uops: Iterable[LocatedUop], port: int, what: Written) -> Fraction:
    """Return how many µops that write a kind of result a port has, 0 if not all such µops have the same ports."""
    ports = Counter(uop.ports for uop in uops if port in uop.ports and uop.written & what)
    return sum((Fraction(n, len(alike)) for alike, n in ports.items()), Fraction(0)) if len(ports) == 1 else Fraction(0)


def issue_bound(block: Block, width: int, core: CoreConstants | None) -> Fraction:
    """Return the core cycles in which the µops of an iteration can be issued.

    A µop that merges a high byte is issued alone: those between two of them take whole cycles.
    """
    has_own_slots = core is not None and core.updates_for_values  # those of the instructions contain the µop
    synchronized = set() if has_own_slots else synchronizations(block, core)
    groups = [0]
    for position, (item, fused) in enumerate(zip(block.items, block.fused, strict=True)):
        groups += [0] * len(item.effects.merged)
        groups[-1] += item.effects.slots - fused + (position in synchronized)
    if len(groups) == 1:
        return Fraction(groups[0], width)
    groups[0] += groups.pop()  # the next iteration goes on
    return Fraction(sum(-(-slots // width) + 1 for slots in groups))


def forwarding_units(core: CoreConstants | None, followed: Followed) -> dict[int, tuple[str, Fraction]]:
    """Return for each store that is forwarded the cycles for which it occupies the forwarding unit, by its position."""
    if core is None or not core.memory.forwarding_cycles:
        return {}
    cycles = Fraction(core.memory.forwarding_cycles)
    return {one.store: ("forwarding", cycles) for one in followed.forwardings if one.whole}


def new_address_cycles(core: CoreConstants | None, followed: Followed) -> Fraction:
    """Return the core cycles per iteration for lines and pages that are reached under new addresses.

    One physical page stands for all. Lines count beside the page's own cycles until those are over.
    """
    if core is None or not core.memory.alias_cycles:
        return Fraction(0)
    lines = followed.reached.lines * core.memory.alias_cycles
    pages = followed.reached.pages * core.memory.alias_page_cycles
    beside = min(lines, followed.reached.pages * core.memory.alias_cycles * LINES_BESIDE_PAGE)
    early = followed.reached.early
    loads = early.loads * Fraction(str(core.memory.alias_load_cycles))
    return max(lines, pages + beside, loads + early.stores * core.memory.alias_store_cycles)


def transition_cycles(core: CoreConstants | None, block: Block) -> dict[int, int]:
    """Return the cycles of the transitions between AVX and legacy SSE instructions, by position."""
    cycles = core.transitions.cycles if core is not None and core.transitions is not None else 0
    return dict.fromkeys(transitions(block.items), cycles) if cycles else {}


def _data_paths(item: Item) -> Iterator[tuple[str, Fraction]]:
    """Yield the cycles for which an instruction occupies the data paths of loads and of stores."""
    for name, ticks in item.compiled.data_paths if item.compiled is not None else ():
        yield name, Fraction(ticks, TICKS)


def _uops(items: Sequence[Fetched]) -> int:
    return sum(item.uops for item in items)
