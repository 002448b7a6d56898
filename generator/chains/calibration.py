"""Microbenchmarks that calibrate links: closed chains of links alone, and independent copies of a link; and NOPs.

A link from a kind of place to the same kind is chained to itself. Others are closed by further links; the column
`calibration` of `chain_links.tsv` names them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from generator.chains.links import CARRIERS, GPR_NODES, VECTOR_NODES, Ends, Link, link_named, links
from generator.microbenchmark import Line, Microbenchmark
from generator.operands.places import STATUS_FLAGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.factory import InstructionFactory

_FILES = {
    "GPR": ("RBX", "RDX", "RCX", "RAX", "RBX"),
    "VEC": ("XMM0", "XMM1", "XMM2", "XMM3", "XMM4"),
    "K": ("K1", "K2", "K3", "K4", "K5"),
    "MMX": ("MM0", "MM1", "MM2", "MM3", "MM4"),
    "X87": ("ST(0)",) * 5,
}
_CONSTANTS, _VECTOR_CONSTANTS = ("R9", "R10"), ("XMM5", "XMM6")
"""Registers for zero and for the value of links that restore; what they hold does not matter here."""

INDEPENDENT = 4
"""Independent copies of a link, for its throughput: each has a target of its own in `_FILES`."""

ISSUED = 120
"""NOPs for the issue width: a whole number of cycles at 2, 3, 4, 5, 6, 8, 10 and 12 per cycle."""


def nops(instructions: InstructionFactory) -> Microbenchmark:
    """Return NOPs, which need nothing but to be issued; `divisor` is how many.

    Raises:
        UnknownInstructionError: the catalogue lacks NOP.
    """
    return Microbenchmark((), (instructions.line("NOP"),) * ISSUED, f"issue of {ISSUED} NOP", ISSUED)


def closed_chain(instructions: InstructionFactory, cycle: Sequence[Link]) -> Microbenchmark:
    """Return the chain of a link and those that close it; one copy holds each once.

    Raises:
        UnknownInstructionError: the catalogue lacks an instruction.
    """
    body: list[Line] = []
    position = 0
    first = _register(cycle[0].source, 0)
    here = first
    for step, link in enumerate(cycle):
        last = step == len(cycle) - 1
        position = 0 if last or len(cycle) == 1 else 1 - position
        following = first if last else _register(link.target, position)
        body += _lines(instructions, link, here, following)
        here = following
    return Microbenchmark((), tuple(body), f"latency of the chain {'+'.join(link.name for link in cycle)}")


def independent_links(instructions: InstructionFactory, name: str) -> Microbenchmark:
    """Return independent copies of a link, for its throughput; `divisor` is how many.

    Raises:
        UnknownInstructionError: the catalogue lacks an instruction.
        KeyError: there is no such link.
    """
    link = link_named(name)
    source = _register(link.source, 0)
    body: list[Line] = []
    for position in range(1, INDEPENDENT + 1):
        body += _lines(instructions, link, source, _register(link.target, position))
    return Microbenchmark((), tuple(body), f"throughput of {name}", INDEPENDENT)


@cache
def calibration_cycles(name: str) -> tuple[tuple[Link, ...], ...]:
    """Return the closed chains of all rows of a link, each as the rows of its links in order.

    A link has a row for each flag that it writes and each operand that it reads, since each may take another time.

    Raises:
        KeyError: there is no such link, or its chain is not closed.
    """
    rows = _rows(name) or [link_named(name)]
    return tuple(_cycle(names) for names in dict.fromkeys(names for link in rows for names in link.calibrations))


def _cycle(names: Sequence[str]) -> tuple[Link, ...]:
    """Return the rows of these links that form a closed chain."""
    for first in _rows(names[0]):
        found = _close(first, names[1:], (first,))
        if found:
            return found
    message = f"the calibration {' '.join(names)} is not a closed chain"
    raise KeyError(message)


def _close(first: Link, names: Sequence[str], found: tuple[Link, ...]) -> tuple[Link, ...]:
    """Go on with the links of these names so that the last ends where the first begins."""
    here = found[-1].target
    if not names:
        return found if _fits(here, first.source) else ()
    for link in _rows(names[0]):
        if _fits(here, link.source):
            closed = _close(first, names[1:], (*found, link))
            if closed:
                return closed
    return ()


def _rows(name: str) -> list[Link]:
    """Return all rows of a link's name."""
    return [link for link in links() if link.name == name]


def _fits(target: str, source: str) -> bool:
    """Whether a link can begin at `source` after one that ends at `target`."""
    return target == source or (target in {"R64", "ADDR"} and source in GPR_NODES | {"R8H"})


def _register(node: str, position: int) -> str:
    """Return a register for a place ("" for flags)."""
    if node in STATUS_FLAGS or node not in CARRIERS | {"R8H", "ADDR"}:
        return ""
    group = "GPR" if node in GPR_NODES | {"R8H", "ADDR"} else "VEC" if node in VECTOR_NODES else node
    return _FILES[group][position]


def _lines(instructions: InstructionFactory, link: Link, source: str, target: str) -> tuple[Line, ...]:
    """Return a link's lines between two registers."""
    constants = _VECTOR_CONSTANTS if link.source in VECTOR_NODES else _CONSTANTS
    return link.render(instructions, Ends(source, target, None, *constants))
