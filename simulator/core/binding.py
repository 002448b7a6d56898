"""Which of its ports a µop is bound to: one function per rule of `Binding`.

Each takes four things: the core, the ports to choose from (at least two, in order), the first cycle in which the µop
could dispatch, and how many issue slots of the current cycle are left after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from simulator.machines.machine import Binding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simulator.machines.machine import Parameters

WAITING = 1 << 40
"""A port's weight is the number of µops that wait for it times this, plus when it was last chosen."""

LAST = WAITING - 1

CLEAR_LEAD = 3
"""Waiting µops. With this many more, Intel's rule leaves out the second least used port (uiCA, section 4.1)."""


class Queues(Protocol):
    """What a rule sees of a core (defined in `simulator.core.core`); only `alternating` changes anything."""

    parameters: Parameters
    cycle: int
    sequence: int
    weights: list[int]
    seen: list[int]
    busy: dict[int, int]
    turns: tuple[int, ...]


def fewest_waiting(core: Queues, ports: tuple[int, ...], ready: int, free: int) -> int:
    """Choose at issue the port with the fewest µops waiting; of equals, the one that was chosen longest ago."""
    del ready, free
    return min(ports, key=core.weights.__getitem__)


def at_dispatch(core: Queues, ports: tuple[int, ...], ready: int, free: int) -> int:
    """Choose when the µop is ready: older ones first, each takes the lowest port that is free."""
    del free
    busy, cycle = core.busy, ready
    wanted = sum(1 << port for port in ports)
    while not wanted & ~busy.get(cycle, 0):
        cycle += 1
    left = wanted & ~busy.get(cycle, 0)
    return (left & -left).bit_length() - 1


def alternating(core: Queues, ports: tuple[int, ...], ready: int, free: int) -> int:
    """Choose as Intel's cores do, from what waited when the cycle began: all µops of a cycle see the same.

    Issue slots 1, 3, ... of a cycle take the port with the fewest µops waiting. Slots 2, 4, ... take the next one,
    unless it has many more. Of equals the highest port comes first. Loads take turns.

    Source: Abel, Reineke, "uiCA: Accurate Throughput Prediction of Basic Blocks on Recent Intel Microarchitectures",
    ICS 2022, section 4.1 (port assignment). "A Second Look at Port Assignment on Intel CPUs" (uops-again.info, 2026)
    shows that real cores also do otherwise, and gives no rule for it.
    """
    del ready
    weights = core.weights
    if ports == core.turns:
        port = min(ports, key=[weight & LAST for weight in weights].__getitem__)
        core.sequence += 1
        weights[port] += core.sequence - (weights[port] & LAST)
        return port
    seen = core.seen
    first, second = sorted(ports, key=lambda port: (seen[port], -port))[:2]
    slot = max(0, core.parameters.issue_width - free - 1)
    return second if slot % 2 and seen[second] - seen[first] < CLEAR_LEAD else first


RULES: Mapping[Binding, Callable[[Queues, tuple[int, ...], int, int], int]] = {
    Binding.FEWEST_WAITING: fewest_waiting,
    Binding.LOWEST: fewest_waiting,  # the core does not note when a port was chosen, so that the lowest is left
    Binding.DISPATCH: at_dispatch,
    Binding.INTEL: alternating,
}
