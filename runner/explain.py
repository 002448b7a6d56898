"""Explains each number: its microbenchmarks, their raw samples, and the arithmetic.

Numbers come in the order of the result table. Each is followed by its derivation and its experiments: code with its
bytes, the samples as the backend returned them, and the values per copy. If several numbers share an experiment, it is
shown once, then named by its number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from results import sentences
from results.findings import ChainTime
from results.model import BYPASS, PRODUCERS, VALUE_CLASSES, Status
from results.text import cycles_text, latency_name, latency_text, machine_text
from runner.backend import CLOCK_COUNTERS
from runner.measuring import aggregate
from runner.measuring.calibration import steadied
from runner.measuring.recording import answer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from results.campaign.records import Sample, StoredBenchmark
    from results.model import Characterization, Derivation, LatencyResult, Provenance, Series
    from runner.measuring.aggregate import SeriesSummary
    from xed_convert.model import InstructionVariant

SHOWN_RUNS = 12
"""Runs of equal samples that are shown in full; of more, the first ones and a summary."""

CODE_WIDTH = 34
"""Columns for the bytes of an instruction beside its text."""

FIRST_COUNTED = ("ports", "TP_unrolled")
"""Quantities whose first experiment counted the µops."""

NAME_WIDTH = 20
"""Columns for the name of a counter."""

SIZE_WIDTH = 16
"""Least columns for the value of a counter at one size."""

TIME_COUNTERS = (*CLOCK_COUNTERS, "core_cycles")
_INDENT = " " * 6


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number of the result: its name, its value in words, its derivation, and its experiments.

    `links` are the ids of the experiments that measured the other links of its chains.
    """

    name: str
    value: str
    steps: tuple[str, ...]
    experiments: tuple[str, ...]
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExplainedVariant:
    """A conclusion about one variant, with all of its evidence."""

    result: Characterization
    variant: InstructionVariant | None
    evidence: Sequence[Sample]
    provenance: Provenance
    calibration_core_cycles: int = 0


def explanation(case: ExplainedVariant) -> Iterator[Text]:
    """Yield the explanation line by line."""
    result = case.result
    yield Text(result.string, style="bold reverse")
    yield Text(machine_text(case.provenance))
    if result.skipped:
        yield Text(f"not measured: {result.skipped}", style="yellow")
    for failure in result.failures:
        yield Text(f"✗ {sentences.failure(failure)}", style="red")
    numbered = _NumberedExperiments(case)
    for quantity in quantities(result, case.variant):
        yield Text()
        yield Text.assemble((quantity.name, "bold cyan"), "  ", (quantity.value, "bold"))
        for step in quantity.steps:
            yield Text(f"  {step}")
        yield from numbered.show(quantity.experiments)
        yield from numbered.links(quantity.links)
    yield from numbered.rest()


def quantities(result: Characterization, variant: InstructionVariant | None) -> Iterator[Quantity]:
    """Yield every number of a result in the order of the table, with its derivation."""
    left = list(result.derivations)
    for name, value in _plain_numbers(result):
        derivation = _taken(left, lambda one, name=name: one.quantity == name)  # type: ignore[misc]
        yield _plain_quantity(name, _value_text(value), derivation, result)
    for latency in result.latencies:
        derivation = _taken(left, lambda one, latency=latency: one.latency == latency.key)  # type: ignore[misc]
        # Files with sentences do not say which latency a derivation is about
        derivation = derivation or _taken(left, lambda one, latency=latency: _same_experiments(one, latency))  # type: ignore[misc]
        yield _latency_quantity(latency, variant, derivation)
    for one in left:
        yield _derived(sentences.heading(one, variant), _noted(result, one.quantity), one)


_FAMILIES = {
    VALUE_CLASSES: ("slower_with_", "faster_with_"),
    BYPASS: ("bypass_",),
    PRODUCERS: ("slower_after_",),
}
"""The prefixes of the attributes that a derivation of this quantity is about."""


