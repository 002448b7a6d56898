"""Measures code of a user: a typed request in, a typed result out. The command line and the Python API call this.

    measure(CodeRequest(MachineCode(body=bytes.fromhex("480fafc3"))), open_backend("auto"))

Without `Runs` the code is measured unrolled and in a loop, until the samples agree: by `runner.measuring.protocol`, or
by `runner.own_code.blocks` with memory on demand. With `Runs` exactly that is run, as in nanoBench.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from generator.harness.style import State
from generator.microbenchmark import Microbenchmark
from inference.experiment import Request as Experiment
from inference.experiment import Want
from results.model import Status
from runner.backend import (
    CLOCK_COUNTERS,
    CONTENTION_PROBE,
    PLAIN_ENVIRONMENT,
    BackendError,
    Conditions,
    ExecutionEnvironment,
    Job,
    ProvidesEnvironment,
    Repeat,
)
from runner.measuring.aggregate import BESIDE
from runner.measuring.calibration import steadied
from runner.measuring.protocol import Measurer, Options
from runner.measuring.quiet import QuietFilter, Repetitions
from runner.own_code.block_shapes import shape_of
from runner.own_code.blocks import BlockMeasurer, BlockMode, BlockOptions
from runner.own_code.code import MeasureError, check_body, lines_of
from runner.own_code.counters import CounterChoice, CountsOwnEvents
from runner.refusals import check_code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from inference.experiment import Measured
    from results.model import Provenance
    from runner.backend import Backend, BackendInfo, JobResult

    Samples: TypeAlias = dict[str, list[Fraction]]
    """By counter, one of each measurement."""

MOST_RUNS = 10_000
"""Of one job, warm-ups and repetitions: the kernel module's limit for repetitions."""
MOST_COPIES = 1 << 20
PATIENCE_SECONDS = 3.0
"""Waiting for a quiet core, of one measurement: somebody sits in front of it, and waits five seconds in all at most."""
SURVEY_LOOKS = 5
"""At the contention probe before one measurement: 50 ms, where a campaign takes a quarter of a second."""
TRIMMED_SHARE = 0.2
"""The trimmed mean leaves out this share of the samples at either end, as nanoBench's default does."""
COARSE_SHARE = Fraction(1, 20)
"""A clock whose step is a larger share of what was counted gives a remark with the number."""
UNEVEN_SHARE, UNEVEN_CYCLES = Fraction(1, 10), 100
"""A loop of half the copies may take this share and so many cycles more or less than half the time without a remark.
The cycles are for what a run costs beside its copies."""
BUSY_SHARE = Fraction(1, 5)
"""Share of a size's disturbed measurements above which a remark tells of another thread: a trimmed mean leaves out that
many slow ones."""


