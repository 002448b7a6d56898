"""Graphs of µops made from measurements: the longest path between two operands is the measured latency."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import pytest

from results.machine.build import behaviour_from
from results.machine.constants import core_of
from results.machine.facts import Cycles, FormFacts, LatencyPair, VariantFacts
from results.machine.file import MachineFile, read_machine
from results.machine.graph import Behaviour, Decoding, Endpoint, Uop, UopKind
from results.machine.latencies import overlap_cycles
from results.machine.occupied import access_units, data_paths
from results.model import Form, LatencyPart, PortUsage
from tests.nonempty import some
from tests.shared import measured_haswell, shared
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from xed_convert.model import InstructionVariant

NO_PART, ADDRESS, INDEX, MEMORY = LatencyPart
ZERO = "a latency of 0 that is no dependency"


@cache
def catalogue() -> Catalogue:
    return Catalogue.load()


@cache
def machine() -> MachineFile:
    return read_machine(measured_haswell())


def behaviour(string: str) -> Behaviour:
    found = machine().behaviour(catalogue().by_string(string))
    assert found is not None
    return found


def made(string: str, ports: str, latencies: dict[LatencyPair, int]) -> Behaviour:
    form = FormFacts(PortUsage.parse(ports), retire_slots=1)
    facts = VariantFacts({Form.PLAIN: form}, {pair: Cycles(n, n) for pair, n in latencies.items()})
    return behaviour_from(catalogue().by_string(string), facts, core_of("HSW"))


def paths(uops: tuple[Uop, ...]) -> dict[tuple[Endpoint, Endpoint], int]:
    """Return the longest path between every two endpoints that are connected, in cycles."""
    arrivals: list[dict[Endpoint, int]] = []
    found: dict[tuple[Endpoint, Endpoint], int] = {}
    for uop in uops:
        arrival: Counter[Endpoint] = Counter()
        for source in uop.inputs:
            for start, cycles in ({source: 0} if isinstance(source, Endpoint) else arrivals[source]).items():
                arrival[start] = max(arrival[start], cycles + uop.latency)
        arrivals.append(dict(arrival))
        for end in uop.outputs:
            for start, cycles in arrival.items():
                found[start, end] = max(found.get((start, end), 0), cycles)
    return found


def between(uops: tuple[Uop, ...], pair: LatencyPair) -> int | None:
    """Return the longest path from one operand (and part) to another over all flags, None without one."""
    return max(
        (
            cycles
            for (start, end), cycles in paths(uops).items()
            if (start.operand, end.operand) == (pair.source, pair.target)
            and pair.part in (start.part, NO_PART if start.part is MEMORY else start.part)
        ),
        default=None,
    )


def counted_once(variant: InstructionVariant, pair: LatencyPair, cycles: int) -> int:
    """Return a pair's cycles on a Haswell; the way through memory counts once (see `results.machine.latencies`)."""
    operands = {o.index: o for o in variant.operands}
    memory = [o for o in variant.operands if o.kind is OperandKind.MEMORY]
    stored = [o.width_bits for o in memory if o.written or o.conditional_write]
    if operands[pair.source] in memory and pair.part in (NO_PART, MEMORY):
        return min(cycles, max(1, cycles - overlap_cycles(variant, core_of("HSW"))))
    if operands[pair.target] in memory and set(stored) <= {8, 16}:
        return min(cycles, max(1, cycles - 1))
    return cycles


def check_variant(file: MachineFile, variant: InstructionVariant) -> Counter[str]:
    """Compare the graphs of a variant with what the file says; count what was compared."""
    facts, found = file.facts(variant), file.behaviour(variant)
    assert facts is not None
    assert found is not None
    counts: Counter[str] = Counter()
    if facts.plain.ports is not None and facts.plain.ports.total < 500:
        assert found.port_usage == facts.plain.ports, variant.string
    for form, inner in ((Form.INDEXED, found.indexed), (Form.SAME_REGISTER, found.same_register)):
        form_facts = facts.forms.get(form)
        if form_facts is not None and form_facts.ports is not None:
            assert inner is not None
            assert inner.port_usage == form_facts.ports, variant.string
            counts["forms"] += 1
    for pair, latency in facts.latencies.items():
        cycles, expected = between(found.uops, pair), counted_once(variant, pair, latency.cycles)
        assert cycles == (expected or cycles or None) or (cycles == 0 == expected), (variant.string, pair)
        counts[ZERO if cycles is None else "pairs"] += 1
    return counts


