"""Late forms: instructions that take longer after some producers of their operands.

A register that such a producer writes is marked until something else writes it. Rows of `models/late_forms.tsv` say how
many more cycles an instruction takes while one of its operands is marked. The operand `uppers` stands for the upper
halves of all vectors: a write of more than 128 bits marks them, until VZEROUPPER or VZEROALL. `flags` are the status
flags: an instruction that writes some of them marks them, until something writes all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from simulator.core.runs import executed
from simulator.instructions.locations import location_of
from xed_convert.model import MemoryAddress, OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simulator.core.compiler import Compiled
    from simulator.core.frontend import Frontend
    from simulator.core.runs import Repetition, Run
    from simulator.machines.late_rules import LateRule

UPPERS, FLAGS = "uppers", "flags"
CLEANING = frozenset({"VZEROUPPER", "VZEROALL"})
"""Mnemonics that make upper halves zero."""

ALL_FLAGS = frozenset({"CF", "ZF", "SF", "OF", "PF"})
"""What TEST writes (Intel SDM volume 2B)."""

MOST_COPIES = 64
"""Copies that are followed. Marks come and go within one copy, so they repeat at once."""


Mark = tuple[str, str]
"""A location, and the pattern of the producer that has written it."""


@dataclass(frozen=True, slots=True)
class _Role:
    """An instruction's additional cycles by mark, the marks that it sets, and the locations whose marks it ends."""

    late: tuple[tuple[Mark, int], ...]
    marks: frozenset[Mark]
    ends: frozenset[str]


class LateForms:
    """Follows the marks while a program is executed."""

    def __init__(self, frontend: Frontend, rules: Sequence[LateRule]) -> None:
        """Begin without marks."""
        self.frontend, self.rules = frontend, rules
        self.marks: frozenset[Mark] = frozenset()
        self._roles: dict[Compiled, _Role] = {}
        self._forms: dict[tuple[Compiled, int], Compiled] = {}

    def resolve(self, runs: Sequence[Run | Repetition]) -> list[Run | Repetition]:
        """Execute a trace and return it, with late forms of the instructions that read a marked operand."""
        return executed(runs, self._executed, lambda: self.marks, MOST_COPIES)

    def _executed(self, run: Run) -> Run:
        return self.frontend.run_of(tuple([self.execute(one) for one in run.code]), run.reads)

    def execute(self, one: Compiled) -> Compiled:
        """Execute one instruction; return its form under the present marks."""
        role = self._roles.get(one)
        if role is None:
            role = self._roles[one] = self._role(one)
        more = max((cycles for mark, cycles in role.late if mark in self.marks), default=0)
        if role.ends or role.marks:
            kept = frozenset(mark for mark in self.marks if mark[0] not in role.ends)
            self.marks = kept | role.marks
        return self._later(one, more) if more else one

    def _later(self, one: Compiled, more: int) -> Compiled:
        """Return the late form of an instruction: the results of its µops are ready `more` cycles later."""
        key = (one, more)
        if key not in self._forms:
            uops = tuple(replace(u, latency=u.latency + more * bool(u.writes)) for u in one.uops or ())
            self._forms[key] = replace(one, uops=uops)
        return self._forms[key]

    def _role(self, one: Compiled) -> _Role:
        string = one.variant.string
        written = frozenset(_written(one))
        late = [
            ((where, rule.producer), rule.cycles)
            for rule in self.rules
            if fnmatchcase(string, rule.consumer)
            for where in _places(one, rule.operand)
        ]
        made = {
            (where, rule.producer)
            for rule in self.rules
            if fnmatchcase(string, rule.producer)
            for where in ((rule.operand,) if rule.operand in {UPPERS, FLAGS} else written)
        }
        ends = written | ({UPPERS} if one.variant.iclass in CLEANING else frozenset())
        ends |= {FLAGS} if _writes_all_flags(one) else frozenset()
        return _Role(tuple(late), frozenset(made), ends)


def _places(one: Compiled, operand: str) -> Iterator[str]:
    """Yield the location of a rule's operand in an instruction."""
    if operand in {UPPERS, FLAGS}:
        yield operand
        return
    for found in one.variant.operands:
        value = one.values.get(found.index)
        if operand == f"{found.index}_addr" and isinstance(value, MemoryAddress):
            yield location_of(value.base)
        elif str(found.index) == operand and found.kind is OperandKind.REGISTER:
            yield location_of(one.register_of(found))


def _written(one: Compiled) -> Iterator[str]:
    for operand in one.variant.operands:
        if operand.kind is OperandKind.REGISTER and operand.written and one.register_of(operand):
            yield location_of(one.register_of(operand))


def _writes_all_flags(one: Compiled) -> bool:
    flags = {flag for operand in one.variant.operands for flag, how in operand.flags.items() if how == "w"}
    return flags >= ALL_FLAGS
