"""Times of loads and stores: latency by address, size and place, throughput, gathers, flushes.

Each case is a microbenchmark with a kind and parameters. Latencies are chains through the loaded register, whose memory
holds zero, or a pointer to itself:

    MOV RAX, [RAX]              the memory at R14 holds R14
    MOV RAX, [R14+RAX+60]       the memory is zero: the load reaches into the next line
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.memory.forwarding import LINE_BYTES, PAGE_BYTES
from generator.microbenchmark import Microbenchmark
from xed_convert.errors import UnknownInstructionError
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from generator.factory import InstructionFactory
    from generator.memory.accesses import AccessInstructions
    from generator.microbenchmark import Line
    from xed_convert.model import InstructionVariant

INSTANCES = 16
"""Independent loads or stores of a throughput: more than any core begins in the cycles that one takes."""
FAR = 2 * PAGE_BYTES
"""Bytes from the area's middle to where stores of other cases are, so that these disturb no chain."""


@dataclass(frozen=True, slots=True)
class TimesCase:
    """What is measured: its kind, its parameters in order, the code, and what its cycles are divided by.

    `minus` is another kind of code whose cycles are taken off (None: nothing is): that of the chain alone.
    """

    kind: str
    parameters: tuple[tuple[str, str], ...]
    benchmark: Microbenchmark
    divisor: int = 1
    minus: Microbenchmark | None = None


@dataclass(frozen=True, slots=True)
class _Address:
    """A way to write an address in which RAX is the loaded register; `pointer`: what it holds is R14, not zero."""

    name: str
    address: MemoryAddress
    pointer: bool


ADDRESSES = (
    _Address("base", MemoryAddress("RAX"), pointer=True),
    _Address("base+disp8", MemoryAddress("RAX", displacement=8), pointer=True),
    _Address("base+disp32", MemoryAddress("RAX", displacement=256), pointer=True),
    _Address("base+index", MemoryAddress("R14", "RAX", 1), pointer=False),
    _Address("index+base", MemoryAddress("RAX", "R13", 1), pointer=True),
    _Address("base+index*4", MemoryAddress("R14", "RAX", 4), pointer=False),
    _Address("base+index*8+disp32", MemoryAddress("R14", "RAX", 8, 256), pointer=False),
)
EXTENSIONS = (
    ("MOV (R64, M64)", "RAX"),
    ("MOV (R32, M32)", "EAX"),
    ("MOVZX (R32, M8)", "EAX"),
    ("MOVZX (R32, M16)", "EAX"),
    ("MOVZX (R64, M16)", "RAX"),
    ("MOVSX (R32, M8)", "EAX"),
    ("MOVSX (R64, M8)", "RAX"),
    ("MOVSX (R64, M16)", "RAX"),
    ("MOVSXD (R64, M32)", "RAX"),
    ("MOV (R16, M16)", "AX"),
    ("MOV (R8l, M8)", "AL"),
)
NON_TEMPORAL = (
    ("MOVNTI (M64, R64)", "RBX", 8),
    ("VMOVNTDQ (M128, XMM)", "XMM1", 16),
    ("VMOVNTDQ (M256, YMM)", "YMM1", 32),
    ("VMOVNTDQ (M512, ZMM)", "ZMM1", 64),
)
WIDTHS = {"XMM": 4, "YMM": 8, "ZMM": 16}
"""Elements of 32 bits in a gather or scatter."""