def test_every_variant_of_the_sample_has_its_ports_and_latencies() -> None:
    counts = sum((check_variant(machine(), one) for one in catalogue() if machine().row(one)), Counter[str]())
    assert counts["pairs"] > 1000
    assert counts["forms"] > 50
    assert counts[ZERO] < counts["pairs"] / 20


@pytest.mark.slow
def test_every_variant_of_a_whole_file_has_its_ports_and_latencies() -> None:
    file = read_machine(shared("measured/HSW.uops-info.xml.xz"))
    known = [one for one in catalogue() if file.row(one)]
    assert len(known) == len(file) == 3687
    assert sum((check_variant(file, one) for one in some(known)), Counter[str]())["pairs"] > 10_000


@pytest.mark.parametrize(
    ("string", "overlap"),
    [("MOV (R64, M64)", 3), ("MOVAPS (XMM, M128)", 4), ("VMOVAPS (YMM, M256)", 4), ("ADD (M64, R64)", 0)],
)
def test_a_load_is_stated_with_the_way_from_a_store(string: str, overlap: int) -> None:
    assert overlap_cycles(catalogue().by_string(string), core_of("HSW")) == overlap


def test_a_store_of_a_byte_is_stated_with_the_load_that_merges() -> None:
    pair = LatencyPair(2, NO_PART, 1)
    found = [
        between(made(string, "1*p4+1*p237", {pair: 5}).uops, pair) for string in ("MOV (M8, R8l)", "MOV (M64, R64)")
    ]
    assert found == [4, 5]


def test_a_value_in_memory_that_nothing_is_known_of_takes_the_rest_of_the_way() -> None:
    found = made("MOV (R64, M64)", "1*p23", {LatencyPair(2, ADDRESS, 1): 5})
    assert between(found.uops, LatencyPair(2, MEMORY, 1)) == 2
    assert between(found.uops, LatencyPair(2, ADDRESS, 1)) == 5


def test_results_that_come_later_leave_the_chain_with_a_delay() -> None:
    uops = behaviour("MULX (R64, R64, R64)").uops
    assert [(sorted(uop.ports), uop.latency) for uop in uops if uop.ports] == [(["1"], 2), (["0", "6"], 1)]
    assert between(uops, LatencyPair(3, NO_PART, 1)) == 4
    assert between(uops, LatencyPair(3, NO_PART, 2)) == 3


def test_a_change_in_memory_is_a_load_a_computation_and_a_store() -> None:
    uops = behaviour("ADD (M64, R64)").uops
    kinds = {uop.kind: sorted(uop.ports) for uop in uops if uop.ports}
    assert kinds == {
        UopKind.LOAD: ["2", "3"],
        UopKind.COMPUTE: ["0", "1", "5", "6"],
        UopKind.STORE_ADDRESS: ["2", "3", "7"],
        UopKind.STORE_DATA: ["4"],
    }


def test_with_an_index_a_store_address_goes_where_the_file_says() -> None:
    indexed = behaviour("ADD (M64, R64)").indexed
    assert indexed is not None
    assert str(indexed.port_usage) == "1*p0156+2*p23+1*p4"
    assert indexed.slots == 3
    assert indexed.decoding == Decoding(decoded=2, complex=True, simple=2)


def test_an_address_that_nothing_is_known_of_takes_the_usual_time_of_a_load() -> None:
    found = made("ADDPD (XMM, M128)", "1*p1+1*p23", {LatencyPair(1, NO_PART, 1): 3})
    assert between(found.uops, LatencyPair(2, ADDRESS, 1)) == 6 + 3


def test_a_result_that_comes_before_a_load_could_bring_it_does_not_wait_for_the_load() -> None:
    """The latencies of LEAVE on uops.info's Haswell: RSP comes out of RBP, and RBP out of memory."""
    latencies = {LatencyPair(2, NO_PART, 2): 6, LatencyPair(2, NO_PART, 3): 2}
    found = made("LEAVE", "2*p0156+1*p23", latencies)
    assert {pair: between(found.uops, pair) for pair in latencies} == latencies
    assert between(found.uops, LatencyPair(1, ADDRESS, 2)) == 5
    assert between(found.uops, LatencyPair(1, ADDRESS, 3)) is None


