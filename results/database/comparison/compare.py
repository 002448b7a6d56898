"""A campaign against measurements that others published of the same CPU: `uopscope db compare`.

    published  "ADCX (R32, M32)"  latency [1;≤7]  throughput 0.50
    campaign   latency 1→1: 1, address 2→1: at most 7, TP_unrolled 0.51: both agree

`results.database.comparison.published` describes the published files.

Latencies agree if neither contradicts the other: an upper bound allows every smaller number. Throughputs agree within a
percentage, or within a few hundredths of a cycle. The published throughput is the least of all sequences, so it is
compared with our least one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from results.database.comparison.ports import (
    CONTRADICTING,
    PortDifference,
    common_names,
    on_ports,
    port_agreement,
)
from results.database.comparison.published import (
    agree,
    latencies_of,
    operands_text,
    overlap,
    split_string,
    throughput_of,
)
from results.database.comparison.reasons import LatencyCase, PlainLoads, TimeCase, reason_of_latency, reason_of_time
from results.database.entries import known_ports

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from results.database.comparison.ports import PortAgreement
    from results.database.comparison.published import Latency, Published, Tolerance
    from results.database.reader import ArchitectureResult, Entry
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant

GOALS = {"latency": Fraction(999, 1000), "throughput": Fraction(99, 100)}
"""The share of the variants' values of a kind that should agree with measurements of the same CPU."""

SIMULATED = "simulated"
"""The attribute of results of a model."""

RATIOS = (Fraction(5, 4), Fraction(3, 2), Fraction(2), Fraction(4))
"""Differences are grouped by the ratio of the two values: the first of these that it does not exceed."""

WRITTEN_AS_ZERO = {"latency": Fraction(1, 2), "throughput": Fraction(1, 200)}
"""Cycles that may be written as 0, by kind: latencies are whole numbers, throughputs have two decimals."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that does not agree. `published` and `measured` are as tables write them.

    `direction`, `ratio` and `factor` say by how much ours is more or less; `operands` are the kinds of the explicit
    operands; `name` is the pair of operands and the part that a latency is of ("": of all, or a throughput). `reason`
    is the rule of `results.database.comparison.reasons` that explains it ("": none does).
    """

    string: str
    kind: str
    direction: str
    ratio: str
    extension: str
    operands: str
    category: str
    name: str
    published: str
    measured: str
    factor: float
    reason: str = ""


GROUPINGS = ("reason", "direction", "ratio", "extension", "operands", "category")
"""What differences can be grouped by, besides their kind."""


@dataclass(slots=True)
class Comparison:
    """What became of every published variant.

    `compared`, `agreed` and `equal` count variants by kind of value: equal are those that say the same, bounds
    included. `missing` are published variants that the campaign has no result of, by string; `without` counts values
    that the campaign lacks, by kind. `port_names` are the ports that are compared, and `ports` counts the variants for
    which either side has one of them.
    """

    variants: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    without: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    port_names: PortSet = frozenset()
    ports: Counter[PortAgreement] = field(default_factory=Counter)
    port_differences: list[PortDifference] = field(default_factory=list)

    def share(self, kind: str) -> Fraction | None:
        """Return the share of the values of a kind that agree (None: there are none)."""
        return Fraction(self.agreed[kind], self.compared[kind]) if self.compared[kind] else None

    def explained(self, kind: str) -> Counter[str]:
        """Return how many differences of a kind each rule explains, by its name."""
        return Counter(one.reason for one in self.differences if one.kind == kind and one.reason)

    def missed(self) -> list[str]:
        """Return the kinds whose share is below its goal.

        Rules excuse nothing: a campaign may be wrong in a way that looks like one of them.
        """
        return [kind for kind, goal in GOALS.items() if (share := self.share(kind)) is not None and share < goal]

    def share_known(self, kind: str) -> Fraction:
        """Return the share of the values of a kind that agree or that a rule explains (all, if there are none)."""
        known = self.agreed[kind] + self.explained(kind).total()
        return Fraction(known, self.compared[kind]) if self.compared[kind] else Fraction(1)

    def groups(self, by: Sequence[str] = GROUPINGS) -> list[tuple[tuple[str, ...], list[Difference]]]:
        """Return the differences by kind and those fields, the largest groups first, in each the worst first."""
        found: dict[tuple[str, ...], list[Difference]] = defaultdict(list)
        for one in self.differences:
            found[one.kind, *(str(getattr(one, name)) for name in by)].append(one)
        for group in found.values():
            group.sort(key=_badness)
        return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))

    def worst(self) -> list[Difference]:
        """Return the differences, those by the greatest factor first."""
        return sorted(self.differences, key=_badness)


