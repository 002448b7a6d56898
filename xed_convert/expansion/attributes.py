"""One record, several variants: the attributes by which variants of a record differ, and their values.

Each rule gives the values of one attribute; a variant is one combination of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

from xed_convert.expansion.facts import LONG_MODE
from xed_convert.expansion.iform import iform_of, nonterminal_base

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xed_convert.datafiles.operand_spec import OperandSpec
    from xed_convert.expansion.facts import RecordFacts

AGEN_FORMS = (
    "B",
    "B_D8",
    "B_D32",
    "B_I",
    "B_I_D8",
    "B_I_D32",
    "B_IS",
    "B_IS_D8",
    "B_IS_D32",
    "D32",
    "I_D32",
    "IS_D32",
    "R_D32",
)
"""The forms of addresses that LEA has variants for: Base, Index, Scaled Index, RIP, Displacement and its bits."""

LOW_RM, HIGH_RM = "0,1,2,3", "4,5,6,7"
"""The halves of ModRM.rm for byte registers: AL to BL need no REX prefix, SPL to DIL do."""


@dataclass(frozen=True, slots=True)
class VariantAttributes:
    """The attributes of one variant. None or "" means that the variant does not have the attribute.

    - `eosz`: 1, 2, 3 for 16, 32, 64 bits.
    - `high8`: the names of the operands that use AH, CH, DH, BH.
    - `bcast`: XED's broadcast code, 0 for none.
    - `rep`: the value of REP.
    """

    eosz: int | None = None
    high8: tuple[str, ...] | None = None
    rm: str = ""
    immzero: bool | None = None
    agen: str = ""
    bcast: int | None = None
    mask: bool | None = None
    zeroing: bool | None = None
    rep: int | None = None


_vector_choice = cache(VariantAttributes)
"""Makes the attributes; equal ones are one object, since most records share a few combinations."""


def choices(facts: RecordFacts, sizes: tuple[int | None, ...]) -> Iterator[VariantAttributes]:
    """Yield the variants of a record, for those of its operand sizes that are given."""
    for eosz in sizes:
        for sized in _vector_choices(facts, eosz):
            for choice in _byte_register_choices(facts, sized):
                yield from _immediate_and_address_choices(facts, choice)


def size_varies(spec: OperandSpec, facts: RecordFacts) -> bool:
    """Whether the width of an operand depends on the operand size."""
    if spec.internal and not spec.name.startswith("REG"):
        return False
    code = spec.oc2 or facts.datafiles.extra_widths.get(spec.nonterminal, "")
    if code in ("asz", "ssz", ""):
        return False
    if spec.nonterminal == "rIP":
        return False
    width = facts.datafiles.widths.get(code)
    return width is not None and width.varies


def operand_sizes(facts: RecordFacts) -> tuple[int | None, ...]:
    """Return the values of `eosz` that the pattern allows; if it allows all, those usual for its kind of encoding."""
    record = facts.record
    if "REP" not in record.iclass and not any(size_varies(spec, facts) for spec in facts.specs):
        return (None,)
    allowed = facts.possible("EOSZ", LONG_MODE)
    if allowed == {1, 2, 3}:
        narrow = facts.fixes("REXW", 0)
        allowed = frozenset(_default_sizes(facts)) - (frozenset({3}) if narrow else frozenset())
    return tuple(sorted(allowed))


def _default_sizes(facts: RecordFacts) -> tuple[int, ...]:
    """Return the operand sizes of a pattern that does not determine them."""
    record = facts.record
    if facts.fixes("OSZ", 1) or (facts.is_apx and facts.fixes("VEX_PREFIX", 1)):
        return (1,)
    if facts.fixes("REXW", 1):
        return (3,)
    if "REP" in record.iclass.split("_")[0] or "IRET" in record.iclass:
        return (2,)
    byte_source = record.iclass == "CRC32" and any(spec.oc2 == "b" for spec in facts.specs)
    if (
        (facts.encoding_space or facts.fixes("OSZ", 0))
        or record.extension == "RDWRFSGS"
        or byte_source
        or record.iclass.endswith("XSTORE")
    ):
        return (2, 3)
    if iform_of(record, facts.specs) == "MOV_GPRv_IMMz":
        return (3,)
    return (1, 2, 3)


def _vector_choices(facts: RecordFacts, eosz: int | None) -> Iterator[VariantAttributes]:
    """Yield the values of bcast, mask, zeroing and rep."""
    repetition = _repetition(facts)
    for mask, zeroing in _masking(facts):
        for bcast in _broadcasts(facts):
            yield _vector_choice(eosz=eosz, mask=mask, zeroing=zeroing, bcast=bcast, rep=repetition)


def _repetition(facts: RecordFacts) -> int | None:
    """Return REP (2 for REPNE, 3 for REPE) if the iclass names a repetition, else None."""
    if "REP" not in facts.record.iclass.split("_")[0]:
        return None
    return min(facts.constraints.get("REP", frozenset({0})))


def _masking(facts: RecordFacts) -> tuple[tuple[bool | None, bool | None], ...]:
    """Return the pairs of mask and zeroing."""
    record = facts.record
    if "MASKOP_EVEX" not in record.attributes:
        return ((None, None),)
    zeroing_is_free = facts.constraints.get("ZEROING") is None
    only_masked = record.category in ("GATHER", "SCATTER") or any(s.nonterminal == "MASKNOT0" for s in facts.specs)
    unmasked = [] if only_masked else [(False, False if zeroing_is_free else None)]
    if not zeroing_is_free:
        return (*unmasked, (True, None))
    return (*unmasked, (True, False), (True, True))


def _broadcasts(facts: RecordFacts) -> tuple[int | None, ...]:
    """Return the values of bcast."""
    if "BROADCAST_ENABLED" not in facts.record.attributes:
        return (None,)
    code = facts.bound(BCRC=1).get("BCAST")
    if code is None:
        raise facts.record.error("BROADCAST_ENABLED, but the nonterminals of the pattern give no broadcast code")
    return (0, code)


def is_byte_gpr(spec: OperandSpec) -> bool:
    """Whether an operand is a general-purpose byte register."""
    return bool(spec.nonterminal) and nonterminal_base(spec.nonterminal) == "GPR8"


def _byte_register_choices(facts: RecordFacts, choice: VariantAttributes) -> Iterator[VariantAttributes]:
    """Yield the values of high8 and rm."""
    names = [spec.name for spec in facts.specs if is_byte_gpr(spec)]
    if not names:
        yield choice
        return
    if facts.encoding_space:
        yield choice
        return
    immediate = any(spec.name == "IMM0" for spec in facts.specs)
    in_rm = any(spec.nonterminal == "GPR8_B" for spec in facts.specs)
    if immediate and in_rm:
        yield replace(choice, high8=(), rm=LOW_RM)
        yield replace(choice, high8=(), rm=HIGH_RM)
    else:
        yield replace(choice, high8=())
    needs_rex = choice.eosz == 3 and facts.record.iclass in ("MOVSX", "MOVZX", "CRC32")
    if needs_rex:
        return
    for count in range(1, len(names) + 1):
        for subset in combinations(names, count):
            yield replace(choice, high8=subset)


def _immediate_and_address_choices(facts: RecordFacts, choice: VariantAttributes) -> Iterator[VariantAttributes]:
    """Yield the values of immzero and agen."""
    record = facts.record
    zero = (None,) if not _has_zero_immediate(facts) else (False, True)
    forms: tuple[str, ...] = AGEN_FORMS if any(spec.name == "AGEN" for spec in facts.specs) else ("",)
    if "NO_RIP_REL" in record.attributes and forms != ("",):
        forms = tuple(form for form in forms if not form.startswith("R"))
    if zero == (None,) and forms == ("",):
        yield choice
        return
    for immzero in zero:
        for form in forms:
            yield replace(choice, immzero=immzero, agen=form)


def _has_zero_immediate(facts: RecordFacts) -> bool:
    """Whether an immediate of 0 makes a variant of its own."""
    return facts.record.extension == "BASE" and any(
        spec.name == "IMM0" and spec.visibility == "EXPLICIT" and spec.oc2 == "b" for spec in facts.specs
    )
