"""A form with memory has the µops of the form with registers, and loads; if it seems not to, it is asked again."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from generator.factory import InstructionFactory
from inference.experiment import MOST_AGAIN, Measured, Request
from inference.ports.by_time import counterparts
from inference.ports.by_time.counterparts import infer_beside_registers, loads_more, register_form
from inference.ports.by_time.mixes import MixFactory
from inference.ports.infer import PortConclusion
from results.findings import Indistinguishable, Note, Remark
from results.model import PortUsage, Status
from tests.inference.ports.test_by_time import driven
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from inference.experiment import Procedure
    from xed_convert.model import InstructionVariant

MACHINE: Any = SimpleNamespace(
    orders=1,
    public=lambda ports: ports,
    sets=[
        SimpleNamespace(ports=frozenset("23"), is_of_memory=True),
        SimpleNamespace(ports=frozenset("01"), is_of_memory=False),
    ],
)
"""What is asked of a machine: loads have p23."""
WITH_MEMORY, WITH_REGISTERS = "VPMULUDQ (YMM, YMM, M256)", "VPMULUDQ (YMM, YMM, YMM)"


@pytest.fixture(scope="module")
def instructions() -> InstructionFactory:
    return InstructionFactory(Catalogue.load())


@pytest.mark.parametrize(
    ("string", "registers"),
    [
        (WITH_MEMORY, WITH_REGISTERS),
        ("VADDSS (XMM, XMM, M32)", "VADDSS (XMM, XMM, XMM)"),
        ("VADDPS (YMM, K, YMM, M32_1to8)", "VADDPS (YMM, K, YMM, YMM)"),
        ("POPCNT (R64, M64)", "POPCNT (R64, R64)"),
        ("VCVTSI2SS (XMM, XMM, M32)", "VCVTSI2SS (XMM, XMM, R32)"),
        ("PADDB (MM, M64)", "PADDB (MM, MM)"),
        (WITH_REGISTERS, None),
        ("MOVNTDQ (M128, XMM)", None),
        ("NEG (M32)", None),
    ],
)
def test_the_form_with_registers(instructions: InstructionFactory, string: str, registers: str | None) -> None:
    found = register_form(instructions.variant(string), instructions)
    assert (found.string if found is not None else None) == registers


def test_similar_names_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take half a second, for each of thousands of variants."""
    monkeypatch.delattr(Catalogue, "_unknown")
    instructions = InstructionFactory(Catalogue.load())
    assert register_form(instructions.variant("VBROADCASTF128 (YMM, M128)"), instructions) is None


@pytest.mark.parametrize(
    ("usage", "of_registers", "is_so"),
    [
        ("1*p01+1*p23", "1*p01", True),
        ("1*p01+2*p23", "1*p01", True),
        ("1*p01", "1*p01", True),
        ("1*p23", "1*p01", False),
        ("1*p5+1*p23", "1*p01", False),
        ("2*p01+1*p23", "1*p01", False),
    ],
)
def test_what_loads_add(usage: str, of_registers: str, is_so: bool) -> None:
    assert loads_more(MACHINE, PortUsage.parse(usage), PortUsage.parse(of_registers)) is is_so


@pytest.mark.parametrize(
    ("first", "second", "stated", "named"),
    [
        ("1*p01+1*p23", None, "1*p01+1*p23", None),
        ("1*p5+1*p23", "1*p5+1*p23", "1*p5+1*p23", None),
        ("1*p5+1*p23", "1*p01+1*p23", None, ["1*p5+1*p23", "1*p01+1*p23"]),
        ("1*p23", "", None, None),
    ],
)
def test_a_usage_that_the_form_with_registers_contradicts_has_to_come_out_again(
    instructions: InstructionFactory,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
    second: str | None,
    stated: str | None,
    named: list[str] | None,
) -> None:
    answers = {(WITH_MEMORY, 0): first, (WITH_MEMORY, 1): second, (WITH_REGISTERS, 0): "1*p01"}

    def infer(_machine: object, mixes: MixFactory, variant: InstructionVariant, *_: Fraction) -> Procedure[Any]:
        (measured,) = yield [mixes.request([(variant, 3)], None)]
        text = answers[variant.string, measured.request.again // MOST_AGAIN]
        assert text is not None, "nothing contradicts the first usage"
        return PortConclusion(PortUsage.parse(text) if text else None, experiments=(str(measured.request.again),))

    def measure(request: Request) -> Measured:
        return Measured(request, Status.OK, {"core_cycles": Fraction(4)}, {}, None)

    monkeypatch.setattr(counterparts, "infer_by_time", infer)
    variant = instructions.variant(WITH_MEMORY)
    asked = infer_beside_registers(MACHINE, MixFactory(instructions), variant, Fraction(1, 2), Fraction(0))
    found = driven(asked, measure)
    assert isinstance(found, PortConclusion)
    assert found.usage == (PortUsage.parse(stated) if stated else None)
    usages = found.failure.usages if isinstance(found.failure, Indistinguishable) else None
    assert usages == (tuple(map(PortUsage.parse, named)) if named else None)
    assert (Remark(Note.UNLIKE_REGISTERS) in found.steps) is (second is not None)
    assert len(found.experiments) == (1 if second is None else 2)
