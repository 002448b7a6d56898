"""Why each number is what it is: the microbenchmarks behind it, their raw samples, and the arithmetic between.

Numbers come in the order of the result table. Each is followed by how it was derived and by the experiments that it
rests on: code with its bytes, the samples as the backend returned them, and the values per copy that follow from them.
An experiment that several numbers rest on is shown once and named by its number after that.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from results.model import Status
from results.text import bounded_text, cycles_text, machine_text, pair_text
from runner.measuring import aggregate
from runner.measuring.recording import answer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from results.campaign.records import Sample, StoredBenchmark
    from results.model import Characterization, Derivation, LatencyResult, Provenance, Series
    from runner.measuring.aggregate import Summary
    from xed_convert.model import InstructionVariant

SHOWN_RUNS = 12
"""So many runs of equal samples are shown in full; of more, the first and the summary."""

CODE_WIDTH = 34
"""Columns for the bytes of an instruction beside its text."""

FIRST_COUNTED = ("ports", "TP_unrolled")
"""The quantities whose first experiment is the one that µops were counted in."""

NAME_WIDTH = 20
"""Columns for the name of a counter."""

SIZE_WIDTH = 16
"""Columns at least for what a counter showed at a size."""

CHAIN_PURPOSE = "latency of the chain "
"""How `generator.chains.calibration` names calibration chains: by their links, the one that is calibrated first."""

CLOCK_COUNTERS = ("tsc", "calibration", "witness", "core_cycles")
_INDENT = " " * 6


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number of the result: its name, its value in words, how it was derived, and on what it rests."""

    name: str
    value: str
    steps: tuple[str, ...]
    experiments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """All that is to be explained about one variant."""

    result: Characterization
    variant: InstructionVariant | None
    evidence: Sequence[Sample]
    provenance: Provenance
    calibration_core_cycles: int = 0


def explanation(case: Case) -> Iterator[Text]:
    """Yield the explanation line by line."""
    result = case.result
    yield Text(result.string, style="bold reverse")
    yield Text(machine_text(case.provenance))
    if result.skipped:
        yield Text(f"not measured: {result.skipped}", style="yellow")
    for failure in result.failures:
        yield Text(f"✗ {failure}", style="red")
    book = _Book(case)
    for quantity in quantities(result, case.variant):
        yield Text()
        yield Text.assemble((quantity.name, "bold cyan"), "  ", (quantity.value, "bold"))
        for step in quantity.steps:
            yield Text(f"  {step}")
        yield from book.show(quantity.experiments)
        yield from book.links(quantity.steps)
    yield from book.rest()


def quantities(result: Characterization, variant: InstructionVariant | None) -> Iterator[Quantity]:
    """Yield every number of a result in the order of the table, with its derivation."""
    derivations = {each.quantity: each for each in result.derivations}
    used = set()
    for name, value in _plain_numbers(result):
        used.add(name)
        yield _plain_quantity(name, _value_text(value), derivations.get(name), result)
    for latency in result.latencies:
        derivation = _derivation_of(latency, result.derivations)
        if derivation is not None:
            used.add(derivation.quantity)
        yield _latency_quantity(latency, variant, derivation)
    for name, derivation in derivations.items():
        if name not in used:
            yield Quantity(name, "not concluded", tuple(derivation.text.splitlines()), derivation.experiments)


def _plain_numbers(result: Characterization) -> list[tuple[str, object]]:
    """Return what is known besides latencies, by the names in the XML."""
    numbers: list[tuple[str, object]] = [("uops", result.uops), ("ports", result.ports)]
    numbers += [("ports_same_reg", result.ports_same_register), ("ports_indexed", result.ports_indexed)]
    kinds = ("unrolled", "loop", "ports")
    numbers += [(f"TP_{kind}", getattr(result.throughput, kind)) for kind in kinds]
    numbers += [(f"TP_{kind}_same_reg", getattr(result.throughput_same_register, kind, None)) for kind in kinds]
    numbers += [(f"TP_{kind}_indexed", getattr(result.throughput_indexed, kind, None)) for kind in kinds]
    numbers += list(result.attributes.items())
    if result.macro_fusible is not None:
        numbers.append(("macro_fusible", " ".join(result.macro_fusible) or "none"))
    return [(name, value) for name, value in numbers if value is not None]


def _plain_quantity(name: str, value: str, derivation: Derivation | None, result: Characterization) -> Quantity:
    """Return a number with its derivation; counts and TP_ports come directly from what the others rest on."""
    if derivation is not None:
        return Quantity(name, value, tuple(derivation.text.splitlines()), derivation.experiments)
    first = next((each.experiments[:1] for each in result.derivations if each.quantity in FIRST_COUNTED), ())
    if name.startswith("uops"):
        counter = "uops_executed" if name == "uops" else name
        return Quantity(name, value, (f"the counter {counter}, per instance",), first)
    if name.startswith("TP_ports"):
        ports = result.ports_same_register if name.endswith("_same_reg") else result.ports
        ports = result.ports_indexed if name.endswith("_indexed") else ports
        step = f"the load of the busiest port when {ports} is spread over the ports as evenly as can be"
        return Quantity(name, value, (step,), ())
    return Quantity(name, value, (), ())


def _derivation_of(latency: LatencyResult, derivations: Sequence[Derivation]) -> Derivation | None:
    """Return the derivation that rests on the same experiments."""
    return next(
        (
            each
            for each in derivations
            if latency.experiments == each.experiments != () and each.quantity.startswith("latency")
        ),
        None,
    )


