"""What an AArch64 instruction reads and writes: from its text, by `operands.tsv`, and from LLVM's tied operands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.aarch64.llvm import Described

FLAGS = "NZCV"
_REGISTER = re.compile(r"(?<![\w#.:])(?:([wx])(\d+|sp|zr)|(sp)|([bhsdqvz])(\d+)|(p)(\d+))(?![\w:])")
_WRITES_BASE = re.compile(r"\]!|\],\s*(?:#|[wx]\d)")
"""Pre-index and post-index addresses."""


@dataclass(frozen=True, slots=True)
class RegisterEffects:
    """Registers by place (`X0`, `V1`, `P2`, flags as `NZCV`) that an instruction reads and writes.

    `base` is the register that an address with write-back changes ("": none); that takes a cycle.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    base: str = ""


@dataclass(frozen=True, slots=True)
class _Rule:
    mnemonic: str
    results: str
    flags: str


@cache
def _rules() -> tuple[_Rule, ...]:
    text = resources.files("analysis.aarch64").joinpath("operands.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if line and line[0] != "#"][1:]
    return tuple(_Rule(*row[:3]) for row in rows)


def registers_in(text: str) -> list[str]:
    """Return the registers that a text names, in order, by place: W0 and X0 are one, so are S0, D0, Q0, V0 and Z0."""
    found = []
    for match in _REGISTER.finditer(text.lower()):
        _, general, stack, _, vector, _, predicate = match.groups()
        if stack or general == "sp":
            found.append("SP")
        elif general is not None and general != "zr":
            found.append(f"X{general}")
        elif vector is not None:
            found.append(f"V{vector}")
        elif predicate is not None:
            found.append(f"P{predicate}")
    return found


def effects_of(one: Described) -> RegisterEffects:
    """Return what an instruction reads and writes."""
    mnemonic, _, operands = one.text.partition(" ")
    rule = next(rule for rule in _rules() if fnmatchcase(mnemonic, rule.mnemonic))
    data, bracket, address = operands.partition("[") if _names_memory(operands) else (operands, "", "")
    outside = registers_in(_without_zero(data))
    inside = registers_in(address)
    places = _results(rule, data, outside)
    writes = [outside[place] for place in places]
    reads = [name for number, name in enumerate(outside) if number not in places] + inside
    if writes and _is_tied(one, places):
        reads += writes
    base = inside[0] if bracket and inside and _WRITES_BASE.search(operands) else ""
    flags = [FLAGS]
    reads += flags * ("r" in rule.flags)
    writes += flags * ("w" in rule.flags)
    return RegisterEffects(tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes)), base)


def _names_memory(operands: str) -> bool:
    """Whether a bracket begins an address, and not the number of a lane (`v0.d[1]`)."""
    return re.search(r"(?<![\w.}])\[", operands) is not None


def _without_zero(data: str) -> str:
    """Return operands with another name for zero registers, so that these keep their place among the registers."""
    return re.sub(r"\b[wx]zr\b", "x99", data)


def _results(rule: _Rule, data: str, outside: list[str]) -> set[int]:
    """Return the places of the registers that are written, from 0, among those outside of the address."""
    if rule.results == "-":
        return set()
    if rule.results == "all":
        listed = re.search(r"\{[^}]*\}", data)
        return set(range(len(registers_in(listed[0])))) if listed else {0} & set(range(len(outside)))
    return {int(place) - 1 for place in rule.results.split(",") if int(place) <= len(outside)}


def _is_tied(one: Described, places: set[int]) -> bool:
    """Whether LLVM holds the first operand twice, although the text names it once: it is read, too."""
    if places != {0} or one.name.lower().endswith(("pre", "post")) or not one.registers:
        return False
    return one.registers.count(one.registers[0]) > 1
