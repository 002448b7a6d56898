"""The chain instructions, and routes through them from one kind of place to another.

`chain_links.tsv` has one row per chain instruction and pair of kinds of places that it connects:

- R8, R8H, R16, R32, R64: general purpose registers by the part that is read;
- ADDR: a register that an address uses, so that it has to keep its value;
- CF, ZF, SF, OF, PF, AF: status flags;
- XMM (code without VEX), V128, V256, V512 (code with VEX or EVEX): vectors;
- K, MMX, X87 (top of the stack): the other files;
- M8 to M512: memory by width in bits.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import count
from typing import TYPE_CHECKING

from generator.facts import parse_lines, read_facts
from generator.operands.places import STATUS_FLAGS
from generator.operands.registers import HIGH8, family, part

if TYPE_CHECKING:
    from generator.factory import InstructionFactory
    from generator.microbenchmark import Line
    from xed_convert.model import MemoryAddress, OperandValue

COLUMNS = ("name", "source", "target", "lines", "cross", "calibration", "reason")
GPR_NODES = frozenset({"R8", "R16", "R32", "R64"})
VECTOR_NODES = frozenset({"XMM", "V128", "V256", "V512"})
CARRIERS = GPR_NODES | VECTOR_NODES | {"K", "MMX", "X87"}
"""Places where a link from the place to itself exists, so that a chain can be made longer there."""

_MAX_LINKS = 4
"""Most links of a route. The longest that the table needs leads from a flag to the x87 stack."""

_HIGH8_OF = {family: name for name, family in HIGH8.items()}


@dataclass(frozen=True)
class Link:
    """A chain instruction (or several in a row) from one kind of place to another.

    `calibrations` are closed chains that it is in, each the names of its links (none: it leads to or from memory).
    `cross_domain` is true if it leads from one register file to another, or to memory: then only a route there and back
    can be measured.
    """

    name: str
    source: str
    target: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    cross_domain: bool
    calibrations: tuple[tuple[str, ...], ...]
    reason: str

    @cached_property
    def high8(self) -> bool:
        """Whether a high-8 register is in it, so that no operand may need a REX prefix."""
        return any(token.endswith("8H") for _, tokens in self.lines for token in tokens)

    @property
    def flag(self) -> str:
        """The status flag that it writes or reads ("": none)."""
        return next((node for node in (self.target, self.source) if node in STATUS_FLAGS), "")

    @cached_property
    def restores(self) -> bool:
        """Whether it puts a value back; such links are inserted, not searched."""
        return any(name.startswith("VALUE") for _, names in self.lines for name in names)

    @property
    def merges(self) -> bool:
        """Whether the old value of the target register is an input, too."""
        return self.target in {"R8", "R8H"}

    def clobbers_flags(self, instructions: InstructionFactory) -> bool:
        """Whether it writes flags other than as its target."""
        return self.target not in STATUS_FLAGS and instructions.writes_flags(self.lines)

    def render(self, instructions: InstructionFactory, ends: Ends) -> tuple[Line, ...]:
        """Return its lines between two given places."""
        return tuple(
            instructions.line(string, *(ends.value(token) for token in tokens)) for string, tokens in self.lines
        )


@dataclass(frozen=True, slots=True)
class Ends:
    """The registers between which a link stands ("" where it is a flag or memory), and its memory place if any.

    `zero` and `kept` are registers that hold zero and the value that is to be put back, for links that restore.
    """

    source: str
    target: str
    memory: MemoryAddress | None = None
    zero: str = ""
    kept: str = ""

    def value(self, name: str) -> OperandValue:
        """Return the operand that a name in the table stands for: FROM64, TO8H, TO, MEM, a register, or a number."""
        if name == "MEM":
            if self.memory is None:
                message = "a link through memory needs an address"
                raise ValueError(message)
            return self.memory
        registers = {"FROM": self.source, "TO": self.target, "ZERO": self.zero, "VALUE": self.kept}
        for prefix, register in registers.items():
            if name.startswith(prefix):
                width = name[len(prefix) :]
                if width == "8H":
                    return _HIGH8_OF[family(register)]
                return part(register, int(width)) if width else register
        return name if name.startswith(("XMM", "YMM", "ZMM")) else int(name)


@dataclass(frozen=True)
class Route:
    """Links in a row; `nodes` are the places before, between and after them.

    `padded` is the position of the place where the chain is made longer (None: the first of `carriers`).
    """

    links: tuple[Link, ...]
    nodes: tuple[str, ...]
    padded: int | None = None

    @cached_property
    def name(self) -> str:
        """The links' names joined by +, for people and for the record."""
        return "+".join(link.name for link in self.links)

    @cached_property
    def cross_domain_links(self) -> int:
        """How many links there are that lead to another register file or to memory."""
        return sum(link.cross_domain for link in self.links)

    @cached_property
    def carriers(self) -> tuple[int, ...]:
        """The positions of places where the chain can be made longer: the last place, then from the first one on."""
        last = len(self.nodes) - 1
        positions = [position for position, node in enumerate(self.nodes) if node in CARRIERS]
        return tuple(sorted(positions, key=lambda position: (position != last, position)))

    @cached_property
    def carrier(self) -> int | None:
        """The position of the place where it is made longer, None if it cannot be."""
        return self.padded if self.padded is not None else next(iter(self.carriers), None)