def unknown(string: str, core: str, latencies: dict[LatencyPair, int] | None = None) -> Behaviour:
    """Return a variant without known ports."""
    cycles = {pair: Cycles(n, n) for pair, n in (latencies or {}).items()}
    return behaviour_from(catalogue().by_string(string), VariantFacts({Form.PLAIN: FormFacts()}, cycles), core_of(core))


@pytest.mark.parametrize("core", ["ZEN4", "HSW"])
def test_a_loaded_register_of_which_nothing_is_known_takes_a_load(core: str) -> None:
    load = core_of(core).memory.load_latency[0]
    leave = unknown("LEAVE", core).uops
    assert between(leave, LatencyPair(1, ADDRESS, 2)) == load
    assert between(leave, LatencyPair(1, ADDRESS, 3)) == 1
    (absolute,) = [uop for uop in unknown("MOV (RAX, Moffs64)", core).uops if uop.latency]
    assert (absolute.latency, absolute.inputs, absolute.outputs) == (load, (), (Endpoint(1),))


def test_where_loads_are_renamed_a_loaded_register_waits_for_the_store() -> None:
    memory = LatencyPart.MEMORY
    assert between(unknown("LEAVE", "ZEN4").uops, LatencyPair(1, memory, 2)) == 0
    assert between(unknown("MOV (RAX, Moffs64)", "ZEN4").uops, LatencyPair(2, memory, 1)) == 0
    stated = {LatencyPair(2, memory, 1): 0}  # as of a Golden Cove: it does not depend on a store
    assert between(unknown("MOV (RAX, Moffs64)", "SPR", stated).uops, LatencyPair(2, memory, 1)) is None


@pytest.mark.parametrize(
    "string",
    [
        "VPGATHERDD (XMM, VSIB_XMM, XMM)",  # the mask comes out of it, too
        "DIV (M64)",
        "MOVSB_REPE",  # what is loaded is stored; RCX counts
        "XADD (M64, R64)",
    ],
)
def test_of_several_results_and_what_is_stored_nothing_is_assumed(string: str) -> None:
    assert not paths(unknown(string, "HSW").uops)


def test_what_is_quicker_than_the_chain_goes_around_it() -> None:
    latencies = {LatencyPair(1, NO_PART, 1): 5, LatencyPair(1, NO_PART, 3): 5, LatencyPair(2, NO_PART, 1): 4}
    found = made("ADD_01 (R64, R64)", "1*p0156", latencies)
    assert {pair: between(found.uops, pair) for pair in latencies} == latencies
    assert between(found.uops, LatencyPair(2, NO_PART, 3)) is None


def test_a_same_register_idiom_is_independent_and_a_move_is_not() -> None:
    idiom, move = behaviour("XOR_31 (R64, R64)").same_register, behaviour("MOV_89 (R64, R64)")
    assert idiom is not None
    assert not idiom.port_usage.total
    assert not paths(idiom.uops)
    assert not move.port_usage.total
    assert between(move.uops, LatencyPair(2, NO_PART, 1)) == 0
    assert move.same_register is not None
    assert str(move.same_register.port_usage) == "1*p0156"


def test_a_throughput_that_nothing_explains_occupies_a_unit() -> None:
    assert behaviour("CLD").occupies == 4
    assert behaviour("ADC_13 (R64, R64)").occupies == 0
    assert behaviour("VDIVPS (XMM, XMM, XMM)").occupies == 0


@pytest.mark.parametrize(
    ("string", "shared", "throughput", "occupied"),
    [
        ("ADC_11 (R64, R64)", 3, 5, 0),
        ("ADC_11 (R64, R64)", 3, 4, 0),  # as long as the latency but for a cycle
        ("ADC_11 (R64, R64)", 3, 3, 3),  # the latency was cut
        ("ADC_11 (R64, R64)", 1, 5, 5),  # another register in each instance
        ("CMPSQ", 3, 4, 4),  # from DF, which it reads, to flags that it only writes
    ],
)
def test_a_latency_explains_a_throughput_if_instances_share_it_and_it_was_not_cut(
    string: str, shared: int, throughput: int, occupied: int
) -> None:
    form = FormFacts(PortUsage.parse("1*p06"), throughput=Fraction(throughput))
    facts = VariantFacts({Form.PLAIN: form}, {LatencyPair(shared, NO_PART, shared): Cycles(5, 5)})
    assert behaviour_from(catalogue().by_string(string), facts, core_of("HSW")).occupies == occupied


