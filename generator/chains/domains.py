"""Chains with links of the integer or the floating-point vector domain, which show bypass delays.

    ADDPS XMM0, XMM1; ORPS XMM14, XMM0; ORPS XMM1, XMM14        all in the floating-point domain
    ADDPS XMM0, XMM1; POR XMM14, XMM0; POR XMM1, XMM14          crosses domains twice: to the links, and back

Both chains do the same work. `domains.tsv` has the links.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from generator.chains.links import VECTOR_NODES, Route, links
from generator.facts import read_facts
from results.model import LatencyPart

if TYPE_CHECKING:
    from generator.chains.plan import LatencyPlan, OperandPair

COLUMNS = ("class", "link", "reason")


def crossing_pair(plan: LatencyPlan) -> OperandPair | None:
    """Return the pair of a variant whose chains can show bypass delays, from a vector to a vector (None: it has none).

    Links that put a value back have a domain themselves, so pairs that need them cannot tell.
    """
    for pair in plan.pairs:
        in_vectors = pair.destination.node in VECTOR_NODES and pair.factory.target_node(pair.source) in VECTOR_NODES
        plain = pair.source.part is pair.destination.part is LatencyPart.NONE and not pair.same_register
        if in_vectors and plain and not (pair.reason or pair.shared or pair.factory.needs_restore(pair.source)):
            return pair
    return None


def domain_routes(pair: OperandPair, length: int) -> dict[str, Route]:
    """Return for each domain the route from the pair's destination to its source through `length` of its links.

    Args:
        pair: see `crossing_pair`.
        length: how many links, at least 1.
    """
    found: dict[str, Route] = {}
    nodes = {node for route in pair.routes for node in (route.nodes[0], route.nodes[-1])}
    for link in links():
        domain = _domains().get(link.name)
        if domain and link.source == link.target and link.source in nodes:
            found.setdefault(domain, Route((link,) * length, (link.source,) * (length + 1)))
    return found


@cache
def _domains() -> dict[str, str]:
    return {row["link"]: row["class"] for row in read_facts("domains.tsv", COLUMNS, ("link",))}
