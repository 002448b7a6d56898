"""A simulated machine: its widths and queues, and the behaviour of each instruction variant."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import translate
from typing import TYPE_CHECKING, Any, Self

from results.machine.constants import NO_LIMIT
from results.machine.graph import Behaviour, ModelError, Uop, with_index
from simulator.machines.graph_rules import GraphRule, amend
from simulator.machines.noise import EXACT, CounterNoise
from simulator.machines.truth import Truth, truth_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from results.machine.constants import CoreConstants, LoadQueue
    from simulator.machines.bypass import BypassDelays
    from simulator.machines.late_rules import LateRule
    from simulator.memory.parameters import MemoryParameters
    from xed_convert.model import InstructionVariant


class Binding(StrEnum):
    """When and how a µop is bound to one of its ports (`simulator.core.binding` has the rules)."""

    FEWEST_WAITING = "fewest"
    """At issue, to the port with the fewest µops waiting; of equals, to the one that was bound longest ago."""
    LOWEST = "lowest"
    """At issue, to the port with the fewest µops waiting; of equals, to the lowest."""
    DISPATCH = "dispatch"
    """When it is dispatched: the oldest ready µop first, to the lowest of its ports that is free."""
    INTEL = "intel"
    """At issue, as published for Intel's cores: by the µops that waited a cycle ago and the slot; loads take turns."""
    INTEL_6 = "intel-6"
    """The same for Intel's cores with six ports: Sandy Bridge and Ivy Bridge."""
    INTEL_10 = "intel-10"
    """The same for Intel's cores with ten ports: Ice Lake and its like."""


@dataclass(frozen=True, slots=True)
class PortSchedulers:
    """Which ports share a scheduler (`results.machine.constants.IntegerSchedulers`).

    `mates` are all ports of a port's scheduler, `computing` those that take one µop of a group. A group has `slots`.
    """

    mates: Mapping[int, tuple[int, ...]]
    computing: frozenset[int]
    per_group: int
    step: int
    slots: int


@dataclass(frozen=True, slots=True)
class Parameters:
    """How wide and deep a core is: µops per cycle at issue and retirement (fused domain), entries, and its rules.

    - `shared_counters`: groups of ports whose µops are counted together; every other port has its own counter.
    - `fusing`: mnemonics with which a following conditional jump can fuse.
    - `no_index`: ports that form no store address with an index register.
    - `noise`: errors of the counters.
    - `alternating`: groups of ports (separated by spaces) that µops with just these ports use by turns, under Intel's
      rules; `published`: the one of these rules that the core has.
    - `front`: the constants of the front end (None: there is nothing before issue).
    - `memory`: caches and store buffer (None: every load hits, and locations are the same if written alike).
    - `computing`: ports that neither load nor store.
    - `by_task`: µops are counted by `UopTask` as well (`simulator.machines.units`).
    - `elimination`: slots for eliminated moves of general-purpose and of vector registers, and moves per cycle.
    - `pipeline`: `cycles` and `all_overwritten` of `results.machine.constants.EliminationSlots` (None: taken slots are
      known at once).
    - `schedulers`: schedulers that µops are given to in groups (None: `binding` chooses all ports).
    - `results`: the numbers of the ports through which results of transfers come in.
    - `load_queue`: how many loads can be on their way (None: any number).
    - `whole_groups`: a cycle issues nothing while the scheduler has fewer free entries than a cycle has issue slots.
    - `merge_ports`: ports of the µop that merges high bytes ("": these are not renamed separately).
    - `bypass`: bypass delays between domains of vectors (None: there are none).
    - `late_rules`: instructions that take longer after some producers (`simulator.core.late_forms`).
    """

    issue_width: int
    retire_width: int
    reorder_buffer: int
    scheduler: int
    ports: str
    shared_counters: tuple[str, ...] = ()
    fusing: tuple[str, ...] = ()
    no_index: str = ""
    noise: CounterNoise = EXACT
    binding: Binding = Binding.FEWEST_WAITING
    alternating: str = ""
    published: Binding = Binding.INTEL
    front: CoreConstants | None = None
    memory: MemoryParameters | None = None
    computing: str = ""
    by_task: bool = False
    elimination: tuple[int, int, int] = (NO_LIMIT, NO_LIMIT, NO_LIMIT)
    pipeline: tuple[int, bool] | None = None
    load_queue: LoadQueue | None = None
    schedulers: PortSchedulers | None = None
    results: frozenset[int] = frozenset()
    whole_groups: bool = False
    merge_ports: str = ""
    bypass: BypassDelays | None = None
    late_rules: tuple[LateRule, ...] = ()

    @classmethod
    def of(cls, core: CoreConstants) -> Self:
        """Return the parameters of a microarchitecture."""
        of_memory = core.ports.load + core.ports.store_address + core.ports.store_data
        return cls(
            core.back_end.issue_width,
            core.back_end.retire_width,
            core.back_end.reorder_buffer,
            core.back_end.scheduler,
            core.ports.all,
            core.ports.shared_counters,
            core.fusion.mnemonics,
            core.ports.no_index,
            alternating=core.ports.alternating,
            published=Binding(core.ports.binding),
            computing="".join(port for port in core.ports.all if port not in of_memory),
            elimination=(core.elimination.general, core.elimination.vector, core.elimination.per_cycle),
            merge_ports=core.partial_registers.merge_ports,
        )

    @property
    def merging(self) -> tuple[int, ...]:
        """The numbers of the ports of the µop that merges high bytes."""
        return tuple(number for number, port in enumerate(self.ports) if port in self.merge_ports)

    @property
    def port_names(self) -> tuple[str, ...]:
        """The ports as results name them: by letters, or as the resources that letters stand for (`FP0`, `r1`)."""
        resources = self.front.ports.resources if self.front is not None else {}
        names = {letter: resource for resource, letter in resources.items()}
        return tuple(names.get(letter, letter) for letter in self.ports)

    @property
    def port_groups(self) -> tuple[str, ...]:
        """The groups of ports that counters can tell apart, in the order of their first port."""
        shared = {port: group for group in self.shared_counters for port in group}
        return tuple(dict.fromkeys(shared.get(port, port) for port in self.ports))