@pytest.mark.parametrize("ports", [PortUsage.parse("1*p0156"), None])
@pytest.mark.parametrize(
    ("core", "string", "throughput", "occupied"),
    [
        ("CLX", "CMP (AX, I16)", "3.25", "0"),
        ("CLX", "CMP (AX, I16)", "7", "7"),  # longer than the predecoder takes
        ("CLX", "CMP (AX, I16)", "2", "2"),  # shorter: it was not decoded each time
        ("NHM", "CMP (AX, I16)", "6", "0"),
        ("ZEN4", "CMP (AX, I16)", "3.25", "3.25"),  # the prefix costs nothing
        ("CLX", "RET_NEAR (I16)", "3.25", "3.25"),  # no prefix changes its length
        ("CLX", "ENTER_W (I16, I8)", "3.25", "3.25"),
        ("CLX", "CMP (EAX, I32)", "3.25", "3.25"),
    ],
)
def test_a_length_changing_prefix_occupies_nothing_but_the_predecoder(
    core: str, string: str, throughput: str, occupied: str, ports: PortUsage | None
) -> None:
    facts = VariantFacts({Form.PLAIN: FormFacts(ports, throughput=Fraction(throughput))})
    made = behaviour_from(catalogue().by_string(string), facts, core_of(core))
    assert made.occupies == Fraction(occupied)


def test_the_divider_is_occupied_by_the_computation_that_takes_longest() -> None:
    divided = [uop for uop in behaviour("VDIVPS (XMM, XMM, XMM)").uops if uop.divider_cycles]
    assert [(sorted(uop.ports), uop.latency, uop.divider_cycles) for uop in divided] == [(["0"], 10, 7)]


def test_without_known_ports_the_measured_throughput_is_all_that_limits() -> None:
    form = FormFacts(throughput=Fraction(1, 4))
    facts = VariantFacts({Form.PLAIN: form}, {LatencyPair(1, NO_PART, 1): Cycles(1, 1)})
    found = behaviour_from(catalogue().by_string("ADD_01 (R64, R64)"), facts, core_of("ZEN4"))
    assert not found.port_usage.total
    assert found.occupies == Fraction(1, 4)
    assert between(found.uops, LatencyPair(1, NO_PART, 1)) == 1


def test_resources_of_other_names_have_letters() -> None:
    facts = VariantFacts({Form.PLAIN: FormFacts(PortUsage.parse("1*FP01"))})
    found = behaviour_from(catalogue().by_string("VADDPD (XMM, XMM, XMM)"), facts, core_of("ZEN4"))
    assert str(found.port_usage) == "1*p01"


def test_of_a_range_the_least_counts_but_with_a_divider() -> None:
    uops = made("IMUL (R64, R64)", "1*p1", {LatencyPair(1, NO_PART, 1): 3}).uops
    assert between(uops, LatencyPair(1, NO_PART, 1)) == 3
    slow = {LatencyPair(1, NO_PART, 1): Cycles(20, 12), LatencyPair(2, NO_PART, 1): Cycles(20, 12)}
    facts = VariantFacts({Form.PLAIN: FormFacts(PortUsage.parse("1*p0"))}, slow, divider_cycles=16)
    divided = behaviour_from(catalogue().by_string("DIVPD (XMM, XMM)"), facts, core_of("HSW"))
    assert [(uop.latency, uop.divider_cycles, uop.fast) for uop in divided.uops if uop.ports] == [(20, 16, (12, 8))]


@pytest.mark.parametrize(
    ("string", "pair", "expected"),
    [("MOV_89 (R64, R64)", LatencyPair(2, NO_PART, 1), 0), ("AND_21 (R64, R64)", LatencyPair(2, NO_PART, 1), None)],
)
def test_a_move_whose_ports_are_not_known_passes_its_source_on(
    string: str, pair: LatencyPair, expected: int | None
) -> None:
    facts = VariantFacts({Form.PLAIN: FormFacts(throughput=Fraction(1, 6))}, {pair: Cycles(0, 0)})
    found = behaviour_from(catalogue().by_string(string), facts, core_of("ZEN4"))
    assert between(found.uops, pair) == expected


@pytest.mark.parametrize(("throughput", "ports"), [(Fraction(1, 6), ""), (Fraction(1, 4), "1*p0156")])
def test_a_form_that_is_quicker_than_the_ports_of_the_plain_one_uses_none(throughput: Fraction, ports: str) -> None:
    forms = {
        Form.PLAIN: FormFacts(PortUsage.parse("1*p0156"), throughput=Fraction(1, 4)),
        Form.SAME_REGISTER: FormFacts(throughput=throughput),
    }
    found = behaviour_from(catalogue().by_string("XOR_31 (R64, R64)"), VariantFacts(forms, {}), core_of("HSW"))
    assert found.same_register is not None
    assert str(found.same_register.port_usage) == ports


