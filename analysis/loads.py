"""How busy each port is: with the best distribution of the µops, and with the even one that OSACA assumes.

OSACA gives each port of a µop the same share (Laukemann et al., PMBS 2018, section II). In the best distribution the
busiest port has the least possible load, which is also the bound of the ports in `Bounds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from results.ports import distribution

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.bounds.components import Bounds

Load = dict[str, Fraction]
"""µops per iteration by port; ports without any are left out."""


@dataclass(frozen=True, slots=True)
class PortLoads:
    """The load of each port in µops per iteration, in total and for each instruction.

    `best` and `even` are the two distributions; `best_of` and `even_of` have one entry per instruction. The highest
    load of `even` is OSACA's throughput.
    """

    best: Load
    even: Load
    best_of: Sequence[Load]
    even_of: Sequence[Load]


def loads_of(bounds: Bounds) -> PortLoads:
    """Return the loads of a block's ports."""
    names = bounds.port_names
    placed = distribution(bounds.port_masks)
    shares = {
        mask: {names[bit.bit_length() - 1]: count / bounds.port_masks[mask] for bit, count in on.items()}
        for mask, on in placed.items()
    }
    even = {mask: _even(mask, names) for mask in shares}
    best_of, even_of = ([_load(one, way) for one in bounds.block.port_masks] for way in (shares, even))
    return PortLoads(_sum(best_of), _sum(even_of), best_of, even_of)


def _even(mask: int, names: Sequence[str]) -> Load:
    return {name: Fraction(1, mask.bit_count()) for number, name in enumerate(names) if mask >> number & 1}


def _load(masks: Sequence[tuple[int, int]], shares: Mapping[int, Load]) -> Load:
    """Return the load of one instruction."""
    return _sum([{port: share * count for port, share in shares[mask].items()} for mask, count in masks])


def _sum(loads: Sequence[Load]) -> Load:
    found: Load = {}
    for load in loads:
        for port, uops in load.items():
            found[port] = found.get(port, Fraction(0)) + uops
    return dict(sorted(found.items()))
