"""Accesses to memory: what an instruction reads and writes, and which loads read what stores wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from results.machine.constants import MemoryRenaming
    from xed_convert.model import MemoryAddress


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A memory access of an instruction: address and bytes. In the address of PUSH, RSP is already moved.

    `is_general` says that the value comes from, or goes to, general-purpose registers only; `is_vector` that a vector
    register is among them. `is_plain` says that what is read is neither computed with nor stored again.
    """

    place: MemoryAddress
    size: int
    reads: bool
    writes: bool
    is_general: bool
    is_vector: bool
    is_plain: bool

    def can_be_renamed(self, renaming: MemoryRenaming) -> bool:
        """Whether its width and its address are such that it may be renamed: not absolute, nor relative to RIP."""
        named = self.place.base in renaming.bases if renaming.bases else self._has_base
        return self._is_of_kind(renaming) and named and (renaming.indexed or not self.place.index)

    def can_be_predicted(self, renaming: MemoryRenaming) -> bool:
        """Whether it may be renamed in a loop: likewise, but with any address, unless it both reads and writes."""
        return self._is_of_kind(renaming) and (self._has_base or not (self.reads and self.writes))

    def _is_of_kind(self, renaming: MemoryRenaming) -> bool:
        return self.is_general and self.is_plain and 8 * self.size in renaming.widths

    @property
    def _has_base(self) -> bool:
        return self.place.base not in ("", "RIP", "EIP")


@dataclass(frozen=True, slots=True)
class ForwardedLoad:
    """A load reads what a store wrote `iterations` ago (0: in the same one).

    With `whole` the store wrote all that is read, at the same address: it can be forwarded. Else the load waits until
    it is in the cache. `renamed` says that the core sees at rename where the value is, so that nothing is forwarded;
    `predictable` that it can learn so in a loop; `vectors` that both are of vector registers.
    """

    load: int
    store: int
    iterations: int
    whole: bool
    renamed: bool = False
    vectors: bool = False
    predictable: bool = False