def _noted(result: Characterization, quantity: str) -> str:
    """Return the attributes that a derivation of several of them led to."""
    names = [name for name in result.attributes if name.startswith(_FAMILIES.get(quantity, ("\0",)))]
    return ", ".join(f"{name} {result.attributes[name]}" for name in names) or "not concluded"


def _taken(left: list[Derivation], fits: Callable[[Derivation], bool]) -> Derivation | None:
    """Take the first derivation that fits out of those that are left."""
    found = next(filter(fits, left), None)
    if found is not None:
        left.remove(found)
    return found


def _same_experiments(derivation: Derivation, latency: LatencyResult) -> bool:
    return derivation.latency is None and latency.experiments == derivation.experiments != ()


def _derived(name: str, value: str, derivation: Derivation) -> Quantity:
    """Return a number with its derivation."""
    chains = [step for step in derivation.steps if isinstance(step, ChainTime)]
    links = dict.fromkeys(link.experiment for chain in chains for link in chain.links if link.experiment)
    return Quantity(name, value, tuple(sentences.lines(derivation)), derivation.experiments, tuple(links))


def _plain_numbers(result: Characterization) -> list[tuple[str, object]]:
    """Return all numbers except latencies, by their names in the XML."""
    numbers: list[tuple[str, object]] = [("uops", result.uops)]
    numbers += [(f"ports{form.suffix}", found.ports) for form, found in result.forms.items()]
    numbers += [
        (f"TP_{kind}{form.suffix}", getattr(found.throughput, kind))
        for form, found in result.forms.items()
        for kind in ("unrolled", "loop", "ports")
    ]
    numbers += list(result.attributes.items())
    if result.macro_fusible is not None:
        numbers.append(("macro_fusible", " ".join(result.macro_fusible) or "none"))
    return [(name, value) for name, value in numbers if value is not None]


def _plain_quantity(name: str, value: str, derivation: Derivation | None, result: Characterization) -> Quantity:
    """Return a number with its derivation; counts and TP_ports come directly from what the others rest on."""
    if derivation is not None:
        return _derived(name, value, derivation)
    first = next((each.experiments[:1] for each in result.derivations if each.quantity in FIRST_COUNTED), ())
    computed = {f"TP_ports{form.suffix}": found.ports for form, found in result.forms.items()}
    if name in computed:
        step = f"the load of the busiest port if {computed[name]} is distributed as evenly as possible"
        return Quantity(name, value, (step,), ())
    if name.startswith("uops"):
        counter = "uops_executed" if name == "uops" else name
        return Quantity(name, value, (f"the counter {counter}, per instance",), first)
    return Quantity(name, value, (), ())


def _latency_quantity(
    latency: LatencyResult, variant: InstructionVariant | None, derivation: Derivation | None
) -> Quantity:
    name = f"latency {latency_name(latency, variant)}"
    text = latency_text(latency)
    value = f"{text} cycle{'' if text == '1' else 's'}"
    if derivation is not None:
        return replace(_derived(name, value, derivation), experiments=latency.experiments)
    return Quantity(name, value, (f"chain: {latency.chain}",) if latency.chain else (), latency.experiments)


def _value_text(value: object) -> str:
    if isinstance(value, Fraction):
        return f"{float(value):.2f}"
    return str(value) or "none"


