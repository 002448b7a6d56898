"""Makes a graph of µops from the measurements of a variant: ports, µops, and the latency of each pair of operands.

Measurements do not show the work of each µop. The graph is made by fixed rules, such that the longest path between two
operands is the measured latency, and that each µop has its measured ports:

- **Roles**: if the variant reads memory, µops on load ports load. If it writes memory, µops on the ports of store data
  and of store addresses store. All others compute.
- **The chain**: computing µops stand one after another, those with the fewest ports first, as many as the least
  latency of a result has cycles. The first takes what the others, of one cycle each, leave. µops beyond that stand
  beside the chain. A result that comes later than another one comes out of the chain with a delay.
- **What enters the chain** are the operands that all its results depend on. A source whose latencies are longer than
  those of another one enters with a delay; an address enters through the loads.
- **Delays** are µops without ports that take no issue slot. Where the path through the chain is shorter than a measured
  latency, a delay leads from the source to the result beside it. So every measured pair comes out exactly, and a pair
  that was not measured does not come up.
- **The way through memory** is stated twice, with the store and with the load, each time as the whole way less a cycle
  (Abel and Reineke, ASPLOS 2019, section 5.2.4). The load's part of the way is a cycle. So a load loses what the way of
  a plain load of that kind has beyond a cycle. A variant that also stores does not: that is one round trip. A store of
  8 or 16 bits is measured with a load that merges what it reads, which is a cycle more: that is taken off. The least
  measured way may be that of a load that came late, which some cores forward to sooner: a store passes its data on no
  sooner than the core's constants say for a load that waits.
- **Where loads are renamed** the way between store and load stands by itself, so neither contains it. A store passes
  its data on when it is computed. What a load brings takes what its latency from the address has beyond a plain load.
  What a file states about memory is then not used, but for what loads and stores at once: it was measured renamed.
- **Stack pointer and string addresses** are moved at rename, at no cost, unless a latency says otherwise.
- **A latency of 0** of an instruction with ports means that there is no dependency. Of one without ports it is a move
  that is eliminated; with the same register it is an idiom that breaks the dependency. Where the ports are not known it
  is a move if a single register is all that is read. A move that needs a port with the same register needs that port
  wherever rename cannot eliminate it.
- **Some ports**: where only some µops are certain, they use their ports beside what the latencies say.
- **Throughput**: an instruction may take longer than explained by ports, issue slots, divider, and what one instance
  passes on to the next. Then it occupies a unit of its own for the measured time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING

from results.machine.graph import (
    ADDRESS_PARTS,
    Behaviour,
    Decoding,
    Endpoint,
    Uop,
    UopKind,
    address_inputs,
    read_flags,
    tracked,
    value_inputs,
    value_outputs,
    written_flags,
)
from results.model import Form, LatencyPart, PortUsage, port_order
from results.ports import throughput_of
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from results.machine.constants import CoreConstants
    from results.machine.facts import Cycles, FormFacts, LatencyPair, VariantFacts
    from xed_convert.model import InstructionVariant, Operand

UNEXPLAINED = Fraction(3, 2)
"""A throughput of a cycle and more that exceeds all that explains it by this factor, or by a cycle, has another cause.

