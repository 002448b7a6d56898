"""Microarchitectures: one TOML file each in this folder, found by listing it.

A file says which CPUs are of this kind (`[[cpuid]]`), and which ports they have. It names the PMU event of each of our
counters (`[[event]]`). Every row has its `source`.

Counter names are those of `runner.backend`. A counter whose name lists several ports (`p23`) covers all of them: the
hardware cannot tell them apart. With `port_kind` ("FP", "INT") only the ports of that kind have counters: none counts
µops elsewhere. Counters named `unit_ALU` count by execution unit. `[[derived]]` counters are sums and differences of
others.

`[[cpuid]]` rows stand before all others: the search for a CPU's file reads no more of the other files. The loader
rejects unknown keys, missing sources and duplicates, and names the file.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from results.model import PORT_LETTERS
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


EVENTS = "\n[[event]]\n"
"""Where the rows about events begin."""


class MicroarchitectureError(UopscopeError):
    """A file of the table is wrong, or no microarchitecture of that name or CPU is known."""


@dataclass(frozen=True, slots=True)
class CpuId:
    """CPUs of one family and model, or of the models up to `last_model`.

    `steppings` empty means all; `core_type` and `native_model` are those of CPUID leaf 1AH (0: any).
    """

    family: int
    model: int
    source: str
    last_model: int = 0
    steppings: tuple[int, ...] = ()
    core_type: int = 0
    native_model: int = 0

    def matches(self, cpu: CpuIdentity) -> bool:
        """Whether that CPU is one of these."""
        return (
            self.family == cpu.family
            and self.model <= cpu.model <= max(self.model, self.last_model)
            and (not self.steppings or cpu.stepping in self.steppings)
            and self.core_type in (0, cpu.core_type)
            and self.native_model in (0, cpu.native_model)
        )


@dataclass(frozen=True, slots=True)
class CpuIdentity:
    """What CPUID says of the CPU at hand: leaf 1 (display family and model) and, on hybrid CPUs, leaf 1AH."""

    vendor: str
    family: int
    model: int
    stepping: int
    core_type: int = 0
    native_model: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """The PMU event that counts one of our counters.

    `code`, `umask` and the others are the fields of PERFEVTSELx. They do not matter if `fixed`, the number of a fixed
    counter, is given. `counters` are the programmable counters that can count the event. `per_core` events count both
    threads of a core. `errata` names what the vendor says is wrong with it.
    """

    counter: str
    event: str
    code: int
    umask: int
    source: str
    counters: tuple[int, ...] = ()
    fixed: int | None = None
    umask_ext: int = 0
    cmask: int = 0
    invert: bool = False
    edge: bool = False
    per_core: bool = False
    errata: str = ""

    @property
    def selector(self) -> int:
        """The 64-bit value of the event select register without its enable, user and kernel bits.

        Source: Intel SDM vol. 3B, 20.2.1.1 (bits 0-7 event, 8-15 umask, 18 edge, 21 any thread, 23 invert, 24-31
        counter mask; bits 40-47 extended umask); AMD PPR: event bits 8-11 at 32-35.
        """
        return (
            (self.code & 0xFF)
            | self.umask << 8
            | self.edge << 18
            | self.per_core << 21
            | self.invert << 23
            | self.cmask << 24
            | (self.code >> 8) << 32
            | self.umask_ext << 40
        )


@dataclass(frozen=True, slots=True)
class Derived:
    """A counter that is computed: the sum of the counters in `plus` minus those in `minus`."""

    counter: str
    plus: tuple[str, ...]
    minus: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Microarchitecture:
    """One microarchitecture as its file describes it; `ports` are the names of its ports ("0" ... "B"), if any.

    `port_kind` names the only kind of ports that is counted ("FP": ports 0 and 1 are FP0 and FP1; "": all are).
    """

    name: str
    title: str
    vendor: str
    ports: tuple[str, ...]
    cpuids: tuple[CpuId, ...]
    events: tuple[Event, ...]
    derived: tuple[Derived, ...] = ()
    port_kind: str = ""

    @property
    def counters(self) -> tuple[str, ...]:
        """The names of all counters, derived ones last."""
        return tuple(event.counter for event in self.events) + tuple(row.counter for row in self.derived)

    @property
    def port_counters(self) -> tuple[str, ...]:
        """The port counters that tell most: a counter is left out if others count its ports one by one."""
        ports = [name for name in self.counters if is_port_counter(name)]
        return tuple(name for name in ports if not _is_split_by(name, ports))

    def event(self, counter: str) -> Event:
        """Return the event of a counter that is not derived.

        Raises:
            MicroarchitectureError: this microarchitecture cannot count it.
        """
        for event in self.events:
            if event.counter == counter:
                return event
        message = f"{self.name} has no event for the counter {counter!r}"
        raise MicroarchitectureError(message, hint=f"it has: {', '.join(self.counters)}")

    def errata(self, counters: Iterable[str]) -> tuple[str, ...]:
        """Return a line per counter in whose event the vendor admits a fault, with the names of its errata."""
        wanted = set(counters)
        return tuple(
            f"{event.counter} may be off: {event.event} has the errata {event.errata}"
            for event in self.events
            if event.errata and event.counter in wanted
        )


def is_port_counter(name: str) -> bool:
    """Whether a counter counts µops on ports: `p` and port letters, such as p0 or p23A."""
    return len(name) > 1 and name[0] == "p" and all(letter in PORT_LETTERS for letter in name[1:])


def _is_split_by(name: str, others: Iterable[str]) -> bool:
    parts = {letter for other in others if other != name and len(other) == 2 for letter in other[1:]}
    return len(name) > 2 and set(name[1:]) <= parts


def _texts() -> Iterator[tuple[str, str]]:
    """Yield name and text of every file of this folder."""
    for entry in sorted(resources.files(__package__).iterdir(), key=lambda path: path.name):
        if entry.name.endswith(".toml"):
            yield entry.name, entry.read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def all_microarchitectures() -> dict[str, Microarchitecture]:
    """Read every file of this folder; keys are the names.

    Raises:
        MicroarchitectureError: a file is wrong; the message names it.
    """
    found: dict[str, Microarchitecture] = {}
    for where, text in _texts():
        uarch = parse(text, where)
        if uarch.name in found:
            raise MicroarchitectureError(f"{where}: there is another microarchitecture named {uarch.name}")
        found[uarch.name] = uarch
    return found


def by_name(name: str) -> Microarchitecture:
    """Return the microarchitecture of that name (case does not matter).

    Raises:
        MicroarchitectureError: there is none.
    """
    known = all_microarchitectures()
    for key, uarch in known.items():
        if key.lower() == name.lower():
            return uarch
    raise MicroarchitectureError(f"unknown microarchitecture {name!r}", hint=f"known are: {', '.join(known)}")


@cache
def for_cpu(cpu: CpuIdentity) -> Microarchitecture | None:
    """Return what that CPU is, or None if no file knows it; a file that names the native model goes first.

    Raises:
        MicroarchitectureError: a file is wrong; the message names it.
    """
    candidates = [
        (entry.native_model, text, where)
        for where, text in _texts()
        for entry in _cpuids(text, where, cpu.vendor)
        if entry.matches(cpu)
    ]
    if not candidates:
        return None
    _, text, where = max(candidates, key=lambda candidate: candidate[0])
    return parse(text, where)


def _cpuids(text: str, where: str, vendor: str) -> tuple[CpuId, ...]:
    """Return the `[[cpuid]]` rows of a file's text if it is about that vendor's CPUs."""
    head = _toml(text.partition(EVENTS)[0], where)
    return tuple(_row(CpuId, row, where) for row in head.get("cpuid", ())) if head.get("vendor") == vendor else ()


def parse(text: str, where: str) -> Microarchitecture:
    """Read one file's text; `where` is its name for messages.

    Raises:
        MicroarchitectureError: not TOML, an unknown or missing key, a missing source, or a counter twice.
    """
    data = _toml(text, where)
    unknown = set(data) - {"name", "title", "vendor", "ports", "port_kind", "cpuid", "event", "derived"}
    missing = {"name", "title", "vendor", "ports", "cpuid", "event"} - set(data)
    if unknown or missing:
        raise MicroarchitectureError(f"{where}: unknown keys {sorted(unknown)}, missing keys {sorted(missing)}")
    uarch = Microarchitecture(
        name=data["name"],
        title=data["title"],
        vendor=data["vendor"],
        ports=tuple(data["ports"]),
        cpuids=tuple(_row(CpuId, row, where) for row in data["cpuid"]),
        events=tuple(_row(Event, row, where) for row in data["event"]),
        derived=tuple(_row(Derived, row, where) for row in data.get("derived", [])),
        port_kind=data.get("port_kind", ""),
    )
    _check_counters(uarch, where)
    if _cpuids(text, where, uarch.vendor) != uarch.cpuids:
        raise MicroarchitectureError(f"{where}: a [[cpuid]] row stands behind an [[event]] row; put it before")
    return uarch


def _toml(text: str, where: str) -> dict[str, Any]:
    """Read TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MicroarchitectureError(f"{where}: {error}") from error


def _row(kind: type[Any], row: dict[str, Any], where: str) -> Any:  # noqa: ANN401 - one reader for three row types
    """Make a row's dataclass from its TOML table; lists become tuples."""
    names = {field.name for field in fields(kind)}
    if set(row) - names:
        raise MicroarchitectureError(f"{where}: unknown keys {sorted(set(row) - names)} in {row}")
    if not row.get("source"):
        raise MicroarchitectureError(f"{where}: a row without a source: {row}")
    try:
        return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()})
    except TypeError as error:
        raise MicroarchitectureError(f"{where}: {error} in {row}") from error


def _check_counters(uarch: Microarchitecture, where: str) -> None:
    """Every counter once, derived ones from counters that exist, port counters only of ports that exist."""
    twice = [name for name, count in Counter(uarch.counters).items() if count > 1]
    absent = {name for row in uarch.derived for name in row.plus + row.minus} - set(uarch.counters)
    no_port = [name for name in uarch.counters if is_port_counter(name) and not set(name[1:]) <= set(uarch.ports)]
    if twice or absent or no_port:
        raise MicroarchitectureError(
            f"{where}: counters twice: {twice}, derived from nothing: {sorted(absent)}, of no port: {no_port}"
        )
