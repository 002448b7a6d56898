"""Makes a graph of µops from the measurements of a variant: ports, µops, and the latency of each pair of operands.

Measurements do not show the work of each µop. Fixed rules make the graph. Each µop has its measured ports, and the
longest path between two operands is the measured latency:

- `roles`: which µops load, store and compute;
- `kept`: results that wait for the register that they go to;
- `latencies`: the latencies that have to come out, with the way through memory counted once;
- `graph_builder`: the chain of computing µops, and delays beside it;
- `occupied`: a unit of its own where all that does not explain the throughput.

Here are the rules for forms, and for what is done at rename:

- **A latency of 0**: an instruction with ports has no dependency there. One without ports is an eliminated move. If it
  reads two registers and writes one, it is an idiom that breaks the dependency where both are the same. If its ports
  are not known, it is a move if it reads only a single value, or writes all that it reads. A move that needs a port
  with the same register needs that port wherever rename cannot eliminate it.
- **Some ports**: where only some µops are certain, they use their ports beside what the latencies say.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from results.machine.graph import (
    Behaviour,
    Decoding,
    Knowledge,
    KnownShare,
    Uop,
    UopKind,
    address_inputs,
    address_updates,
    tracked,
    value_inputs,
    value_outputs,
)
from results.machine.graph_builder import GraphBuilder
from results.machine.kept import with_kept_registers
from results.machine.latencies import dependencies, latencies_of
from results.machine.occupied import occupied_cycles
from results.machine.roles import MOST_UOPS, roles_of
from results.model import Form, PortUsage
from results.ports import throughput_of
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from results.machine.constants import CoreConstants
    from results.machine.facts import Cycles, FormFacts, LatencyPair, VariantFacts
    from results.machine.latencies import Latencies
    from xed_convert.model import InstructionVariant, Operand

FREE = Fraction(9, 10)
"""A form uses no ports if it takes less than this share of the cycles that they need; the rest is noise."""


def behaviour_from(variant: InstructionVariant, facts: VariantFacts, core: CoreConstants) -> Behaviour:
    """Make the behaviour of a variant from its facts, by the rules in the module's docstring."""
    facts = with_kept_registers(variant, facts)
    plain = _form(variant, facts.plain, latencies_of(variant, facts.latencies, core), facts, core)
    same = facts.forms.get(Form.SAME_REGISTER)
    if same is not None or facts.same_register:
        latencies = latencies_of(variant, _with_same_register(variant, facts), core)
        form = _inherited(same or facts.plain, facts.plain)
        copies = _hands_on(variant)  # a move of a register to itself still hands its value on
        independent = _form(variant, form, latencies if copies else dependencies(latencies, core), facts, core)
        plain = replace(plain, same_register=independent)
        if not plain.port_usage.total and copies and len(independent.port_usage.uops) == 1:
            plain = replace(plain, uneliminated=next(iter(independent.port_usage.uops)))
    indexed = facts.forms.get(Form.INDEXED)
    if indexed is not None:
        form = _inherited(indexed, facts.plain)
        plain = replace(plain, indexed=_form(variant, form, latencies_of(variant, facts.latencies, core), facts, core))
    return plain


def _with_same_register(variant: InstructionVariant, facts: VariantFacts) -> Mapping[LatencyPair, Cycles]:
    """Return the latencies if all operands are one register: those of other sources, such as flags, stay."""
    if not facts.same_register:
        return facts.latencies
    explicit = {operand.index for operand in variant.explicit_registers}
    others = {pair: cycles for pair, cycles in facts.latencies.items() if pair.source not in explicit}
    return {**others, **facts.same_register}


def _inherited(form: FormFacts, plain: FormFacts) -> FormFacts:
    """Return the facts about a form, with the ports and µops of the plain form if it has none of its own.

    These may be known in part only. A form that is quicker than the plain form's ports allow uses none: it is done at
    rename, as a zero idiom is.
    """
    known = plain.ports if plain.ports is not None else plain.some_ports
    quicker = form.throughput is not None and known is not None and form.throughput < FREE * throughput_of(known)
    same = form.ports is None and form.some_ports is None and form.uops in (None, plain.uops) and not quicker
    return replace(
        form,
        ports=plain.ports if same else PortUsage({}) if quicker and form.ports is None else form.ports,
        some_ports=plain.some_ports if same else form.some_ports,
        uops=plain.uops if form.uops is None else form.uops,
        retire_slots=plain.retire_slots if form.retire_slots is None else form.retire_slots,
        decoded=plain.decoded if form.decoded is None else form.decoded,
        microcoded=plain.microcoded if form.microcoded is None else form.microcoded,
        issue_slots=plain.issue_slots if same else None,
    )


