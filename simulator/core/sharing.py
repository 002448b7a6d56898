"""Move elimination: registers that share a physical one, and their limited number.

An eliminated move does not copy: after it, both registers share one physical register. Each physical register that two
or more registers share takes a slot. A slot becomes free in the cycle after all but one of its registers were
overwritten (`Sharing`).

Real cores learn late how many slots are taken (`SharingPipeline`): moves that were eliminated in the last cycles count
as one slot each, whether they need one or not. Only the analysis of code simulates that. Source of both: Abel and
Reineke, uiCA (ICS 2022), section 4.1.4, and its artifact.

    MOV RBX, RAX; MOV RCX, RAX; MOV RDX, RCX      one slot: RAX, RBX, RCX and RDX are one physical register
    MOV RBX, RAX; MOV RDX, RCX                    two slots
    ADD RBX, 1                                    the first one is free again
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from results.machine.constants import NO_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable


class RegisterFile(IntEnum):
    """The registers that a move copies (NONE: none that could share a physical one)."""

    NONE = 0
    GENERAL = 1
    VECTOR = 2


class Sharing:
    """The registers (numbers of locations) that share a physical one."""

    __slots__ = ("eliminated", "file_of", "group_of", "is_limited", "limits", "per_cycle", "released")

    def __init__(self, general: int, vector: int, per_cycle: int) -> None:
        """Begin with no register shared; the limits are those of `results.machine.constants.EliminationSlots`."""
        self.limits, self.per_cycle = (NO_LIMIT, general, vector), per_cycle
        self.is_limited = any(limit != NO_LIMIT for limit in (general, vector, per_cycle))
        self.group_of: dict[int, frozenset[int]] = {}
        self.file_of: dict[frozenset[int], RegisterFile] = {}
        self.released: tuple[int, tuple[RegisterFile, ...]] = (-1, ())  # in which cycle the last slots became free
        self.eliminated = (-1, 0)  # in which cycle the last moves were eliminated, and how many

    def copy(self) -> Sharing:
        """Return an independent copy of the state."""
        other = Sharing(*self.limits[1:], self.per_cycle)
        other.group_of, other.file_of = dict(self.group_of), dict(self.file_of)
        other.released, other.eliminated = self.released, self.eliminated
        return other

    def state(self, now: int) -> tuple[object, ...]:
        """Return everything that the future depends on, relative to a cycle."""
        last = [value for cycle, value in (self.released, self.eliminated) if cycle == now]
        return (frozenset(self.file_of), tuple(last))

    def move(self, file: RegisterFile, source: int, target: int, now: int) -> bool:
        """Eliminate a move in a cycle if that is possible, and say whether it was; it overwrites its target."""
        cycle, count = self.eliminated
        count = count if cycle == now else 0
        if self.per_cycle != NO_LIMIT and count >= self.per_cycle:
            self.overwrite((target,), now)
            return False
        group = self.group_of.get(source, frozenset({source}))
        if target not in group:
            self.overwrite((target,), now)
            if len(group) == 1 and not self._has_slot(file, now):
                return False
            self._replace(group, group | {target}, file)
        self.eliminated = (now, count + 1)
        return True

    def overwrite(self, targets: Iterable[int], now: int) -> None:
        """Let registers stand for physical ones of their own."""
        for target in targets:
            group = self.group_of.pop(target, None)
            if group is None:
                continue
            file, rest = self.file_of[group], group - {target}
            self._replace(group, rest, file)
            if len(rest) == 1:
                cycle, files = self.released
                self.released = (now, (*(files if cycle == now else ()), file))

    def _has_slot(self, file: RegisterFile, now: int) -> bool:
        """Whether one more physical register may be shared; slots that became free in this cycle are not yet."""
        limit, (cycle, files) = self.limits[file], self.released
        late = files.count(file) if cycle == now else 0
        return limit == NO_LIMIT or sum(1 for one in self.file_of.values() if one is file) + late < limit

    def _replace(self, group: frozenset[int], other: frozenset[int], file: RegisterFile) -> None:
        """Replace the members of a group; a group of a single register is dropped."""
        self.file_of.pop(group, None)
        if len(other) > 1:
            self.file_of[other] = file
            self.group_of.update(dict.fromkeys(other, other))
        else:
            for one in other:
                self.group_of.pop(one, None)


class SharingPipeline(Sharing):
    """The same on a core that learns late which slots are taken.

    In a cycle there are as many slots for further moves as were free `cycles` ago, less the moves that were eliminated
    since. A slot with a single register left becomes free at the end of a cycle without eliminated moves. With
    `all_overwritten`, a general-purpose slot becomes free only when all of its registers are overwritten.

    `moved` are moves that were eliminated in this cycle, in the one before, and so on. `used` are the slots that were
    taken at the end of the cycle before, of the one before that, and so on. Both are by register file.
    """

    __slots__ = ("all_overwritten", "cycle", "moved", "used")

    def __init__(self, general: int, vector: int, per_cycle: int, cycles: int, *, all_overwritten: bool) -> None:
        """Begin with no register shared; see `results.machine.constants.EliminationSlots`."""
        super().__init__(general, vector, per_cycle)
        self.all_overwritten = all_overwritten
        self.cycle = 0
        self.moved = [_NONE] * cycles
        self.used = [_NONE] * cycles

    def copy(self) -> SharingPipeline:
        """Return an independent copy of the state."""
        _, general, vector = self.limits
        cycles, kept = len(self.moved), self.all_overwritten
        other = SharingPipeline(general, vector, self.per_cycle, cycles, all_overwritten=kept)
        other.group_of, other.file_of = dict(self.group_of), dict(self.file_of)
        other.cycle, other.moved, other.used = self.cycle, list(self.moved), list(self.used)
        return other

    def state(self, now: int) -> tuple[object, ...]:
        """Return everything that the future depends on, relative to a cycle."""
        self._go_to(now)
        return (frozenset(self.file_of), tuple(self.moved), tuple(self.used))

    def move(self, file: RegisterFile, source: int, target: int, now: int) -> bool:
        """Eliminate a move in a cycle if that is possible, and say whether it was; it overwrites its target."""
        self._go_to(now)
        limit = self.limits[file]
        taken = sum(count[file] for count in self.moved) + self.used[-1][file]
        if (limit != NO_LIMIT and taken >= limit) or (
            self.per_cycle != NO_LIMIT and sum(self.moved[0]) >= self.per_cycle
        ):
            self.overwrite((target,), now)
            return False
        group = self.group_of.get(source, frozenset({source}))
        if target not in group:
            self.overwrite((target,), now)
            self._replace(group, group | {target}, file)
        self.moved[0] = tuple([count + (one == file) for one, count in enumerate(self.moved[0])])
        return True

    def overwrite(self, targets: Iterable[int], now: int) -> None:
        """Let registers stand for physical ones of their own."""
        self._go_to(now)
        for target in targets:
            group = self.group_of.pop(target, None)
            if group is not None:
                self._replace(group, group - {target}, self.file_of[group])

    def _go_to(self, now: int) -> None:
        """Advance to a cycle; only the last cycles before it count."""
        for _ in range(min(now - self.cycle, len(self.moved) + 1)):
            for group, file in tuple(self.file_of.items()):
                kept = file is RegisterFile.GENERAL and self.all_overwritten
                if len(group) == 1 and not kept and not self.moved[0][file]:
                    self._replace(group, frozenset(), file)
                    self.group_of.pop(next(iter(group)))
            taken = list(self.file_of.values())
            self.used = [tuple([taken.count(file) for file in RegisterFile]), *self.used[:-1]]
            self.moved = [_NONE, *self.moved[:-1]]
        self.cycle = now

    def _replace(self, group: frozenset[int], other: frozenset[int], file: RegisterFile) -> None:
        """Replace the members of a group; a single register may keep the slot."""
        self.file_of.pop(group, None)
        if other:
            self.file_of[other] = file
            self.group_of.update(dict.fromkeys(other, other))


_NONE = (0,) * len(RegisterFile)
"""No moves, or no slots, by register file."""
