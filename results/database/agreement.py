"""Agreement of two runs on the same machine: the shares of latencies and throughputs within 5%.

Single values are compared: each number of cycles of a latency, each measured throughput, µops, port usages. A value
that only one run has counts as a disagreement. So missing values do not improve the agreement.

Ports by time are compared up to their names, which are arbitrary (`results.database.port_names`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from results.database.port_names import port_names
from results.model import PortUsage
from results.ports import renamed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from results.database.reader import ArchitectureResult, Entry

TOLERANCE = Fraction(5, 100)
"""Two cycle counts agree if they differ by at most this share of the larger one."""

ROUNDING = Fraction(1, 100)
"""Throughputs are written with two decimals: two roundings of nearly the same value may be this far apart."""

GOALS = {"latency": Fraction(99, 100), "throughput": Fraction(97, 100)}
"""The share of values of a kind that two runs of a quiet machine should agree in."""


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """One value of a variant: a kind, a name that is unique among the variant's, and the text as it is written."""

    kind: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class RunDifference:
    """A value in which two runs do not agree; "" where a run does not have it."""

    architecture: str
    extension: str
    string: str
    kind: str
    name: str
    first: str
    second: str

    @property
    def how(self) -> str:
        """Say in a word or two how it differs: the group that it is counted in."""
        if not self.first or not self.second:
            return "only in the second" if self.second else "only in the first"
        try:
            one, other = Fraction(self.first), Fraction(self.second)
        except ValueError:
            return "another text"
        larger = max(abs(one), abs(other))
        percent = 100 * abs(one - other) / larger
        return next(f"by up to {limit} %" for limit in (10, 25, 50, 100) if percent <= limit or limit == 100)


@dataclass(slots=True)
class Agreement:
    """What two runs agree in: values compared and agreed by kind, and every difference.

    `variants` has how many both runs measured; `only` how many only the first or only the second did. `names` has the
    first run's names of ports by time, by architecture and the names of the second one.
    """

    compared: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)
    differences: list[RunDifference] = field(default_factory=list)
    variants: int = 0
    only: Counter[str] = field(default_factory=Counter)
    names: dict[str, dict[str, str]] = field(default_factory=dict)

    def share(self, kind: str) -> Fraction | None:
        """Return the share of values of a kind that agree (None: there are none)."""
        return Fraction(self.agreed[kind], self.compared[kind]) if self.compared[kind] else None

    def missed(self) -> list[str]:
        """Return the kinds whose share is below its goal."""
        return [kind for kind, goal in GOALS.items() if (share := self.share(kind)) is not None and share < goal]

    def groups(self) -> list[tuple[tuple[str, str, str], list[RunDifference]]]:
        """Return the differences by (kind, extension, how they differ), the largest groups first."""
        found: dict[tuple[str, str, str], list[RunDifference]] = defaultdict(list)
        for one in self.differences:
            found[one.kind, one.extension, one.how].append(one)
        return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def agreement(first: Iterable[Entry], second: Iterable[Entry], architecture: str = "") -> Agreement:
    """Compare two runs value by value, of the variants that both measured.

    Args:
        first: the entries of one run.
        second: those of the other.
        architecture: only this one (all if "").
    """
    found = Agreement()
    earlier = {entry.variant.key: entry for entry in first if entry.results}
    later = list(second)
    found.names = _names_by_time(earlier, later)
    for entry in later:
        other = earlier.pop(entry.variant.key, None)
        if other is None:
            found.only["second"] += any(_is_wanted(one, architecture) for one in entry.results.values())
            continue
        for name in sorted({*other.results, *entry.results}):
            if not architecture or name == architecture:
                _compare(found, entry, other.results.get(name), entry.results.get(name))
    for entry in earlier.values():
        found.only["first"] += any(_is_wanted(one, architecture) for one in entry.results.values())
    return found


