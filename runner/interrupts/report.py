"""Where interrupts catch a loop, as text and as JSON."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from analysis.report.text import unknown_names
from analysis.retirement import Cause
from results.text import bar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.interrupts.study import Interrupted

BAR = 20
"""Characters of the longest bar."""


def lines_of(found: Interrupted) -> Iterator[str]:
    """Yield a line per instruction: share, its least and greatest over the layouts, bar, model and why."""
    width = max(map(len, found.texts))
    yield f"{'':{width}}  {'measured':>8}  {'layouts':>13}  {'':{BAR}}  {'model':>6}"
    most = max([*found.shares.values(), *found.predicted.values(), Fraction(1, 100)])
    for number, text in enumerate(found.texts):
        each = [one.shares.get(number, Fraction(0)) for one in found.layouts]
        share = found.share(number) if each else found.predicted.get(number, Fraction(0))
        measured = f"{float(share):8.1%}" if each else f"{'':8}"
        span = f"{float(min(each)):5.1%} - {float(max(each)):5.1%}" if each else ""
        model = f"{float(found.predicted.get(number, 0)):6.1%}" if found.predicted else "?"
        row = (
            f"{text:{width}}  {measured}  {span:>13}  {bar(share / most, BAR):{BAR}}  {model:>6}  {_why(found, number)}"
        )
        yield row.rstrip()
    yield ""
    yield from _samples(found)
    yield from _model(found)


def _why(found: Interrupted, position: int) -> str:
    """Return why the model gives an instruction samples."""
    oldest = found.prediction.oldest.get(position) if found.prediction is not None else None
    if oldest is None:
        return ""
    text = f"{float(oldest.cycles):.1f} cycles behind {found.texts[oldest.position]}"
    return text + (", which executes" if oldest.cause is Cause.RESULT else ", first of those that retire then")


def _samples(found: Interrupted) -> Iterator[str]:
    if not found.layouts:
        return
    names = ("total", "stale", "elsewhere", "lost", "disturbed")
    totals = {name: sum(getattr(one, name) for one in found.layouts) for name in names}
    sources = list(dict.fromkeys(one.source for one in found.layouts))
    rates = {source: [one.per_second for one in found.layouts if one.source is source] for source in sources}
    yield (
        f"{totals['total']} samples; {totals['stale']} stale ones and {totals['disturbed']} of disturbed runs dropped,"
        f" {totals['elsewhere']} elsewhere, {totals['lost']} lost"
    )
    yield "samples per second of the CPU: " + ", ".join(
        f"{source} at least {min(rate):.0f}" for source, rate in rates.items()
    )
    parts = [f"layouts {float(found.layout_distance):.3f}"]
    if found.round_distance is not None:
        parts.append(f"rounds {float(found.round_distance):.3f}")
    if found.source_distance is not None:
        parts.append(f"sources {float(found.source_distance):.3f}")
    yield f"greatest total variation distance of {', '.join(parts)}"


def _model(found: Interrupted) -> Iterator[str]:
    if found.prediction is None:
        yield f"no prediction: {found.why}"
        return
    cycles = float(found.prediction.cycles)
    yield from unknown_names(found.unknown)
    if not found.layouts:
        yield f"{cycles:.2f} cycles per iteration by the model of {found.architecture}"
        return
    yield f"{found.cycles:.2f} cycles per iteration, {cycles:.2f} by the model of {found.architecture}"
    if found.disturbed:
        yield "  the loop is slower than the model: another thread shares the core, or the model is incomplete"
    if found.distance is not None:
        yield f"the model is off by {float(found.distance):.3f}"
    for position, share in found.unexplained:
        yield f"  unexplained: {float(share):.1%} more at {found.texts[position]}"


def json_of(found: Interrupted) -> dict[str, Any]:
    """Return all of it as JSON."""
    prediction = found.prediction
    return {
        "instructions": [_instruction(found, number, text) for number, text in enumerate(found.texts)],
        "layouts": [
            {
                "offset_bytes": one.offset_bytes,
                "source": one.source.value,
                "samples": one.total,
                "elsewhere": one.elsewhere,
                "stale": one.stale,
                "lost": one.lost,
                "disturbed": one.disturbed,
                "per_second": one.per_second,
                "core_cycles": one.cycles,
            }
            for one in found.layouts
        ],
        "architecture": found.architecture,
        "core_cycles": found.cycles if found.layouts else None,
        "predicted_cycles": None if prediction is None else float(prediction.cycles),
        "distance": _float(found.distance),
        "distances": {
            "layouts": float(found.layout_distance),
            "rounds": _float(found.round_distance),
            "sources": _float(found.source_distance),
        },
        "slower_than_model": found.disturbed,
        "no_prediction": found.why,
        "unknown": list(found.unknown),
    }


def _instruction(found: Interrupted, number: int, text: str) -> dict[str, Any]:
    oldest = found.prediction.oldest.get(number) if found.prediction is not None else None
    return {
        "text": text,
        "measured": float(found.share(number)) if found.layouts else None,
        "predicted": None if found.prediction is None else float(found.predicted.get(number, 0)),
        "samples": [one.counts[number] for one in found.layouts],
        "behind": None if oldest is None else oldest.position,
        "cycles": None if oldest is None else float(oldest.cycles),
        "cause": None if oldest is None else oldest.cause.value,
    }


def _float(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
