"""Sequences whose instances do not wait for memory, masks, registers, or the target of a jump."""

from __future__ import annotations

from functools import cache

import pytest

from generator.factory import InstructionFactory
from generator.facts import read_facts
from generator.operands.allocation import SLOT_BYTES
from generator.operands.effects import effects_of
from generator.sequences.throughput import LENGTHS, MANY, MOST_LINES, SequenceShape, ThroughputFactory, not_taken_lines
from results.model import Form
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.model import MemoryAddress

CONDITIONS = {
    "O": lambda flags: flags["OF"],
    "B": lambda flags: flags["CF"],
    "Z": lambda flags: flags["ZF"],
    "BE": lambda flags: flags["CF"] or flags["ZF"],
    "S": lambda flags: flags["SF"],
    "P": lambda flags: flags["PF"],
    "L": lambda flags: flags["SF"] != flags["OF"],
    "LE": lambda flags: flags["ZF"] or flags["SF"] != flags["OF"],
}
"""Intel SDM volume 1, appendix B: the condition codes; those with N are the opposite."""


@cache
def catalogue() -> Catalogue:
    return Catalogue.load()


@cache
def factory(string: str) -> ThroughputFactory:
    return ThroughputFactory(InstructionFactory(catalogue()), catalogue().by_string(string))


def places(string: str, shape: SequenceShape) -> list[int]:
    """Return the displacements of the instances' memory operands."""
    values = [value for one in factory(string).instances(shape) for value in one.values.values()]
    return [value.displacement for value in values if isinstance(value, MemoryAddress)]


STEPS = [
    ("ADD (R64, M64)", 8),
    ("VADDPS (XMM, XMM, M128)", 16),
    ("VADDPS (ZMM, ZMM, M512)", 0),
    ("CMP (M8, I8)", 8),
    ("VGATHERDPD (XMM, K, VSIB_XMM)", 8),
    ("MOV (M8, R8l)", 8),
    ("ADD (M64, R64)", 8),
    ("MOVUPS (M128, XMM)", 16),
    ("VMOVUPS (M256, YMM)", 32),
    ("VMOVUPS (M512, ZMM)", SLOT_BYTES),
    ("PREFETCHT0 (M512)", SLOT_BYTES),
    ("CLFLUSH (M512)", SLOT_BYTES),
    ("XSAVE (M4608)", SLOT_BYTES),
]
"""Variants, and how many bytes lie between the places of two instances (0: a whole line for each read)."""

READ = {string for string, _ in STEPS[:5]}

FORMS = [
    *((string, step, Form.PLAIN) for string, step in STEPS),
    *((string, step, Form.INDEXED) for string, step in STEPS if "VSIB" not in string),
]


@pytest.mark.parametrize(("string", "step", "form"), FORMS)
def test_places_are_side_by_side_and_what_is_only_read_stays_in_one_line(string: str, step: int, form: Form) -> None:
    number_of_bytes = SLOT_BYTES if string in READ else 8 * SLOT_BYTES
    assert places(string, SequenceShape(8, form=form)) == [step * number % number_of_bytes for number in range(8)]
    assert places(string, SequenceShape(8, form=form, apart=True)) == [SLOT_BYTES * number for number in range(8)]


def test_code_beside_an_instance_has_its_memory_for_itself() -> None:
    assert factory("JMP (M64)").has_prologue
    assert places("JMP (M64)", SequenceShape(4)) == [0, 64, 128, 192]


@pytest.mark.parametrize(
    ("string", "apart"),
    [("MOV (M64, R64)", True), ("MOV (R64, M64)", False), ("VMOVUPS (M512, ZMM)", False), ("ADD_01 (R64, R64)", False)],
)
def test_both_kinds_of_places_are_tried_where_they_differ(string: str, *, apart: bool) -> None:
    assert factory(string).elsewhere(SequenceShape(4)) == ([SequenceShape(4, apart=True)] if apart else [])


@pytest.mark.parametrize(
    ("string", "shapes"),
    [
        ("ADD_01 (R64, R64)", []),
        ("ADD (R64, M64)", []),
        ("ADD (M64, R64)", [SequenceShape(MANY)]),
        ("ADD_LOCK (M64, R64)", [SequenceShape(MANY)]),
        ("ADC_LOCK (M64, R64)", [SequenceShape(MANY), SequenceShape(1, breakers=True)]),
        ("SUB_R4 (R8l, I8)", [SequenceShape(MANY, renewed=True, every=MANY)]),
        ("VPCMPEQB (K, K, XMM, M128)", [SequenceShape(1)]),
        ("CLFLUSH (M512)", [SequenceShape(MANY), SequenceShape(MOST_LINES)]),
        ("VMOVNTPS (M512, ZMM)", [SequenceShape(MANY), SequenceShape(MOST_LINES)]),
        ("VMOVNTPS (M128, XMM)", []),
    ],
)
def test_what_waits_is_tried_with_other_numbers(string: str, shapes: list[SequenceShape]) -> None:
    assert factory(string).waiting_less(SequenceShape(LENGTHS[0])) == shapes


@pytest.mark.parametrize(("string", "said"), [("CLFLUSH (M512)", True), ("MOV (R64, M64)", False)])
def test_throughputs_say_that_each_instance_has_a_line(string: str, *, said: bool) -> None:
    assert ("with a cache line each" in factory(string).sequence(SequenceShape(MANY)).purpose) is said
    assert "with a cache line each" not in factory(string).sequence(SequenceShape(1)).purpose


