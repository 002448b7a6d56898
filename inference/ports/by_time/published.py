"""Published names of ports, where facts allow them: `published_ports.tsv` has a set for some instructions of a CPU.

ZEN4   VPABSB (XMM, XMM)         FP01
ZEN4   VPSHUFB (XMM, XMM, XMM)   FP12      so the port that both have is FP1
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.facts import read_facts
from results.model import PortUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from results.ports import PortSet


def published_names(architecture: str, members: Mapping[PortSet, Sequence[str]]) -> dict[str, str]:
    """Return the published name of each port that has one; none if the facts do not fit what was found.

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
    if any(len(ours) != len(theirs) for ours, theirs in pairs):
        return {}
    return _named(sorted(frozenset().union(*(ours for ours, _ in pairs))), pairs, {}) or {}


def _named(
    letters: Sequence[str], pairs: Sequence[tuple[PortSet, PortSet]], names: dict[str, str]
) -> dict[str, str] | None:
    """Return names with which both sets of every pair are the same, None if there are none."""
    if not letters:
        return names
    letter, *others = letters
    for name in sorted(frozenset().union(*(theirs for _, theirs in pairs)) - set(names.values())):
        if all((letter in ours) == (name in theirs) for ours, theirs in pairs):
            found = _named(others, pairs, {**names, letter: name})
            if found is not None:
                return found
    return None
