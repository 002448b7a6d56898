"""Drives many procedures over one backend: their requests are merged into batches, and nothing is measured twice.

A session keeps up to `Limits.active` procedures going at once. Each round first looks up their requests by key: in
memory, then in the `MeasurementSource`. The rest is measured in batches and stored. Then every procedure is sent what
it asked for. `StoredOnly` in the place of a measurer draws conclusions from stored samples alone.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from inference.experiment import Measured, Procedure, Request
from results.campaign.records import Sample, StoredBenchmark
from results.model import Measurement, Status
from runner.measuring import aggregate
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from generator.microbenchmark import Line
    from results.campaign.store import Store

Result = TypeVar("Result")

NOT_STORED = "not among the stored measurements"


class SessionError(UopscopeError):
    """A procedure asks for too much, or broke down."""


class EndlessError(SessionError):
    """A procedure asks for more measurements, or rounds of them, than `Limits` allows."""


class MeasurementSource(Protocol):
    """Where measurements are kept: the campaign's file, or nothing."""

    def lookup(self, request: Request) -> Measurement | None:
        """Return what was measured for a request of that key, or None."""

    def save(self, measured: Sequence[tuple[Request, Measurement]]) -> None:
        """Keep new measurements; they are safe when this returns."""


class MeasuresRequests(Protocol):
    """What a session needs of `runner.measuring.protocol.Measurer`."""

    @property
    def lost_seconds(self) -> float:
        """How long waiting for a quiet core, and measuring again, took."""

    def measure(self, requests: Sequence[Request]) -> list[Measured]:
        """Return what each request gave, in order."""

    def conclude(self, request: Request, measurement: Measurement) -> Measured:
        """Return the values of a stored measurement."""


class StoreSource:
    """A `results.campaign.store.Store` as a source; `Store.begin` has to be called before anything is saved."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def lookup(self, request: Request) -> Measurement | None:
        """Return the measurement that was stored last for that request."""
        return self._store.find(request.key)

    def save(self, measured: Sequence[tuple[Request, Measurement]]) -> None:
        """Store all of them in one transaction."""
        self._store.add([sample_of(request, measurement) for request, measurement in measured])


class StoredOnly:
    """Measures nothing: for drawing conclusions again from stored samples, without hardware."""

    def __init__(self, calibration_core_cycles: int = 0) -> None:
        """Take `BackendInfo.calibration_core_cycles` of the backend that measured (see its provenance)."""
        self._calibration_core_cycles = calibration_core_cycles

    @property
    def lost_seconds(self) -> float:
        """Nothing is lost where nothing is measured."""
        return 0.0

    def measure(self, requests: Sequence[Request]) -> list[Measured]:
        """Refuse every request: what is stored was found by `lookup`."""
        return [Measured(request, Status.REFUSED, {}, {}, None, NOT_STORED) for request in requests]

    def conclude(self, request: Request, measurement: Measurement) -> Measured:
        """Return the values of a stored measurement."""
        return aggregate.measured(request, measurement, self._calibration_core_cycles)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits: procedures that are active at once, requests per batch; requests and rounds of one procedure in all.

    `remembered` is how many measurements stay in memory after they were last asked for. `keep_raw` keeps the raw
    samples with them (about 8 KB each); without it they are only in the source. A procedure that runs alone may ask for
    `requests_alone`: the preparation of a campaign asks about every instruction that could block ports.
    """

    active: int = 64
    batch: int = 256
    remembered: int = 20_000
    requests_per_procedure: int = 5000
    requests_alone: int = 100_000
    rounds_per_procedure: int = 1000
    keep_raw: bool = True


@dataclass(frozen=True, slots=True)
class Task(Generic[Result]):
    """A procedure with a name for people. `most_requests` is how many requests it may make (None: as `Limits` says)."""

    name: str
    procedure: Procedure[Result]
    most_requests: int | None = None


