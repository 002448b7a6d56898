"""Machine models: what a simulated core does with each instruction variant, and how wide and deep it is.

A model is a TOML file in `simulator/models/` (how wide, how deep, which ports, where it comes from), a compressed
table of scheduling facts (`convert_llvm.py` makes it from LLVM's models), and the rows of `graphs.tsv` that hold for
it: facts of the paper and of manuals that no scheduling model has. All of it is a model, nothing was measured here.
"""

from __future__ import annotations

import functools
import lzma
import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import translate
from importlib import resources
from typing import TYPE_CHECKING, Any

from results.model import PORT_LETTERS
from simulator.machines.graph import Behaviour, ModelError, Uop, parse_graph, value_outputs, with_index
from simulator.machines.noise import EXACT, CounterNoise
from simulator.machines.structure import Facts, behaviour_of
from simulator.machines.truth import Truth, truth_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from importlib.resources.abc import Traversable

    from xed_convert.model import InstructionVariant

CPU_ORDER = ("NHM", "WSM", "SNB", "IVB", "HSW", "BDW", "SKL", "SKX", "ICX", "ADL-P", "SPR")
"""In order of appearance, for ranges such as `IVB..` in tables."""


class Binding(StrEnum):
    """When and how a µop is bound to one of its ports (`simulator.core.binding` has the rules)."""

    FEWEST_WAITING = "fewest"
    """At issue, to the port with the fewest µops waiting; of equals, to the one that was bound longest ago."""
    LOWEST = "lowest"
    """At issue, to the port with the fewest µops waiting; of equals, to the lowest."""
    DISPATCH = "dispatch"
    """When it is dispatched: the oldest ready µop first, to the lowest of its ports that is free."""
    INTEL = "intel"
    """At issue, as published for Intel's cores: by what waited a cycle ago and by issue slot; loads take turns."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """How wide and deep a core is: µops per cycle at issue and retirement (fused domain), entries, counters.

    `shared_counters` are the groups of ports whose µops are counted together; every other port has its own counter.
    `no_index` are the ports that form no store address with an index register, `fusing` the mnemonics that a following
    conditional jump can fuse with. `noise` is how far counters are off. `alternating` are the ports that µops with
    just these ports take by turns under Intel's rule.
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

    @property
    def port_groups(self) -> tuple[str, ...]:
        """The groups of ports that counters can tell apart, in the order of their first port."""
        shared = {port: group for group in self.shared_counters for port in group}
        return tuple(dict.fromkeys(shared.get(port, port) for port in self.ports))


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
    ) -> None:
        """Keep what describes the machine; `lookup` says what it does with a variant (None: it has none of it)."""
        self.name, self.parameters, self.origin = name, parameters, origin
        self.lookup = lookup
        self._behaviours: dict[str, Behaviour | None] = {}

    @classmethod
    def load(cls, name: str) -> MachineModel:
        """Load a model that is shipped.

        Raises:
            ModelError: there is no such model, or its files are not as they should be.
        """
        return _load(name)

    def with_parameters(self, **changes: Any) -> MachineModel:  # noqa: ANN401 - each parameter has its own type
        """Return the same machine with other values of `Parameters`."""
        return MachineModel(self.name, replace(self.parameters, **changes), self.origin, self.lookup)

    def changed(self, graphs: Mapping[str, str]) -> MachineModel:
        """Return a machine on which some variants are otherwise: by pattern (as in `graphs.tsv`) a graph or word.

        A µop without ports takes no issue slot, so that it can make one path of a µop longer:
        `{"TEST (R64, R64)": "p06 1 <* >PF >AF >ZF >SF >OF; - 1 <u1 >CF"}` has CF one cycle late.

        Raises (when such a variant is first asked for):
            ModelError: a graph is not in the notation of `simulator.machines.graph`, or does not fit the variant.
        """
        rows = [
            GraphRule(f"the changed {self.name}", re.compile(translate(pattern)), same_register=False, graph=graph)
            for pattern, graph in graphs.items()
        ]

        def lookup(variant: InstructionVariant) -> Behaviour | None:
            behaviour = self.behaviour(variant)
            for row in rows:
                if row.pattern.fullmatch(variant.string):
                    behaviour = _amend(variant, behaviour, row)
            return behaviour

        return MachineModel(self.name, self.parameters, self.origin, lookup)

    def behaviour(self, variant: InstructionVariant) -> Behaviour | None:
        """Return what the machine does with a variant, None if it does not have it."""
        key = variant.string
        if key not in self._behaviours:
            self._behaviours[key] = self.lookup(variant)
        return self._behaviours[key]

    def truth(self, variant: InstructionVariant) -> Truth:
        """Return what inference ought to find for a variant; for tests only.

        Raises:
            ModelError: the machine does not have the variant.
        """
        behaviour = self.behaviour(variant)
        if behaviour is None:
            raise ModelError(f"the model {self.name} has nothing about {variant.string}")
        truth = truth_of(variant, behaviour, self.parameters.issue_width)
        explicit = [operand.index for operand in variant.operands if operand.explicit]
        uops = tuple(with_index(uop, explicit, self.parameters.no_index) for uop in behaviour.uops)
        return replace(truth, ports_indexed=replace(behaviour, uops=uops).port_usage)