Less than a cycle may come from dependency breakers that used the same ports, or from moves that are not always
eliminated.
"""

FREE = Fraction(9, 10)
"""A form uses no ports if it takes less than this share of the cycles that they need; the rest is noise."""

MOST_UOPS = 500
"""µops of a variant that are made one by one; the reorder buffer of no core holds more."""

VECTORS = ("XMM", "YMM", "ZMM", "MM")
"""How the names of vector registers begin."""

X87_PUSH = ("X87PUSH",)
"""Registers of an operand that stands for a push. Measured alone, pushes overflow the x87 stack: their throughput is
that of the overflow, which no program has."""

Latencies = dict[tuple[Endpoint, Endpoint], int]
"""Core cycles by source and result."""


def behaviour_from(variant: InstructionVariant, facts: VariantFacts, core: CoreConstants) -> Behaviour:
    """Make the behaviour of a variant from its facts, by the rules in the module's docstring."""
    plain = _form(variant, facts.plain, _paths(variant, facts.latencies, core), facts, core)
    same = facts.forms.get(Form.SAME_REGISTER)
    if same is not None or facts.same_register:
        latencies = _paths(variant, facts.same_register or facts.latencies, core)
        form = _inherited(same or facts.plain, facts.plain)
        independent = _form(variant, form, _positive(latencies, core), facts, core)
        plain = replace(plain, same_register=independent)
        if not plain.port_usage.total and _has_one_source(variant) and len(independent.port_usage.uops) == 1:
            plain = replace(plain, uneliminated=next(iter(independent.port_usage.uops)))
    indexed = facts.forms.get(Form.INDEXED)
    if indexed is not None:
        form = _inherited(indexed, facts.plain)
        plain = replace(plain, indexed=_form(variant, form, _paths(variant, facts.latencies, core), facts, core))
    return plain


def _inherited(form: FormFacts, plain: FormFacts) -> FormFacts:
    """Return the facts about a form, with the ports and µops of the plain form if it has none of its own.

    A form that is quicker than those ports allow uses none: it is done at rename, as a zero idiom is.
    """
    quicker = (
        form.throughput is not None and plain.ports is not None and form.throughput < FREE * throughput_of(plain.ports)
    )
    same = form.ports is None and form.uops in (None, plain.uops) and not quicker
    return replace(
        form,
        ports=plain.ports if same else PortUsage({}) if quicker and form.ports is None else form.ports,
        uops=plain.uops if form.uops is None else form.uops,
        retire_slots=plain.retire_slots if form.retire_slots is None else form.retire_slots,
        decoded=plain.decoded if form.decoded is None else form.decoded,
        microcoded=plain.microcoded if form.microcoded is None else form.microcoded,
    )


def _positive(latencies: Latencies, core: CoreConstants) -> Latencies:
    """Return the latencies of one cycle and more: with 0 a result does not depend on the source.

    That does not hold through memory if the way between store and load stands by itself.
    """
    return {
        (source, end): cycles
        for (source, end), cycles in latencies.items()
        if cycles > 0 or (core.memory_renaming is not None and LatencyPart.MEMORY in (source.part, end.part))
    }


def _form(
    variant: InstructionVariant, form: FormFacts, latencies: Latencies, facts: VariantFacts, core: CoreConstants
) -> Behaviour:
    """Make what a core does with one form."""
    usage = _lettered(form.ports, core)
    at_rename = _has_one_source(variant) if usage is None else not usage.total
    latencies = latencies if at_rename else _positive(latencies, core)
    uops = _Builder(variant, core, latencies, usage).build()
    if facts.divider_cycles:
        uops = _divided(uops, facts)
    slots = form.retire_slots if form.retire_slots is not None else max(1, fused_uops(uops))
    certain = _certain(variant, _lettered(form.some_ports, core)) if usage is None else ()
    fusible = facts.macro_fusible
    made = Behaviour(
        (*uops, *certain),
        max(1, slots),
        decoding=_decoding(form, slots),
        fuses_with=frozenset() if fusible is None and facts.fusion_known else fusible,
    )
    return replace(made, occupies=_occupied(variant, made, form, facts, core, known=usage is not None))


def _has_one_source(variant: InstructionVariant) -> bool:
    """Whether a result must depend on the only register that is read: of a latency of 0 it is a move."""
    sources = [o for o in variant.operands if o.read and o.kind is not OperandKind.IMMEDIATE]
    return len(sources) == 1 and tracked(sources[0])


def _lettered(usage: PortUsage | None, core: CoreConstants) -> PortUsage | None:
    """Return a usage with letters for the resources that a core gives letters to; None if any has none."""
    if usage is None:
        return None
    names = {port: core.ports.resources.get(port, port) for ports in usage.uops for port in ports}
    if not set(names.values()) <= set(core.ports.all):
        return None
    return PortUsage({frozenset(names[port] for port in ports): count for ports, count in usage.uops.items()})


