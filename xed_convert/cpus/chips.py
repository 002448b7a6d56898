"""The ISA sets of a processor, by its name. The source is XED's chip tables (`*-chips.txt`).

A line there is `HASWELL : ALL_OF(IVYBRIDGE) FMA BMI1 ...`. It names ISA sets; `ALL_OF(...)` adds those of other chips,
`COMMON_SUBSET(A,B)` those that two chips share, and `NOT(...)` removes some.

Shipped tables: `data/chips.tsv` has these lines expanded. `data/chip_additions.tsv` corrects them and adds chips that
XED lacks (AMD's after Zen 2); a row is another chip with and without some ISA sets. `data/chip_names.tsv` has further
names (SKL).

    python -m xed_convert.cpus.chips DATAFILES      # writes data/chips.tsv again
"""

from __future__ import annotations

import difflib
import fnmatch
import re
import sys
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from xed_convert.datafiles.layers import find_datafiles, layer_order, read_layers
from xed_convert.datafiles.source import read_lines
from xed_convert.errors import ConversionError, UopscopeError
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from xed_convert.datafiles.source import FileLine

TABLES = {
    "chips.tsv": "chip\tisa_sets\tsource",
    "chip_additions.tsv": "chip\tbase\twith\twithout\tsource",
    "chip_names.tsv": "name\tchip\tsource",
}
_LINE = re.compile(r"([A-Z0-9_]+)\s*:\s*(.*)")
_OF = re.compile(r"(ALL_OF|NOT|COMMON_SUBSET)\(\s*([A-Za-z0-9_, ]+?)\s*\)")


class UnknownChipError(UopscopeError):
    """No chip has that name; the hint names the nearest."""


@cache
def shipped_chips() -> dict[str, frozenset[str]]:
    """Return the ISA sets of each chip by XED's name, as shipped, in upper case (XED writes SSE4A and SSE4a).

    Raises:
        ConversionError: a row is not of the known form, or names an unknown chip or ISA set.
    """
    chips = {name: frozenset(isa_sets.upper().split()) for name, isa_sets, _ in _rows("chips.tsv")}
    known = frozenset.union(*chips.values())
    for name, base, added, removed, _ in _rows("chip_additions.tsv"):
        if base not in chips:
            raise ConversionError(f"chip_additions.tsv: {name} is based on {base}, but no row before it has that chip")
        chips[name] = chips[base] - _meant(removed, known) | _meant(added, known)
    return chips


def _meant(patterns: str, known: frozenset[str]) -> frozenset[str]:
    """Return the ISA sets that match any of the patterns, which are separated by blanks.

    Raises:
        ConversionError: a pattern matches none.
    """
    found: set[str] = set()
    for pattern in patterns.split():
        matching = set(fnmatch.filter(known, pattern))
        if not matching:
            raise ConversionError(f"chip_additions.tsv: no chip of XED has the ISA set {pattern}")
        found |= matching
    return frozenset(found)


@cache
def short_names() -> dict[str, str]:
    """Return XED's names of chips by the short names that people use (SKL).

    Raises:
        ConversionError: a row is not of the known form, or names an unknown chip.
    """
    names = {name: chip for name, chip, _ in _rows("chip_names.tsv")}
    if unknown := set(names.values()) - set(shipped_chips()):
        raise ConversionError(f"chip_names.tsv: no such chip: {', '.join(sorted(unknown))}")
    return names


def _rows(table: str) -> list[list[str]]:
    """Return the rows of a shipped table. The first and the last column (the source) must not be empty."""
    text = resources.files("xed_convert").joinpath("data", table).read_text(encoding="utf-8")
    header, *lines = text.splitlines()
    if header != TABLES[table]:
        raise ConversionError(f"{table}:1: expected the columns {TABLES[table]!r}")
    rows = []
    for number, line in enumerate(lines, 2):
        columns = line.split("\t")
        count = TABLES[table].count("\t") + 1
        if len(columns) != count or not columns[0] or not columns[-1]:
            raise ConversionError(f"{table}:{number}: expected {count} columns, the first and the last not empty")
        rows.append(columns)
    return rows


