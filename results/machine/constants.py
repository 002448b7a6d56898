"""The constants of a microarchitecture: widths, queues, ports, front end. One TOML file each in `cores/`.

Every table of a file has its `source`. The loader refuses unknown and missing keys and names the file. Nothing in a
file depends on an instruction: facts about instructions come from an instructions.xml.
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
"""Any number of eliminated moves."""


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
    loads and stores take by turns (groups with spaces between), `binding` is the rule for all others (a name of
    `simulator.machines.machine.Binding`). `shared_counters` are groups that one counter counts, `no_index` ports that
    form no store address with an index. A conditional jump that is not taken may go to any of `not_taken` ("": to the
    same ports as one that is taken). `resources` gives letters to resources that files name otherwise (`FP0`).
    """

    all: str
    load: str
    store_address: str
    store_data: str
    alternating: str
    shared_counters: tuple[str, ...]
    no_index: str
    source: str
    binding: str = "intel"
    not_taken: str = ""
    resources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FusibleMnemonics:
    """The mnemonics that a following conditional jump can fuse with.

    `interruptible`: an interrupt that comes while such a pair is the oldest catches the jump. Else it catches what is
    behind the jump. `nops`: a NOP becomes one µop with the instruction before it.
    """

    mnemonics: tuple[str, ...]
    source: str
    interruptible: bool = False
    nops: bool = False


@dataclass(frozen=True, slots=True)
class MemoryLatencies:
    """Core cycles of a load of up to 64 bits, of 128, and of more; cycles from a store to a load of its data.

    A load whose data cannot be forwarded waits `failed_forwarding` cycles longer. With `fast_pointer_chasing` a load
    takes one cycle less if its base is the result of a load and its displacement is small. A port moves up to
    `path_bits` per cycle between core and cache: a wider access occupies the data path for longer. `stated_ways` are
    the cycles through memory that a file states with a plain load of 64 bits and with one of 128 (none: a cycle less
    than from the store to the load).

    Where the ports of loads and stores are not known, `rates` are how many of them begin per cycle: loads and stores
    together, stores, loads of vector registers, and stores of vector registers (none: not known either).

    If several virtual pages are one physical page, one cache line per `alias_cycles` can be reached under another
    address than before (0: not known), and one page per `alias_page_cycles`. Loads that reach such
    a line too early are repeated, and take `alias_load_cycles` each; stores take `alias_store_cycles`.

    Two stores that loads read from are at least `forwarding_cycles` apart.

    A load takes `complex_address_cycles` longer if its index is scaled, or if its address is a sum of three.

    Where loads are renamed, the way between store and load counts by itself (`results.machine.latencies`): for vectors
    it takes `vector_forwarding` cycles (0: `forwarding`).
    """

    load_latency: tuple[int, ...]
    forwarding: int
    failed_forwarding: int
    fast_pointer_chasing: bool
    path_bits: int
    source: str
    stated_ways: tuple[int, ...] = ()
    rates: tuple[int, ...] = ()
    vector_forwarding: int = 0
    forwarding_cycles: int = 0
    complex_address_cycles: int = 0
    alias_cycles: int = 0
    alias_page_cycles: int = 0
    alias_load_cycles: float = 0
    alias_store_cycles: int = 0

    @property
    def ways(self) -> tuple[int, int]:
        """The cycles between store and load alone: of a general-purpose register on either side, and of vectors."""
        return (self.forwarding, self.vector_forwarding or self.forwarding)

    @property
    def stated(self) -> tuple[int, int]:
        """The cycles that a file states with a plain load of a general-purpose register, and of a vector register."""
        if self.stated_ways:
            return (self.stated_ways[0], self.stated_ways[1])
        return self.waited

    @property
    def waited(self) -> tuple[int, int]:
        """The cycles between store and load, less one, if the load waits: likewise of both kinds of registers."""
        return (self.forwarding - 1, self.forwarding - 1 + self.vector_cycles)

    @property
    def vector_cycles(self) -> int:
        """How many cycles longer a load of a vector register takes, and the way through memory to it."""
        return self.load_latency[1] - self.load_latency[0]