def _certain(variant: InstructionVariant, usage: PortUsage | None) -> tuple[Uop, ...]:
    """Return the µops that are certain among others that are not known: they use ports, and pass nothing on."""
    inputs = value_inputs(variant)
    return tuple(Uop(ports, 1, inputs) for ports in _port_sets(usage))


def _decoding(form: FormFacts, slots: int) -> Decoding | None:
    """Return how the front end takes a form, None if the file does not say."""
    if form.decoded is None and form.microcoded is None:
        return None
    microcoded = form.microcoded or 0
    decoded = form.decoded if form.decoded is not None else max(1, slots - microcoded)
    return Decoding(min(decoded, MOST_UOPS), microcoded, form.complex, form.simple if form.complex else None)


def fused_uops(uops: Iterable[Uop]) -> int:
    """Return how many fused-domain µops there are if a load rides with a computation, and a store is one."""
    kinds = [uop.kind for uop in uops if uop.ports]
    computing = kinds.count(UopKind.COMPUTE)
    return max(computing, kinds.count(UopKind.LOAD)) + kinds.count(UopKind.STORE_DATA)


def _divided(uops: tuple[Uop, ...], facts: VariantFacts) -> tuple[Uop, ...]:
    """Let the µop with the fewest ports that computes for longest occupy the divider."""
    computing = [n for n, uop in enumerate(uops) if uop.ports and uop.kind is UopKind.COMPUTE]
    if not computing:
        return uops
    chosen = max(computing, key=lambda n: (uops[n].latency, -len(uops[n].ports), -n))
    fast = min((one.cycles - one.fast for one in facts.latencies.values() if one.fast < one.cycles), default=0)
    old = uops[chosen]
    quick = (max(1, old.latency - fast), max(1, facts.divider_cycles - fast)) if fast else None
    divider = replace(old, divider_cycles=facts.divider_cycles, fast=quick)
    return (*uops[:chosen], divider, *uops[chosen + 1 :])


def _occupied(
    variant: InstructionVariant,
    made: Behaviour,
    form: FormFacts,
    facts: VariantFacts,
    core: CoreConstants,
    *,
    known: bool,
) -> Fraction:
    """Return for how long an instance keeps the next one from starting beyond what else explains (0: not at all)."""
    measured = form.throughput
    if any(o.registers == X87_PUSH for o in variant.operands):
        return Fraction(0)
    if measured is None or not known:
        return measured or Fraction(0)
    explained = max(
        throughput_of(made.port_usage),
        *data_paths(variant, made.uops, core).values(),
        Fraction(made.slots, core.back_end.issue_width),
        Fraction(facts.divider_cycles),
        _carried(variant, facts, measured),
    )
    beyond = measured >= 1 and (measured >= explained * UNEXPLAINED or measured >= explained + 1)
    return measured if beyond else Fraction(0)


def _carried(variant: InstructionVariant, facts: VariantFacts, measured: Fraction) -> Fraction:
    """Return how much of a measured throughput is latency from what all instances share to itself.

    That is a fixed register, or a flag that is both read and written: DF of CMPSB is read alone. What is known to take
    more than a cycle longer than the throughput was not in the measured code: dependency breakers cut it.
    """
    shared = {o.index for o in variant.operands if _is_shared(o)}
    found = [one for pair, one in facts.latencies.items() if pair.source == pair.target in shared]
    cycles = [Fraction(one.cycles) for one in found if one.bounded or one.fast <= measured + 1]
    return max(cycles, default=Fraction(0))


def _is_shared(operand: Operand) -> bool:
    """Whether all instances read what they write in an operand: a fixed register, or one of the flags."""
    if operand.kind is OperandKind.FLAGS:
        return bool(set(read_flags(operand)) & set(written_flags(operand)))
    return operand.kind is OperandKind.REGISTER and len(operand.registers) == 1