class _NumberedExperiments:
    """Numbers experiments in the order in which they are first referred to, and shows each once."""

    def __init__(self, case: ExplainedVariant) -> None:
        self._case = case
        self._by_id: dict[str, list[Sample]] = {}
        for each in case.evidence:
            self._by_id.setdefault(each.benchmark.id, []).append(each)
        self._numbers: dict[str, int] = {}

    def show(self, experiments: Iterable[str]) -> Iterator[Text]:
        """Yield the experiments of one number: those shown before are only named."""
        known = [each for each in dict.fromkeys(experiments) if each in self._by_id]
        before = [f"[{self._numbers[each]}]" for each in known if each in self._numbers]
        if before:
            yield Text(f"  see {', '.join(before)} above")
        for each in known:
            if each not in self._numbers:
                yield from self._experiment(each)

    def links(self, experiments: Sequence[str]) -> Iterator[Text]:
        """Yield the experiments that give the numbers subtracted in the steps."""
        if any(each in self._by_id for each in experiments):
            yield Text("  times of the other links of the chain:")
            yield from self.show(experiments)

    def rest(self) -> Iterator[Text]:
        """Yield the other measurements: they decided what to measure next, or serve several variants."""
        others = [each for each in self._by_id if each not in self._numbers]
        if others:
            yield Text()
            yield Text("Other measurements", style="bold cyan")
            yield from self.show(others)

    def _experiment(self, benchmark_id: str) -> Iterator[Text]:
        number = self._numbers[benchmark_id] = len(self._numbers) + 1
        found = self._by_id[benchmark_id]
        yield Text.assemble(("  ", ""), (f"[{number}] ", "bold"), (found[0].benchmark.purpose, "italic"))
        yield from _listing(found[0].benchmark)
        for each in found:
            yield from _runs(each, self._case.calibration_core_cycles)


def _listing(benchmark: StoredBenchmark) -> Iterator[Text]:
    """Yield the code: what runs once, then what is copied, bytes beside text."""
    for what, lines in (("before", benchmark.setup), ("copied", benchmark.body)):
        for index, (code, text) in enumerate(lines):
            place = what if index == 0 else ""
            yield Text.assemble(f"{_INDENT}{place:<8}", (f"{code.hex(' '):<{CODE_WIDTH}}", "dim"), f" {text}")


def _runs(evidence: Sample, calibration_core_cycles: int) -> Iterator[Text]:
    """Yield the raw samples of one measurement and what follows from them."""
    measurement = evidence.measurement
    if measurement.status is not Status.OK or len(measurement.series) < 2:
        detail = f": {measurement.detail}" if measurement.detail else ""
        yield Text(f"{_INDENT}{measurement.status.value.replace('_', ' ')}{detail}", style="red")
        return
    shown = _MeasurementLines(evidence, calibration_core_cycles)
    yield from shown.table()
    yield from shown.notes()
    yield from shown.raw()


