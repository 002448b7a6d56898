"""The control-flow graph of a function, its loops, and what a loop of several blocks takes.

Blocks end at branches and before the targets of branches; calls do not end them. A block dominates another one if every
way from the beginning to that one leads through it. An edge to a block that dominates its source closes a loop: the
loop has all blocks from which that edge is reached without its head (Aho, Sethi, Ullman, "Compilers", section 10.4).

An iteration of a loop may take several ways. Each has a probability: that of the branches on it, which are given, or
equal. The time of a component is the mean over the ways. The highest mean is the prediction, because a core that
predicts its branches works on several iterations at a time. Branches that are mispredicted are not counted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from iced_x86 import Decoder, FlowControl

from analysis.errors import AnalysisError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST_WAYS = 64
"""Ways through a loop that are looked at, the likeliest ones."""
MOST_STEPS = 20_000
"""Blocks that are visited while ways are looked for."""


class Ending(StrEnum):
    """How a block ends."""

    FALLS = "goes on"
    JUMPS = "jumps"
    BRANCHES = "branches"
    RETURNS = "returns"
    INDIRECT = "jumps to an address that the code does not show"
    STOPS = "stops"


_ENDINGS = {
    FlowControl.UNCONDITIONAL_BRANCH: Ending.JUMPS,
    FlowControl.CONDITIONAL_BRANCH: Ending.BRANCHES,
    FlowControl.XBEGIN_XABORT_XEND: Ending.BRANCHES,
    FlowControl.RETURN: Ending.RETURNS,
    FlowControl.INDIRECT_BRANCH: Ending.INDIRECT,
    FlowControl.EXCEPTION: Ending.STOPS,
}
"""What ends a block; calls and interrupts come back."""


@dataclass(frozen=True, slots=True)
class FlowBlock:
    """Instructions that run one after another; offsets are in bytes from the beginning of the function.

    `target` is where its branch leads (None: it has none, or out of the function), `behind` where the block behind it
    begins if control can get there. `calls` counts calls in it.
    """

    begin: int
    end: int
    instructions: int
    ending: Ending
    target: int | None
    behind: int | None
    calls: int

    @property
    def successors(self) -> tuple[int, ...]:
        """Where control can go within the function, without repetition."""
        return tuple(dict.fromkeys(one for one in (self.target, self.behind) if one is not None))


@dataclass(frozen=True)
class Loop:
    """A loop: where its head begins, its blocks by where they begin, and how many loops are around it."""

    head: int
    blocks: frozenset[int]
    depth: int
    is_innermost: bool


@dataclass(frozen=True, slots=True)
class Way:
    """One way through an iteration of a loop: its blocks, how likely it is, and how many branches on it are taken."""

    blocks: tuple[int, ...]
    probability: float
    taken: int


@dataclass(frozen=True)
class Flow:
    """The control flow of a function: its code, where that begins in memory, its blocks by where they begin."""

    code: bytes
    address: int
    blocks: Mapping[int, FlowBlock] = field(repr=False)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The loops, outer ones first; those with the same head are one."""
        return tuple(_loops(self))

    def code_of(self, blocks: Sequence[int]) -> bytes:
        """Return the code of some blocks, one behind the other."""
        return b"".join(self.code[self.blocks[one].begin : self.blocks[one].end] for one in blocks)

    def taken_in(self, way: Way) -> frozenset[int]:
        """Return where branches end that are taken on a way, in bytes from the beginning of its code."""
        found, end = set(), 0
        for begin, after in zip(way.blocks, (*way.blocks[1:], way.blocks[0]), strict=True):
            block = self.blocks[begin]
            end += block.end - begin
            if block.target == after and block.behind != after:
                found.add(end)
        return frozenset(found)

    def innermost(self) -> Loop:
        """Return the loop that most likely takes the time: the deepest one, of several that with most instructions.

        Raises:
            AnalysisError: there is no loop.
        """
        if not self.loops:
            raise AnalysisError("the function has no loop", hint="leave out --loop to analyze all of it")
        inner = [one for one in self.loops if one.is_innermost]
        return max(inner, key=lambda one: (one.depth, self.size_of(one), -one.head))

    def size_of(self, loop: Loop) -> int:
        """Return how many instructions a loop has."""
        return sum(self.blocks[begin].instructions for begin in loop.blocks)

    def leads_back(self, begin: int, target: int) -> bool:
        """Whether an edge between blocks closes a loop."""
        return any(loop.head == target and begin in loop.blocks for loop in self.loops)

    def loop_number(self, number: int) -> Loop:
        """Return a loop by its number in the listing, from 1.

        Raises:
            AnalysisError: there is no such loop, or it has loops inside.
        """
        if not 1 <= number <= len(self.loops):
            raise AnalysisError(f"there is no loop {number}", hint=f"the function has {len(self.loops)}")
        found = self.loops[number - 1]
        if not found.is_innermost:
            inside = [n for n, one in enumerate(self.loops, 1) if one.is_innermost and one.blocks < found.blocks]
            message = f"loop {number} has loops inside, and nobody knows how often they run"
            raise AnalysisError(message, hint=f"inside are: {', '.join(map(str, inside))}")
        return found


