"""Changes to graphs of µops, by pattern of variant: those of `graphs.tsv`, and those of tests.

A rule has a graph that replaces the variant's, or a word that changes the present one:

- `zero`: a zero idiom, without port and input;
- `break`: no input from outside;
- `eliminate 2/3`: two of three instances are eliminated at rename (`eliminate`: all).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from fnmatch import translate
from importlib import resources
from typing import TYPE_CHECKING

from results.machine.graph import Behaviour, ModelError, Uop, value_outputs
from simulator.machines.notation import parse_graph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from xed_convert.model import InstructionVariant

CPU_ORDER = ("NHM", "WSM", "SNB", "IVB", "HSW", "BDW", "SKL", "SKX", "ICX", "ADL-P", "SPR")
"""In order of appearance, for ranges such as `IVB..` in tables."""


@dataclass(frozen=True, slots=True)
class GraphRule:
    """Which variants change (a glob over strings and iforms), when, and to which graph or word; `where` is its row."""

    where: str
    pattern: re.Pattern[str]
    same_register: bool
    graph: str


def amend(variant: InstructionVariant, behaviour: Behaviour | None, rule: GraphRule) -> Behaviour | None:
    """Return a behaviour (None: there is none yet) as a rule changes it."""
    word, _, share = rule.graph.partition(" ")
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
        uops = parse_graph(variant, rule.graph, rule.where)
        changed = Behaviour(uops, max(1, sum(1 for uop in uops if uop.ports)))
    if rule.same_register:
        return replace(behaviour, same_register=changed) if behaviour is not None else None
    return replace(changed, same_register=behaviour.same_register if behaviour else None)


@functools.cache
def read_rules() -> tuple[tuple[frozenset[str], GraphRule], ...]:
    """Read `graphs.tsv`: CPUs, variant pattern, when, graph, source.

    Raises:
        ModelError: a row has not five columns, names an unknown CPU, or has no source.
    """
    return tuple(_rules(resources.files("simulator") / "models" / "graphs.tsv"))


def _rules(path: Traversable) -> Iterator[tuple[frozenset[str], GraphRule]]:
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
