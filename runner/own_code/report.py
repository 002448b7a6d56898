"""Measurements of a user's code as text, JSON, and CSV."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from generator.microbenchmark import Line
    from runner.own_code.measure import CountedValue, Result

TITLES = {"unrolled": "unrolled", "loop": "in a loop", "runs": "measured"}
NAME_WIDTH, VALUE_WIDTH = 20, 20


def lines_of_result(result: Result, *, samples: bool = False) -> Iterator[str]:
    """Yield a result for people: the code, a row per counter, what went wrong, the machine."""
    benchmark = result.benchmark
    parts = {
        "first time only": benchmark.once,
        "before": benchmark.setup,
        "after the counters are read": benchmark.late,
        "measured": benchmark.body,
    }
    shown = {title: lines for title, lines in parts.items() if lines}
    width = min(60, max(len(line.text) for lines in shown.values() for line in lines))
    for title, lines in shown.items():
        if len(shown) > 1:
            yield f"{title}:"
        yield from _listing(lines, width)
    if result.counters:
        yield ""
        unit = "per copy" if (runs := result.request.settings.runs) is None or runs.normalize else "all copies"
        yield f"{unit:{NAME_WIDTH}}" + "".join(f" {TITLES[mode]:>{VALUE_WIDTH}}" for mode in result.modes)
        yield from (_row(result, name) for name in result.counters)
    if samples:
        yield from _samples(result)
    yield ""
    yield from (f"! {problem}" for problem in result.problems)
    where = result.provenance
    model = "model of " if where.is_model else ""
    yield f"{model}{where.architecture} ({where.cpu}), backend {where.backend}"
    yield from (f"  {caveat}" for caveat in result.info.caveats)


def json_of_result(result: Result) -> dict[str, Any]:
    """Return a result as JSON: values are numbers; samples are there where the request said how often to run."""
    from results.campaign import codec  # noqa: PLC0415 - text and CSV do without all that a campaign may hold

    modes: dict[str, Any] = {}
    for name, mode in result.modes.items():
        values = {counter: _json_value(value) for counter, value in mode.values.items()}
        modes[name] = {"status": mode.status.value, "reason": mode.reason, "counters": values}
    benchmark = result.benchmark
    parts = {
        "one_time_init": benchmark.once,
        "init": benchmark.setup,
        "late_init": benchmark.late,
        "body": benchmark.body,
    }
    code = {
        name: [{"bytes": line.code.hex(), "text": line.text} for line in lines]
        for name, lines in parts.items()
        if lines
    }
    return {"code": code, "results": modes, "provenance": codec.encode_provenance(result.provenance)}


def csv_of_result(result: Result) -> str:
    """Return a line per mode and counter."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("mode", "counter", "value", "spread", "status", "reason"))
    for name, mode in result.modes.items():
        rows = [(counter, str(float(one.value)), str(float(one.spread))) for counter, one in mode.values.items()]
        for row in rows or [("", "", "")]:
            writer.writerow((name, *row, mode.status.value, mode.reason))
    return file.getvalue()


def _listing(lines: Sequence[Line], width: int) -> Iterator[str]:
    for line in lines:
        yield f"  {line.text:{width}}  {line.code.hex(' ')}"


def _row(result: Result, counter: str) -> str:
    cells = (_cell(mode.values.get(counter)) for mode in result.modes.values())
    return f"{counter:{NAME_WIDTH}}" + "".join(f" {cell:>{VALUE_WIDTH}}" for cell in cells)


def _cell(value: CountedValue | None) -> str:
    return "-" if value is None else f"{float(value.value):.3f} ± {float(value.spread):.3f}"


def _samples(result: Result) -> Iterator[str]:
    for mode in result.modes.values():
        for counter, value in mode.values.items():
            yield f"{counter}: " + " ".join(f"{float(one):g}" for one in value.samples)


def _json_value(value: CountedValue) -> dict[str, Any]:
    found: dict[str, Any] = {"value": float(value.value), "spread": float(value.spread)}
    if value.samples:
        found["samples"] = [float(one) for one in value.samples]
    return found
