"""The measurement protocol: from requests to jobs of a backend, and from its samples to values that can be trusted.

Requests are measured in rounds of one batch each. After a round each request is judged. It is done when its spread is
small enough, else it runs again, and samples are added. It starts anew when the values cannot be right; three such
attempts make a recorded failure, not a number. On a clock a trial run goes first: it finds code that faults, and how
long the runs have to be.
"""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from generator.microbenchmark import Line, Microbenchmark
from inference.experiment import Measured, Request, Want
from results.model import Measurement, Series, Status
from runner.backend import CLOCK_COUNTERS, USUAL, Conditions, Job, Repeat
from runner.measuring import aggregate
from runner.measuring.quiet import Patience, Repetitions, Watch
from runner.measuring.sizing import (
    SHORT_TICKS,
    RunSize,
    clock_sizes,
    exact_sizes,
    larger_sizes,
    trial_copy_cycles,
    trial_size,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.backend import Backend, BackendInfo, JobResult

SHARED = "another thread used the same core all the time: throughputs may be too high"
"""The detail of values that rest on repetitions beside a busy neighbour."""
HOPELESS_REQUESTS = 100
"""After this many disturbed requests in a row, a quiet core is not waited for."""

SURVEY_PAUSE_SECONDS = 0.01
"""Between two looks: 25 looks then cover more than a scheduler's time slice of a few milliseconds."""
NOTHING = Microbenchmark((), (Line(b"\x90", "NOP"),), "survey of the contention probe")
MANY_ACCESSES = 0.3
"""Accesses to memory per cycle from which on a neighbour's loads delay code. A chain through memory has at most 0.25: a
load takes at least four cycles. A throughput that is disturbed by half seems half as large in the trial run."""
UNSTEADY_RATIO = Fraction(1, 20)
"""A spread above this share of the value doubles the rounds that a request may have."""
MOST_REPETITIONS = 8
"""Factor: a disturbed request gets this many times the usual repetitions in a round. With 160 repetitions, a core that
is quiet for a fifteenth of the time gives enough, and code of 100,000 cycles stays below 10 ms."""
MOST_ROUNDS = 1000
"""Rounds of one request, at most, while the program waits for a quiet core: code that is never quiet has to end,
too."""

UOP_COUNTERS = ("uops_executed", "uops_issued", "uops_retire_slots")
"""Counted together with the ports."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may change about measuring; all of it belongs into the provenance.

    - A request is measured in at most `rounds` rounds of `repetitions` each. It is done when its spread per copy is at
      most `stable_cycles`, or the fraction `stable_ratio` of the value.
    - Values that cannot be right are measured `attempts` times. `warm_ups` runs before each round do not count.
    - On a clock, `enough_quiet` repetitions must be undisturbed. `survey_looks` is how often to look at the contention
      probe before.
    - Waiting for a quiet core and measuring again takes at most `patience_seconds`, plus `patience_ratio` times what
      all the rest took.
    - A run that takes longer than `time_limit_seconds` has hung.
    """

    repetitions: int = 20
    rounds: int = 6
    enough_quiet: int = 10
    stable_cycles: Fraction = Fraction(1, 50)
    stable_ratio: Fraction = Fraction(1, 100)
    attempts: int = 3
    warm_ups: int = 2
    survey_looks: int = 25
    patience_seconds: float = 5.0
    patience_ratio: float = 2.0
    time_limit_seconds: float = 1.0

    def patience(self) -> Patience:
        """Return patience that is not used yet."""
        return Patience(self.patience_seconds, self.patience_ratio)


@dataclass(slots=True)
class _Entry:
    """A request while it is measured."""

    request: Request
    watch: Watch
    sizes: tuple[RunSize, ...] = ()
    samples: list[dict[str, list[int]]] = field(default_factory=list)
    repetitions: int = 0
    """Of a usual round."""
    rounds: int = 0
    attempts: int = 1
    resized: bool = False
    status: Status | None = None
    detail: str = ""
    note: str = ""
    """What the backend had to say about a run that went well."""
    found: Measured | None = None
    disturbed_at: tuple[float | None, bool] = (None, False)
    """Whether it was disturbed, and the filter's best ratio when that was found."""
    looked_at: list[Repetitions] = field(default_factory=list)
    """The repetitions of all rounds by size. Each round is read once: a disturbed request may need hundreds."""

    def add(self, results: Sequence[JobResult]) -> list[Repetitions]:
        """Take in one round's results, one per size; return its repetitions (none without a contention probe)."""
        for index, result in enumerate(results):
            if result.status is not Status.OK:
                self.fail(result)
                return []
            self.note = self.note or result.detail
            for counter, values in result.samples.items():
                self.samples[index].setdefault(counter, []).extend(values)
        self.rounds += 1
        self.disturbed_at = None, False
        last = [Repetitions.of(result.samples) for result in results] if self.watch.quiet else []
        rounds = zip(self.looked_at, last, strict=True)
        self.looked_at = [before.joined(one) for before, one in rounds] if self.looked_at else last
        return last

    def fail(self, result: JobResult) -> None:
        """Note that the code does not run."""
        self.status, self.detail, self.samples = result.status, result.detail, []
        self._forget_rounds()

    def restart(self) -> None:
        """Forget all samples."""
        self.samples = [{} for _ in self.sizes]
        self.rounds = 0
        self.note = ""
        self._forget_rounds()

    def _forget_rounds(self) -> None:
        self.disturbed_at = None, False
        self.looked_at = []

    def enough_quiet(self, most: int) -> int:
        """Return how many repetitions have to be undisturbed: at most `most`."""
        return min(most, max(2, self.repetitions // 2))

    def is_disturbed(self, most: int) -> bool:
        """Say whether too few repetitions of some size were undisturbed; found anew when anything changed."""
        quiet = self.watch.quiet
        if not quiet or not self.rounds:
            return False
        if self.disturbed_at[0] != quiet.best_ratio:
            enough = self.enough_quiet(most)
            few = min(map(quiet.count, self.looked_at), default=enough) < enough
            self.disturbed_at = quiet.best_ratio, few
        return self.disturbed_at[1]

    def measurement(self, enough: int) -> Measurement:
        """Return the measurement so far. Disturbed repetitions are left out, if enough others remain."""
        if self.watch.quiet and self.rounds:
            pairs = zip(self.samples, self.looked_at, strict=True)
            kept = [self.watch.quiet.undisturbed(samples, repetitions, enough) for samples, repetitions in pairs]
        else:
            kept = [{counter: tuple(values) for counter, values in samples.items()} for samples in self.samples]
        pairs_of_size = zip(self.sizes, kept, strict=False)
        series = tuple(Series(size.copies, size.iterations, samples) for size, samples in pairs_of_size)
        return Measurement(self.status or Status.OK, series, self.detail)


def look(backend: Backend, time_limit_seconds: float, *, loads_beside: bool = False) -> JobResult:
    """Run a contention probe alone for a moment."""
    job = Job(NOTHING, 1, loads_beside=loads_beside)
    return backend.run([job], CLOCK_COUNTERS, Repeat(2, 10, time_limit_seconds))[0]


def looks_quiet(watch: Watch, backend: Backend, time_limit_seconds: float) -> bool:
    """Return whether the contention probe alone looks quiet, or cannot run."""
    result = look(backend, time_limit_seconds, loads_beside=watch.loads_beside)
    return not watch.quiet or result.status is not Status.OK or watch.quiet.looks_quiet(result.samples)


class Measurer:
    """Measures requests with one backend."""

    def __init__(self, backend: Backend, options: Options | None = None, conditions: Conditions = USUAL) -> None:
        """Ask the backend what it can do; all requests are measured under the same conditions.

        Raises:
            BackendError: it cannot be used here.
        """
        self.backend = backend
        self.info: BackendInfo = backend.info()
        self.options = options or Options()
        self._conditions = conditions
        self._is_clock = self.info.preferred_iterations > 0
        self._watches = [Watch.of(self.info, self.options.patience(), loads_beside=loads) for loads in (False, True)]

    def measure(self, requests: Sequence[Request]) -> list[Measured]:
        """Return what each request gave, in order; code that does not run is a result with a status.

        Raises:
            BackendError: the backend broke down.
        """
        entries = [_Entry(request, self._watches[False]) for request in requests]
        self._choose_sizes(entries)
        for watch in self._watches:
            if mine := [entry for entry in entries if entry.watch is watch]:
                self._survey(watch)
                self._measure_beside(watch, mine)
        return [self._final(entry) for entry in entries]

    def _measure_beside(self, watch: Watch, entries: Sequence[_Entry]) -> None:
        """Measure requests beside the same contention probe until each is done."""
        while active := [entry for entry in entries if entry.status is None]:
            started = time.monotonic()
            is_again = all(entry.rounds and self._is_disturbed(entry) for entry in active)
            self._run_round(active)
            watch.patience.count(time.monotonic() - started, is_again=is_again)
            for entry in active:
                if entry.status is None:
                    self._judge(entry)
            most = self._most_rounds(watch)
            for entry in entries:
                if entry.status is Status.OK and entry.rounds < most and self._is_disturbed(entry):
                    entry.status = None  # what seemed quiet was not: the contention probe has meanwhile been faster
            if any(entry.status is None and self._is_disturbed(entry) for entry in active):
                watch.patience.wait(partial(looks_quiet, watch, self.backend, self.options.time_limit_seconds))

    @property
    def lost_seconds(self) -> float:
        """How long waiting for a quiet core, and measuring again, took."""
        return sum(watch.patience.lost_seconds for watch in self._watches)

    def _most_rounds(self, watch: Watch) -> int:
        """Return the most rounds of a disturbed request: few where the core has not been quiet for long."""
        if watch.patience.is_left:
            return MOST_ROUNDS
        return 2 if watch.disturbed_in_a_row > HOPELESS_REQUESTS else self.options.rounds

    def conclude(self, request: Request, measurement: Measurement) -> Measured:
        """Return the values of a measurement of this backend, new or stored."""
        return aggregate.measured(request, measurement, self.info.calibration_core_cycles)

    def _final(self, entry: _Entry) -> Measured:
        """Return the values that `_judge` found, with their status and its detail."""
        if entry.found is None or entry.status is not Status.OK:
            return self.conclude(entry.request, self._measurement(entry))
        if entry.detail == entry.found.detail:
            return entry.found
        measurement = entry.found.measurement
        said = dataclasses.replace(measurement, detail=entry.detail) if measurement else None
        return dataclasses.replace(entry.found, measurement=said, detail=entry.detail)

    def _measurement(self, entry: _Entry) -> Measurement:
        return entry.measurement(entry.enough_quiet(self.options.enough_quiet))

    def counters(self, want: Want) -> tuple[str, ...]:
        """Return which of the backend's counters serve what is wanted."""
        there = self.info.counters
        if want is Want.ALL:
            return there
        clock = ("core_cycles",) if "core_cycles" in there else tuple(name for name in CLOCK_COUNTERS if name in there)
        if want is Want.CYCLES:
            return clock
        return clock + self.info.ports + tuple(name for name in UOP_COUNTERS if name in there)

    def _choose_sizes(self, entries: Sequence[_Entry]) -> None:
        if self._is_clock:
            self._try(entries)
        for entry in entries:
            if not self._is_clock:
                entry.sizes, entry.repetitions = exact_sizes(entry.request), self.options.repetitions
            entry.restart()

    def _try(self, entries: Sequence[_Entry]) -> None:
        """Run each request for a moment: code that faults is done with, and the others get their sizes."""
        sizes = [trial_size(entry.request) for entry in entries]
        jobs = [self._job(entry, size) for entry, size in zip(entries, sizes, strict=True)]
        repeat = Repeat(warm_ups=1, repetitions=3, time_limit_seconds=self.options.time_limit_seconds)
        results = self.backend.run(jobs, self.counters(Want.CYCLES), repeat)
        for entry, size, result in zip(entries, sizes, results, strict=True):
            if result.status is not Status.OK:
                entry.fail(result)
                continue
            series = Series(size.copies, size.iterations, result.samples)
            cycles = aggregate.core_cycles_of(series, self.info.calibration_core_cycles).rough_center
            entry.sizes = clock_sizes(entry.request, cycles)
            entry.repetitions = self._repetitions(entry, cycles / (size.copies * size.iterations))
            accesses = sum(line.accesses_memory for line in entry.request.benchmark.body)
            entry.watch = self._watches[accesses > MANY_ACCESSES * trial_copy_cycles(entry.request, cycles)]

    def _resize(self, entry: _Entry) -> bool:
        """Start anew with more copies if the first round took far less than the trial run; return whether it did."""
        if not self._is_clock or entry.rounds > 1 or entry.resized:
            return False
        size, samples = entry.sizes[-1], entry.samples[-1]
        if min(samples["core_cycles" if "core_cycles" in samples else "tsc"]) > SHORT_TICKS:
            return False
        series = Series(size.copies, size.iterations, {name: tuple(each) for name, each in samples.items()})
        cycles = aggregate.core_cycles_of(series, self.info.calibration_core_cycles).rough_center
        larger = larger_sizes(entry.request, size, cycles)
        if larger is None:
            return False
        entry.sizes, entry.resized = larger, True
        entry.restart()
        return True

    def _survey(self, watch: Watch) -> None:
        """Look at a contention probe for a while, to learn how long it takes when nobody disturbs."""
        if not watch.quiet or watch.quiet.is_known:
            return
        for _ in range(self.options.survey_looks):
            result = look(self.backend, self.options.time_limit_seconds, loads_beside=watch.loads_beside)
            if result.status is Status.OK:
                watch.quiet.learn(Repetitions.of(result.samples))
            time.sleep(SURVEY_PAUSE_SECONDS)

    def _repetitions(self, entry: _Entry, copy_cycles: float) -> int:
        """Take fewer repetitions of code that takes long anyway."""
        longest = entry.sizes[-1].copies * max(1, entry.sizes[-1].iterations) * copy_cycles
        return self.options.repetitions if longest < 400_000 else max(4, self.options.repetitions // 4)

    def _needed(self, entry: _Entry) -> int:
        """Return how many repetitions the next round has: more where few were undisturbed, in powers of two."""
        usual = entry.repetitions
        filtered = entry.watch.quiet
        if not filtered or not self._is_disturbed(entry) or usual < self.options.repetitions:
            return usual
        quiet = min(map(filtered.count, entry.looked_at))
        done = len(entry.looked_at[0].ratios)
        missing = done * self.options.enough_quiet / max(1, quiet) - done
        factor = 1
        while factor < MOST_REPETITIONS and factor * usual < missing:
            factor *= 2
        return factor * usual

    def _run_round(self, active: Sequence[_Entry]) -> None:
        """Run all sizes of requests that share a watch, a batch per set of counters and number of repetitions."""
        groups: dict[tuple[int, Want], list[_Entry]] = defaultdict(list)
        for entry in active:
            groups[self._needed(entry), entry.request.want].append(entry)
        for (repetitions, want), group in groups.items():
            jobs = [self._job(entry, size) for entry in group for size in entry.sizes]
            repeat = Repeat(self.options.warm_ups, repetitions, self.options.time_limit_seconds)
            results = iter(self.backend.run(jobs, self.counters(want), repeat))
            last = [run for entry in group for run in entry.add([next(results) for _ in entry.sizes])]
            if quiet := active[0].watch.quiet:
                quiet.learn(*last)

    def _is_stable(self, found: Measured) -> bool:
        """Say whether values are near enough to each other."""
        spread = found.spread["core_cycles"]
        return spread <= self.options.stable_cycles or spread <= self.options.stable_ratio * found.cycles

    def _is_unsteady(self, found: Measured) -> bool:
        """Say whether the samples vary so much that their center may be wrong."""
        return self._is_clock and found.ok and found.spread["core_cycles"] > UNSTEADY_RATIO * abs(found.cycles)

    def _is_disturbed(self, entry: _Entry) -> bool:
        return entry.is_disturbed(self.options.enough_quiet)

    def _has_quiet_ones(self, entry: _Entry) -> bool:
        """Say whether the few undisturbed repetitions of each size count alone."""
        assert entry.watch.quiet
        return entry.watch.quiet.suffices(entry.looked_at, entry.enough_quiet(self.options.enough_quiet))

    def _judge(self, entry: _Entry) -> None:
        """Decide whether the request is done, goes on, or starts anew."""
        if self._resize(entry):
            return
        disturbed = self._is_disturbed(entry)
        if disturbed and entry.rounds < self._most_rounds(entry.watch):
            return
        disturbed = disturbed and not self._has_quiet_ones(entry)
        entry.watch.disturbed_in_a_row = entry.watch.disturbed_in_a_row + 1 if disturbed else 0
        entry.found = found = self.conclude(entry.request, self._measurement(entry))
        complaint = aggregate.complaint(found, self.info.ports)
        if not complaint and self._is_stable(found):
            entry.status, entry.detail = Status.OK, SHARED if disturbed else entry.note
        elif entry.rounds < self.options.rounds * (2 if self._is_unsteady(found) else 1):
            return
        elif not complaint:
            entry.status = Status.OK
            entry.detail = SHARED if disturbed else f"not stable after {entry.rounds} x {entry.repetitions} repetitions"
        elif entry.attempts < self.options.attempts:
            entry.attempts += 1
            entry.restart()
        else:
            entry.status, entry.detail = Status.UNCLEAN, f"{complaint}, {entry.attempts} times"

    def _job(self, entry: _Entry, size: RunSize) -> Job:
        benchmark = entry.request.benchmark
        return Job(benchmark, size.copies, size.iterations, size.fenced, self._conditions, entry.watch.loads_beside)