def test_a_push_does_not_occupy_anything_for_as_long_as_an_overflow_of_the_x87_stack_takes() -> None:
    facts = VariantFacts({Form.PLAIN: FormFacts(throughput=Fraction(132))}, {})
    for string, cycles in (("FLD (ST0, ST(0), M32)", 0), ("FLDENV (M224)", 132)):
        assert behaviour_from(catalogue().by_string(string), facts, core_of("ZEN4")).occupies == cycles


@pytest.mark.parametrize(
    ("string", "ports", "throughput", "ways"),
    [
        ("VMOVAPS (YMM, M256)", "1*p23", 1, {UopKind.LOAD: 1}),
        ("VMOVAPS (M256, YMM)", "1*p23+1*p4", 2, {UopKind.STORE_DATA: 2}),
        ("VMOVAPS (XMM, M128)", "1*p23", Fraction(1, 2), {UopKind.LOAD: Fraction(1, 2)}),
    ],
)
def test_the_second_half_of_256_bits_explains_the_throughput_of_an_ivy_bridge(
    string: str, ports: str, throughput: Fraction, ways: dict[UopKind, Fraction]
) -> None:
    variant, core = catalogue().by_string(string), core_of("IVB")
    facts = VariantFacts(
        {Form.PLAIN: FormFacts(PortUsage.parse(ports), retire_slots=1, throughput=Fraction(throughput))}
    )
    found = behaviour_from(variant, facts, core)
    assert found.occupies == 0
    assert data_paths(variant, found.uops, core) == ways


@pytest.mark.parametrize(("uops", "cycles"), [(1, Fraction(2, 3)), (2, Fraction(2, 3)), (3, Fraction(1))])
def test_halves_that_are_uops_of_their_own_take_the_data_path_for_a_cycle_each(uops: int, cycles: Fraction) -> None:
    """A Zen 4 loads 512 bits per cycle, by two µops of 256 bits."""
    variant, model = catalogue().by_string("VMOVUPS (ZMM, M512)"), core_of("ZEN4")
    core = replace(model, ports=replace(model.ports, load="456"))
    load = Uop(frozenset({"5", "6"}), 7, (), kind=UopKind.LOAD)
    assert data_paths(variant, [load] * uops, core) == {UopKind.LOAD: cycles}


@pytest.mark.parametrize(
    ("string", "units"),
    [
        ("MOV (R64, M64)", {"loads and stores": Fraction(1, 4)}),
        ("MOV (M64, R64)", {"loads and stores": Fraction(1, 4), "stores": Fraction(1, 2)}),
        ("ADD (M64, R64)", {"loads and stores": Fraction(1, 2), "stores": Fraction(1, 2)}),
        ("MOVAPS (XMM, M128)", {"loads and stores": Fraction(1, 4), "loads of vectors": Fraction(1, 2)}),
        (
            "MOVAPS (M128, XMM)",
            {"loads and stores": Fraction(1, 4), "stores": Fraction(1, 2), "stores of vectors": Fraction(1, 2)},
        ),
        ("NOP (M32)", {}),
        ("ADD_01 (R64, R64)", {}),
    ],
)
def test_loads_and_stores_share_what_begins_in_a_cycle(string: str, units: dict[str, Fraction]) -> None:
    assert access_units(catalogue().by_string(string), core_of("ZEN5")) == units
    assert access_units(catalogue().by_string(string), core_of("HSW")) == {}


@pytest.mark.parametrize(
    ("string", "ports", "stated", "expected"),
    [
        ("MOV (M64, R64)", "1*p237+1*p4", 2, 3),  # a load that came late got its data after 3 cycles; one that waits, 4
        ("MOVAPS (M128, XMM)", "1*p237+1*p4", 3, 4),
        ("MOV (M64, R64)", "1*p237+1*p4", 5, 5),
    ],
)
def test_a_store_passes_its_data_on_no_sooner_than_to_a_load_that_waits(
    string: str, ports: str, stated: int, expected: int
) -> None:
    facts = VariantFacts(
        {Form.PLAIN: FormFacts(PortUsage.parse(ports), retire_slots=1)},
        {LatencyPair(2, NO_PART, 1): Cycles(stated, stated)},
    )
    found = behaviour_from(catalogue().by_string(string), facts, core_of("SKL"))
    assert between(found.uops, LatencyPair(2, NO_PART, 1)) == expected