class Aggregate(StrEnum):
    """How the repetitions' values become one."""

    MIN = "min"
    MEDIAN = "median"
    MEAN = "mean"
    TRIMMED = "trimmed"
    MAX = "max"

    def of(self, values: Sequence[Fraction]) -> Fraction:
        """Return the aggregate of at least one value."""
        ordered = sorted(values)
        cut = int(len(ordered) * TRIMMED_SHARE) if self is Aggregate.TRIMMED else 0
        inner = ordered[cut : len(ordered) - cut]
        match self:
            case Aggregate.MIN:
                return ordered[0]
            case Aggregate.MAX:
                return ordered[-1]
            case Aggregate.MEDIAN:
                return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
            case _:
                return sum(inner, Fraction(0)) / len(inner)


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Machine code: what is copied, and what runs before.

    `one_time_init` runs in the first repetition only. `init` runs after it, in every repetition, before the counters
    are read. `late_init` runs after they are read, once before all copies.
    """

    body: bytes
    init: bytes = b""
    late_init: bytes = b""
    one_time_init: bytes = b""


@dataclass(frozen=True, slots=True)
class Runs:
    """Just what to run: `unroll` copies in a loop of `loop` iterations (0: no loop), `measurements` times.

    Twice as many copies run, too, and the difference counts. In the `basic` mode no copies run instead. With
    `normalize` values are per copy, else of all copies. Warm-ups run before the measurements of both sizes, initial
    ones only once. nanoBench's names and defaults, but for `unroll`.
    """

    unroll: int = 100
    loop: int = 0
    measurements: int = 10
    warm_ups: int = 5
    initial_warm_ups: int = 0
    aggregate: Aggregate = Aggregate.TRIMMED
    basic: bool = False
    normalize: bool = True

    def check(self) -> None:
        """Refuse numbers that make no sense.

        Raises:
            MeasureError: names the first one.
        """
        limits = {
            "unroll": (self.unroll, 1, MOST_COPIES),
            "loop": (self.loop, 0, (1 << 31) - 1),
            "repeat": (self.measurements, 1, MOST_RUNS),
            "warm-up": (self.warm_ups, 0, 1000),
            "initial-warm-up": (self.initial_warm_ups, 0, MOST_RUNS),
        }
        for name, (value, least, most) in limits.items():
            if not least <= value <= most:
                raise MeasureError(f"--{name} {value} is not between {least} and {most}")


@dataclass(frozen=True, slots=True)
class Settings:
    """How code is run, and what is counted.

    - `runs`: just what to run (None: as often as it takes).
    - `drained`: the pipeline is drained before and after the copies.
    - `on_demand`: the value of all registers and all memory, which is mapped as the code touches it. None: registers
      are zero, and R14, RSI, RDI, RBP and RSP point to areas of 1 MiB.
    - `may_call`: system calls are allowed.
    - `force`: the kernel runs what no campaign runs.
    - `environment`: the memory that R14 points to, and who else may use the core.
    """

    runs: Runs | None = None
    counters: CounterChoice = field(default_factory=CounterChoice)
    offset_bytes: int = 0
    drained: bool = False
    on_demand: int | None = None
    may_call: bool = False
    force: bool = False
    environment: ExecutionEnvironment = PLAIN_ENVIRONMENT
    time_limit_seconds: float = 1.0


DEFAULTS = Settings()


@dataclass(frozen=True, slots=True)
class CodeRequest:
    """Code that is to be measured."""

    code: MachineCode
    settings: Settings = DEFAULTS


@dataclass(frozen=True, slots=True)
class CountedValue:
    """A count with its spread; `samples` are those of the larger size.

    The spread is half the distance between the quartiles. Where `Runs` say how many copies run, it is the sum for both
    sizes, and a clock's step is added.
    """

    value: Fraction
    spread: Fraction
    samples: tuple[Fraction, ...] = ()


@dataclass(frozen=True, slots=True)
class ModeResult:
    """What one way to run the copies gave: values by counter, or the reason why there are none (else a remark)."""

    status: Status
    values: Mapping[str, CountedValue] = field(default_factory=dict)
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether there are values."""
        return self.status is Status.OK


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured: by mode ("unrolled", "loop"; "runs" where the request says what to run)."""

    request: CodeRequest
    benchmark: Microbenchmark
    modes: Mapping[str, ModeResult]
    info: BackendInfo

    @property
    def ok(self) -> bool:
        """Whether every mode gave values."""
        return all(mode.ok for mode in self.modes.values())

    @property
    def cycles(self) -> Fraction | None:
        """Core cycles per copy: the fewest of all modes; None if no mode gave any."""
        found = [mode.values["core_cycles"].value for mode in self.modes.values() if "core_cycles" in mode.values]
        return min(found, default=None)

    @property
    def counters(self) -> tuple[str, ...]:
        """The names of all counters, core cycles first."""
        names = dict.fromkeys(name for mode in self.modes.values() for name in mode.values)
        return tuple(sorted(names, key=lambda name: name != "core_cycles"))

    @property
    def problems(self) -> list[str]:
        """Say what did not run, or not well."""
        return [
            f"{name}: {mode.reason}" if mode.ok else f"{name}: {mode.status.value}: {mode.reason}"
            for name, mode in self.modes.items()
            if mode.reason or not mode.ok
        ]

    @property
    def provenance(self) -> Provenance:
        """The machine and how it was measured."""
        return self.info.provenance


Measurers: TypeAlias = "dict[tuple[Conditions, Options], Measurer]"
"""What earlier requests of a series learned about the backend, such as what a quiet core looks like."""


def measure(request: CodeRequest, backend: Backend, measurers: Measurers | None = None) -> Result:
    """Measure code; if it faults, hangs or calls the system, that is a result. A series hands on its `measurers`.

    Raises:
        MeasureError: the code or the numbers make no sense.
        BackendError: the backend broke down, or cannot count what is asked for.
        RefusedError: the code must not run in the kernel.
    """
    settings = request.settings
    benchmark = benchmark_of(request)
    if settings.counters.events or settings.counters.msrs:
        _define(settings, backend)
    provide(settings.environment, backend)
    info = backend.info()
    if not settings.force:
        check_code(b"".join(_parts(request.code)), info)
    if settings.runs:
        modes = {"runs": _run_exactly(request, settings.runs, benchmark, backend, info)}
    elif settings.on_demand is not None:
        modes = _as_block(request, backend)
    else:
        modes = _run_automatically(request, benchmark, backend, {} if measurers is None else measurers)
    return Result(request, benchmark, modes, info)


def benchmark_of(request: CodeRequest) -> Microbenchmark:
    """Return the microbenchmark of a request's code.

    Raises:
        MeasureError: there is no code, too much of it, or it writes a register that the harness needs.
    """
    settings, code = request.settings, request.code
    if settings.runs:
        settings.runs.check()
    if not 0 <= settings.offset_bytes < 64:
        raise MeasureError(f"--offset {settings.offset_bytes} is not between 0 and 63 bytes")
    benchmark = Microbenchmark(
        lines_of(code.init),
        lines_of(code.body),
        "code of a user",
        late=lines_of(code.late_init),
        once=lines_of(code.one_time_init),
    )
    if settings.on_demand is not None and (settings.environment.r14_bytes or settings.environment.contiguous):
        raise MeasureError(
            "on demand there are no areas: every page is one", hint="leave out --area-size, --contiguous"
        )
    loops = settings.runs is None or settings.runs.loop > 0
    check_body(benchmark, loops=loops and settings.on_demand is None, automatic=settings.runs is None)
    if benchmark.has_marks and (settings.on_demand is not None or settings.runs is None):
        message = "marks that pause counting need R13, and a number of copies"
        raise MeasureError(message, hint="say --unroll N, and leave out --on-demand")
    return benchmark


def _parts(code: MachineCode) -> Sequence[bytes]:
    return (code.one_time_init, code.init, code.late_init, code.body)


def provide(asked: ExecutionEnvironment, backend: Backend) -> None:
    """Have a backend run all code from here on in this environment.

    Raises:
        BackendError: it cannot be had here.
    """
    if isinstance(backend, ProvidesEnvironment):
        backend.provide(asked)
    elif asked != PLAIN_ENVIRONMENT:
        message = f"the backend {backend.name} has neither areas of another size, nor contiguous ones, nor siblings"
        raise BackendError(message, hint="leave out --area-size, --contiguous and --idle-sibling")


def _define(settings: Settings, backend: Backend) -> None:
    if not isinstance(backend, CountsOwnEvents):
        message = f"the backend {backend.name} has no counters to choose events for"
        raise MeasureError(message, hint="--backend kmod or --backend perf on a CPU with a PMU")
    backend.define(settings.counters.events, settings.counters.msrs)


def _wanted(settings: Settings, info: BackendInfo) -> tuple[str, ...]:
    """Return the counters to read: those asked for, and what turns ticks into cycles.

    Raises:
        MeasureError: the backend lacks one; names those that it has.
    """
    there, choice = info.counters, settings.counters
    if choice.names is None:
        return there
    clock = tuple(name for name in CLOCK_COUNTERS if name in there) if "core_cycles" not in there else ()
    names = (*choice.names, *info.ports) if choice.usual else choice.names
    for name in names:
        if name not in there and not choice.usual and not (name == "core_cycles" and clock):
            able = [*(("core_cycles",) if clock else ()), *(one for one in there if one not in BESIDE)]
            raise MeasureError(f"{info.name} has no counter {name!r}", hint=f"it has: {', '.join(able)}")
    return tuple(dict.fromkeys((*clock, *(name for name in names if name in there))))


def _conditions(settings: Settings, free: str = "r15") -> Conditions:
    return Conditions(
        offset_bytes=settings.offset_bytes,
        drained=settings.drained,
        state=State.ZERO if settings.on_demand is None else State.GIVEN,
        loop_register=free,
        value=settings.on_demand or 0,
        may_call=settings.may_call,
    )


def _run_automatically(
    request: CodeRequest, benchmark: Microbenchmark, backend: Backend, measurers: Measurers
) -> dict[str, ModeResult]:
    """Measure unrolled and in a loop until the values are steady."""
    options = Options(
        time_limit_seconds=request.settings.time_limit_seconds,
        survey_looks=SURVEY_LOOKS,
        patience_seconds=PATIENCE_SECONDS,
    )
    conditions = _conditions(request.settings)
    measurer = measurers.get((conditions, options)) or Measurer(backend, options, conditions)
    measurers[conditions, options] = measurer
    wanted = _wanted(request.settings, measurer.info)
    modes = {"unrolled": Experiment(benchmark, Want.ALL), "loop": Experiment(benchmark, Want.ALL, loop=True)}
    found = measurer.measure(list(modes.values()))
    return {name: _mode_of(one, wanted) for name, one in zip(modes, found, strict=True)}


def _mode_of(measured: Measured, counters: Sequence[str]) -> ModeResult:
    names = [name for name in measured.values if name in counters or name == "core_cycles"]
    values = {name: CountedValue(measured.values[name], measured.spread[name]) for name in names}
    return ModeResult(measured.status, values, measured.detail)


def _as_block(request: CodeRequest, backend: Backend) -> dict[str, ModeResult]:
    """Measure code that reads and writes anywhere."""
    settings = request.settings
    if any((request.code.init, request.code.late_init, request.code.one_time_init)):
        raise MeasureError("--on-demand gives all registers their value, so there is no --init", hint="say --unroll N")
    assert settings.on_demand is not None
    options = BlockOptions(
        value=settings.on_demand,
        modes=tuple(BlockMode),
        time_limit_seconds=settings.time_limit_seconds,
        patience_seconds=PATIENCE_SECONDS,
        may_call=settings.may_call,
    )
    (result,) = BlockMeasurer(backend, options).measure([request.code.body])
    modes = {}
    for mode, timing in result.timings.items():
        cycles, spread = (Fraction(one or 0).limit_denominator(10**6) for one in (timing.cycles, timing.spread))
        values = {"core_cycles": CountedValue(cycles, spread)} if timing.ok else {}
        modes[mode.value] = ModeResult(timing.status, values, timing.reason)
    return modes


def _run_exactly(
    request: CodeRequest, runs: Runs, benchmark: Microbenchmark, backend: Backend, info: BackendInfo
) -> ModeResult:
    """Run two sizes as often as the request says, and return the difference of their aggregates."""
    settings = request.settings
    wanted = _wanted(settings, info)
    free = _loop_register(request, benchmark) if runs.loop else "r15"
    sizes = (0, runs.unroll) if runs.basic else (runs.unroll, 2 * runs.unroll)
    jobs = [
        Job(benchmark, copies, runs.loop if copies else 0, conditions=_conditions(settings, free)) for copies in sizes
    ]
    limit = settings.time_limit_seconds
    if runs.initial_warm_ups:
        backend.run(jobs[-1:], wanted, Repeat(0, runs.initial_warm_ups, limit))
    results = backend.run(jobs, wanted, Repeat(runs.warm_ups, runs.measurements, limit))
    for result in results:
        if result.status is not Status.OK:
            return ModeResult(result.status, reason=result.detail)
    scale = runs.unroll * max(1, runs.loop) if runs.normalize else 1
    samples = [_samples(result, info) for result in results]
    found = _difference(samples, runs.aggregate, scale, _clock_steps(results, info))
    remarks = (found.reason, _uneven(samples, request, runs), _disturbed(results, info))
    return replace(found, reason="; ".join(filter(None, remarks)))


def _difference(
    samples: Sequence[Samples], aggregate: Aggregate, scale: int, steps: Mapping[str, Fraction]
) -> ModeResult:
    """Return what the larger size counted beyond the smaller one, divided by `scale`. `steps` are those of a clock."""
    few, many = samples
    values, remark = {}, ""
    for name in many:
        low, high, step = few[name], many[name], steps.get(name, Fraction(0))
        difference = aggregate.of(high) - aggregate.of(low)
        values[name] = CountedValue(difference / scale, (_spread(high) + _spread(low) + step) / scale, tuple(high))
        if name == "core_cycles" and step > COARSE_SHARE * difference:
            remark = (
                f"the clock moves {float(step):.0f} cycles at a time, of {float(difference):.0f} that were counted; "
                "more copies (--unroll) or a longer --loop make the number more exact"
            )
    return ModeResult(Status.OK, values, remark)


def _uneven(samples: Sequence[Samples], request: CodeRequest, runs: Runs) -> str:
    """Return a remark if a copy takes more or less time in the shorter loop than in the longer one, else "".

    Code that runs once for all copies is half as much per copy in the longer loop.
    """
    if runs.basic or not runs.loop or request.code.late_init:
        return ""
    few, many = (each.get("core_cycles", []) for each in samples)
    if not few:
        return ""
    low, half = runs.aggregate.of(few), runs.aggregate.of(many) / 2
    if abs(low - half) <= UNEVEN_CYCLES + UNEVEN_SHARE * half:
        return ""
    copies = runs.unroll * runs.loop
    return (
        f"a copy takes {float(low / copies):.2f} cycles in a loop of {runs.unroll} copies and "
        f"{float(half / copies):.2f} in one of {2 * runs.unroll}, so their difference is not its time; "
        "try other numbers of copies (--unroll)"
    )


def _disturbed(results: Sequence[JobResult], info: BackendInfo) -> str:
    """Return a remark if another thread used the core in many of the measurements of a size, else ""."""
    quiet = QuietFilter.of(info, loads_beside=False)
    repetitions = [Repetitions.of(one.samples) for one in results if CONTENTION_PROBE in one.samples]
    if quiet is None or not repetitions:
        return ""
    quiet.learn(*repetitions)
    lost = [len(one.ratios) - quiet.count(one) for one in repetitions]
    if all(count <= BUSY_SHARE * len(one.ratios) for count, one in zip(lost, repetitions, strict=True)):
        return ""
    total = sum(len(one.ratios) for one in repetitions)
    return f"{sum(lost)} of {total} measurements were disturbed, as by another thread on the core: measure again"


def _clock_steps(results: Sequence[JobResult], info: BackendInfo) -> dict[str, Fraction]:
    """Return by how much a clock moves at a time: ticks of `tsc`, and `core_cycles` if they are made of ticks.

    It is the largest number that divides all ticks: many clocks move by 26 ticks or more, and two reads can be off by
    as much. Without a calibration no clock counts, and nothing is returned.
    """
    if any("calibration" not in result.samples for result in results):
        return {}
    step = math.gcd(*(ticks for result in results for name in CLOCK_COUNTERS for ticks in result.samples.get(name, ())))
    beside = Aggregate.MEDIAN.of([Fraction(ticks) for result in results for ticks in result.samples["calibration"]])
    return {"tsc": Fraction(step), "core_cycles": step * info.calibration_core_cycles / max(beside, Fraction(1))}


def _loop_register(request: CodeRequest, benchmark: Microbenchmark) -> str:
    """Return a register that can count the loop: R15, or on demand one that the body leaves alone."""
    if request.settings.on_demand is None:
        return "r15"
    free = shape_of(benchmark.body_code).free
    if not free:
        raise MeasureError("the code uses all registers, so none is left to count a loop", hint="leave out --loop")
    return free


def _samples(result: JobResult, info: BackendInfo) -> Samples:
    """Return the samples of each counter, core cycles from ticks where only a clock is there."""
    samples = {name: list(map(Fraction, values)) for name, values in result.samples.items() if name not in BESIDE}
    if "core_cycles" not in samples and "calibration" in result.samples:
        pairs = zip(result.samples["tsc"], steadied(result.samples["calibration"]), strict=True)
        known = [Fraction(ticks * info.calibration_core_cycles, beside) for ticks, beside in pairs if beside > 0]
        samples = {"core_cycles": known or [Fraction(0)], **samples}
    return samples


def _spread(values: Sequence[Fraction]) -> Fraction:
    """Return half the distance between the quartiles."""
    ordered = sorted(values)
    return (ordered[(3 * len(ordered)) // 4 if len(ordered) > 3 else -1] - ordered[len(ordered) // 4]) / 2
