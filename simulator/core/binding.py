"""Binds a µop to one of its ports: one function per rule of `Binding`, and `by_scheduler`. Each returns the port.

Each takes four arguments:

- the core;
- the ports to choose from (in order; at least two, but for `by_scheduler`);
- the first cycle in which the µop could dispatch;
- how many issue slots of the current cycle are left after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from simulator.machines.machine import Binding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simulator.machines.machine import Parameters, PortSchedulers

WAITING = 1 << 40
"""A port's weight is the number of µops that wait for it times this, plus when it was last chosen."""

LAST = WAITING - 1

CLEAR_LEAD = 3
"""Waiting µops. With this many more, Intel's rule leaves out the second least used port (uiCA, section 4.1)."""

FAR_LEAD = 5
"""Waiting µops. On cores with ten ports, a port with this many more than the least used one is left out (uiCA's
artifact)."""

THREE = 3
"""Ports of a computation on cores with six."""


class Queues(Protocol):
    """The state of a core (`simulator.core.core`) that rules read.

    They change only `weights`, `sequence`, `same`, `given` and `left`.
    """

    parameters: Parameters
    cycle: int
    sequence: int
    weights: list[int]
    seen: list[int]
    before: list[int]
    same: dict[tuple[int, ...], int]
    busy: dict[int, int]
    turns: frozenset[tuple[int, ...]]
    given: list[int]
    left: int


def fewest_waiting(core: Queues, ports: tuple[int, ...], ready: int, free: int) -> int:
    """Choose at issue the port with the fewest µops waiting; of equals, the one that was chosen longest ago."""
    del ready, free
    return min(ports, key=core.weights.__getitem__)


def by_scheduler(core: Queues, ports: tuple[int, ...], ready: int, free: int) -> int:
    """Choose at issue by the µops of the group that each port and its scheduler have (`PortSchedulers`).

    If not all ports belong to such schedulers, the one with the fewest µops waiting is chosen.
    """
    schedulers = core.parameters.schedulers
    if schedulers is None or not schedulers.mates.keys() >= set(ports):
        return ports[0] if len(ports) == 1 else fewest_waiting(core, ports, ready, free)
    able = [port for port in ports if _takes(core, schedulers, port)]
    if not able:
        begin_group(core)
        core.left -= 1
        able = list(ports)
    port = able[0] if len(able) == 1 else min(able, key=lambda one: _load(core, schedulers, one))
    core.given[port] += 1
    return port


def begin_group(core: Queues) -> None:
    """Begin a group of µops that are given to schedulers together."""
    if core.parameters.schedulers is not None:
        core.left, core.given = core.parameters.schedulers.slots, [0] * len(core.given)


def _takes(core: Queues, schedulers: PortSchedulers, port: int) -> bool:
    """Whether a port can take one more µop of the group."""
    given = core.given
    if given[port] and port in schedulers.computing:
        return False
    return sum([given[mate] for mate in schedulers.mates[port]]) < schedulers.per_group


