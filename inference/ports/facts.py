"""What port inference has found out, as data: the steps that led to a usage, and why none is stated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from results.ports import describe

if TYPE_CHECKING:
    from fractions import Fraction

    from results.model import PortUsage
    from results.ports import PortSet


@dataclass(frozen=True, slots=True)
class Blocked:
    """So many blocking instructions, by the string of their variant."""

    count: int
    string: str

    def __str__(self) -> str:
        """Write it as `8 x ADD (R64, R64)`."""
        return f"{self.count} x {self.string}"


@dataclass(frozen=True, slots=True)
class PortAnswer:
    """What ran on `ports` while blocking instructions kept them busy.

    `total` µops ran there per copy (`timed`: that many had time to). Of these `blocking` are of the blocking
    instructions and `breakers` of dependency breakers. The rest is the answer; `most` is set where that is only an
    upper bound. `in_turns` tells whether the blocking instructions alternate.
    """

    ports: PortSet
    blocked_by: tuple[Blocked, ...]
    total: Fraction
    blocking: int
    breakers: int = 0
    timed: bool = False
    most: int | None = None
    in_turns: bool = False

    def __str__(self) -> str:
        """Say what kept which ports busy, and the arithmetic that gives the answer."""
        name = describe([self.ports])
        kept = (" and " if self.in_turns else ", then ").join(map(str, self.blocked_by))
        total = f"{float(self.total):.4g} µops on {name}"
        breakers = f" - {self.breakers} of dependency breakers" if self.breakers else ""
        count = float(self.total - self.blocking - self.breakers) or 0.0
        bound = "" if self.most is None else f", at most {self.most}"
        ran = f"time for {total}" if self.timed else total
        return f"with {name} kept busy by {kept}: {ran} - {self.blocking}{breakers} = {count:.2g}{bound}"


@dataclass(frozen=True, slots=True)
class PortControl:
    """The same experiment with copies of another instruction, none of which needs `ports`; `ran` of its µops did."""

    other: Blocked
    ports: PortSet
    ran: Fraction

    def __str__(self) -> str:
        """Say what stood in the place of the instruction, and how much of it ran on the blocked ports."""
        what = f"{self.other} in its place"
        return f"the same with {what}, none of which has to run on {describe([self.ports])}: {float(self.ran):.2g} do"


@dataclass(frozen=True, slots=True)
class LongerSequence:
    """A sequence of more instances, which takes fewer `cycles` per instance than the first one."""

    instances: int
    cycles: Fraction

    def __str__(self) -> str:
        """Say how long each instance takes."""
        return f"{self.instances} instances take {float(self.cycles):.2f} cycles each, less than fewer of them"


Step: TypeAlias = PortAnswer | PortControl | LongerSequence


@dataclass(frozen=True, slots=True)
class Confined:
    """How many µops are confined to a port set: exactly, or at most."""

    ports: PortSet
    uops: int
    exact: bool = True

    def __str__(self) -> str:
        """Write it as `p06: 1` or `p06: ≤1`."""
        return f"{describe([self.ports])}: {'' if self.exact else '≤'}{self.uops}"


@dataclass(frozen=True, slots=True)
class FractionalUops:
    """The µops per port add up to no integer."""

    total: Fraction

    def __str__(self) -> str:
        """Say it in a sentence."""
        return f"the µops per port add up to {float(self.total):.2f}, which is not an integer"


@dataclass(frozen=True, slots=True)
class TooManyUops:
    """No number of blocking instructions outweighs so many µops."""

    uops: int

    def __str__(self) -> str:
        """Say it in a sentence."""
        return f"{self.uops} µops are too many to be told apart by blocking ports"


@dataclass(frozen=True, slots=True)
class OnlyBounds:
    """The µops fill the scheduler, blocked ports run dry, and only upper bounds are known."""

    uops: int
    bounds: tuple[Confined, ...]

    def __str__(self) -> str:
        """Say it in a sentence."""
        bounds = ", ".join(f"{one.uops} to {describe([one.ports])}" for one in self.bounds)
        return (
            f"{self.uops} µops fill the scheduler, so that blocked ports run dry and no count is exact; "
            f"confined are at most {bounds}"
        )


@dataclass(frozen=True, slots=True)
class Indistinguishable:
    """Several usages explain every answer: some of them by name, and how many `others` there are."""

    usages: tuple[PortUsage, ...]
    others: int = 0
    answers: tuple[Confined, ...] = ()

    def __str__(self) -> str:
        """Say it in a sentence."""
        named = [*map(str, self.usages), *([f"{self.others} others"] if self.others else [])]
        return f"these port usages cannot be told apart: {' or '.join(named)} (answers: {listed(self.answers)})"


@dataclass(frozen=True, slots=True)
class TooManyUsages:
    """More usages explain the answers than can be listed."""

    answers: tuple[Confined, ...]

    def __str__(self) -> str:
        """Say it in a sentence."""
        answers = listed(self.answers) or "isolation alone"
        return f"so many port usages explain the answers that they cannot be listed: {answers}"


@dataclass(frozen=True, slots=True)
class NoUsage:
    """No usage made of these port sets explains the answers."""

    sets: tuple[PortSet, ...]
    answers: tuple[Confined, ...]

    def __str__(self) -> str:
        """Say it in a sentence."""
        answers = listed(self.answers) or "isolation alone"
        return f"no port usage made of {describe(self.sets)} explains the answers: {answers}"


Failure: TypeAlias = FractionalUops | TooManyUops | OnlyBounds | Indistinguishable | TooManyUsages | NoUsage


def listed(answers: tuple[Confined, ...]) -> str:
    """Write answers as `p06: 1, p0156: ≤2`."""
    return ", ".join(map(str, answers))