STAND_IN = Behaviour((Uop(frozenset(), 1, ()),), 1)
"""One µop without port, for instructions of a harness that a model lacks."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a model was made from, for people: one sentence, and its licence."""

    text: str
    licence: str


class MachineModel:
    """A simulated machine: parameters, and a behaviour per variant (found when first asked for)."""

    def __init__(
        self,
        name: str,
        parameters: Parameters,
        origin: Origin,
        lookup: Callable[[InstructionVariant], Behaviour | None],
        stand_ins: frozenset[str] = frozenset(),
    ) -> None:
        """Take name, parameters and origin of a machine; `lookup` returns the behaviour of a variant (None: none).

        `stand_ins` are mnemonics for which a stand-in is executed if they have no behaviour.
        """
        self.name, self.parameters, self.origin = name, parameters, origin
        self.lookup = lookup
        self._behaviours: dict[str, Behaviour | None] = {}
        self.stand_ins = stand_ins
        self.shortest: Callable[[], MachineModel] | None = None
        """Makes the machine with every latency that is an upper bound as short as it can be (None: none is)."""

    def with_parameters(self, **changes: Any) -> MachineModel:  # noqa: ANN401 - each parameter has its own type
        """Return the same machine with other values of `Parameters`."""
        parameters = replace(self.parameters, **changes)
        made = MachineModel(self.name, parameters, self.origin, self.lookup, self.stand_ins)
        return made.with_shortest_of(self, lambda one: one.with_parameters(**changes))

    def called(self, name: str) -> MachineModel:
        """Return the same machine under another name: a CPU has the model of another one."""
        return MachineModel(name, self.parameters, self.origin, self.lookup, self.stand_ins)

    def with_stand_ins(self, mnemonics: frozenset[str]) -> MachineModel:
        """Return the same machine with stand-ins for more mnemonics."""
        made = MachineModel(self.name, self.parameters, self.origin, self.lookup, self.stand_ins | mnemonics)
        return made.with_shortest_of(self, lambda one: one.with_stand_ins(mnemonics))

    def with_shortest_of(self, other: MachineModel, change: Callable[[MachineModel], MachineModel]) -> MachineModel:
        """Return this machine. It is another one after a change, and so is its shortest form of the other one's."""
        if (shortest := other.shortest) is not None:
            self.shortest = lambda: change(shortest())
        return self

    def changed(self, graphs: Mapping[str, str]) -> MachineModel:
        """Return a machine on which some variants are changed: by pattern (as in `graphs.tsv`) a graph or word.

        A µop without ports takes no issue slot, so that it can make one path of a µop longer:
        `{"TEST (R64, R64)": "p06 1 <* >PF >AF >ZF >SF >OF; - 1 <u1 >CF"}` has CF one cycle late.

        Raises (when such a variant is first asked for):
            ModelError: a graph is not in the notation of `simulator.machines.notation`, or does not fit the variant.
        """
        rules = [
            GraphRule(f"the changed {self.name}", re.compile(translate(pattern)), same_register=False, graph=graph)
            for pattern, graph in graphs.items()
        ]

        def lookup(variant: InstructionVariant) -> Behaviour | None:
            behaviour = self.behaviour(variant)
            for rule in rules:
                if rule.pattern.fullmatch(variant.string):
                    behaviour = amend(variant, behaviour, rule)
            return behaviour

        return MachineModel(self.name, self.parameters, self.origin, lookup, self.stand_ins)

    def executes(self, variant: InstructionVariant) -> Behaviour | None:
        """Return what the core executes: the variant's behaviour, or a stand-in (None: neither)."""
        found = self.behaviour(variant)
        return STAND_IN if found is None and variant.iclass in self.stand_ins else found

    def behaviour(self, variant: InstructionVariant) -> Behaviour | None:
        """Return the behaviour of a variant, None if the machine does not have it."""
        key = variant.string
        if key not in self._behaviours:
            self._behaviours[key] = self.lookup(variant)
        return self._behaviours[key]

    def truth(self, variant: InstructionVariant) -> Truth:
        """Return the right conclusions about a variant; for tests and benchmarks only.

        Raises:
            ModelError: the machine does not have the variant.
        """
        behaviour = self.behaviour(variant)
        if behaviour is None:
            raise ModelError(f"the model {self.name} has nothing about {variant.string}")
        truth = truth_of(variant, behaviour, self.parameters.issue_width)
        if behaviour.indexed is not None:
            return replace(truth, ports_indexed=behaviour.indexed.port_usage)
        explicit = [operand.index for operand in variant.operands if operand.explicit]
        uops = tuple(with_index(uop, explicit, self.parameters.no_index) for uop in behaviour.uops)
        return replace(truth, ports_indexed=replace(behaviour, uops=uops).port_usage)