@dataclass(frozen=True, slots=True)
class MemoryRenaming:
    """Which loads get their value at rename, from a store with the same address as it is written.

    Both have the same base, unchanged in between but for what the stack engine does, and the same displacement. Only
    `bases` count (none: any register), and an index only if it is `indexed`. The value goes from a general-purpose
    register to one; `widths` are those of both, in bits. A load that computes besides is not renamed, unless it stores
    its result to the same place.

    In a loop the core learns which store a load reads from, however both addresses are written: for up to
    `predicted_loads` loads, those of any kind counted (0: for none). A load that stores its result needs a base for it.
    """

    widths: tuple[int, ...]
    bases: tuple[str, ...]
    indexed: bool
    source: str
    predicted_loads: int = 0


@dataclass(frozen=True, slots=True)
class LoadQueue:
    """How many loads can be on their way at a time.

    A load takes one of `entries` when it is issued. The entry is free again `cycles` core cycles after the load's data
    are there; if `in_order`, not before those of all earlier loads are free. A number of entries may be fitted, too.
    """

    entries: int
    cycles: int
    in_order: bool
    source: str


@dataclass(frozen=True, slots=True)
class StoreCommit:
    """How stores get into the cache, in order.

    There are up to `per_cycle`, and each time that another block of `block_bytes` is stored to takes a cycle. A store
    of less than `word_bytes` keeps its block from the next store for `word_cycles` if another block comes between (0:
    it does not).
    """

    block_bytes: int
    per_cycle: int
    word_bytes: int
    word_cycles: int
    source: str


@dataclass(frozen=True, slots=True)
class EliminationSlots:
    """How many moves rename can eliminate (`NO_LIMIT`: any number; 0: none).

    `general` and `vector` are slots. An eliminated move makes two registers share a physical one. Each shared physical
    register takes a slot until all but one of its registers are overwritten. `per_cycle` is how many moves are
    eliminated in one cycle. Without `high_aliases`, MOVZX is not eliminated if it reads the low byte of a register
    whose number is also that of a high byte (SPL, BPL, SIL, DIL, R12B to R15B). Where `stack_pointer` names ports, a
    move from RSP or ESP is not eliminated, but takes one of these.

    In code, rename learns `cycles` cycles late which slots are free, and counts every move since then as one more.
    With `all_overwritten`, a general-purpose register keeps its slot until all registers that share it are overwritten.
    Otherwise, and for vector registers, it keeps it until one of them is left.
    """

    general: int
    vector: int
    high_aliases: bool
    cycles: int
    all_overwritten: bool
    source: str
    per_cycle: int = NO_LIMIT
    stack_pointer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartialRegisters:
    """What happens to AH, BH, CH and DH at rename.

    They may be renamed separately from the rest of their register. Then writing AH does not wait for RAX, and a µop on
    one of `merge_ports` puts both together before AX, EAX or RAX are read. If `merge_ports` is "", nothing is renamed
    separately: writing AH keeps the rest of RAX, and waits for it.
    """

    merge_ports: str
    source: str


@dataclass(frozen=True, slots=True)
class StackEngine:
    """Where a µop brings RSP up to date, on cores that do not do so wherever RSP is used behind PUSH and POP.

    With `every_value`, it does so for each instruction that reads RSP as a value, once per cycle. It takes an issue
    slot and no port, and a cycle more behind PUSH and POP. Moves and addresses have what these added already. But LEA
    that adds RSP and an index, without a displacement, reads a value.
    """

    every_value: bool
    source: str


@dataclass(frozen=True, slots=True)
class MergeOptimization:
    """Whether scalar instructions need not wait for the upper part of their register where it is known to be zero."""

    enabled: bool
    source: str