class TimingCode:
    """Makes the cases of a machine."""

    def __init__(self, instructions: InstructionFactory, lacks: Callable[[InstructionVariant], str]) -> None:
        """Take instructions from there; `lacks` says why the CPU cannot run a variant ("": it can)."""
        self._make = instructions.line
        self._instructions, self._lacks = instructions, lacks

    def cases(self, known: Sequence[AccessInstructions]) -> Iterator[TimesCase]:
        """Yield every case; `known` are the stores and loads that there are."""
        yield from self._latencies()
        yield from self._aliasing()
        yield from self._throughputs(known)
        yield from self._streaming()
        yield from self._flushes()
        yield from self._gathers()

    def _has(self, string: str) -> bool:
        try:
            return not self._lacks(self._instructions.variant(string))
        except UnknownInstructionError:
            return False

    def _chain(
        self, kind: str, parameters: dict[str, str], body: Sequence[Line], setup: Sequence[Line] = ()
    ) -> TimesCase:
        code = Microbenchmark(tuple(setup), tuple(body), _purpose(kind, parameters))
        return TimesCase(kind, tuple(parameters.items()), code)

    def _latencies(self) -> Iterator[TimesCase]:
        for one in ADDRESSES:
            place = MemoryAddress("R14", displacement=one.address.displacement)
            setup = (
                self._make("MOV (M64, R64)", place, "R14"),
                self._make("MOV_89 (R64, R64)", "RAX", "R14"),
            )
            body = (self._make("MOV (R64, M64)", "RAX", one.address),)
            yield self._chain("load latency", {"address": one.name}, body, setup if one.pointer else ())
        zero = MemoryAddress("R14", "RAX", 1)
        for string, register in EXTENSIONS:
            yield self._chain("load latency", {"load": string}, (self._make(string, register, zero),))
        for name, offset in (("line", LINE_BYTES - 4), ("page", PAGE_BYTES - 4)):
            body = (self._make("MOV (R64, M64)", "RAX", MemoryAddress("R14", "RAX", 1, offset)),)
            yield self._chain("load latency", {"crossing": name}, body)

    def _aliasing(self) -> Iterator[TimesCase]:
        """Yield a load behind a store whose address is the same in the lowest 12 bits, and behind another one."""
        load = self._make("MOV (R64, M64)", "RAX", MemoryAddress("R14", "RAX", 1, LINE_BYTES))
        for name, offset in (("4 KiB apart", PAGE_BYTES + LINE_BYTES), ("elsewhere", PAGE_BYTES + 8 * LINE_BYTES)):
            store = self._make("MOV (M64, R64)", MemoryAddress("R14", displacement=offset), "RBX")
            yield self._chain("load latency", {"behind a store": name}, (store, load))

    def _throughputs(self, known: Sequence[AccessInstructions]) -> Iterator[TimesCase]:
        for access in known:
            sides = (("load throughput", 0, self._loads), ("store throughput", FAR, self._stores))
            for kind, begin, make in sides:
                for spacing in dict.fromkeys((0, access.size_bytes, LINE_BYTES)):
                    lines = make(access, [begin + spacing * number for number in range(INSTANCES)])
                    yield _many(kind, {"access": access.name, "bytes apart": str(spacing)}, lines)
            for name, border in (("line", LINE_BYTES), ("page", PAGE_BYTES)) if access.size_bytes > 1 else ():
                for kind, begin, make in sides:
                    lines = make(access, [begin + border - access.size_bytes // 2] * INSTANCES)
                    yield _many(kind, {"access": access.name, "crossing": name}, lines)

    def _loads(self, access: AccessInstructions, offsets: Sequence[int]) -> list[Line]:
        """Return loads from these places, in bytes from R14, to eight registers by turns."""
        places = [MemoryAddress("R14", displacement=offset) for offset in offsets]
        return [self._make(access.load, _other(access.loaded, n % 8), place) for n, place in enumerate(places)]

    def _stores(self, access: AccessInstructions, offsets: Sequence[int]) -> list[Line]:
        """Return stores to these places, in bytes from R14."""
        places = [MemoryAddress("R14", displacement=offset) for offset in offsets]
        return [access.store_line(self._instructions, place) for place in places]

    def _streaming(self) -> Iterator[TimesCase]:
        """Yield non-temporal stores that fill line after line."""
        for string, register, size_bytes in NON_TEMPORAL:
            if self._has(string):
                places = (MemoryAddress("R14", displacement=FAR + size_bytes * n) for n in range(INSTANCES))
                lines = tuple(self._make(string, place, register) for place in places)
                parameters = (("store", string), ("bytes apart", str(size_bytes)))
                yield TimesCase(
                    "non-temporal stores", parameters, Microbenchmark((), lines, string, INSTANCES), INSTANCES
                )

    def _flushes(self) -> Iterator[TimesCase]:
        place = MemoryAddress("R14", displacement=FAR)
        touch = self._make("MOV (M64, R64)", place, "RBX")
        for string in ("CLFLUSH (M512)", "CLFLUSHOPT (M512)", "CLWB (M512)"):
            if self._has(string):
                flush = self._make(string, place)
                name = string.partition(" ")[0]
                yield self._chain("flush", {"instruction": name, "line": "always the same, not cached"}, (flush,))
                yield self._chain(
                    "flush", {"instruction": name, "line": "always the same, just written"}, (touch, flush)
                )

    def _gathers(self) -> Iterator[TimesCase]:
        for width, elements in WIDTHS.items():
            string = f"VPGATHERDD ({width}, K, VSIB_{width})"
            scatter = f"VPSCATTERDD (VSIB_{width}, K, {width})"
            for active in dict.fromkeys((1, elements // 2, elements)):
                for name, step in (("one", 4), ("many", LINE_BYTES)):
                    parameters = {"width": width, "active": str(active), "lines": name}
                    if self._has(string):
                        place = MemoryAddress("R14", f"{width}2", 1)
                        body = self._masked(string, f"{width}0", "K1", place)
                        yield self._chain("gather", parameters, body, self._indices(elements, active, step))
                    if self._has(scatter):
                        place = MemoryAddress("R14", f"{width}2", 1)
                        body = self._masked(scatter, place, "K1", f"{width}0")
                        yield self._chain("scatter", parameters, body, self._indices(elements, active, step))

    def _masked(self, string: str, *operands: str | MemoryAddress) -> tuple[Line, ...]:
        """Return an instruction that clears its mask, with one before it that sets the mask."""
        return (self._make("KMOVW (K, K)", "K1", "K2"), self._make(string, *operands))

    def _indices(self, elements: int, active: int, step: int) -> tuple[Line, ...]:
        """Return what sets the mask K2, and the indices in ZMM2: element i is at i times `step` bytes."""
        lines = [
            self._make("MOV (M32, I32)", MemoryAddress("R14", displacement=FAR + 4 * number), number * step)
            for number in range(elements)
        ]
        lines.append(self._make("VMOVDQU64 (ZMM, M512)", "ZMM2", MemoryAddress("R14", displacement=FAR)))
        lines.append(self._make("MOV (R32, I32)", "EAX", (1 << active) - 1))
        lines.append(self._make("KMOVW (K, R32)", "K2", "EAX"))
        return tuple(lines)


def _many(kind: str, parameters: dict[str, str], lines: Sequence[Line]) -> TimesCase:
    """Return the case of independent instructions, of which one is timed."""
    code = Microbenchmark((), tuple(lines), _purpose(kind, parameters), len(lines))
    return TimesCase(kind, tuple(parameters.items()), code, len(lines))


def _purpose(kind: str, parameters: dict[str, str]) -> str:
    return f"{kind}: {', '.join(f'{name} {value}' for name, value in parameters.items())}"


_GENERAL = {
    "RAX": ("RAX", "RBX", "RCX", "RDX", "R8", "R9", "R10", "R11"),
    "EAX": ("EAX", "EBX", "ECX", "EDX", "R8D", "R9D", "R10D", "R11D"),
}


def _other(register: str, number: int) -> str:
    """Return another register like it, by number from 0 to 7."""
    return _GENERAL[register][number] if register in _GENERAL else register.rstrip("0123456789") + str(number)
