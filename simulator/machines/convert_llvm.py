"""Makes the tables of scheduling facts and of ISA sets in `simulator/models/`.

    python -m simulator.machines.convert_llvm --llvm FOLDER --xed FOLDER

`--llvm` holds one ARCH.json.xz per CPU. It has ports, µops, latency and read advances of each variant, from LLVM 19's
scheduling model (MCSchedModel, Apache-2.0 with LLVM exceptions). `--xed` is a folder of XED's datafiles, whose
`*chips.txt` files say which ISA sets a chip has. Tables are written whole or not at all.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from results.machine.graph import ModelError
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CHIPS = (
    "NEHALEM",
    "WESTMERE",
    "SANDYBRIDGE",
    "IVYBRIDGE",
    "HASWELL",
    "BROADWELL",
    "SKYLAKE",
    "SKYLAKE_SERVER",
    "ICE_LAKE_SERVER",
    "ALDER_LAKE",
    "SAPPHIRE_RAPIDS",
)


class JsonVariant(TypedDict, total=False):
    """The facts of one variant in the JSON."""

    iform: str
    ports: dict[str, int]
    latency: list[int]
    uops: int
    read_advance: list[list[int]]
    other: dict[str, int]


def fact_line(string: str, entry: JsonVariant) -> str:
    """Return one variant as a line: string, iform, ports, latencies, µops, largest read advance, divider cycles."""
    ports = sorted((name.removeprefix("p"), count) for name, count in entry["ports"].items())
    terms = "+".join(name if count == 1 else f"{name}*{count}" for name, count in ports)
    latencies = ",".join(map(str, entry["latency"])) or "0"
    advance = max((cycles for _, cycles in entry["read_advance"]), default=0)
    divider = max((cycles for name, cycles in entry.get("other", {}).items() if "Divider" in name), default=0)
    return f"{string}\t{entry['iform']}\t{terms}\t{latencies}\t{entry['uops']}\t{advance}\t{divider}"


def read_entries(source: Path) -> dict[str, JsonVariant]:
    """Read the JSON of one CPU, by variant string.

    Raises:
        ModelError: the file is not such a JSON file.
    """
    try:
        entries: dict[str, JsonVariant] = json.loads(lzma.decompress(source.read_bytes()))
    except (OSError, lzma.LZMAError, ValueError) as error:
        raise ModelError(f"{source}: not a table of scheduling facts: {error}") from error
    return entries


def convert_facts(source: Path) -> str:
    """Return the table of one CPU.

    Raises:
        ModelError: the file is not such a JSON file.
    """
    entries = read_entries(source)
    try:
        lines = [fact_line(string, entry) for string, entry in sorted(entries.items())]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{source}: not a table of scheduling facts: {error}") from error
    head = "# LLVM 19's scheduling model (a model, not a measurement); Apache-2.0 with LLVM exceptions"
    return "\n".join([head, "# string, iform, ports, latencies, uops, read advance, divider cycles", *lines, ""])


def read_chips(files: Iterable[Path]) -> dict[str, list[str]]:
    """Read `CHIP: WORD...` definitions, continued by a backslash; a word is an ISA set, ALL_OF(CHIP) or NOT(SET)."""
    chips: dict[str, list[str]] = {}
    for path in files:
        text = re.sub(r"#.*", "", path.read_text(encoding="utf-8")).replace("\\\n", " ")
        for line in text.splitlines():
            name, colon, words = line.partition(":")
            if colon:
                chips[name.strip()] = words.split()
    return chips


def isa_sets(chip: str, chips: Mapping[str, list[str]]) -> set[str]:
    """Return the ISA sets of a chip.

    Raises:
        ModelError: the chip is not defined.
    """
    if chip not in chips:
        raise ModelError(f"the datafiles define no chip {chip}")
    found: set[str] = set()
    removed: set[str] = set()
    for word in chips[chip]:
        inner = re.fullmatch(r"(ALL_OF|NOT)\((\w+)\)", word)
        if inner is None:
            found.add(word)
        elif inner[1] == "ALL_OF":
            found |= isa_sets(inner[2], chips)
        else:
            removed.add(inner[2])
    return found - removed


def main() -> None:
    """Write all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llvm", type=Path, required=True)
    parser.add_argument("--xed", type=Path, required=True)
    arguments = parser.parse_args()
    folder = Path(__file__).parents[1] / "models"
    for source in sorted(arguments.llvm.glob("*.json.xz")):
        table = convert_facts(source).encode()
        with atomic_write(folder / source.name.replace(".json.xz", ".tsv.xz")) as file:
            file.write(lzma.compress(table, preset=9))
    chips = read_chips(sorted(arguments.xed.rglob("*chips*.txt")))
    rows = [f"{chip}\t{' '.join(sorted(isa_sets(chip, chips)))}" for chip in CHIPS]
    head = "# chip, ISA sets; made by simulator/machines/convert_llvm.py from XED's chip files (Apache-2.0)"
    with atomic_write(folder / "isa_sets.tsv") as file:
        file.write("\n".join([head, *rows, ""]).encode())


if __name__ == "__main__":
    main()
