"""The control-flow graph of a function, its loops, and the ways through them.

Blocks end at branches and before the targets of branches; calls do not end them. A block dominates another one if every
way from the beginning to that one leads through it. An edge to a block that dominates its source closes a loop. The
loop has all blocks from which that edge is reached without its head (Aho, Sethi, Ullman, "Compilers", section 10.4).

An iteration of a loop may take several ways. The probability of a way is the product of those of its branches, which
are given, or equal. If a loop has loops inside, the caller says how often each of them runs. A way then passes their
blocks that often.
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
    from collections.abc import Callable, Iterator, Mapping, Sequence

MOST_WAYS = 64
"""Ways through a loop that are looked at, the most probable ones."""
MOST_STEPS = 20_000
"""Blocks that are visited while ways are looked for."""
MOST_EXPANDED = 1_500
"""Instructions of a way, with all iterations of the loops inside: about what a µop cache holds."""


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

    @cached_property
    def reachable(self) -> tuple[int, ...]:
        """Where the blocks begin that control gets to from the beginning, in reverse postorder."""
        return tuple(_reachable(self))

    def is_reached(self, offset: int) -> bool:
        """Whether control gets to the block with an offset in bytes, or the offset lies behind the code."""
        reached = (self.blocks[begin] for begin in self.reachable)
        return offset >= len(self.code) or any(block.begin <= offset < block.end for block in reached)

    @property
    def is_one_loop(self) -> bool:
        """Whether every instruction is in one loop, and that has no loop inside."""
        return any(one.blocks == self.blocks.keys() and one.is_innermost for one in self.loops)

    def code_of(self, blocks: Sequence[int]) -> bytes:
        """Return the code of some blocks, one after the other."""
        return b"".join(self.code[self.blocks[one].begin : self.blocks[one].end] for one in blocks)

    def taken_in(self, way: Way) -> frozenset[int]:
        """Return the ends of the branches that are taken on a way, in bytes from the beginning of its code."""
        found, end = set(), 0
        for begin, after in zip(way.blocks, (*way.blocks[1:], way.blocks[0]), strict=True):
            block = self.blocks[begin]
            end += block.end - begin
            if block.target == after and block.behind != after:
                found.add(end)
        return frozenset(found)

    def innermost(self) -> Loop:
        """Return the loop that most likely takes the time: the deepest one; of several, the one with most instructions.

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
            AnalysisError: there is no such loop.
        """
        if not 1 <= number <= len(self.loops):
            raise AnalysisError(f"there is no loop {number}", hint=f"the function has {len(self.loops)}")
        return self.loops[number - 1]

    def hidden_jumps(self, loop: Loop) -> list[int]:
        """Return the ends of indirect jumps in a loop, or just behind its branches."""
        near = loop.blocks.union(*(self.blocks[begin].successors for begin in loop.blocks))
        found = (self.blocks[begin] for begin in sorted(near))
        return [block.end for block in found if block.ending is Ending.INDIRECT]

    def inside(self, loop: Loop) -> dict[int, Loop]:
        """Return the loops inside a loop by their numbers."""
        return {number: one for number, one in enumerate(self.loops, 1) if one.blocks < loop.blocks}


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
    """Where instructions begin and end, where blocks begin, and how each block ends."""

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
    order = flow.reachable
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
    """Return the blocks that can be reached, in reverse postorder."""
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


@dataclass(frozen=True, slots=True)
class _Begun:
    """A way that does not lead back yet. `visits` is how often the head of each loop inside was reached since entry."""

    blocks: tuple[int, ...]
    probability: float
    taken: int
    instructions: int
    visits: Mapping[int, int]


def ways_through(
    flow: Flow, loop: Loop, taken: Mapping[int, float], times: Mapping[int, int] | None = None
) -> tuple[list[Way], float]:
    """Return the ways through an iteration of a loop, the most probable first, and the probability of all others.

    Args:
        flow: the function.
        loop: one of its loops.
        taken: the probability that a branch is taken, by the `end` of its block. Others have one half; a branch that
            would leave the loop never does.
        times: iterations of the loops inside each time that they are entered, by their heads.

    Raises:
        AnalysisError: no way leads back to the head, a loop inside has no `times`, or a way has too many instructions.
    """
    inside = _inside(flow, loop, times or {})
    found: list[Way] = []
    waiting = [_Begun((loop.head,), 1.0, 0, flow.blocks[loop.head].instructions, {})]
    for _ in range(MOST_STEPS):
        if not waiting:
            break
        waiting.sort(key=lambda one: one.probability)
        way = waiting.pop()
        begin = way.blocks[-1]
        for target, share, is_taken in _choices(flow.blocks[begin], loop, taken, _allowed(way, begin, inside)):
            probability, count = way.probability * share, way.taken + is_taken
            if not share:
                continue
            if target == loop.head:
                found.append(Way(way.blocks, probability, count))
            elif target not in way.blocks or any({begin, target} <= one.blocks for one, _ in inside):
                size = way.instructions + flow.blocks[target].instructions
                if size > MOST_EXPANDED and inside:
                    message = f"an iteration of the loop has more than {MOST_EXPANDED:,} instructions"
                    raise AnalysisError(message, hint="let the loops inside run fewer times")
                visits = _visits(way, begin, target, inside)
                waiting.append(_Begun((*way.blocks, target), probability, count, size, visits))
        if len(found) >= MOST_WAYS:
            break
    if not found:
        raise AnalysisError("no way leads through the loop", hint="check the probabilities of its branches")
    kept = sum(way.probability for way in found)
    ways = [Way(way.blocks, way.probability / kept, way.taken) for way in found]
    return sorted(ways, key=lambda way: (-way.probability, way.blocks)), max(0.0, 1 - kept)


def _inside(flow: Flow, loop: Loop, times: Mapping[int, int]) -> list[tuple[Loop, int]]:
    """Return the loops inside with how often they run."""
    found = flow.inside(loop)
    missing = [number for number, one in found.items() if one.head not in times]
    if missing:
        message = f"loop {1 + flow.loops.index(loop)} has loops inside, and how often they run is not given"
        raise AnalysisError(message, hint=" ".join(f"--times {number}=10" for number in missing))
    return [(one, times[one.head]) for one in found.values()]


def _visits(way: _Begun, begin: int, target: int, inside: Sequence[tuple[Loop, int]]) -> Mapping[int, int]:
    """Return the visits of heads after a step between blocks; where a loop is entered, its count restarts."""
    for one, _ in inside:
        if one.head == target:
            return {**way.visits, target: way.visits[target] + 1 if begin in one.blocks else 1}
    return way.visits


def _allowed(way: _Begun, begin: int, inside: Sequence[tuple[Loop, int]]) -> Callable[[Sequence[int]], list[int]]:
    """Return a filter of a block's successors: it keeps those to which control goes, by the visits of the loops inside.

    A loop that ends with its branch back is done once its head was reached that often. One that is left elsewhere,
    such as at its head, reaches it once more.
    """

    def allowed(successors: Sequence[int]) -> list[int]:
        left = list(successors)
        for one, times in inside:
            leaving = [to for to in left if to not in one.blocks]
            if begin in one.blocks and leaving:
                has_run = way.visits[one.head] > times - (one.head in left)
                left = leaving if has_run else [to for to in left if to in one.blocks]
        return left

    return allowed


def _choices(
    block: FlowBlock, loop: Loop, taken: Mapping[int, float], allowed: Callable[[Sequence[int]], list[int]]
) -> list[tuple[int, float, bool]]:
    """Return where control goes from a block within a loop, with the probability, and whether the branch is taken."""
    stays = allowed([one for one in block.successors if one in loop.blocks])
    if len(stays) < 2:
        return [(one, 1.0, one == block.target) for one in stays]
    assert block.target is not None
    assert block.behind is not None
    share = taken.get(block.end, 0.5)
    return [(block.target, share, True), (block.behind, 1 - share, False)]


def branches_in(flow: Flow, loop: Loop) -> list[FlowBlock]:
    """Return the blocks of a loop whose branch can go either way: both stay inside, and it ends no inner loop."""
    inside = flow.inside(loop).values()

    def goes_either_way(begin: int) -> bool:
        stays = [to for to in flow.blocks[begin].successors if to in loop.blocks]
        around = [one for one in inside if begin in one.blocks]
        return len(stays) > 1 and all(one.blocks.issuperset(stays) for one in around)

    return [flow.blocks[begin] for begin in sorted(loop.blocks) if goes_either_way(begin)]