def flow_of(code: bytes, address: int = 0) -> Flow:
    """Return the control flow of a function.

    Args:
        code: its bytes.
        address: where they begin.

    Raises:
        AnalysisError: there is no instruction.
    """
    found = _Instructions(code)
    if not found.ends:
        raise AnalysisError("there is no instruction to analyze")
    leaders = sorted(found.leaders & found.ends.keys())
    blocks = dict(_blocks(found, leaders))
    return Flow(code[: max(found.ends.values())], address, blocks)


class _Instructions:
    """Where instructions begin and end, where blocks begin, and how those that end blocks do so."""

    def __init__(self, code: bytes) -> None:
        self.ends: dict[int, int] = {}
        self.endings: dict[int, tuple[Ending, int | None]] = {}
        self.calls: set[int] = set()
        self.leaders = {0}
        for one in Decoder(64, code, ip=0):
            if one.is_invalid:
                break
            self.ends[one.ip] = one.next_ip
            flow = one.flow_control
            if flow in (FlowControl.CALL, FlowControl.INDIRECT_CALL):
                self.calls.add(one.ip)
            if flow in _ENDINGS:
                ending = _ENDINGS[flow]
                jumps = ending in (Ending.JUMPS, Ending.BRANCHES)
                target = one.near_branch_target if jumps and one.op_count else None
                self.endings[one.ip] = ending, target if target is not None and target < len(code) else None
                self.leaders |= {one.next_ip} | ({target} if target is not None else set())


def _blocks(found: _Instructions, leaders: Sequence[int]) -> Iterator[tuple[int, FlowBlock]]:
    """Yield the blocks in the order of the code."""
    for begin in leaders:
        at, count, calls = begin, 0, 0
        while True:
            count += 1
            calls += at in found.calls
            end = found.ends[at]
            if at in found.endings or end not in found.ends or end in found.leaders:
                break
            at = end
        ending, target = found.endings.get(at, (Ending.FALLS if end in found.ends else Ending.STOPS, None))
        goes_on = ending in (Ending.FALLS, Ending.BRANCHES) and end in found.ends
        known = target if target in found.ends else None
        yield begin, FlowBlock(begin, end, count, ending, known, end if goes_on else None, calls)