def test_few_registers_are_all_renewed_after_the_last_instance() -> None:
    body = factory("SUB_R4 (R8l, I8)").sequence(SequenceShape(MANY, renewed=True, every=MANY)).body
    written = {
        next(iter(factory("SUB_R4 (R8l, I8)").own(one)))
        for one in factory("SUB_R4 (R8l, I8)").instances(SequenceShape(8))
    }
    assert {line.text.split()[0] for line in body[:MANY]} == {"SUB"}
    assert len(body) == MANY + len(written)
    assert all(line.text.startswith("MOV ") for line in body[MANY:])


@pytest.mark.parametrize(
    ("string", "kept"),
    [
        ("VPCMPEQB (K, K, XMM, M128)", 1),  # the mask that is read
        ("VPCMPEQB_EVEX (K, XMM, XMM)", 0),
        ("KMOVQ (K, R64)", 0),
        ("VPADDD (XMM, K, XMM, XMM)", None),  # no mask is written
    ],
)
def test_masks_that_nothing_reads_are_cleared(string: str, kept: int | None) -> None:
    shape = SequenceShape(8)
    setup = [line.text for line in factory(string).sequence(shape).setup]
    cleared = {text.split()[1].strip(",") for text in setup if text.startswith("KXORQ")}
    assert len(cleared) == (0 if kept is None else 8 - kept)
    assert not any(cleared & effects_of(one).inputs for one in some(factory(string).instances(shape)))
    # What clears them comes after what sets them
    last = max((number for number, text in enumerate(setup) if text.startswith("KMOVQ")), default=-1)
    assert all(number > last for number, text in enumerate(setup) if text.startswith("KXORQ"))


JUMPS = [row["iclass"] for row in read_facts("jumps_not_taken.tsv", ("iclass", "lines", "reason", "source"))]


def flags_after(lines: list[str]) -> dict[str, bool]:
    """Return the status flags after the lines of the table, with R15 as in a loop, above zero."""
    value, flags = 0, {"OF": True, "CF": True, "ZF": True, "SF": True, "PF": True}
    for line in lines:
        name, _, operands = line.removeprefix("{store} ").partition(" ")
        if name == "MOV":
            value = int(operands.split(", ")[1], 0) & 0xFFFFFFFF
        elif name == "XOR":
            value, flags = 0, subtracted(0, 0)
        elif name == "CMP":
            flags = subtracted(value, int(operands.split(", ")[1], 0))
        else:
            assert (name, operands) == ("TEST", "R15, R15")
            # The parity of the counter is not known: no row may depend on it
            flags = {"OF": False, "CF": False, "ZF": False, "SF": False}
    return flags


def subtracted(one: int, other: int) -> dict[str, bool]:
    signed = one - (1 << 32) if one >> 31 else one
    result = (one - other) & 0xFFFFFFFF
    return {
        "CF": one < other & 0xFFFFFFFF,
        "ZF": result == 0,
        "SF": bool(result >> 31),
        "PF": (result & 0xFF).bit_count() % 2 == 0,
        "OF": not -(1 << 31) <= signed - other < 1 << 31,
    }


@pytest.mark.parametrize("iclass", JUMPS)
def test_conditional_jumps_fall_through(iclass: str) -> None:
    (variant, *_) = [one for one in catalogue() if one.iclass == iclass]
    lines = [line.text for line in not_taken_lines(InstructionFactory(catalogue()), variant)]
    name = iclass[1:]
    code = name if name in CONDITIONS else name[1:]
    assert bool(CONDITIONS[code](flags_after(lines))) == (name not in CONDITIONS)


def test_every_condition_code_has_its_row() -> None:
    assert sorted(JUMPS) == sorted(f"J{no}{code}" for code in CONDITIONS for no in ("", "N"))
    assert factory("JNZ (Rel8)").elsewhere(SequenceShape(4)) == [SequenceShape(16, not_taken=True)]
    body = [line.text for line in factory("JNZ (Rel8)").sequence(SequenceShape(2, not_taken=True)).body]
    assert body == ["{store} XOR R12D, R12D", "JNZ .+2", "JNZ .+2"]


@pytest.mark.parametrize("string", ["ADC_11 (R64, R64)", "ADOX (R64, R64)", "SBB_19 (R16, R16)"])
def test_flags_are_overwritten_by_making_a_register_zero_that_nothing_uses(string: str) -> None:
    made = factory(string)
    shape = SequenceShape(8, breakers=True, idiom=True)
    used = {name for one in made.instances(shape) for name in effects_of(one).inputs | effects_of(one).writes}
    lines = [line.text for line in made.sequence(shape).body]
    (idiom,) = {text for text in lines if " XOR " in f" {text}"}
    cleared = idiom.split()[-1]
    assert idiom.endswith(f"XOR {cleared}, {cleared}")
    assert cleared not in used
    assert lines.count(idiom) == 8


def test_without_a_free_register_flags_are_overwritten_as_otherwise() -> None:
    plain, idiom = (
        factory("ADOX (R64, R64)").sequence(SequenceShape(16, breakers=True, idiom=one)) for one in (False, True)
    )
    assert plain == idiom