def compare_published(
    published: Iterable[Published],
    entries: Iterable[Entry],
    tolerance: Tolerance,
    architecture: str = "",
    *,
    of_one_cpu: bool = True,
) -> Comparison:
    """Compare what was published with a campaign.

    Rules explain differences between measurements of one CPU only. A model, or another CPU, shows nothing of it.

    Args:
        published: what others measured.
        entries: the campaign's, with results of one architecture, or of that one among others.
        tolerance: how far values may be apart.
        architecture: which of the entries' results count ("": the only one).
        of_one_cpu: whether both may be of the same CPU.
    """
    found = Comparison()
    rows = list(published)
    ours = MeasuredVariants(entries, architecture, {row.string for row in rows})
    pairs = [(row, ours.find(row)) for row in rows]
    known = [(row, *pair) for row, pair in pairs if pair is not None]
    found.missing = [row.string for row, pair in pairs if pair is None]
    found.variants = len(known)
    loads = PlainLoads.of((row, variant) for row, variant, _ in known)
    for row, variant, result in known:
        _compare_latencies(found, row, variant, result, tolerance)
        _compare_throughput(found, row, variant, result, tolerance, loads)
    _compare_ports(found, known)
    models = {variant.string for _, variant, result in known if SIMULATED in (result.measurement or {})}
    found.differences = [
        one if of_one_cpu and one.string not in models else replace(one, reason="") for one in found.differences
    ]
    return found


class MeasuredVariants:
    """The campaign's variants, found by key, by string, or by instruction and operands if only one has these.

    A later XED may rename a variant, when a new one would share its name. BLSI (R32, M32) is BLSI_MEMD (R32, M32) since
    BLSI_APX (R32, M32) was added, which an older CPU does not have.
    """

    def __init__(self, entries: Iterable[Entry], architecture: str, taken: set[str]) -> None:
        """Take entries with a result of the architecture; `taken` are the strings of all published variants."""
        self._by_key: dict[str, tuple[InstructionVariant, ArchitectureResult]] = {}
        self._by_string: dict[str, tuple[InstructionVariant, ArchitectureResult]] = {}
        self._by_form: dict[tuple[str, str], list[tuple[InstructionVariant, ArchitectureResult]]] = defaultdict(list)
        for entry in entries:
            for result in entry.results.values():
                if result.measurement is not None and architecture in {"", result.architecture}:
                    self._add(entry.variant, result, taken)

    def _add(self, variant: InstructionVariant, result: ArchitectureResult, taken: set[str]) -> None:
        pair = variant, result
        self._by_key[variant.key] = self._by_string[variant.string] = pair
        if variant.string not in taken:
            name, operands = split_string(variant.string)
            parts = name.split("_")
            for end in range(1, len(parts) + 1):
                self._by_form["_".join(parts[:end]), operands].append(pair)

    def find(self, row: Published) -> tuple[InstructionVariant, ArchitectureResult] | None:
        """Return the variant that was published, None if it was not measured or cannot be told from others."""
        known = self._by_key.get(row.key) or self._by_string.get(row.string)
        if known is not None:
            return known
        same = self._by_form.get(split_string(row.string), [])
        return same[0] if len(same) == 1 else None


