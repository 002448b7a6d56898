"""Simulated machines spread over processes: each has a backend and a session of its own, the parent alone writes.

Samples and conclusions of a chunk of variants come back together. What belongs to the machine (blocking instructions)
is measured once by the parent and given to every process. Only for machines that answer the same however often they
are asked: real CPUs are measured by one process.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from inference.characterizer import Characterizer
from runner.backend import BackendError
from runner.backends.registry import open_backend
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session, Task, sample_of
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.memory import collect_seldom

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from generator.sequences.blocking import CodeKind
    from inference.context import Context
    from inference.experiment import Request
    from inference.ports.blocking_instructions import BlockingSet
    from results.campaign.records import Sample
    from results.model import Characterization, Measurement

CHUNK = 16
"""Variants that a process does between two answers: what is lost at most when it is stopped."""

AHEAD = 2
"""Chunks per process that wait in the queue."""

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Spread:
    """Over how many processes a campaign is spread, and which backend each of them opens."""

    processes: int
    backend: str
    architecture: str | None
    thorough: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """What a process needs to set itself up: the backend, the machine's blocking instructions, all variants."""

    spread: Spread
    keys: tuple[str, ...]
    blocking: Mapping[CodeKind, BlockingSet]


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a process found: samples, and per variant the conclusion (or the error's text) with its requests."""

    samples: tuple[Sample, ...]
    results: tuple[tuple[str, Characterization | None, str, tuple[str, ...]], ...]


@dataclass(slots=True)
class _Memory:
    """A source of measurements that has none and collects what is new."""

    fresh: list[Sample] = field(default_factory=list)

    def lookup(self, _request: Request) -> Measurement | None:
        return None

    def save(self, measured: Sequence[tuple[Request, Measurement]]) -> None:
        for request, measurement in measured:
            self.fresh.append(sample_of(request, measurement))

    def take(self) -> tuple[Sample, ...]:
        taken, self.fresh = tuple(self.fresh), []
        return taken


@dataclass(slots=True)
class _Worker:
    """What one process works with."""

    catalogue: Catalogue
    characterizer: Characterizer
    context: Context
    session: Session
    memory: _Memory

    @classmethod
    def set_up(cls, order: Order) -> _Worker:
        catalogue = Catalogue.load()
        measurer = Measurer(open_backend(order.spread.backend, architecture=order.spread.architecture))
        memory = _Memory()
        session = Session(measurer, memory, Limits(keep_raw=False))
        characterizer = Characterizer(catalogue, measurer.info.capabilities, thorough=order.spread.thorough)
        return cls(catalogue, characterizer, characterizer.prepared(order.blocking), session, memory)

    def work(self, keys: Sequence[str]) -> Chunk:
        tasks = [Task(key, self.characterizer.characterize(self.catalogue.by_key(key), self.context)) for key in keys]
        results = tuple(
            (each.name, each.result, str(each.error or ""), each.requests) for each in self.session.run(tasks)
        )
        return Chunk(self.memory.take(), results)


_WORKERS: list[_Worker] = []
"""The one worker of this process."""


def _set_up(order: Order) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    collect_seldom()
    _WORKERS.append(_Worker.set_up(order))


def _work(keys: Sequence[str]) -> Chunk:
    return _WORKERS[0].work(keys)


def run(order: Order) -> Iterator[Chunk]:
    """Yield what the processes find, chunk by chunk; stops them when the caller stops.

    Raises:
        BackendError: a process could not be set up, or was killed.
    """
    keys, processes = order.keys, order.spread.processes
    chunks = deque(keys[start : start + CHUNK] for start in range(0, len(keys), CHUNK))
    with _pool(order, processes) as pool:
        pending: deque[Future[Chunk]] = deque()
        while chunks or pending:
            while chunks and len(pending) < processes * AHEAD:
                pending.append(pool.submit(_work, chunks.popleft()))
            try:
                yield pending.popleft().result()
            except BrokenProcessPool as error:
                raise BackendError(
                    "a process of the campaign ended early", hint="too little memory? Try fewer --jobs"
                ) from error


@contextmanager
def _pool(order: Order, processes: int) -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_set_up, initargs=(order,))
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