def _endpoints(variant: InstructionVariant, latencies: Mapping[LatencyPair, Cycles]) -> Latencies:
    """Return the latencies by endpoint: flags each by itself, a memory operand as a result by its content."""
    operands = {o.index: o for o in variant.operands}
    found: Latencies = {}
    for pair, one in latencies.items():
        if pair.source not in operands or pair.target not in operands:
            continue
        for source in _sources(operands[pair.source], pair.part):
            for target in _targets(operands[pair.target]):
                found[source, target] = one.cycles
    return found


def _paths(variant: InstructionVariant, latencies: Mapping[LatencyPair, Cycles], core: CoreConstants) -> Latencies:
    """Return the latencies by endpoint, with the cycles of the way through memory counted once."""
    stored = [o.width_bits for o in variant.operands if _is_memory_result(o)]
    merged = 1 if stored and set(stored) <= {8, 16} else 0
    overlap = overlap_cycles(variant, core)
    if core.memory_renaming is not None:
        return _without_memory(variant, latencies, core)
    found = _endpoints(variant, latencies)
    for (source, end), cycles in found.items():
        if source.part is LatencyPart.MEMORY:
            found[source, end] = _shortened(cycles, overlap)
        elif end.part is LatencyPart.MEMORY:
            waited = _waited_cycles(variant, core) if source.part is LatencyPart.NONE and cycles else 0
            found[source, end] = max(_shortened(cycles, merged), waited)
    return found


def _without_memory(variant: InstructionVariant, facts: Mapping[LatencyPair, Cycles], core: CoreConstants) -> Latencies:
    """Return the latencies with those through memory as if nothing came between a store and a load."""
    stated = _endpoints(variant, facts)
    found = {pair: cycles for pair, cycles in stated.items() if LatencyPart.MEMORY not in _parts(pair)}
    for operand in variant.operands:
        if operand.kind is not OperandKind.MEMORY:
            continue
        place = Endpoint(operand.index, LatencyPart.MEMORY)
        computed = _computed_cycles(operand, stated, core)
        if _is_memory_result(operand):
            moved = set(_address_updates(variant))
            known = {source for source, _ in stated}
            sources = [source for source in value_inputs(variant) if source in known and source not in moved]
            found |= {(source, place): _until_flags(source, stated, computed) for source in sources}
        if operand.read and computed:
            found |= {(place, end): computed for end in [*value_outputs(variant), place]}
        elif operand.read:
            found |= {(place, end): cycles for end, cycles in _behind_load(variant, operand, facts, core)}
    return found


def _parts(pair: tuple[Endpoint, Endpoint]) -> tuple[LatencyPart, LatencyPart]:
    return (pair[0].part, pair[1].part)


def _until_flags(source: Endpoint, stated: Latencies, default: int) -> int:
    """Return the cycles from a source to the first flag, which is there when what is stored is."""
    flags = (cycles for (start, end), cycles in stated.items() if start == source and end.flag)
    return min(flags, default=default)


def _computed_cycles(operand: Operand, stated: Latencies, core: CoreConstants) -> int:
    """Return the cycles from what is read to what is stored in an operand in memory; 0 if it is not both.

    A file states them if every such place is renamed. Else flags that come out of a register tell.
    """
    if not operand.read or not _is_memory_result(operand):
        return 0
    assert core.memory_renaming is not None
    place = Endpoint(operand.index, LatencyPart.MEMORY)
    if (
        operand.width_bits in core.memory_renaming.widths
        and not core.memory_renaming.bases
        and (place, place) in stated
    ):
        return max(1, stated[place, place])
    flags = [cycles for (source, end), cycles in stated.items() if source.part is LatencyPart.NONE and end.flag]
    return min(flags, default=1)


def _behind_load(
    variant: InstructionVariant, operand: Operand, facts: Mapping[LatencyPair, Cycles], core: CoreConstants
) -> Iterator[tuple[Endpoint, int]]:
    """Yield the results of a load, and how many cycles after a plain load of that kind of register they are there.

    That is nothing where only an upper bound is known, and nothing else is read.
    """
    narrow, middle, _ = core.memory.load_latency
    load = middle if _uses_vectors(variant) else narrow
    operands = {o.index: o for o in variant.operands}
    moved = set(_address_updates(variant))
    alone = all(source in moved for source in value_inputs(variant))
    for pair, one in facts.items():
        if pair.source == operand.index and pair.part in ADDRESS_PARTS and pair.target in operands:
            for end in _targets(operands[pair.target]):
                if end not in moved:
                    yield end, 0 if alone and one.bounded and not _uses_vectors(variant) else max(0, one.cycles - load)


