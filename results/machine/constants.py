"""The constants of a microarchitecture: widths, queues, ports, front end. One TOML file each in `cores/`.

Every table of a file has its `source`. The loader refuses unknown and missing keys and names the file. Nothing in a
file depends on an instruction: what is known of instructions comes from an instructions.xml.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from importlib import resources
from typing import Any

from results.machine.graph import ModelError

NO_LIMIT = -1
"""So many elimination slots are as many as are asked for."""


@dataclass(frozen=True, slots=True)
class BackEnd:
    """µops per cycle at issue and retirement (fused domain), entries of reorder buffer and scheduler."""

    issue_width: int
    retire_width: int
    reorder_buffer: int
    scheduler: int
    source: str


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports by letters, and what some of them do.

    `load`, `store_address` and `store_data` µops have no ports but these ("": not known). `alternating` are those that
    loads take by turns, `shared_counters` groups that one counter counts, `no_index` ports that form no store address
    with an index. `resources` gives letters to resources that files name otherwise (`FP0`).
    """

    all: str
    load: str
    store_address: str
    store_data: str
    alternating: str
    shared_counters: tuple[str, ...]
    no_index: str
    source: str
    resources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fusion:
    """The mnemonics that a following conditional jump can fuse with."""

    mnemonics: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Memory:
    """Core cycles of a load of up to 64 bits, of 128, and of more; cycles from a store to a load of its data.

    With `fast_pointer_chasing` a load takes one cycle less if its base is the result of a load and its displacement
    is small.
    """

    load_latency: tuple[int, ...]
    forwarding: int
    fast_pointer_chasing: bool
    source: str


@dataclass(frozen=True, slots=True)
class Elimination:
    """How many eliminated moves can share physical registers at a time (`NO_LIMIT`: any number; 0: none)."""

    general: int
    vector: int
    source: str


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """From bytes to µops.

    The predecoder takes a block of `block_bytes` at a time and finds up to `predecoded` instructions per cycle in it;
    a prefix that changes the length costs `length_changing_cycles`. The instruction queue has so many entries, the
    queue of µops `uop_queue`. Of the decoders, `simple_decoders` take simple instructions only. With `fusible_last`
    an instruction that could fuse with a jump may be taken by the last decoder. An instruction is decoded at the
    earliest `decode_delay` cycles after it is predecoded. `high_byte_renamed`: AH is renamed apart from RAX.
    """

    block_bytes: int
    predecoded: int
    length_changing_cycles: int
    instruction_queue: int
    decoders: int
    simple_decoders: int
    fusible_last: bool
    decode_delay: int
    uop_queue: int
    high_byte_renamed: bool
    source: str


@dataclass(frozen=True, slots=True)
class UopCache:
    """The cache of decoded µops (DSB): µops per cycle, and what fits.

    A window of code has up to `lines_per_window` lines of `line_uops` µops; a window that needs more is decoded anew
    each time. Without `jump_at_end`, a jump that crosses or touches the end of 32 bytes has the same effect (JCC
    erratum). With `whole_pairs`, both halves of 64 bytes have to fit.
    """

    width: int
    window_bytes: int
    lines_per_window: int
    line_uops: int
    lines: int
    jump_at_end: bool
    whole_pairs: bool
    source: str


@dataclass(frozen=True, slots=True)
class Microcode:
    """µops per cycle of the microcode sequencer, and the cycles that a switch to it costs."""

    width: int
    switch_cycles: int
    source: str


@dataclass(frozen=True, slots=True)
class LoopBuffer:
    """The loop buffer (LSD): rows of `unrolled` are (from, to, times) for loops of so many µops."""

    enabled: bool
    unrolled: tuple[tuple[int, int, int], ...]
    source: str

    def copies(self, uops: int) -> int:
        """Return how many copies of a loop of so many µops the buffer holds one after another."""
        return next((times for first, last, times in self.unrolled if first <= uops <= last), 1)


@dataclass(frozen=True, slots=True)
class Core:
    """A microarchitecture. The parts of the front end are None where nothing is known of it.

    `also` are other names under which files have the same core.
    """

    name: str
    title: str
    also: tuple[str, ...]
    back_end: BackEnd
    ports: Ports
    fusion: Fusion
    memory: Memory
    elimination: Elimination
    front_end: FrontEnd | None = None
    uop_cache: UopCache | None = None
    microcode: Microcode | None = None
    loop_buffer: LoopBuffer | None = None


_TABLES: dict[str, type[Any]] = {
    "back_end": BackEnd,
    "ports": Ports,
    "fusion": Fusion,
    "memory": Memory,
    "elimination": Elimination,
    "front_end": FrontEnd,
    "uop_cache": UopCache,
    "microcode": Microcode,
    "loop_buffer": LoopBuffer,
}


def core_names() -> list[str]:
    """Return the names of all cores, without those of `Core.also`."""
    return sorted(_cores())


def core_of(name: str) -> Core:
    """Return the constants of a microarchitecture by its name or one of its other names, in any case.

    Raises:
        ModelError: nothing is known of it; the hint lists what is.
    """
    for core in _cores().values():
        if name.upper() in {one.upper() for one in (core.name, *core.also)}:
            return core
    known = ", ".join("/".join((core.name, *core.also)) for core in _cores().values())
    raise ModelError(f"there are no constants of a core {name!r}", hint=f"cores: {known}")


@functools.cache
def _cores() -> dict[str, Core]:
    folder = resources.files("results.machine") / "cores"
    files = sorted((one for one in folder.iterdir() if one.name.endswith(".toml")), key=lambda one: one.name)
    cores = [parse_core(one.read_text(encoding="utf-8"), one.name) for one in files]
    return {core.name: core for core in cores}


def parse_core(text: str, where: str) -> Core:
    """Read one file's text; `where` begins every message.

    Raises:
        ModelError: it is no TOML, or a key is unknown or missing, or a table has no source.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"{where}: {error}") from error
    parts = {name: _table(kind, data.pop(name), f"{where}: [{name}]") for name, kind in _TABLES.items() if name in data}
    found: Core = _table(Core, {**data, **parts}, where)
    return found


def _table(kind: type[Any], row: object, where: str) -> Any:  # noqa: ANN401 - one reader for all tables
    if not isinstance(row, Mapping):
        raise ModelError(f"{where}: a table is expected")
    known = {one.name: one for one in fields(kind)}
    needed = {name for name, one in known.items() if one.default is MISSING and one.default_factory is MISSING}
    if unknown := row.keys() - known.keys():
        raise ModelError(f"{where}: unknown keys {sorted(unknown)}")
    if missing := needed - row.keys():
        raise ModelError(f"{where}: missing keys {sorted(missing)}")
    if "source" in known and not str(row["source"]).strip():
        raise ModelError(f"{where}: the source is empty")
    return kind(**{name: _frozen(value) for name, value in row.items()})


def _frozen(value: Any) -> Any:  # noqa: ANN401 - values of TOML
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
