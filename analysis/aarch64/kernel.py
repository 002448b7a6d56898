"""From AArch64 text to a prediction: ports, critical path, loop-carried dependencies through registers and flags.

Dependencies through memory are not followed. A result is ready one latency of its instruction after its last input.
llvm-mca's tables give every unit of a group an equal share, so units of one kind with the same share count as a group.
The bound of the ports is that of the best distribution. OSACA's even distribution is reported beside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

from analysis.aarch64.llvm import LlvmTables, tables_of
from analysis.aarch64.operands import effects_of
from analysis.block.markers import marked_lines
from analysis.bounds.dependencies import Cycle, Edge, Node, slowest_cycle
from analysis.errors import AnalysisError
from analysis.paths import longest_path
from analysis.report.text import listed
from results.ports import fullest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.aarch64.operands import RegisterEffects

MARK = re.compile(r"\s*mov\s+x1,\s*#?(111|222)\b")
MARK_BYTES = re.compile(r"\s*\.byte\s+213\s*,\s*3\s*,\s*32\s*,\s*31\b")
"""OSACA's marks as instructions and bytes (its README, "Code markers")."""
WRITTEN_BACK = "!"
"""Ends the name of the result of an address with write-back: the changed base register, ready after one cycle."""
PARTS = 840
"""Parts of a cycle in which shares of units are counted: 840 is divisible by 2 to 8."""
SCHEMA = 1