def _form(
    variant: InstructionVariant, form: FormFacts, latencies: Latencies, facts: VariantFacts, core: CoreConstants
) -> Behaviour:
    """Make what a core does with one form."""
    usage = _lettered(form.ports, core)
    at_rename = _hands_on(variant) if usage is None else not usage.total
    latencies = latencies if at_rename else dependencies(latencies, core)
    uops = GraphBuilder(variant, core, latencies, usage).build()
    if facts.divider_cycles:
        uops = _divided(uops, facts)
    timed = form.possible_slots(core.back_end.issue_width)
    slots = next((one for one in (form.retire_slots, timed) if one is not None), max(1, fused_uops(uops)))
    certain = _certain(variant, _lettered(form.some_ports, core), core) if usage is None else ()
    fusible = facts.macro_fusible
    made = Behaviour(
        (*uops, *certain),
        max(1, slots),
        decoding=_decoding(form, slots, is_timed=timed is not None),
        fuses_with=frozenset() if fusible is None and facts.fusion_known else fusible,
        knowledge=Knowledge(True, _known_share(usage, uops, certain), form.by_time, _is_timed(variant, facts)),
    )
    return replace(made, occupies=occupied_cycles(variant, made, form, facts, core, known=usage is not None))


def _is_timed(variant: InstructionVariant, facts: VariantFacts) -> bool:
    """Whether a file states a latency of a variant, or it has none.

    That is so if it reads nothing, or writes no register but the one that the stack engine makes.
    """
    updated = set(address_updates(variant))
    results = set(value_outputs(variant)) - updated
    sources = bool(set(value_inputs(variant)) - updated or variant.read_memory)
    return bool(facts.latencies or facts.same_register) or not (results and sources)


def _known_share(usage: PortUsage | None, uops: Sequence[Uop], certain: Sequence[Uop]) -> KnownShare:
    """Return of how many µops the ports are known; a move in no time needs none, whether the file says that or not."""
    if usage is not None:
        return KnownShare.ALL
    if certain:
        return KnownShare.SOME
    moves = all(uop.inputs and uop.outputs and not uop.latency for uop in uops)
    return KnownShare.ALL if uops and moves else KnownShare.NONE


def _hands_on(variant: InstructionVariant) -> bool:
    """Whether a variant with latencies of 0 is a move: it reads one value, or exchanges registers."""
    sources = [o for o in variant.operands if o.read and o.kind is not OperandKind.IMMEDIATE]
    if len(sources) == 1:
        return tracked(sources[0]) or sources[0].kind is OperandKind.AGEN
    return all(map(tracked, sources)) and [o for o in variant.operands if o.written] == sources


def _lettered(usage: PortUsage | None, core: CoreConstants) -> PortUsage | None:
    """Return a usage with letters for the resources that a core gives letters to; None if any has none."""
    if usage is None:
        return None
    names = {port: core.ports.resources.get(port, port) for ports in usage.uops for port in ports}
    if not set(names.values()) <= set(core.ports.all):
        return None
    return PortUsage({frozenset(names[port] for port in ports): count for ports, count in usage.uops.items()})


def _certain(variant: InstructionVariant, usage: PortUsage | None, core: CoreConstants) -> tuple[Uop, ...]:
    """Return the µops that are certain among others that are not known: they use ports, and pass nothing on.

    Loads and the µops of store addresses wait for the registers of an address, all others for the values that are read.
    """
    places = [operand for operand in variant.operands if operand.kind is OperandKind.MEMORY]
    read, written = [one for one in places if one.read], [one for one in places if one.written]
    roles = roles_of(usage, core, reads=bool(read), writes=len(written))
    values = value_inputs(variant)
    return (
        *(Uop(ports, 1, values) for ports in roles.compute),
        *_of_addresses(roles.loads, read, UopKind.LOAD),
        *(Uop(ports, 1, values, kind=UopKind.STORE_DATA) for ports in roles.store_data),
        *_of_addresses(roles.store_addresses, written, UopKind.STORE_ADDRESS),
    )


def _of_addresses(sets: Iterable[frozenset[str]], places: Sequence[Operand], kind: UopKind) -> Iterator[Uop]:
    """Yield a µop per port set, which waits for the address of its operand; the last operand has all that are left."""
    for number, ports in enumerate(sets):
        yield Uop(ports, 1, address_inputs(places[min(number, len(places) - 1)]), kind=kind)


def _decoding(form: FormFacts, slots: int, *, is_timed: bool) -> Decoding | None:
    """Return how the front end takes a form, None if neither the file says it, nor time the slots.

    Where time tells the slots, they come from the decoders that the file names, from any if it names none.
    """
    if form.decoded is None and form.microcoded is None and not is_timed:
        return None
    microcoded = form.microcoded or 0
    decoded = form.decoded if form.decoded is not None else max(1, slots - microcoded)
    return Decoding(min(decoded, MOST_UOPS), microcoded, bool(form.complex), form.simple if form.complex else None)


def fused_uops(uops: Iterable[Uop]) -> int:
    """Return the number of fused-domain µops: a load fuses with a computation, and a store is one."""
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
