"""Initial values: nothing is denormal, and gathers and masks begin with values that do no harm."""

from dataclasses import replace

import pytest

from generator.factory import InstructionFactory
from generator.operands.allocation import Allocator, independent_instances
from generator.operands.registers import family
from generator.operands.values import ValueKind, Values, values_of
from generator.sequences.throughput import SequenceShape, ThroughputFactory, setup_of
from generator.support.initial import general_value
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.model import Instance, MemoryAddress

CATALOGUE = Catalogue.load()
INSTRUCTIONS = InstructionFactory(CATALOGUE)


def instances(string: str, count: int = 3) -> list[Instance]:
    return independent_instances(CATALOGUE.by_string(string), count)


def setup(string: str) -> list[str]:
    variant = CATALOGUE.by_string(string)
    return [line.text for line in setup_of(INSTRUCTIONS, instances(string), values_of(variant))]


def test_every_vector_register_begins_with_a_value_that_is_not_denormal() -> None:
    lines = setup("ADDPD (XMM, XMM)")
    loaded = {line.split()[1] for line in lines if line.startswith("MOVUPS")}
    used = {str(value) for instance in instances("ADDPD (XMM, XMM)") for value in instance.values.values()}
    assert used <= {name.rstrip(",") for name in loaded}


def test_the_indices_of_gathers_begin_with_zero_and_their_masks_with_ones() -> None:
    lines = setup("VPGATHERDQ (ZMM, K, VSIB_YMM)")
    assert sum(line.startswith("VMOVQ") and line.endswith("R13") for line in lines) >= 1
    assert sum(line.startswith("KMOVQ") for line in lines) >= 3


@pytest.mark.parametrize(("string", "expected"), [("DIV (R8h)", 0x101), ("DIV (R8l)", 1)])
def test_a_high_half_has_the_value_as_well(string: str, expected: int) -> None:
    instance = Allocator().instance(CATALOGUE.by_string(string))
    (register,) = instance.values.values()
    assert general_value(instance, Values({"op1": 7}), family(str(register))) == 7 * expected
    assert general_value(instance, Values(), family(str(register))) == expected


def test_an_index_register_without_rex_begins_with_zero() -> None:
    variant = CATALOGUE.by_string("ADC (M8, R8h)")
    instance = Allocator().instance(variant, indexed=True)
    texts = [line.text for line in setup_of(INSTRUCTIONS, [instance], values_of(variant))]
    assert "MOV ESI, 0" in texts


@pytest.mark.parametrize(
    ("string", "bits"), [("DIVPD (XMM, M128)", 128), ("VDIVPS (YMM, YMM, M256)", 256), ("DIV (M64)", 64)]
)
def test_memory_operands_hold_slow_values_in_all_their_lanes(string: str, bits: int) -> None:
    """A lane that holds zero would end a division early."""
    variant = CATALOGUE.by_string(string)
    benchmark = ThroughputFactory(INSTRUCTIONS, variant).sequence(SequenceShape(1, kind=ValueKind.SLOW))
    (instance,) = independent_instances(variant, 1)
    (address,) = (value for value in instance.values.values() if isinstance(value, MemoryAddress))
    stores = [
        INSTRUCTIONS.line("MOV (M64, R64)", replace(address, displacement=address.displacement + 8 * word), "R12").code
        for word in range(bits // 64)
    ]
    setup = [line.code for line in benchmark.setup]
    assert [setup.count(code) for code in stores] == [1] * len(stores)
