"""The models that are shipped: `simulator/models/NAME.toml` and the tables beside it.

The TOML file says where a model comes from. Widths, queues and ports are in `results/machine/cores/`. A compressed
table has the scheduling facts (`convert_llvm` makes it from LLVM's models). Rows of `graphs.tsv` add facts of the paper
and of manuals that no scheduling model has. All of it is a model; nothing was measured here.
"""

from __future__ import annotations

import contextlib
import functools
import lzma
import re
import tomllib
from collections import defaultdict
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from results.machine.constants import core_of
from results.machine.graph import Behaviour, ModelError
from results.model import PORT_LETTERS
from simulator.machines.graph_rules import CPU_ORDER, amend, read_rules
from simulator.machines.machine import MachineModel, Origin, Parameters
from simulator.machines.scheduling_model import ModelFacts, behaviour_of, known_behaviour

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

    from results.machine.constants import CoreConstants
    from xed_convert.model import InstructionVariant


def names() -> list[str]:
    """Return the names of the models that are shipped."""
    folder = resources.files("simulator") / "models"
    found = [entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")]
    return sorted(found, key=lambda name: (CPU_ORDER.index(name) if name in CPU_ORDER else 99, name))


def model_for(cpu: str) -> str | None:
    """Return the name of a CPU's model: its own, or one of a like core (None: there is none)."""
    name, there = cpu.upper(), names()
    if name not in there:
        with contextlib.suppress(ModelError):
            name = core_of(name).name
    name = _stand_ins().get(name, name)
    return name if name in there else None


@functools.cache
def _stand_ins() -> dict[str, str]:
    """Read `stand_ins.tsv`: for some CPUs the model of a core that is not quite the same."""
    return {cpu: model for cpu, model, _ in _rows("stand_ins.tsv")}


def _rows(name: str) -> Iterator[list[str]]:
    """Yield the columns of each row of a table beside the models."""
    text = (resources.files("simulator") / "models" / name).read_text(encoding="utf-8")
    yield from (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))


@functools.lru_cache(maxsize=16)
def load_machine(name: str, *, placeholders: bool = True) -> MachineModel:
    """Load a model that is shipped.

    Args:
        name: its name.
        placeholders: whether instructions of which the model has only a placeholder do what that says. Without, they
            are not known.

    Raises:
        ModelError: there is no such model, or its files are not as they should be.
    """
    folder = resources.files("simulator") / "models"
    path = folder / f"{name}.toml"
    if not re.fullmatch(r"[A-Za-z0-9-]+", name) or not path.is_file():
        raise ModelError(f"there is no machine model {name!r}", hint=f"models: {', '.join(names())}")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        parameters = _parameters(core_of(name), table.get("parameters", {}))
        origin = Origin(table["origin"]["text"], table["origin"]["licence"])
        facts_file, chip = table["facts"]["file"], table["facts"]["chip"]
        ports = table["facts"].get("ports", {})
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise ModelError(f"{name}.toml: not a machine model: {error}") from error
    shipped = ShippedModel(folder, name, facts_file, chip, ports, placeholders=placeholders)
    return MachineModel(name, parameters, origin, shipped.behaviour)


def _parameters(core: CoreConstants, changes: Mapping[str, Any]) -> Parameters:
    """Return the parameters of a core, with a model's changes."""
    lists = {key: tuple(value) for key, value in changes.items() if isinstance(value, list)}
    return replace(Parameters.of(core), **(dict(changes) | lists))


class ShippedModel:
    """The behaviours of a model, from its files.

    `ports` renames port sets ("23" -> "2" for loads, "23w" for stores).
    """

    def __init__(
        self,
        folder: Traversable,
        name: str,
        facts_file: str,
        chip: str,
        ports: Mapping[str, str],
        *,
        placeholders: bool = True,
    ) -> None:
        """Read the tables; facts of variants are split only when asked for."""
        self.name, self.ports = name, ports
        self.made = behaviour_of if placeholders else known_behaviour
        self.facts = _read_facts(folder / facts_file)
        self.isa_sets = read_isa_sets().get(chip, frozenset())
        self.rules = [rule for cpus, rule in read_rules() if name in cpus]

    def behaviour(self, variant: InstructionVariant) -> Behaviour | None:
        """Return the behaviour of a variant, None if the CPU or the model does not have it."""
        if variant.isa_set not in self.isa_sets:
            return None
        names = (variant.string, variant.iform)
        line = self._line(variant)
        behaviour = self.made(variant, self._renamed(parse_facts(line), variant)) if line is not None else None
        for rule in self.rules:
            if any(rule.pattern.fullmatch(name) for name in names):
                behaviour = amend(variant, behaviour, rule)
        return behaviour

    def _line(self, variant: InstructionVariant) -> str | None:
        """Return a variant's row: by its string, else by iform and operands, if only one row has these."""
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

    def _renamed(self, facts: ModelFacts, variant: InstructionVariant) -> ModelFacts:
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


def _read_facts(path: Traversable) -> dict[str, str]:
    """Read a table of facts as lines by variant string; lines are parsed when they are needed."""
    text = lzma.decompress(path.read_bytes()).decode()
    lines = (line.partition("\t") for line in text.splitlines() if not line.startswith("#"))
    return {string: rest for string, _, rest in lines}


def parse_facts(line: str) -> ModelFacts:
    """Read the columns iform, ports, latencies, µops, read advance, divider cycles; ports are written `06+0156*2`."""
    _, ports_text, latencies, uops, advance, divider = line.split("\t")
    ports: list[frozenset[str]] = []
    for term in filter(None, ports_text.split("+")):
        name, _, count = term.partition("*")
        ports += [frozenset(name)] * int(count or 1)
    return ModelFacts(tuple(ports), tuple(map(int, latencies.split(","))), int(uops), int(advance), int(divider))


@functools.cache
def read_isa_sets() -> dict[str, frozenset[str]]:
    """Read which ISA sets each chip has."""
    return {chip: frozenset(sets.split()) for chip, sets in _rows("isa_sets.tsv")}