def _names_by_time(first: Mapping[str, Entry], second: Iterable[Entry]) -> dict[str, dict[str, str]]:
    """Return the first run's names of ports by time, by architecture and the second run's names."""
    pairs: dict[str, list[tuple[PortUsage, PortUsage]]] = defaultdict(list)
    ports: dict[str, set[str]] = defaultdict(set)
    for entry in second:
        for name, result in entry.results.items():
            other = first[entry.variant.key].results.get(name) if entry.variant.key in first else None
            if other is not None and _ports_by_time(other) and _ports_by_time(result):
                pairs[name].append((PortUsage.parse(_ports_by_time(other)), PortUsage.parse(_ports_by_time(result))))
                usages = (PortUsage.parse(value.text) for value in values(result) if value.kind == "ports")
                ports[name].update(*(able for usage in usages for able in usage.uops))
    return {name: port_names(each, ports[name]) for name, each in pairs.items()}


def _ports_by_time(result: ArchitectureResult) -> str:
    """Return the text of ports that were inferred by time, "" if there are none."""
    known = result.measurement or {}
    return known.get("ports", "") if "ports_by_time" in known else ""


def _is_wanted(result: ArchitectureResult, architecture: str) -> bool:
    return result.measurement is not None and architecture in ("", result.architecture)


def _compare(
    found: Agreement, entry: Entry, first: ArchitectureResult | None, second: ArchitectureResult | None
) -> None:
    if first is None or second is None or first.measurement is None or second.measurement is None:
        for name, result in (("first", first), ("second", second)):
            found.only[name] += result is not None and result.measurement is not None
        return
    found.variants += 1
    one = {(value.kind, value.name): value.text for value in values(first)}
    other = {(value.kind, value.name): value.text for value in values(second)}
    if _ports_by_time(first) and _ports_by_time(second):
        names = found.names[first.architecture]
        for place, text in other.items():
            if place[0] == "ports":
                other[place] = str(renamed(PortUsage.parse(text), names))
    for kind, name in sorted({*one, *other}):
        pair = _text(one, kind, name), _text(other, kind, name)
        found.compared[kind] += 1
        if _agree(kind, *pair):
            found.agreed[kind] += 1
        else:
            variant = entry.variant
            found.differences.append(
                RunDifference(first.architecture, variant.extension, variant.string, kind, name, *pair)
            )


def _text(known: Mapping[tuple[str, str], str], kind: str, name: str) -> str:
    """Return a value; a latency that is no range begins where it ends."""
    return known.get((kind, name)) or known.get((kind, name.removeprefix(_LEAST)), "")


_LEAST = "least "


def values(result: ArchitectureResult) -> Iterator[ComparedValue]:
    """Yield the values of a result that a rerun should find again.

    Spreads, and values computed from ports, are left out.

    A latency that is a range has two: its end under the name of the latency, and its beginning.
    """
    for name, text in (result.measurement or {}).items():
        if name.startswith("ports") and name != "ports_by_time":
            yield ComparedValue("ports", name, text)
        elif name.startswith(("TP_unrolled", "TP_loop")) and not name.endswith("_spread"):
            yield ComparedValue("throughput", name, text)
        elif name.startswith("uops"):
            yield ComparedValue("uops", name, text)
    for row in result.latencies:
        for name, text in row.values.items():
            if "cycles" in name and not name.endswith("_is_upper_bound"):
                least = _LEAST if name.startswith("min_") else ""
                plain = name.removeprefix("min_").removeprefix("max_")
                yield ComparedValue("latency", f"{least}latency {row.start}→{row.target} {plain}", text)


def _agree(kind: str, first: str, second: str) -> bool:
    if first == second:
        return True
    if kind not in GOALS or not first or not second:
        return False
    try:
        one, other = Fraction(first), Fraction(second)
    except ValueError:
        return False
    rounding = ROUNDING if kind == "throughput" else 0
    return abs(one - other) <= max(TOLERANCE * max(abs(one), abs(other)), rounding)
