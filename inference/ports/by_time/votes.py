"""Votes of instructions about the sets of ports of two classes: one disturbed answer decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference.ports.by_time.members import SHARES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from inference.experiment import Procedure
    from inference.ports.by_time.members import Member, MemberClass
    from inference.ports.by_time.mixes import Asked

REPRESENTATIVES, ENOUGH_VOTES = 5, 2
"""Pairs of members that vote at most on the sets of two classes, and votes by which one side must lead."""

Places = tuple[int, int]
"""Two classes of a list."""


def voted(
    classes: Sequence[MemberClass],
    pairs: Sequence[Places],
    ballot: Callable[[Sequence[Places], Sequence[tuple[Member, Member]]], Procedure[list[bool | None]]],
) -> Procedure[dict[Places, list[bool]]]:
    """Return the votes about pairs of classes: one disturbed answer about their first members decides nothing.

    `ballot` is given pairs and a member of either class, and returns a vote of each (None: it cannot say). Up to
    `REPRESENTATIVES` members vote, until one side has `ENOUGH_VOTES` more.
    """
    votes: dict[Places, list[bool]] = {pair: [] for pair in pairs}
    for place in range(REPRESENTATIVES):
        open_ = [pair for pair, each in votes.items() if abs(lead(each)) < ENOUGH_VOTES]
        if not open_:
            break
        found = yield from ballot(open_, [(classes[i].at(place), classes[o].at(place)) for i, o in open_])
        for pair, vote in zip(open_, found, strict=True):
            if vote is not None:
                votes[pair].append(vote)
    return votes


def vote_of(asked: Asked) -> bool | None:
    """Return whether an instruction is confined to a set (None: the answer does not say).

    What is not confined to it never waits for it, and what is may take longer than its one µop.
    """
    if asked.answer is None or (asked.answer.most and min(asked.answer.values) <= SHARES):
        return None
    return asked.answer.most > 0


def vote_on_same(ways: Iterable[Asked]) -> bool | None:
    """Return whether two instructions have one set, from the answers about either beside the other (None: not told)."""
    uops = {one.uops for one in ways}
    return False if 0 in uops else True if uops == {1} else None


def lead(votes: Sequence[bool]) -> int:
    """Return how many more votes are for it than against it."""
    return 2 * sum(votes) - len(votes)


def won(votes: Sequence[bool]) -> bool:
    """Whether more than half vote for it."""
    return lead(votes) > 0