def _load(core: Queues, schedulers: PortSchedulers, port: int) -> tuple[int, int, int]:
    """Return by what ports are compared: µops of the group, µops waiting in the scheduler, when it was last chosen."""
    weights = core.weights
    waiting = sum([weights[mate] // WAITING for mate in schedulers.mates[port]])
    return core.given[port], waiting // schedulers.step, weights[port] & LAST


def at_dispatch(core: Queues, ports: tuple[int, ...], ready: int, free: int) -> int:
    """Choose when the µop is ready: older ones first, each takes the lowest port that is free."""
    del free
    busy, cycle = core.busy, ready
    wanted = sum(1 << port for port in ports)
    while not wanted & ~busy.get(cycle, 0):
        cycle += 1
    left = wanted & ~busy.get(cycle, 0)
    return (left & -left).bit_length() - 1


def intel(core: Queues, ports: tuple[int, ...], ready: int, free: int) -> int:
    """Choose as Intel's cores with eight ports do, by the µops that waited when the cycle began.

    Issue slots 1, 3, ... of a cycle take the port with the fewest µops waiting. Slots 2, 4, ... take the next one,
    unless it has many more. Of equals the highest port comes first. Loads take turns.

    Source: Abel, Reineke, "uiCA: Accurate Throughput Prediction of Basic Blocks on Recent Intel Microarchitectures",
    ICS 2022, section 4.1 (port assignment). "A Second Look at Port Assignment on Intel CPUs" (uops-again.info, 2026)
    shows that real cores also do otherwise, and gives no rule for it.
    """
    del ready
    if ports in core.turns:
        return _turn(core, ports)
    seen = core.seen
    first = second = -1
    for port in reversed(ports):
        if first < 0 or seen[port] < seen[first]:
            first, second = port, first
        elif second < 0 or seen[port] < seen[second]:
            second = port
    return second if _slot(core, free) % 2 and seen[second] - seen[first] < CLEAR_LEAD else first


def intel_6(core: Queues, ports: tuple[int, ...], ready: int, free: int) -> int:
    """Choose as Intel's cores with six ports do, by the µops that waited when the cycle began.

    If any of the ports has many more µops waiting than another one, it is the port with the fewest. Else of three
    ports, slots 1 and 4 take the one with the fewest, slot 2 the higher of the others, slot 3 the lower one. Of two
    ports, slots 1 and 3 take the one with fewer, slots 2 and 4 the other one. Of equals the lowest port has the fewest.

    Source: the artifact of the paper above, for Sandy Bridge and Ivy Bridge.
    """
    del ready
    if ports in core.turns:
        return _turn(core, ports)
    seen = core.seen
    first = min(ports, key=seen.__getitem__)
    most = max(seen[port] for port in ports)
    if most - seen[first] >= CLEAR_LEAD:
        return first
    slot = _slot(core, free)
    if len(ports) == THREE:
        lower, higher = [port for port in ports if port != first]
        return (first, higher, lower, first)[slot % 4]
    return max(ports, key=lambda port: (port != first, seen[port], port)) if slot % 2 else first


def intel_10(core: Queues, ports: tuple[int, ...], ready: int, free: int) -> int:
    """Choose as Intel's cores with ten ports do, by the µops that waited when the cycle before began.

    Ports with many more µops waiting than the least used one are left out. The first µop of a cycle with these ports
    takes the least used one, the next µop with the same ports the next one, and so on. But slot 5 takes the least used
    one, and slot 4 the second if no µop before it has the same ports. Of equals the highest port comes first.

    Source: the artifact of the paper above, for Ice Lake, Tiger Lake and Rocket Lake.
    """
    del ready
    if ports in core.turns:
        return _turn(core, ports)
    before = core.before
    least = min(before[port] for port in ports)
    ranked = [port for port in sorted(ports, key=lambda one: (before[one], -one)) if before[port] < least + FAR_LEAD]
    number = core.same.get(ports, 0)
    core.same[ports] = number + 1
    slot = _slot(core, free)
    if slot == 4:
        number = 0
    elif slot == 3 and not number:
        number = 1
    return ranked[number % len(ranked)]


def _slot(core: Queues, free: int) -> int:
    """Return the issue slot of a µop in its cycle, from 0."""
    return max(0, core.parameters.issue_width - free - 1)


def _turn(core: Queues, ports: tuple[int, ...]) -> int:
    """Return the port that was taken longest ago."""
    weights = core.weights
    port = min(ports, key=lambda one: weights[one] & LAST)
    core.sequence += 1
    weights[port] += core.sequence - (weights[port] & LAST)
    return port


RULES: Mapping[Binding, Callable[[Queues, tuple[int, ...], int, int], int]] = {
    Binding.FEWEST_WAITING: fewest_waiting,
    Binding.LOWEST: fewest_waiting,  # the core does not note when a port was chosen, so that the lowest is left
    Binding.DISPATCH: at_dispatch,
    Binding.INTEL: intel,
    Binding.INTEL_6: intel_6,
    Binding.INTEL_10: intel_10,
}

BY_SLOT = frozenset({Binding.INTEL, Binding.INTEL_6, Binding.INTEL_10})
"""The rules that depend on the µops that waited when a cycle began, and on issue slots."""