@dataclass(frozen=True, slots=True)
class Transfers:
    """What transfers share (`simulator.instructions.transfers`), where their ports are not known.

    `apart` are mnemonics (without V) that go to general-purpose registers by the unit of transfers to flags. A result
    comes in through the port `port`, that of a transfer by the unit of flags through `apart_port`. When it does, the
    port's own µop cannot write the same: a register, or flags.
    """

    apart: tuple[str, ...]
    port: str
    apart_port: str
    source: str


@dataclass(frozen=True, slots=True)
class IntegerSchedulers:
    """How µops are given to schedulers, in groups of as many issue slots as a cycle has.

    `ports` are the ports of each scheduler; the first one computes. In a group, a scheduler takes up to `per_group`
    µops, and a port that computes one. Of a µop's ports, the one with the fewest µops of the group takes it. Of equals,
    it is the one whose scheduler is emptier, in steps of `step` waiting µops; then the one that was used longest ago.
    If none can take it, a new group begins. Groups do not change if issue has to wait for the back end.
    """

    ports: tuple[tuple[str, ...], ...]
    per_group: int
    step: int
    source: str


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """From bytes to µops.

    The predecoder takes a block of `block_bytes` at a time and finds up to `predecoded` instructions per cycle in it;
    a prefix that changes the length costs `length_changing_cycles`. The instruction queue has `instruction_queue`
    entries, the queue of µops `uop_queue`. Of the decoders, `simple_decoders` take simple instructions only. Where
    nothing else is known of an instruction, it is simple with up to `simple_uops` µops in the fused domain. With
    `fusible_last` an instruction that could fuse with a jump may be taken by the last decoder. POP RSP and POP R12 need
    the first decoder; with `pop_ends_group` no other one decodes anything in that cycle. An instruction is decoded at
    the earliest `decode_delay` cycles after it is predecoded. Without `fuses_relative_immediates` no µops of an
    instruction with an immediate and an address relative to RIP are micro-fused.

    There can be several `clusters` of all this, each with queues of its own. A taken jump hands the code behind it to
    the next one, and so does every `stretch` instructions without a taken jump.
    """

    block_bytes: int
    predecoded: int
    length_changing_cycles: int
    instruction_queue: int
    decoders: int
    simple_decoders: int
    fusible_last: bool
    pop_ends_group: bool
    decode_delay: int
    uop_queue: int
    source: str
    fuses_relative_immediates: bool = True
    simple_uops: int = 1
    clusters: int = 1
    stretch: int = NO_LIMIT


@dataclass(frozen=True, slots=True)
class UopCache:
    """The cache of decoded µops (DSB): µops per cycle, and what fits.

    A window of code has up to `lines_per_window` lines of `line_uops` µops; a window that needs more is decoded anew
    each time. Without `jump_at_end`, a jump that crosses or touches the end of 32 bytes has the same effect (JCC
    erratum). With `whole_pairs`, both halves of 64 bytes have to fit. With `after_jumps`, the cache delivers only
    behind a taken jump: code that is decoded goes on to be decoded until the next one.

    A µop has `constant_bits` for displacement and immediate (0: not known). Each takes 16, 32 or 64, the first that it
    fits in. An instruction that needs more has an entry more. One such is delivered per cycle. Addresses relative to
    RIP do not count: without micro-fusion, another µop has the immediate.
    """

    width: int
    window_bytes: int
    lines_per_window: int
    line_uops: int
    lines: int
    jump_at_end: bool
    whole_pairs: bool
    source: str
    after_jumps: bool = False
    constant_bits: int = 0


@dataclass(frozen=True, slots=True)
class Microcode:
    """µops per cycle of the microcode sequencer, and the cycles that a switch to it costs."""

    width: int
    switch_cycles: int
    source: str


@dataclass(frozen=True, slots=True)
class LoopBuffer:
    """The loop buffer (LSD): rows of `unrolled` are (from, to, times) for loops of this many µops."""

    enabled: bool
    unrolled: tuple[tuple[int, int, int], ...]
    source: str

    def copies(self, uops: int) -> int:
        """Return how many copies of a loop of this many µops the buffer holds one after another."""
        return next((times for first, last, times in self.unrolled if first <= uops <= last), 1)


