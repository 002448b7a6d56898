"""Machine code out of ELF files: a symbol of an object file, or the executable parts of a program."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

RETURNS = {b"\xc3", b"\xf3\xc3", b"\xf2\xc3"}
LONGEST_RETURN = 2


class ObjectError(UopscopeError):
    """An ELF file cannot be read, or has no such code; the message names the file."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function: its name, where it begins, how long it is in bytes (0: the file does not say)."""

    name: str
    address: int
    size: int
    section: int


@dataclass(frozen=True, slots=True)
class ElfSection:
    """An executable section: its number, where it begins in memory, its bytes."""

    index: int
    name: str
    address: int
    code: bytes


@dataclass(frozen=True, slots=True)
class ElfProgram:
    """The executable sections of an ELF file and the functions in them, by address."""

    sections: tuple[ElfSection, ...]
    symbols: tuple[Symbol, ...]
    relocations: frozenset[tuple[int, int]]
    """Section and offset of places in an object file that only a linker fills."""

    @property
    def names(self) -> list[str]:
        """The names of all functions, each once."""
        return sorted({one.name for one in self.symbols if one.name})

    def functions(self, name: str) -> list[tuple[Symbol, bytes]]:
        """Return the functions of a name with their code."""
        return [(one, self.code_of(one)) for one in self.symbols if one.name == name]

    def code_of(self, symbol: Symbol) -> bytes:
        """Return a function's bytes; where the file does not say how long it is, up to the next one."""
        section = next(one for one in self.sections if one.index == symbol.section)
        start = symbol.address - section.address
        later = (one.address for one in self.symbols if one.section == symbol.section and one.address > symbol.address)
        end = symbol.address + symbol.size if symbol.size else min(later, default=section.address + len(section.code))
        return section.code[start : end - section.address]


def read_program(path: Path) -> ElfProgram:
    """Read an ELF file for x86-64.

    Raises:
        ObjectError: it cannot be read, is no ELF file, or is for another architecture.
    """
    try:
        with path.open("rb") as file:
            return _program(ELFFile(file), path)
    except OSError as error:
        raise ObjectError(f"{path}: {error.strerror or error}") from error
    except (ELFError, ValueError, KeyError, IndexError, AssertionError, OverflowError, UnicodeDecodeError) as error:
        raise ObjectError(f"{path}: not an ELF file that can be read ({error})") from error
    except Exception as error:  # pyelftools lets errors of its parser out on damaged files
        raise ObjectError(f"{path}: the ELF file is damaged ({type(error).__name__})") from error


def symbol_code(path: Path, name: str) -> bytes:
    """Return the code of a function in an object file or program, without a RET at its end.

    Raises:
        ObjectError: there is no such symbol, or a linker would have to fill places in it; names near ones.
    """
    program = read_program(path)
    symbol, code = function_of(program, path, name)
    section = next(one for one in program.sections if one.index == symbol.section)
    start = symbol.address - section.address
    if any(number == symbol.section and start <= at < start + len(code) for number, at in program.relocations):
        message = f"{path}: {name} refers to symbols that only a linker knows"
        raise ObjectError(message, hint="link it first (ld -r does not suffice), or take code without references")
    return without_return(code)


def function_of(program: ElfProgram, path: Path, name: str) -> tuple[Symbol, bytes]:
    """Return the first function of a name with its code.

    Raises:
        ObjectError: there is none; the hint has the names that there are.
    """
    found = program.functions(name)
    if not found:
        raise ObjectError(f"{path}: no symbol {name!r}", hint=names_near(name, program.names))
    return found[0]


def names_near(name: str, names: Sequence[str]) -> str:
    """Return the functions whose names are like one that there is not; if there is none, the first that there are."""
    near = get_close_matches(name, names, n=5, cutoff=0.5)
    return f"nearest: {', '.join(near)}" if near else f"it has: {', '.join(names[:20]) or 'no function at all'}"


def section_code(path: Path, name: str) -> bytes:
    """Return the bytes of an executable section.

    Raises:
        ObjectError: there is none of that name, or a linker would have to fill places in it.
    """
    program = read_program(path)
    for section in program.sections:
        if section.name == name:
            if any(number == section.index for number, _ in program.relocations):
                raise ObjectError("the text refers to symbols that it does not define")
            return section.code
    raise ObjectError(f"{path}: no section {name}")


def without_return(code: bytes) -> bytes:
    """Leave out a RET at the end: copies of the code follow each other."""
    for size in range(LONGEST_RETURN, 0, -1):
        if code[-size:] in RETURNS and len(code) > size:
            return code[:-size]
    return code


def _program(elf: ELFFile, path: Path) -> ElfProgram:
    if elf.get_machine_arch() != "x64":
        raise ObjectError(f"{path}: not for x86-64 but {elf.get_machine_arch()}")
    sections = tuple(
        ElfSection(index, section.name, section["sh_addr"], section.data())
        for index, section in enumerate(elf.iter_sections())
        if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR and section["sh_type"] == "SHT_PROGBITS"
    )
    known = {section.index for section in sections}
    symbols = {symbol for symbol in _symbols(elf) if symbol.section in known}
    ordered = tuple(sorted(symbols, key=lambda symbol: (symbol.section, symbol.address, symbol.name)))
    return ElfProgram(sections, ordered, frozenset(_relocations(elf, known)))


def _symbols(elf: ELFFile) -> Iterator[Symbol]:
    for table in elf.iter_sections():
        if isinstance(table, SymbolTableSection):
            for one in table.iter_symbols():
                if isinstance(one["st_shndx"], int) and one["st_info"]["type"] in {"STT_FUNC", "STT_NOTYPE"}:
                    yield Symbol(one.name, one["st_value"], one["st_size"], one["st_shndx"])


def _relocations(elf: ELFFile, known: set[int]) -> Iterator[tuple[int, int]]:
    if elf["e_type"] != "ET_REL":
        return
    for table in elf.iter_sections():
        if isinstance(table, RelocationSection) and table["sh_info"] in known:
            for one in table.iter_relocations():
                yield table["sh_info"], one["r_offset"]