@cache
def links() -> tuple[Link, ...]:
    """Return all rows of `chain_links.tsv`."""
    return tuple(_link(row) for row in read_facts("chain_links.tsv", COLUMNS, ("name", "source", "target")))


def _link(row: dict[str, str]) -> Link:
    """Read one row."""
    chains = row["calibration"].split(" ; ") if row["calibration"] != "-" else []
    calibrations = tuple(tuple(chain.split()) for chain in chains)
    lines = parse_lines(row["lines"])
    return Link(row["name"], row["source"], row["target"], lines, row["cross"] == "yes", calibrations, row["reason"])


@cache
def link_named(name: str) -> Link:
    """Return the first link of that name.

    Raises:
        KeyError: there is none.
    """
    for link in links():
        if link.name == name:
            return link
    raise KeyError(name)


@cache
def pads(node: str) -> tuple[Link, ...]:
    """Return the links from a kind of register to itself, best first, that need no other register."""
    place = "R64" if node in GPR_NODES else node
    return tuple(
        link for link in links() if link.source == link.target == place and not (link.cross_domain or link.restores)
    )


@cache
def restoring(node: str) -> Link:
    """Return the link that puts a value back in a kind of register.

    Raises:
        KeyError: there is none.
    """
    place = "R64" if node in GPR_NODES else node
    for link in links():
        if link.restores and link.source == place:
            return link
    raise KeyError(node)


@cache
def routes(source: str, target: str, *, direct: bool = True, limit: int = 6) -> tuple[Route, ...]:
    """Return the routes from one kind of place to another with the fewest cross-domain links, then the fewest links.

    Args:
        source: where the value is (the destination operand of the instruction under test).
        target: where it has to go (a source operand).
        direct: whether a single link from flag to flag will do. If not, the route leads through a register.
        limit: alternatives of the same length at most.
    """
    found: list[Route] = []
    best: tuple[int, int] | None = None
    order = count()
    queue: list[tuple[int, int, int, Route]] = [(0, 0, next(order), Route((), (source,)))]
    while queue and len(found) < limit:
        cross_domain_links, length, _, route = heapq.heappop(queue)
        if best is not None and (cross_domain_links, length) > best:
            break
        if route.links and _matches(route.nodes[-1], target):
            found.append(route)
            best = (cross_domain_links, length)
            continue
        if length == _MAX_LINKS:
            continue
        for link in _links_from(route, target, direct=direct):
            longer = Route((*route.links, link), (*route.nodes, link.target))
            heapq.heappush(queue, (cross_domain_links + link.cross_domain, length + 1, next(order), longer))
    return tuple(found)


def _links_from(route: Route, target: str, *, direct: bool) -> list[Link]:
    """Return the links that a route can go on with."""
    here = route.nodes[-1]
    between = _intermediate(route.nodes[0], target)
    following = []
    for link in links():
        if (
            link.source != here
            or link.restores
            or (link.target in route.nodes[1:] and not _matches(link.target, target))
        ):
            continue
        final = _matches(link.target, target)
        passable = link.target in between or (link.target[0] == "M" and "X87" in {here, target})
        shortcut = link.source in STATUS_FLAGS and link.target in STATUS_FLAGS
        if (final or passable) and (direct or not shortcut):
            following.append(link)
    return following


@cache
def _intermediate(source: str, target: str) -> frozenset[str]:
    """Return the places that a route may lead through: general purpose registers, and the files of its ends."""
    return GPR_NODES | ({source, target} & (VECTOR_NODES | {"K", "MMX"}))


def _matches(node: str, target: str) -> bool:
    """Whether a value in `node` is where `target` asks for: 64 bits written serve for any lower part that is read.

    A write of 8 bits does not serve: it only merges them into the register.
    """
    if target in GPR_NODES:
        return node == "R64"
    return node == target or (node == "R64" and target == "R8H")