@pytest.mark.parametrize(
    ("slots", "needs_first", "expected"),
    [
        (2, None, Decoding(2)),
        (2, False, Decoding(2)),
        (2, True, Decoding(2, complex=True)),
        (9, None, None),  # six per cycle are issued, so that they take longer than a cycle
    ],
)
def test_slots_that_time_tells_come_from_the_decoders_that_a_file_names(
    slots: int, needs_first: bool | None, expected: Decoding | None
) -> None:
    form = FormFacts(issue_slots=slots, complex=needs_first, throughput=Fraction(1))
    found = behaviour_from(catalogue().by_string("XCHG (R64, R64)"), VariantFacts({Form.PLAIN: form}), core_of("SPR"))
    assert (found.slots, found.decoding) == (slots if expected else 1, expected)


def test_uops_that_are_certain_use_their_ports_and_change_no_latency() -> None:
    variant = catalogue().by_string("ADD (R64, M64)")
    latencies = {LatencyPair(2, ADDRESS, 1): Cycles(5, 5)}
    usage = PortUsage({frozenset("01"): 1})
    found = []
    for some_ports in (None, usage):
        form = FormFacts(throughput=Fraction(1, 2), some_ports=some_ports)
        found.append(behaviour_from(variant, VariantFacts({Form.PLAIN: form}, latencies), core_of("ZEN3")))
    without, certain = found
    assert (without.port_usage.total, certain.port_usage) == (0, usage)
    assert certain.uops[: len(without.uops)] == without.uops
    assert (certain.slots, certain.occupies) == (without.slots, without.occupies)


@pytest.mark.parametrize(
    ("string", "ports", "expected"),
    [
        ("MOV (R64, M64)", "1*p23", {UopKind.LOAD: (Endpoint(2, ADDRESS), Endpoint(2, INDEX))}),
        (
            "MOV (M64, R64)",
            "1*p4+1*p237",
            {
                UopKind.STORE_DATA: (Endpoint(2),),
                UopKind.STORE_ADDRESS: (Endpoint(1, ADDRESS), Endpoint(1, INDEX)),
            },
        ),
        ("ADD_01 (R64, R64)", "1*p0156", {UopKind.COMPUTE: (Endpoint(1), Endpoint(2))}),
    ],
)
def test_uops_that_are_certain_wait_for_addresses_or_for_values(
    string: str, ports: str, expected: dict[UopKind, tuple[Endpoint, ...]]
) -> None:
    facts = VariantFacts({Form.PLAIN: FormFacts(some_ports=PortUsage.parse(ports))}, {})
    found = behaviour_from(catalogue().by_string(string), facts, core_of("SKL")).uops
    assert {uop.kind: uop.inputs for uop in found if uop.ports} == expected


def test_between_store_and_load_a_core_that_renames_has_nothing_of_its_own() -> None:
    load = catalogue().by_string("ADD (R64, M64)")
    facts = {LatencyPair(2, ADDRESS, 1): Cycles(5, 5), LatencyPair(2, MEMORY, 1): Cycles(6, 6, bounded=True)}
    uops = behaviour_from(load, VariantFacts({Form.PLAIN: FormFacts()}, facts), core_of("ZEN3")).uops
    assert between(uops, LatencyPair(2, MEMORY, 1)) == 1  # what it computes behind a load of four cycles
    store = catalogue().by_string("MOV (M64, R64)")
    facts = {LatencyPair(2, NO_PART, 1): Cycles(7, 7)}
    uops = behaviour_from(store, VariantFacts({Form.PLAIN: FormFacts()}, facts), core_of("ZEN3")).uops
    assert max(uop.latency for uop in uops) == 0


@pytest.mark.parametrize(("known", "expected"), [(True, frozenset()), (False, None)])
def test_what_fuses_with_jumps_is_left_to_the_core_if_a_file_says_nothing_of_it(
    known: bool, expected: frozenset[str] | None
) -> None:
    facts = VariantFacts({Form.PLAIN: FormFacts(PortUsage.parse("1*p0156"))}, fusion_known=known)
    found = behaviour_from(catalogue().by_string("CMP_39 (R64, R64)"), facts, core_of("HSW"))
    assert found.fuses_with == expected