@dataclass(frozen=True, slots=True)
class Transitions:
    """Cycles of a change between AVX and legacy SSE instructions while upper halves of vectors are not zero."""

    cycles: int
    source: str


@dataclass(frozen=True, slots=True)
class CoreConstants:
    """A microarchitecture. The parts of the front end are None where nothing is known of it.

    `also` are other names under which files have the same core.
    """

    name: str
    title: str
    also: tuple[str, ...]
    back_end: BackEnd
    ports: Ports
    fusion: FusibleMnemonics
    memory: MemoryLatencies
    elimination: EliminationSlots
    partial_registers: PartialRegisters
    memory_renaming: MemoryRenaming | None = None
    load_queue: LoadQueue | None = None
    store_commit: StoreCommit | None = None
    transitions: Transitions | None = None
    merge_optimization: MergeOptimization | None = None
    transfers: Transfers | None = None
    stack_engine: StackEngine | None = None
    integer_schedulers: IntegerSchedulers | None = None
    front_end: FrontEnd | None = None
    uop_cache: UopCache | None = None
    microcode: Microcode | None = None
    loop_buffer: LoopBuffer | None = None

    @property
    def updates_for_values(self) -> bool:
        """Whether RSP is brought up to date for each instruction that reads it as a value (`StackEngine`)."""
        return self.stack_engine is not None and self.stack_engine.every_value


_TABLES: dict[str, type[Any]] = {
    "back_end": BackEnd,
    "ports": Ports,
    "fusion": FusibleMnemonics,
    "memory": MemoryLatencies,
    "elimination": EliminationSlots,
    "partial_registers": PartialRegisters,
    "memory_renaming": MemoryRenaming,
    "load_queue": LoadQueue,
    "store_commit": StoreCommit,
    "transitions": Transitions,
    "merge_optimization": MergeOptimization,
    "transfers": Transfers,
    "stack_engine": StackEngine,
    "integer_schedulers": IntegerSchedulers,
    "front_end": FrontEnd,
    "uop_cache": UopCache,
    "microcode": Microcode,
    "loop_buffer": LoopBuffer,
}


def core_names() -> list[str]:
    """Return the names of all cores, without those of `CoreConstants.also`."""
    return sorted(_cores())


def core_of(name: str) -> CoreConstants:
    """Return the constants of a microarchitecture by its name or one of its other names, in any case.

    Raises:
        ModelError: nothing is known of it; the hint lists what is.
    """
    for core in _cores().values():
        if name.upper() in {one.upper() for one in (core.name, *core.also)}:
            return core
    known = ", ".join("/".join((core.name, *core.also)) for core in _cores().values())
    raise ModelError(f"there are no constants of a core {name!r}", hint=f"cores: {known}")


def issue_width_of(name: str) -> int | None:
    """Return how many slots a microarchitecture issues per cycle, None if nothing is known of it."""
    try:
        return core_of(name).back_end.issue_width
    except ModelError:
        return None


@functools.cache
def _cores() -> dict[str, CoreConstants]:
    folder = resources.files("results.machine") / "cores"
    files = sorted((one for one in folder.iterdir() if one.name.endswith(".toml")), key=lambda one: one.name)
    cores = [parse_core(one.read_text(encoding="utf-8"), one.name) for one in files]
    return {core.name: core for core in cores}


def parse_core(text: str, where: str) -> CoreConstants:
    """Read one file's text; `where` begins every message.

    Raises:
        ModelError: it is no TOML, or a key is unknown or missing, or a table has no source.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"{where}: {error}") from error
    parts = {name: _table(kind, data.pop(name), f"{where}: [{name}]") for name, kind in _TABLES.items() if name in data}
    found: CoreConstants = _table(CoreConstants, {**data, **parts}, where)
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
