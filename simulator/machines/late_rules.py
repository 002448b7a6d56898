"""Rules for late forms of a simulated machine (`simulator.core.late_forms`)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class LateRule:
    """A consumer takes `cycles` more while a producer has written its operand; both are patterns of variant strings."""

    consumer: str
    operand: str
    producer: str
    cycles: int


@functools.cache
def late_rules() -> tuple[LateRule, ...]:
    """Read `models/late_forms.tsv`."""
    text = resources.files("simulator").joinpath("models/late_forms.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return tuple(LateRule(consumer, operand, producer, int(cycles)) for consumer, operand, producer, cycles, _ in rows)
