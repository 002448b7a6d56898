"""The CPUID bits of each ISA set. The source is XED's datafiles (`cpuid*.xed.txt`).

A line there is `XED_ISA_SET_AVX512_VBMI_128 : avx512vbmi.7.0.ecx.1 avx512vl.7.0.ebx.31`: all of its tests must hold.
Several lines of a name are alternatives; some have `, AVX10` or `, FBIT` after the name. A test is
`name.leaf.subleaf.register.bit` (leaves in hexadecimal). Instead of `.bit` it may end in `[bit]` or
`[low:high]=version`, which means at least that version. `n/a`: CPUID has no bit for it. `data/cpuid_additions.tsv` has
ISA sets for which XED has no tests.

    python -m xed_convert.cpus.cpuid DATAFILES      # writes data/cpuid.tsv again
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from xed_convert.errors import ConversionError
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TABLES = ("cpuid.tsv", "cpuid_additions.tsv")
REGISTERS = ("eax", "ebx", "ecx", "edx")
_PREFIX = "XED_ISA_SET_"
_TEST = re.compile(r"(\w+)\.([0-9a-fA-F]+)\.([0-9a-fA-F]+)\.(e[abcd]x)(?:\.(\d+)|\[(\d+)(?::(\d+))?\])(?:=(\d+))?")


@dataclass(frozen=True, slots=True, order=True)
class CpuidTest:
    """A field of a CPUID register, and the lowest value that it may have."""

    leaf: int
    subleaf: int
    register: str
    low_bit: int
    high_bit: int
    least: int
    name: str

    def __str__(self) -> str:
        """Write it as XED does, always with both bits."""
        place = f"{self.leaf:x}.{self.subleaf:x}.{self.register}[{self.low_bit}:{self.high_bit}]"
        return f"{self.name}.{place}={self.least}"

    @classmethod
    def parse(cls, text: str) -> CpuidTest:
        """Read one test.

        Raises:
            ValueError: it is not of the known form.
        """
        match = _TEST.fullmatch(text)
        if match is None:
            raise ValueError(f"not a CPUID test: {text!r}")
        name, leaf, subleaf, register, bit, low, high, least = match.groups()
        first = int(bit or low)
        return cls(int(leaf, 16), int(subleaf, 16), register, first, int(high or first), int(least or 1), name)

    def holds(self, registers: tuple[int, int, int, int]) -> bool:
        """Whether the test holds for EAX, EBX, ECX, EDX of its leaf."""
        value = registers[REGISTERS.index(self.register)] >> self.low_bit
        return value & ((1 << self.high_bit - self.low_bit + 1) - 1) >= self.least


Alternatives = frozenset[frozenset[CpuidTest]]
"""A CPU has an ISA set if all tests of one alternative hold; an empty alternative always holds."""


@cache
def isa_set_tests() -> dict[str, Alternatives]:
    """Return the shipped table: the tests of each ISA set.

    Raises:
        ConversionError: a row is wrong.
    """
    found: dict[str, Alternatives] = {}
    for name in TABLES:
        text = (resources.files("xed_convert") / "data" / name).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines()[1:], start=2):
            try:
                isa_set, alternatives, _source = line.split("\t")
                found[isa_set] = frozenset(
                    frozenset(map(CpuidTest.parse, tests.split())) for tests in alternatives.split("|")
                )
            except ValueError as error:
                raise ConversionError(f"{name}:{number}: {error}") from error
    return found


def read_datafiles(folder: Path) -> dict[str, Alternatives]:
    """Read the tests of all ISA sets from the files that the folder's configurations name.

    Raises:
        ConversionError: a file is missing, or a line is not of the known form.
    """
    found: dict[str, set[frozenset[CpuidTest]]] = {}
    for path in _cpuid_files(folder):
        for number, line in enumerate(_lines(path), start=1):
            text = line.partition("#")[0].strip()
            if text:
                try:
                    name, tests = _parse(text)
                except ValueError as error:
                    raise ConversionError(f"{path}:{number}: {error}") from error
                found.setdefault(name, set()).add(tests)
    return {name: frozenset(alternatives) for name, alternatives in sorted(found.items())}


def _cpuid_files(folder: Path) -> Iterator[Path]:
    for configuration in sorted(folder.rglob("*.cfg")):
        for line in _lines(configuration):
            key, _, value = line.partition("#")[0].partition(":")
            if key.strip() == "cpuid" and value.strip():
                yield configuration.parent / value.strip()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ConversionError(f"{path}: cannot be read: {error.strerror}") from error


def _parse(text: str) -> tuple[str, frozenset[CpuidTest]]:
    head, colon, tests = text.partition(":")
    name = head.partition(",")[0].strip()
    if not colon or not name.startswith(_PREFIX):
        raise ValueError(f"expected `{_PREFIX}NAME : tests`, found {text!r}")
    words = [word for word in tests.split() if word != "n/a"]
    return name.removeprefix(_PREFIX), frozenset(map(CpuidTest.parse, words))


def table_text(found: dict[str, Alternatives], source: str) -> str:
    """Return the table as it is shipped."""
    lines = [f"{name}\t{_alternatives_text(alternatives)}\t{source}" for name, alternatives in found.items()]
    return "\n".join(["isa_set\ttests\tsource", *lines, ""])


def _alternatives_text(alternatives: Iterable[Iterable[CpuidTest]]) -> str:
    return "|".join(sorted(" ".join(map(str, sorted(tests))) for tests in alternatives))


def main(folder: str) -> None:
    """Write the shipped table again from a folder of datafiles."""
    path = Path(folder)
    target = Path(__file__).parents[1] / "data" / TABLES[0]
    source = f"XED {path.resolve().parent.name}, cpuid*.xed.txt"
    with atomic_write(target) as file:
        file.write(table_text(read_datafiles(path), source).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
