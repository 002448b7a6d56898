"""Events in nanoBench's configuration format.

    C0.00 INST_RETIRED                       event and umask in hexadecimal, then a name
    A1.01.CMSK=2.EDG.INV.AnyT.CTR=0-3 NAME   counter mask, edge, invert, any thread, programmable counters that can
    B7.01.MSR_RSP0=0x3F803C0001 NAME         a value for the model-specific register that the event needs
    msr_E01=0x20000000.msr_700=0x408F34 msr_706 NAME    uncore: MSRs to write before, and the one to read

Source of the format: nanoBench, README, "Performance Counter Config Files" and "MSR Performance Counter Config Files".
Of the fields: Intel SDM volume 3B, 20.2.1.1; AMD PPR for family 17h, 2.1.13.3 (event codes of 12 bits).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from runner.uarch.tables import Event
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MSRS = {"MSR_3F6H": 0x3F6, "MSR_PF": 0x3F7, "MSR_RSP0": 0x1A6, "MSR_RSP1": 0x1A7}
"""Load latency, front end, and off-core responses (Intel SDM volume 4, table 2-2 and others)."""

MOST_COUNTERS = 16
"""No core has more programmable counters; an event without CTR may be on any."""

_SPEC = re.compile(r"[0-9A-Fa-f]{1,3}\.[0-9A-Fa-f]{1,2}(\.[A-Za-z][A-Za-z0-9_]*(=[0-9A-Za-z-]+)?)*")
_MSR = re.compile(r"msr_(0x)?([0-9A-Fa-f]+)[hH]?", re.IGNORECASE)


class CounterError(UopscopeError):
    """A counter cannot be read or counted; the message names file, line and text."""


@dataclass(frozen=True, slots=True)
class OwnEvent:
    """An event for a programmable counter, and values of model-specific registers that it needs, by their numbers."""

    event: Event
    msrs: Mapping[int, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What its counts are called."""
        return self.event.counter


@dataclass(frozen=True, slots=True)
class MsrCounter:
    """A counter that RDMSR reads (uncore, energy): what to write before, in order, and the MSR to read."""

    name: str
    writes: tuple[tuple[int, int], ...]
    msr: int


@runtime_checkable
class CountsOwnEvents(Protocol):
    """A backend that counts events which a user writes down."""

    def define(self, events: Sequence[OwnEvent], msrs: Sequence[MsrCounter]) -> None:
        """Have these counted as well, under their names.

        Raises:
            BackendError: one of them cannot be counted here.
        """


def is_spec(text: str) -> bool:
    """Say whether a text is an event as in a configuration file, not a counter's name."""
    return _SPEC.fullmatch(text) is not None


DEFAULT = ("core_cycles", "instructions", "uops_issued", "uops_executed", "uops_retire_slots")
"""Counters that `default` means beside those of the ports, as far as they are there."""


@dataclass(frozen=True, slots=True)
class CounterChoice:
    """Which counters to read: their names (None: all), those of the ports besides, and events that were written down.

    Of `usual` names those that the backend lacks are left out.
    """

    names: tuple[str, ...] | None = None
    usual: bool = False
    events: tuple[OwnEvent, ...] = ()
    msrs: tuple[MsrCounter, ...] = ()


def choose(text: str | None) -> CounterChoice:
    """Read a choice of counters: `all`, `default`, a file, or names and events with commas between.

    Raises:
        CounterError: the file or an event cannot be read.
    """
    if text is None or text == "all":
        return CounterChoice()
    if text == "default":
        return CounterChoice(DEFAULT, usual=True)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    written = [part for part in parts if is_spec(part.split()[0])]
    if not written and (Path(text).suffix or "/" in text):
        return _from_file(Path(text))
    events = tuple(read_event(part, "--counters") for part in written)
    names = tuple(part for part in parts if part not in written)
    return CounterChoice((*names, *(event.name for event in events)), events=events)


def _from_file(path: Path) -> CounterChoice:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CounterError(f"{path}: {getattr(error, 'strerror', None) or 'not a text'}") from error
    events, msrs = read_config(text, str(path))
    return CounterChoice(
        (*(one.name for one in events), *(one.name for one in msrs)), events=tuple(events), msrs=tuple(msrs)
    )