def _latency_quantity(
    latency: LatencyResult, variant: InstructionVariant | None, derivation: Derivation | None
) -> Quantity:
    words = (("same register", latency.same_register), ("fast operand values", latency.fast_values))
    circumstances = ", ".join(word for word, holds in words if holds)
    name = f"latency {pair_text(latency, variant)}" + (f" ({circumstances})" if circumstances else "")
    value = f"{bounded_text(latency)} cycle{'' if latency.cycles == 1 else 's'}"
    steps = derivation.text.splitlines() if derivation else [f"chain: {latency.chain}"] if latency.chain else []
    return Quantity(name, value, tuple(steps), latency.experiments)


def _value_text(value: object) -> str:
    if isinstance(value, Fraction):
        return f"{float(value):.2f}"
    return str(value) or "none"


class _Book:
    """Numbers experiments in the order in which they are first referred to, and shows each once."""

    def __init__(self, case: Case) -> None:
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

    def links(self, steps: Iterable[str]) -> Iterator[Text]:
        """Yield the experiments behind what is subtracted in the steps: the chain that the link begins."""
        subtracted = f"{' '.join(steps)} "
        found = {
            each: self._by_id[each][0].benchmark.purpose.removeprefix(CHAIN_PURPOSE).split("+")[0]
            for each in self._by_id
            if self._by_id[each][0].benchmark.purpose.startswith(CHAIN_PURPOSE)
        }
        behind = [each for each, link in found.items() if f" of {link} " in subtracted]
        if behind:
            yield Text("  what the other links of the chain take:")
            yield from self.show(behind)

    def rest(self) -> Iterator[Text]:
        """Yield what was measured besides: it helped to decide what to measure, or is shared with others."""
        others = [each for each in self._by_id if each not in self._numbers]
        if others:
            yield Text()
            yield Text("Also measured on the way", style="bold cyan")
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
    sheet = _Sheet(evidence, calibration_core_cycles)
    yield from sheet.table()
    yield from sheet.notes()
    yield from sheet.raw()


class _Sheet:
    """The arithmetic of one measurement: what each counter showed at each size, and what that makes per copy."""

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
        """Yield how the columns follow from each other, and what did not change with the copies."""
        if self._on_a_clock:
            text = f"core cycles of a repetition = tsc / calibration * {self._calibration}; a size's are their center"
            yield Text(f"{_INDENT}{text}", style="dim")
        text = self._arithmetic()
        if self._divisor != 1:
            text += f"; a copy holds {self._divisor} instances"
        yield Text(f"{_INDENT}{text}", style="dim")
        still = [f"{name} {_number(self._summary(self._series[-1], name).center)}" for name in self._still()]
        if still:
            yield Text(f"{_INDENT}the same at every size (the harness's own): {', '.join(still)}", style="dim")
        if self._detail:
            yield Text(f"{_INDENT}{self._detail}", style="yellow")

    def raw(self) -> Iterator[Text]:
        """Yield the samples themselves; where all repetitions agree, only that."""
        samples = [
            (each, name, values)
            for each in self._series
            for name, values in each.samples.items()
            if name in self._telling or name in CLOCK_COUNTERS
        ]
        restless = [(each, name, values) for each, name, values in samples if len(set(values)) > 1]
        if not restless:
            count = len(next(iter(self._series[0].samples.values())))
            yield Text(f"{_INDENT}raw: in each of {count} repetitions the same", style="dim")
        for each, name, values in restless:
            yield Text(f"{_INDENT}raw: {name}, {_size_text(each)}: {samples_text(values)}", style="dim")

    def _arithmetic(self) -> str:
        """Say which two sizes a value per copy is the difference of: those that give exactly this value."""
        value = self._values["core_cycles"]
        for first, end in (self._series[-2:], self._series[:2]):
            low = self._summary(first, "core_cycles").center
            loops = max(1, end.iterations)
            difference = self._summary(end, "core_cycles").center - low
            if difference / ((end.copies - first.copies) * loops) == value:
                times = f" / {loops} iterations" if loops > 1 else ""
                columns = f"({_size_text(end)} - {_size_text(first)})"
                return f"per copy = {columns} / {end.copies - first.copies}{times}"
        return "per copy: as runner/measuring/aggregate.py says"

    def _tells(self, name: str) -> bool:
        return bool(self._values[name]) or name == "core_cycles"

    def _still(self) -> list[str]:
        return [name for name in self._values if name not in self._telling]

    def _summary(self, series: Series, counter: str) -> Summary:
        if counter == "core_cycles":
            return aggregate.core_cycles_of(series, self._calibration)
        return aggregate.summarize(series.samples[counter])


def samples_text(samples: Sequence[int]) -> str:
    """Write raw samples in order, runs of equal ones as `135 (20 times)`; of restless ones the first and a summary."""
    runs = [(value, len(list(run))) for value, run in groupby(samples)]
    shown = [str(value) if times == 1 else f"{value} ({times} times)" for value, times in runs[:SHOWN_RUNS]]
    text = ", ".join(shown)
    if len(runs) <= SHOWN_RUNS:
        return text
    ordered = sorted(samples)
    middle = _number(aggregate.summarize(samples).center)
    return f"{text}, ... {len(samples)} in all: least {ordered[0]}, median {middle}, most {ordered[-1]}"


def _clocks_first(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: name not in CLOCK_COUNTERS)


def _size_text(series: Series) -> str:
    copies = f"{series.copies} copies" if series.copies != 1 else "1 copy"
    return f"{copies} x {series.iterations}" if series.iterations else copies


def _number(value: Fraction) -> str:
    return cycles_text(value)
