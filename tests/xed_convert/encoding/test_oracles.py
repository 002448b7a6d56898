"""Independent oracles over the whole catalogue: iced-x86 decodes, the GNU assembler and llvm-mc assemble.

Every variant is encoded with random operands. What an oracle does not know, and each disagreement, stands in the table
tests/data/encoding_oracles.tsv with its reason. An assembler is given text, and text does not always say which variant
is meant (`ADD EAX, 5` can have an immediate of 8 or 32 bits): another encoding of the same text is no disagreement.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import iced_x86
import pytest

from tests.shared import XED_NEW, XED_OLD, xed_datafiles
from tests.xed_convert.encoding.oracles import ExplainedDifference, assemble_all, explanations, same_mnemonic, tool
from tests.xed_convert.encoding.random_operands import plain_values
from xed_convert.assembly.formatting import format_instance
from xed_convert.assembly.matching import Matcher
from xed_convert.assembly.syntax import parse_statement
from xed_convert.datafiles.folder import Datafiles
from xed_convert.encoding.decoder import Decoder
from xed_convert.encoding.encoder import encode
from xed_convert.errors import AssemblyError, DecodingError
from xed_convert.expansion.convert import convert
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from xed_convert.model import InstructionVariant, OperandValue

LEAST_AGREEMENT = 0.999
Sample = tuple["InstructionVariant", "Mapping[int, OperandValue]", bytes]


@cache
def samples(version: str) -> list[Sample]:
    chooser = random.Random(version)
    chosen: list[Sample] = []
    for variant in convert(Datafiles.load(xed_datafiles(version))).variants:
        values = plain_values(variant, chooser, extended="APX" in variant.isa_set)
        chosen.append((variant, values, encode(variant, values)))
    return chosen


@cache
def readers(version: str) -> tuple[Decoder, Matcher]:
    variants = [variant for variant, _, _ in samples(version)]
    return Decoder(variants), Matcher(variants)


def without_width(values: Mapping[int, OperandValue]) -> dict[int, OperandValue]:
    """Drop how wide displacements are, and fixed values, which need not be given."""
    return {
        index: MemoryAddress(one.base, one.index, one.scale, one.displacement, one.segment)
        if isinstance(one, MemoryAddress)
        else one
        for index, one in values.items()
    }


def check(outcomes: list[tuple[InstructionVariant, str, str]], rows: list[ExplainedDifference]) -> None:
    """Compare outcomes (`agrees`, `unknown`, `differs`, `alias`) with the table."""
    counts = Counter(what for _, what, _ in outcomes)
    unexplained = [
        f"{what}: {variant.string}: {detail}"
        for variant, what, detail in outcomes
        if what != "agrees" and not any(row.what == what and row.covers(variant) for row in rows)
    ]
    assert not unexplained, f"{len(unexplained)} unexplained: " + "\n".join(unexplained[:40])
    known = len(outcomes) - counts["unknown"]
    assert (counts["agrees"] + counts["alias"]) / known >= LEAST_AGREEMENT, counts


@pytest.mark.slow
@pytest.mark.parametrize("version", [XED_NEW, XED_OLD])
def test_iced_decodes_the_same_instruction(version: str) -> None:
    outcomes = []
    for variant, _values, data in samples(version):
        decoded = iced_x86.Decoder(64, data, options=iced_x86.DecoderOptions.MPX).decode()
        if decoded.code == iced_x86.Code.INVALID:
            outcomes.append((variant, "unknown", data.hex()))
        elif decoded.len != len(data):
            outcomes.append((variant, "differs", data.hex()))
        else:
            what = same_mnemonic(decoded, variant)
            outcomes.append((variant, what, f"{data.hex()} {decoded}"))
    check(outcomes, explanations("iced-x86"))


@pytest.mark.slow
@pytest.mark.parametrize("version", [XED_NEW, XED_OLD])
@pytest.mark.parametrize("oracle", ["as", "llvm-mc"])
def test_assemblers_make_the_same_bytes(version: str, oracle: str, tmp_path: Path) -> None:
    commands = {"as": ["--64"], "llvm-mc": ["-triple=x86_64", "-filetype=obj"]}
    program = tool("as") if oracle == "as" else tool("llvm-mc-19")
    chosen = samples(version)
    decoder, matcher = readers(version)
    texts = [format_instance(variant, values) for variant, values, _ in chosen]
    if oracle == "llvm-mc":
        texts = [for_llvm(variant, text) for text, (variant, _, _) in zip(texts, chosen, strict=True)]
    results = assemble_all(texts, [program, *commands[oracle]], tmp_path)
    outcomes = []
    for (variant, values, data), text, result in zip(chosen, texts, results, strict=True):
        if isinstance(result, str):
            outcomes.append((variant, "unknown", f"{text}: {result}"))
        elif result == data or means_the_same(text, result, data, decoder, matcher):
            outcomes.append((variant, "agrees", ""))
        else:
            outcomes.append((variant, "differs", f"{text}: {data.hex()} {result.hex()} {values}"))
    check(outcomes, explanations(oracle))


def for_llvm(variant: InstructionVariant, text: str) -> str:
    """Write what llvm-mc 19 understands: lower case behind pseudo prefixes, no DS:, MOVABS for absolute addresses."""
    text = text.lower().replace("ds:[", "[")
    return (
        text.replace("mov ", "movabs ", 1) if any(one.memory and one.memory.moffs for one in variant.operands) else text
    )


def means_the_same(text: str, result: bytes, data: bytes, decoder: Decoder, matcher: Matcher) -> bool:
    """Whether an oracle chose another encoding of the same text: not ours, but one that the text can mean as well.

    llvm-mc swaps the sources of commutative VEX instructions, and the operands of XCHG, where that is shorter or equal.
    """
    try:
        decoded = decoder.decode(result)
        matches = matcher.matches(parse_statement(text))
    except (DecodingError, AssemblyError):
        return False
    ours = next((one for one in matches if one.data == data), None)
    if ours is None or decoded.length_bytes != len(result):
        return False
    wanted = without_width(decoded.values)
    swapped = [wanted[index] for index in sorted(wanted)]
    same = [without_width(one.values) for one in matches if one.variant is decoded.variant]
    if wanted in same:
        return True
    commutes = decoded.variant.iclass == "XCHG" or (
        decoded.variant.attributes.get("vex") == "1" and len(result) < len(data)
    )
    return commutes and any(sorted(map(str, one.values())) == sorted(map(str, swapped)) for one in same)