def read_config(text: str, where: str) -> tuple[list[OwnEvent], list[MsrCounter]]:
    """Read a configuration file; empty lines and those that begin with # say nothing.

    Raises:
        CounterError: names the line that cannot be read, or the name that comes twice.
    """
    events: list[OwnEvent] = []
    msrs: list[MsrCounter] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        place = f"{where}:{number}"
        if line.lstrip().lower().startswith("msr_"):
            msrs.append(_read_msr(line.split(), place))
        else:
            events.append(read_event(line.strip(), place))
    names = [*(one.name for one in events), *(one.name for one in msrs)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise CounterError(f"{where}: the name {twice[0]} comes twice", hint="results are told apart by their names")
    if not names:
        raise CounterError(f"{where}: there is no event in it", hint="for example: C0.00 INST_RETIRED")
    return events, msrs


def read_event(line: str, place: str) -> OwnEvent:
    """Read one event with its name (without one: its own text).

    Raises:
        CounterError: it cannot be read.
    """
    spec, _, name = line.partition(" ") if " " in line else line.partition("\t")
    if not is_spec(spec):
        raise CounterError(f"{place}: {line[:60]!r} is no event", hint="for example: A1.01.CMSK=2.EDG NAME")
    code, umask, *modifiers = spec.split(".")
    found = _Modifiers()
    for modifier in modifiers:
        found.read(modifier, place)
    event = Event(
        counter=name.strip() or spec,
        event=spec,
        code=int(code, 16),
        umask=int(umask, 16),
        source=place,
        counters=found.counters,
        cmask=found.cmask,
        invert=found.invert,
        edge=found.edge,
        per_core=found.any_thread,
    )
    return OwnEvent(event, found.msrs)


@dataclass(slots=True)
class _Modifiers:
    """What stands behind event and umask."""

    counters: tuple[int, ...] = tuple(range(MOST_COUNTERS))
    cmask: int = 0
    invert: bool = False
    edge: bool = False
    any_thread: bool = False
    msrs: dict[int, int] = field(default_factory=dict)

    def read(self, text: str, place: str) -> None:
        """Take in one of them.

        Raises:
            CounterError: it is unknown, or its value is out of range.
        """
        name, _, value = text.partition("=")
        match name.upper():
            case "ANYT" if not value:
                self.any_thread = True
            case "EDG" if not value:
                self.edge = True
            case "INV" if not value:
                self.invert = True
            case "CMSK":
                self.cmask = _number(value, 0xFF, text, place)
            case "CTR":
                self.counters = _counters(value, text, place)
            case register if register in MSRS:
                self.msrs[MSRS[register]] = _number(value, (1 << 64) - 1, text, place)
            case _:
                known = ", ".join(("CMSK=", "AnyT", "EDG", "INV", "CTR=", *(f"{one}=" for one in MSRS)))
                raise CounterError(f"{place}: {text!r} is not known", hint=f"known are: {known}")


def _counters(value: str, text: str, place: str) -> tuple[int, ...]:
    """Read one counter, or a range of them."""
    first, dash, last = value.partition("-")
    low = _number(first, MOST_COUNTERS - 1, text, place)
    high = _number(last, MOST_COUNTERS - 1, text, place) if dash else low
    if high < low:
        raise CounterError(f"{place}: {text!r}: the range ends before it begins")
    return tuple(range(low, high + 1))


def _number(value: str, most: int, text: str, place: str) -> int:
    try:
        number = int(value.rstrip("hH"), 16) if value[-1:] in ("h", "H") else int(value, 0)
    except ValueError:
        raise CounterError(f"{place}: {text!r} needs a number", hint="decimal, or 0x...") from None
    if not 0 <= number <= most:
        raise CounterError(f"{place}: {text!r}: the number is not between 0 and {most:#x}")
    return number


def _read_msr(words: Sequence[str], place: str) -> MsrCounter:
    """Read `msr_A=1.msr_B=2 msr_C NAME`, or `msr_C NAME`."""
    first, *rest = words
    writes = first if "=" in first else ""
    read, name = (rest[0] if rest else "", rest[1:]) if writes else (first, rest)
    found = _MSR.fullmatch(read)
    if not found:
        raise CounterError(f"{place}: no MSR to read", hint="for example: msr_E01=0x20000000 msr_706 NAME")
    pairs = []
    for pair in writes.split(".") if writes else ():
        register, _, value = pair.partition("=")
        match = _MSR.fullmatch(register)
        if not match:
            raise CounterError(f"{place}: {pair!r} is no MSR and value")
        pairs.append((int(match[2], 16), _number(value, (1 << 64) - 1, pair, place)))
    return MsrCounter(" ".join(name) or read, tuple(pairs), int(found[2], 16))
