"""Registers that the harness and the chains keep for themselves (`reserved_registers.tsv`)."""

from __future__ import annotations

from functools import cache

from generator.facts import read_facts
from generator.operands.registers import family

LOOP_REGISTER = "R15"
BASE_REGISTER = "R14"
INDEX_REGISTER = "R13"


@cache
def reserved_registers() -> dict[str, str]:
    """Return the reserved registers' families and the use of each (loop, base, index, stack, temporary, unused)."""
    rows = read_facts("reserved_registers.tsv", ("register", "use", "reason"), key=("register",))
    return {family(row["register"]): row["use"] for row in rows}


@cache
def harness_registers() -> frozenset[str]:
    """Return the families that code under test must never write."""
    return frozenset(name for name, use in reserved_registers().items() if use in {"loop", "base", "index", "stack"})
