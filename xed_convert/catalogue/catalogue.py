"""The catalogue of instruction variants: loading it, and finding variants by name or pattern."""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING

from xed_convert.catalogue.index import opcodes_of, words_of
from xed_convert.catalogue.store import SHIPPED, CatalogueFile
from xed_convert.errors import UnknownInstructionError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from xed_convert.model import InstructionVariant

# difflib, fnmatch, lxml and pathlib are imported in functions: each import takes longer than loading a variant.


def read_xml(path: Path | str) -> list[InstructionVariant]:
    """Read the variants of an instructions.xml (plain, .gz or .xz).

    Raises:
        ConversionError: the file cannot be read or is not a catalogue; the message names the line.
    """
    from pathlib import Path  # noqa: PLC0415 - see above

    from xed_convert.catalogue import xml as catalogue_xml  # noqa: PLC0415 - see above

    return list(catalogue_xml.read_xml(Path(path)))


@cache
def _shipped() -> CatalogueFile:
    """Return the shipped catalogue, one for the process."""
    return CatalogueFile(SHIPPED)


class _Memory:
    """Variants in memory, with the interface of a `CatalogueFile`."""

    def __init__(self, variants: Iterable[InstructionVariant], source: str) -> None:
        self._variants = tuple(variants)
        self.source = source
        self.strings = [variant.string for variant in self._variants]
        self.iforms = list(dict.fromkeys(variant.iform for variant in self._variants))
        self.iclasses = list(dict.fromkeys(variant.iclass for variant in self._variants))
        iforms = {name: number for number, name in enumerate(self.iforms)}
        iclasses = {name: number for number, name in enumerate(self.iclasses)}
        self.iform_numbers = [iforms[variant.iform] for variant in self._variants]
        self.iclass_numbers = [iclasses[variant.iclass] for variant in self._variants]

    def __len__(self) -> int:
        return len(self._variants)

    def variant(self, number: int) -> InstructionVariant:
        """Return the variant with that number."""
        return self._variants[number]

    @cached_property
    def words(self) -> list[str]:
        """For each variant, prefixes and mnemonic."""
        return [words_of(variant.asm) for variant in self._variants]

    @cached_property
    def opcodes(self) -> list[str]:
        """For each variant, the opcodes of its forms."""
        return [opcodes_of(variant.encoding) for variant in self._variants]