def _compare_latencies(
    found: Comparison, row: Published, variant: InstructionVariant, result: ArchitectureResult, tolerance: Tolerance
) -> None:
    measured = latencies_of(result, by_pair="" not in row.latencies)
    for name, published in row.latencies.items():
        candidates = measured.get(name, ())
        if not candidates:
            found.without["latency"] += 1
            continue
        ours = next((one for one in candidates if agree(published, one, tolerance)), candidates[0])
        found.compared["latency"] += 1
        found.equal["latency"] += published in candidates
        if agree(published, ours, tolerance):
            found.agreed["latency"] += 1
        else:
            one = _difference(variant, "latency", *_apart(published, ours, tolerance))
            reason = reason_of_latency(LatencyCase(variant, published, ours, tolerance, of_all=not name))
            found.differences.append(
                replace(one, name=name, published=published.text, measured=ours.text, reason=reason)
            )


def _compare_throughput(
    found: Comparison,
    row: Published,
    variant: InstructionVariant,
    result: ArchitectureResult,
    tolerance: Tolerance,
    loads: PlainLoads,
) -> None:
    if row.throughput is None:
        return
    ours = throughput_of(result)
    if ours is None:
        found.without["throughput"] += 1
        return
    found.compared["throughput"] += 1
    found.equal["throughput"] += ours == row.throughput
    if abs(ours - row.throughput) <= max(tolerance.share * row.throughput, tolerance.cycles):
        found.agreed["throughput"] += 1
        return
    case = TimeCase(row, variant, result, row.throughput, ours, tolerance, loads)
    one = _difference(variant, "throughput", row.throughput, ours)
    found.differences.append(replace(one, reason=reason_of_time(case)))


def _compare_ports(
    found: Comparison, known: Sequence[tuple[Published, InstructionVariant, ArchitectureResult]]
) -> None:
    found.port_names = common_names((row.ports, result.measurement or {}) for row, _, result in known)
    for row, variant, result in known:
        if row.ports is None:
            continue
        values = result.measurement or {}
        ours = known_ports(values)
        published = on_ports(row.ports, found.port_names)
        if not (published.uops or on_ports(ours, found.port_names).uops):
            continue
        agreement = port_agreement(published, values, found.port_names)
        found.ports[agreement] += 1
        if agreement in CONTRADICTING:
            found.port_differences.append(PortDifference(variant.string, str(row.ports), str(ours)))


def _difference(variant: InstructionVariant, kind: str, published: Fraction, ours: Fraction) -> Difference:
    larger, smaller = max(published, ours), min(published, ours)
    ratio = next((limit for limit in RATIOS if larger <= limit * smaller), None)
    return Difference(
        string=variant.string,
        kind=kind,
        direction="more" if ours > published else "less",
        ratio=f"more than {float(RATIOS[-1]):g} times" if ratio is None else f"up to {float(ratio):g} times",
        extension=variant.extension,
        operands=operands_text(variant),
        category=variant.category,
        name="",
        published=f"{float(published):.2f}",
        measured=f"{float(ours):.2f}",
        factor=float(larger / max(smaller, WRITTEN_AS_ZERO[kind])),
    )


def _badness(one: Difference) -> tuple[float, str, str]:
    return -one.factor, one.string, one.name


def _apart(published: Latency, ours: Latency, tolerance: Tolerance) -> tuple[Fraction, Fraction]:
    """Of the numbers that should agree, return the two that are farthest apart: the published one first."""
    pairs = [
        (one.low, other.high) if one.low > other.high else (one.high, other.low)
        for one, other in ((published.least, ours.least), (published.greatest, ours.greatest))
        if not overlap(one, other, tolerance)
    ]
    return max(pairs, key=lambda pair: abs(pair[0] - pair[1]))


FIELDS = tuple(one.name for one in fields(Difference))
"""The columns of a table of differences."""
