"""The tables of facts: every row can be used."""

from fnmatch import fnmatchcase

import pytest

from generator.chains.calibration import calibration_cycles
from generator.chains.links import Ends, links, routes
from generator.exclusions import Scope, excluded, excluded_latency, exclusions, unreachable
from generator.operands.registers import register_class
from generator.operands.values import ValueKind, kinds_of, value_rows, values_of
from tests.nonempty import some
from xed_convert.model import InstructionVariant, Operand, OperandKind


def variant(iclass: str, *operands: Operand, extension: str = "BASE", cpl: int = 3) -> InstructionVariant:
    return InstructionVariant(iclass, iclass, iclass, iclass, "X", extension, "X", cpl, {}, operands)


@pytest.mark.parametrize(
    ("source", "target", "names"),
    [
        ("R8", "R64", {"movsx8"}),
        ("R32", "R16", {"movsxd"}),
        ("CF", "R64", {"setb+movsx8", "cmovb+movsx8"}),
        ("ZF", "CF", {"setz+test8", "cmovz+test8"}),
        ("CF", "CF", {"cmc"}),
        ("V256", "V256", {"vpor256", "vorps256"}),
        ("R64", "ADDR", {"xor2"}),
        ("CF", "ADDR", {"setb+movsx8+xor2", "cmovb+movsx8+xor2"}),
        ("M64", "R64", {"load64"}),
        ("R8H", "R8H", {"movsx8h", "mov8h8h"}),
    ],
)
def test_the_shortest_ways_between_places(source: str, target: str, names: set[str]) -> None:
    assert {route.name for route in routes(source, target)} == names


def test_a_way_around_a_single_flag_leads_through_a_register() -> None:
    assert [route.name for route in routes("CF", "CF", direct=False)] == ["setb+test8", "cmovb+test8"]


def test_no_way_is_invented() -> None:
    assert routes("TMM", "R64") == ()


def test_moves_that_may_be_eliminated_are_no_chain_instructions() -> None:
    for link in some(link for link in links() if not link.cross_domain and "8H" not in str(link.lines)):
        assert not any(string.startswith(("MOV ", "MOV_", "MOVZX")) for string, _ in some(link.lines)), link.name


def test_every_link_is_in_closed_chains_unless_it_leads_through_memory() -> None:
    for link in some(links()):
        through_memory = "MEM" in str(link.lines)
        assert through_memory == (not link.calibrations), link.name
        assert link.cross_domain or not through_memory
        assert all(link in cycle or link.name == cycle[0].name for cycle in calibration_cycles(link.name))


def test_operands_of_links_are_filled_in() -> None:
    ends = Ends("RBX", "RDX")
    assert [ends.value(name) for name in ("FROM64", "TO32", "FROM8H", "TO8", "0")] == ["RBX", "EDX", "BH", "DL", 0]
    with pytest.raises(ValueError, match="address"):
        ends.value("MEM")


def test_what_needs_privileges_is_left_out_without_them() -> None:
    tested = variant("RDMSR", cpl=0)
    assert excluded(tested)
    assert not excluded(tested, privileged=True)
    assert not excluded(variant("ADC"))
    assert excluded_latency(variant("CPUID"))


def test_exclusions_say_why() -> None:
    for exclusion in exclusions():
        assert exclusion.scope in set(Scope)
        assert len(exclusion.reason.split()) > 1
    assert unreachable("ST(3)")
    assert not unreachable("RAX")


def test_divisions_are_measured_with_slow_and_fast_values() -> None:
    tested = variant("DIV", Operand(1, OperandKind.REGISTER, width_bits=64))
    assert kinds_of(tested) == (ValueKind.SLOW, ValueKind.FAST)
    slow = values_of(tested, ValueKind.SLOW)
    assert slow.places == {"RDX": 0x343A9ED744556677, "RAX": 133, "op1": 0x75E6E44FCCDDEEFF}
    assert slow.restored == {"RDX", "RAX", "op1"}
    assert kinds_of(variant("ADD")) == (ValueKind.ANY,)


def test_quotients_of_the_table_fit() -> None:
    for iclass, limit_bits in (("DIV", 0), ("IDIV", 1)):
        for width in (8, 16, 32, 64):
            tested = variant(iclass, Operand(1, OperandKind.REGISTER, width_bits=width))
            for kind in (ValueKind.SLOW, ValueKind.FAST):
                places = values_of(tested, kind).places
                dividend = places["RAX"] + (places.get("RDX", 0) << width)
                assert dividend // places["op1"] < 1 << (width - limit_bits)


def test_bit_offsets_matter_for_memory_only() -> None:
    memory = Operand(1, OperandKind.MEMORY, width_bits=64)
    register = Operand(2, OperandKind.REGISTER, width_bits=64)
    assert values_of(variant("BTS", memory, register)).restored == {"op2"}
    assert not values_of(variant("BTS", register)).restored


def test_places_in_the_table_of_values_exist() -> None:
    for row in some(value_rows()):
        assert (
            row["place"].startswith("op")
            or row["place"] in {"VEC", "last", "before"}
            or register_class(row["place"]) == "GPR"
        )
        assert fnmatchcase(row["iclass"].replace("*", ""), row["iclass"])
