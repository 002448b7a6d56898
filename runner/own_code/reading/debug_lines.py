"""Source lines of addresses, from DWARF's line tables, read by pyelftools."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING

from elftools.elf.elffile import ELFFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.dwarfinfo import DWARFInfo
    from elftools.dwarf.lineprogram import LineProgram

SourcePosition = tuple[str, int]
"""A file, and a line in it from 1."""


def lines_of(path: Path, begin: int, end: int) -> Callable[[int], SourcePosition | None]:
    """Return what says the line of an address in a range of a program; None where the file does not say.

    Damaged tables, or those of a version that pyelftools does not know, are as none at all.
    """
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            rows = sorted(_rows(elf.get_dwarf_info(), begin, end)) if elf.has_dwarf_info() else []
    except Exception:  # noqa: BLE001 - pyelftools lets errors of its parser out; lines are a comfort
        rows = []
    addresses = [address for address, _ in rows]

    def line_at(address: int) -> SourcePosition | None:
        index = bisect_right(addresses, address) - 1
        return rows[index][1] if index >= 0 else None

    return line_at


def _rows(dwarf: DWARFInfo, begin: int, end: int) -> Iterator[tuple[int, SourcePosition]]:
    """Yield addresses from which on there is a line."""
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is None:
            continue
        for entry in program.get_entries():
            state = entry.state
            if state is not None and not state.end_sequence and state.line and begin <= state.address < end:
                yield state.address, (_file(unit, program, state.file), state.line)


def _file(unit: CompileUnit, program: LineProgram, number: int) -> str:
    """Return the path of a file: DWARF 5 counts files and folders from 0, older versions from 1 (section 6.2.4)."""
    newer = program["version"] >= 5
    entries, folders = program["file_entry"], program["include_directory"]
    index = number if newer else number - 1
    if not 0 <= index < len(entries):
        return "?"
    entry = entries[index]
    place = entry.dir_index if newer else entry.dir_index - 1
    folder = folders[place] if 0 <= place < len(folders) else b""
    compiled_in = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
    top = compiled_in.value if compiled_in is not None else b""
    return str(Path(*(str(part, errors="replace") for part in (top, folder, entry.name))))
