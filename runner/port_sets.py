"""Finds the sets of ports of a backend's machine by time alone, and draws how they lie in each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference.characterizer import Characterizer
from results.model import port_order, port_set_name
from results.text import first_of
from runner.backend import BackendError
from runner.measuring.session import Limits, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from inference.ports.by_time.machine import TimedMachine
    from results.ports import PortSet
    from runner.measuring.protocol import Measurer
    from runner.measuring.session import Progress
    from xed_convert.catalogue.catalogue import Catalogue

SHOWN_MEMBERS = 3
"""Instructions of a set that a drawing names."""

SHOWN_ALTERNATIVES = 3
"""Other diagrams that are drawn."""


def find_port_sets(
    measurer: Measurer, catalogue: Catalogue, on_progress: Callable[[Progress], None] | None = None
) -> TimedMachine:
    """Find the sets of ports that instructions can keep busy, from times only.

    Args:
        measurer: times mixes of instructions.
        catalogue: where instructions come from.
        on_progress: called with the number of measurements.

    Raises:
        BackendError: the backend broke down, or neither moves nor NOPs run on it.
    """
    session = Session(measurer, limits=Limits(keep_raw=False), on_progress=on_progress)
    capabilities = measurer.backend.info().capabilities
    found = session.run_one(Characterizer(catalogue, capabilities, by_time=True).find_port_sets())
    if found is None:
        raise BackendError("no issue width: neither moves nor NOPs could be timed", hint="`uopscope doctor` looks why")
    return found


def document(found: TimedMachine) -> dict[str, object]:
    """Return the sets as JSON has them: names of ports, instructions, and what blocks each in which kind of code."""
    return {
        "issue_width": found.width,
        "filler": {"variant": found.filler.string, "length_bytes": found.filler.length_bytes},
        "times_off_by": float(found.off),
        "orders_of_each_code": found.orders,
        "sets": _documents(found),
        "sets_in_512_bit_code": None if found.wide is None else _documents(found.wide),
        "alternatives": [[_names(found, ports) for ports in sets] for sets in found.alternatives],
        "parts": [
            {
                "ports": _each(one.part),
                "of": _each(one.whole),
                "example": one.example.string,
            }
            for one in found.parts
        ],
    }


def _documents(found: TimedMachine) -> list[dict[str, object]]:
    return [
        {
            "ports": _names(found, one.ports),
            "variants": list(one.members),
            "blocked_by": {kind.value: variant.string for kind, variant in one.blockers.items()},
        }
        for one in found.sets
    ]


def lines_of(found: TimedMachine) -> Iterator[str]:
    """Yield what was found as text: the issue width, and a diagram: a row for each set, a column for each port."""
    yield (
        f"issue width {found.width}; filler {found.filler.string} of {found.filler.length_bytes} bytes; "
        f"times are off by up to {float(found.off):.1%}"
        + (f", although each is of code in {found.orders} orders" if found.orders > 1 else "")
    )
    if found.is_noisy:
        yield "too noisy: nothing is concluded about ports"
        return
    if not found.sets:
        yield "no instruction shows a set of ports: all are done as often as they can be issued"
        return
    yield from _drawn(found, [one.ports for one in found.sets])
    for number, sets in enumerate(found.alternatives[:SHOWN_ALTERNATIVES], 2):
        yield f"diagram {number}, which fits the times as well:"
        yield from _drawn(found, sets)
    if len(found.alternatives) > SHOWN_ALTERNATIVES:
        yield f"... {1 + len(found.alternatives)} diagrams fit in all"
    for part in found.parts:
        yield f"{port_set_name(part.part)} of {port_set_name(part.whole)}, which nothing blocks: {part.example.string}"
    if found.wide is not None:
        yield "in code with 512-bit instructions:"
        yield from _drawn(found.wide, [one.ports for one in found.wide.sets])


def _drawn(found: TimedMachine, sets: Sequence[PortSet]) -> Iterator[str]:
    """Yield a diagram. Its last column names instructions of each set."""
    ports = _names(found, frozenset().union(*sets))
    yield _row(ports, ports, "instructions")
    for one, members in sorted(
        ((own, each.members) for own, each in zip(sets, found.sets, strict=True)),
        key=lambda row: (min(ports.index(name) for name in _names(found, row[0])), -len(row[0]), row[1]),
    ):
        own = _names(found, one)
        yield _row(ports, ["x" if port in own else "" for port in ports], first_of(members, SHOWN_MEMBERS))


def _row(ports: Sequence[str], cells: Sequence[str], text: str) -> str:
    return "  ".join([*(f"{cell:{len(port)}}" for port, cell in zip(ports, cells, strict=True)), text])


def _names(found: TimedMachine, ports: PortSet) -> list[str]:
    """Return the public names of ports, in their order."""
    return _each(found.public(ports))


def _each(ports: PortSet) -> list[str]:
    return [port_set_name(frozenset({port})) for port in sorted(ports, key=port_order)]