class Catalogue:
    """A set of variants with unique strings and keys. Each is loaded when it is first used."""

    def __init__(self, variants: Iterable[InstructionVariant] | CatalogueFile, source: str = "") -> None:
        self._store = variants if isinstance(variants, CatalogueFile) else _Memory(variants, source)
        self._numbers: dict[str, int] = {}

    @classmethod
    def load(cls, path: Path | str | None = None) -> Catalogue:
        """Load the shipped catalogue, or the one at `path`: an instructions.xml (plain, .gz, .xz) or a catalogue.bin.

        Raises:
            ConversionError: the file cannot be read or is not a catalogue.
        """
        if path is None:
            return cls(_shipped())
        if str(path).endswith(".bin"):
            return cls(CatalogueFile(path))
        return cls(read_xml(path), source=str(path))

    @property
    def source(self) -> str:
        """The version of XED, or the file, from which the catalogue was made."""
        return self._store.source

    def __iter__(self) -> Iterator[InstructionVariant]:
        return (self._store.variant(number) for number in range(len(self._store)))

    def __len__(self) -> int:
        return len(self._store)

    def variant(self, number: int) -> InstructionVariant:
        """Return the variant with that number in the catalogue's order."""
        return self._store.variant(number)

    @property
    def opcodes(self) -> Sequence[str]:
        """For each variant by its number, the opcodes of its forms (see `index.opcodes_of`)."""
        return self._store.opcodes

    def spellings(self) -> Iterator[tuple[int, str, str]]:
        """Yield, for each variant that can be encoded, its number, its words (see `index.words_of`) and its iclass."""
        store = self._store
        columns = zip(store.words, store.iclass_numbers, store.opcodes, strict=True)
        for number, (words, iclass, opcodes) in enumerate(columns):
            if opcodes:
                yield number, words, store.iclasses[iclass]

    def of_iclasses(self, iclasses: Collection[str]) -> Iterator[InstructionVariant]:
        """Yield the variants of those iclasses in the catalogue's order. Others are not loaded."""
        store = self._store
        wanted = {number for number, name in enumerate(store.iclasses) if name in iclasses}
        return (store.variant(number) for number, iclass in enumerate(store.iclass_numbers) if iclass in wanted)

    def by_string(self, string: str) -> InstructionVariant:
        """Return the variant with that string.

        Raises:
            UnknownInstructionError: there is none; the hint lists similar ones.
        """
        found = self.get(string)
        if found is None:
            raise self._unknown(string)
        return found

    def get(self, string: str) -> InstructionVariant | None:
        """Return the variant with that string, None if there is none. Looking for similar ones takes half a second."""
        if not self._numbers:
            self._numbers = {name: number for number, name in enumerate(self._store.strings)}
        number = self._numbers.get(string)
        return None if number is None else self._store.variant(number)

    def by_key(self, key: str) -> InstructionVariant:
        """Return the variant with that key.

        Raises:
            UnknownInstructionError: there is none; the hint lists similar ones.
        """
        iform = key.partition("|")[0]
        for number in self._by_iform.get(iform, ()):
            if self._store.variant(number).key == key:
                return self._store.variant(number)
        raise self._unknown(iform)

    @cached_property
    def _by_iform(self) -> Mapping[str, Sequence[int]]:
        """The numbers of each iform's variants."""
        found: dict[str, list[int]] = {name: [] for name in self._store.iforms}
        for number, iform in enumerate(self._store.iform_numbers):
            found[self._store.iforms[iform]].append(number)
        return found

    def find(self, pattern: str) -> list[InstructionVariant]:
        """Return the variants that a pattern means: an iform, its stem, a string, an iclass, or a glob of one of these.

        A stem is an iform without its opcode: ADC_GPRv_GPRv means ADC_GPRv_GPRv_11 and ADC_GPRv_GPRv_13. If no iform
        has it, any beginning of an iform up to an underscore is a stem. A string's part before its operands means all
        strings with it: ADC_11. The name of an existing iform or iclass means that one only. Case does not matter. A
        string may have _EVEX or _VEX where the catalogue's string has not.

        Raises:
            UnknownInstructionError: no variant matches; the hint lists similar ones.
        """
        exact = self._equal(pattern.strip())
        if exact:
            return [self._store.variant(number) for number in exact]
        wanted = pattern.strip().upper()
        numbers = self._named(lambda name: name == wanted)
        if not numbers and wanted:
            start = wanted + "_"
            numbers = self._of_iforms(lambda name: name.startswith(start) and _is_opcode(name[len(start) :]))
            numbers = numbers or self._of_iforms(lambda name: name.startswith(start))
            numbers = numbers or self._named(lambda name: name.partition(" (")[0] == wanted)
        if not numbers and any(character in wanted for character in "*?["):
            from fnmatch import translate  # noqa: PLC0415 - see above
            from re import compile as compile_pattern  # noqa: PLC0415 - see above

            glob = compile_pattern(translate(wanted))
            numbers = self._named(lambda name: glob.match(name) is not None)
        if numbers:
            return [self._store.variant(number) for number in numbers]
        if found := self._in_named_encoding(wanted):
            return found
        raise self._unknown(pattern)

    def _in_named_encoding(self, wanted: str) -> list[InstructionVariant]:
        """Return the variants that a pattern with _EVEX or _VEX means whose strings have no such mark."""
        for mark, attribute in (("_EVEX", "evex"), ("_VEX", "vex")):
            if mark in wanted:
                numbers = self._named(wanted.replace(mark, "", 1).__eq__)
                variants = [self._store.variant(number) for number in numbers]
                return [variant for variant in variants if variant.attributes.get(attribute) == "1"]
        return []

    def _equal(self, name: str) -> list[int]:
        """Return the numbers of the variants with exactly that iform, iclass or string."""
        store = self._store
        found: set[int] = set()
        for names, numbers in ((store.iforms, store.iform_numbers), (store.iclasses, store.iclass_numbers)):
            if name in names:
                wanted = names.index(name)
                found.update(number for number, of in enumerate(numbers) if of == wanted)
        if name in store.strings:
            found.add(store.strings.index(name))
        return sorted(found)

    def _named(self, matches: Callable[[str], bool]) -> list[int]:
        """Return the numbers of the variants whose iform, iclass or string matches in upper case."""
        store = self._store
        iclasses = {number for number, name in enumerate(store.iclasses) if matches(name.upper())}
        found = set(self._of_iforms(matches))
        found.update(number for number, name in enumerate(store.strings) if matches(name.upper()))
        if iclasses:
            found.update(number for number, iclass in enumerate(store.iclass_numbers) if iclass in iclasses)
        return sorted(found)

    def _of_iforms(self, matches: Callable[[str], bool]) -> list[int]:
        """Return the numbers of the variants whose iform matches, as it is or in upper case."""
        store = self._store
        iforms = {number for number, name in enumerate(store.iforms) if matches(name) or matches(name.upper())}
        return [number for number, iform in enumerate(store.iform_numbers) if iform in iforms] if iforms else []

    def _unknown(self, pattern: str) -> UnknownInstructionError:
        """Return the error for a pattern without variants; it lists similar names."""
        from difflib import get_close_matches  # noqa: PLC0415 - see above

        names = {name.upper(): name for name in [*self._store.strings, *self._store.iforms, *self._store.iclasses]}
        wanted = pattern.strip().upper()[:60]
        near = [name for name in names if name[:1] == wanted[:1]]
        longer = [name for name in near if name.startswith(wanted)]
        matches = (
            sorted(longer, key=len)[:5]
            or get_close_matches(wanted, near, n=5, cutoff=0.6)
            or get_close_matches(wanted, [name.upper() for name in self._store.iclasses], n=5, cutoff=0.4)
        )
        hint = "`characterize --all --list` shows all instructions."
        if matches:
            hint = f"Nearest: {', '.join(names[name] for name in matches)}."
        return UnknownInstructionError(f"no instruction matches {pattern!r}", hint=hint)


def _is_opcode(text: str) -> bool:
    """Whether the last part of an iform, in upper case, is an opcode: 11, 8B, 0F7F, C0R4."""
    opcode, _, extension = text.partition("R")
    return len(opcode) in (2, 4) and set(opcode) <= set("0123456789ABCDEF") and extension in ("", *"01234567")