def _waited_cycles(variant: InstructionVariant, core: CoreConstants) -> int:
    """Return the cycles from the data of a plain store to a load of them that waits, less one; 0 for other variants.

    Stores of 8 and 16 bits are measured with other loads.
    """
    places = [o for o in variant.operands if o.kind is OperandKind.MEMORY]
    if any(o.read or (o.width_bits or 0) < 32 for o in places) or not core.ports.load:
        return 0
    return core.memory.forwarding - 1 + (core.memory.vector_cycles if _uses_vectors(variant) else 0)


def _uses_vectors(variant: InstructionVariant) -> bool:
    return any(o.registers and o.registers[0].startswith(VECTORS) for o in variant.operands if tracked(o))


def _shortened(cycles: int, less: int, least: int = 1) -> int:
    """Return a latency that is less by some cycles, but not 0 if it was not: 0 would be no dependency."""
    return min(cycles, max(least, cycles - less))


def overlap_cycles(variant: InstructionVariant, core: CoreConstants) -> int:
    """Return what the stated latency of a load from memory has beyond its part of the way from a store, a cycle.

    A plain load is stated with the whole way less a cycle. The way of a vector is longer by as much as a load of 128
    bits is. A store of 256 bits is stated like one of 128, and only its load takes longer. What stores too has no
    overlap (0).
    """
    if any(_is_memory_result(o) for o in variant.operands):
        return 0
    is_wide = any(o.kind is OperandKind.MEMORY and (o.width_bits or 0) > 128 for o in variant.operands)
    general, vector = core.memory.stated
    return (vector if _uses_vectors(variant) or is_wide else general) - 1


def _is_memory_result(operand: Operand) -> bool:
    return operand.kind is OperandKind.MEMORY and (operand.written or operand.conditional_write)


def _sources(operand: Operand, part: LatencyPart) -> tuple[Endpoint, ...]:
    if operand.kind is OperandKind.FLAGS:
        return tuple(Endpoint(operand.index, flag=flag) for flag in read_flags(operand))
    if operand.kind is OperandKind.AGEN and part is LatencyPart.NONE:
        return address_inputs(operand)
    if operand.kind is OperandKind.MEMORY and part is LatencyPart.NONE:
        return (Endpoint(operand.index, LatencyPart.MEMORY),)
    known = part is not LatencyPart.NONE or tracked(operand)
    return (Endpoint(operand.index, part),) if known else ()


def _targets(operand: Operand) -> tuple[Endpoint, ...]:
    if operand.kind is OperandKind.FLAGS:
        return tuple(Endpoint(operand.index, flag=flag) for flag in written_flags(operand))
    if operand.kind is OperandKind.MEMORY:
        return (Endpoint(operand.index, LatencyPart.MEMORY),)
    return (Endpoint(operand.index),) if tracked(operand) else ()


