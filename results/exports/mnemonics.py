"""Every spelling of an instruction that compilers and assemblers write: jne for JNZ, cltq for CDQE, cmpltsd for CMPSD.

The facts are tables:

- `data/condition_codes.tsv`: spellings of conditions;
- `data/mnemonic_aliases.tsv`: whole names. Some are for certain operands only ("": for any). Some stand for an
  immediate, which is then no operand: cmpltsd is CMPSD with 1.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import NamedTuple

CONDITIONAL = ("J", "SET", "CMOV")
"""What conditions follow in the names of instructions."""


class Spelling(NamedTuple):
    """A name for an instruction, and whether the last operand (an immediate) is left out."""

    mnemonic: str
    without_immediate: bool = False


def spellings(mnemonic: str, operands: str) -> list[Spelling]:
    """Return all names of an instruction, its own first.

    Args:
        mnemonic: the name in the catalogue: `JNZ`.
        operands: the operands as the catalogue's strings have them: `R64, I64`.
    """
    found = [Spelling(mnemonic)]
    found += [Spelling(name) for name in _of_conditions(mnemonic)]
    for alias, wanted, immediate in _aliases().get(mnemonic, ()):
        if wanted in ("", operands):
            found.append(Spelling(alias, bool(immediate)))
    return found


def _of_conditions(mnemonic: str) -> list[str]:
    """Return the other spellings of `Jcc`, `SETcc` and `CMOVcc`."""
    for prefix in CONDITIONAL:
        if mnemonic.startswith(prefix) and (others := _conditions().get(mnemonic.removeprefix(prefix))):
            return [prefix + other for other in others]
    return []


@cache
def _conditions() -> dict[str, list[str]]:
    return {row["condition"]: row["spellings"].split(",") for row in _rows("condition_codes.tsv")}


@cache
def _aliases() -> dict[str, list[tuple[str, str, str]]]:
    found: dict[str, list[tuple[str, str, str]]] = {}
    for row in _rows("mnemonic_aliases.tsv"):
        found.setdefault(row["mnemonic"], []).append((row["alias"], row["operands"], row["immediate"]))
    return found


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("results").joinpath(f"data/{name}").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t"))