class _MeasurementLines:
    """The lines about one measurement: each counter at each size and per copy, the arithmetic, and the samples."""

    def __init__(self, evidence: Sample, calibration_core_cycles: int) -> None:
        self._series = evidence.measurement.series
        self._divisor = evidence.benchmark.divisor
        self._detail = evidence.measurement.detail
        self._calibration = calibration_core_cycles
        self._values = answer_of(evidence, calibration_core_cycles).values
        self._on_a_clock = "core_cycles" not in self._series[0].samples
        self._telling = [name for name in _clocks_first(self._values) if self._tells(name)]
        self._width = max(SIZE_WIDTH, *(len(_size_text(each)) + 2 for each in self._series))

    def table(self) -> Iterator[Text]:
        """Yield a line per counter that counted the code: its centers by size, and the value per copy."""
        per_instance = f"{'per instance':>14}" if self._divisor != 1 else ""
        sizes = "".join(f"{_size_text(each):>{self._width}}" for each in self._series)
        yield Text(f"{_INDENT}{'counter':<{NAME_WIDTH}}{sizes}{'per copy':>12}{per_instance}", style="dim")
        for name in self._telling:
            centers = "".join(f"{_number(self._summary(each, name).center):>{self._width}}" for each in self._series)
            value = self._values[name]
            line = f"{_INDENT}{name:<{NAME_WIDTH}}{centers}{_number(value):>12}"
            if self._divisor != 1:
                line += f"{_number(value / self._divisor):>14}"
            yield Text(line, style="green")

    def notes(self) -> Iterator[Text]:
        """Yield the formulas of the columns, and the counters that do not depend on the number of copies."""
        if self._on_a_clock:
            text = f"core cycles of a repetition = tsc / calibration * {self._calibration}; each column is their center"
            if any(steadied(beside) is not beside for beside in self._calibrations()):
                text += "; disturbed calibrations are replaced by neighbouring ones"
            yield Text(f"{_INDENT}{text}", style="dim")
        text = self._arithmetic()
        if self._divisor != 1:
            text += f"; a copy holds {self._divisor} instances"
        yield Text(f"{_INDENT}{text}", style="dim")
        still = [f"{name} {_number(self._summary(self._series[-1], name).center)}" for name in self._still()]
        if still:
            yield Text(f"{_INDENT}independent of the number of copies (harness): {', '.join(still)}", style="dim")
        if self._detail:
            yield Text(f"{_INDENT}{self._detail}", style="yellow")

    def raw(self) -> Iterator[Text]:
        """Yield the samples themselves; where all repetitions agree, only that."""
        samples = [
            (each, name, values)
            for each in self._series
            for name, values in each.samples.items()
            if name in self._telling or name in TIME_COUNTERS
        ]
        varying = [(each, name, values) for each, name, values in samples if len(set(values)) > 1]
        if not varying:
            count = len(next(iter(self._series[0].samples.values())))
            yield Text(f"{_INDENT}raw: the same in each of {count} repetitions", style="dim")
        for each, name, values in varying:
            yield Text(f"{_INDENT}raw: {name}, {_size_text(each)}: {samples_text(values)}", style="dim")

    def _arithmetic(self) -> str:
        """Say from which sizes a value per copy comes: from two whose difference gives exactly this value, or one."""
        value = self._values["core_cycles"]
        longest = self._series[-1]
        runs = longest.copies * max(1, longest.iterations)
        if self._summary(longest, "core_cycles").center / runs == value:
            return f"per copy = {_size_text(longest)} / {runs}; the shorter run took too long to be subtracted"
        for first, end in (self._series[-2:], self._series[:2]):
            low = self._summary(first, "core_cycles").center
            loops = max(1, end.iterations)
            difference = self._summary(end, "core_cycles").center - low
            if difference / ((end.copies - first.copies) * loops) == value:
                times = f" / {loops} iterations" if loops > 1 else ""
                columns = f"({_size_text(end)} - {_size_text(first)})"
                return f"per copy = {columns} / {end.copies - first.copies}{times}"
        return "per copy: see runner/measuring/aggregate.py"

    def _calibrations(self) -> list[Sequence[int]]:
        return [each.samples["calibration"] for each in self._series]

    def _tells(self, name: str) -> bool:
        return bool(self._values[name]) or name == "core_cycles"

    def _still(self) -> list[str]:
        return [name for name in self._values if name not in self._telling]

    def _summary(self, series: Series, counter: str) -> SeriesSummary:
        if counter == "core_cycles":
            return aggregate.core_cycles_of(series, self._calibration)
        return aggregate.summarize(series.samples[counter])


def samples_text(samples: Sequence[int]) -> str:
    """Write raw samples in order, runs of equal ones as `135 (20 times)`; of many runs the first ones and a summary."""
    runs = [(value, len(list(run))) for value, run in groupby(samples)]
    shown = [str(value) if times == 1 else f"{value} ({times} times)" for value, times in runs[:SHOWN_RUNS]]
    text = ", ".join(shown)
    if len(runs) <= SHOWN_RUNS:
        return text
    ordered = sorted(samples)
    middle = _number(aggregate.summarize(samples).center)
    return f"{text}, ... {len(samples)} in all: least {ordered[0]}, median {middle}, most {ordered[-1]}"


def _clocks_first(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: name not in TIME_COUNTERS)


def _size_text(series: Series) -> str:
    copies = f"{series.copies} copies" if series.copies != 1 else "1 copy"
    return f"{copies} x {series.iterations}" if series.iterations else copies


def _number(value: Fraction) -> str:
    return cycles_text(value)
