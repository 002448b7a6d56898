"""Sequences of independent instances, and instructions among blocking ones: who may block, and what they share."""

import re
from functools import cache

import pytest

from generator.factory import InstructionFactory
from generator.facts import read_facts
from generator.operands.allocation import independent_instances
from generator.operands.effects import effects_of
from generator.operands.places import STATUS_FLAGS
from generator.operands.reserved import harness_registers
from generator.sequences.blocking import (
    CodeKind,
    Combiner,
    fits,
    ineligible,
    is_store,
    is_wide,
    kind_of,
    registers_of,
    representatives,
    shares_state,
)
from generator.sequences.throughput import SequenceShape, ThroughputFactory, same_register_operands, stack_bytes
from results.model import Form
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue


@cache
def catalogue() -> Catalogue:
    return Catalogue.load()


@cache
def names() -> dict[str, frozenset[str]]:
    fields = ("category", "extension", "iclass")
    return {field: frozenset(getattr(variant, field) for variant in catalogue()) for field in fields}


def test_every_row_of_the_tables_is_about_something_in_the_catalogue() -> None:
    from fnmatch import filter as matching  # noqa: PLC0415 (beside what it is compared with)

    rows = read_facts("blocking_exclusions.tsv", ("field", "pattern", "reason", "source"), ("field", "pattern"))
    idle = [row["pattern"] for row in some(rows) if not matching(names()[row["field"]], row["pattern"])]
    moves = read_facts("stack_moves.tsv", ("iclass", "direction", "reason", "source"), ("iclass",))
    idle += [row["iclass"] for row in some(moves) if not matching(names()["iclass"], row["iclass"])]
    classes = read_facts("blocking_candidates.tsv", ("iclass", "reason"), ("iclass",))
    known = names()["iclass"]
    idle += [row["iclass"] for row in some(classes) if not {row["iclass"], "V" + row["iclass"]} & known]
    assert not idle


@pytest.mark.parametrize(
    ("string", "reason"),
    [
        ("CPUID", "waits for all earlier"),
        ("CMOVZ (R64, R64)", "conditionally"),
        ("ADD (RAX, I32)", "fixed registers"),
        ("PUSH_5 (R64)", "stack"),
        ("ADD (R8h, I8)", "AH"),
        ("MOVSX (R16, R8l)", "part of a register"),
        ("ADC_11 (R64, R64)", "reads flags"),
        ("PADDD (XMM, M128)", "loads or stores"),
        ("PAUSE", "on purpose"),
    ],
)
def test_who_may_not_block_and_why(string: str, reason: str) -> None:
    found = catalogue().find(string) if "PUSH" not in string else [v for v in catalogue() if v.iclass == "PUSH"][:1]
    assert reason in ineligible(found[0])


@pytest.mark.parametrize("kind", list(CodeKind))
def test_representatives_are_eligible_and_fit(kind: CodeKind) -> None:
    chosen = representatives(catalogue(), kind)
    assert len({variant.iclass for variant in chosen}) > 30
    assert all(fits(variant, kind) and not ineligible(variant) for variant in chosen)
    assert any(is_store(variant) for variant in chosen)
    assert kind is CodeKind.WIDE or not any(map(is_wide, chosen))


def test_kinds_of_code() -> None:
    strings = {"ADD_01 (R64, R64)": "WITHOUT_AVX", "PADDD (XMM, XMM)": "WITHOUT_AVX"}
    strings |= {"VPADDD (YMM, YMM, YMM)": "WITHOUT_SSE", "VPADDD (ZMM, ZMM, ZMM)": "WIDE"}
    assert {string: kind_of(catalogue().by_string(string)).name for string in strings} == strings


def test_mmx_instructions_stand_beside_any_vectors_unless_they_use_vector_registers_too() -> None:
    strings = {"PADDD (MM, MM)": set(CodeKind), "PSHUFB (MM, M64)": set(CodeKind)}
    strings |= {"MOVQ2DQ (XMM, MM)": {CodeKind.WITHOUT_AVX}, "PADDD (XMM, XMM)": {CodeKind.WITHOUT_AVX}}
    assert {one: {kind for kind in CodeKind if fits(catalogue().by_string(one), kind)} for one in strings} == strings


