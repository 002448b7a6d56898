"""Streams of steps that take the same time, since they are equal but for the numbers of their locations.

Many variants differ in opcode, registers and width only, so their microbenchmarks are equal streams:

    ADD EAX, R8D; ADD ECX, R9D        one stream
    XOR RBX, RSI; XOR RDX, RSI

The core does not look at numbers of locations. It only compares them. So the key of a stream numbers them in the order
in which they first occur. It leaves out those that no step waits for: they are only read, or only written. All are
ready when a core begins, so reading one that is never written waits for nothing.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import TYPE_CHECKING

from simulator.core.steps import FETCH, NO_PORT, PORT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simulator.core.delivery import Fetched
    from simulator.core.steps import CoreStep

KEY_BYTES = 16
"""Size of a key: with 128 bits, two different streams out of a billion have the same key once in 10^20 cases."""

_END = -1
"""Ends a list of numbers that are not negative."""


class StreamKeys:
    """Makes keys of streams for one machine: streams with the same key take the same cycles on the same ports."""

    def __init__(self) -> None:
        """Begin with no instruction of the front end known."""
        self._fetched: dict[Fetched, int] = {}

    def key(
        self, parts: Sequence[Sequence[CoreStep]], fetched: Sequence[Fetched], copies: int, order: Sequence[int]
    ) -> bytes:
        """Return the key of a stream.

        Args:
            parts: its steps before, in and behind the code that is repeated.
            fetched: the instructions that its steps of the kind FETCH begin.
            copies: how often the repeated code is executed.
            order: the ports in the order in which they were last chosen.
        """
        waited = _waited_for(parts)
        numbers: dict[int, int] = {}
        found = [copies, *order, _END]
        for part in parts:
            for kind, ports, latency, sources, targets, extra, slot, end in part:
                what = self._number_of(fetched[extra]) if kind == FETCH else extra
                found += (kind, latency, what, slot, end, *ports, _END)
                for places in (sources, targets):
                    found += [numbers.setdefault(place, len(numbers)) for place in places if place in waited]
                    found.append(_END)
            found.append(_END)
        return blake2b(array("q", found).tobytes(), digest_size=KEY_BYTES).digest()

    def _number_of(self, item: Fetched) -> int:
        """Return the number of what the front end sees of an instruction."""
        return self._fetched.setdefault(item, len(self._fetched))


def _waited_for(parts: Iterable[Sequence[CoreStep]]) -> set[int]:
    """Return the locations that change when something happens: those that are written and read.

    Steps that are no plain µops do more with their locations, so all of theirs count.
    """
    read: set[int] = set()
    written: set[int] = set()
    for part in parts:
        for step in part:
            read.update(step.sources)
            written.update(step.targets)
            if step.kind not in (PORT, NO_PORT):
                read.update(step.targets)
                written.update(step.sources)
    return read & written
