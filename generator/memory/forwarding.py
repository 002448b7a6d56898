"""Store-to-load forwarding: a chain of stores and loads, in which each store waits for the load before it.

    MOV [R14+32], RAX        the store
    MOV RAX, [R14+32]        the load: other sizes, an offset, other registers in the address
    IMUL RAX, RAX            the link: leads from the load to the next store

Without the link, a load of zero cycles would look like one of one cycle, since a core stores once or twice per cycle.
`reference` measures the link alone. If store and load use different register files, the link is a move from one to the
other. Only the sum of a move there and one back can be measured, and each counts as half of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.memory.accesses import WITHOUT_AVX, AccessInstructions, File
from generator.microbenchmark import Microbenchmark
from results.memory.model import Addressing, LineCrossing
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from generator.factory import InstructionFactory
    from generator.microbenchmark import Line

LINE_BYTES = 64
"""Of a cache line on every x86-64 core (CPUID leaf 1, EBX bits 8 to 15)."""
PAGE_BYTES = 4096
SHUFFLES = 4
"""Shuffles of a link: with 4 cycles it takes longer than a core needs from one store of 64 bytes to the next."""


@dataclass(frozen=True, slots=True)
class ForwardingCase:
    """One case of the matrix: the load begins `offset_bytes` behind the store's first byte."""

    store: AccessInstructions
    load: AccessInstructions
    offset_bytes: int
    place: LineCrossing = LineCrossing.LINE
    addressing: Addressing = Addressing.SAME

    @property
    def contained(self) -> bool:
        """Whether the store writes all that is loaded."""
        return 0 <= self.offset_bytes <= self.store.size_bytes - self.load.size_bytes


def offsets(store: AccessInstructions, load: AccessInstructions) -> range:
    """Return the offsets in bytes at which the load sees at least one byte of the store."""
    return range(1 - load.size_bytes, store.size_bytes)


def cells(known: Sequence[AccessInstructions]) -> Iterator[ForwardingCase]:
    """Yield every case: all pairs of accesses at all offsets, in each place, and with other registers in one line."""
    for place, addressing in (*((place, Addressing.SAME) for place in LineCrossing), *_ADDRESSINGS):
        for store in known:
            for load in known:
                found = (ForwardingCase(store, load, offset, place, addressing) for offset in offsets(store, load))
                yield from (cell for cell in found if begin(cell) is not None)


_ADDRESSINGS = tuple((LineCrossing.LINE, one) for one in Addressing if one is not Addressing.SAME)


def begin(cell: ForwardingCase) -> int | None:
    """Return where in the area the store begins, in bytes, or None where nothing fits the place."""
    first, last = min(0, cell.offset_bytes), max(cell.store.size_bytes, cell.offset_bytes + cell.load.size_bytes)
    if cell.place is LineCrossing.LINE:
        return _inside(cell.store.size_bytes, first, last)
    border = LINE_BYTES if cell.place is LineCrossing.LINES else PAGE_BYTES
    if cell.store.size_bytes > 1:
        return border - cell.store.size_bytes // 2
    if last > 1:
        return border - 1
    return border if first < 0 else None


def _inside(size_bytes: int, first: int, last: int) -> int | None:
    """Return the first multiple of the store's size with bytes `first` to `last` around it in one line, if any."""
    fits = (at for at in range(0, LINE_BYTES, size_bytes) if at + first >= 0 and at + last <= LINE_BYTES)
    return next(fits, None)


class ForwardingCode:
    """Makes the chains of a machine's cells."""

    def __init__(self, instructions: InstructionFactory) -> None:
        """Take instructions from there."""
        self._instructions = instructions

    def chain(self, cell: ForwardingCase, times: int = 1) -> Microbenchmark:
        """Return store, load and link of a cell, `times` times one after another.

        Raises:
            ValueError: nothing fits the cell's place.
        """
        at = begin(cell)
        if at is None:
            message = f"no load at offset {cell.offset_bytes} fits {cell.place}"
            raise ValueError(message)
        store, load = cell.store, cell.load
        to, out_of = self._places(cell.addressing, at, at + cell.offset_bytes)
        body = (
            store.store_line(self._instructions, to),
            load.load_line(self._instructions, out_of),
            *self.link(load, store),
        )
        setup = self._setup(cell.addressing)
        what = f"{load.name} of {store.name} at offset {cell.offset_bytes}, {cell.place}, {cell.addressing}"
        again = f", {times} times" if times > 1 else ""
        return Microbenchmark(setup, body * times, f"store forwarding: {what}{again}", times)

    def link(self, begin_at: AccessInstructions, end_at: AccessInstructions) -> tuple[Line, ...]:
        """Return what leads from one access's register to another's."""
        make, without = self._instructions.line, begin_at.name.endswith(WITHOUT_AVX)
        match begin_at.file, end_at.file:
            case File.GENERAL, File.GENERAL:
                return (make("IMUL (R64, R64)", "RAX", "RAX"),)
            case File.VECTOR, File.VECTOR:
                shuffle = "PSHUFD (XMM, XMM, I8)" if without else "VPSHUFD (XMM, XMM, I8)"
                return SHUFFLES * (make(shuffle, "XMM0", "XMM0", 0),)
            case File.VECTOR, _:
                return (make("MOVQ (R64, XMM)" if without else "VMOVQ (R64, XMM)", "RAX", "XMM0"),)
        return (make(f"{'' if end_at.name.endswith(WITHOUT_AVX) else 'V'}MOVQ (XMM, R64)", "XMM0", "RAX"),)

    def reference(self, begin_at: AccessInstructions, end_at: AccessInstructions) -> Microbenchmark:
        """Return the link alone as a closed chain; between two files of registers there and back."""
        back = self.link(end_at, begin_at) if begin_at.file is not end_at.file else ()
        names = f"{begin_at.file} to {end_at.file}"
        return Microbenchmark((), (*self.link(begin_at, end_at), *back), f"store forwarding: the link, {names}")

    def _setup(self, addressing: Addressing) -> tuple[Line, ...]:
        """Return what makes the other register of the load's address, by a product: a move would only rename it."""
        make = self._instructions.line
        if addressing is Addressing.BASE:
            return (make("MOV (R64, I32)", "RSI", 1), make("IMUL (R64, R64)", "RSI", "R14"))
        if addressing is Addressing.OTHER_INDEX:
            return (make("MOV (R64, I32)", "R12", 0), make("IMUL (R64, R64)", "R12", "R12"))
        return ()

    @staticmethod
    def _places(addressing: Addressing, store: int, load: int) -> tuple[MemoryAddress, MemoryAddress]:
        """Return the places of store and load, in bytes from the area's middle; R12 and R13 are zero."""
        match addressing:
            case Addressing.SAME:
                return MemoryAddress("R14", displacement=store), MemoryAddress("R14", displacement=load)
            case Addressing.BASE:
                return MemoryAddress("R14", displacement=store), MemoryAddress("RSI", displacement=load)
            case Addressing.INDEX:
                return MemoryAddress("R14", "R13", 1, store), MemoryAddress("R14", "R13", 1, load)
        return MemoryAddress("R14", "R13", 1, store), MemoryAddress("R14", "R12", 1, load)