class _Builder:
    """Puts the µops of one graph together.

    `stages` says for each result how many cycles after the start of the chain it comes.
    """

    def __init__(
        self, variant: InstructionVariant, core: CoreConstants, latencies: Latencies, usage: PortUsage | None
    ) -> None:
        """Take what must come out: the latencies, and the ports of the µops (None: not known)."""
        self.variant, self.core, self.latencies = variant, core, latencies
        self.uops: list[Uop] = []
        self.read = [o for o in variant.operands if o.kind is OperandKind.MEMORY and o.read]
        self.written = [o for o in variant.operands if _is_memory_result(o)]
        self.overlap = overlap_cycles(variant, core)
        self.roles = _roles(usage, core, reads=bool(self.read), writes=len(self.written))
        places = [Endpoint(o.index, LatencyPart.MEMORY) for o in self.written]
        known = {end for _, end in latencies}
        free = {one for one in _address_updates(variant) if one not in known}
        self.results = [*(one for one in value_outputs(variant) if one not in free), *places]
        self.stages = self._stages()
        self.base = self._base()
        self.common = self._common()

    def build(self) -> tuple[Uop, ...]:
        """Return the µops."""
        if self.roles.total:
            entered = [*self._values(), *self._loads()]
            last = self._chain(entered)
            self._outputs(last)
            self._stores(last)
        self._beside()
        written = {end for uop in self.uops for end in uop.outputs}
        rest = tuple(end for end in self.results if end not in written)
        if rest or not self.uops:
            self._delay(0, () if self.results else value_inputs(self.variant), rest)
        return tuple(self.uops)

    def _add(self, uop: Uop) -> int:
        self.uops.append(uop)
        return len(self.uops) - 1

    def _delay(self, cycles: int, inputs: tuple[Endpoint | int, ...], outputs: tuple[Endpoint, ...] = ()) -> int:
        """Append a µop without a port that takes so many cycles."""
        return self._add(Uop(frozenset(), cycles, inputs, outputs))

    def _stages(self) -> dict[Endpoint, int]:
        """Return the least latency of each result from a register or flag; from an address it is less by a load."""
        found: dict[Endpoint, int] = {}
        for end in self.results:
            values = [c for (s, e), c in self.latencies.items() if e == end and s.part is LatencyPart.NONE]
            addresses = [c for (s, e), c in self.latencies.items() if e == end and s.part in ADDRESS_PARTS]
            if values and not self._only_loads:
                found[end] = min(values)
            elif addresses:
                found[end] = min(addresses) if self._only_loads else max(1, min(addresses) - self._natural())
        least = min(found.values(), default=1)
        if self._only_loads:
            return {end: found.get(end, least) - least for end in self.results}
        return {end: found.get(end, least) for end in self.results}

    @property
    def _only_loads(self) -> bool:
        """Whether results come straight out of loads."""
        return bool(self.roles.loads) and not self.roles.compute and not self.roles.store_data

    def _natural(self, number: int = 0) -> int:
        """Return the cycles of a load where nothing else is known (0: there is none)."""
        if not self.roles.loads or not self.read:
            return 0
        width = self.read[min(number, len(self.read) - 1)].width_bits or 64
        narrow, middle, wide = self.core.memory.load_latency
        return narrow if width <= 64 else middle if width <= 128 else wide

    def _base(self) -> int:
        """Return for how many cycles µops compute before the first result, or the data of a store, is there."""
        if not self.roles.compute:
            return 0
        stored = [max(0, cycles - 1) for end, cycles in self.stages.items() if self._is_stored(end)]
        others = [cycles for end, cycles in self.stages.items() if not self._is_stored(end)]
        return min([*stored, *others], default=1)

    def _is_stored(self, end: Endpoint) -> bool:
        return end.part is LatencyPart.MEMORY and bool(self.roles.store_data)

    def _common(self) -> list[Endpoint]:
        """Return the sources that enter the chain: no result is known to be independent of them, or quicker."""
        known = [end for end in self.results if any(e == end for _, e in self.latencies)]
        sources = dict.fromkeys(s for s, _ in self.latencies)
        return [
            source
            for source in sources
            if all((source, end) in self.latencies for end in known)
            and self._delay_of(source) >= (1 if source.part in ADDRESS_PARTS and self.roles.loads else 0)
        ]

    def _delay_of(self, source: Endpoint) -> int:
        """Return how many cycles before the start of the chain a source has to be there."""
        return min(cycles - self.stages[end] for (s, end), cycles in self.latencies.items() if s == source)

    def _values(self) -> list[Endpoint | int]:
        """Add the delays of what enters the chain by other ways than an address."""
        found: list[Endpoint | int] = []
        for source in self.common:
            if source.part in ADDRESS_PARTS and self.roles.loads and self._is_read(source):
                continue
            cycles = self._delay_of(source)
            found.append(self._delay(cycles, (source,)) if cycles else source)
        return found

    def _is_read(self, source: Endpoint) -> bool:
        return any(operand.index == source.operand for operand in self.read)

    def _loads(self) -> list[int]:
        """Add the loads, and return those that the chain waits for: not if it is known to be quicker."""
        known = {source for source, _ in self.latencies}
        waited: list[int] = []
        for number, ports in enumerate(self.roles.loads):
            operand = self.read[min(number, len(self.read) - 1)]
            parts = address_inputs(operand)
            entering = {part: self._delay_of(part) for part in parts if part in self.common}
            latency = min(entering.values(), default=self._natural(number))
            inputs: list[Endpoint | int] = [part for part in parts if part not in known]
            for part, cycles in entering.items():
                inputs.append(self._delay(cycles - latency, (part,)) if cycles > latency else part)
            place = Endpoint(operand.index, LatencyPart.MEMORY)
            if place not in known and self.overlap:
                waited.append(self._delay(_shortened(latency, self.overlap), (place,)))
            elif place not in known:
                inputs.append(place)
            load = self._add(Uop(ports, max(1, latency), tuple(inputs), kind=UopKind.LOAD))
            if inputs or not parts or place not in known:
                waited.append(load)
        return waited

    def _chain(self, entered: list[Endpoint | int]) -> tuple[Endpoint | int, ...]:
        """Add the computing µops; return what their result is."""
        length = max(1, min(len(self.roles.compute), self.base))
        inputs: tuple[Endpoint | int, ...] = tuple(entered)
        for number, ports in enumerate(self.roles.compute[:length]):
            latency = max(0, self.base - (length - 1)) if number == 0 else 1
            inputs = (self._add(Uop(ports, latency, inputs)),)
        for ports in self.roles.compute[length:]:
            self._add(Uop(ports, 1, tuple(entered)))
        return inputs

    def _outputs(self, last: tuple[Endpoint | int, ...]) -> None:
        """Let the results come out of the chain, each after its delay; those in memory are stored."""
        later: dict[int, list[Endpoint]] = {}
        for end in self.results:
            if not self._is_stored(end):
                later.setdefault(self.stages[end] - self.base, []).append(end)
        for cycles, ends in later.items():
            only = last[0] if len(last) == 1 else None
            if not cycles and isinstance(only, int):
                self.uops[only] = replace(self.uops[only], outputs=tuple(ends))
            else:
                self._delay(cycles, last, tuple(ends))

    def _stores(self, last: tuple[Endpoint | int, ...]) -> None:
        """Add a data µop and an address µop per store; a load of the place waits for both."""
        for number, ports in enumerate(self.roles.store_data):
            operand = self.written[min(number, len(self.written) - 1)]
            place = Endpoint(operand.index, LatencyPart.MEMORY)
            if number < len(self.roles.store_addresses):
                sets = self.roles.store_addresses[number]
                self._add(Uop(sets, 1, address_inputs(operand), (place,), UopKind.STORE_ADDRESS))
            cycles = max(1, self.stages[place] - self.base)
            self._add(Uop(ports, cycles, last, (place,), UopKind.STORE_DATA))

    def _beside(self) -> None:
        """Add the latencies that the chain does not give: longer ones, and those of sources that do not enter it."""
        for (source, end), cycles in self.latencies.items():
            chained = self.roles.total and source in self.common
            if not chained or self._delay_of(source) + self.stages[end] < cycles:
                self._delay(cycles, (source,), (end,))


