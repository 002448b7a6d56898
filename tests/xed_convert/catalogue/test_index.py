"""Looking variants up by words and opcodes finds what reading every variant finds, in the same order."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tests.nonempty import some
from xed_convert.assembly.matching import Matcher, spellings
from xed_convert.assembly.syntax import Statement
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.catalogue.index import opcodes_of, words_of
from xed_convert.encoding.form import parse_encoding

if TYPE_CHECKING:
    from xed_convert.model import InstructionVariant


@cache
def variants() -> tuple[InstructionVariant, ...]:
    return tuple(Catalogue.load())


def by_reading_all() -> dict[str, list[InstructionVariant]]:
    """Return the variants with an encoding by their mnemonic in assembly, and by their iclass."""
    found: dict[str, list[InstructionVariant]] = {}
    for variant in variants():
        mnemonic = " ".join(word for word in variant.asm.split() if not word.startswith("{"))
        for name in {mnemonic, variant.iclass} if variant.encoding else ():
            found.setdefault(name, []).append(variant)
    return found


def test_every_mnemonic_has_the_same_candidates() -> None:
    matcher = Matcher(Catalogue.load())
    named = by_reading_all()
    assert len(named) > 2000
    for name in named:
        words = tuple(name.split())
        spelled = spellings(words)
        expected = {variant.string: variant for one in spelled for variant in named.get(one, ())}
        assert matcher.candidates(Statement(name, words)) == list(expected.values()), name
        assert name in spelled


def test_the_file_has_the_opcodes_of_every_form() -> None:
    for variant, found in some(zip(variants(), Catalogue.load().opcodes, strict=True), 20000):
        forms = parse_encoding(variant.encoding) if variant.encoding else ()
        assert found.split() == [str(form).split()[0] for form in forms], variant.string


def test_words_and_opcodes_of_a_variant() -> None:
    assert words_of("{load} VADDPS") == "VADDPS"
    assert words_of("REP MOVSB") == "REP MOVSB"
    assert opcodes_of("leg.0.50+ w=0 0:S5 | vex.2.F7.0C 1:R4") == "leg.0.50+ vex.2.F7.0C"
    assert not opcodes_of("")
