"""Code that runs again and again, followed instruction by instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Instruction = TypeVar("Instruction")
Found = TypeVar("Found")


def in_repeated(code: Sequence[Instruction], follow: Callable[[Instruction], Found]) -> list[Found]:
    """Return what `follow` finds for each instruction of code that has run before.

    `follow` changes a state, such as what each register holds. The code is followed twice, since its second run begins
    with what the first one has left. It decides alike in all later runs.
    """
    for one in code:
        follow(one)
    return [follow(one) for one in code]