def _address_updates(variant: InstructionVariant) -> Iterator[Endpoint]:
    """Yield the registers that are written because an implicit address goes through them (RSP of PUSH)."""
    bases = {o.memory.base for o in variant.operands if o.memory is not None and o.memory.base}
    for operand in variant.operands:
        if operand.suppressed and operand.written and len(operand.registers) == 1 and operand.registers[0] in bases:
            yield Endpoint(operand.index)


@dataclass(frozen=True, slots=True)
class _Roles:
    """The port sets of µops by what they do."""

    compute: list[frozenset[str]]
    loads: list[frozenset[str]]
    store_data: list[frozenset[str]]
    store_addresses: list[frozenset[str]]

    @property
    def total(self) -> int:
        """How many µops there are."""
        return len(self.compute) + len(self.loads) + len(self.store_data) + len(self.store_addresses)


def _roles(usage: PortUsage | None, core: CoreConstants, *, reads: bool, writes: int) -> _Roles:
    """Say what the µops do. A store's address goes to ports that only stores use, or to those of a load to spare."""
    rest = _port_sets(usage)
    ports = core.ports
    store_data: list[frozenset[str]] = []
    addresses: list[frozenset[str]] = []
    if writes:
        store_data, rest = _split(rest, frozenset(ports.store_data))
        if store_data:
            able = [s for s in rest if s <= frozenset(ports.store_address)]
            pure = [s for s in able if not s <= frozenset(ports.load)]
            shared = [s for s in able if s <= frozenset(ports.load)][1 if reads else 0 :]
            addresses = [*pure, *shared][: len(store_data)]
            for one in addresses:
                rest.remove(one)
    loads: list[frozenset[str]] = []
    if reads:
        loads, rest = _split(rest, frozenset(ports.load))
    return _Roles(rest, loads, store_data, addresses)


