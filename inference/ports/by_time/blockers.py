"""The instruction to block a set of ports with: one that keeps no other set's instructions waiting.

Most members of a set may agree that it is apart from another one, and one of them delays that one's instructions
nevertheless. On Zen 4, KMOVW uses two of the four vector pipes, and shuffles that share one of them wait for both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.sequences.blocking import CodeKind, fits
from inference.ports.by_time.members import SHARES, preference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from inference.experiment import Procedure
    from inference.ports.by_time.members import Member, MemberClass
    from inference.ports.by_time.mixes import Asked
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant

    Ask = Callable[[Sequence[tuple[Member, Member]]], Procedure[list[Asked]]]

MOST_TRIED = 5
"""Instructions of a set that are tried one after the other, until one contradicts nothing."""

SUBJECTS = 2
"""Instructions of each other set that are put among a blocking instruction."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """A blocking instruction with one of another set among it, which waits for it if its set is `nested`."""

    subject: Member
    blocker: Member
    nested: bool

    def contradicts(self, asked: Asked) -> bool:
        """Whether the subject clearly waits although it need not, or does not wait although it must.

        A subject that waits longer than it must decides nothing: it may be the reason itself.
        """
        if asked.answer is None:
            return False
        if self.nested:
            return asked.answer.uops == 0
        return asked.answer.most > 0 and min(asked.answer.values) > SHARES


def proved_blockers(
    classes: Sequence[MemberClass], ports: Sequence[PortSet], ask: Ask
) -> Procedure[list[dict[CodeKind, InstructionVariant]]]:
    """Return for each set the instruction to block with in each kind of code.

    Args:
        classes: the instructions of each set.
        ports: the ports of each set.
        ask: asks of pairs (subject, blocker) how many µops of the subject are confined to the blocker's set.
    """
    wrong: Counter[str] = Counter()
    tried: set[str] = set()
    for _ in range(MOST_TRIED):
        chosen = [{each.string for each in _blockers(one.members, wrong).values()} for one in classes]
        new = [
            [one for one in found.members if one.variant.string in each - tried]
            for found, each in zip(classes, chosen, strict=True)
        ]
        trials = [
            trial for number, some in enumerate(new) for one in some for trial in _trials(one, number, classes, ports)
        ]
        if not any(new):
            break
        tried |= {one.variant.string for some in new for one in some}
        answers = yield from ask([(one.subject, one.blocker) for one in trials])
        wrong.update(
            trial.blocker.variant.string for trial, one in zip(trials, answers, strict=True) if trial.contradicts(one)
        )
    return [
        _blockers(one.members, wrong)
        | _blockers([member for member in one.members if member.variant.string in tried], wrong)
        for one in classes
    ]


def _trials(blocker: Member, number: int, classes: Sequence[MemberClass], ports: Sequence[PortSet]) -> list[_Trial]:
    """Return the trials of one instruction of the class with that number."""
    return [
        _Trial(subject, blocker, ports[other] <= ports[number])
        for other, found in enumerate(classes)
        if other != number
        for subject in found.members[:SUBJECTS]
        if not classes[number].may_hold_another_of(subject)
    ]


def _blockers(members: Sequence[Member], wrong: Counter[str]) -> dict[CodeKind, InstructionVariant]:
    """Return the instruction to block with in each kind of code: of those that are least often `wrong` the best."""
    found = {}
    for kind in CodeKind:
        fitting = [one for one in members if fits(one.variant, kind) or _goes_with_sse(one.variant, kind)]
        if fitting:
            found[kind] = min(fitting, key=lambda one: (wrong[one.variant.string], preference(one))).variant
    return found


def _goes_with_sse(variant: InstructionVariant, kind: CodeKind) -> bool:
    """Whether it may stand in code without AVX nevertheless: 128 bits wide it leaves the upper halves clean.

    Only dirty upper halves cost transitions (Intel optimization manual, section on mixing AVX and SSE code). SSE
    instructions read what they write, so that few of them keep several ports busy.
    """
    widths = [operand.width_bits or 0 for operand in variant.operands]
    return kind is CodeKind.WITHOUT_AVX and variant.attributes.get("vex") == "1" and max(widths) <= 128
