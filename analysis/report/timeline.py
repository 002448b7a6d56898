"""What the simulation says of each instruction, as text: what it waited for, and a picture of the first iterations.

In the picture each row is an instruction in one iteration, each column a cycle:

- `I` its last µop is issued, `=` it waits, `e` it executes, `-` it has executed and waits for older ones, `R` it is
  retired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.simulation.results import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from analysis.explanation import PredictionFacts
    from analysis.simulation.results import InstanceTimes
    from analysis.simulation.study import Study

WIDEST = 80
"""Cycles that a picture shows; what comes later is left out."""

MOST_LINES = 40
"""Rows of a picture."""

HEADS = {
    Wait.FRONT_END: "front",
    Wait.BUFFER: "buffer",
    Wait.LOAD_QUEUE: "loads",
    Wait.OPERAND: "operand",
    Wait.PORT: "port",
}
"""The headings of the waits, at most seven letters."""


def waits_lines(facts: PredictionFacts) -> Iterator[str]:
    """Yield a table of what each instruction waited for, in cycles, and how long others waited for it."""
    if facts.explained is None:
        return
    yield "cycles that each instruction waited, by what it waited for, and that it made others wait"
    yield "line  " + " ".join(f"{head:>7}" for head in HEADS.values()) + "   others  ports"
    for position, line in enumerate(facts.explained.explanation.instructions):
        cells = " ".join(f"{_number(line.waits.get(one)):>7}" for one in HEADS)
        ports = " ".join(f"{name}:{float(uops):.2f}" for name, uops in line.ports.items())
        yield f"{position + 1:4}  {cells}  {_number(line.made_wait):>7}  {ports}".rstrip()


def timeline_lines(study: Study) -> Iterator[str]:
    """Yield the picture of the first iterations, which begin on an empty core."""
    shown = study.explanation.timeline[:MOST_LINES]
    last = min(WIDEST, 1 + max((one.retired for one in shown), default=0))
    yield "the first cycles: I issued, = waits, e executes, - has executed, R retired"
    yield f"iteration line  {''.join(str(cycle // 10 % 10) if cycle % 10 == 0 else '.' for cycle in range(last))}"
    for one in shown:
        row = "".join(_sign(one, cycle) for cycle in range(last))
        yield f"{one.iteration:9} {one.position + 1:4}  {row}".rstrip()


def _sign(one: InstanceTimes, cycle: int) -> str:
    """Return the character for what an instruction does in a cycle."""
    begun = one.executed if one.dispatched is None else one.dispatched
    if cycle == one.issued:
        return "I"
    if cycle < one.issued or cycle > one.retired:
        return " "
    if cycle == one.retired:
        return "R"
    return "=" if cycle < begun else "e" if cycle < one.executed else "-"


def _number(cycles: Fraction | None) -> str:
    return f"{float(cycles):.2f}" if cycles else "-"
