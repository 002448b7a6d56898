"""Operand allocation: what is reserved stays reserved, what must differ differs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.errors import AllocationError, FactError
from generator.facts import read_facts
from generator.operands.allocation import Allocator, default_immediate, independent_instances
from generator.operands.effects import effects_of, unset_indices
from generator.operands.registers import GPR_FAMILIES, RegisterError, family, number, part, register_class, width_bits
from generator.operands.reserved import reserved_registers
from xed_convert.model import InstructionVariant, MemoryAddress, MemoryShape, Operand, OperandKind

R64 = tuple(part(name, 64) for name in GPR_FAMILIES[:16])
R8 = tuple(part(name, 8) for name in GPR_FAMILIES[:16])
XMM = tuple(f"XMM{position}" for position in range(16))
FLAGS = Operand(
    9, OperandKind.FLAGS, suppressed=True, written=True, flags={"CF": "r/w", "ZF": "r/cw", "AF": "undef", "DF": "r"}
)


def variant(*operands: Operand, **attributes: str) -> InstructionVariant:
    return InstructionVariant("X", "X (test)", "X", "X", "TEST", "BASE", "I86", 3, attributes, operands)


def register(index: int, names: tuple[str, ...], access: str = "r", *, implicit: bool = False) -> Operand:
    return Operand(
        index,
        OperandKind.REGISTER,
        read="r" in access,
        written="w" in access,
        registers=names,
        width_bits=64,
        implicit=implicit,
    )


def memory(index: int, vsib: str = "") -> Operand:
    return Operand(index, OperandKind.MEMORY, read=True, width_bits=64, memory=MemoryShape(vsib=vsib))


def test_families_and_parts() -> None:
    assert [family(name) for name in ("AL", "AH", "EAX", "R8W", "SPL", "YMM3", "K1", "ST(2)", "MM4")] == [
        "RAX", "RAX", "RAX", "R8", "RSP", "ZMM3", "K1", "ST(2)", "MM4",
    ]  # fmt: skip
    assert [part("RSI", bits) for bits in (8, 16, 32, 64)] == ["SIL", "SI", "ESI", "RSI"]
    assert part("XMM9", 512) == "ZMM9"
    assert register_class("MM3") == "MMX"
    assert (number("R13D"), number("BH"), number("TMM5")) == (13, 3, 5)
    with pytest.raises(RegisterError):
        part("RAX", 128)


@given(st.sampled_from(GPR_FAMILIES), st.sampled_from([8, 16, 32, 64]))
def test_a_part_has_its_width_and_family(name: str, bits: int) -> None:
    assert width_bits(part(name, bits)) == bits
    assert family(part(name, bits)) == name


def test_operands_get_different_registers_and_none_is_reserved() -> None:
    cl = register(3, ("CL",), implicit=True)
    values = Allocator().instance(variant(register(1, R64, "rw"), register(2, R64), cl)).values
    families = {family(str(value)) for value in values.values()}
    assert len(families) == 2
    assert not families & ({"RCX"} | set(reserved_registers()))


def test_fixed_and_avoided_registers() -> None:
    chosen = Allocator(avoid=["EDX"]).instance(variant(register(1, R64), register(2, R64)), {1: "RBX"})
    assert chosen.values[1] == "RBX"
    assert family(str(chosen.values[2])) not in {"RBX", "RDX"}


def test_high8_operands_forbid_rex_in_all_others() -> None:
    tested = variant(register(1, ("AH", "CH", "DH", "BH")), register(2, R64), memory(3), high8="REG0")
    values = Allocator().instance(tested).values
    assert values[3] == MemoryAddress("RDI")
    assert family(str(values[2])) in {"RAX", "RCX", "RDX", "RBX", "RBP"}
    indexed = Allocator().instance(tested, indexed=True)
    assert indexed.values[3] == MemoryAddress("RDI", "RSI")
    assert unset_indices(indexed) == ["RSI"]


def test_addresses() -> None:
    assert Allocator().instance(variant(memory(1)), slot=3).values[1] == MemoryAddress("R14", displacement=192)
    assert Allocator().instance(variant(memory(1)), indexed=True).values[1] == MemoryAddress("R14", "R13")
    gather = Allocator().instance(variant(register(1, XMM, "rw"), memory(2, vsib="YMM"), register(3, XMM, "rw"))).values
    assert gather == {1: "XMM0", 2: MemoryAddress("R14", "YMM2"), 3: "XMM1"}


@pytest.mark.parametrize("form", ["B", "B_I_D8", "B_IS_D32", "IS_D32", "R_D32", "D32"])
def test_effective_addresses_have_the_form_asked_for(form: str) -> None:
    address = Allocator().instance(variant(Operand(1, OperandKind.AGEN), agen=form)).values[1]
    assert isinstance(address, MemoryAddress)
    assert (address.base == "RIP") == ("R" in form.split("_"))
    assert bool(address.index) == bool({"I", "IS"} & set(form.split("_")))
    assert address.displacement_bits == (8 if "D8" in form else 32 if "D32" in form else 0)
    assert address.base != address.index or not address.base


def test_independent_instances_write_different_registers_until_they_run_out() -> None:
    tested = variant(register(1, XMM, "w"), register(2, XMM))
    instances = independent_instances(tested, 18)
    written = [str(instance.values[1]) for instance in instances]
    assert len({instance.values[2] for instance in instances}) == 1
    assert len(set(written)) == 15
    assert not set(written) & {str(instance.values[2]) for instance in instances}


def test_independent_memory_operands_are_apart() -> None:
    places = {instance.values[1] for instance in independent_instances(variant(memory(1)), 8)}
    assert len(places) == 8


def test_effects_include_addresses_flags_and_merges() -> None:
    instance = Allocator().instance(variant(register(1, R8, "w"), memory(2), FLAGS))
    effects = effects_of(instance)
    target = family(str(instance.values[1]))
    assert effects.reads == {"R14", "CF", "ZF", "DF"}
    assert effects.writes == {target, "CF", "ZF", "AF"}
    assert effects.merged == {target, "ZF"}


def test_several_consecutive_registers_are_held_together() -> None:
    quad = Operand(1, OperandKind.REGISTER, read=True, registers=("ZMM0", "ZMM4", "ZMM8"), multireg=4)
    instance = Allocator().instance(variant(register(2, XMM, "w"), quad))
    assert effects_of(instance).reads == {f"ZMM{position}" for position in range(4)} or (
        effects_of(instance).reads == {f"ZMM{position}" for position in range(4, 8)}
    )
    assert not effects_of(instance).reads & effects_of(instance).writes


def test_immediates() -> None:
    def immediate(bits: int, value: str = "") -> int:
        return default_immediate(variant(), Operand(1, OperandKind.IMMEDIATE, width_bits=bits, value=value))

    assert [immediate(8), immediate(8, "0"), immediate(16), immediate(32)] == [2, 0, 0x100, 0x1000000]


def test_running_out_of_registers_is_an_error() -> None:
    with pytest.raises(AllocationError, match=r"X \(test\): operand 1"):
        Allocator(avoid=["AL"]).instance(variant(register(1, ("EAX",))))


def test_tables_are_read_strictly() -> None:
    assert read_facts("t.tsv", ("a", "b"), ("a",), text="a\tb\n1\t2\n") == [{"a": "1", "b": "2"}]
    for bad in ("a\n", "a\tb\n1\n", "a\tb\n1\t\n", "a\tb\n1\t2\n1\t3\n", ""):
        with pytest.raises(FactError, match=r"t\.tsv:"):
            read_facts("t.tsv", ("a", "b"), ("a",), text=bad)
