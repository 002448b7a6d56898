"""A prediction as JSON; `schema.json` beside this file describes it."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from analysis.explanation import latencies, port_usage
from analysis.report.text import reason_of
from results.machine.graph import KnownShare
from results.model import port_set_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from fractions import Fraction

    from analysis.explanation import PredictionFacts
    from analysis.intervals import Interval
    from analysis.simulation.study import Study

SCHEMA = 2
"""The version of the JSON format: it grows when a name is removed or changes its meaning."""


def schema() -> dict[str, Any]:
    """Return the JSON schema of what `uopscope analyze --json` writes."""
    text = resources.files("analysis.report").joinpath("schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def json_pieces(found: Sequence[PredictionFacts | dict[str, Any]]) -> Iterator[str]:
    """Yield the text of a list of predictions, or of JSON objects, piece by piece.

    The whole text would need far more memory than the code.
    """
    written = [one if isinstance(one, dict) else _lazily(one) for one in found]
    yield from json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(written)
    yield "\n"


def json_of(facts: PredictionFacts, *, instructions: bool = True) -> dict[str, Any]:
    """Return a prediction as JSON; cycles are numbers, ports as `1*p0156+1*p23`, positions count from 0."""
    bounds, machine, loads, interval = facts.bounds, facts.machine, facts.loads, facts.interval
    return {
        "schema": SCHEMA,
        "architecture": machine.name,
        "machine": machine.origin.text,
        "running": bounds.running.value,
        "cycles_per_iteration": float(facts.cycles),
        "interval": None if interval is None else _interval(interval),
        "limits": [one.value for one in bounds.limits],
        "explanation": reason_of(facts),
        "bounds": {one.value: float(cycles) for one, cycles in bounds.cycles_of.items()},
        "fullest_ports": port_set_name(bounds.full) if bounds.full else "",
        "port_loads": _load(loads.best),
        "even_port_loads": _load(loads.even),
        "critical_path": {"cycles": facts.path.cycles, "instructions": facts.positions(facts.path.nodes)},
        "loop_carried": [
            {"cycles": one.cycles, "iterations": one.iterations, "instructions": facts.in_order(one)}
            for one in facts.carried
        ],
        "what_if": [{"change": one.change, "cycles": float(one.cycles)} for one in facts.gains],
        "measured": [
            {
                "running": one.running,
                "predicted": one.predicted,
                "cycles": one.cycles,
                "spread": one.spread,
                "reason": one.reason,
                "architecture": one.architecture,
                "cpu": one.cpu,
                "backend": one.backend,
            }
            for one in facts.measured
        ],
        "simulation": None if facts.study is None else _simulation(facts.study),
        "left_out": facts.left_out,
        "caveats": facts.caveats,
        "unknown": [item.name for item in bounds.block.unknown],
        "latency_unknown": [item.name for item in bounds.block.untimed],
        "port_notes": facts.port_notes,
        "instructions": list(_Instructions(facts)) if instructions else [],
    }


def _lazily(facts: PredictionFacts) -> dict[str, Any]:
    return json_of(facts, instructions=False) | {"instructions": _Instructions(facts)}


class _Instructions(list[dict[str, Any]]):
    """The instructions of a prediction as JSON, each made when the encoder comes to it.

    All at once they would need far more memory. It is a list because `iterencode` accepts no other iterable.
    """

    def __init__(self, facts: PredictionFacts) -> None:
        super().__init__()
        self._facts = facts

    def __len__(self) -> int:
        return len(self._facts.bounds.block.items)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (_instruction(self._facts, position) for position in range(len(self)))


def _instruction(facts: PredictionFacts, position: int) -> dict[str, Any]:
    block = facts.bounds.block
    item, line = block.items[position], facts.line_of(position)
    return {
        "offset": block.offsets[position],
        "code": item.data.hex(),
        "text": item.text,
        "variant": item.name,
        "known": item.known,
        "uops": item.effects.slots,
        "ports": str(port_usage(item, facts.machine)),
        "ports_known": item.knowledge.ports.value,
        "ports_by_time": item.knowledge.by_time and item.knowledge.ports is not KnownShare.NONE,
        "modelled": bool(item.knowledge.modelled),
        "port_loads": _load(facts.loads.best_of[position]),
        "even_port_loads": _load(facts.loads.even_of[position]),
        "latencies": latencies(item),
        "fused_with_next": block.fused[position],
        "on_cycle": position in facts.on_cycle,
        "on_critical_path": position in facts.on_path,
        "source": None if line is None else {"file": line.file, "line": line.line, "text": line.text},
    }


def _interval(interval: Interval) -> dict[str, Any]:
    high = interval.high
    return {
        "low": float(interval.low),
        "high": None if high is None else float(high),
        "reasons": list(interval.reasons),
    }


def _simulation(study: Study) -> dict[str, Any]:
    """Return what was simulated: loads of ports, waits of each instruction, timeline of the first iterations."""
    explanation = study.explanation
    return {
        "port_loads": _load(study.simulated.ports),
        "page_cycles": float(study.simulated.page_cycles),
        "instructions": [
            {
                "port_loads": _load(times.ports),
                "waits": {one.value: float(cycles) for one, cycles in times.waits.items()},
                "caused": {one.value: float(cycles) for one, cycles in times.caused.items()},
            }
            for times in explanation.instructions
        ],
        "timeline": [
            {
                "instruction": one.position,
                "iteration": one.iteration,
                "issued": one.issued,
                "dispatched": one.dispatched,
                "executed": one.executed,
                "retired": one.retired,
                "uops": [
                    {"port": uop.port, "ready": uop.ready, "dispatched": uop.dispatched, "done": uop.done}
                    for uop in one.uops
                ],
            }
            for one in explanation.timeline
        ],
    }


def _load(load: Mapping[str, Fraction]) -> dict[str, float]:
    return {port: float(uops) for port, uops in load.items()}
