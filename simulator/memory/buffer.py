"""Pending stores, and the data that a load gets from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.memory.parameters import PAGE_BYTES

if TYPE_CHECKING:
    from simulator.memory.parameters import ForwardingParameters


@dataclass(frozen=True, slots=True)
class BufferAccess:
    """An access to bytes from `offset` on, counted from the address `symbol`; `file` is that of its registers."""

    symbol: str
    offset: int
    size_bytes: int
    file: str

    @property
    def name(self) -> str:
        """The location in the core that holds the stored data."""
        return f"stored {self.symbol}{self.offset:+}:{self.size_bytes} {self.file}"

    def overlaps(self, other: BufferAccess) -> bool:
        """Whether both have a byte in common."""
        first, second = sorted((self, other), key=lambda one: one.offset)
        return self.symbol == other.symbol and second.offset < first.offset + first.size_bytes

    def contains(self, other: BufferAccess) -> bool:
        """Whether it has all bytes of another one."""
        end, other_end = self.offset + self.size_bytes, other.offset + other.size_bytes
        return self.symbol == other.symbol and self.offset <= other.offset and other_end <= end

    @property
    def in_two_pages(self) -> bool:
        """Whether it reaches from one page to the next."""
        return self.offset // PAGE_BYTES != (self.offset + self.size_bytes - 1) // PAGE_BYTES


@dataclass(frozen=True, slots=True)
class Forwarded:
    """The stores that a load overlaps, and the cycles from their data to the load's result."""

    stores: tuple[BufferAccess, ...]
    cycles: int

    @property
    def renamed(self) -> bool:
        """Whether the load takes the register that was stored."""
        return self.cycles == 0


class StoreBuffer:
    """The last stores, the youngest last."""

    def __init__(self, rules: ForwardingParameters) -> None:
        """Begin empty."""
        self.rules = rules
        self.stores: list[BufferAccess] = []

    def store(self, access: BufferAccess) -> None:
        """Add a store; the oldest one leaves if there is no room."""
        self.stores.append(access)
        del self.stores[: -self.rules.entries]

    def drain(self) -> None:
        """Let all stores be done."""
        self.stores.clear()

    def load(self, access: BufferAccess) -> Forwarded | None:
        """Return what a load gets from the stores, None if it gets nothing."""
        youngest = next((one for one in reversed(self.stores) if one.overlaps(access)), None)
        if youngest is None:
            return None
        rules, files = self.rules, (youngest.file, access.file)
        whole = youngest.contains(access) and (rules.across_pages or not youngest.in_two_pages)
        if not whole:
            found = dict.fromkeys(one for one in self.stores if one.overlaps(access))
            return Forwarded(tuple(found), rules.failed[files])
        same = (youngest.offset, youngest.size_bytes) == (access.offset, access.size_bytes)
        if same and files == ("general", "general") and access.size_bytes in rules.renamed_bytes:
            return Forwarded((youngest,), 0)
        return Forwarded((youngest,), rules.forwarded[files])