def chip_isa_sets(name: str) -> frozenset[str]:
    """Return the ISA sets of a chip, in upper case, by XED's name or another ("SKL", "Alder Lake", "Zen 4").

    Case, blanks, hyphens and underscores do not matter.

    Raises:
        UnknownChipError: there is none of that name.
    """
    known = {_plain(one): chip for one, chip in [*((chip, chip) for chip in shipped_chips()), *short_names().items()]}
    chip = known.get(_plain(name))
    if chip is None:
        known_names = [*short_names(), *shipped_chips()]
        nearest = difflib.get_close_matches(name.strip().upper(), known_names, n=5, cutoff=0.4)
        hint = f"Nearest: {', '.join(nearest)}." if nearest else f"There are: {', '.join(known_names)}."
        raise UnknownChipError(f"no chip is called {name!r}", hint=hint)
    return shipped_chips()[chip]


def _plain(name: str) -> str:
    """Return a name in upper case without blanks, hyphens and underscores."""
    return re.sub(r"[\s_-]", "", name).upper()


def read_chips(folder: Path) -> dict[str, frozenset[str]]:
    """Read the chips of a datafiles folder, each with its ISA sets.

    Raises:
        ConversionError: a file is missing, a line is not of the known form, or names a chip that is not defined.
    """
    root = find_datafiles(folder)
    definitions: dict[str, tuple[str, FileLine]] = {}
    for file in read_layers(root, layer_order(root)).get("chip-models", []):
        for line in read_lines(file.path, file.name, named_by=file.named_by):
            match = _LINE.fullmatch(line.text)
            if not match:
                raise line.error("expected `CHIP : ISA_SET ALL_OF(CHIP) NOT(ISA_SET) ...`")
            definitions[match[1]] = (match[2], line)
    resolver = _Resolver(definitions)
    return {name: resolver.isa_sets(name) for name in definitions}


class _Resolver:
    """Expands the definitions of chips. A definition may name chips of later lines."""

    def __init__(self, definitions: dict[str, tuple[str, FileLine]]) -> None:
        self.definitions = definitions
        self.known: dict[str, frozenset[str]] = {}
        self.open: list[str] = []

    def isa_sets(self, name: str) -> frozenset[str]:
        """Return the ISA sets of a chip."""
        if name not in self.known:
            text, line = self.definitions[name]
            if name in self.open:
                raise line.error(f"the chip {name} is defined by itself")
            self.open.append(name)
            self.known[name] = self._expand(text, line)
            self.open.pop()
        return self.known[name]

    def _expand(self, text: str, line: FileLine) -> frozenset[str]:
        """Return the ISA sets that the right side of a line stands for."""
        found: set[str] = set()
        without: set[str] = set()
        for function, inside in _OF.findall(text):
            names = inside.replace(",", " ").split()
            if function == "NOT":
                without.update(names)
                continue
            if unknown := [name for name in names if name not in self.definitions]:
                raise line.error(f"expected the name of a chip, not {', '.join(unknown)}")
            sets = [self.isa_sets(name) for name in names]
            found.update(frozenset.intersection(*sets) if function == "COMMON_SUBSET" else frozenset.union(*sets))
        plain = _OF.sub(" ", text).split()
        if wrong := [word for word in plain if not re.fullmatch(r"[A-Za-z0-9_]+", word)]:
            raise line.error(f"expected the name of an ISA set, not {wrong[0]!r}")
        return frozenset((found | set(plain)) - without)


def main(folder: str) -> None:
    """Write the shipped table again from a folder of datafiles."""
    chips = read_chips(Path(folder))
    version = find_datafiles(Path(folder)).resolve().parent.name
    lines = [f"{name}\t{' '.join(sorted(sets))}\tXED {version}, *-chips.txt" for name, sets in chips.items()]
    with atomic_write(Path(__file__).parents[1] / "data" / "chips.tsv") as file:
        file.write("\n".join([TABLES["chips.tsv"], *lines, ""]).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