def names() -> list[str]:
    """Return the names of the models that are shipped."""
    folder = resources.files("simulator") / "models"
    found = [entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")]
    return sorted(found, key=lambda name: (CPU_ORDER.index(name) if name in CPU_ORDER else 99, name))


@functools.lru_cache(maxsize=16)
def _load(name: str) -> MachineModel:
    folder = resources.files("simulator") / "models"
    path = folder / f"{name}.toml"
    if not re.fullmatch(r"[A-Za-z0-9-]+", name) or not path.is_file():
        raise ModelError(f"there is no machine model {name!r}", hint=f"models: {', '.join(names())}")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        parameters = _parameters(table["parameters"])
        origin = Origin(table["origin"]["text"], table["origin"]["licence"])
        facts_file, chip = table["facts"]["file"], table["facts"]["chip"]
        ports = table["facts"].get("ports", {})
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise ModelError(f"{name}.toml: not a machine model: {error}") from error
    shipped = ShippedModel(folder, name, facts_file, chip, ports)
    return MachineModel(name, parameters, origin, shipped.behaviour)


def _parameters(table: dict[str, Any]) -> Parameters:
    lists = {key: tuple(value) for key, value in table.items() if isinstance(value, list)}
    return Parameters(**(table | lists))


@dataclass(frozen=True, slots=True)
class GraphRule:
    """A row of `graphs.tsv`: which variants of which CPUs, when, and the graph."""

    where: str
    pattern: re.Pattern[str]
    same_register: bool
    graph: str


class ShippedModel:
    """The behaviours of a model out of its files.

    `ports` renames port sets ("23" -> "2" for loads, "23w" for stores).
    """

    def __init__(self, folder: Traversable, name: str, facts_file: str, chip: str, ports: Mapping[str, str]) -> None:
        """Read the tables; facts of variants are split only when asked for."""
        self.name, self.ports = name, ports
        self.facts = _read_facts(folder / facts_file)
        self.isa_sets = read_isa_sets().get(chip, frozenset())
        self.rows = [row for cpus, row in read_rows() if name in cpus]

    def behaviour(self, variant: InstructionVariant) -> Behaviour | None:
        """Return the behaviour of a variant, None if the CPU does not have it or the model nothing about it."""
        if variant.isa_set not in self.isa_sets:
            return None
        rows = [
            row for row in self.rows if row.pattern.fullmatch(variant.string) or row.pattern.fullmatch(variant.iform)
        ]
        line = self._line(variant)
        behaviour = behaviour_of(variant, self._renamed(parse_facts(line), variant)) if line is not None else None
        for row in rows:
            behaviour = _amend(variant, behaviour, row)
        return behaviour

    def _line(self, variant: InstructionVariant) -> str | None:
        """Find a variant's facts: by its string, else by iform and operands, if these name only one."""
        line = self.facts.get(variant.string)
        if line is not None:
            return line
        operands = variant.string.partition(" ")[2]
        same = [string for string in self._by_iform[variant.iform] if string.partition(" ")[2] == operands]
        return self.facts[same[0]] if len(same) == 1 else None

    @functools.cached_property
    def _by_iform(self) -> defaultdict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for string, line in self.facts.items():
            found[line[: line.index("\t")]].append(string)
        return found

    def _renamed(self, facts: Facts, variant: InstructionVariant) -> Facts:
        """Rename port sets where the model borrows the facts of another CPU."""
        if not self.ports:
            return facts
        writes = any(o.written and o.memory is not None for o in variant.operands)
        stores = 1 if writes else 0
        renamed: list[frozenset[str]] = []
        for ports in facts.ports:
            name = "".join(sorted(ports, key=PORT_LETTERS.index))
            store = name == "23" and stores > 0
            stores -= store
            renamed.append(frozenset(self.ports.get(name + ("w" if store else ""), name)))
        return replace(facts, ports=tuple(renamed))


def _amend(variant: InstructionVariant, behaviour: Behaviour | None, row: GraphRule) -> Behaviour | None:
    """Apply a row: a graph of its own, or one of the words `zero`, `break`, `eliminate` about the model's graph."""
    word, _, share = row.graph.partition(" ")
    if word == "eliminate" and behaviour is not None:
        part, _, whole = (share or "1/1").partition("/")
        return replace(behaviour, eliminated_share=(int(part), int(whole)))
    if word == "zero":
        changed = Behaviour((Uop(frozenset(), 0, (), value_outputs(variant)),), 1)
    elif word == "break":
        if behaviour is None:
            return None
        kept = tuple(replace(u, inputs=tuple(i for i in u.inputs if isinstance(i, int))) for u in behaviour.uops)
        changed = replace(behaviour, uops=kept, same_register=None)
    else:
        uops = parse_graph(variant, row.graph, row.where)
        changed = Behaviour(uops, max(1, sum(1 for uop in uops if uop.ports)))
    if row.same_register:
        return replace(behaviour, same_register=changed) if behaviour is not None else None
    return replace(changed, same_register=behaviour.same_register if behaviour else None)


def _read_facts(path: Traversable) -> dict[str, str]:
    """Read a table of facts as lines by variant string; lines are parsed when they are needed."""
    text = lzma.decompress(path.read_bytes()).decode()
    lines = (line.partition("\t") for line in text.splitlines() if not line.startswith("#"))
    return {string: rest for string, _, rest in lines}


def parse_facts(line: str) -> Facts:
    """Read the columns iform, ports, latencies, µops, read advance, divider cycles; ports are written `06+0156*2`."""
    _, ports_text, latencies, uops, advance, divider = line.split("\t")
    ports: list[frozenset[str]] = []
    for term in filter(None, ports_text.split("+")):
        name, _, count = term.partition("*")
        ports += [frozenset(name)] * int(count or 1)
    return Facts(tuple(ports), tuple(map(int, latencies.split(","))), int(uops), int(advance), int(divider))


@functools.cache
def read_isa_sets() -> dict[str, frozenset[str]]:
    """Read which ISA sets each chip has."""
    path = resources.files("simulator") / "models" / "isa_sets.tsv"
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {chip: frozenset(sets.split()) for chip, sets in rows}


@functools.cache
def read_rows() -> tuple[tuple[frozenset[str], GraphRule], ...]:
    """Read `graphs.tsv`: CPUs, variant pattern, when, graph, source.

    Raises:
        ModelError: a row has not five columns, names an unknown CPU, or has no source.
    """
    return tuple(_rows(resources.files("simulator") / "models" / "graphs.tsv"))


def _rows(path: Traversable) -> Iterator[tuple[frozenset[str], GraphRule]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        where = f"{path.name}:{number}"
        columns = line.split("\t")
        if len(columns) != 5 or not columns[4].strip() or columns[2] not in ("always", "same_register"):
            raise ModelError(f"{where}: expected CPUs, variants, when, graph and source")
        cpus, pattern, when, graph, _ = columns
        yield cpu_range(cpus, where), GraphRule(where, re.compile(translate(pattern)), when == "same_register", graph)


def cpu_range(text: str, where: str) -> frozenset[str]:
    """Read a list of CPUs such as `NHM,IVB..BDW` or `HSW..` (that one and all later ones).

    Raises:
        ModelError: a name is not one of `CPU_ORDER`.
    """
    found: set[str] = set()
    for part in text.split(","):
        first, dots, last = part.partition("..")
        if first not in CPU_ORDER or (last and last not in CPU_ORDER):
            raise ModelError(f"{where}: {part!r} is no CPU or range of CPUs")
        end = CPU_ORDER.index(last) if last else len(CPU_ORDER) - 1 if dots else CPU_ORDER.index(first)
        found.update(CPU_ORDER[CPU_ORDER.index(first) : end + 1])
    return frozenset(found)