def _split(sets: list[frozenset[str]], ports: frozenset[str]) -> tuple[list[frozenset[str]], list[frozenset[str]]]:
    """Divide port sets into those that lie within some ports and the rest."""
    return [one for one in sets if one <= ports], [one for one in sets if not one <= ports]


def _port_sets(usage: PortUsage | None) -> list[frozenset[str]]:
    """Return the port set of each µop, those with the fewest ports first."""
    if usage is None:
        return []
    ordered = sorted(usage.uops.items(), key=lambda item: (len(item[0]), sorted(map(port_order, item[0]))))
    return list(islice(chain.from_iterable(repeat(ports, count) for ports, count in ordered), MOST_UOPS))


def data_paths(variant: InstructionVariant, uops: Iterable[Uop], core: CoreConstants) -> dict[UopKind, Fraction]:
    """Return for how many core cycles the ways of data of all loads, and of all stores, are occupied.

    A load or store of more bits than a port moves in a cycle takes its way for as many cycles as are needed; the port
    is free for addresses meanwhile (Intel's Optimization Reference Manual, chapter 2, Sandy Bridge: two accesses of 16
    bytes for each of 256 bits).
    """
    ports = {UopKind.LOAD: len(core.ports.load), UopKind.STORE_DATA: len(core.ports.store_data)}
    kinds = [uop.kind for uop in uops if uop.ports and ports.get(uop.kind)]
    cycles = 2 if is_wide(variant, core) else 1
    return {kind: Fraction(kinds.count(kind) * cycles, ports[kind]) for kind in dict.fromkeys(kinds)}


def access_units(variant: InstructionVariant, core: CoreConstants) -> dict[str, Fraction]:
    """Return for how many core cycles an instruction occupies what all loads and stores share, by the name of the unit.

    Only for cores of which the rates of loads and stores are known, and their ports are not.
    """
    places = [o for o in variant.operands if o.kind is OperandKind.MEMORY]
    stores = sum(o.written or o.conditional_write for o in places)
    loads = sum(o.read for o in places)
    if not core.memory.rates or not places or "NOP" in variant.category:
        return {}
    every, storing, vectors, vectors_stored = core.memory.rates
    found = {"loads and stores": Fraction(loads + stores, every), "stores": Fraction(stores, storing)}
    if _uses_vectors(variant):
        found["loads of vectors"] = Fraction(loads, vectors)
        found["stores of vectors"] = Fraction(stores, vectors_stored)
    return {name: cycles for name, cycles in found.items() if cycles}


def is_wide(variant: InstructionVariant, core: CoreConstants) -> bool:
    """Whether its operand in memory is twice as wide as what a port moves in a cycle."""
    return any(o.kind is OperandKind.MEMORY and o.width_bits == 2 * core.memory.path_bits for o in variant.operands)