@dataclass(frozen=True, slots=True)
class Finished(Generic[Result]):
    """What became of a task: its result, or the error that ended it; and the keys of the requests that it used."""

    name: str
    result: Result | None
    error: UopscopeError | None
    requests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a session is: requests answered, and how many of these were measured."""

    requests: int
    measured: int


@dataclass(slots=True)
class _Active(Generic[Result]):
    """A procedure that waits for measurements."""

    task: Task[Result]
    wanted: Sequence[Request]
    used: dict[str, None]
    rounds: int = 0


class Session:
    """One backend, one memory of what was measured."""

    def __init__(
        self,
        measurer: MeasuresRequests,
        source: MeasurementSource | None = None,
        limits: Limits | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Use that measurer for what the source (None: nothing is kept) does not have."""
        self._measurer = measurer
        self._source = source
        self._limits = limits or Limits()
        self._on_progress = on_progress
        self._known: dict[str, Measured] = {}
        self._requests = self._measured = 0

    def run(self, tasks: Iterable[Task[Result]]) -> Iterator[Finished[Result]]:
        """Yield the outcome of each task as it is done (not in order).

        Whatever ends the iteration early (Ctrl-C, the caller) closes the procedures; what was yielded and saved stays.

        Raises:
            BackendError: the backend broke down.
        """
        waiting = iter(tasks)
        active: list[_Active[Result]] = []
        try:
            while True:
                yield from self._admit(waiting, active)
                if not active:
                    return
                self._answer([request for entry in active for request in entry.wanted])
                for entry in list(active):
                    outcome = self._advance(entry)
                    if outcome:
                        active.remove(entry)
                        yield outcome
                self._report()
        finally:
            for entry in active:
                entry.task.procedure.close()

    def run_one(self, procedure: Procedure[Result]) -> Result:
        """Run one procedure and return its result.

        Raises:
            UopscopeError: what ended it.
        """
        (outcome,) = list(self.run([Task("preparation", procedure, self._limits.requests_alone)]))
        if outcome.error:
            raise outcome.error
        return outcome.result  # type: ignore[return-value] # a task without error has a result of its procedure's type

    def _admit(self, waiting: Iterator[Task[Result]], active: list[_Active[Result]]) -> Iterator[Finished[Result]]:
        """Start tasks until enough are active; yield those that end without asking for anything."""
        while len(active) < self._limits.active:
            task = next(waiting, None)
            if task is None:
                return
            entry = _Active(task, (), {})
            outcome = self._send(entry, None)
            if outcome:
                yield outcome
            else:
                active.append(entry)

    def _answer(self, requests: Iterable[Request]) -> None:
        """See that all of these requests are known."""
        missing: dict[str, Request] = {}
        wanted = {request.key: request for request in requests}
        for key, request in wanted.items():
            if key in self._known:
                self._known[key] = self._known.pop(key)  # the last to be forgotten
            else:
                stored = self._source.lookup(request) if self._source else None
                if stored is None:
                    missing[key] = request
                else:
                    self._remember(self._measurer.conclude(request, stored))
        todo = list(missing.values())
        for start in range(0, len(todo), self._limits.batch):
            batch = todo[start : start + self._limits.batch]
            found = self._measurer.measure(batch)
            if self._source:
                self._source.save([(each.request, each.measurement) for each in found if each.measurement])
            for each in found:
                self._remember(each)
            self._measured += len(found)
            self._report()
        self._forget(len(self._known) - max(self._limits.remembered, len(wanted)))

    def _forget(self, count: int) -> None:
        for key in list(islice(self._known, max(0, count))):
            del self._known[key]

    def _remember(self, measured: Measured) -> None:
        kept = measured if self._limits.keep_raw else measured.without_samples()
        self._known[measured.request.key] = kept

    def _advance(self, entry: _Active[Result]) -> Finished[Result] | None:
        """Send a procedure what it asked for; return its outcome if it is done."""
        self._requests += len(entry.wanted)
        entry.used.update(dict.fromkeys(request.key for request in entry.wanted))
        return self._send(entry, [self._answer_to(request) for request in entry.wanted])

    def _answer_to(self, request: Request) -> Measured:
        """Return a request's result. Another request for the same code may have another purpose."""
        known = self._known[request.key]
        return known if known.request is request else dataclasses.replace(known, request=request)

    def _send(self, entry: _Active[Result], answers: Sequence[Measured] | None) -> Finished[Result] | None:
        """Resume a procedure; return its outcome if that was the end, else note what it asks for now."""
        try:
            # A generator that has not started takes nothing but None
            entry.wanted = entry.task.procedure.send(answers)  # type: ignore[arg-type]
        except StopIteration as end:
            return Finished(entry.task.name, end.value, None, tuple(entry.used))
        except UopscopeError as error:
            return Finished(entry.task.name, None, error, tuple(entry.used))
        except Exception as error:  # noqa: BLE001 - a fault in one variant's inference must not end a campaign
            broken = _fault(SessionError, entry, f"internal error: {type(error).__name__}: {error}")
            broken.__cause__ = error
            return Finished(entry.task.name, None, broken, tuple(entry.used))
        entry.rounds += 1
        requests = entry.task.most_requests or self._limits.requests_per_procedure
        rounds = self._limits.rounds_per_procedure
        if len(entry.used) + len(entry.wanted) > requests or entry.rounds > rounds:
            entry.task.procedure.close()
            endless = _fault(EndlessError, entry, f"asks for more than {requests} measurements or {rounds} rounds")
            return Finished(entry.task.name, None, endless, tuple(entry.used))
        return None

    def _report(self) -> None:
        if self._on_progress:
            self._on_progress(Progress(self._requests, self._measured))


def _fault(kind: type[SessionError], entry: _Active[Result], message: str) -> SessionError:
    return kind(f"{entry.task.name}: {message}", hint="this is a fault of uopscope, please report it")


def sample_of(request: Request, measurement: Measurement) -> Sample:
    """Return what a store keeps of an answered request."""
    benchmark = request.benchmark
    setup, body = (tuple(map(_CODE_AND_TEXT, lines)) for lines in (benchmark.setup, benchmark.body))
    return Sample(
        request.key, StoredBenchmark(benchmark.id, benchmark.purpose, benchmark.divisor, setup, body), measurement
    )


_CODE_AND_TEXT: Callable[[Line], tuple[bytes, str]] = attrgetter("code", "text")