@pytest.mark.parametrize(
    ("blocker", "string", "expected"),
    [
        ("PADDD (MM, MM)", "FDECSTP", True),
        ("PADDD (MM, MM)", "FADD (ST0, ST(0), ST)", True),
        ("PADDD (MM, MM)", "VPADDD (XMM, XMM, XMM)", False),
        ("PADDD (XMM, XMM)", "FDECSTP", False),
    ],
)
def test_mmx_instructions_change_the_state_of_x87_code(blocker: str, string: str, *, expected: bool) -> None:
    assert shares_state(*map(catalogue().by_string, (blocker, string))) == expected


@pytest.mark.parametrize(
    "string", ["ADD_01 (R64, R64)", "ADC_11 (R64, R64)", "ADD (M64, R64)", "PADDD (XMM, XMM)", "MUL (R64)", "DIV (R32)"]
)
def test_instances_depend_on_each_other_only_through_what_cannot_be_chosen(string: str) -> None:
    variant = catalogue().by_string(string)
    carried = ThroughputFactory(InstructionFactory(catalogue()), variant).carried()
    effects = [effects_of(instance) for instance in independent_instances(variant, 6)]
    for position, one in enumerate(some(effects, 2)):
        others = [other for place, other in enumerate(effects) if place != position]
        assert not any(
            (one.writes & other.inputs) - carried - STATUS_FLAGS - harness_registers() for other in some(others)
        )


@pytest.mark.parametrize("string", ["ADC_11 (R64, R64)", "MUL (R64)"])
def test_breakers_overwrite_what_instances_depend_through(string: str) -> None:
    factory = ThroughputFactory(InstructionFactory(catalogue()), catalogue().by_string(string))
    plain, broken = (factory.sequence(SequenceShape(4, breakers=breakers)) for breakers in (False, True))
    assert plain.divisor == broken.divisor == 4
    assert len(broken.body) > len(plain.body) == 4


@pytest.mark.parametrize(("count", "every", "breakers"), [(8, 1, 8), (8, 4, 2), (8, 8, 1), (9, 8, 2), (4, 16, 1)])
def test_breakers_may_stand_after_every_few_instances_and_after_the_last(count: int, every: int, breakers: int) -> None:
    factory = ThroughputFactory(InstructionFactory(catalogue()), catalogue().by_string("ADC_11 (R64, R64)"))
    body = factory.sequence(SequenceShape(count, breakers=True, every=every)).body
    places = [number for number, line in enumerate(body) if line.key != factory.variant.key]
    assert len(body) == count + breakers
    assert len(places) == breakers
    assert places[-1] == len(body) - 1
    assert places[0] == min(every, count)


@pytest.mark.parametrize(
    ("string", "renewed"),
    [("LSL (R32, R32)", 4), ("SMSW (R16)", 4), ("VDIVPS (XMM, K, XMM, XMM)", 4), ("POPCNT (R64, R64)", 0)],
)
def test_what_an_instance_reads_and_writes_itself_can_be_renewed(string: str, renewed: int) -> None:
    factory = ThroughputFactory(InstructionFactory(catalogue()), catalogue().by_string(string))
    lines = factory.sequence(SequenceShape(4, renewed=True)).body
    assert len(lines) == 4 + renewed
    assert [line.key == factory.variant.key for line in lines].count(True) == 4


@pytest.mark.parametrize(
    ("string", "count"),
    [("VFMADD213PS (XMM, XMM, XMM)", 14), ("LSL (R32, R32)", 9), ("AND_22 (R8h, R8l)", 15), ("NOP", 16)],
)
def test_the_longest_sequence_uses_own_registers_equally_often(string: str, count: int) -> None:
    factory = ThroughputFactory(InstructionFactory(catalogue()), catalogue().by_string(string))
    assert factory.even(16) == count


def test_repeats_are_counted() -> None:
    factory = ThroughputFactory(InstructionFactory(catalogue()), catalogue().by_string("NOP"))
    benchmark = factory.sequence(SequenceShape(2, repeats=8))
    assert (benchmark.divisor, len(benchmark.body)) == (16, 16)


