"""Finds the variants that an instruction in text can mean, and encodes it as each of them."""

from __future__ import annotations

import csv
import difflib
import io
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

from xed_convert.assembly.syntax import SIZES, Statement, TextKind, WrittenOperand
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.encoder import ROUNDING, ROUNDING_MODES, encode
from xed_convert.encoding.form import parse_encoding
from xed_convert.encoding.registers import CLASS_OF, CLASSES, HIGH8, canonical, needs_rex, numbers_of
from xed_convert.errors import AssemblyError, ConversionError, EncodingError
from xed_convert.model import MemoryAddress, OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xed_convert.model import InstructionVariant, Operand, OperandValue

_VECTOR_INDEXES = {name: kind for kind in ("XMM", "YMM", "ZMM") for name in CLASSES[kind]}


_X87_OPTIONAL = frozenset({("ST(0)",), ("AX",)})
"""Suppressed registers of x87 instructions that assemblers accept."""


MOST_SHAPES = 50_000
"""Shapes of statements that are remembered with the variants that fit them."""

_Shape = tuple[tuple[str, ...], frozenset[str], tuple[tuple[object, ...], ...], tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Match:
    """A variant that an instruction in text can mean, with its operands and bytes.

    `distance` is 1 if the text omits implicit operands that the catalogue's syntax has, else 0.
    """

    variant: InstructionVariant
    values: Mapping[int, OperandValue]
    data: bytes
    distance: int = 0


@dataclass(frozen=True, slots=True)
class _Mnemonics:
    """Other spellings of mnemonics: families of condition codes, conditions, and whole names."""

    families: tuple[str, ...]
    conditions: Mapping[str, str]
    names: Mapping[str, str]

    def spellings(self, word: str) -> tuple[str, ...]:
        """Return a mnemonic and what else it may be called in the catalogue."""
        found = [word, self.names.get(word, word)]
        found += [
            family + self.conditions[word.removeprefix(family)]
            for family in self.families
            if word.startswith(family) and word.removeprefix(family) in self.conditions
        ]
        if word.startswith("CMP") and word.endswith("XADD"):
            found.append(f"CMP{self.conditions.get(word[3:-4], word[3:-4])}XADD")
        return tuple(dict.fromkeys(found))


@lru_cache(maxsize=1)
def _mnemonics() -> _Mnemonics:
    """Read the table of mnemonics.

    Raises:
        ConversionError: a row is not as expected; the message names the line.
    """
    name = "data/mnemonics.tsv"
    text = resources.files("xed_convert").joinpath(name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    families: list[str] = []
    tables: dict[str, dict[str, str]] = {"condition": {}, "name": {}}
    for number, row in enumerate(csv.DictReader(io.StringIO("\n".join(lines)), delimiter="\t"), start=2):
        if not row["source"] or row["kind"] not in ("family", *tables):
            message = f"{name}: row {number}: expected kind, written, meant and source, not {row}"
            raise ConversionError(message)
        if row["kind"] == "family":
            families.append(row["written"])
        else:
            tables[row["kind"]][row["written"]] = row["meant"]
    return _Mnemonics(tuple(families), tables["condition"], tables["name"])


def spellings(words: Iterable[str]) -> list[str]:
    """Return what prefixes and mnemonic may be called in the catalogue, as they are written first."""
    table = _mnemonics()
    found = [""]
    for word in words:
        found = [f"{before} {one}".strip() for before in found for one in table.spellings(word)]
    return list(dict.fromkeys(found))


class Matcher:
    """Finds variants of a catalogue by mnemonic and operands."""

    def __init__(self, catalogue: Catalogue | Iterable[InstructionVariant]) -> None:
        """Sort the variants by their words: prefixes and mnemonic. Each is loaded when a text first needs it."""
        self._catalogue = catalogue if isinstance(catalogue, Catalogue) else Catalogue(catalogue)
        self._by_words: dict[str, list[int]] = {}
        self._by_shape: dict[_Shape, list[InstructionVariant]] = {}
        self._near: dict[str, list[str]] = {}
        for number, words, iclass in self._catalogue.spellings():
            self._by_words.setdefault(words, []).append(number)
            if iclass != words:
                self._by_words.setdefault(iclass, []).append(number)

    def matches(self, statement: Statement) -> list[Match]:
        """Return every variant that a statement can mean, encoded, the shortest first.

        Of equally long ones, variants without a pseudo prefix in their assembly come first, as with the GNU assembler.

        Raises:
            AssemblyError: there is none; the message names the nearest.
        """
        found: list[Match] = []
        reason: EncodingError | None = None
        for variant in self._nearly(statement):
            for distance, values in _assignments(variant, statement):
                try:
                    data = encode(variant, values)
                    resolved = _resolve_here(variant, statement, values, len(data))
                    found.append(
                        Match(variant, resolved, data if resolved is values else encode(variant, resolved), distance)
                    )
                except EncodingError as error:
                    reason = error
        if not found:
            raise self._no_match(statement, self.candidates(statement), reason)
        return sorted(found, key=lambda match: (match.distance, len(match.data), "{" in match.variant.asm))

    def choose(self, statement: Statement) -> list[Match]:
        """Return what `matches` returns if the width of the memory operand is clear.

        Raises:
            AssemblyError: there is no match, or a memory operand needs a size.
        """
        found = self.matches(statement)
        sizes = {_memory_bits(match.variant) for match in found}
        if _is_unsized(statement) and len(sizes) > 1:
            names = [name for name, bits in SIZES.items() if bits in sizes and name not in ("mmword", "oword")]
            hint = f"Write the size before it: {', '.join(f'{name} ptr' for name in names)}."
            raise AssemblyError(f"{statement.text!r}: the size of the memory operand is not clear", hint=hint)
        return found

    def means(self, statement: Statement, variant: InstructionVariant, values: Mapping[int, OperandValue]) -> bool:
        """Say whether `choose` has a variant with these operands among what it returns, without encoding anything.

        It is also false if a memory operand is written without its size, and variants of several sizes fit.
        """
        nearly = self._nearly(statement)
        if not any(one is variant for one in nearly):
            return False
        if _is_unsized(statement) and len({_memory_bits(one) for one in nearly}) > 1:
            return False
        return any(found == dict(values) for _, found in _assignments(variant, statement))

    def _nearly(self, statement: Statement) -> list[InstructionVariant]:
        """Return the variants that fit a statement, whatever its numbers. They are cached, since few shapes are common.

        Raises:
            AssemblyError: the mnemonic is unknown.
        """
        shape = _shape(statement)
        found = self._by_shape.get(shape)
        if found is None:
            found = [one for one in self.candidates(statement) if _fits_apart_from_numbers(one, statement)]
            if len(self._by_shape) >= MOST_SHAPES:
                self._by_shape.clear()
            self._by_shape[shape] = found
        return found

    def candidates(self, statement: Statement) -> list[InstructionVariant]:
        """Return the variants of the mnemonic, whatever their operands, in the catalogue's order for each spelling.

        Raises:
            AssemblyError: the mnemonic is unknown.
        """
        names = [name for name in spellings(statement.words) if name in self._by_words]
        found = dict.fromkeys(number for name in names for number in self._by_words[name])
        if found:
            return [self._catalogue.variant(number) for number in found]
        words = " ".join(statement.words)
        near = self._similar(words[:40])
        hint = f"Similar: {', '.join(near)}." if near else ""
        raise AssemblyError(f"{words[:80]!r} is not an instruction of the catalogue", hint=hint)

    def _similar(self, words: str) -> list[str]:
        """Return similar spellings, cached: a search takes milliseconds, and text in AT&T syntax needs many."""
        found = self._near.get(words)
        if found is None:
            found = self._near[words] = difflib.get_close_matches(words, self._by_words, n=4, cutoff=0.5)
        return found

    @staticmethod
    def _no_match(
        statement: Statement, candidates: list[InstructionVariant], reason: EncodingError | None
    ) -> AssemblyError:
        """Return the error for operands that no variant of the mnemonic takes."""
        words = " ".join(statement.words)
        if reason is not None:
            return AssemblyError(f"{statement.text[:200]!r} cannot be encoded: {reason.message}", hint=reason.hint)
        nearest = sorted(candidates, key=lambda variant: _mismatches(variant, statement))
        forms = list(dict.fromkeys(variant.string for variant in nearest))
        listed = "; ".join(forms[:6]) + ("; ..." if len(forms) > 6 else "")
        message = f"no variant of {words} takes the operands of {statement.text[:200]!r}"
        hint = _high8_beside_rex(statement) or f"The nearest: {listed}"
        return AssemblyError(message, hint=hint)


def _mismatches(variant: InstructionVariant, statement: Statement) -> tuple[int, bool]:
    """Return how many operands are wrong, missing or too many, and whether the variant has a pseudo prefix."""
    slots = [one for one in variant.operands if _is_written(one)]
    pairs = zip(slots, statement.operands, strict=False)
    wrong = sum(_value(variant, slot, written, "") is None for slot, written in pairs)
    return wrong + abs(len(slots) - len(statement.operands)), "{" in variant.asm


def _high8_beside_rex(statement: Statement) -> str:
    """Return a hint if AH to BH stand beside a register that needs a REX prefix, else ""."""
    names = [str(one.value) for one in statement.operands if one.kind is TextKind.REGISTER]
    addresses = [one.value for one in statement.operands if isinstance(one.value, MemoryAddress)]
    names += [name for address in addresses for name in (address.base, address.index) if name]
    high = next((name for name in names if name in HIGH8), None)
    needing = [name for name in names if needs_rex(name) and CLASS_OF[name].startswith("GPR")]
    if high is None or not needing:
        return ""
    return f"{high} has no encoding together with a REX prefix, which {needing[0]} needs."


def _memory_bits(variant: InstructionVariant) -> int | None:
    """Return the width of a variant's memory operand in bits."""
    return next(
        (one.width_bits for one in variant.operands if one.kind is OperandKind.MEMORY and not one.suppressed), None
    )


def _is_unsized(statement: Statement) -> bool:
    """Say whether a memory operand is written without its size."""
    return any(one.kind is TextKind.MEMORY and one.size_bits is None for one in statement.operands)


def _shape(statement: Statement) -> _Shape:
    """Return what decides which variants fit a statement, apart from its numbers."""
    operands = tuple([_operand_shape(one) for one in statement.operands])
    decorations = (bool(statement.mask), statement.zeroing, statement.rounding, statement.default_flags is not None)
    return (statement.words, statement.pseudo, operands, decorations)


def _operand_shape(written: WrittenOperand) -> tuple[object, ...]:
    """Return what `_value` looks at; of an address, its kind of index and whether it has any register."""
    value = written.value
    if isinstance(value, MemoryAddress):
        vector = _VECTOR_INDEXES.get(value.index, "")
        return (written.kind, written.size_bits, written.broadcast, vector, bool(value.base or value.index))
    return (written.kind, value if written.kind is TextKind.REGISTER else None)


def _fits_apart_from_numbers(variant: InstructionVariant, statement: Statement) -> bool:
    """Say whether a statement fits a variant, whatever its numbers."""
    if not (_fits_attributes(variant, statement) and _fits_pseudo(variant, statement)):
        return False
    codes = {index: code for form in parse_encoding(variant.encoding) for index, code in form.places}
    return any(
        all(
            written.kind is TextKind.NUMBER or _value(variant, slot, written, codes.get(slot.index, "")) is not None
            for slot, written in zip(slots, statement.operands, strict=True)
        )
        for _, slots in _slots(variant)
        if len(slots) == len(statement.operands)
    )


def _slots(variant: InstructionVariant) -> Iterable[tuple[int, list[Operand]]]:
    """Yield the lists of operands that text may have for a variant, each with its distance (see `Match`)."""
    written = [one for one in variant.operands if _is_written(one)]
    yield 0, written
    yield 0, [one for one in variant.operands if _is_written(one) or _is_optional(variant, one)]
    yield 1, [one for one in written if one.explicit]


def _assignments(variant: InstructionVariant, statement: Statement) -> Iterable[tuple[int, dict[int, OperandValue]]]:
    """Yield distance (see `Match`) and operands' values if the variant fits the statement; nothing if it does not."""
    if not (_fits_attributes(variant, statement) and _fits_pseudo(variant, statement)):
        return
    for distance, slots in _slots(variant):
        if len(slots) == len(statement.operands):
            values = _assign(variant, statement, slots)
            if values is not None:
                yield distance, values
                return


def _is_optional(variant: InstructionVariant, operand: Operand) -> bool:
    """Whether text may have a suppressed operand: ST(0) of x87 arithmetic, AX of FNSTSW."""
    return variant.extension == "X87" and operand.suppressed and operand.registers in _X87_OPTIONAL


def _is_written(operand: Operand) -> bool:
    """Whether an operand is in the list of operands in assembly."""
    special = operand.kind in (OperandKind.FLAGS, OperandKind.DEFAULT_FLAGS)
    return not (special or operand.suppressed or operand.opmask)


def _fits_attributes(variant: InstructionVariant, statement: Statement) -> bool:
    """Compare masks, zeroing, rounding and default flags."""
    attributes = variant.attributes
    masked = any(operand.opmask for operand in variant.operands)
    rounding = "mode" if attributes.get("roundc") == "1" else "sae" if attributes.get("sae") == "1" else ""
    written = "mode" if statement.rounding in ROUNDING_MODES else statement.rounding
    default_flags = any(operand.kind is OperandKind.DEFAULT_FLAGS for operand in variant.operands)
    return (
        masked == bool(statement.mask)
        and (attributes.get("zeroing") == "1") == statement.zeroing
        and rounding == written
        and default_flags == (statement.default_flags is not None)
        and ("{nf}" in variant.asm) == ("nf" in statement.pseudo)
    )


def _fits_pseudo(variant: InstructionVariant, statement: Statement) -> bool:
    """Compare the pseudo prefixes."""
    form = parse_encoding(variant.encoding)[0]
    first = form.places[0][1] if form.places else ""
    for word in statement.pseudo:
        if word in ("evex", "vex") and form.space != word:
            return False
        if word in ("vex2", "vex3") and form.space != "vex":
            return False
        if (word == "load" and first[:1] != "R") or (word == "store" and first[:1] not in ("B", "M")):
            return False
        if word in ("disp8", "disp32") and first[:1] == "D" and first[1:] != word[4:]:
            return False
    return True


def _assign(variant: InstructionVariant, statement: Statement, slots: list[Operand]) -> dict[int, OperandValue] | None:
    """Return the values of a variant's operands by the statement; None if one does not fit."""
    values: dict[int, OperandValue] = {}
    codes = {index: code for form in parse_encoding(variant.encoding) for index, code in form.places}
    for operand, written in zip(slots, statement.operands, strict=True):
        value = _value(variant, operand, written, codes.get(operand.index, ""))
        if value is None:
            return None
        if isinstance(value, MemoryAddress) and (bits := _displacement_bits(statement)):
            value = MemoryAddress(value.base, value.index, value.scale, value.displacement, value.segment, bits)
        if operand.explicit:
            values[operand.index] = value
    for operand in variant.operands:
        if operand.opmask:
            values[operand.index] = statement.mask
        elif operand.kind is OperandKind.DEFAULT_FLAGS and statement.default_flags is not None:
            values[operand.index] = statement.default_flags
    if statement.rounding in ROUNDING_MODES[1:]:
        values[ROUNDING] = statement.rounding
    return values


def _displacement_bits(statement: Statement) -> int:
    """Return the width of the displacement that a pseudo prefix asks for."""
    return 8 if "disp8" in statement.pseudo else 32 if "disp32" in statement.pseudo else 0


def _value(variant: InstructionVariant, operand: Operand, written: WrittenOperand, code: str) -> OperandValue | None:
    """Return the value of one operand, None if the text does not fit."""
    value = written.value
    if operand.kind is OperandKind.REGISTER:
        names = numbers_of(operand.registers, extended=operand.explicit) or map(canonical, operand.registers)
        return value if written.kind is TextKind.REGISTER and value in names else None
    if operand.kind in (OperandKind.MEMORY, OperandKind.AGEN):
        return value if isinstance(value, MemoryAddress) and _fits_memory(operand, written, value, code) else None
    if operand.kind is OperandKind.RELATIVE_BRANCH:
        return value if written.kind in (TextKind.NUMBER, TextKind.HERE) else None
    if written.kind is not TextKind.NUMBER or not isinstance(value, int):
        return None
    if operand.value:
        return value if value == int(operand.value, 0) else None
    return _immediate(variant, value, code)


def _fits_memory(operand: Operand, written: WrittenOperand, address: MemoryAddress, code: str) -> bool:
    """Whether size, broadcast and kind of index fit."""
    shape = operand.memory
    prefix = shape.prefix.split() if shape and shape.prefix else []
    size = SIZES.get(prefix[0]) if prefix else operand.width_bits
    broadcast = shape.suffix if shape else ""
    if written.broadcast != broadcast and (written.broadcast or "1to" in broadcast):
        return False
    if written.size_bits is not None and size and written.size_bits not in (size, operand.width_bits):
        return False
    vector = _VECTOR_INDEXES.get(address.index, "")
    wanted = {"MX": "XMM", "MY": "YMM", "MZ": "ZMM"}.get(code, "")
    return vector == wanted and not (code == "O" and (address.base or address.index))


def _immediate(variant: InstructionVariant, value: int, code: str) -> int | None:
    """Return the immediate to encode; None if its sign extension is not the number in the text."""
    if code[:1] != "S":
        return value
    width = int(code[1:])
    first = next((one for one in variant.operands if one.kind in (OperandKind.REGISTER, OperandKind.MEMORY)), None)
    size = (first.width_bits if first and not first.suppressed else 64) or 64
    if size > width and value >= (1 << size) - (1 << (width - 1)) and value < 1 << size:
        value -= 1 << size
    if size > width and not -(1 << (width - 1)) <= value < 1 << (width - 1):
        return None
    return value


def _resolve_here(
    variant: InstructionVariant, statement: Statement, values: dict[int, OperandValue], length: int
) -> dict[int, OperandValue]:
    """Turn distances from the beginning of the instruction into distances from its end."""
    branch = next((one for one in variant.operands if one.kind is OperandKind.RELATIVE_BRANCH), None)
    if branch is None or not any(one.kind is TextKind.HERE for one in statement.operands):
        return values
    distance = values[branch.index]
    return {**values, branch.index: distance - length if isinstance(distance, int) else distance}
