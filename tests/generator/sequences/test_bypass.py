"""Rings of classes: each row of the tables can be made, and each instruction leads from its file to its file."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from generator.errors import FactError
from generator.factory import InstructionFactory
from generator.sequences import bypass
from generator.sequences.bypass import FILES, BypassClass, BypassCode, FileMove, classes, moves
from tests.nonempty import some
from tests.runner.cli.commands import need_catalogue
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from xed_convert.model import InstructionVariant

RING = {"general": ("EAX", "RAX"), "vector": ("XMM0", "YMM0", "ZMM0"), "mask": ("K1",)}
"""The register that rings go through, by file."""


def code(lacking: str = "") -> BypassCode:
    """Return what makes rings on a CPU that lacks instructions beginning with that."""
    need_catalogue()

    def lacks(variant: InstructionVariant) -> str:
        return "not there" if lacking and variant.string.startswith(lacking) else ""

    return BypassCode(InstructionFactory(Catalogue.load()), lacks)


def registers(one: BypassClass | FileMove, *, written: bool) -> set[str]:
    """Return the registers that an instruction certainly reads, or writes."""
    variant = Catalogue.load().by_string(one.operation.instruction)
    explicit = [operand for operand in variant.operands if operand.explicit]
    pairs = zip(explicit, one.operation.operands, strict=True)
    return {
        str(value)
        for operand, value in pairs
        if operand.kind is OperandKind.REGISTER and (operand.written if written else operand.read)
    }


def test_every_class_reads_and_writes_the_register_of_the_ring() -> None:
    need_catalogue()
    for one in some(classes(), 40):
        assert registers(one, written=True) & registers(one, written=False) & set(RING[one.file]), one


def test_every_move_leads_from_one_file_to_the_other() -> None:
    need_catalogue()
    for one in some(moves(), 10):
        assert registers(one, written=False) <= set(RING[one.source]), one
        assert registers(one, written=True) <= set(RING[one.target]), one


def test_every_ring_of_two_can_be_made() -> None:
    maker = code()
    pairs = [(one, other) for one, other in product(classes(), classes()) if one.file == other.file]
    for one, other in some(pairs, 1000):
        ring = maker.ring((one, other), 2)
        assert [line.text for line in ring.body] == [maker.line(one).text] * 2 + [maker.line(other).text] * 2
        assert ring.setup


@pytest.mark.parametrize(("here", "there"), [(one, other) for one in FILES for other in FILES if one != other])
def test_there_are_moves_between_all_files(here: str, there: str) -> None:
    assert code().moves(here, there)


def test_what_a_cpu_lacks_is_left_out_or_replaced() -> None:
    without_avx = code("V")
    names = {one.label: one.operation.instruction for one in without_avx.classes()}
    assert names["float_add/128"] == "ADDPS (XMM, XMM)"
    assert "float_add/256" not in names
    assert "float_fma/128" not in names
    first = next(one for one in without_avx.classes() if one.file == "vector")
    assert [line.text for line in without_avx.ring((first,), 1).setup] == ["PXOR XMM0, XMM0", "PXOR XMM1, XMM1"]
    assert code().classes() == tuple(
        one for one in classes() if "V" in one.operation.instruction[:1] or one.file != "vector"
    )


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [("file", "tmm", "no file of registers tmm"), ("width", "wide", "wide is no width")],
)
def test_a_wrong_row_is_refused(column: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = dict(
        zip(bypass.CLASS_COLUMNS, ("a", "mask", "16", "KANDW (K, K, K)", "K1 K1 K2", "why", "where"), strict=True)
    )
    monkeypatch.setattr(bypass, "read_facts", lambda *_: [{**row, column: value}])
    with pytest.raises(FactError, match=said):
        classes.__wrapped__()
