"""Port usages of a campaign beside published ones of the same CPU: part of `uopscope db compare`.

Published usages may be of some ports only, as those of AMD's cores are: counters there see FP0 to FP5. Others have our
own names. So only ports whose names both have are compared. Ports by time count the cycles in which a port is busy, so
half-width units have twice the published count.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from results.database.entries import known_ports
from results.model import PortUsage
from results.ports import confined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from results.ports import PortSet

BY_TIME = "ports_by_time"
"""The attribute of port usages that time alone gave."""


class PortAgreement(StrEnum):
    """How a port usage is beside the published one."""

    ALIKE = "stated as published"
    TWICE = "stated with twice the count, as half-width units have it by time"
    OTHERWISE = "stated otherwise"
    WHOLE_ON_THESE = "known in part, as published on these ports"
    PART = "known in part, with fewer µops than published, or larger sets"
    OTHER_PART = "known in part, otherwise"
    UNSTATED = "not stated"


CONTRADICTING = (PortAgreement.OTHERWISE, PortAgreement.OTHER_PART)


class PortDifference(NamedTuple):
    """A port usage that contradicts the published one; both as text."""

    string: str
    published: str
    measured: str


def common_names(pairs: Iterable[tuple[PortUsage | None, Mapping[str, str]]]) -> PortSet:
    """Return the ports that occur in published usages as well as in those of the measurements beside them."""
    theirs: set[str] = set()
    ours: set[str] = set()
    for published, values in pairs:
        theirs.update(*(published.uops if published else ()))
        ours.update(*PortUsage.parse(values.get("ports", "")).uops)
    return frozenset(theirs & ours)


def on_ports(usage: PortUsage, names: PortSet) -> PortUsage:
    """Return what a usage has on any of these ports."""
    return PortUsage({ports: count for ports, count in usage.uops.items() if ports & names})


def port_agreement(published: PortUsage, values: Mapping[str, str], names: PortSet) -> PortAgreement:
    """Compare the port usage of a measurement with the published one.

    Args:
        published: what was published, on ports with these names.
        values: the attributes of the measurement.
        names: the names that both have. Other ports are not compared.
    """
    ours = on_ports(known_ports(values), names)
    if "ports" in values:
        return _stated(published, ours, is_by_time=BY_TIME in values)
    if not ours.uops:
        return PortAgreement.UNSTATED
    wholes = [published, _twice(published)] if f"some_{BY_TIME}" in values else [published]
    if ours in wholes:
        return PortAgreement.WHOLE_ON_THESE
    return PortAgreement.PART if any(_is_within(ours, whole) for whole in wholes) else PortAgreement.OTHER_PART


def _stated(published: PortUsage, stated: PortUsage, *, is_by_time: bool) -> PortAgreement:
    if stated.uops == published.uops:
        return PortAgreement.ALIKE
    return PortAgreement.TWICE if is_by_time and stated == _twice(published) else PortAgreement.OTHERWISE


def _twice(usage: PortUsage) -> PortUsage:
    return PortUsage({ports: 2 * count for ports, count in usage.uops.items()})


def _is_within(part: PortUsage, whole: PortUsage) -> bool:
    """Whether the µops of a part may be among those of a usage: its sets may be unions of several usages' sets."""
    return all(
        sum(part.uops[other] for other in part.uops if other <= ports) <= confined(whole, ports) for ports in part.uops
    )
