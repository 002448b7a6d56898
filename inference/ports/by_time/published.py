"""Published names of ports, where facts allow them: `published_ports.tsv` has a set for some instructions of a CPU.

ZEN4   VPABSB (XMM, XMM)         FP01
ZEN4   VPSHUFB (XMM, XMM, XMM)   FP12      so the port that both have is FP1

Two ports that facts do not tell apart get these names only if no set that was found tells them apart either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.facts import read_facts
from inference.ports.by_time.hypotheses import components
from results.model import PortUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from results.ports import PortSet


def published_names(architecture: str, members: Mapping[PortSet, Sequence[str]]) -> dict[str, str]:
    """Return the published names of ports; none if the facts do not fit what was found.

    Sets that are connected by common ports get these names all together, or not at all: one name of several that fit
    would be a guess. On Ice Lake `SARX` alone says which two ports are p06, but not which of them is p0.

    Args:
        architecture: the microarchitecture's name.
        members: the variants that were found to have each set.
    """
    rows = read_facts(
        "published_ports.tsv", ("architecture", "variant", "ports", "source"), ("architecture", "variant")
    )
    pairs = [
        (ports, next(iter(PortUsage.parse(f"1*{row['ports']}").uops)))
        for row in rows
        if row["architecture"] == architecture
        for ports, variants in members.items()
        if row["variant"] in variants
    ]
    letters = _alike([ours for ours, _ in pairs])
    names = _alike([theirs for _, theirs in pairs])
    if any(len(letters.get(places, ())) != len(names.get(places, ())) for places in letters.keys() | names.keys()):
        return {}
    cells = {frozenset(cell) for cell in _alike(list(members)).values()}
    told = {
        letter: name
        for places, some in letters.items()
        if any(cell.issuperset(some) for cell in cells)
        for letter, name in zip(some, names[places], strict=True)
    }
    whole = [frozenset().union(*part.basic) for part in components(members)]
    return {letter: told[letter] for part in whole if part <= told.keys() for letter in sorted(part)}


def _alike(sets: Sequence[PortSet]) -> dict[frozenset[int], list[str]]:
    """Return the ports that are in the same sets, by the places of these sets."""
    found: dict[frozenset[int], list[str]] = {}
    for port in sorted(frozenset().union(*sets)):
        found.setdefault(frozenset(place for place, ports in enumerate(sets) if port in ports), []).append(port)
    return found