@cache
def cpus() -> dict[str, str]:
    """Return LLVM's names of CPUs by their short names."""
    text = resources.files("analysis.aarch64").joinpath("cpus.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if line and line[0] != "#"][1:]
    return {row[0]: row[1] for row in rows}


def is_aarch64(name: str) -> bool:
    """Whether a name is that of an AArch64 CPU: a short one (`cpus`), or `llvm:` with LLVM's."""
    return name.upper() in cpus() or name.startswith("llvm:")


@dataclass(frozen=True)
class Kernel:
    """What LLVM's model says of a kernel, and what follows from it; `repr` is the report of the command."""

    tables: LlvmTables
    nodes: tuple[Node, ...]
    lines: tuple[int, ...]

    @property
    def cycles(self) -> float:
        """The prediction: core cycles per iteration, the largest of the bounds."""
        return float(max(self.bounds.values()))

    @cached_property
    def bounds(self) -> dict[str, Fraction]:
        """Core cycles per iteration at least, by component."""
        return {"ports": self._best, "dependencies": self.cycle.ratio if self.cycle is not None else Fraction(0)}

    @property
    def issue(self) -> Fraction:
        """Core cycles per iteration to dispatch the µops that LLVM counts; its models count them differently."""
        return Fraction(sum(one.uops for one in self.tables.instructions), self.tables.issue_width)

    @cached_property
    def _best(self) -> Fraction:
        counts: dict[int, int] = {}
        for one in self.tables.instructions:
            for mask, share in _groups(one.units, self.tables.units).items():
                counts[mask] = counts.get(mask, 0) + share
        return fullest(counts)[0] / PARTS

    @cached_property
    def even(self) -> dict[str, float]:
        """Core cycles by unit, with equal shares: the highest is OSACA's throughput."""
        found = dict.fromkeys(self.tables.units, 0.0)
        for one in self.tables.instructions:
            for unit, share in one.units.items():
                found[unit] += share
        return found

    @cached_property
    def cycle(self) -> Cycle | None:
        """The slowest dependency from iteration to iteration."""
        return slowest_cycle(self.nodes)

    @cached_property
    def path(self) -> tuple[list[int], int]:
        """The critical path of an iteration: positions, and core cycles."""
        found = longest_path(self.nodes, [self._own(node) for node in self.nodes])
        return [self.nodes[number].position for number in found.nodes], found.cycles

    def _own(self, node: Node) -> int:
        return (
            1
            if node.names and node.names[0].endswith(WRITTEN_BACK)
            else self.tables.instructions[node.position].latency
        )

    def json(self) -> dict[str, Any]:
        """Return it as JSON; positions count from 0."""
        cycle = self.cycle
        around = [] if cycle is None else sorted({self.nodes[number].position for number in cycle.nodes})
        return {
            "schema": SCHEMA,
            "isa": "aarch64",
            "architecture": self.tables.cpu,
            "machine": f"LLVM {self.tables.version}'s scheduling model, not measured",
            "cycles_per_iteration": self.cycles,
            "bounds": {name: float(cycles) for name, cycles in self.bounds.items()},
            "even_port_loads": self.even,
            "critical_path": {"cycles": self.path[1], "instructions": self.path[0]},
            "loop_carried": {"cycles": cycle.cycles if cycle else 0, "iterations": cycle.iterations if cycle else 1}
            | {"instructions": around},
            "issue": float(self.issue),
            "llvm_mca": self.tables.simulated,
            "instructions": [
                {"text": one.text, "line": line, "latency": one.latency, "uops": one.uops, "units": one.units}
                for one, line in zip(self.tables.instructions, self.lines, strict=True)
            ],
        }

    def __repr__(self) -> str:
        """Write the report."""
        return "\n".join(self._report())

    def _report(self) -> Iterator[str]:
        instructions = self.tables.instructions
        yield f"{self.tables.cpu}: {len(instructions)} instructions, as a loop"
        yield f"  LLVM {self.tables.version}'s scheduling model, a model and no measurement"
        yield ""
        limits = listed([name for name, cycles in self.bounds.items() if cycles == max(self.bounds.values())])
        yield f"{self.cycles:.2f} cycles per iteration. What limits it: {limits}."
        yield ""
        yield "bound         cycles"
        for name, cycles in sorted(self.bounds.items(), key=lambda pair: -pair[1]):
            yield f"{name:12}  {float(cycles):6.2f}"
        yield ""
        yield "not part of the prediction:"
        yield f"even ports    {max(self.even.values(), default=0.0):6.2f}  with the same share for each unit, as OSACA"
        yield f"issue         {float(self.issue):6.2f}  LLVM's µops by its dispatch width"
        yield f"llvm-mca      {self.tables.simulated:6.2f}  its own simulation"
        yield ""
        yield f"critical path of an iteration: {self.path[1]} cycles: lines {self._named(self.path[0])}"
        if self.cycle is not None:
            around = [self.nodes[number].position for number in self.cycle.nodes]
            over = f" in {self.cycle.iterations} iterations" if self.cycle.iterations > 1 else ""
            said = f"{self.cycle.cycles} cycle{'s' * (self.cycle.cycles != 1)}{over}"
            yield f"from iteration to iteration: {said}: lines {self._named(sorted(set(around)))}"
        yield "Dependencies through memory are not followed."
        yield ""
        yield "line  µops  latency  units"
        for one, line in zip(instructions, self.lines, strict=True):
            units = " ".join(f"{unit}:{share:.2f}" for unit, share in one.units.items())
            yield f"{line:4}  {one.uops:4}  {one.latency:7}  {units}  {one.text}"

    def _named(self, positions: list[int]) -> str:
        return " → ".join(str(self.lines[position]) for position in positions)


def _groups(units: dict[str, float], names: tuple[str, ...]) -> dict[int, int]:
    """Return the time by group of units, a bit mask, in parts of a cycle (`PARTS`)."""
    by_share: dict[tuple[float, str], list[str]] = {}
    for unit, share in units.items():
        by_share.setdefault((round(share, 4), unit.rstrip("0123456789.")), []).append(unit)
    found: dict[int, int] = {}
    for (share, _), members in by_share.items():
        mask = sum(1 << names.index(unit) for unit in members)
        found[mask] = found.get(mask, 0) + round(share * len(members) * PARTS)
    return found


def analyze(text: str, cpu: str) -> Kernel:
    """Predict the core cycles of a kernel per iteration. If a region is marked, only the region counts.

    Args:
        text: AArch64 assembly.
        cpu: a short name (`cpus`), or `llvm:` with LLVM's name.

    Raises:
        AnalysisError: there is no instruction, or LLVM cannot read the text.
        ToolError: LLVM is not installed, or has no such model.
    """
    name = cpu.removeprefix("llvm:") if cpu.startswith("llvm:") else cpus()[cpu.upper()]
    region, numbers = _region(text)
    if not numbers:
        raise AnalysisError("there is no instruction to analyze")
    tables = tables_of(region, name)
    if not tables.instructions:
        raise AnalysisError("there is no instruction to analyze")
    if len(numbers) != len(tables.instructions):
        numbers = list(range(1, len(tables.instructions) + 1))
    effects = [effects_of(one) for one in tables.instructions]
    return Kernel(tables, tuple(_nodes(effects, [one.latency for one in tables.instructions])), tuple(numbers))


def _region(text: str) -> tuple[str, list[int]]:
    """Return the text with all lines blank but the region's instructions and labels, and the instructions' lines."""
    lines = text.splitlines()
    first, last = marked_lines(text)
    marks = {
        match[1]: number
        for number, line in enumerate(lines, 1)
        if (match := MARK.match(line)) and number < len(lines) and MARK_BYTES.match(lines[number])
    }
    if marks.keys() == {"111", "222"} and marks["111"] < marks["222"]:
        first, last = marks["111"] + 2, marks["222"] - 1
    kept, numbers = [], []
    for number, line in enumerate(lines, 1):
        plain = re.split(r"//|^\s*#|\s;", line, maxsplit=1)[0].rstrip()
        rest = re.sub(r"^\s*(?:[\w.$]+:\s*)+", "", plain).strip()
        is_inside = first <= number <= last and not (rest.startswith(".") and not plain.rstrip().endswith(":"))
        kept.append(plain if is_inside else "")
        if is_inside and rest:
            numbers.append(number)
    return "\n".join(kept) + "\n", numbers


def _nodes(effects: list[RegisterEffects], latencies: list[int]) -> list[Node]:
    """Return the results, each with what it waits for; a base register that is written back is a result of its own."""
    parts = [
        (position, reads, writes, cycles)
        for position, one in enumerate(effects)
        for reads, writes, cycles in (
            (one.reads, one.writes, latencies[position]),
            *([((one.base,), (one.base + WRITTEN_BACK,), 1)] if one.base else []),
        )
    ]
    nodes = [Node(position, writes, []) for position, _, writes, _ in parts]
    last = {name.removesuffix(WRITTEN_BACK): number for number, node in enumerate(nodes) for name in node.names}
    here: dict[str, int] = {}
    made: dict[str, int] = {}
    for number, (position, reads, writes, cycles) in enumerate(parts):
        if number and parts[number - 1][0] != position:
            here |= made  # an instruction reads before it writes
            made = {}
        for name in reads:
            source = here.get(name, last.get(name))
            if source is not None:
                nodes[number].edges.append(Edge(source, cycles, 0 if name in here else 1))
        made |= {name.removesuffix(WRITTEN_BACK): number for name in writes}
    return nodes
