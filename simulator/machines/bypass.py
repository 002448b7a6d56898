"""Bypass delays of a simulated machine, by the domains of producer and consumer (`simulator.instructions.domains`)."""

from __future__ import annotations

from dataclasses import dataclass

INTEGER, FLOAT = "integer", "float"
"""The domains of all instructions with vectors that no rule names."""


@dataclass(frozen=True, slots=True)
class BypassDelays:
    """How many cycles later a vector is ready for instructions of another domain.

    `cycles` are (producer's domain, consumer's domain, cycles); all others are 0. `domains` are (instruction class,
    domain), such as ("VPADDD", "adder"): they come before the two domains that every instruction has.
    """

    cycles: tuple[tuple[str, str, int], ...]
    domains: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every domain once."""
        return tuple(dict.fromkeys((FLOAT, INTEGER, *(domain for _, domain in self.domains))))

    def between(self, producer: str, consumer: str) -> int:
        """Return the cycles from one domain to another."""
        return next((cycles for one, other, cycles in self.cycles if (one, other) == (producer, consumer)), 0)


EACH_WAY = BypassDelays(((INTEGER, FLOAT, 1), (FLOAT, INTEGER, 1)))
"""A cycle from integers to floating-point numbers, and one back."""