def _loops(flow: Flow) -> Iterator[Loop]:
    dominators = _dominators(flow)
    predecessors: dict[int, list[int]] = defaultdict(list)
    for begin, block in flow.blocks.items():
        for one in block.successors:
            predecessors[one].append(begin)
    bodies: dict[int, set[int]] = {}
    for begin in dominators:
        for head in flow.blocks[begin].successors:
            if head in dominators[begin]:
                bodies.setdefault(head, {head}).update(_body(head, begin, predecessors))
    ordered = sorted(bodies.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    for head, body in sorted(ordered, key=lambda pair: pair[0]):
        outer = sum(1 for other, blocks in ordered if other != head and body < blocks)
        inner = any(other != head and blocks < body for other, blocks in ordered)
        yield Loop(head, frozenset(body), outer, not inner)


def _body(head: int, end: int, predecessors: Mapping[int, Sequence[int]]) -> set[int]:
    """Return the blocks from which the end of a loop is reached without its head."""
    found, waiting = {head, end}, [end]
    while waiting:
        at = waiting.pop()
        if at == head:
            continue
        for one in predecessors[at]:
            if one not in found:
                found.add(one)
                waiting.append(one)
    return found


def _dominators(flow: Flow) -> dict[int, frozenset[int]]:
    """Return the dominators of each block that can be reached, itself among them."""
    order = _reachable(flow)
    predecessors: dict[int, list[int]] = defaultdict(list)
    for begin in order:
        for one in flow.blocks[begin].successors:
            predecessors[one].append(begin)
    found: dict[int, frozenset[int]] = {0: frozenset({0})}
    changed = True
    while changed:
        changed = False
        for begin in order[1:]:
            known = [found[one] for one in predecessors[begin] if one in found]
            new = frozenset({begin}).union(frozenset.intersection(*known)) if known else frozenset({begin})
            if found.get(begin) != new:
                found[begin], changed = new, True
    return found


def _reachable(flow: Flow) -> list[int]:
    """Return the blocks that can be reached, each before what comes after it where no loop is between."""
    done: set[int] = {0}
    order: list[int] = []
    waiting: list[tuple[int, Iterator[int]]] = [(0, iter(flow.blocks[0].successors))]
    while waiting:
        begin, successors = waiting[-1]
        for one in successors:
            if one not in done:
                done.add(one)
                waiting.append((one, iter(flow.blocks[one].successors)))
                break
        else:
            order.append(begin)
            waiting.pop()
    return order[::-1]


def ways_through(flow: Flow, loop: Loop, taken: Mapping[int, float]) -> tuple[list[Way], float]:
    """Return the ways through an iteration of an innermost loop, the likeliest first, and how likely others are.

    Args:
        flow: the function.
        loop: one of its loops.
        taken: how likely branches are taken, by the offset of their block's last byte plus one (its `end`). A branch
            that is not named is taken or not alike; one that would leave the loop never does.

    Raises:
        AnalysisError: no way leads back to the head, or a branch that is named never stays in the loop.
    """
    found: list[Way] = []
    waiting: list[tuple[tuple[int, ...], float, int]] = [((loop.head,), 1.0, 0)]
    for _ in range(MOST_STEPS):
        if not waiting:
            break
        waiting.sort(key=lambda one: one[1])
        blocks, probability, count = waiting.pop()
        for target, share, is_taken in _choices(flow.blocks[blocks[-1]], loop, taken):
            if not share:
                continue
            if target == loop.head:
                found.append(Way(blocks, probability * share, count + is_taken))
            elif target not in blocks:
                waiting.append(((*blocks, target), probability * share, count + is_taken))
        if len(found) >= MOST_WAYS:
            break
    if not found:
        raise AnalysisError("no way leads through the loop", hint="are the probabilities 0 or 1?")
    kept = sum(way.probability for way in found)
    ways = [Way(way.blocks, way.probability / kept, way.taken) for way in found]
    return sorted(ways, key=lambda way: (-way.probability, way.blocks)), max(0.0, 1 - kept)


def _choices(block: FlowBlock, loop: Loop, taken: Mapping[int, float]) -> list[tuple[int, float, bool]]:
    """Return where control goes from a block within a loop, how likely that is, and whether a branch is taken there."""
    stays = [one for one in block.successors if one in loop.blocks]
    if len(stays) < 2:
        return [(one, 1.0, one == block.target) for one in stays]
    assert block.target is not None
    assert block.behind is not None
    share = taken.get(block.end, 0.5)
    return [(block.target, share, True), (block.behind, 1 - share, False)]


def branches_in(flow: Flow, loop: Loop) -> list[FlowBlock]:
    """Return the blocks of a loop that end with a branch both of whose ways stay in the loop."""
    chosen = (flow.blocks[begin] for begin in sorted(loop.blocks))
    return [one for one in chosen if len([to for to in one.successors if to in loop.blocks]) > 1]
