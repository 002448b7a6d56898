"""Instructions of privilege level 0 run with values that have a reason, or are excluded with one."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from generator.exclusions import excluded
from generator.operands.registers import family, register_class
from generator.operands.values import values_of
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.model import InstructionVariant, OperandKind


@cache
def catalogue() -> Catalogue:
    return Catalogue.load()


def inputs(variant: InstructionVariant) -> set[str]:
    """Return the places of the general-purpose registers that a variant reads, named as in `operand_values.tsv`."""
    return {
        f"op{operand.index}" if operand.explicit else family(operand.registers[0])
        for operand in variant.operands
        if operand.kind is OperandKind.REGISTER and operand.read
        if register_class(operand.registers[0]) == "GPR"
    }


def test_every_register_that_a_privileged_instruction_reads_has_a_value_with_a_reason() -> None:
    privileged = [v for v in catalogue() if excluded(v) and not excluded(v, privileged=True)]
    assert {v.iclass for v in privileged} >= {"WRMSR", "RDMSR", "RDPMC", "INVPCID", "XSAVES", "CLI", "INVLPG"}
    without = {v.string: missing for v in privileged if (missing := inputs(v) - values_of(v).places.keys())}
    assert without == {}


def test_nothing_writes_a_machine_check_register_or_another_processors_translations() -> None:
    by_string = {variant.string: variant for variant in catalogue()}
    for string in ("WRMSR", "WRMSRNS", "RDMSR"):
        assert values_of(by_string[string]).places["RCX"] == 0xC0000103
    for string in ("WRMSRLIST", "RDMSRLIST", "INVLPGB", "TLBSYNC", "XRSTORS (M4608)", "WRMSRNS (I32, R64)"):
        assert excluded(by_string[string], privileged=True), string


def test_a_promoted_form_is_excluded_like_the_form_that_it_comes_from() -> None:
    forms: dict[tuple[str, tuple[str, ...]], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for variant in catalogue():
        explicit = tuple(f"{one.kind}{one.width_bits}" for one in variant.operands if one.explicit)
        kind = "promoted" if "map" in variant.attributes else "legacy"
        forms[variant.iclass, explicit][kind].add(excluded(variant, privileged=True))
    both = {key: found for key, found in forms.items() if len(found) == 2 and any(set().union(*found.values()))}
    assert ("ENQCMDS", ("reg64", "mem512")) in both
    assert {key: found for key, found in both.items() if found["promoted"] - found["legacy"] - {""}} == {}
    assert {key: found for key, found in both.items() if "" in found["promoted"] and found["legacy"] != {""}} == {}