def test_a_sequence_of_pushes_puts_the_stack_pointer_back() -> None:
    variant = next(v for v in catalogue() if v.iclass == "PUSH" and stack_bytes(v) == -8)
    benchmark = ThroughputFactory(InstructionFactory(catalogue()), variant).sequence(SequenceShape(4, balanced=True))
    assert "RSP" in benchmark.body[-1].text
    assert "0x20" in benchmark.body[-1].text.lower() or "32" in benchmark.body[-1].text


def test_same_register_instances_use_one_register_each() -> None:
    variant = catalogue().by_string("PADDD (XMM, XMM)")
    assert len(same_register_operands(variant)) == 2
    instances = ThroughputFactory(InstructionFactory(catalogue()), variant).instances(
        SequenceShape(4, form=Form.SAME_REGISTER)
    )
    assert [len(set(instance.values.values())) for instance in instances] == [1, 1, 1, 1]


@pytest.mark.parametrize("string", ["ADC_11 (R64, R64)", "ADD (M64, R64)", "VPADDD (YMM, YMM, YMM)"])
def test_blockers_share_no_register_with_the_subject(string: str) -> None:
    variant = catalogue().by_string(string)
    combiner = Combiner(InstructionFactory(catalogue()), variant)
    blocker = catalogue().by_string("LEA_B (R64)")
    taken = registers_of(combiner.instance)
    made = independent_instances(blocker, 4, taken)
    assert not any(effects_of(one).writes & taken for one in made)
    benchmark = combiner.combined([(blocker, 24)])
    assert len(benchmark.body) == 25
    assert benchmark.body[-1].key == variant.key


@pytest.mark.parametrize("count", [4, 12, 32])
def test_blockers_that_share_the_registers_do_not_wait_for_each_other(count: int) -> None:
    subject, move, chained = (
        catalogue().by_string(name) for name in ("FLD (ST0, ST(0), M32)", "MOVD (R32, MM)", "CRC32 (R64, R64)")
    )
    benchmark = Combiner(InstructionFactory(catalogue()), subject).combined([(move, count), (chained, count)])
    written = [line.text.split()[1] for line in benchmark.body if line.key == chained.key]
    assert len(written) == count
    assert all(len(set(written[start : start + 3])) == 3 for start in range(count - 2))  # CRC32 takes 3 cycles


@pytest.mark.parametrize(("in_turns", "order"), [(True, "LALALLX"), (False, "LLLLAAX")])
def test_blockers_stand_in_turns_or_one_kind_behind_the_other(in_turns: bool, order: str) -> None:
    names = {"L": "LEA_B (R64)", "A": "AESENC (XMM, XMM)", "X": "ADC_11 (R64, R64)"}
    variants = {letter: catalogue().by_string(name) for letter, name in names.items()}
    combiner = Combiner(InstructionFactory(catalogue()), variants["X"])
    benchmark = combiner.combined([(variants["L"], 4), (variants["A"], 2)], in_turns=in_turns)
    assert [line.key for line in benchmark.body] == [variants[letter].key for letter in order]


def test_the_same_combination_is_the_same_microbenchmark() -> None:
    variant, blocker = (catalogue().by_string(name) for name in ("ADC_11 (R64, R64)", "LEA_B (R64)"))
    made = [Combiner(InstructionFactory(catalogue()), variant).combined([(blocker, 24)]) for _ in range(2)]
    assert made[0].id == made[1].id


def test_every_register_that_code_names_can_be_written_anew() -> None:
    """Of 32 instances that merge into their register some use registers 16 to 31, which VEX code cannot name."""
    merging = [
        variant
        for variant in catalogue()
        if any(o.explicit and o.read and o.written and len(o.registers) == 32 for o in variant.operands)
    ]
    instructions = InstructionFactory(catalogue())
    bodies = [
        ThroughputFactory(instructions, variant).sequence(SequenceShape(32, renewed=True)).body
        for variant in some(merging)[::40]
    ]
    high = re.compile(r"VMOVAPS [XYZ]MM(1[6-9]|2\d|3[01]),")
    renewed = [any(high.match(line.text) for line in body) for body in bodies]
    assert renewed.count(True) >= len(bodies) / 4
