"""Attributes of a measurement in words, for the page of a variant."""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from results.model import Form


class _Words(NamedTuple):
    """The label of an attribute, and its unit ("yes/no" for 1 and 0)."""

    words: str
    unit: str


@cache
def _table() -> dict[str, _Words]:
    text = resources.files("results.site").joinpath("attributes.tsv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {row["name"]: _Words(row["words"], row["unit"] or "") for row in csv.DictReader(lines, delimiter="\t")}


_UNIT = re.compile(r"unit_(\w+)")
_CLASS = re.compile(r"(slower|faster)_with_(\w+)")
_PRODUCER = re.compile(r"slower_after_(\w+)")


def described(name: str, value: str) -> tuple[str, str]:
    """Return an attribute's name and its value for people; a name that no table has stays as it is.

    Args:
        name: as in `instructions.xml`, such as `uops_MITE_same_reg`.
        value: its value there.
    """
    form = next((one for one in Form if one.suffix and name.endswith(one.suffix)), None)
    plain = name.removesuffix(form.suffix) if form else name
    words, unit = _words(plain)
    unit = "cycle" if unit == "cycles" and value == "1" else unit
    shown = {"1": "yes", "0": "no"}.get(value, value) if unit == "yes/no" else " ".join(filter(None, (value, unit)))
    return ", ".join(filter(None, (words, form.words if form else ""))), shown.replace(";", ", ")


def _words(name: str) -> _Words:
    if found := _table().get(name):
        return found
    if match := _UNIT.fullmatch(name):
        return _Words(f"µops on units of the kind {match[1]}", "")
    if match := _CLASS.fullmatch(name):
        return _Words(f"{match[1].capitalize()} with {match[2].replace('_', ' ')} as operand values, by", "cycles")
    if match := _PRODUCER.fullmatch(name):
        return _Words(f"Slower behind {match[1].replace('_', ' ')}, by", "cycles")
    return _Words(name, "")
