"""Takes programs apart into basic blocks, and counts how often each block stands in the program.

A block begins at a function, at the target of a direct branch, and behind every branch and call. It ends before its
branch. Branches and calls belong to no block, since copies of a block follow each other. NOPs alone are no block: they
only align the next one. Code is decoded from each function's beginning on, as the file's symbols say. What they leave
out (all of a stripped program) is decoded from the beginning of its section, and a byte that is no instruction is
passed over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from iced_x86 import Decoder, FlowControl, Mnemonic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.own_code.reading.objects import ElfProgram, ElfSection

FALLS_THROUGH = {FlowControl.NEXT}
JUMPS = {FlowControl.UNCONDITIONAL_BRANCH, FlowControl.CONDITIONAL_BRANCH, FlowControl.XBEGIN_XABORT_XEND}
MOST_BYTES = 4096
"""Of a block; longer ones are tables that were taken for code."""
PADDING = {0x90, 0xCC, 0x00}


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """A basic block: its bytes, how many instructions, how often it stands in the program, and where first."""

    code: bytes
    instructions: int
    count: int
    address: int
    function: str


@dataclass(slots=True)
class _Decoded:
    """A section: where instructions begin and end, where blocks must begin, and where branches and NOPs are."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    leaders: set[int] = field(default_factory=set)
    branches: set[int] = field(default_factory=set)
    idle: set[int] = field(default_factory=set)


def blocks_of(program: ElfProgram, function: str | None = None) -> list[BasicBlock]:
    """Return the blocks of a program, or of the functions of that name, those first that occur most often."""
    counts: Counter[bytes] = Counter()
    first: dict[bytes, tuple[int, int, str]] = {}
    names = {(one.section, one.address): one.name for one in program.symbols if one.name}
    for section in program.sections:
        begins = sorted(address for number, address in names if number == section.index)
        for address, code, instructions in _blocks(section, begins, _ranges(program, section, function)):
            counts[code] += 1
            if code not in first:
                at = bisect_left(begins, address + 1) - 1
                name = names[section.index, begins[at]] if at >= 0 else ""
                first[code] = (address, instructions, name)
    return [
        BasicBlock(code, first[code][1], count, first[code][0], first[code][2])
        for code, count in sorted(counts.items(), key=lambda pair: (-pair[1], first[pair[0]][0]))
    ]


def _ranges(program: ElfProgram, section: ElfSection, function: str | None) -> list[tuple[int, int]]:
    """Return the addresses between which code is wanted."""
    if function is None:
        return [(section.address, section.address + len(section.code))]
    return [
        (symbol.address, symbol.address + len(code))
        for symbol, code in program.functions(function)
        if symbol.section == section.index
    ]


def _blocks(
    section: ElfSection, begins: Iterable[int], ranges: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, bytes, int]]:
    """Yield address, bytes and number of instructions of each block in those ranges."""
    decoded = _decode(section, sorted(begins))
    for low, high in ranges:
        first, last = bisect_left(decoded.starts, low), bisect_left(decoded.starts, high)
        run: list[int] = []
        for index in range(first, last):
            at = decoded.starts[index]
            if run and (at in decoded.leaders or decoded.ends[run[-1]] != at):
                yield from _cut(section, decoded, run)
                run = []
            if at not in decoded.branches:
                run.append(index)
        if run:
            yield from _cut(section, decoded, run)


def _cut(section: ElfSection, decoded: _Decoded, run: list[int]) -> Iterator[tuple[int, bytes, int]]:
    """Yield the block of those instructions, if it is one."""
    start, end = decoded.starts[run[0]], decoded.ends[run[-1]]
    code = section.code[start - section.address : end - section.address]
    works = any(decoded.starts[index] not in decoded.idle for index in run)
    if works and len(code) <= MOST_BYTES and not set(code) <= PADDING:
        yield start, code, len(run)


def _decode(section: ElfSection, begins: list[int]) -> _Decoded:
    """Decode a section; at each function's beginning decoding begins anew."""
    found = _Decoded(leaders=set(begins))
    edges = [section.address, *begins, section.address + len(section.code)]
    for low, high in pairwise(edges):
        code = section.code[low - section.address : high - section.address]
        for instruction in Decoder(64, code, ip=low):
            if instruction.is_invalid:
                continue
            flow = instruction.flow_control
            if instruction.mnemonic == Mnemonic.NOP:
                found.idle.add(instruction.ip)
            found.starts.append(instruction.ip)
            found.ends.append(instruction.next_ip)
            if flow not in FALLS_THROUGH:
                found.branches.add(instruction.ip)
                found.leaders.add(instruction.next_ip)
            if flow in JUMPS and instruction.op_count and instruction.near_branch_target:
                found.leaders.add(instruction.near_branch_target)
    return found
